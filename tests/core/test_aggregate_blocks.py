"""Statistics of blocks aggregate to what their readings do, alone and mixed with readings."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.test_aggregate import STEPS, Reading, aggregates_of, series
from treering.core.aggregate import Aggregate
from treering.core.aggregate_blocks import (
    blocks_that_answer,
    blocks_that_may_answer,
    partial_of_stats,
)
from treering.core.aggregate_result import Aggregation, SeriesTotals
from treering.core.block import BlockStats, pack_block, read_stats
from treering.core.columns import ColumnData, column_from_list
from treering.core.schema import Column, ColumnType
from treering.core.time_steps import EvenSteps, TimeSteps
from treering.core.units import Precision
from treering.errors import UsageError


def arrays_of(readings: list[Reading], column_type: ColumnType) -> tuple[Any, ColumnData]:
    """Return readings as arrays."""
    ts = np.array([ts for ts, _ in readings], dtype=np.int64)
    return ts, column_from_list([value for _, value in readings], column_type)


def stats_of(readings: list[Reading], column_type: ColumnType) -> BlockStats:
    """Return what a block of the readings says."""
    ts, data = arrays_of(readings, column_type)
    return read_stats(pack_block(ts, {"v": data}))


def aggregation(
    steps: TimeSteps, column_type: ColumnType, aggregates: tuple[Aggregate, ...]
) -> Aggregation:
    """Return what is asked of one column."""
    return Aggregation(
        steps=steps,
        aggregates=aggregates,
        columns=(Column("v", column_type),),
        precision=Precision.MS,
    )


def shown(totals: SeriesTotals) -> Any:
    """Return a result so that equal ones are equal, NaN too and -0.0 like 0.0."""
    try:
        starts, columns = totals.result("s")
    except UsageError as error:
        return error.message
    lists = {
        name: [repr(v + 0.0) if isinstance(v, float) else v for v in data.to_list()]
        for name, data in columns.items()
    }
    return starts.tolist(), lists


@settings(max_examples=60)
@given(st.data(), st.sampled_from(STEPS), st.booleans())
@pytest.mark.parametrize("column_type", ColumnType)
def test_statistics_of_blocks_aggregate_to_what_readings_do(
    column_type: ColumnType, data: st.DataObject, steps: TimeSteps, is_backwards: bool
) -> None:
    readings, cuts = data.draw(series(column_type))
    chosen = data.draw(st.sets(st.sampled_from(aggregates_of(column_type)), min_size=1))
    what = aggregation(steps, column_type, tuple(sorted(chosen)))
    plain, mixed = SeriesTotals(what), SeriesTotals(what)
    ts, values = arrays_of(readings, column_type)
    plain.add(ts, {"v": values})
    # Blocks end where steps do, as well as anywhere.
    ends = [i for i, (a, b) in enumerate(pairwise(steps.places_of(ts).tolist()), 1) if a != b]
    edges = sorted({0, len(readings), *cuts, *ends[::2]})
    pages = [readings[a:b] for a, b in pairwise(edges)][:: -1 if is_backwards else 1]
    blocks = [stats_of(page, column_type) for page in pages]
    answers = blocks_that_answer(blocks, steps, what.columns, what.aggregates)
    edges_ts = (
        np.array([block.first_ts for block in blocks], dtype=np.int64),
        np.array([block.last_ts for block in blocks], dtype=np.int64),
    )
    may = blocks_that_may_answer(*edges_ts, steps, what.columns, what.aggregates)
    assert not (answers & ~may).any()
    for page, answer in zip(pages, answers.tolist(), strict=True):
        if not answer:
            part_ts, part = arrays_of(page, column_type)
            mixed.add(part_ts, {"v": part})
            mixed.settle()
    whole = [block for block, answer in zip(blocks, answers.tolist(), strict=True) if answer]
    if whole:
        rows = sum(block.count for block in whole)
        mixed.add_part(partial_of_stats(whole, steps, what.columns, what.aggregates), rows)
    assert mixed.rows == plain.rows == len(readings)
    assert shown(mixed) == shown(plain)


NUMBERS = (Aggregate.MEAN, Aggregate.MIN, Aggregate.MAX, Aggregate.SUM, Aggregate.COUNT)


@pytest.mark.parametrize(
    ("values", "column_type", "aggregates", "answers"),
    [
        ([1.0, 2.0], ColumnType.DOUBLE, tuple(Aggregate), True),
        ([1.0, math.nan], ColumnType.DOUBLE, NUMBERS, True),
        ([1.0, math.nan], ColumnType.DOUBLE, (Aggregate.FIRST,), True),
        ([1.0, math.nan], ColumnType.DOUBLE, (Aggregate.LAST,), False),
        ([math.nan, math.nan], ColumnType.DOUBLE, (Aggregate.LAST,), True),
        ([None, 5], ColumnType.BIGINT, tuple(Aggregate), True),
        (["a", "b"], ColumnType.TEXT, (Aggregate.COUNT,), True),
        (["a", "b"], ColumnType.TEXT, (Aggregate.COUNT, Aggregate.LAST), False),
        ([True, None], ColumnType.BOOLEAN, (Aggregate.MEAN,), False),
    ],
)
def test_a_block_answers_what_its_header_says(
    values: list[Any], column_type: ColumnType, aggregates: tuple[Aggregate, ...], answers: bool
) -> None:
    block = stats_of(list(enumerate(values)), column_type)
    columns = (Column("v", column_type),)
    inside, across = EvenSteps(0, 10, 1), EvenSteps(0, 1, 10)
    assert blocks_that_answer([block], inside, columns, aggregates).tolist() == [answers]
    assert blocks_that_answer([block], across, columns, aggregates).tolist() == [False]


def test_days_of_hour_blocks_are_the_sums_of_their_blocks() -> None:
    random = np.random.default_rng(6)
    values = random.normal(20, 3, 48 * 60).round(2)
    ts = np.arange(48 * 60, dtype=np.int64) * 60_000
    blocks = [
        read_stats(pack_block(ts[i : i + 60], {"v": ColumnData(values[i : i + 60])}))
        for i in range(0, len(ts), 60)
    ]
    steps = EvenSteps(0, 86_400_000, 2)
    what = aggregation(steps, ColumnType.DOUBLE, (Aggregate.SUM, Aggregate.MEAN))
    assert blocks_that_answer(blocks, steps, what.columns, what.aggregates).all()
    totals = SeriesTotals(what)
    totals.add_part(partial_of_stats(blocks, steps, what.columns, what.aggregates), len(ts))
    _, columns = totals.result("s")
    days = values.reshape(2, -1)
    assert columns["v_sum"].to_list() == [math.fsum(day.tolist()) for day in days]
    assert columns["v_mean"].to_list() == [math.fsum(day.tolist()) / 1_440 for day in days]
