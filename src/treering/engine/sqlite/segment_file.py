"""One segment's file: readings of one slice of event time, in a SQLite file that stands alone.

Rules of this file: a file is used only after it has said whose it is; what is acknowledged was
committed into the file that the name still means: expiry of another process may have unlinked
it, so the name is compared with the open file under the write lock, before anything is written.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any, Final

import numpy as np

from treering.core.columns import ColumnData, empty_column
from treering.core.read_plan import Order
from treering.core.schema import Column, ColumnType
from treering.core.segment import Segment
from treering.core.table import TableSpec
from treering.engine.deletions import Deletion, dead_mask, with_deletion
from treering.engine.sqlite import sql
from treering.engine.sqlite.cells import decode_column, is_newer_on_tie
from treering.engine.sqlite.database import (
    connect,
    create_database,
    immediate,
    inode_of,
    make_durable,
    unlink_database,
)
from treering.engine.sqlite.failures import corrupt, translated
from treering.engine.sqlite.layout import sidecars
from treering.errors import EngineError, SchemaMismatchError, TreeringError

_OPEN_ATTEMPTS: Final = 5
_SERIES_CACHED_MAX: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentIdentity:
    """What a segment's file says that it is.

    Attributes:
        store: Id of the store.
        spec: The table.
        segment: The slice of event time.
    """

    store: str
    spec: TableSpec
    segment: Segment

    def to_meta(self) -> dict[str, str]:
        """Return the file's record of it."""
        return {
            "store": self.store,
            "table": self.spec.name,
            "incarnation": str(self.spec.incarnation),
            "precision": str(self.spec.precision),
            "columns": ",".join(f"{column.name}:{column.type}" for column in self.spec.columns),
            "start_s": str(self.segment.start_s),
            "end_s": str(self.segment.end_s),
        }


@dataclass(frozen=True, slots=True)
class Batch:
    """Readings of one series inside one segment, ready to bind.

    Attributes:
        series: The series id.
        ts: Event times, ascending.
        columns: The columns written.
        values: For each of them its values, None where missing.
        write_us: The write time of every cell.
    """

    series: str
    ts: list[int]
    columns: tuple[Column, ...]
    values: list[list[Any]]
    write_us: int


def create_segment(path: Path, identity: SegmentIdentity) -> None:
    """Make a segment's file, durably; what is there stays. The caller holds the catalog's lock.

    Raises:
        EngineError: The disk is full, or the folder does not permit it.
    """

    def fill(connection: sqlite3.Connection) -> None:
        connection.execute(sql.META_TABLE)
        connection.execute(sql.SERIES_TABLE)
        connection.execute(sql.DELETIONS_TABLE)
        connection.execute(sql.readings_table(identity.spec.columns))
        connection.executemany("INSERT INTO meta VALUES(?, ?)", identity.to_meta().items())

    with translated(path, "creating"):
        if path.exists():
            return
        # A crash in expiry may have left the log of an earlier file of this name; SQLite would
        # replay it into the new one.
        for sidecar in sidecars(path):
            sidecar.unlink(missing_ok=True)
        create_database(
            path, application_id=sql.APPLICATION_ID, format_version=sql.FORMAT, fill=fill
        )


