"""The series of the catalog's tables: names, tags, widths.

Rules of this file: every change is one transaction; the log of widths is numbered in the order of
its commits, so that a reader asks only for what is new; names are read in pages, and no lock is
held in between.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Final, Protocol

from treering.core.bucket import BucketWidth
from treering.core.series import SeriesRecord, tags_from_text, tags_to_text
from treering.core.table import TableSpec
from treering.core.widths import History, history_from_text, history_to_text, plan_width
from treering.engine.protocol import WidthNews, listed_record
from treering.errors import StoreBusyError

SERIES_TABLES: Final = (
    "CREATE TABLE series(table_name TEXT NOT NULL, name TEXT NOT NULL, tags TEXT NOT NULL,"
    " widths TEXT NOT NULL, PRIMARY KEY(table_name, name)) WITHOUT ROWID",
    "CREATE TABLE tags(table_name TEXT NOT NULL, tag TEXT NOT NULL, value TEXT NOT NULL,"
    " name TEXT NOT NULL, PRIMARY KEY(table_name, tag, value, name)) WITHOUT ROWID",
    "CREATE TABLE widths(table_name TEXT NOT NULL, version INTEGER NOT NULL, name TEXT NOT NULL,"
    " widths TEXT NOT NULL, PRIMARY KEY(table_name, version)) WITHOUT ROWID",
)

_PAGE_NAMES: Final = 1_000
_COUNTED_MAX: Final = 1_000
_LOAD: Final = "SELECT name, tags, widths FROM series WHERE table_name = ? AND name = ?"


class _Catalog(Protocol):
    """What the list asks of the catalog that it is a part of."""

    def reading(self) -> AbstractContextManager[sqlite3.Connection]: ...
    def locked(self) -> AbstractContextManager[sqlite3.Connection]: ...
    def check_there(self, spec: TableSpec) -> None: ...


class SeriesList:
    """The series of all tables of one catalog."""

    def __init__(self, catalog: _Catalog) -> None:
        self._catalog = catalog

    def add(self, spec: TableSpec, records: Sequence[SeriesRecord]) -> tuple[SeriesRecord, ...]:
        """List series, durably; those that are listed stay as they are.

        Raises:
            SchemaMismatchError: The table was dropped.
        """
        there = self.load(spec, tuple(record.name for record in records))
        new = [record for record in records if record.name not in there]
        if new:
            with self._catalog.locked() as connection:
                self._catalog.check_there(spec)
                for record in new:
                    # Another process may have listed it since.
                    found = _load(connection, spec, record.name)
                    if found is None:
                        _enter(connection, spec, record)
                    there[record.name] = record if found is None else found
        return tuple(there[record.name] for record in records)

    def load(self, spec: TableSpec, names: tuple[str, ...]) -> dict[str, SeriesRecord]:
        """Return the records of those that are listed.

        Raises:
            SchemaMismatchError: The table was dropped.
        """
        with self._catalog.reading() as connection:
            self._catalog.check_there(spec)
            found = {name: _load(connection, spec, name) for name in names}
        return {name: record for name, record in found.items() if record is not None}

    def names(self, spec: TableSpec, prefix: str, tags: Mapping[str, str]) -> Iterator[str]:
        """Yield listed series that start with ``prefix`` and have all ``tags``, by code point."""
        # UTF-8 sorts as code points do, and SQLite compares text as bytes.
        after, is_first, ordered = prefix, True, list(tags.items())
        while True:
            with self._catalog.reading() as connection:
                self._catalog.check_there(spec)
                if is_first:
                    ordered = _rarest_first(connection, spec, tags)
                query, values = _names_query(spec, ordered, after, is_first=is_first)
                rows = connection.execute(query, (*values, _PAGE_NAMES)).fetchall()
            for (name,) in rows:
                if not name.startswith(prefix):
                    return
                yield name
            if len(rows) < _PAGE_NAMES:
                return
            after, is_first = rows[-1][0], False

    def count(self, spec: TableSpec) -> int:
        """Return how many series the table lists."""
        with self._catalog.reading() as connection:
            self._catalog.check_there(spec)
            row = connection.execute(
                "SELECT count(*) FROM series WHERE table_name = ?", (spec.name,)
            ).fetchone()
        return int(row[0])

    def set_tags(self, spec: TableSpec, name: str, tags: Mapping[str, str]) -> SeriesRecord:
        """Replace the tags of a listed series.

        Raises:
            SeriesNotFoundError: It is not listed.
        """
        with self._catalog.locked() as connection:
            self._catalog.check_there(spec)
            old = listed_record(_load(connection, spec, name), spec, name)
            record = replace(old, tags=tags)
            connection.execute(
                "UPDATE series SET tags = ? WHERE table_name = ? AND name = ?",
                (tags_to_text(record.tags), spec.name, name),
            )
            _remove_tags(connection, spec, old)
            _enter_tags(connection, spec, record)
        return record

    def set_width(
        self, spec: TableSpec, name: str, width: BucketWidth, *, now_s: float, lease_s: float
    ) -> SeriesRecord:
        """Change the width of a listed series from a date on.

        Raises:
            SeriesNotFoundError: It is not listed.
            WidthError: Another change is pending.
            StoreBusyError: The lock came too late for the date.
        """
        asked_s = time.monotonic()
        with self._catalog.locked() as connection:
            self._catalog.check_there(spec)
            record = listed_record(_load(connection, spec, name), spec, name)
            history = plan_width(
                record.widths,
                width,
                spec.width,
                now_s=now_s,
                future_limit_s=spec.future_limit_s,
                lease_s=lease_s,
            )
            if history == record.widths:
                return record
            record = replace(record, widths=history)
            connection.execute(
                "UPDATE series SET widths = ? WHERE table_name = ? AND name = ?",
                (history_to_text(history), spec.name, name),
            )
            _log_widths(connection, spec, record)
            # The date leaves one lease for the change to be written.
            if time.monotonic() - asked_s > lease_s / 2:
                raise StoreBusyError(
                    f"the width of {name!r} could not be changed in time: the catalog was locked",
                    hint="do it again",
                )
        return record

    def remove(self, spec: TableSpec, names: tuple[str, ...]) -> None:
        """Take series off the list, durably, with their tags and widths."""
        with self._catalog.locked() as connection:
            self._catalog.check_there(spec)
            for name in names:
                record = _load(connection, spec, name)
                if record is None:
                    continue
                _remove_tags(connection, spec, record)
                connection.execute(
                    "DELETE FROM series WHERE table_name = ? AND name = ?", (spec.name, name)
                )
                if record.widths:
                    _log_widths(connection, spec, replace(record, widths=()))

    def read_widths(self, spec: TableSpec, seen: int) -> WidthNews:
        """Return the histories that were written after the version ``seen``."""
        with self._catalog.reading() as connection:
            self._catalog.check_there(spec)
            rows = connection.execute(
                "SELECT version, name, widths FROM widths WHERE table_name = ? AND version > ?"
                " ORDER BY version",
                (spec.name, seen),
            ).fetchall()
        histories: dict[str, History] = {}
        for version, name, widths in rows:
            seen = version
            histories[name] = history_from_text(widths)
        return WidthNews(histories=histories, seen=seen)

    def drop(self, connection: sqlite3.Connection, table: str) -> None:
        """Remove the series of a table, within the caller's transaction."""
        for statement in _DROP:
            connection.execute(statement, (table,))


