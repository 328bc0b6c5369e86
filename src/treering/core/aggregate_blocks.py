"""Blocks that answer for a step by their statistics, so that they need not be unpacked.

Rules of this file: a block answers only where its readings would give exactly the same: it lies in
one step, and what is asked of each column stands in its header. NaN is a value to a block and
nothing to an aggregate, so a block whose first value is NaN does not answer for the first.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from treering.core.aggregate import Aggregate, ColumnPartial, Partial, combine_columns
from treering.core.exact_sum import ExactSum
from treering.core.schema import Column, ColumnType
from treering.core.step_sums import FloatSums, IntegerSums
from treering.core.time_steps import TimeSteps

if TYPE_CHECKING:
    from treering.core.block import BlockStats
    from treering.core.block_stats import ColumnStats

_FLOATS = frozenset({ColumnType.DOUBLE, ColumnType.FLOAT})

Placed = tuple[int, "BlockStats", "ColumnStats"]
"""The step that a block lies in, the block, and a column of it with at least one number."""


def blocks_that_may_answer(
    first_ts: npt.NDArray[np.int64],
    last_ts: npt.NDArray[np.int64],
    steps: TimeSteps,
    columns: Sequence[Column],
    aggregates: Collection[Aggregate],
) -> npt.NDArray[np.bool_]:
    """Return of which blocks it is worth to look at the statistics; of no others any answers.

    Args:
        first_ts: The event times of their first readings.
        last_ts: Those of their last ones.
        steps: How time is cut; it holds all these times.
        columns: What is read of them.
        aggregates: What is asked of each column.
    """
    if any(not c.type.is_numeric for c in columns) and not set(aggregates) <= {Aggregate.COUNT}:
        return np.zeros(len(first_ts), dtype=np.bool_)
    is_inside: npt.NDArray[np.bool_] = steps.places_of(first_ts) == steps.places_of(last_ts)
    return is_inside


def blocks_that_answer(
    blocks: Sequence[BlockStats],
    steps: TimeSteps,
    columns: Sequence[Column],
    aggregates: Collection[Aggregate],
) -> npt.NDArray[np.bool_]:
    """Return which blocks may go to :func:`partial_of_stats`; the others are to be unpacked.

    Args:
        blocks: Statistics of blocks, all of whose readings are wanted.
        steps: How time is cut; it holds the times of all blocks.
        columns: What is read of them.
        aggregates: What is asked of each column.
    """
    first = steps.places_of(np.array([block.first_ts for block in blocks], dtype=np.int64))
    last = steps.places_of(np.array([block.last_ts for block in blocks], dtype=np.int64))
    knows = [
        all(_knows(block.columns[column.name], column, aggregates) for column in columns)
        for block in blocks
    ]
    answers: npt.NDArray[np.bool_] = (first == last) & np.array(knows, dtype=np.bool_)
    return answers


def _knows(stats: ColumnStats, column: Column, aggregates: Collection[Aggregate]) -> bool:
    if not stats.type.is_numeric or stats.type is not column.type:
        return stats.type is column.type and set(aggregates) <= {Aggregate.COUNT}
    if stats.nan_count in (0, stats.count):
        return True
    ends = {Aggregate.FIRST: stats.first, Aggregate.LAST: stats.last}
    return not any(np.isnan(value) for end, value in ends.items() if end in aggregates)


def partial_of_stats(
    blocks: Sequence[BlockStats],
    steps: TimeSteps,
    columns: Sequence[Column],
    aggregates: Collection[Aggregate],
) -> Partial:
    """Return blocks as a part that combines with those of other blocks and of readings.

    Args:
        blocks: One or more that :func:`blocks_that_answer` names; no two overlap in time.
        steps: How time is cut.
        columns: What is read of them.
        aggregates: What is asked of each column.
    """
    ordered = sorted(blocks, key=lambda block: block.first_ts)
    places = steps.places_of(np.array([block.first_ts for block in ordered], dtype=np.int64))
    return {
        column.name: _column_of(
            [
                (place, block, stats)
                for place, block in zip(places.tolist(), ordered, strict=True)
                if (stats := block.columns[column.name]).count > stats.nan_count
            ],
            column.type,
            frozenset(aggregates),
        )
        for column in columns
    }


def _column_of(
    placed: Sequence[Placed], column_type: ColumnType, wanted: frozenset[Aggregate]
) -> ColumnPartial:
    def values(field: str, *askers: Aggregate) -> npt.NDArray[Any] | None:
        if not wanted.intersection(askers):
            return None
        return np.array([getattr(s, field) for _, _, s in placed], dtype=column_type.dtype)

    def times(field: str) -> npt.NDArray[np.int64] | None:
        if not wanted & {Aggregate.FIRST, Aggregate.LAST}:
            return None
        return np.array([getattr(block, field) for _, block, _ in placed], dtype=np.int64)

    parts = ColumnPartial(
        steps=np.array([place for place, _, _ in placed], dtype=np.int64),
        counts=np.array([s.count - s.nan_count for _, _, s in placed], dtype=np.int64),
        least=values("minimum", Aggregate.MIN),
        largest=values("maximum", Aggregate.MAX),
        sums=_sums_of(placed, column_type) if wanted & {Aggregate.SUM, Aggregate.MEAN} else None,
        first=values("first", Aggregate.FIRST, Aggregate.LAST),
        first_ts=times("first_ts"),
        last=values("last", Aggregate.FIRST, Aggregate.LAST),
        last_ts=times("last_ts"),
    )
    # Several blocks may lie in one step.
    return combine_columns([parts])


def _sums_of(placed: Sequence[Placed], column_type: ColumnType) -> IntegerSums | FloatSums:
    if column_type not in _FLOATS:
        return IntegerSums.of_exact([s.total for _, _, s in placed if isinstance(s.total, int)])
    totals = [(place, s.total) for place, _, s in placed if isinstance(s.total, ExactSum)]
    ends = [
        (place, float(end))
        for place, _, stats in placed
        for end in (stats.minimum, stats.maximum)
        if np.isinf(end)
    ]
    return FloatSums.of_exact(totals).with_infinite(ends)
