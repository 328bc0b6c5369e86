"""The catalog: which tables a store has, and which series each lists.

Rules of this file: a table is there if and only if its record is; every change is one transaction;
a dropped table leaves its number behind, so that the next of its name never meets its files. The
catalog's write lock also orders the making and removing of segment files among processes.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from treering.core.table import TableSpec, check_unchanged
from treering.engine.sqlite.database import connect, create_database, immediate, make_durable
from treering.engine.sqlite.failures import busy, corrupt, translated
from treering.engine.sqlite.segment_identity import check_header
from treering.engine.sqlite.series import SERIES_TABLES, SeriesList
from treering.errors import SchemaMismatchError, StoreClosedError, UsageError

APPLICATION_ID: Final = 0x54526374  # "TRct"
FORMAT: Final = 2

_TABLES: Final = (
    "CREATE TABLE store(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    # record is the table as JSON; NULL once it was dropped.
    "CREATE TABLE tables(name TEXT PRIMARY KEY, incarnation INTEGER NOT NULL, record TEXT)"
    " WITHOUT ROWID",
    *SERIES_TABLES,
)


def dropped(spec: TableSpec) -> SchemaMismatchError:
    """Return the error for a table that is no longer the one the caller opened."""
    return SchemaMismatchError(
        f"the table {spec.name!r} was dropped",
        hint="open it again; it may have been created anew with another design",
    )


def create_catalog(path: Path) -> None:
    """Make an empty catalog, durably; one that is there stays."""

    def fill(connection: sqlite3.Connection) -> None:
        for statement in _TABLES:
            connection.execute(statement)
        connection.execute("INSERT INTO store VALUES('id', ?)", (secrets.token_hex(8),))

    with translated(path, "creating"):
        create_database(path, application_id=APPLICATION_ID, format_version=FORMAT, fill=fill)


class Catalog:
    """An open catalog. Any thread may use it."""

    def __init__(self, path: Path, *, busy_timeout_s: float) -> None:
        """Open the catalog and check what it says.

        Raises:
            UsageError: Another application's file.
            CorruptDataError: Damaged.
            SchemaMismatchError: Written by a newer release.
        """
        self.path = path
        self._busy_timeout_s = busy_timeout_s
        self._lock = threading.RLock()
        self._closed = False
        self._connection: sqlite3.Connection | None = None
        self.store_id = ""
        self.series = SeriesList(self)
        with self._held("opening"):
            pass

    def _connect(self) -> sqlite3.Connection:
        connection = connect(self.path, busy_timeout_s=self._busy_timeout_s)
        try:
            self._check(connection)
            make_durable(connection, self.path)
            row = connection.execute("SELECT value FROM store WHERE key = 'id'").fetchone()
            if row is None:
                raise corrupt(self.path, found="no store id", expected="a catalog of treering")
        except BaseException:
            connection.close()
            raise
        self.store_id = str(row[0])
        return connection

    def _check(self, connection: sqlite3.Connection) -> None:
        (found,) = connection.execute("PRAGMA application_id").fetchone()
        if found not in (0, APPLICATION_ID):
            raise UsageError(
                f"{self.path} belongs to another application (id {found:#010x})",
                hint="choose an empty folder, or one that treering made",
            )
        check_header(connection, self.path, application_id=APPLICATION_ID, format_version=FORMAT)
        (found_version,) = connection.execute("PRAGMA user_version").fetchone()
        if found_version < FORMAT:
            raise SchemaMismatchError(
                f"{self.path} has format {found_version}; this release reads format {FORMAT}",
                hint="export the readings with the release that wrote them, and import them anew",
                path=str(self.path),
            )
        rows = connection.execute("SELECT sql FROM sqlite_master WHERE type = 'table'")
        if {statement for (statement,) in rows} != set(_TABLES):
            raise corrupt(self.path, found="other tables", expected="those of a catalog")

    @contextmanager
    def _held(self, doing: str) -> Iterator[sqlite3.Connection]:
        if not self._lock.acquire(timeout=self._busy_timeout_s):
            raise busy(self.path, self._busy_timeout_s, holder="another thread of this process")
        try:
            if self._closed:
                raise StoreClosedError("the store is closed", hint="open it again")
            with translated(self.path, doing, waited_s=self._busy_timeout_s):
                if self._connection is None:
                    self._connection = self._connect()
                yield self._connection
        finally:
            self._lock.release()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Hold the connection for a read."""
        with self._held("reading") as connection:
            yield connection

    @contextmanager
    def locked(self) -> Iterator[sqlite3.Connection]:
        """Hold the store's one write lock: all processes make and remove files under it.

        Raises:
            StoreBusyError: It was not granted within the bounded wait.
        """
        with self._held("writing to") as connection, immediate(connection):
            yield connection

    def create(self, spec: TableSpec, make_folder: Callable[[TableSpec], None]) -> TableSpec:
        """Return the table with its number in the catalog, entered if it was not there.

        Args:
            spec: What is wanted.
            make_folder: Makes the table's folder; is called before the entry is committed.

        Raises:
            SchemaMismatchError: One of that name with another design is there.
        """
        with self.locked() as connection:
            row = connection.execute(
                "SELECT incarnation, record FROM tables WHERE name = ?", (spec.name,)
            ).fetchone()
            if row is not None and row[1] is not None:
                there = self._parsed(spec.name, row[1])
                there.check_same_as(spec)
                return there
            made = spec.with_incarnation(1 if row is None else row[0] + 1)
            make_folder(made)
            connection.execute(
                "INSERT OR REPLACE INTO tables VALUES(?, ?, ?)",
                (made.name, made.incarnation, json.dumps(made.to_json())),
            )
        return made

    def load(self, name: str) -> TableSpec | None:
        """Return the table of that name; None where there is none.

        Raises:
            SchemaMismatchError: A record of a newer release.
            CorruptDataError: A record that is not one.
        """
        with self._held("reading") as connection:
            row = connection.execute("SELECT record FROM tables WHERE name = ?", (name,)).fetchone()
        return None if row is None or row[0] is None else self._parsed(name, row[0])

    def _parsed(self, name: str, record: str) -> TableSpec:
        try:
            return TableSpec.from_json(json.loads(record))
        except (json.JSONDecodeError, AttributeError) as error:
            raise corrupt(
                self.path, found=f"an unreadable record of {name!r}", expected="a table as JSON"
            ) from error

    def names(self) -> tuple[str, ...]:
        """Return the names of all tables, sorted."""
        with self._held("reading") as connection:
            rows = connection.execute(
                "SELECT name FROM tables WHERE record IS NOT NULL ORDER BY name"
            ).fetchall()
        return tuple(name for (name,) in rows)

    def incarnations(self) -> dict[str, int]:
        """Return the number of every table that is there; a dropped one is not."""
        with self._held("reading") as connection:
            rows = connection.execute(
                "SELECT name, incarnation FROM tables WHERE record IS NOT NULL"
            ).fetchall()
        return dict(rows)

    def was_there(self, name: str, incarnation: int) -> bool:
        """Return whether this store once had a table of that name and number."""
        with self._held("reading") as connection:
            row = connection.execute(
                "SELECT 1 FROM tables WHERE name = ? AND incarnation >= ?", (name, incarnation)
            ).fetchone()
        return row is not None

    def alter(self, before: TableSpec, after: TableSpec) -> None:
        """Change the table's record in one transaction.

        Raises:
            SchemaMismatchError: The table was dropped, or changed by another process.
        """
        with self.locked() as connection:
            self.check_there(before)
            found = self.load(before.name)
            assert found is not None, "a table that was just there"
            check_unchanged(found, before, after)
            connection.execute(
                "UPDATE tables SET record = ? WHERE name = ?",
                (json.dumps(after.to_json()), after.name),
            )

    def check_there(self, spec: TableSpec) -> None:
        """Refuse a table that was dropped.

        Raises:
            SchemaMismatchError: It was.
        """
        with self._held("reading") as connection:
            row = connection.execute(
                "SELECT 1 FROM tables WHERE name = ? AND incarnation = ? AND record IS NOT NULL",
                (spec.name, spec.incarnation),
            ).fetchone()
        if row is None:
            raise dropped(spec)

    def drop(self, spec: TableSpec) -> bool:
        """Remove the table's entry and its series; return whether it was there."""
        with self.locked() as connection:
            changed = connection.execute(
                "UPDATE tables SET record = NULL"
                " WHERE name = ? AND incarnation = ? AND record IS NOT NULL",
                (spec.name, spec.incarnation),
            ).rowcount
            if changed:
                self.series.drop(connection, spec.name)
        return bool(changed)

    def pause(self) -> bool:
        """Close the file and keep every thread out until :meth:`resume`; False where one is in."""
        if not self._lock.acquire(timeout=self._busy_timeout_s):
            return False
        self._disconnect()
        return True

    def resume(self) -> None:
        """Let threads in again; the file is opened when it is needed."""
        self._lock.release()

    def close(self) -> None:
        """Close it; what was committed is safe without it."""
        with self._lock:
            self._closed = True
            self._disconnect()

    def _disconnect(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None