class SegmentFile:
    """An open segment. One thread at a time; the pool sees to that."""

    def __init__(
        self,
        path: Path,
        identity: SegmentIdentity,
        connection: sqlite3.Connection,
        *,
        inode: int,
        busy_timeout_s: float,
    ) -> None:
        self.path = path
        self.identity = identity
        self._connection = connection
        self._inode = inode
        self._busy_timeout_s = busy_timeout_s
        self._ids: dict[str, int] = {}
        self._write_sql: dict[tuple[Column, ...], sql.WriteSql] = {}

    @classmethod
    def open(
        cls, path: Path, identity: SegmentIdentity, *, busy_timeout_s: float
    ) -> SegmentFile | None:
        """Open a segment's file and check what it says; None where there is none.

        Raises:
            CorruptDataError: Damaged, foreign, or another segment's file.
            SchemaMismatchError: Written by a newer release.
        """
        for _ in range(_OPEN_ATTEMPTS):
            inode = inode_of(path)
            if inode is None:
                return None
            connection: sqlite3.Connection | None = None
            try:
                with translated(path, "opening", waited_s=busy_timeout_s):
                    connection = connect(path, busy_timeout_s=busy_timeout_s)
                    _check_identity(connection, path, identity)
                    make_durable(connection, path)
                    _add_deletions(connection)
                    _add_functions(connection)
            except BaseException as error:
                _close(connection)
                # While a file is being unlinked, SQLite stumbles over whatever is gone first.
                if isinstance(error, TreeringError) and inode_of(path) != inode:
                    continue
                raise
            # SQLite opens by name: only what had one inode before and after is surely this file.
            if inode_of(path) == inode:
                return cls(path, identity, connection, inode=inode, busy_timeout_s=busy_timeout_s)
            connection.close()
        raise EngineError(f"{path} was replaced {_OPEN_ATTEMPTS} times while it was being opened")

    def is_current(self) -> bool:
        """Return whether the name still means this file."""
        return inode_of(self.path) == self._inode

    def write(self, batches: Sequence[Batch]) -> bool:
        """Merge readings in, durably, in one commit.

        Returns:
            False, with nothing written, where the file has been removed meanwhile.

        Raises:
            StoreBusyError: Another process wrote for longer than the bounded wait.
            CorruptDataError: The file is damaged.
            EngineError: The disk is full, or not writable.
        """
        added: dict[str, int] = {}
        with translated(self.path, "writing to", waited_s=self._busy_timeout_s):
            with immediate(self._connection):
                if not self.is_current():
                    return False
                for batch in batches:
                    series_id = added.get(batch.series) or self._listed(batch.series)
                    added[batch.series] = series_id
                    self._merge(series_id, batch)
            # Only now: a rolled-back id must not be remembered.
            for series, series_id in added.items():
                self._remember(series, series_id)
        return True

    def delete(self, series: str, deletion: Deletion) -> bool:
        """Take cells out, durably, and remember that they are dead; as :meth:`write` otherwise."""
        statements = sql.delete_sql(self.identity.spec.columns)
        stamps = (deletion.write_us,) * statements.marks
        with (
            translated(self.path, "deleting from", waited_s=self._busy_timeout_s),
            immediate(self._connection),
        ):
            if not self.is_current():
                return False
            series_id = self._listed(series)
            inside = (series_id, deletion.start, deletion.end)
            self._connection.execute(statements.rows, (*stamps, *inside))
            if statements.cells is not None:
                self._connection.execute(statements.cells, (*stamps, *inside))
            there = [
                Deletion(*row) for row in self._connection.execute(sql.DELETIONS_OF, inside[:1])
            ]
            self._connection.execute(sql.FORGET_DELETIONS, inside[:1])
            self._connection.executemany(
                sql.REMEMBER_DELETION,
                [(series_id, d.start, d.end, d.write_us) for d in with_deletion(there, deletion)],
            )
        return True

    def _living(self, series_id: int, batch: Batch) -> Batch:
        """Return the batch without readings that were deleted at its write time or later."""
        found = self._connection.execute(
            sql.DELETIONS, (series_id, batch.ts[-1], batch.ts[0], batch.write_us)
        ).fetchall()
        if not found:
            return batch
        ts = np.array(batch.ts, dtype=np.int64)
        dead = dead_mask([Deletion(*row) for row in found], ts, batch.write_us)
        alive = np.flatnonzero(~dead).tolist()
        values = [[column[index] for index in alive] for column in batch.values]
        return Batch(batch.series, ts[~dead].tolist(), batch.columns, values, batch.write_us)

    def _merge(self, series_id: int, batch: Batch) -> None:
        batch = self._living(series_id, batch)
        if not batch.ts:
            return
        statements = self._write_sql.get(batch.columns)
        if statements is None:
            statements = sql.write_sql(batch.columns, self.identity.spec.columns)
            self._write_sql[batch.columns] = statements
        first_last = (series_id, batch.ts[0], batch.ts[-1])
        is_fresh = self._connection.execute(sql.ANY_READING, first_last).fetchone() is None
        self._connection.executemany(
            statements.insert if is_fresh else statements.upsert,
            zip(repeat(series_id), batch.ts, *batch.values, repeat(batch.write_us)),
        )

    def _listed(self, series: str) -> int:
        found = self._id_of(series)
        if found is not None:
            return found
        added = self._connection.execute("INSERT INTO series(name) VALUES(?)", (series,))
        return int(added.lastrowid or 0)

    def _id_of(self, series: str) -> int | None:
        found = self._ids.get(series)
        if found is not None:
            return found
        row = self._connection.execute("SELECT id FROM series WHERE name = ?", (series,)).fetchone()
        return None if row is None else int(row[0])

    def _remember(self, series: str, series_id: int) -> None:
        if len(self._ids) >= _SERIES_CACHED_MAX:
            self._ids.clear()
        self._ids[series] = series_id

    def read(
        self,
        series: str,
        columns: Sequence[Column],
        *,
        start: int,
        end: int,
        order: Order,
        rows_max: int,
    ) -> tuple[Sequence[int], Mapping[str, ColumnData]]:
        """Return up to ``rows_max`` event times in ``[start, end)``, in order, and their values.

        Raises:
            CorruptDataError: The file is damaged where the read touches it.
        """
        with translated(self.path, "reading", waited_s=self._busy_timeout_s):
            series_id = self._id_of(series)
            if series_id is None:
                return (), {column.name: empty_column(column.type) for column in columns}
            self._remember(series, series_id)
            rows = self._connection.execute(
                sql.read_sql(columns, order), (series_id, start, end, rows_max)
            ).fetchall()
        if not rows:
            return (), {column.name: empty_column(column.type) for column in columns}
        ts, *values = zip(*rows, strict=True)
        return ts, {
            column.name: decode_column(kept, column.type, self.path)
            for column, kept in zip(columns, values, strict=True)
        }

    def edge_ts(self, series: str, *, start: int, end: int, is_newest: bool) -> int | None:
        """Return the newest or the oldest event time of ``[start, end)``; None where none is."""
        with translated(self.path, "reading", waited_s=self._busy_timeout_s):
            series_id = self._id_of(series)
            if series_id is None:
                return None
            statement = sql.NEWEST_READING if is_newest else sql.OLDEST_READING
            row = self._connection.execute(statement, (series_id, start, end)).fetchone()
        return None if row[0] is None else int(row[0])

    def remove(self, name_lock: Callable[[], AbstractContextManager[object]]) -> bool:
        """Unlink the file under its write lock, so that no write is under way in it.

        Args:
            name_lock: Gives the lock under which names are given and taken (the catalog's). It is
                asked for second: no one waits for a segment while holding it.

        Returns:
            False where another process has removed it already.
        """
        with (
            translated(self.path, "removing", waited_s=self._busy_timeout_s),
            immediate(self._connection),
        ):
            if not self.is_current():
                return False
            with name_lock():
                unlink_database(self.path)
        return True

    def series_count(self) -> int:
        """Return how many series have readings here."""
        with translated(self.path, "reading", waited_s=self._busy_timeout_s):
            return int(self._connection.execute("SELECT count(*) FROM series").fetchone()[0])

    def quick_check(self) -> str:
        """Return what SQLite finds wrong, in words; empty where nothing is.

        Cost: reads the whole file.
        """
        try:
            found = self._connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        except sqlite3.DatabaseError as error:
            return str(error)
        return "" if found == "ok" else str(found)

    def close(self) -> None:
        """Close the file; what was committed is safe without it."""
        _close(self._connection)


