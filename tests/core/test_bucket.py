"""Buckets tile time: no gap, no overlap, for every width and year."""

from __future__ import annotations

import datetime as dt
import itertools
import tracemalloc

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from treering.core.bucket import (
    FAN_OUT_MAX,
    BucketWidth,
    bucket_end_s,
    bucket_of,
    bucket_start_s,
    bucket_starts_s,
    buckets_between,
    count_buckets,
    parse_bucket,
)
from treering.core.units import DAY_S, TIME_END_S, TIME_MIN_S, Interval, Precision
from treering.errors import FanOutTooWideError, UsageError, WidthError

SECONDS = st.integers(TIME_MIN_S, TIME_END_S - 1)
WIDTHS = st.sampled_from(list(BucketWidth))
PRECISIONS = st.sampled_from(list(Precision))
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def seconds_of(*parts: int) -> int:
    return int((dt.datetime(*parts, tzinfo=dt.UTC) - EPOCH).total_seconds())  # type: ignore[misc,arg-type]


def moment_of(ts_s: int) -> dt.datetime:
    return EPOCH + dt.timedelta(seconds=ts_s)


@given(SECONDS, WIDTHS)
@example(-1, BucketWidth.MONTH)
@example(TIME_MIN_S, BucketWidth.WEEK)
@example(TIME_END_S - 1, BucketWidth.MONTH)
@example(seconds_of(2024, 2, 29, 23, 59, 59), BucketWidth.MONTH)
@example(seconds_of(1900, 2, 28, 23, 59, 59), BucketWidth.MONTH)
def test_buckets_tile_time(ts_s: int, width: BucketWidth) -> None:
    start_s = bucket_start_s(ts_s, width)
    end_s = bucket_end_s(start_s, width)
    assert start_s <= ts_s < end_s
    assert end_s - start_s <= width.length_s
    assert bucket_start_s(start_s, width) == bucket_start_s(end_s - 1, width) == start_s
    assert bucket_start_s(end_s, width) == end_s
    assert bucket_start_s(start_s - 1, width) < start_s


@given(SECONDS)
def test_day_month_and_week_are_those_of_the_calendar(ts_s: int) -> None:
    moment = moment_of(ts_s)
    assert bucket_of(ts_s * 1_000, "day").text == moment.date().isoformat()
    assert bucket_of(ts_s * 1_000, "month").text == moment.date().isoformat()[:7]
    year, week, _ = moment.isocalendar()
    assert bucket_of(ts_s * 1_000, "week").text == f"{year:04d}-W{week:02d}"
    assert bucket_of(ts_s * 1_000, "hour").text == moment.isoformat()[:13]


@given(st.lists(SECONDS, max_size=20), WIDTHS, PRECISIONS, st.integers(0, 999_999_999))
def test_array_of_times_gets_the_buckets_that_each_time_gets(
    seconds: list[int], width: BucketWidth, precision: Precision, nanoseconds: int
) -> None:
    fraction = nanoseconds * precision.per_s // 10**9
    times = [
        min(max(s * precision.per_s + fraction, precision.ts_min), precision.ts_end - 1)
        for s in seconds
    ]
    starts = bucket_starts_s(np.array(times, dtype=np.int64), width, precision)
    assert starts.dtype == np.int64
    assert starts.tolist() == [bucket_start_s(ts // precision.per_s, width) for ts in times]
    assert starts.tolist() == [bucket_of(ts, width, precision).start_s for ts in times]


@given(SECONDS, WIDTHS)
def test_text_of_a_bucket_parses_back_to_it(ts_s: int, width: BucketWidth) -> None:
    bucket = bucket_of(ts_s * 1_000, width)
    assert parse_bucket(bucket.text) == bucket


@given(SECONDS, SECONDS, WIDTHS)
def test_two_buckets_of_a_width_have_one_text_only_if_they_are_one(
    one_s: int, other_s: int, width: BucketWidth
) -> None:
    one, other = bucket_of(one_s * 1_000, width), bucket_of(other_s * 1_000, width)
    assert (one.text == other.text) is (one == other)
    assert (one < other) is (one.start_s < other.start_s)


@pytest.mark.parametrize(
    ("width", "text"),
    [
        ("1min", "2025-11-20T13:17/1min"),
        ("5min", "2025-11-20T13:15/5min"),
        ("15min", "2025-11-20T13:15/15min"),
        ("hour", "2025-11-20T13"),
        ("6h", "2025-11-20T12/6h"),
        ("day", "2025-11-20"),
        ("week", "2025-W47"),
        ("month", "2025-11"),
    ],
)
def test_each_width_has_its_own_text(width: str, text: str) -> None:
    assert bucket_of(seconds_of(2025, 11, 20, 13, 17, 42) * 1_000, width).text == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2025",
        "2025-13",
        "2025-00",
        "2025-02-30",
        "2025-W00",
        "2025-W53",
        "2025-11-20T24",
        "2025-11-20T13:17",
        "2025-11-20T13:17/15min",
        "2025-11-20T13/6h",
        "2025-11-20T13/hour",
        "2025-11-20/day",
        "2025-11-20T12/7h",
        "2025-11-20\n",
        " 2025-11-20",
        "２０２５-11-20",
    ],
)
def test_text_that_no_bucket_has_is_refused(text: str) -> None:
    with pytest.raises(WidthError, match="not the text of a bucket"):
        parse_bucket(text)


