"""The catalog of tables, kept in the keyspace.

Rules of this file: what must happen once is one conditional write (LWT) or one CREATE with an id
that all racing creators compute alike; a crash leaves a state that the next creator completes;
opening a table never changes the schema.
"""

from __future__ import annotations

import json
import logging
import random
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final
from uuid import UUID

from treering.core.ddl import render_alter_table, render_create_keyspace, render_create_table
from treering.core.table import CATALOG_FORMAT, TableSpec, check_format, check_unchanged
from treering.engine.cassandra import statements
from treering.engine.cassandra.bucket_index import BucketIndex, index_missing
from treering.engine.cassandra.creation_lock import CreationLock, is_creating
from treering.engine.cassandra.driver import ConsistencyLevel
from treering.engine.cassandra.faults import is_table_missing
from treering.engine.cassandra.link import Link
from treering.engine.cassandra.schema import column_differences, option_differences, table_id_of
from treering.engine.cassandra.series import SHARDS, SeriesList
from treering.engine.cassandra.server_facts import (
    check_replication,
    check_usable,
    not_durable_error,
)
from treering.engine.cassandra.statements import CatalogStatements, table_cql
from treering.errors import (
    EngineError,
    EngineTimeoutError,
    SchemaMismatchError,
    StoreBusyError,
    UsageError,
)

# The life of a table's row. A dropped one stays, so that the next table of that name is counted on.
_READY, _DROPPING, _DROPPED = "ready", "dropping", "dropped"
_STEPS_MAX: Final = 40
_PAUSE_MAX_S: Final = 0.5

Row = Mapping[str, Any]

log = logging.getLogger(__name__)


