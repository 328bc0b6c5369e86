"""From a write of a partition to what goes into each segment, and from segments to a page.

Rules of this file: arrays stay arrays until rows are bound; what has no value is no reading.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from treering.core.columns import ColumnData
from treering.core.fold import CellColumn, Cells
from treering.core.schema import Column
from treering.core.segment import Segment, cut_at_segments, segment_length_s
from treering.core.table import TableSpec
from treering.core.write_plan import PartitionWrite
from treering.engine.protocol import Page, PagePart, PageRead, head_of
from treering.engine.sqlite.cells import encode_column

if TYPE_CHECKING:
    from treering.core.block import BlockStats


@dataclass(frozen=True, slots=True)
class Batch:
    """Readings of one series inside one segment, written at one time.

    Attributes:
        series: The series id.
        ts: Event times, ascending.
        columns: The columns written, each with its values.
        write_us: The write time of every cell.
    """

    series: str
    ts: npt.NDArray[np.int64]
    columns: tuple[tuple[Column, ColumnData], ...]
    write_us: int

    def __len__(self) -> int:
        return len(self.ts)

    @property
    def written(self) -> tuple[Column, ...]:
        """The columns written."""
        return tuple(column for column, _ in self.columns)

    def take(self, index: slice | npt.NDArray[Any]) -> Batch:
        """Return the readings at ``index``."""
        columns = tuple((column, data.take(index)) for column, data in self.columns)
        return Batch(self.series, self.ts[index], columns, self.write_us)

    def bound(self) -> list[list[Any]]:
        """Return the values of each column, ready to bind, None where missing."""
        return [encode_column(data, column.type) for column, data in self.columns]

    def cells(self, columns: Sequence[Column]) -> Cells:
        """Return the readings with their write times, in all columns of the table."""
        write_us = np.full(len(self), self.write_us, dtype=np.int64)
        written = {column.name: data for column, data in self.columns}
        return Cells(
            self.ts,
            {
                column.name: CellColumn(
                    written[column.name] if column.name in written else self._missing(column),
                    write_us,
                )
                for column in columns
            },
        )

    def _missing(self, column: Column) -> ColumnData:
        values = np.zeros(len(self), dtype=column.type.dtype)
        return ColumnData(values, np.zeros(len(self), dtype=np.bool_))


def batches_of(spec: TableSpec, write: PartitionWrite) -> Iterator[tuple[Segment, Batch]]:
    """Yield the parts of a write, cut at the edges of segments."""
    write = _without_empty(write)
    if not len(write):
        return
    columns = tuple((spec.column(name), data) for name, data in write.columns.items())
    whole = Batch(write.series, write.ts, columns, write.write_us)
    for segment, part in cut_at_segments(write.ts, segment_length_s(spec), spec.precision):
        yield segment, whole.take(part)


def _without_empty(write: PartitionWrite) -> PartitionWrite:
    """Return the write without readings that have no value at all: they would change nothing."""
    if any(data.present is None for data in write.columns.values()):
        return write
    present = np.zeros(len(write), dtype=np.bool_)
    for data in write.columns.values():
        present |= data.mask()
    if present.all():
        return write
    index = np.flatnonzero(present)
    columns = {name: data.take(index) for name, data in write.columns.items()}
    return PartitionWrite(
        write.series, write.bucket, write.ts[index], columns, write.write_us, write.ttl_s
    )


def page_of(found: Sequence[PagePart], stats: Sequence[BlockStats], read: PageRead) -> Page:
    """Return a page of what segments gave, in reading order: one reading more tells of a next.

    Of the blocks that answered, those behind the last reading of the page are left to the next.
    """
    whole = Page(tuple(found), stats=tuple(stats))
    if len(whole) <= read.rows_max:
        return whole
    parts = head_of(found, read.rows_max)
    cursor = int(parts[-1][0][-1])
    return Page(
        parts,
        cursor,
        # No reading lies within a block that answered, so each is on one side of the cursor.
        tuple(s for s in stats if (s.last_ts < cursor) == (read.order == "asc")),
    )
