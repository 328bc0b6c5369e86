"""A page from blocks and rows together, as if all readings were rows.

Rules of this file: everything happens in one read transaction of the caller's; no more blocks are
unpacked than the page needs, and no column that was not asked for; write times are looked at only
where a row stands over a block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from treering.core.columns import ColumnData
from treering.core.fold import Cells, fold
from treering.core.read_plan import Order
from treering.core.schema import Column
from treering.engine.protocol import Answers, PagePart, head_of
from treering.engine.sqlite.block_body import BlockBody
from treering.engine.sqlite.block_table import BlockTable, Owner, StoredBlock
from treering.errors import CorruptDataError, SchemaMismatchError, TreeringError


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What is wanted of one series in one file.

    Attributes:
        columns: The columns.
        start: First event time, in ticks.
        end: First event time not wanted.
        order: By event time.
        rows_max: The most readings.
        on_damage: Is told of a block that cannot be read, which is then left out; None to raise.
        answers: Which blocks answer by their statistics; None where readings are wanted.
    """

    columns: Sequence[Column]
    start: int
    end: int
    order: Order
    rows_max: int
    on_damage: Callable[[StoredBlock, TreeringError], None] | None = None
    answers: Answers | None = None

    @property
    def is_ascending(self) -> bool:
        """Whether the oldest comes first."""
        return self.order == "asc"


@dataclass(frozen=True, slots=True)
class _Slice:
    """The part of a block that a page takes: readings ``[first, end)`` of it."""

    body: BlockBody
    first: int
    end: int

    @property
    def ts(self) -> npt.NDArray[np.int64]:
        return self.body.ts[self.first : self.end]

    @property
    def is_whole(self) -> bool:
        return self.first == 0 and self.end == len(self.body.ts)

    def part(self, columns: Sequence[Column]) -> PagePart:
        values = self.body.values(columns)
        if self.is_whole:
            return self.body.ts, values
        # The block is kept for the next page; whoever gets this one may write into its arrays.
        inside = slice(self.first, self.end)
        return self.ts.copy(), {n: _copied(data.take(inside)) for n, data in values.items()}

    def cells(self, columns: Sequence[Column]) -> Cells:
        return self.body.cells(columns).take(slice(self.first, self.end))


def read_merged(
    table: BlockTable, owner: Owner, blocks: Sequence[StoredBlock], rows: Cells, ask: Ask
) -> list[PagePart]:
    """Return a page, in order, in parts that nobody else has the memory of.

    Args:
        table: Where the blocks are.
        owner: The series.
        blocks: Those that may hold event times wanted, ascending.
        rows: The rows wanted, ascending: the first ``rows_max`` in the page's order.
        ask: What is wanted.
    """
    start, end = ask.start, ask.end
    if len(rows) >= ask.rows_max:
        # Of later blocks nothing can come before the last of these rows.
        if ask.is_ascending:
            end = int(rows.ts[-1]) + 1
        else:
            start = int(rows.ts[0])
    slices = _slices(table, owner, blocks, ask, start, end)
    if sum(len(part.ts) for part in slices) >= ask.rows_max:
        if ask.is_ascending:
            end = int(slices[-1].ts[-1]) + 1
        else:
            start = int(slices[-1].ts[0])
    rows = rows.between(start, end)
    slices = slices if ask.is_ascending else slices[::-1]
    table.keep(None)
    parts = _merged(slices, rows, ask.columns)
    for part in slices:
        if not part.is_whole:
            table.keep(part.body)
    if not ask.is_ascending:
        parts = [_backwards(part) for part in reversed(parts)]
    return list(head_of(parts, ask.rows_max))


def _slices(
    table: BlockTable,
    owner: Owner,
    blocks: Sequence[StoredBlock],
    ask: Ask,
    start: int,
    end: int,
) -> list[_Slice]:
    """Return what is wanted of blocks, in the page's order, until there is enough."""
    slices: list[_Slice] = []
    left = ask.rows_max
    for block in blocks if ask.is_ascending else reversed(blocks):
        if block.first >= end or block.last < start:
            continue
        try:
            body = table.body(owner, block)
            body.load(ask.columns)
        except (CorruptDataError, SchemaMismatchError) as error:
            if ask.on_damage is None:
                raise
            ask.on_damage(block, error)
            continue
        first, after = np.searchsorted(body.ts, [start, end]).tolist()
        if after - first > left:
            first, after = (first, first + left) if ask.is_ascending else (after - left, after)
        if first == after:
            continue
        slices.append(_Slice(body, first, after))
        left -= after - first
        if not left:
            break
    return slices


def _merged(slices: Sequence[_Slice], rows: Cells, columns: Sequence[Column]) -> list[PagePart]:
    """Return readings of slices and rows, ascending."""
    parts: list[PagePart] = []

    def add(cells: Cells) -> None:
        if len(cells):
            parts.append((cells.ts, {name: one.data for name, one in cells.columns.items()}))

    taken = 0
    for part in slices:
        ts = part.ts
        before, over = np.searchsorted(rows.ts, [int(ts[0]), int(ts[-1]) + 1]).tolist()
        add(rows.take(slice(taken, before)))
        if before == over:
            parts.append(part.part(columns))
        else:
            add(fold(part.cells(columns), rows.take(slice(before, over)), columns))
        taken = over
    add(rows.take(slice(taken, len(rows))))
    return parts


def _copied(data: ColumnData) -> ColumnData:
    return ColumnData(data.values.copy(), None if data.present is None else data.present.copy())


def _backwards(part: PagePart) -> PagePart:
    ts, columns = part
    order = np.arange(len(ts) - 1, -1, -1)
    return ts[order], {name: data.take(order) for name, data in columns.items()}
