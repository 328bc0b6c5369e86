"""The SQL of a segment's file, derived from a table's columns: text only, no I/O.

Rules of this file: the merge is Cassandra's, cell by cell: a larger write time wins, on a tie the
larger serialized value, a missing value changes nothing. A reading keeps one write time,
``row.write_us``; only in tables of several columns has a cell room for its own, which is NULL
until it was written at another time than its row. Names with a dot are never a user's column.
Blocks keep the same: the columns, ``row.write_us``, and a cell's own time where it differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from treering.core.read_plan import Order
from treering.core.schema import Column, ColumnType

APPLICATION_ID: Final = 0x54527367  # "TRsg"
FORMAT: Final = 1
"""The format of a new file."""

FORMAT_WITH_BLOCKS: Final = 2
"""The format of a file from its first block on: who knows no blocks must not read rows only."""

META_TABLE: Final = "CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"
DELETIONS_TABLE: Final = (
    "CREATE TABLE deletions("
    "series INTEGER NOT NULL, first INTEGER NOT NULL, after INTEGER NOT NULL,"
    " write_us INTEGER NOT NULL, PRIMARY KEY(series, first, after)) WITHOUT ROWID"
)
BLOCKS_TABLE: Final = (
    "CREATE TABLE blocks("
    "id INTEGER PRIMARY KEY, series INTEGER NOT NULL, span_start INTEGER NOT NULL,"
    " first INTEGER NOT NULL, last INTEGER NOT NULL, count INTEGER NOT NULL, body BLOB NOT NULL,"
    " UNIQUE(series, span_start))"
)
SERIES_TABLE: Final = "CREATE TABLE series(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)"

ROW_TIME: Final = "row.write_us"
"""The column of the write time that all cells of a reading have, but for those with their own."""

_ROW_TIME: Final = f'"{ROW_TIME}"'


def own_time(column: Column) -> str:
    """Return the name of the column of a cell's own write time."""
    return f"{column.name}.write_us"


def tie_function(column_type: ColumnType) -> str:
    """Return the name of the SQL function that decides ties of that type."""
    return f"newer_{column_type}"


def readings_table(columns: Sequence[Column]) -> str:
    """Return the statement that makes the table of readings."""
    parts = ["series INTEGER NOT NULL", "ts INTEGER NOT NULL"]
    # Without a declared type SQLite converts nothing.
    parts += [_quoted(column) for column in columns]
    parts.append(f"{_ROW_TIME} INTEGER NOT NULL")
    if len(columns) > 1:
        parts += [f"{_own_time(column)} INTEGER" for column in columns]
    parts.append("PRIMARY KEY(series, ts)")
    return f"CREATE TABLE readings({', '.join(parts)}) WITHOUT ROWID"


@dataclass(frozen=True, slots=True)
class WriteSql:
    """Statements that write readings of some columns: (series, ts, value…, write_us).

    Attributes:
        insert: For readings of which none is there yet.
        upsert: For any; merges.
    """

    insert: str
    upsert: str


def write_sql(written: Sequence[Column], columns: Sequence[Column]) -> WriteSql:
    """Return the statements that write the columns ``written`` of a table of ``columns``."""
    names = ["series", "ts", *(_quoted(column) for column in written), _ROW_TIME]
    marks = ", ".join("?" * len(names))
    insert = f"INSERT INTO readings({', '.join(names)}) VALUES({marks})"
    wins = {column: _win(column, is_alone=len(columns) == 1) for column in written}
    if len(columns) == 1:
        sets = [f"{n} = excluded.{n}" for n in (_quoted(written[0]), _ROW_TIME)]
    else:
        sets = [
            f"{name} = CASE WHEN {win} THEN {new} ELSE {name} END"
            for column, win in wins.items()
            for name, new in (
                (_quoted(column), f"excluded.{_quoted(column)}"),
                (_own_time(column), f"excluded.{_ROW_TIME}"),
            )
        ]
    return WriteSql(
        insert,
        f"{insert} ON CONFLICT DO UPDATE SET {', '.join(sets)} "
        f"WHERE {' OR '.join(f'({win})' for win in wins.values())}",
    )


def _win(column: Column, *, is_alone: bool) -> str:
    """Return the condition under which the written cell wins over the one that is there."""
    old, new, new_us = _quoted(column), f"excluded.{_quoted(column)}", f"excluded.{_ROW_TIME}"
    own_us = _ROW_TIME if is_alone else f"coalesce({_own_time(column)}, {_ROW_TIME})"
    # To SQLite 0.0 and -0.0 are one value; the function knows better, and is asked for few rows.
    tie = (
        f"{new_us} = {own_us} AND ({new} IS NOT {old} OR {old} = 0) "
        f"AND {tie_function(column.type)}({new}, {old})"
    )
    return f"{new} IS NOT NULL AND ({old} IS NULL OR {new_us} > {own_us} OR ({tie}))"


def read_sql(columns: Sequence[Column], order: Order) -> str:
    """Return the statement that reads a page: (series, start, end, limit) → (ts, value…)."""
    names = ", ".join(["ts", *(_quoted(column) for column in columns)])
    # Names are identifiers that the table's design has checked; values are bound.
    return (
        f"SELECT {names} FROM readings WHERE series = ? AND ts >= ? AND ts < ? "  # noqa: S608
        f"ORDER BY ts {'ASC' if order == 'asc' else 'DESC'} LIMIT ?"
    )


