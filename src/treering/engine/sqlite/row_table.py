"""The rows of a segment's file: live readings, and late ones beside the block of their span.

Rules of this file: every call runs inside a transaction of the caller's; rows merge cell by cell
when they are written, so that each event time has one row.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from treering.core.columns import ColumnData, column_from_list, empty_column
from treering.core.fold import CellColumn, Cells
from treering.core.read_plan import Order
from treering.core.schema import Column, ColumnType
from treering.engine.deletions import Deletion
from treering.engine.sqlite import sql
from treering.engine.sqlite.batches import Batch
from treering.engine.sqlite.cells import decode_column
from treering.engine.sqlite.failures import corrupt

_NO_TIMES: Final = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRange:
    """Which rows of a series are wanted.

    Attributes:
        start: First event time, in ticks.
        end: First event time not wanted.
        order: By event time.
        limit: The most rows.
    """

    start: int
    end: int
    order: Order = "asc"
    limit: int = -1


class RowTable:
    """The rows of one open file."""

    def __init__(
        self, connection: sqlite3.Connection, path: Path, columns: Sequence[Column]
    ) -> None:
        self._connection = connection
        self._path = path
        self._columns = columns
        self._has_own_times = len(columns) > 1
        self._write_sql: dict[tuple[Column, ...], sql.WriteSql] = {}

    def merge(self, series_id: int, batch: Batch) -> None:
        """Merge readings in."""
        written = batch.written
        statements = self._write_sql.get(written)
        if statements is None:
            statements = sql.write_sql(written, self._columns)
            self._write_sql[written] = statements
        ts = batch.ts.tolist()
        is_fresh = not self.has_any(series_id, ts[0], ts[-1])
        self._connection.executemany(
            statements.insert if is_fresh else statements.upsert,
            zip(repeat(series_id), ts, *batch.bound(), repeat(batch.write_us)),
        )

    def read(
        self, series_id: int, columns: Sequence[Column], wanted: RowRange
    ) -> tuple[npt.NDArray[np.int64], dict[str, ColumnData]]:
        """Return event times, in order, and values."""
        rows = self._connection.execute(
            sql.read_sql(columns, wanted.order),
            (series_id, wanted.start, wanted.end, wanted.limit),
        ).fetchall()
        if not rows:
            return _NO_TIMES, {column.name: empty_column(column.type) for column in columns}
        ts, *values = zip(*rows, strict=True)
        return self._times(ts, wanted, is_ascending=wanted.order == "asc"), {
            column.name: decode_column(kept, column.type, self._path)
            for column, kept in zip(columns, values, strict=True)
        }

    def cells(self, series_id: int, columns: Sequence[Column], wanted: RowRange) -> Cells:
        """Return readings with their write times, ascending whatever the order asked for."""
        statement = sql.read_cells_sql(columns, wanted.order, has_own_times=self._has_own_times)
        rows = self._connection.execute(
            statement, (series_id, wanted.start, wanted.end, wanted.limit)
        ).fetchall()
        if wanted.order == "desc":
            rows.reverse()
        count = len(columns)
        width = 2 + count + (count if self._has_own_times else 0)
        ts, *rest = zip(*rows, strict=True) if rows else ((),) * width
        row_us = self._whole(rest[count])
        cells = {}
        for place, column in enumerate(columns):
            data = decode_column(rest[place], column.type, self._path)
            own = rest[count + 1 + place] if self._has_own_times else ()
            cells[column.name] = CellColumn(data, _own_or_row(own, row_us))
        return Cells(self._times(ts, wanted, is_ascending=True), cells)

    def _times(
        self, values: Sequence[Any], wanted: RowRange, *, is_ascending: bool
    ) -> npt.NDArray[np.int64]:
        """Return event times, which are in order and were asked for unless a page is damaged."""
        ts = self._whole(values)
        one, other = (ts[:-1], ts[1:]) if is_ascending else (ts[1:], ts[:-1])
        is_inside = not len(ts) or (wanted.start <= ts.min() and ts.max() < wanted.end)
        if not is_inside or not (one < other).all():
            raise corrupt(
                self._path, found="event times out of order", expected="rows by series and time"
            )
        return ts

    def _whole(self, values: Sequence[Any]) -> npt.NDArray[np.int64]:
        try:
            return np.array(values, dtype=np.int64)
        except (TypeError, ValueError, OverflowError) as error:
            raise corrupt(self._path, found=f"no time ({error})", expected="a time") from error

    def times(self, series_id: int, start: int, end: int) -> npt.NDArray[np.int64]:
        """Return the event times of ``[start, end)``, ascending."""
        rows = self._connection.execute(sql.TIMES, (series_id, start, end)).fetchall()
        wanted = RowRange(start=start, end=end)
        return self._times([row[0] for row in rows], wanted, is_ascending=True)

    def count(self, series_id: int, start: int, end: int, *, limit: int = -1) -> int:
        """Return how many rows ``[start, end)`` has, counting no further than the limit."""
        found = self._connection.execute(sql.COUNT_READINGS, (series_id, start, end, limit))
        return int(found.fetchone()[0])

    def has_any(self, series_id: int, first: int, last: int) -> bool:
        """Return whether there is a row from ``first`` to ``last``, both included."""
        found = self._connection.execute(sql.ANY_READING, (series_id, first, last))
        return found.fetchone() is not None

    def count_all(self, *, limit: int) -> int:
        """Return how many rows there are of all series, counting no further than the limit."""
        return int(self._connection.execute(sql.COUNT_ALL_READINGS, (limit,)).fetchone()[0])

    def next_from(self, series_id: int, ts: int) -> tuple[int, int] | None:
        """Return series and event time of the first row from there on; None where none is."""
        row = self._connection.execute(sql.NEXT_READING, (series_id, ts)).fetchone()
        return None if row is None else (int(row[0]), int(row[1]))

    def edge_ts(self, series_id: int, start: int, end: int, *, is_newest: bool) -> int | None:
        """Return the newest or the oldest event time of ``[start, end)``; None where none is."""
        statement = sql.NEWEST_READING if is_newest else sql.OLDEST_READING
        row = self._connection.execute(statement, (series_id, start, end)).fetchone()
        return None if row[0] is None else int(row[0])

    def forget(self, series_id: int, start: int, end: int) -> None:
        """Take rows out that are in a block now."""
        self._connection.execute(sql.FORGET_READINGS, (series_id, start, end))

    def delete(self, series_id: int, deletion: Deletion) -> None:
        """Take cells out that a deletion covers."""
        statements = sql.delete_sql(self._columns)
        bound = (deletion.write_us,) * statements.marks
        inside = (series_id, deletion.start, deletion.end)
        self._connection.execute(statements.rows, (*bound, *inside))
        if statements.cells is not None:
            self._connection.execute(statements.cells, (*bound, *inside))


def _own_or_row(own: Sequence[Any], row_us: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the write time of each cell: its own where it has one, else its row's."""
    if own.count(None) == len(own):
        return row_us
    times = column_from_list(own, ColumnType.BIGINT)
    return np.where(times.mask(), times.values, row_us)
