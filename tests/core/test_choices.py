"""What a design chooses, and what it refuses."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.design_cases import (
    DAY_S,
    HOUR_S,
    MINUTE_S,
    NOW_S,
    YEAR_S,
    planned,
    workload,
    workloads,
)
from treering.core.bucket import BucketWidth, bucket_end_s, bucket_start_s, count_buckets
from treering.core.choices import (
    candidates_of,
    choose,
    exact_row_bytes,
    read_partitions_of,
    rows_of,
)
from treering.core.design import Overrides, Strategy, Workload
from treering.core.units import Interval
from treering.core.window import parse_window
from treering.errors import DesignError


@pytest.mark.parametrize(
    ("rate_hz", "row_bytes", "bucket", "rows", "size"),
    [
        (1 / 60, 100, "month", 44_640, 4_464_000),
        (1, 100, "day", 86_400, 8_640_000),
        (10, 200, "hour", 36_000, 7_200_000),
        (1 / 10, 200, "day", 8_640, 1_728_000),
        (1 / 3_600, 200, "month", 744, 148_800),
        (300, 31, "15min", 270_000, 8_370_000),
    ],
    ids=["1/min", "1/s", "10/s", "1/10s", "1/h", "300/s"],
)
def test_the_bucket_is_the_widest_within_ten_megabytes(
    rate_hz: float, row_bytes: int, bucket: str, rows: int, size: int
) -> None:
    design = planned(rate_hz, row_bytes=row_bytes)
    assert (design.bucket, design.rows_per_bucket, design.bucket_bytes) == (bucket, rows, size)


def test_one_a_second_shows_what_wider_buckets_would_hold() -> None:
    sizes = {c.bucket: (c.partition_bytes, c.fit) for c in planned(1, row_bytes=100).candidates}
    assert sizes[BucketWidth.WEEK] == (60_480_000, "ceiling")
    assert sizes[BucketWidth.MONTH] == (267_840_000, "over")


def test_a_thousand_a_second_is_billions_of_rows_a_month() -> None:
    rows = {c.bucket: c.rows for c in planned(1_000).candidates}
    assert rows[BucketWidth.MONTH] == 2_678_400_000


def test_a_thousand_a_second_at_a_hundred_megabytes_is_at_most_a_quarter_of_an_hour() -> None:
    assert planned(1_000, row_bytes=100, partition_bytes_target=10**8).bucket == "15min"


def test_the_peak_rate_sizes_the_bucket_and_the_mean_rate_the_disk() -> None:
    calm, bursting = planned(1, row_bytes=100), planned(1, row_bytes=100, peak_rate_hz=10)
    assert (calm.bucket, bursting.bucket) == ("day", "hour")
    assert calm.disk_bytes == bursting.disk_bytes


def test_one_partition_for_a_year_is_refused_with_its_size_and_what_fits() -> None:
    with pytest.raises(DesignError, match=r"3,153,600 rows, 631 MB.*over the ceiling") as raised:
        planned(1 / 10, row_bytes=200, retention_s=YEAR_S, overrides=Overrides(bucket="none"))
    assert raised.value.partition_bytes == 630_720_000
    assert "day: 8,640 rows, 1.73 MB" in raised.value.hint


def test_one_small_partition_for_ever_is_refused_because_no_file_ever_finishes_it() -> None:
    with pytest.raises(DesignError, match="never be finished"):
        planned(1 / 3_600, retention_s=None, overrides=Overrides(bucket="none"))


def test_a_bucket_over_the_ceiling_is_refused_with_what_would_fit() -> None:
    with pytest.raises(DesignError, match=r"86,400,000 rows.*8\.64 GB") as raised:
        planned(1_000, row_bytes=100, overrides=Overrides(bucket=BucketWidth.DAY))
    assert raised.value.hint.startswith("the widest within the target is 1min: 60,000 rows")


def test_fifty_thousand_a_second_in_one_day_is_refused_with_its_rows() -> None:
    with pytest.raises(DesignError, match="4,320,000,000 rows"):
        planned(50_000, overrides=Overrides(bucket=BucketWidth.DAY))


def test_a_rate_that_no_width_holds_is_refused_with_the_rate_that_would() -> None:
    with pytest.raises(DesignError, match="one 1min") as raised:
        planned(10**6)
    assert "split the series" in raised.value.hint


def test_the_ceiling_in_cells_counts_every_column() -> None:
    columns = ",".join(f"c{i}:boolean" for i in range(60))
    with pytest.raises(DesignError, match="5,184,000 cells"):
        planned(1, columns=columns, overrides=Overrides(bucket=BucketWidth.DAY))


@given(workloads())
def test_the_chosen_width_is_the_widest_within_the_target(load: Workload) -> None:
    choices = choose(load, now_s=NOW_S, overrides=Overrides())
    fitting = [
        width
        for width in BucketWidth
        if rows_of(load.sizing_rate_hz, width.length_s) * choices.row_bytes
        <= load.partition_bytes_target
        and rows_of(load.sizing_rate_hz, width.length_s) * len(load.columns)
        <= load.partition_cells_max
    ]
    assert choices.bucket is (fitting[-1] if fitting else BucketWidth.MINUTE)
    assert choices.candidate.fit in ("target", "ceiling")


@given(workloads())
def test_candidates_never_shrink_with_the_width(load: Workload) -> None:
    candidates = candidates_of(load, 31)
    for one, wider in pairwise(candidates):
        assert one.rows <= wider.rows
        assert one.read_partitions >= wider.read_partitions


@given(
    st.sampled_from(list(BucketWidth)),
    st.integers(1, 500 * DAY_S),
    st.integers(-(10**9), 3 * 10**9),
)
def test_no_read_touches_more_partitions_than_stated(
    width: BucketWidth, span_s: int, start_s: int
) -> None:
    interval = Interval(start_s * 1_000 - 1, (start_s + span_s) * 1_000 - 1)
    assert count_buckets(interval, width) <= read_partitions_of(width, span_s)


@given(st.sampled_from(list(BucketWidth)), st.integers(1, 100 * DAY_S))
def test_some_read_touches_as_many_partitions_as_stated(width: BucketWidth, span_s: int) -> None:
    # A read that starts in the last millisecond of a bucket, of a month of a common year.
    starts = [978_307_200 + day * DAY_S for day in range(365)]
    ends_ms = {bucket_end_s(bucket_start_s(s, width), width) * 1_000 - 1 for s in starts}
    most = max(count_buckets(Interval(e, e + span_s * 1_000), width) for e in ends_ms)
    assert most == read_partitions_of(width, span_s)


def test_reads_are_clipped_to_the_retention() -> None:
    assert planned(retention_s=HOUR_S, read_span_s=YEAR_S).read_partitions == 2


@pytest.mark.parametrize(
    ("retention_s", "grace_s"),
    [
        (HOUR_S, 3 * HOUR_S),
        (21 * HOUR_S, 3 * HOUR_S),
        (2 * DAY_S, 2 * DAY_S // 7),
        (7 * DAY_S, DAY_S),
        (90 * DAY_S, DAY_S),
        (365 * DAY_S, DAY_S),
    ],
)
def test_grace_of_an_append_only_table_is_a_seventh_within_3_and_24_hours(
    retention_s: int, grace_s: int
) -> None:
    assert planned(retention_s=retention_s).gc_grace_s == grace_s


@pytest.mark.parametrize(
    ("repair_every_s", "grace_s"),
    [(None, 10 * DAY_S), (7 * DAY_S, 10 * DAY_S), (30 * DAY_S, 33 * DAY_S)],
)
@pytest.mark.parametrize("kind", ["deletes", "overwrites"])
def test_grace_with_deletes_outlasts_the_repair_interval(
    kind: str, repair_every_s: int | None, grace_s: int
) -> None:
    design = planned(repair_every_s=repair_every_s, **{kind: True})
    assert design.gc_grace_s == grace_s


def test_grace_is_zero_only_by_name() -> None:
    assert planned(retention_s=60).gc_grace_s == 3 * HOUR_S
    assert planned(overrides=Overrides(gc_grace_s=0)).gc_grace_s == 0


def test_the_default_ttl_is_the_retention() -> None:
    assert planned(retention_s=90 * DAY_S).ttl_s == 7_776_000
    assert planned(retention_s=None).ttl_s is None


def test_twelve_years_are_refused_before_2038_and_taken_in_mode_none() -> None:
    with pytest.raises(DesignError, match="2038-01-19") as raised:
        planned(1 / 60, retention_s=12 * YEAR_S)
    assert raised.value.ttl_max_s == 351_486_846
    design = planned(1 / 60, retention_s=12 * YEAR_S, storage_mode="NONE")
    assert design.ttl_s == 378_432_000


def test_more_than_twenty_years_are_refused() -> None:
    with pytest.raises(DesignError, match="630,720,000"):
        planned(1 / 60, retention_s=1_038_700_758, storage_mode="NONE")


def test_a_design_with_less_than_a_year_before_the_cap_is_refused_with_the_date() -> None:
    almost_s = 351_486_846 - YEAR_S
    assert planned(1 / 60, retention_s=almost_s).ttl_s == almost_s
    with pytest.raises(DesignError, match="refused from 2027-11-29 on") as raised:
        planned(1 / 60, retention_s=almost_s + DAY_S)
    assert "storage mode NONE" in raised.value.hint


@pytest.mark.parametrize("ttl_s", [0, -5])
def test_a_ttl_of_zero_is_refused_because_it_means_never(ttl_s: int) -> None:
    with pytest.raises(DesignError, match="never"):
        planned(overrides=Overrides(ttl_s=ttl_s))


@pytest.mark.parametrize("version", ["3.6", "3.0.7", "2.2"])
def test_a_server_without_twcs_is_refused_before_any_statement(version: str) -> None:
    with pytest.raises(DesignError, match="no TimeWindowCompactionStrategy"):
        planned(cassandra=version)


@pytest.mark.parametrize(
    ("stated", "version", "strategy"),
    [
        ({}, "5.0", "TWCS"),
        ({}, "3.11", "TWCS"),
        ({"deletes": True}, "5.0", "UCS"),
        ({"overwrites": True}, "4.1", "STCS"),
        ({"retention_s": None}, "5.0", "UCS"),
        ({"retention_s": None}, "4.0", "STCS"),
    ],
)
def test_the_strategy_follows_how_readings_leave(
    stated: dict[str, Any], version: str, strategy: str
) -> None:
    assert planned(cassandra=version, **stated).strategy == strategy


@pytest.mark.parametrize(
    ("stated", "overrides", "message"),
    [
        ({"retention_s": None}, Overrides(ttl_s=DAY_S), "contradicts a retention for ever"),
        ({"retention_s": None}, Overrides(window=parse_window("1d", 1)), "never drop a file"),
        ({"retention_s": None}, Overrides(strategy=Strategy.TWCS), "zero_ttl_on_twcs"),
        ({"cassandra": "4.1"}, Overrides(strategy=Strategy.UCS), "from 5.0 on"),
    ],
)
def test_choices_that_contradict_are_refused(
    stated: dict[str, Any], overrides: Overrides, message: str
) -> None:
    with pytest.raises(DesignError, match=message):
        planned(overrides=overrides, **stated)


def test_a_window_override_counts_over_the_ttl() -> None:
    window = parse_window("1d", 1)
    assert planned(overrides=Overrides(window=window)).window == window.over(90 * DAY_S)


def test_row_bytes_are_exact_unless_stated() -> None:
    assert planned().row_bytes == 31
    assert planned(row_bytes=200).row_bytes == 200
    load = workload(row_bytes=200)
    choices = choose(load, now_s=NOW_S, overrides=Overrides())
    assert exact_row_bytes(load, choices.file_span_s) == 31


def test_rows_are_larger_where_no_window_bounds_what_one_file_spans() -> None:
    # 90 days are 7 B of microseconds and 4 B of seconds, a window of three days 6 B and 3 B.
    assert planned(deletes=True).row_bytes == 33
    assert planned(deletes=True, overrides=Overrides(strategy=Strategy.TWCS)).row_bytes == 31


def test_disk_holds_retention_grace_window_check_and_headroom() -> None:
    design = planned(1, row_bytes=100, compression_ratio=0.25, series_count=40)
    held_s = 90 * DAY_S + DAY_S + 3 * DAY_S + 10 * MINUTE_S + 3 * DAY_S
    assert design.choices.disk_bytes_per_series == held_s * 25
    assert design.disk_bytes == held_s * 25 * 40


def test_disk_counts_stated_replicas() -> None:
    one, six = planned(), planned(replication=(("dc1", 3), ("dc2", 3)))
    assert six.disk_bytes == pytest.approx(6 * one.disk_bytes, abs=6)


@pytest.mark.parametrize(
    ("rate_hz", "length_s", "rows"),
    [(1 / 60, 60, 1), (0.1, 30, 3), (1 / 3_600, 86_400, 24), (1, 1.5, 2), (1e-9, 60, 1)],
)
def test_rows_round_up_but_not_for_a_float_s_last_bit(
    rate_hz: float, length_s: float, rows: int
) -> None:
    assert rows_of(rate_hz, length_s) == rows