def read_cells_sql(columns: Sequence[Column], order: Order, *, has_own_times: bool) -> str:
    """Return the statement that reads cells: as :func:`read_sql`, with write times behind them.

    Args:
        columns: The columns wanted.
        order: By event time.
        has_own_times: Whether the table has several columns, and thus times of single cells.
    """
    names = ["ts", *(_quoted(column) for column in columns), _ROW_TIME]
    if has_own_times:
        names += [_own_time(column) for column in columns]
    return (
        f"SELECT {', '.join(names)} FROM readings WHERE series = ? AND ts >= ? AND ts < ? "  # noqa: S608
        f"ORDER BY ts {'ASC' if order == 'asc' else 'DESC'} LIMIT ?"
    )


DELETIONS: Final = (
    "SELECT first, after, write_us FROM deletions WHERE series = ? AND first <= ? AND after > ? "
    "AND write_us >= ?"
)
DELETIONS_OF: Final = "SELECT first, after, write_us FROM deletions WHERE series = ?"
FORGET_DELETIONS: Final = "DELETE FROM deletions WHERE series = ?"
REMEMBER_DELETION: Final = "INSERT INTO deletions VALUES(?, ?, ?, ?)"


@dataclass(frozen=True, slots=True)
class DeleteSql:
    """Statements that delete: (write_us…, series, start, end).

    Attributes:
        rows: Removes the readings all of whose cells are old enough.
        cells: Takes old cells out of those that are left; None in tables of one column.
        marks: How many times ``write_us`` is bound in each of them.
    """

    rows: str
    cells: str | None
    marks: int


def delete_sql(columns: Sequence[Column]) -> DeleteSql:
    """Return the statements that delete readings of a table of ``columns``."""
    inside = "series = ? AND ts >= ? AND ts < ?"
    if len(columns) == 1:
        return DeleteSql(f"DELETE FROM readings WHERE {_ROW_TIME} <= ? AND {inside}", None, 1)  # noqa: S608
    own = {column: f"coalesce({_own_time(column)}, {_ROW_TIME})" for column in columns}
    dead = " AND ".join(f"({_quoted(c)} IS NULL OR {time} <= ?)" for c, time in own.items())
    sets = ", ".join(
        f"{_quoted(c)} = CASE WHEN {time} <= ? THEN NULL ELSE {_quoted(c)} END"
        for c, time in own.items()
    )
    return DeleteSql(
        f"DELETE FROM readings WHERE {dead} AND {inside}",  # noqa: S608
        f"UPDATE readings SET {sets} WHERE {inside}",  # noqa: S608
        len(columns),
    )


ANY_READING: Final = "SELECT 1 FROM readings WHERE series = ? AND ts >= ? AND ts <= ? LIMIT 1"


NEWEST_READING: Final = "SELECT max(ts) FROM readings WHERE series = ? AND ts >= ? AND ts < ?"
OLDEST_READING: Final = NEWEST_READING.replace("max(", "min(")


NEXT_READING: Final = (
    "SELECT series, ts FROM readings WHERE (series, ts) >= (?, ?) ORDER BY series, ts LIMIT 1"
)
COUNT_READINGS: Final = (
    "SELECT count(*) FROM (SELECT 1 FROM readings WHERE series = ? AND ts >= ? AND ts < ? LIMIT ?)"
)
COUNT_ALL_READINGS: Final = "SELECT count(*) FROM (SELECT 1 FROM readings LIMIT ?)"
TIMES: Final = "SELECT ts FROM readings WHERE series = ? AND ts >= ? AND ts < ? ORDER BY ts"
FORGET_READINGS: Final = "DELETE FROM readings WHERE series = ? AND ts >= ? AND ts < ?"

# Blocks are found by an index, and what it says of them is not taken from it but from the table:
# where one of both is damaged, they differ. Of a row that is not there, all is NULL.
_BLOCK: Final = (
    "SELECT found.id, said.first, said.last, said.count, said.series, said.span_start"
    " FROM blocks AS found LEFT JOIN blocks AS said ON said.id = found.id WHERE found.series = ? "
)
BLOCKS_BETWEEN: Final = (
    f"{_BLOCK}AND found.span_start >= ? AND found.span_start < ? ORDER BY found.span_start"
)
BLOCKS_BETWEEN_BACKWARDS: Final = f"{BLOCKS_BETWEEN} DESC"
BLOCK_UP_TO: Final = (
    f"{_BLOCK}AND found.span_start >= ? AND found.span_start <= ?"
    " ORDER BY found.span_start DESC LIMIT 1"
)
BLOCK_AFTER: Final = (
    "SELECT span_start FROM blocks WHERE series = ? AND span_start > ? AND span_start < ? "
    "ORDER BY span_start LIMIT 1"
)
# Whatever stands there is taken as bytes: a file may be damaged so that SQLite takes it.
BLOCK_BODY: Final = "SELECT CAST(body AS BLOB) FROM blocks WHERE id = ?"
ADD_BLOCK: Final = (
    "INSERT INTO blocks(series, span_start, first, last, count, body) VALUES(?, ?, ?, ?, ?, ?)"
)
FORGET_BLOCK: Final = "DELETE FROM blocks WHERE id = ?"
COUNT_BLOCKS: Final = (
    "SELECT count(*), coalesce(sum(count), 0), coalesce(sum(length(body)), 0) FROM blocks"
)


def _quoted(column: Column) -> str:
    return f'"{column.name}"'


def _own_time(column: Column) -> str:
    return f'"{own_time(column)}"'
