"""Read plans: every instant in exactly one partition read, refused before memory is used."""

from __future__ import annotations

import itertools
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.design_cases import DAY_S, NOW_S, planned
from treering.core.bucket import BucketWidth, bucket_of
from treering.core.design import Overrides
from treering.core.read_plan import Order, ReadPlan, plan_read
from treering.core.render_plan import render_read_plan
from treering.core.table import TableSpec
from treering.core.units import HOUR_S, Interval, Precision
from treering.errors import FanOutTooWideError, UsageError

NOW_MS = NOW_S * 1_000
DAY_MS = DAY_S * 1_000


def spec_of(width: str = "day", *, columns: str = "value:double", **stated: Any) -> TableSpec:
    overrides = Overrides(bucket=BucketWidth(width))
    design = planned(stated.pop("rate_hz", 1 / 60), overrides=overrides, columns=columns, **stated)
    return TableSpec(name="readings", design=design)


SPECS = {
    (width, precision): spec_of(width, precision=precision)
    for width in BucketWidth
    for precision in Precision
}
FOR_EVER = {width: spec_of(width, retention_s=None) for width in BucketWidth}


def planned_read(spec: TableSpec, start: int, end: int, **options: Any) -> ReadPlan:
    options.setdefault("series", ["s"])
    options.setdefault("now_ts", NOW_S * spec.precision.per_s)
    series = options.pop("series")
    return plan_read(spec, series, Interval(start, end, spec.precision), **options)


@given(
    st.sampled_from(list(SPECS)),
    st.integers(-100 * DAY_S, DAY_S),
    st.integers(0, 100 * DAY_S),
    st.integers(0, 10**9 - 1),
    st.sampled_from(["asc", "desc"]),
)
def test_every_instant_of_the_clipped_interval_is_in_exactly_one_partition_read(
    key: tuple[BucketWidth, Precision], start_s: int, length_s: int, fraction: int, order: Order
) -> None:
    spec = SPECS[key]
    per_s = spec.precision.per_s
    length_s = min(length_s, 200 * spec.width.length_s)
    start = (NOW_S + start_s) * per_s + fraction * per_s // 10**9
    end = start + length_s * per_s
    plan = planned_read(spec, start, end, order=order)
    oldest = (NOW_S - 90 * DAY_S) * per_s
    wanted = (max(start, oldest), end)
    reads = plan.reads if order == "asc" else plan.reads[::-1]
    if wanted[0] >= wanted[1]:
        assert reads == ()
        assert plan.rows_estimate == 0
        return
    # Adjoining, in order, from the first instant to the last, each inside its own bucket.
    assert (reads[0].start, reads[-1].end) == wanted
    for one, following in itertools.pairwise(reads):
        assert one.end == following.start == following.bucket.start_s * per_s
    for read in reads:
        assert read.start < read.end
        assert bucket_of(read.start, spec.width, spec.precision) == read.bucket
        assert bucket_of(read.end - 1, spec.width, spec.precision) == read.bucket
    assert plan.is_clipped is (start < oldest)


@given(st.sampled_from(list(BucketWidth)), st.integers(-60 * 365 * DAY_S, 0), st.integers(1, 50))
def test_plan_before_1970_touches_as_many_partitions_as_buckets(
    width: BucketWidth, start_s: int, buckets: int
) -> None:
    first = bucket_of(start_s * 1_000, width)
    plan = planned_read(
        FOR_EVER[width], first.start_s * 1_000, (first.start_s + buckets * width.length_s) * 1_000
    )
    assert buckets <= plan.fan_out <= buckets + buckets // 10 + 1
    assert len({read.bucket for read in plan.reads}) == plan.fan_out


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_several_series_come_one_after_the_other_in_the_order_given(order: Order) -> None:
    spec = SPECS[BucketWidth.DAY, Precision.MS]
    plan = planned_read(
        spec, NOW_MS - 2 * DAY_MS, NOW_MS, series=["b", "a", "b"], order=order, limit=5
    )
    assert plan.series == ("b", "a")
    days = ["2026-11-28", "2026-11-29"]
    days = days if order == "asc" else days[::-1]
    assert [read.name for read in plan.reads] == [f"{s}/{day}" for s in "ba" for day in days]
    assert plan.rows_estimate == 10


def test_no_partition_is_read_for_nothing() -> None:
    spec = SPECS[BucketWidth.DAY, Precision.MS]
    for start, end in ((NOW_MS, NOW_MS), (NOW_MS - 200 * DAY_MS, NOW_MS - 100 * DAY_MS)):
        plan = planned_read(spec, start, end)
        assert plan.reads == ()
        assert (plan.rows_estimate, plan.bytes_estimate) == (0, 0)
    assert planned_read(spec, NOW_MS, NOW_MS + 1, series=[]).reads == ()