@given(SECONDS, st.integers(0, 400 * DAY_S), st.integers(0, 999), WIDTHS)
def test_buckets_between_cover_the_interval_once_and_end_with_the_last_instant(
    start_s: int, length_s: int, ms: int, width: BucketWidth
) -> None:
    length_s = min(length_s, 300 * width.length_s)
    interval = Interval(start_s * 1_000 + ms, (start_s + length_s) * 1_000 + ms)
    buckets = buckets_between(interval, width)
    assert len(buckets) == count_buckets(interval, width)
    if interval.is_empty:
        assert buckets == ()
        return
    assert buckets[0].start_s == bucket_start_s(interval.start // 1_000, width)
    assert buckets[-1].start_s == bucket_start_s((interval.end - 1) // 1_000, width)
    assert all(one.end_s == next_.start_s for one, next_ in itertools.pairwise(buckets))


@pytest.mark.parametrize("width", list(BucketWidth))
def test_end_on_an_edge_does_not_reach_into_the_next_bucket(width: BucketWidth) -> None:
    first = bucket_of(seconds_of(2025, 12, 31, 23, 59, 59) * 1_000, width)
    interval = first.interval(Precision.MS)
    assert buckets_between(interval, width) == (first,)
    one_more = Interval(interval.start, interval.end + 1)
    assert [b.start_s for b in buckets_between(one_more, width)] == [first.start_s, first.end_s]
    assert buckets_between(Interval(interval.start, interval.start), width) == ()


def test_a_billion_buckets_are_refused_before_memory_is_used_for_them() -> None:
    interval = Interval(TIME_MIN_S * 1_000, TIME_END_S * 1_000)
    tracemalloc.start()
    try:
        with pytest.raises(FanOutTooWideError, match="5,258,964,960 partitions") as caught:
            buckets_between(interval, "1min")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000
    assert caught.value.partitions == 5_258_964_960
    assert caught.value.fitting_width is None
    assert "shorter interval" in caught.value.hint


def test_refusal_names_the_narrowest_width_that_would_fit() -> None:
    year = Interval(seconds_of(2025, 1, 1) * 1_000, seconds_of(2026, 1, 1) * 1_000)
    with pytest.raises(FanOutTooWideError, match="525,600 partitions of width 1min") as caught:
        buckets_between(year, "1min")
    assert caught.value.fitting_width == "hour"
    assert "8,760 partitions" in caught.value.hint
    assert len(buckets_between(year, "hour")) == 8_760 < FAN_OUT_MAX


@pytest.mark.parametrize("ts_s", [TIME_MIN_S - 1, TIME_END_S])
def test_time_outside_the_years_has_no_bucket(ts_s: int) -> None:
    with pytest.raises(WidthError, match="years 1 to 9999"):
        bucket_of(ts_s * 1_000, "day")


def test_milliseconds_given_as_nanoseconds_land_in_1970_and_the_reverse_is_refused() -> None:
    now_ms = seconds_of(2025, 11, 20) * 1_000
    assert bucket_of(now_ms, "day", "ns").text == "1970-01-01"
    with pytest.raises(WidthError) as caught:
        bucket_of(now_ms * 1_000_000, "day", "ms")
    assert "unit" in caught.value.hint


def test_numpy_integer_is_as_good_as_a_plain_one_and_a_float_is_refused() -> None:
    found = bucket_of(np.int64(1_763_643_600_000), "day")  # type: ignore[arg-type]
    assert type(found.start_s) is int
    with pytest.raises(TypeError, match="integer"):
        bucket_of(1_763_643_600_000.0, "day")  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "width"), [("1h", "hour"), ("Daily", "day"), (" week ", "week")])
def test_width_has_the_names_that_people_use(name: str, width: str) -> None:
    assert BucketWidth.from_text(name) == width


@pytest.mark.parametrize("name", ["", "year", "2h", "30min", "days"])
def test_unknown_width_is_named_with_those_there_are(name: str) -> None:
    with pytest.raises(WidthError, match="not a bucket width") as caught:
        BucketWidth.from_text(name)
    assert "15min" in caught.value.hint


def test_unknown_precision_of_a_time_is_named() -> None:
    with pytest.raises(UsageError, match="not a precision"):
        bucket_of(0, "day", "s")
