"""From the parts of a series to the columns of a result, one value a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, assert_never

import numpy as np
import numpy.typing as npt

from treering.core.aggregate import Aggregate, ColumnPartial, Partial, combine, reduce_page
from treering.core.aggregate_blocks import partial_of_stats
from treering.core.columns import ColumnData, concat_columns
from treering.core.schema import Column
from treering.core.step_sums import FloatSums, IntegerSums
from treering.core.time_steps import TimeSteps, is_ascending
from treering.core.times import render_ts
from treering.core.units import Precision
from treering.errors import UsageError

if TYPE_CHECKING:
    from treering.core.block import BlockStats

IntArray = npt.NDArray[np.int64]
Page = tuple[IntArray, dict[str, ColumnData]]

REDUCE_ROWS = 32_768
"""How many readings are gathered before they are reduced: small pages cost little each."""

REDUCE_BLOCKS = 1_024
"""The same of blocks whose statistics are taken."""

_COMBINE_STEPS = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregation:
    """What becomes of the readings of each series.

    Attributes:
        steps: How time is cut.
        aggregates: What is made of the values of a step.
        columns: The columns that are read.
        precision: The table's precision.
        has_empty: Whether the result has every step, those without values too.
    """

    steps: TimeSteps
    aggregates: tuple[Aggregate, ...]
    columns: tuple[Column, ...]
    precision: Precision
    has_empty: bool = False


class SeriesTotals:
    """Takes the pages of one series and keeps its steps.

    Attributes:
        rows: How many readings were taken.
    """

    def __init__(self, aggregation: Aggregation) -> None:
        self.rows = 0
        self._what = aggregation
        self._pages: list[Page] = []
        self._pages_rows = 0
        self._blocks: list[BlockStats] = []
        self._parts: list[Partial] = []
        self._parts_steps = 0
        self._settled_steps = 0

    def add(self, ts: IntArray, columns: dict[str, ColumnData]) -> None:
        """Take readings whose times ascend or descend, after those taken before."""
        self.rows += len(ts)
        self._pages.append((ts, columns))
        self._pages_rows += len(ts)
        if self._pages_rows >= REDUCE_ROWS:
            self._reduce()

    def add_blocks(self, blocks: Sequence[BlockStats]) -> None:
        """Take readings by what blocks say of them, where ``blocks_that_answer`` named those."""
        self.rows += sum(block.count for block in blocks)
        self._blocks += blocks
        if len(self._blocks) >= REDUCE_BLOCKS:
            self._reduce_blocks()

    def settle(self) -> None:
        """Reduce what was gathered; nothing else of this series is to come soon."""
        self._reduce()
        self._reduce_blocks()
        self._combine()

    def _combine(self) -> None:
        if len(self._parts) > 1:
            self._parts = [combine(self._parts)]
        self._settled_steps = self._parts_steps = sum(map(_size, self._parts))

    def _reduce(self) -> None:
        if not self._pages_rows:
            return
        ts, columns = _in_order(self._pages, self._what.columns)
        self._pages, self._pages_rows = [], 0
        places = self._what.steps.places_of(ts)
        self._take(reduce_page(places, ts, columns, self._what.aggregates))

    def _reduce_blocks(self) -> None:
        blocks, self._blocks = self._blocks, []
        if blocks:
            what = self._what
            self._take(partial_of_stats(blocks, what.steps, what.columns, what.aggregates))

    def add_part(self, part: Partial, rows: int) -> None:
        """Take readings that were reduced already, such as the statistics of blocks."""
        self.rows += rows
        self._take(part)

    def _take(self, part: Partial) -> None:
        self._parts.append(part)
        self._parts_steps += _size(part)
        # Doubling each time: every step is combined a few times in all.
        if self._parts_steps > 2 * self._settled_steps + _COMBINE_STEPS:
            self._combine()

    def result(self, series: str) -> Page:
        """Return the starts of the steps, ascending, and their columns.

        Raises:
            UsageError: A sum that no bigint can hold.
        """
        self.settle()
        part = self._parts[0] if self._parts else self._nothing()
        places = self._places(part)
        starts = self._what.steps.starts_of(places)
        columns: dict[str, ColumnData] = {}
        for column in self._what.columns:
            found = part[column.name]
            for aggregate in self._what.aggregates:
                if aggregate is Aggregate.SUM:
                    self._check_sums(series, column, found)
                values = _values_of(found, aggregate)
                data = _spread(values, found.steps, places, is_count=aggregate is Aggregate.COUNT)
                columns[f"{column.name}_{aggregate}"] = data
        return starts, columns

    def _nothing(self) -> Partial:
        empty = {c.name: ColumnData(np.empty(0, dtype=c.type.dtype)) for c in self._what.columns}
        none = np.empty(0, dtype=np.int64)
        return reduce_page(none, none, empty, self._what.aggregates)

    def _places(self, part: Partial) -> IntArray:
        if self._what.has_empty:
            return np.arange(self._what.steps.count, dtype=np.int64)
        return np.unique(np.concatenate([column.steps for column in part.values()]))

    def _check_sums(self, series: str, column: Column, found: ColumnPartial) -> None:
        if not isinstance(found.sums, IntegerSums):
            return
        over = np.flatnonzero(found.sums.overflows())
        if not len(over):
            return
        place = int(over[0])
        start = int(self._what.steps.starts_of(found.steps[place : place + 1])[0])
        at = render_ts(start, self._what.precision)
        raise UsageError(
            f"the sum of {column.name} of {series} in the step at {at} is "
            f"{found.sums.exact(place):,}, more than a bigint holds",
            hint="ask for the mean, or for shorter steps",
            series=series,
            step=start,
            column=column.name,
        )


def _size(part: Partial) -> int:
    return max(map(len, part.values()), default=0)


def _in_order(pages: Sequence[Page], columns: Sequence[Column]) -> Page:
    ts = np.concatenate([page[0] for page in pages])
    data = {c.name: concat_columns([page[1][c.name] for page in pages], c.type) for c in columns}
    if is_ascending(ts):
        return ts, data
    order: Any = slice(None, None, -1)
    if not is_ascending(ts[order]):
        order = np.argsort(ts, kind="stable")
    return ts[order], {name: column.take(order) for name, column in data.items()}


def _values_of(part: ColumnPartial, aggregate: Aggregate) -> npt.NDArray[Any]:
    """Return an aggregate of each of the part's steps."""
    values: npt.NDArray[Any] | None
    match aggregate:
        case Aggregate.COUNT:
            values = part.counts
        case Aggregate.MIN:
            values = part.least
        case Aggregate.MAX:
            values = part.largest
        case Aggregate.FIRST:
            values = part.first
        case Aggregate.LAST:
            values = part.last
        case Aggregate.SUM:
            values = _sums(part)
        case Aggregate.MEAN:
            values = _means(part)
        case _:
            assert_never(aggregate)
    assert values is not None, f"{aggregate} was not asked for"
    return values


def _sums(part: ColumnPartial) -> npt.NDArray[Any]:
    if isinstance(part.sums, FloatSums):
        return part.sums.totals(part.steps)
    assert part.sums is not None, "sums were not asked for"
    return part.sums.totals()


def _means(part: ColumnPartial) -> npt.NDArray[Any]:
    if isinstance(part.sums, FloatSums):
        return part.sums.means(part.steps, part.counts)
    assert part.sums is not None, "sums were not asked for"
    return part.sums.means(part.counts)


def _spread(
    values: npt.NDArray[Any], steps: IntArray, places: IntArray, *, is_count: bool
) -> ColumnData:
    """Return values at the places of their steps; nothing elsewhere, and 0 for a count."""
    if len(steps) == len(places):
        return ColumnData(values)
    index = np.searchsorted(places, steps)
    spread: npt.NDArray[Any] = np.zeros(len(places), dtype=values.dtype)
    if values.dtype.kind == "O":
        spread[:] = None
    spread[index] = values
    if is_count:
        return ColumnData(spread)
    present = np.zeros(len(places), dtype=np.bool_)
    present[index] = True
    return ColumnData(spread, present)
