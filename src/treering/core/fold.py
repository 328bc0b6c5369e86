"""Cells of one series as arrays, and how two sets of them become one: by write time, cell by cell.

Rules of this file: the rule of ``core/merge.py``, on arrays: a later write time wins, on a tie the
larger bytes, a missing value is no cell. Folding is associative, commutative and idempotent, so
that readings may be folded at any moment, in any grouping, with the same result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from treering.core.columns import BoolArray, ColumnData
from treering.core.merge import newer_mask
from treering.core.schema import Column, ColumnType


@dataclass(frozen=True, slots=True)
class CellColumn:
    """The cells of one column, one a reading.

    Attributes:
        data: The values.
        write_us: The write time of each, int64; unspecified where the value is missing.
    """

    data: ColumnData
    write_us: npt.NDArray[np.int64]

    def take(self, index: slice | npt.NDArray[Any]) -> CellColumn:
        """Return the cells at ``index``; a slice shares memory."""
        return CellColumn(self.data.take(index), self.write_us[index])


@dataclass(frozen=True, slots=True)
class Cells:
    """Readings of one series with the write time of every cell.

    Attributes:
        ts: Event times, int64, strictly ascending.
        columns: The cells of each column, as many as times.
    """

    ts: npt.NDArray[np.int64]
    columns: Mapping[str, CellColumn]

    def __len__(self) -> int:
        return len(self.ts)

    def take(self, index: slice | npt.NDArray[Any]) -> Cells:
        """Return the readings at ``index``, which keeps their order; a slice shares memory."""
        return Cells(
            self.ts[index], {name: cells.take(index) for name, cells in self.columns.items()}
        )

    def between(self, start: int, end: int) -> Cells:
        """Return the readings of event times ``[start, end)``."""
        first, last = np.searchsorted(self.ts, [start, end]).tolist()
        return self.take(slice(first, last))


def fold(one: Cells, other: Cells, columns: Sequence[Column]) -> Cells:
    """Return the cells that are left of two sets of them.

    Args:
        one: Readings; a column that it does not have is missing everywhere.
        other: Readings of the same series.
        columns: The columns of the result.
    """
    ts = np.union1d(one.ts, other.ts)
    places = np.searchsorted(ts, one.ts), np.searchsorted(ts, other.ts)
    folded = {}
    for column in columns:
        laid = _Laid.blank(len(ts), column.type)
        for cells, at in zip((one, other), places, strict=True):
            found = cells.columns.get(column.name)
            if found is not None:
                laid.lay(found, at, column.type)
        folded[column.name] = laid.cells()
    return Cells(ts, folded)


@dataclass(frozen=True, slots=True)
class _Laid:
    """A column into which cells are laid, one set after the other."""

    values: npt.NDArray[Any]
    present: BoolArray
    write_us: npt.NDArray[np.int64]

    @classmethod
    def blank(cls, count: int, column_type: ColumnType) -> _Laid:
        values: npt.NDArray[Any] = (
            np.empty(count, dtype=object)
            if column_type is ColumnType.TEXT
            else np.zeros(count, dtype=column_type.dtype)
        )
        return cls(values, np.zeros(count, dtype=np.bool_), np.zeros(count, dtype=np.int64))

    def lay(self, cells: CellColumn, places: npt.NDArray[np.intp], column_type: ColumnType) -> None:
        values, write_us = cells.data.values, cells.write_us
        if cells.data.present is not None:
            there = cells.data.present
            values, write_us, places = values[there], write_us[there], places[there]
        wins = ~self.present[places]
        both = np.flatnonzero(~wins)
        if len(both):
            at = places[both]
            wins[both] = newer_mask(
                write_us[both], values[both], self.write_us[at], self.values[at], column_type
            )
        if not wins.all():
            values, write_us, places = values[wins], write_us[wins], places[wins]
        self.values[places] = values
        self.write_us[places] = write_us
        self.present[places] = True

    def cells(self) -> CellColumn:
        present = None if bool(self.present.all()) else self.present
        return CellColumn(ColumnData(self.values, present), self.write_us)


def without_dead(cells: Cells, *, start: int, end: int, write_us: int) -> Cells:
    """Return what a deletion leaves: cells of ``[start, end)`` written until then are gone.

    A reading of which no cell is left is gone too. The same object comes back where nothing is.
    """
    inside = np.zeros(len(cells), dtype=np.bool_)
    inside[slice(*np.searchsorted(cells.ts, [start, end]).tolist())] = True
    alive = np.zeros(len(cells), dtype=np.bool_)
    kept, is_changed = {}, False
    for name, column in cells.columns.items():
        there = column.data.mask()
        dead = there & inside & (column.write_us <= write_us)
        is_changed |= bool(dead.any())
        alive |= there & ~dead
        kept[name] = CellColumn(ColumnData(column.data.values, there & ~dead), column.write_us)
    if not is_changed:
        return cells
    return Cells(cells.ts, kept).take(np.flatnonzero(alive))


def newest_us(cells: Cells) -> npt.NDArray[np.int64]:
    """Return the write time of the newest cell of each reading."""
    newest = np.full(len(cells), np.iinfo(np.int64).min, dtype=np.int64)
    for column in cells.columns.values():
        where: Any = True if column.data.present is None else column.data.present
        np.maximum(newest, column.write_us, out=newest, where=where)
    return newest


def cut(cells: Cells, rows_max: int) -> Iterator[Cells]:
    """Yield the readings in parts of about one size, none of more than ``rows_max``."""
    parts = -(-len(cells) // rows_max)
    for part in range(parts):
        yield cells.take(slice(part * len(cells) // parts, (part + 1) * len(cells) // parts))