class Catalog:
    """The catalog of one keyspace, in it or, where one is named, in a keyspace of its own.

    Attributes:
        keyspace: Where it is.
        series: The series of its tables.
        buckets: The index of buckets that exist.
    """

    def __init__(
        self,
        link: Link,
        keyspace: str,
        *,
        replication: Mapping[str, int] | None = None,
        catalog_keyspace: str | None = None,
    ) -> None:
        self._link = link
        self.keyspace = self._keyspace = keyspace
        self._replication = replication
        self._place = catalog_keyspace or keyspace
        self._cql = CatalogStatements(keyspace, self._place)
        self._lock = CreationLock()
        self._is_made = False
        self._has_index = False
        self._shards: dict[tuple[str, int], int] = {}
        self.series = SeriesList(link, self._cql, self._shards_of, keyspace)
        self.buckets = BucketIndex(link, self._cql)

    # Reading

    def load(self, name: str) -> TableSpec | None:
        """Return the table as the catalog has it, verified; None where there is none.

        Raises:
            SchemaMismatchError: The table on the server is not what the catalog says.
            UsageError: The keyspace is not there.
        """
        row = self._read(name) if self._is_there() else None
        if row is None or row["state"] != _READY:
            return None
        spec = _spec_of(row)
        for difference in self._verify(spec):
            log.warning("the table %s: %s", name, difference)
        return spec

    def names(self) -> tuple[str, ...]:
        """Return the names of all tables that are ready, sorted."""
        if not self._is_there():
            return ()
        rows = self._link.query(self._cql.list_tables, what="listing the tables")
        return tuple(sorted(row["name"] for row in rows if row["state"] == _READY))

    def problems(self, spec: TableSpec) -> tuple[str, ...]:
        """Return what is wrong with the table on the server, each in one sentence."""
        try:
            return tuple(f"{text}." for text in self._verify(spec))
        except SchemaMismatchError as error:
            return (f"{error}.",)

    def check_durable(self, spec: TableSpec) -> None:
        """Refuse a table whose readings, or whose catalog, do not pass through the commit log.

        Raises:
            UsageError: Says the statement that makes its keyspace durable.
        """
        for keyspace in self._not_durable(spec.layout.keyspace or self._keyspace):
            raise not_durable_error(keyspace)

    def _not_durable(self, *keyspaces: str) -> Iterator[str]:
        """Yield those of these keyspaces, and of the catalog's, that are there and not durable."""
        for keyspace in dict.fromkeys((*keyspaces, self._place)):
            row = self._keyspace_row(keyspace)
            if row is not None and not row["durable_writes"]:
                yield keyspace

    def _check_own_durable(self) -> None:
        # A table of others is not written by adopting it.
        for keyspace in self._not_durable(self._keyspace):
            raise not_durable_error(keyspace)

    def created_s(self, spec: TableSpec) -> int | None:
        """Return when the table was entered into the catalog, in epoch seconds."""
        rows = self._link.query(
            self._cql.created, spec.name, what=f"reading the catalog's entry of {spec.name}"
        )
        write_us = next((row["write_us"] for row in rows), None)
        return None if write_us is None else write_us // 1_000_000

    def _shards_of(self, spec: TableSpec) -> int:
        key = (spec.name, spec.incarnation)
        if key not in self._shards:
            row = self._read(spec.name)
            if row is None or row["incarnation"] != spec.incarnation:
                raise dropped_error(spec.name)
            self._shards[key] = row["shards"]
        return self._shards[key]

    # Creating

    def plan_create(self, spec: TableSpec) -> tuple[str, ...]:
        """Return the statements that :meth:`create` would run that change the schema."""
        missing = self._missing_keyspaces()
        self._check_own_durable()
        row = self._read(spec.name) if not missing and self._has_catalog() else None
        incarnation = 1 if row is None else row["incarnation"] + (row["state"] == _DROPPED)
        keyspaces = tuple(map(self._create_keyspace_cql, missing))
        return (*keyspaces, *self._create_catalog_cql(), self._create_table_cql(spec, incarnation))

    def plan_adopt(self, spec: TableSpec) -> tuple[str, ...]:
        """Return what :meth:`create` would do for a table of others: never a change of it."""
        self._check_own_durable()
        keyspaces = tuple(map(self._create_keyspace_cql, self._missing_keyspaces()))
        ddl = () if not keyspaces and self._has_catalog() else self._create_catalog_cql()
        place = table_cql(self._keyspace, spec.layout)
        return (*keyspaces, *ddl, f"enter {place} into the catalog as {spec.name}")

    def create(self, spec: TableSpec) -> TableSpec:
        """Make the table, or return the equal one that is there or is being made.

        A table of others is entered into the catalog and otherwise left alone.

        Raises:
            SchemaMismatchError: Another design, or a table that treering did not make.
            UsageError: The keyspace is not there and no replication was given, or it is there
                and not durable.
            StoreBusyError: Others kept changing the same table.
        """
        self._check_own_durable()
        self._ensure_catalog(spec.name)
        for step in range(_STEPS_MAX):
            try:
                made = self._step_to_ready(spec)
            except EngineError as error:
                # Whether a conditional write took place is seen by reading again, and a table
                # that another creator is just making stands in the schema before it can be used.
                if not (isinstance(error, EngineTimeoutError) or is_table_missing(error)):
                    raise
                log.info("creating %s: %s; looking again", spec.name, error)
                made = None
            if made is not None:
                return made
            _pause(step)
        raise _too_busy(spec.name, "created")

    def _step_to_ready(self, spec: TableSpec) -> TableSpec | None:
        """Go one step further; return the table once it is ready."""
        row = self._read(spec.name, is_serial=True)
        state = None if row is None else row["state"]
        if row is None or state == _DROPPED:
            if not spec.is_adopted:
                self._check_name_is_free(spec.name, row)
            self._claim(spec, row)
            return None
        if state == _DROPPING:
            self._finish_drop(row)
            return None
        there = _spec_of(row)
        there.check_same_as(spec)
        if is_creating(state):
            self._create_or_wait(there, str(state))
            return None
        if state != _READY:
            raise SchemaMismatchError(
                f"the catalog has the table {spec.name!r} in the unknown state {state!r}",
                hint="upgrade treering",
            )
        self._verify(there)
        return there

    def _check_name_is_free(self, name: str, row: Row | None) -> None:
        # A table of ours comes after its row, so one without a row is from elsewhere, unless
        # both came since the row was looked for.
        if self._table_row(name) is None:
            return
        again = self._read(name, is_serial=True)
        if again is None or (row is not None and again["incarnation"] == row["incarnation"]):
            raise self._from_elsewhere(name)

    def _claim(self, spec: TableSpec, dropped: Row | None) -> None:
        incarnation = 1 if dropped is None else dropped["incarnation"] + 1
        record = json.dumps(spec.with_incarnation(incarnation).to_json())
        values = (CATALOG_FORMAT, incarnation, self._lock.held, SHARDS, record, spec.name)
        what = f"entering the table {spec.name} into the catalog"
        if dropped is None:
            self._link.write(self._cql.claim_new, *values, what=what, is_conditional=True)
        else:
            before = (_DROPPED, dropped["incarnation"])
            self._link.write(
                self._cql.claim_again, *values, *before, what=what, is_conditional=True
            )

    def _create_or_wait(self, spec: TableSpec, state: str) -> None:
        """Create the table where this process holds the lock; else wait, and take over at last."""
        if state == self._lock.held:
            self._finish_create(spec)
        elif self._lock.wait(state, lambda: self._state_of(spec.name)):
            self._set_state(spec.name, spec.incarnation, state, self._lock.held)

    def _state_of(self, name: str) -> str | None:
        row = self._read(name, is_serial=True)
        return None if row is None else row["state"]

    def _finish_create(self, spec: TableSpec) -> None:
        what = f"creating the table {spec.name}"
        if spec.is_adopted:
            self._verify(spec)
            self._set_state(spec.name, spec.incarnation, self._lock.held, _READY)
            return
        # Sent even where the table is listed already: it stands in the schema before it can be
        # used, and the statement returns once it can.
        self._link.run_ddl(self._create_table_cql(spec, spec.incarnation), what)
        found = self._table_row(spec.name)
        if found is not None and found["id"] != self._table_id(spec.name, spec.incarnation):
            raise self._from_elsewhere(spec.name)
        self._set_state(spec.name, spec.incarnation, self._lock.held, _READY)

    # Altering

    def plan_alter(self, before: TableSpec, after: TableSpec) -> tuple[str, ...]:
        """Return what :meth:`alter` would run: nothing where all is done."""
        steps = (self._alter_cql(after),) if self._is_alter_needed(before, after) else ()
        if before == after:
            return steps
        entry = (f"change the entry of {after.name} in the catalog, if nobody else has",)
        return steps + entry if _keeps_longer(before, after) else entry + steps

    def alter(self, before: TableSpec, after: TableSpec) -> None:
        """Give the table another retention, on the server and in the catalog.

        Whichever keeps readings longer comes first, so that at no time, and after no crash, a
        reading dies before the catalog says.

        Raises:
            SchemaMismatchError: Another process has changed the table meanwhile.
            StoreBusyError: Others kept changing it.
        """
        what = f"altering the table {after.name}"
        is_needed = self._is_alter_needed(before, after)
        if is_needed and _keeps_longer(before, after):
            self._link.run_ddl(self._alter_cql(after), what)
        self._enter_change(before, after)
        if is_needed and not _keeps_longer(before, after):
            self._link.run_ddl(self._alter_cql(after), what)

    def _enter_change(self, before: TableSpec, after: TableSpec) -> None:
        record = json.dumps(after.to_json())
        for step in range(_STEPS_MAX):
            row = self._read(before.name, is_serial=True)
            if row is None or row["state"] != _READY:
                raise dropped_error(before.name)
            there = _spec_of(row)
            check_unchanged(there, before, after)
            if there == after:
                return
            try:
                self._link.write(
                    self._cql.set_record,
                    *(record, after.name, _READY, row["incarnation"], row["record"]),
                    what=f"entering the change of {after.name} into the catalog",
                    is_conditional=True,
                )
            except EngineTimeoutError as error:
                # Whether it took place is seen by the next serial read.
                log.info("altering %s: %s; looking again", after.name, error)
                _pause(step)
        raise _too_busy(before.name, "altered")

    def _is_alter_needed(self, before: TableSpec, after: TableSpec) -> bool:
        found = self._table_row(after.name)
        return found is not None and (before != after or bool(option_differences(after, found)))

    def _alter_cql(self, spec: TableSpec) -> str:
        return render_alter_table(spec.design, keyspace=self._keyspace, table=spec.name)

    # Dropping

    def drop(self, spec: TableSpec) -> None:
        """Remove the table with its series; the catalog keeps how many of the name there were.

        Raises:
            SchemaMismatchError: It was dropped and created anew since ``spec`` was loaded.
        """
        for step in range(_STEPS_MAX):
            row = self._read(spec.name, is_serial=True) if self._is_there() else None
            if row is None or row["state"] == _DROPPED:
                return
            check_format(row["format"], f"the table {spec.name!r}")
            if row["incarnation"] != spec.incarnation:
                raise dropped_error(spec.name)
            try:
                if row["state"] == _DROPPING:
                    self._finish_drop(row)
                else:
                    self._set_state(spec.name, spec.incarnation, row["state"], _DROPPING)
            except EngineTimeoutError as error:
                log.info("dropping %s: %s; looking again", spec.name, error)
                _pause(step)
        raise _too_busy(spec.name, "dropped")

    def _finish_drop(self, row: Row) -> None:
        name, incarnation = row["name"], row["incarnation"]
        found = None if _spec_of(row).is_adopted else self._table_row(name)
        if found is not None and found["id"] == self._table_id(name, incarnation):
            what = f"dropping the table {name}"
            self._link.run_ddl(self._cql.drop_table(name), what)
        spec = _spec_of(row)
        self.buckets.drop(spec, self.series.names(spec))
        self.series.drop(name, incarnation, row["shards"])
        self._set_state(name, incarnation, _DROPPING, _DROPPED)

    # Verifying

    def _verify(self, spec: TableSpec) -> tuple[str, ...]:
        """Return differences that are only told.

        Raises:
            SchemaMismatchError: Readings would not be found, or would not be what they were.
        """
        layout = spec.layout
        place = (layout.keyspace or self._keyspace, layout.table)
        found = self._table_row(place[1], keyspace=place[0])
        if found is None:
            raise SchemaMismatchError(
                f"the catalog has the table {spec.name!r}, the keyspace {place[0]} has not",
                hint="restore it from a backup, or drop it in treering and create it again",
            )
        is_own = not spec.is_adopted
        if is_own and found["id"] != self._table_id(spec.name, spec.incarnation):
            raise self._from_elsewhere(spec.name)
        if spec.index_trusted and not self._is_index_there():
            raise index_missing(self._keyspace)
        columns = self._link.query(
            statements.COLUMNS,
            *place,
            what=f"reading the schema of {spec.name}",
            consistency=ConsistencyLevel.ONE,
        )
        differences = column_differences(spec, columns)
        if differences:
            raise SchemaMismatchError(
                f"the table {spec.name!r} was altered: {'; '.join(differences)}",
                hint="undo the change, or drop the table and create it again"
                if is_own
                else "undo the change, or drop it in treering, which leaves it as it is, and adopt "
                "it again",
                differences=differences,
            )
        lost = tuple(map(str, map(not_durable_error, self._not_durable(place[0]))))
        return (*option_differences(spec, found), *lost)

    def _from_elsewhere(self, name: str, keyspace: str | None = None) -> SchemaMismatchError:
        return SchemaMismatchError(
            f"the schema of the table {keyspace or self._keyspace}.{name} is from elsewhere: "
            "it is not the table that treering made or would make",
            hint="choose another name, or drop that table with cqlsh",
        )

    # Requests

    def _read(self, name: str, *, is_serial: bool = False) -> Row | None:
        rows = self._link.query(
            self._cql.read_table,
            name,
            what=f"reading the catalog's entry of {name}",
            consistency=ConsistencyLevel.SERIAL if is_serial else None,
        )
        return next(rows, None)

    def _set_state(self, name: str, incarnation: int, before: str, after: str) -> None:
        # Whether it was applied is seen by the next serial read, after a timeout too.
        self._link.write(
            self._cql.set_state,
            *(after, name, before, incarnation),
            what=f"noting that the table {name} is {after}",
            is_conditional=True,
        )

    def _table_row(self, name: str, keyspace: str | None = None) -> Row | None:
        rows = self._link.query(
            statements.TABLE,
            *(keyspace or self._keyspace, name),
            what=f"looking for the table {name}",
            consistency=ConsistencyLevel.ONE,
        )
        return next(rows, None)

    def _table_id(self, name: str, incarnation: int = 0) -> UUID:
        # The catalog's own tables are number 0 of their names, in the keyspace of the catalog.
        keyspace = self._keyspace if incarnation else self._place
        return table_id_of(self._link.cluster_name, keyspace, name, incarnation)

    # The keyspace and the catalog's own tables

    def _is_there(self) -> bool:
        """Return whether the catalog is there.

        A keyspace that is not is an error, unless creating a table would create it.
        """
        if self._has_catalog():
            return True
        self._missing_keyspaces()
        return False

    def _ensure_catalog(self, name: str) -> None:
        if self._is_made and self._has_index:
            return
        for keyspace in self._missing_keyspaces():
            what = f"creating the keyspace {keyspace}"
            self._link.run_ddl(self._create_keyspace_cql(keyspace), what)
        # The index came later than the rest: an older catalog lacks it.
        if not self._has_catalog() or not self._is_index_there():
            what = f"creating the catalog of {self._keyspace} for {name}"
            # Another creator may have made the keyspace a moment ago, on another node.
            self._link.await_schema_agreement(what)
            for statement in self._create_catalog_cql():
                self._link.run_ddl(statement, what)
        else:
            # Another creator may have made it a moment ago, on another node.
            self._link.await_schema_agreement(f"opening the catalog of {self._keyspace}")
        self._is_made = self._has_index = True

    def _missing_keyspaces(self) -> tuple[str, ...]:
        """Return the keyspaces that creating a table has to create first.

        Raises:
            UsageError: One is missing, and no replication was given.
        """
        needed = dict.fromkeys((self._keyspace, self._place))
        missing = tuple(keyspace for keyspace in needed if not self._has_keyspace(keyspace))
        if missing and self._replication is None:
            raise self._no_keyspace(missing[0])
        for keyspace in missing:
            nodes = self._link.nodes_by_datacentre()
            check_replication(keyspace, self._replication or {}, nodes)
        return missing

    def _has_keyspace(self, keyspace: str) -> bool:
        row = self._keyspace_row(keyspace)
        if row is not None:
            check_usable(keyspace, row["replication"], self._link.nodes_by_datacentre())
        return row is not None

    def _keyspace_row(self, keyspace: str) -> Row | None:
        rows = self._link.query(
            statements.KEYSPACE,
            keyspace,
            what=f"looking for the keyspace {keyspace}",
            consistency=ConsistencyLevel.ONE,
        )
        return next(rows, None)

    def _has_catalog(self) -> bool:
        if self._is_made:
            return True
        names = (self._cql.tables_name, self._cql.series_name, self._cql.tags_name)
        rows = {name: self._table_row(name, self._place) for name in names}
        for name, row in rows.items():
            if row is not None and row["id"] != self._table_id(name):
                raise self._from_elsewhere(name, self._place)
        self._is_made = all(row is not None for row in rows.values())
        return self._is_made

    def _is_index_there(self) -> bool:
        if not self._has_index:
            name = self._cql.buckets_name
            row = self._table_row(name, self._place)
            if row is not None and row["id"] != self._table_id(name):
                raise self._from_elsewhere(name, self._place)
            self._has_index = row is not None
        return self._has_index

    def _no_keyspace(self, keyspace: str) -> UsageError:
        return UsageError(
            f"there is no keyspace {keyspace} on {self._link.where}",
            hint="create it, for instance with: "
            + " ".join(self._create_keyspace_cql(keyspace).split())
            + ";",
            keyspace=keyspace,
        )

    def _create_keyspace_cql(self, keyspace: str) -> str:
        replicas = min(max(len(self._link.local_hosts()), 1), 3)
        replication = self._replication or {self._link.local_dc: replicas}
        return render_create_keyspace(keyspace, replication)

    def _create_catalog_cql(self) -> tuple[str, ...]:
        return (
            self._cql.create_tables(self._table_id(self._cql.tables_name)),
            self._cql.create_series(self._table_id(self._cql.series_name)),
            self._cql.create_buckets(self._table_id(self._cql.buckets_name)),
            self._cql.create_tags(self._table_id(self._cql.tags_name)),
        )

    def _create_table_cql(self, spec: TableSpec, incarnation: int) -> str:
        return render_create_table(
            spec.design,
            keyspace=self._keyspace,
            table=spec.name,
            table_id=self._table_id(spec.name, incarnation),
            if_not_exists=True,
        )


