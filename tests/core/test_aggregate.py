"""Aggregates of pages equal those of plain Python, wherever the pages are cut."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treering.core.aggregate import (
    Aggregate,
    aggregate_columns,
    combine,
    parse_aggregates,
    reduce_page,
)
from treering.core.aggregate_result import Aggregation, SeriesTotals
from treering.core.columns import ColumnData, column_from_list
from treering.core.schema import Column, ColumnType
from treering.core.time_steps import EdgeSteps, EvenSteps, TimeSteps
from treering.core.units import Precision
from treering.errors import UsageError

Reading = tuple[int, Any]
VALUES: dict[ColumnType, st.SearchStrategy[Any]] = {
    ColumnType.DOUBLE: st.floats() | st.sampled_from([math.nan, -0.0, math.inf, 1.7e308, 0.1]),
    ColumnType.FLOAT: st.floats(width=32) | st.just(math.nan),
    ColumnType.INT: st.integers(-(2**31), 2**31 - 1),
    ColumnType.BIGINT: st.integers(-(2**62), 2**62),
    ColumnType.BOOLEAN: st.booleans(),
    ColumnType.TEXT: st.text(max_size=3),
}
STEPS: list[TimeSteps] = [
    EvenSteps(-50, 10, 15),
    EvenSteps(-57, 200, 1),
    EdgeSteps(np.array([-50, -49, -20, 0, 3, 40, 100])),
]


def aggregates_of(column_type: ColumnType) -> tuple[Aggregate, ...]:
    """Return all aggregates that a type has."""
    text = (Aggregate.COUNT, Aggregate.FIRST, Aggregate.LAST)
    return text if column_type is ColumnType.TEXT else tuple(Aggregate)


def wanted_of(values: list[Any], aggregate: Aggregate, column_type: ColumnType) -> Any:
    """Return an aggregate of values that are there and not NaN, in plain Python."""
    match aggregate:
        case Aggregate.COUNT:
            return len(values)
        case Aggregate.MIN:
            return min(values)
        case Aggregate.MAX:
            return max(values)
        case Aggregate.FIRST:
            return values[0]
        case Aggregate.LAST:
            return values[-1]
    ends = {value for value in values if isinstance(value, float) and math.isinf(value)}
    if ends:
        return math.nan if len(ends) == 2 else next(iter(ends))
    total = sum(map(Fraction, values), Fraction(0))
    if aggregate is Aggregate.MEAN:
        return float(total / len(values))
    if column_type in (ColumnType.DOUBLE, ColumnType.FLOAT):
        try:
            return float(total)
        except OverflowError:
            return math.inf if total > 0 else -math.inf
    return int(total)


def is_equal(found: Any, wanted: Any, aggregate: Aggregate) -> bool:
    """Return whether an aggregate is right: exactly, or for a mean to its last digit."""
    if type(found) is not type(wanted):
        return False
    if isinstance(wanted, float) and math.isnan(wanted):
        return math.isnan(found)
    if aggregate is Aggregate.MEAN and math.isfinite(wanted):
        return bool(abs(found - wanted) <= math.ulp(wanted))
    return bool(found == wanted)


def oracle(readings: list[Reading], steps: TimeSteps) -> dict[int, list[Any]]:
    """Return the values that count, by the start of their step."""
    edges = steps.starts_of(np.arange(steps.count, dtype=np.int64)).tolist()
    found: dict[int, list[Any]] = {}
    for ts, value in readings:
        if value is None or value != value:  # NaN
            continue
        found.setdefault(max(edge for edge in edges if edge <= ts), []).append(value)
    return found


def totals_of(
    readings: list[Reading], cuts: list[int], what: Aggregation, *, is_descending: bool
) -> tuple[list[int], dict[str, ColumnData]]:
    """Return the steps of readings that come in pages."""
    totals = SeriesTotals(what)
    ordered = readings[::-1] if is_descending else readings
    column = what.columns[0]
    for start, end in pairwise([0, *cuts, len(ordered)]):
        page = ordered[start:end]
        ts = np.array([ts for ts, _ in page], dtype=np.int64)
        totals.add(ts, {column.name: column_from_list([v for _, v in page], column.type)})
        if (start + end) % 2:
            totals.settle()
    assert totals.rows == len(readings)
    starts, columns = totals.result("s")
    return starts.tolist(), columns


@st.composite
def series(draw: st.DrawFn, column_type: ColumnType) -> tuple[list[Reading], list[int]]:
    """Return readings of a series with places to cut them at."""
    times = sorted(draw(st.sets(st.integers(-50, 99), max_size=40)))
    value = VALUES[column_type] | st.none()
    readings = [(ts, draw(value)) for ts in times]
    if column_type is ColumnType.FLOAT:
        readings = [(ts, None if v is None else float(np.float32(v))) for ts, v in readings]
    cuts = sorted(draw(st.sets(st.integers(0, len(times)), max_size=5)))
    return readings, cuts


@settings(max_examples=60)
@given(st.data(), st.sampled_from(STEPS), st.booleans(), st.booleans())
@pytest.mark.parametrize("column_type", ColumnType)
def test_aggregates_equal_those_of_plain_python(
    column_type: ColumnType,
    data: st.DataObject,
    steps: TimeSteps,
    has_empty: bool,
    is_descending: bool,
) -> None:
    readings, cuts = data.draw(series(column_type))
    aggregates = aggregates_of(column_type)
    what = Aggregation(
        steps=steps,
        aggregates=aggregates,
        columns=(Column("v", column_type),),
        precision=Precision.MS,
        has_empty=has_empty,
    )
    values_by_start = oracle(readings, steps)
    over = column_type is ColumnType.BIGINT and any(
        not -(2**63) <= sum(values) < 2**63 for values in values_by_start.values()
    )
    if over:
        with pytest.raises(UsageError, match="more than a bigint holds"):
            totals_of(readings, cuts, what, is_descending=is_descending)
        return
    starts, columns = totals_of(readings, cuts, what, is_descending=is_descending)
    every = steps.starts_of(np.arange(steps.count, dtype=np.int64)).tolist()
    assert starts == (every if has_empty else sorted(values_by_start))
    schema = aggregate_columns(what.columns, aggregates)
    assert [column.name for column in schema] == list(columns)
    for aggregate, column in zip(aggregates, schema, strict=True):
        found = columns[column.name]
        assert found.values.dtype == column.type.dtype
        for start, value in zip(starts, found.to_list(), strict=True):
            if start in values_by_start:
                wanted = wanted_of(values_by_start[start], aggregate, column_type)
                assert is_equal(value, wanted, aggregate), (aggregate, value, wanted)
            else:
                assert value == (0 if aggregate is Aggregate.COUNT else None)


@given(st.data(), st.permutations(range(4)))
def test_parts_combine_in_any_order_and_grouping(data: st.DataObject, order: list[int]) -> None:
    readings, cuts = data.draw(series(ColumnType.DOUBLE))
    cuts = (cuts + [len(readings)] * 3)[:3]
    parts = []
    for start, end in pairwise([0, *cuts, len(readings)]):
        page = readings[start:end]
        ts = np.array([ts for ts, _ in page], dtype=np.int64)
        columns = {"v": column_from_list([v for _, v in page], ColumnType.DOUBLE)}
        parts.append(reduce_page(STEPS[0].places_of(ts), ts, columns, tuple(Aggregate)))
    whole = combine(parts)["v"]
    mixed = [parts[place] for place in order]
    grouped = combine([combine(mixed[:2]), combine(mixed[2:])])["v"]
    for field in ("steps", "counts", "least", "largest", "first", "first_ts", "last", "last_ts"):
        assert np.array_equal(getattr(whole, field), getattr(grouped, field))
    assert np.array_equal(
        whole.sums.totals(whole.steps),  # type: ignore[union-attr,call-arg]
        grouped.sums.totals(grouped.steps),  # type: ignore[union-attr,call-arg]
        equal_nan=True,
    )


def test_columns_are_empty_each_for_itself() -> None:
    what = Aggregation(
        steps=EvenSteps(0, 10, 3),
        aggregates=(Aggregate.COUNT, Aggregate.LAST),
        columns=(Column("a", ColumnType.DOUBLE), Column("b", ColumnType.TEXT)),
        precision=Precision.MS,
    )
    totals = SeriesTotals(what)
    a = ColumnData(np.array([1.0, np.nan, np.nan, 2.0]))
    b = column_from_list([None, "x", "y", None], ColumnType.TEXT)
    totals.add(np.array([0, 11, 12, 21]), {"a": a, "b": b})
    starts, columns = totals.result("s")
    assert starts.tolist() == [0, 10, 20]
    assert columns["a_count"].to_list() == [1, 0, 1]
    assert columns["a_last"].to_list() == [1.0, None, 2.0]
    assert columns["b_count"].to_list() == [0, 2, 0]
    assert columns["b_last"].to_list() == [None, "y", None]


def test_memory_grows_with_steps_and_not_with_readings() -> None:
    what = Aggregation(
        steps=EvenSteps(0, 10_000_000, 2),
        aggregates=(Aggregate.MEAN,),
        columns=(Column("v", ColumnType.DOUBLE),),
        precision=Precision.MS,
    )
    totals = SeriesTotals(what)
    random = np.random.default_rng(3)
    for page in range(100):
        ts = page * 100_000 + np.arange(5_000, dtype=np.int64)
        totals.add(ts, {"v": ColumnData(random.normal(size=5_000))})
    totals.settle()
    (part,) = totals._parts
    assert len(part["v"]) == 1
    assert totals.rows == 500_000
    assert not totals._pages


def test_a_sum_that_no_bigint_holds_names_series_and_step() -> None:
    what = Aggregation(
        steps=EvenSteps(0, 86_400_000, 2),
        aggregates=(Aggregate.SUM,),
        columns=(Column("n", ColumnType.BIGINT),),
        precision=Precision.MS,
    )
    totals = SeriesTotals(what)
    ts = np.array([5, 86_400_000, 86_400_001])
    totals.add(ts, {"n": ColumnData(np.array([1, 2**63 - 1, 1]))})
    with pytest.raises(UsageError) as refused:
        totals.result("pump-7")
    error = refused.value
    assert "sum of n of pump-7 in the step at 1970-01-02T00:00:00.000Z" in error.message
    assert "9,223,372,036,854,775,808" in error.message
    assert "mean" in error.hint


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("mean,max", ("mean", "max")),
        (["max", "max"], ("max",)),
        (" count , first", ("count", "first")),
    ],
)
def test_aggregates_have_names(given: Any, wanted: tuple[str, ...]) -> None:
    assert parse_aggregates(given) == wanted


@pytest.mark.parametrize("given", ["", "avg", [], ["mean", None], "mean,"])
def test_other_aggregates_are_refused(given: Any) -> None:
    with pytest.raises(UsageError):
        parse_aggregates(given)


def test_text_has_no_mean_and_the_message_names_both() -> None:
    with pytest.raises(UsageError, match="text column 'state' has no mean"):
        aggregate_columns([Column("state", ColumnType.TEXT)], [Aggregate.MEAN])


def test_long_names_stay_whole() -> None:
    (column,) = aggregate_columns([Column("v" * 48, ColumnType.DOUBLE)], [Aggregate.COUNT])
    assert (column.name, column.type) == ("v" * 48 + "_count", ColumnType.BIGINT)
