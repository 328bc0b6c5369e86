"""Statistics of blocks are exact, and those of parts add up to those of the whole."""

from __future__ import annotations

import math
from dataclasses import astuple
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.block_cases import HARD_DOUBLES, columns_of
from treering.core.block import pack_block, read_stats, unpack_columns
from treering.core.block_stats import ColumnStats, combine_stats, stats_of
from treering.core.columns import ColumnData
from treering.core.exact_sum import ExactSum
from treering.core.schema import ColumnType


def exact(stats: ColumnStats) -> str:
    """Return statistics as text in which NaN equals itself and -0.0 differs from 0.0."""
    return repr(astuple(stats))


def fraction(total: int | ExactSum | None) -> Fraction:
    """Return an exact sum as a fraction."""
    assert isinstance(total, ExactSum)
    return total.whole * Fraction(2) ** total.exponent


def of_block(data: ColumnData) -> ColumnStats:
    """Return what a block of the column says."""
    block = pack_block(np.arange(len(data), dtype=np.int64), {"value": data})
    return read_stats(block).columns["value"]


@settings(max_examples=100, deadline=None)
@given(st.data(), st.sampled_from(ColumnType))
def test_parts_combine_to_the_whole_wherever_they_are_cut(
    data: st.DataObject, column_type: ColumnType
) -> None:
    count = data.draw(st.sampled_from([2, 9, 300]))
    column = data.draw(columns_of(count, column_type))
    cuts = sorted(data.draw(st.sets(st.integers(1, count - 1), max_size=4)))
    edges = [0, *cuts, count]
    parts = [of_block(column.take(slice(start, end))) for start, end in pairwise(edges)]
    assert exact(combine_stats(parts)) == exact(of_block(column))
    # In any grouping.
    if len(parts) > 2:
        grouped = combine_stats([combine_stats(parts[:2]), *parts[2:]])
        assert exact(grouped) == exact(of_block(column))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=40))
def test_sums_of_doubles_are_exact(values: list[float]) -> None:
    found = of_block(ColumnData(np.array(values)))
    assert fraction(found.total) == sum(map(Fraction, values))
    assert found.rounded_sum == math.fsum(values)


def test_sums_of_doubles_of_all_sizes_are_exact() -> None:
    random = np.random.default_rng(1)
    values = np.ldexp(random.normal(size=5_000), random.integers(-1_070, 1_010, 5_000))
    values = np.concatenate([values, np.full(60_000, np.finfo(float).max)])
    found = of_block(ColumnData(values)).total
    assert fraction(found) == sum(map(Fraction, values.tolist()))


@pytest.mark.parametrize("end", [np.iinfo(np.int64).min, np.iinfo(np.int64).max])
def test_sums_of_bigints_do_not_overflow(end: int) -> None:
    values = np.full(65_536, end, dtype=np.int64)
    assert of_block(ColumnData(values)).total == 65_536 * int(end)


def test_nan_is_counted_and_left_out_of_least_largest_and_sum() -> None:
    found = of_block(ColumnData(np.array([np.nan, 2.0, 1.0, np.nan])))
    assert (found.count, found.nan_count, found.minimum, found.maximum) == (4, 2, 1.0, 2.0)
    assert found.rounded_sum == 3.0
    assert math.isnan(found.first)
    assert math.isnan(found.last)
    only = of_block(ColumnData(np.array([np.nan])))
    assert (only.minimum, only.maximum, only.rounded_sum) == (None, None, 0.0)


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([math.inf, 1.0], math.inf),
        ([-math.inf, 1.0], -math.inf),
        ([math.inf, 1.0, -math.inf], math.nan),
        ([1.7e308, 1.7e308], math.inf),
        ([-1.7e308, -1.7e308], -math.inf),
        ([1.7e308, 1.7e308, -1.7e308], 1.7e308),
    ],
)
def test_infinities_show_in_the_rounded_sum(values: list[float], wanted: float) -> None:
    found = of_block(ColumnData(np.array(values))).rounded_sum
    assert found == wanted or (math.isnan(wanted) and math.isnan(found or 0))


@pytest.mark.parametrize("values", [[0.0, -0.0], [-0.0, 0.0]])
def test_minus_zero_is_less_than_zero(values: list[float]) -> None:
    found = of_block(ColumnData(np.array(values)))
    assert (str(float(found.minimum)), str(float(found.maximum))) == ("-0.0", "0.0")


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_first_and_last_keep_the_bits_of_nan(dtype: Any) -> None:
    bits = f"u{np.dtype(dtype).itemsize}"
    quiet = np.array([0x7FC0_BEEF if bits == "u4" else 0x7FF8_0000_DEAD_BEEF], dtype=bits)
    signalling = np.array([0x7F80_0001 if bits == "u4" else 0x7FF0_0000_0000_0001], dtype=bits)
    values = np.concatenate([quiet, signalling]).view(dtype)
    found = of_block(ColumnData(values))
    assert np.array([found.first]).view(bits)[0] == quiet[0]
    assert np.array([found.last]).view(bits)[0] == signalling[0]


def test_columns_without_numbers_say_how_many_values_they_have() -> None:
    values = np.array(["a", None, "b"], dtype=object)
    found = of_block(ColumnData(values, np.array([True, False, True])))
    assert (found.count, found.missing, found.total, found.rounded_sum) == (2, 1, None, None)


def test_a_column_of_missing_values_has_no_first_and_a_sum_of_nothing() -> None:
    found = of_block(ColumnData(np.zeros(3), np.zeros(3, dtype=bool)))
    assert (found.count, found.missing, found.first, found.rounded_sum) == (0, 3, None, 0.0)


def test_a_column_can_be_packed_without_statistics() -> None:
    ts, data = np.arange(9, dtype=np.int64), ColumnData(np.arange(9.0))
    block = pack_block(ts, {"value": data, "stamp": data}, without_stats={"stamp"})
    assert list(read_stats(block).columns) == ["value"]
    assert unpack_columns(block, ["stamp"])["stamp"].values.tolist() == list(range(9))
    assert len(block) < len(pack_block(ts, {"value": data, "stamp": data}))


def test_statistics_of_different_types_are_not_combined() -> None:
    with pytest.raises(ValueError, match="one column type"):
        combine_stats(
            [stats_of(HARD_DOUBLES, ColumnType.DOUBLE), stats_of(np.arange(2), ColumnType.BIGINT)]
        )
    with pytest.raises(ValueError, match="at least one"):
        combine_stats([])