def dropped_error(name: str) -> SchemaMismatchError:
    """Return the error for a table that is not the one that was opened any more."""
    return SchemaMismatchError(
        f"the table {name!r} was dropped",
        hint="open it again; it may have been created anew with another design",
    )


def _keeps_longer(before: TableSpec, after: TableSpec) -> bool:
    return (after.default_ttl_s or 0) >= (before.default_ttl_s or 0)


def _spec_of(row: Row) -> TableSpec:
    name = row["name"]
    check_format(row["format"], f"the table {name!r}")
    try:
        record = json.loads(row["record"])
    except (TypeError, ValueError) as error:
        raise SchemaMismatchError(
            f"the catalog's record of the table {name!r} is not JSON: {error}",
            hint="restore the catalog from a backup",
        ) from error
    return TableSpec.from_json(record).with_incarnation(row["incarnation"])


def _too_busy(name: str, done: str) -> StoreBusyError:
    return StoreBusyError(
        f"the table {name!r} was not {done} in {_STEPS_MAX} steps: others change it too",
        hint="do it again",
    )


def _pause(step: int) -> None:
    # Racing creators that meet in a conditional write step apart.
    time.sleep(random.uniform(0.0, min(0.01 * 2 ** min(step, 8), _PAUSE_MAX_S)))  # noqa: S311
