"""The histograms answer as Cassandra's do."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.errors import UsageError
from treering.sstable.histogram import (
    EMPTY_DROP_TIMES,
    EMPTY_HISTOGRAM,
    DropTimeHistogram,
    EstimatedHistogram,
    droppable_ratio,
    merge_histograms,
)


def bounds_of(count: int) -> list[int]:
    """Return the first bounds of Cassandra's series: 1, then a fifth more, rounded."""
    bounds = [1]
    while len(bounds) < count:
        bounds.append(max(math.floor(bounds[-1] * 1.2 + 0.5), bounds[-1] + 1))
    return bounds


def histogram_of(values: list[int], bounds: list[int]) -> EstimatedHistogram:
    """Count values under bounds, one at a time."""
    counts = [0] * (len(bounds) + 1)
    for value in values:
        counts[next((n for n, bound in enumerate(bounds) if bound >= value), len(bounds))] += 1
    return EstimatedHistogram.from_pairs(zip(bounds, counts, strict=False), overflow=counts[-1])


values = st.lists(st.integers(0, 5_000), max_size=50)
lengths = st.integers(1, 60)


def test_a_quantile_is_the_first_bound_that_so_many_values_do_not_exceed() -> None:
    histogram = EstimatedHistogram.from_pairs([(1, 5), (2, 0), (10, 4), (12, 1)])
    assert [histogram.quantile(share) for share in (0, 0.5, 0.51, 0.9, 0.91, 1)] == [
        *(0, 1, 10, 10, 12, 12)
    ]
    assert (histogram.count, histogram.min, histogram.max) == (10, 0, 12)


def test_the_mean_is_rounded_up() -> None:
    assert EstimatedHistogram.from_pairs([(1, 2), (2, 1)]).mean == 2
    assert EstimatedHistogram.from_pairs([(7, 3)]).mean == 7


def test_an_empty_histogram_says_zero() -> None:
    assert (EMPTY_HISTOGRAM.count, EMPTY_HISTOGRAM.mean, EMPTY_HISTOGRAM.max) == (0, 0, 0)
    assert EMPTY_HISTOGRAM.quantile(0.99) == 0


def test_values_above_the_last_bound_have_no_number() -> None:
    histogram = EstimatedHistogram.from_pairs([(1, 1), (2, 1)], overflow=2)
    assert histogram.max is None
    assert [histogram.quantile(share) for share in (0.25, 0.5, 0.75)] == [1, 2, None]
    assert histogram.above(2) == 2
    assert droppable_ratio(EMPTY_DROP_TIMES, histogram, 0) is None


@given(values, lengths, st.floats(0, 1))
def test_a_quantile_is_never_below_the_true_one(some: list[int], length: int, share: float) -> None:
    histogram = histogram_of(some, bounds_of(length))
    rank = math.ceil(len(some) * share)
    answer = histogram.quantile(share)
    if rank == 0:
        assert answer == 0
    elif answer is None:
        assert sorted(some)[rank - 1] > bounds_of(length)[-1]
    else:
        assert answer >= sorted(some)[rank - 1]


@given(values, values, lengths, lengths)
def test_merging_counts_what_both_counted(
    some: list[int], others: list[int], length: int, other_length: int
) -> None:
    one = histogram_of(some, bounds_of(length))
    two = histogram_of(others, bounds_of(other_length))
    both = merge_histograms([one, two])
    assert both == merge_histograms([two, one])
    assert both.count == len(some) + len(others)
    if one.overflow == two.overflow == 0:
        longest = histogram_of(some + others, bounds_of(max(length, other_length)))
        assert both == longest
    else:
        assert both.max is None


@given(values, values, values, lengths)
def test_merging_is_associative(a: list[int], b: list[int], c: list[int], length: int) -> None:
    x, y, z = (histogram_of(v, bounds_of(n)) for v, n in ((a, length), (b, 60), (c, length + 1)))
    left = merge_histograms([merge_histograms([x, y]), z])
    assert left == merge_histograms([x, merge_histograms([y, z])]) == merge_histograms([x, y, z])


@given(values, st.integers(0, 6_000))
def test_above_counts_no_value_that_is_not_above(some: list[int], limit: int) -> None:
    assert histogram_of(some, bounds_of(60)).above(limit) <= sum(value > limit for value in some)


def test_drop_times_before_the_first_and_after_the_last_point_are_none_and_all() -> None:
    deletions = DropTimeHistogram.from_pairs([(100, 4), (200, 8)])
    assert deletions.before(99) == 0
    assert deletions.before(200) == 12
    assert deletions.before(10_000) == 12


def test_drop_times_between_two_points_are_a_share() -> None:
    deletions = DropTimeHistogram.from_pairs([(100, 4), (200, 8)])
    # Half way: half of the first point's, and a trapezium from 4 to 6 that is half as wide.
    assert deletions.before(150) == 4 / 2 + (4 + 6) * 0.5 / 2


@given(st.dictionaries(st.integers(0, 10_000), st.integers(1, 1_000), max_size=20))
def test_drop_times_never_count_more_than_there_are(points: dict[int, int]) -> None:
    deletions = DropTimeHistogram.from_pairs(sorted(points.items()))
    for point in points:
        assert 0 <= deletions.before(point) <= deletions.count
        older = deletions.before(point + 1, as_3_11=True)
        assert older == pytest.approx(deletions.before(point + 1), abs=1e-6)
    assert deletions.before(10_001) == deletions.count


def test_the_droppable_ratio_divides_by_cells() -> None:
    cells = EstimatedHistogram.from_pairs([(1, 10)])
    deletions = DropTimeHistogram.from_pairs([(100, 20)])
    assert droppable_ratio(deletions, cells, 100) == 2.0
    assert droppable_ratio(deletions, EMPTY_HISTOGRAM, 100) == 0.0


def test_bounds_that_do_not_rise_are_refused() -> None:
    with pytest.raises(UsageError, match="must rise"):
        EstimatedHistogram.from_pairs([(2, 0), (2, 0)])
    with pytest.raises(UsageError, match="must rise"):
        DropTimeHistogram.from_pairs([(2, 1), (1, 1)])
    with pytest.raises(UsageError, match="must rise"):
        DropTimeHistogram.from_pairs([(1, 1), (math.nan, 1), (2, 1)])
    with pytest.raises(UsageError, match="fewer than 0"):
        EstimatedHistogram.from_pairs([(1, -1)])


@given(values, lengths)
def test_other_counts_of_the_same_bounds_make_the_same_histogram(
    some: list[int], length: int
) -> None:
    wanted = histogram_of(some, bounds_of(length))
    empty = histogram_of([], bounds_of(length))
    assert empty.with_checked_counts(wanted.counts, overflow=wanted.overflow) == wanted


def test_equal_histograms_have_equal_hashes() -> None:
    one, two = (EstimatedHistogram.from_pairs([(1, 2), (3, 4)]) for _ in range(2))
    assert one == two
    assert hash(one) == hash(two)
    assert one != DropTimeHistogram.from_pairs([(1, 2), (3, 4)])
    assert not np.shares_memory(one.counts, two.counts)
