"""The body of a block: cells as bytes, and back, a column at a time.

Rules of this file: a block keeps what rows keep: each column, ``row.write_us``, and a cell's own
write time where it differs from its reading's; a block that is damaged is named by series, span
and file, and nothing of it is believed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from treering.core.block import column_names, pack_block, read_stats, unpack_block, unpack_columns
from treering.core.columns import ColumnData
from treering.core.fold import CellColumn, Cells, cut, newest_us
from treering.core.schema import Column
from treering.core.units import Precision
from treering.engine.sqlite.sql import ROW_TIME, own_time
from treering.errors import CorruptDataError, UsageError


def pack_cells(cells: Cells, columns: Sequence[Column], precision: Precision) -> bytes:
    """Return readings as the body of a block.

    Raises:
        UsageError: More text in a column than a block holds.
    """
    packed = {column.name: cells.columns[column.name].data for column in columns}
    row_us = newest_us(cells)
    packed[ROW_TIME] = ColumnData(row_us)
    times = [ROW_TIME]
    for column in columns if len(columns) > 1 else ():
        found = cells.columns[column.name]
        differs = found.data.mask() & (found.write_us != row_us)
        if differs.any():
            packed[own_time(column)] = ColumnData(found.write_us, differs)
            times.append(own_time(column))
    return pack_block(cells.ts, packed, precision=precision, without_stats=times)


def pack_parts(
    cells: Cells, columns: Sequence[Column], precision: Precision, rows_max: int
) -> list[tuple[Cells, bytes]]:
    """Return readings as the bodies of as many blocks as they need, in order.

    Raises:
        UsageError: One reading has more text than a block holds.
    """
    packed: list[tuple[Cells, bytes]] = []
    for part in cut(cells, rows_max):
        try:
            packed.append((part, pack_cells(part, columns, precision)))
        except UsageError:
            # Long texts: fewer readings fit.
            if len(part) == 1:
                raise
            packed += pack_parts(part, columns, precision, -(-len(part) // 2))
    return packed


class BlockBody:
    """A block whose columns are unpacked when they are asked for.

    Args:
        body: Its bytes.
        place: Which block it is, for messages: series, span and file.
        count: How many readings it should have.
        first: The event time of the first.
        last: The event time of the last.
    """

    def __init__(self, body: bytes, *, place: str, count: int, first: int, last: int) -> None:
        self.body = body
        self.place = place
        self._expected = (count, first, last)
        self._ts: npt.NDArray[np.int64] | None = None
        self._columns: dict[str, ColumnData] = {}
        self._times: dict[str, ColumnData] = {}

    def __eq__(self, other: object) -> bool:
        """Return whether both are the same block, with the same bytes."""
        if not isinstance(other, BlockBody):
            return NotImplemented
        facts, others = (self._expected, self.place), (other._expected, other.place)
        return facts == others and self.body == other.body

    __hash__ = None  # type: ignore[assignment]

    def load(self, columns: Iterable[Column]) -> None:
        """Unpack the times and columns of values that were not unpacked yet.

        Raises:
            CorruptDataError: Damaged; names the place.
            SchemaMismatchError: Of a newer version.
        """
        wanted = list(columns)
        names = [column.name for column in wanted if column.name not in self._columns]
        if self._ts is None:
            block = unpack_block(self.body, names, place=self.place)
            found = (len(block.ts), int(block.ts[0]), int(block.ts[-1]))
            if found != self._expected:
                raise _misplaced(self.place, found, self._expected)
            self._ts = block.ts
            self._columns.update(block.columns)
        elif names:
            self._columns.update(unpack_columns(self.body, names, place=self.place))
        for column in wanted:
            found_type = self._columns[column.name].values.dtype
            if found_type != column.type.dtype:
                raise corrupt_block(
                    self.place, f"{found_type} in {column.name}", str(column.type.dtype)
                )

    @property
    def ts(self) -> npt.NDArray[np.int64]:
        """The event times."""
        if self._ts is None:
            self.load(())
        assert self._ts is not None
        return self._ts

    def values(self, columns: Iterable[Column]) -> dict[str, ColumnData]:
        """Return columns of values."""
        wanted = list(columns)
        self.load(wanted)
        return {column.name: self._columns[column.name] for column in wanted}

    def cells(self, columns: Iterable[Column]) -> Cells:
        """Return columns with their write times."""
        wanted = list(columns)
        values, times = self.values(wanted), self._write_times()
        row_us = times[ROW_TIME].values
        cells = {}
        for column in wanted:
            own = times.get(own_time(column))
            write_us = row_us if own is None else np.where(own.mask(), own.values, row_us)
            cells[column.name] = CellColumn(values[column.name], write_us)
        return Cells(self.ts, cells)

    def newest_us(self) -> int:
        """Return the newest write time of all cells."""
        return int(self._write_times()[ROW_TIME].values.max())

    def _write_times(self) -> dict[str, ColumnData]:
        if not self._times:
            names = [n for n in column_names(self.body, place=self.place) if "." in n]
            # Asked for by name, so that a block without any says so.
            names += [] if ROW_TIME in names else [ROW_TIME]
            self._times = unpack_columns(self.body, names, place=self.place)
        return self._times

    def checked_count(self) -> int:
        """Return how many readings there are, by the block's own header alone."""
        stats = read_stats(self.body, (), place=self.place)
        found = (stats.count, stats.first_ts, stats.last_ts)
        if found != self._expected:
            raise _misplaced(self.place, found, self._expected)
        return stats.count


def corrupt_block(place: str, found: str, expected: str) -> CorruptDataError:
    """Return the error for a block that is not what the file says it is."""
    return CorruptDataError(
        f"{place} is damaged: found {found}, expected {expected}",
        hint="restore the file from a backup; all other blocks are readable",
        place=place,
        found=found,
        expected=expected,
    )


def _misplaced(
    place: str, found: tuple[int, int, int], expected: tuple[int, int, int]
) -> CorruptDataError:
    def said(facts: tuple[int, int, int]) -> str:
        return f"{facts[0]} readings from {facts[1]} to {facts[2]}"

    return corrupt_block(place, said(found), said(expected))
