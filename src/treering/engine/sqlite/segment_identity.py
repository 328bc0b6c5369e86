"""Whose a segment's file is: what it says of itself, how it is made, and how it is checked.

Rules of this file: nothing of a file is used or changed before it has said whose it is; tables
that came with later releases are added to files that do not have them.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from treering.core.schema import ColumnType
from treering.core.segment import Segment
from treering.core.table import TableSpec
from treering.engine.sqlite import sql
from treering.engine.sqlite.cells import is_newer_on_tie
from treering.engine.sqlite.database import create_database
from treering.engine.sqlite.failures import corrupt, translated
from treering.engine.sqlite.layout import sidecars
from treering.errors import SchemaMismatchError

SPAN_KEY: Final = "span_s"
"""Under which a file with blocks keeps the length of their spans."""


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
            path,
            application_id=sql.APPLICATION_ID,
            format_version=sql.FORMAT,
            fill=fill,
            gives_back_space=True,
        )


def add_deletions(connection: sqlite3.Connection) -> None:
    """Add the table of deletions where there is none."""
    # Files of the first format have no deletions yet.
    found = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'deletions'").fetchone()
    if found is None:
        statement = sql.DELETIONS_TABLE.replace("TABLE", "TABLE IF NOT EXISTS", 1)
        connection.execute(statement)


def add_functions(connection: sqlite3.Connection) -> None:
    """Give SQLite the functions that decide ties."""
    for column_type in ColumnType:
        connection.create_function(
            sql.tie_function(column_type),
            2,
            partial(is_newer_on_tie, column_type),
            deterministic=True,
        )


def has_blocks(connection: sqlite3.Connection) -> bool:
    """Return whether the file has had a block, as of the transaction that is open."""
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    return bool(found >= sql.FORMAT_WITH_BLOCKS)


def add_blocks(connection: sqlite3.Connection, span_s: int) -> None:
    """Make room for blocks, inside the transaction of the first one.

    Args:
        connection: To the file, in a write transaction.
        span_s: How much event time a block covers, in seconds, from now on and for ever.
    """
    connection.execute(sql.BLOCKS_TABLE)
    connection.execute("INSERT INTO meta VALUES(?, ?)", (SPAN_KEY, str(span_s)))
    connection.execute(f"PRAGMA user_version={sql.FORMAT_WITH_BLOCKS}")


def span_s_of(connection: sqlite3.Connection, path: Path) -> int:
    """Return how much event time a block of a file with blocks covers, in seconds.

    Raises:
        CorruptDataError: The file does not say.
    """
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (SPAN_KEY,)).fetchone()
    if row is None or not str(row[0]).isdecimal() or int(row[0]) < 1:
        raise corrupt(
            path,
            found="no length of spans" if row is None else f"{SPAN_KEY} {row[0]}",
            expected=f"{SPAN_KEY}, the seconds that a block covers",
        )
    return int(row[0])


def check_identity(connection: sqlite3.Connection, path: Path, identity: SegmentIdentity) -> None:
    """Check that a file says what it should be; changes nothing in it.

    Raises:
        CorruptDataError: Damaged, foreign, or another segment's file.
        SchemaMismatchError: Written by a newer release.
    """
    check_header(
        connection,
        path,
        application_id=sql.APPLICATION_ID,
        format_version=sql.FORMAT_WITH_BLOCKS,
    )
    # In this order: another process may be adding the table of blocks right now.
    is_with_blocks = has_blocks(connection)
    schema = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'"))
    wanted = {
        "meta": sql.META_TABLE,
        "series": sql.SERIES_TABLE,
        "deletions": sql.DELETIONS_TABLE,
        "blocks": sql.BLOCKS_TABLE,
        "readings": sql.readings_table(identity.spec.columns),
    }
    schema.setdefault("deletions", sql.DELETIONS_TABLE)
    if not is_with_blocks:
        schema.setdefault("blocks", sql.BLOCKS_TABLE)
    if schema != wanted:
        # As texts: what a damaged file has for a name may be anything.
        wrong = sorted(str(n) for n in {*schema, *wanted} if schema.get(n) != wanted.get(n))
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
