"""Sizes of partitions: floors and ceilings."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.doctor.checks.tables import (
    NOW_S,
    days,
    histogram,
    histograms,
    node,
    percentiles,
    sstable,
)
from treering.doctor.checks.sizes import Size, Sum, bound_of, size_at, sizes_of, write_span_s
from treering.doctor.facts import TableStats

VALUES = st.lists(st.integers(min_value=1, max_value=10**9), min_size=1, max_size=40)
FILES = st.lists(
    st.tuples(
        st.integers(min_value=0, max_value=1_000),
        st.integers(min_value=0, max_value=300),
        st.integers(min_value=1, max_value=10**8),
    ),
    min_size=1,
    max_size=12,
)


@given(VALUES, st.sampled_from([0.01, 0.5, 0.99, 1.0]))
def test_a_size_lies_between_its_bounds(values: list[int], share: float) -> None:
    found = size_at(histogram(*((value, 1) for value in values)), share)
    ordered = sorted(values)
    wanted = ordered[max(-(-len(values) * round(share * 100) // 100), 1) - 1]
    assert found.at_most is not None
    assert found.at_least <= wanted <= found.at_most
    # Bounds are a fifth apart, or one.
    assert found.at_most <= max(found.at_least * 1.25, found.at_least + 1)


def test_a_size_above_the_last_bound_has_no_upper_one() -> None:
    found = size_at(histogram((10, 3), overflow=1), 1.0)
    assert found.at_most is None
    assert found.at_least > 10**11


def test_an_empty_histogram_has_size_0() -> None:
    assert size_at(histogram(), 1.0) == Size(at_least=0, at_most=0)


@given(FILES, st.integers(min_value=0, max_value=2_000))
def test_a_sum_over_files_is_between_the_largest_part_and_all_parts(
    spans: list[tuple[int, int, int]], length_s: int
) -> None:
    files = [
        sstable(id=str(i), start_s=low, end_s=low + length, sizes=((size, 1),))
        for i, (low, length, size) in enumerate(spans)
    ]
    found, everything = bound_of(files, length_s), bound_of(files, None)
    largest = max(size_at(file.partition_bytes, 1.0).shown for file in files)
    assert largest <= found.bytes <= everything.bytes
    assert found.bytes <= bound_of(files, length_s + 100).bytes
    assert everything.files == len(files)
    # By hand: intervals of that length that begin or end with a file are the ones that matter.
    starts = [low - length_s for low, _, _ in spans] + [low + length for low, length, _ in spans]
    by_hand = max(
        sum(
            size_at(file.partition_bytes, 1.0).shown
            for file, (low, length, _) in zip(files, spans, strict=True)
            if low <= start + length_s and low + length >= start
        )
        for start in starts
    )
    assert found.bytes == by_hand


def test_a_partition_of_a_day_is_shared_by_two_days_of_files_at_most() -> None:
    files = days(30)
    part = size_at(files[0].partition_bytes, 1.0).shown
    assert bound_of(files, 86_399) == Sum(bytes=2 * part, files=2)
    assert bound_of(files, 0) == Sum(bytes=part, files=1)


def test_files_say_more_than_nodetool_and_go_first() -> None:
    said = histograms(percentiles(1, 1, 1), percentiles(1e3, 2e3, 3e9))
    found = sizes_of(node(days(), histograms=said))
    assert found is not None
    assert (found.source, found.partitions) == ("files", 300)


def test_percentiles_that_are_missing_beside_a_largest_are_an_overflow() -> None:
    # "Row sizes are larger than 5839588: can't calculate percentiles", then NaN and a Max.
    said = histograms(
        percentiles(1, 1, 1), percentiles(None, None, 5_839_588.0), percentiles(None, None, 9.0)
    )
    found = sizes_of(node(None, histograms=said))
    assert found is not None
    assert found.bytes_max == Size(at_least=5_839_588, at_most=None)
    assert (found.bytes_p99, found.bytes_p50) == (None, None)


def test_a_table_of_nan_has_no_sizes() -> None:
    nothing = percentiles(None, None, None)
    assert sizes_of(node(None, histograms=histograms(nothing, nothing, nothing))) is None
    assert sizes_of(node(None)) is None
    assert sizes_of(node()) is None


def test_virtual_tables_give_an_upper_edge() -> None:
    found = sizes_of(node(None, stats=TableStats(partition_bytes_max=1_048_576, partitions=7)))
    assert found is not None
    # It is rounded up to a whole mebibyte.
    assert found.bytes_max == Size(at_least=0, at_most=1_048_576)
    assert found.partitions == 7


def test_the_span_of_writes_is_over_all_files() -> None:
    files = [sstable(start_s=NOW_S - 10, end_s=NOW_S), sstable(start_s=NOW_S - 90, end_s=NOW_S)]
    assert write_span_s(files) == 90
    assert write_span_s([]) == 0
