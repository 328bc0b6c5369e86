"""The rate of a series, as files tell it: by event times where they have them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.doctor.checks.tables import DAY_S, HOUR_S, NOW_S, node, schema, sstable, table, twcs
from treering.core.bucket import BucketWidth, bucket_start_s
from treering.doctor.event_time import EventSpan, count_touched, event_span_of
from treering.doctor.rates import Rates, rates_of
from treering.sstable.facts import ClusteringBound, SSTableFacts

MONDAY_S = 1_764_547_200  # 2025-12-01T00:00:00Z


def bounds(first_s: float, last_s: float) -> dict[str, Any]:
    """Return the ends of a file's clustering; newest first, as the table has it."""
    values = [int(at_s * 1_000).to_bytes(8, "big", signed=True) for at_s in (last_s, first_s)]
    return {
        "clustering_start": ClusteringBound(kind="INCL_START_BOUND", values=(values[0],)),
        "clustering_end": ClusteringBound(kind="INCL_END_BOUND", values=(values[1],)),
    }


def held(first: int, last: int, *, step_s: int, series: int, width_s: int) -> SSTableFacts:
    """Return a file of the readings from number ``first`` to before ``last``, loaded in a second.

    Reading number n of each series happened n steps after a Monday.
    """
    start_s, end_s = MONDAY_S + first * step_s, MONDAY_S + (last - 1) * step_s
    edges = range(start_s // width_s, end_s // width_s + 1)
    cells = []
    for edge in edges:
        low = max(first, -(-(edge * width_s - MONDAY_S) // step_s))
        high = min(last, -(-((edge + 1) * width_s - MONDAY_S) // step_s))
        cells += [(high - low, series)] if high > low else []
    rows = series * (last - first)
    return sstable(
        id=str(first),
        start_s=NOW_S,
        end_s=NOW_S + 1,
        cells=tuple(cells),
        rows=rows,
        columns_set=rows,
        uncompressed_bytes=31 * rows,
        **bounds(start_s, end_s),
    )


def told(files: list[SSTableFacts], width: str = "day", **options: Any) -> Rates:
    """Return what files say of a table with buckets of a width."""
    found = schema(twcs(), key=f"series text, {width} bigint", **options)
    facts = table(found, node(files))
    rates = rates_of(facts, found, facts.nodes[0], row_bytes=lambda: 31)
    assert rates is not None
    return rates


def test_a_day_that_is_filled_for_half_an_hour_tells_the_true_rate() -> None:
    rates = told([held(0, 2_000, step_s=1, series=3, width_s=DAY_S)])
    assert (rates.mean_hz, rates.peak_hz, rates.series, rates.floor) == (1.0, None, 3, "")
    assert rates.source == "6,000 rows in 3 partitions of 1d, event times over 33m20s"


def test_files_without_their_times_tell_a_floor_and_say_so() -> None:
    file = held(0, 2_000, step_s=1, series=3, width_s=DAY_S)
    rates = told([replace(file, clustering_start=None, clustering_end=None)])
    assert rates.mean_hz == pytest.approx(2_000 / DAY_S, rel=0.01)
    assert rates.floor.startswith("written over 1s, so buckets may not be full")


def test_a_lone_old_reading_leaves_a_floor_and_the_fastest_still_sizes() -> None:
    file = held(0, 40_000, step_s=1, series=1, width_s=DAY_S)
    old = replace(file, **bounds(MONDAY_S - 300 * DAY_S, MONDAY_S + 39_999), rows=40_001)
    old = replace(old, partition_cells=sstable(cells=((40_000, 1), (1, 1))).partition_cells)
    rates = told([old])
    assert rates.floor == "some buckets between the first and the last are empty"
    assert rates.peak_hz is not None
    assert rates.mean_hz < 40_000 / DAY_S / 1.5 < rates.peak_hz < 1


def test_a_fast_series_among_many_is_the_peak() -> None:
    slow = held(0, 3_600, step_s=10, series=97, width_s=DAY_S)
    cells = sstable(cells=((3_600, 97), (36_000, 3))).partition_cells
    rows = 97 * 3_600 + 3 * 36_000
    rates = told([replace(slow, partition_cells=cells, rows=rows, columns_set=rows)])
    assert rates.mean_hz == pytest.approx(rows / 100 / 36_000, rel=0.01)
    assert rates.peak_hz is not None
    assert 1 / 1.2 <= rates.peak_hz <= 1


def test_nights_without_readings_count() -> None:
    per_day = [
        held(
            day * DAY_S // 10, (day * DAY_S + 8 * HOUR_S) // 10, step_s=10, series=2, width_s=DAY_S
        )
        for day in range(20)
    ]
    assert told(per_day).mean_hz == pytest.approx(0.1 / 3, rel=0.05)


def test_a_year_without_readings_does_not_slow_a_bucket_down() -> None:
    hours = [(0, 3_600), (365 * DAY_S + HOUR_S, 365 * DAY_S + 2 * HOUR_S)]
    files = [held(first, last, step_s=1, series=2, width_s=DAY_S) for first, last in hours]
    # An hour in each of two days: at least what these buckets hold, at most what the hours do.
    assert 3_600 / DAY_S <= told(files).mean_hz <= 1


@given(
    given=st.lists(
        st.tuples(
            st.integers(1, 2**40),
            st.integers(1, 2**30),
            st.integers(-(10**10), 10**11),
            st.integers(0, 10**10),
        ),
        min_size=1,
        max_size=6,
    ),
    width=st.sampled_from(["minute", "hour", "day", "week", "month", "year"]),
)
def test_whatever_files_say_a_rate_is_a_number(
    given: list[tuple[int, int, int, int]], width: str
) -> None:
    files = [
        sstable(id=str(n), rows=rows, cells=((1, partitions),), **bounds(first_s, first_s + length))
        for n, (rows, partitions, first_s, length) in enumerate(given)
    ]
    rates = told(files, width)
    assert 0 < rates.mean_hz < float("inf")
    assert rates.peak_hz is None or 0 < rates.peak_hz < float("inf")
    assert rates.series is None or rates.series >= 1


def test_a_key_without_a_bucket_takes_event_times_before_write_times() -> None:
    found = schema(twcs(), key="series text")
    facts = table(found, node([held(0, 2_000, step_s=1, series=3, width_s=10**9)]))
    rates = rates_of(facts, found, facts.nodes[0], row_bytes=lambda: 31)
    assert rates is not None
    assert (rates.mean_hz, rates.series) == (1.0, 3)


@given(
    name=st.sampled_from(["hour", "day"]),
    step_s=st.integers(1, 30),
    first=st.integers(0, 100_000),
    sizes=st.lists(st.integers(50, 5_000), min_size=1, max_size=12),
    series=st.integers(1, 40),
    shards=st.integers(1, 4),
)
def test_files_that_follow_each_other_tell_the_rate_however_full_their_buckets_are(
    name: str, step_s: int, first: int, sizes: list[int], series: int, shards: int
) -> None:
    width_s = HOUR_S if name == "hour" else DAY_S
    files = []
    for size in sizes:
        # As a sharded flush writes them: each file has some of the series.
        files += [
            held(first, first + size, step_s=step_s, series=series, width_s=width_s)
            for _ in range(shards)
        ]
        first += size
    rates = told(files, name)
    assert rates.floor == ""
    assert rates.mean_hz == pytest.approx(1 / step_s, rel=0.04)
    assert rates.series == pytest.approx(series * shards, rel=0.04, abs=1)


@given(
    start_s=st.integers(0, 3 * 10**9),
    length_s=st.integers(0, 400 * DAY_S),
    width=st.sampled_from(list(BucketWidth)),
)
def test_touched_buckets_are_those_between_the_first_and_the_last(
    start_s: int, length_s: int, width: BucketWidth
) -> None:
    span = EventSpan(first_s=float(start_s), last_s=float(start_s + length_s))
    touched = count_touched(span, width.length_s)
    first_s, last_s = (bucket_start_s(at_s, width) for at_s in (start_s, start_s + length_s))
    assert (touched - 1) * width.length_s >= last_s - first_s
    assert (touched - 1) * width.length_s * 0.9 <= last_s - first_s or width is BucketWidth.MONTH
    assert touched >= 1


@given(values=st.lists(st.binary(max_size=20), min_size=2, max_size=2))
@pytest.mark.parametrize("kind", ["timestamp", "timeuuid", "bigint", "int", "varint"])
def test_whatever_stands_in_a_bound_is_a_time_or_nothing(kind: str, values: list[bytes]) -> None:
    found = schema(clustering=f"ts {kind}")
    ends = [ClusteringBound(kind="INCL_START_BOUND", values=(value,)) for value in values]
    file = sstable(clustering_start=ends[0], clustering_end=ends[1])
    span = event_span_of(file, found, found.clustering[0])
    assert span is None or span.first_s <= span.last_s


def test_a_time_that_is_not_the_first_clustering_column_tells_nothing() -> None:
    found = schema(clustering="name text, ts timestamp desc")
    file = held(0, 100, step_s=1, series=1, width_s=DAY_S)
    assert event_span_of(file, found, found.clustering[1]) is None
    assert event_span_of(file, schema(), schema().clustering[0]) == EventSpan(
        first_s=MONDAY_S, last_s=MONDAY_S + 99
    )