def _close(connection: sqlite3.Connection | None) -> None:
    if connection is not None:
        with suppress(sqlite3.Error):
            connection.close()


def _add_deletions(connection: sqlite3.Connection) -> None:
    # Files of the first format have no deletions yet.
    found = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'deletions'").fetchone()
    if found is None:
        statement = sql.DELETIONS_TABLE.replace("TABLE", "TABLE IF NOT EXISTS", 1)
        connection.execute(statement)


def _add_functions(connection: sqlite3.Connection) -> None:
    for column_type in ColumnType:
        connection.create_function(
            sql.tie_function(column_type),
            2,
            partial(is_newer_on_tie, column_type),
            deterministic=True,
        )


def _check_identity(connection: sqlite3.Connection, path: Path, identity: SegmentIdentity) -> None:
    check_header(connection, path, application_id=sql.APPLICATION_ID, format_version=sql.FORMAT)
    schema = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'"))
    wanted = {
        "meta": sql.META_TABLE,
        "series": sql.SERIES_TABLE,
        "deletions": sql.DELETIONS_TABLE,
        "readings": sql.readings_table(identity.spec.columns),
    }
    schema.setdefault("deletions", sql.DELETIONS_TABLE)
    if schema != wanted:
        wrong = sorted(n for n in {*schema, *wanted} if schema.get(n) != wanted.get(n))
        raise corrupt(
            path,
            found=f"other tables than a segment has ({', '.join(wrong)})",
            expected=f"a segment of {identity.spec.name}",
        )
    meta, expected = dict(connection.execute("SELECT key, value FROM meta")), identity.to_meta()
    for key, value in expected.items():
        if meta.get(key) != value:
            raise corrupt(path, found=f"{key} {meta.get(key)}", expected=f"{key} {value}")


def check_header(
    connection: sqlite3.Connection, path: Path, *, application_id: int, format_version: int
) -> None:
    """Check whose file this is, before anything else is done with it.

    Raises:
        CorruptDataError: Not a file of that kind.
        SchemaMismatchError: Written by a newer release.
    """
    (found_id,) = connection.execute("PRAGMA application_id").fetchone()
    (found_version,) = connection.execute("PRAGMA user_version").fetchone()
    if found_id != application_id:
        raise corrupt(
            path,
            found=f"application id {found_id:#010x}",
            expected=f"{application_id:#010x}, treering's",
        )
    if found_version > format_version:
        raise SchemaMismatchError(
            f"{path} has format {found_version}; this release reads up to {format_version}",
            hint="upgrade treering",
            path=str(path),
        )