_DROP: Final = (
    "DELETE FROM series WHERE table_name = ?",
    "DELETE FROM tags WHERE table_name = ?",
    "DELETE FROM widths WHERE table_name = ?",
)


def _load(connection: sqlite3.Connection, spec: TableSpec, name: str) -> SeriesRecord | None:
    row = connection.execute(_LOAD, (spec.name, name)).fetchone()
    if row is None:
        return None
    return SeriesRecord(name=row[0], tags=tags_from_text(row[1]), widths=history_from_text(row[2]))


def _enter(connection: sqlite3.Connection, spec: TableSpec, record: SeriesRecord) -> None:
    widths = history_to_text(record.widths) if record.widths else ""
    connection.execute(
        "INSERT INTO series VALUES(?, ?, ?, ?)",
        (spec.name, record.name, tags_to_text(record.tags), widths),
    )
    _enter_tags(connection, spec, record)
    if record.widths:
        _log_widths(connection, spec, record)


def _enter_tags(connection: sqlite3.Connection, spec: TableSpec, record: SeriesRecord) -> None:
    connection.executemany(
        "INSERT INTO tags VALUES(?, ?, ?, ?)",
        [(spec.name, *tag, record.name) for tag in record.tags.items()],
    )


def _remove_tags(connection: sqlite3.Connection, spec: TableSpec, record: SeriesRecord) -> None:
    connection.executemany(
        "DELETE FROM tags WHERE table_name = ? AND tag = ? AND value = ? AND name = ?",
        [(spec.name, *tag, record.name) for tag in record.tags.items()],
    )


def _log_widths(connection: sqlite3.Connection, spec: TableSpec, record: SeriesRecord) -> None:
    connection.execute(
        "INSERT INTO widths SELECT ?, coalesce(max(version), 0) + 1, ?, ? FROM widths"
        " WHERE table_name = ?",
        (spec.name, record.name, history_to_text(record.widths), spec.name),
    )


def _rarest_first(
    connection: sqlite3.Connection, spec: TableSpec, tags: Mapping[str, str]
) -> list[tuple[str, str]]:
    """Return tags by how many series have them, counted up to a bound."""

    def count(tag: tuple[str, str]) -> int:
        row = connection.execute(
            "SELECT count(*) FROM (SELECT 1 FROM tags WHERE table_name = ? AND tag = ?"
            " AND value = ? LIMIT ?)",
            (spec.name, *tag, _COUNTED_MAX),
        ).fetchone()
        return int(row[0])

    return sorted(tags.items(), key=count)


def _names_query(
    spec: TableSpec, tags: Sequence[tuple[str, str]], after: str, *, is_first: bool
) -> tuple[str, tuple[str, ...]]:
    """Return the statement of a page of names, and its values but for the limit."""
    compare = ">=" if is_first else ">"
    if not tags:
        query = f"SELECT name FROM series WHERE table_name = ? AND name {compare} ?"  # noqa: S608
        return f"{query} ORDER BY name LIMIT ?", (spec.name, after)
    query = (
        "SELECT name FROM tags AS one "  # noqa: S608
        f"WHERE table_name = ? AND tag = ? AND value = ? AND name {compare} ?"
    )
    values = [spec.name, *tags[0], after]
    for tag in tags[1:]:
        query += (
            " AND EXISTS (SELECT 1 FROM tags AS other WHERE other.table_name = one.table_name"
            " AND other.tag = ? AND other.value = ? AND other.name = one.name)"
        )
        values += tag
    return f"{query} ORDER BY name LIMIT ?", tuple(values)