def test_estimate_follows_the_rate_the_limit_and_the_columns() -> None:
    spec = spec_of(rate_hz=1.0, columns="a:double,b:float,c:boolean")
    plan = planned_read(spec, NOW_MS - 2 * DAY_MS, NOW_MS)
    assert plan.rows_estimate == 172_800
    assert plan.bytes_estimate == 172_800 * (8 + 8 + 4 + 1)
    two = planned_read(spec, NOW_MS - 2 * DAY_MS, NOW_MS, series=["x", "y"], columns=("b",))
    assert (two.rows_estimate, two.bytes_estimate) == (345_600, 345_600 * 12)
    few = planned_read(spec, NOW_MS - 2 * DAY_MS, NOW_MS, series=["x", "y"], limit=3)
    assert few.rows_estimate == 6
    assert planned_read(spec, NOW_MS - 1, NOW_MS).rows_estimate == 1


@pytest.mark.parametrize(
    ("start", "end", "options", "words"),
    [
        (NOW_MS, NOW_MS - 1, {}, r"reversed: it starts 2026-11-30T00:00:00.000Z"),
        (0, NOW_MS, {"order": "up"}, "order='up'"),
        (0, NOW_MS, {"limit": 0}, "at least 1, not 0"),
        (0, NOW_MS, {"limit": -3}, "at least 1, not -3"),
        (0, NOW_MS, {"limit": 1.5}, "whole number of at least 1, not 1.5"),
        (0, NOW_MS, {"limit": True}, "whole number of at least 1, not True"),
        (0, NOW_MS, {"columns": ("nope",)}, "no column 'nope'"),
        (0, NOW_MS, {"columns": ()}, "at least one column"),
    ],
)
def test_wrong_request_is_named(start: int, end: int, options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        planned_read(SPECS[BucketWidth.DAY, Precision.MS], start, end, **options)


def test_interval_of_another_precision_is_refused() -> None:
    spec = SPECS[BucketWidth.DAY, Precision.US]
    with pytest.raises(UsageError, match="interval in ms was asked of a table in us"):
        plan_read(spec, ["s"], Interval(0, 1), now_ts=0)


def test_too_many_partitions_are_refused_with_the_width_that_fits() -> None:
    spec = FOR_EVER[BucketWidth.HOUR]
    year = (NOW_MS - 365 * DAY_MS, NOW_MS)
    assert planned_read(spec, *year).fan_out == 8_760
    with pytest.raises(FanOutTooWideError, match="8,760 partitions of width hour") as caught:
        planned_read(spec, *year, fan_out_max=1_000)
    assert caught.value.fitting_width == "day"
    assert "shorter interval" in caught.value.hint


def test_partitions_of_all_series_count_together() -> None:
    spec = FOR_EVER[BucketWidth.DAY]
    with pytest.raises(FanOutTooWideError, match="200 partitions"):
        planned_read(
            spec, NOW_MS - 2 * DAY_MS, NOW_MS, series=[f"s{n}" for n in range(100)], fan_out_max=199
        )


def test_width_that_the_hint_names_fits_for_all_series() -> None:
    spec = FOR_EVER[BucketWidth.HOUR]
    names = [f"s{n}" for n in range(50)]
    interval = (NOW_MS - 20 * DAY_MS, NOW_MS)
    with pytest.raises(FanOutTooWideError) as caught:
        planned_read(spec, *interval, series=names, fan_out_max=1_500)
    width = caught.value.fitting_width
    assert width is not None
    fitting = FOR_EVER[BucketWidth(width)]
    assert planned_read(fitting, *interval, series=names, fan_out_max=1_500).fan_out <= 1_500


def test_too_many_readings_are_refused_unless_a_limit_bounds_them() -> None:
    spec = spec_of("hour", rate_hz=10.0)
    interval = (NOW_MS - 80 * DAY_MS, NOW_MS)
    with pytest.raises(FanOutTooWideError, match="69,120,000 readings, more than 1,000") as caught:
        planned_read(spec, *interval, rows_max=1_000)
    assert caught.value.rows_estimate == 69_120_000
    assert "limit" in caught.value.hint
    assert planned_read(spec, *interval, rows_max=1_000, limit=1_000).rows_estimate == 1_000


@pytest.mark.parametrize("width", list(BucketWidth))
def test_end_in_nanoseconds_is_refused_or_clipped_without_using_memory(width: BucketWidth) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(FanOutTooWideError):
            planned_read(FOR_EVER[width], 0, NOW_MS * 1_000_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


def test_plan_in_words_names_what_is_touched_and_what_was_clipped() -> None:
    spec = spec_of(rate_hz=1.0)
    text = render_read_plan(planned_read(spec, NOW_MS - 120 * DAY_MS, NOW_MS, limit=7))
    assert "partitions  90 of a day each" in text
    assert "clipped     asked from 2026-08-02T00:00:00.000Z" in text
    assert "at most 7 readings a series" in text
    assert "… 82 more partitions …" in text
    assert text.count("s/2026-") == 8
    short = render_read_plan(planned_read(spec, NOW_MS - HOUR_S * 1_000, NOW_MS))
    assert "clipped" not in short
    assert "expected    3,600 readings" in short
