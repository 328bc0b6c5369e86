"""Verdicts on rows, buckets, rates and reads."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.core.design_cases import DAY_S, NOW_S, planned, severities, why, workload, workloads
from treering.core.bucket import BucketWidth
from treering.core.design import Overrides, Precision, Workload, plan_design
from treering.core.verdicts import SEVERITIES


def test_a_common_design_has_nothing_worse_than_a_notice() -> None:
    assert planned().worst == "notice"
    assert planned(row_bytes=100).worst == "ok"


@given(workloads())
def test_verdicts_are_complete_sentences_with_unique_ids(load: Workload) -> None:
    design = plan_design(load, now_s=NOW_S)
    found = severities(design)
    assert {"row-bytes", "bucket", "read-fan-out", "gc-grace", "strategy"} <= set(found)
    assert all(severity in SEVERITIES for severity in found.values())
    assert all(verdict.why for verdict in design.verdicts)


def test_exact_bytes_that_give_another_bucket_than_a_rule_of_thumb_say_so() -> None:
    design = planned(1)
    assert severities(design)["row-bytes"] == "notice"
    assert "200 B would give 6h" in why(design, "row-bytes")
    assert "100 B" not in why(design, "row-bytes")


def test_exact_bytes_that_agree_with_the_rules_of_thumb_say_nothing() -> None:
    design = planned(1 / 60)
    assert design.bucket == "month"
    assert severities(design)["row-bytes"] == "ok"


def test_stated_row_bytes_win_and_the_exact_ones_are_told() -> None:
    assert "31 B on disk, which would give the bucket day" in why(
        planned(1, row_bytes=200), "row-bytes"
    )


def test_text_columns_are_sized_by_an_assumption_that_is_named() -> None:
    design = planned(columns="v:double,note:text", text_bytes=100)
    assert severities(design)["row-bytes"] == "notice"
    assert "note counted with 100 B" in why(design, "row-bytes")


def test_the_widest_bucket_within_the_target_names_the_wider_ones() -> None:
    reason = why(planned(300, row_bytes=31), "bucket")
    assert "15min: 270,000 rows, 8.37 MB" in reason
    assert "hour (33.5 MB) is over it but under the ceiling" in reason


def test_a_wider_bucket_by_override_is_a_warning_and_a_narrower_one_a_notice() -> None:
    wide = planned(1, row_bytes=100, overrides=Overrides(bucket=BucketWidth.WEEK))
    assert severities(wide)["bucket"] == "warning"
    assert "60.5 MB, over the target" in why(wide, "bucket")
    narrow = planned(1, row_bytes=100, overrides=Overrides(bucket=BucketWidth.HOUR))
    assert severities(narrow)["bucket"] == "notice"
    assert "day would hold 86,400 rows" in why(narrow, "bucket")


def test_no_width_within_the_target_is_a_warning() -> None:
    design = planned(3_000, row_bytes=100)
    assert design.bucket == "1min"
    assert severities(design)["bucket"] == "warning"
    assert "no width stays within the target" in why(design, "bucket")


def test_partitions_under_ten_kilobytes_are_over_partitioned() -> None:
    by_override = planned(1, overrides=Overrides(bucket=BucketWidth.MINUTE))
    assert by_override.bucket_bytes == 1_860
    assert severities(by_override)["over-partitioned"] == "warning"
    by_rate = planned(1 / DAY_S)
    assert severities(by_rate)["over-partitioned"] == "notice"
    assert "over-partitioned" not in severities(planned(1))


def test_the_edge_of_over_partitioning_is_ten_thousand_bytes() -> None:
    at_edge = planned(1, row_bytes=10_000 / 60, overrides=Overrides(bucket=BucketWidth.MINUTE))
    assert at_edge.bucket_bytes == pytest.approx(10_000)
    below = planned(1, row_bytes=166, overrides=Overrides(bucket=BucketWidth.MINUTE))
    assert "over-partitioned" in severities(below)


def test_a_bucket_longer_than_the_retention_is_told() -> None:
    assert severities(planned(1 / 3_600, retention_s=DAY_S))["bucket-over-retention"] == "notice"
    assert "bucket-over-retention" not in severities(planned(1 / 3_600))


def test_from_a_hundred_a_second_on_aggregation_is_recommended_with_what_it_saves() -> None:
    assert "high-rate" not in severities(planned(99))
    reason = why(planned(300, row_bytes=31), "high-rate")
    assert "9.3 kB a second" in reason
    assert "saves 99.7% of the rows and 99.4% of the bytes" in reason


def test_blocks_are_named_only_where_the_engine_has_them() -> None:
    load = workload(300)
    without = why(plan_design(load, now_s=NOW_S), "high-rate")
    with_blocks = why(plan_design(load, now_s=NOW_S, has_blocks=True), "high-rate")
    assert "block" not in without
    assert "16 B of the 31 B, so 48% goes" in with_blocks


def test_all_writes_of_a_very_fast_series_on_one_replica_set_are_flagged() -> None:
    design = planned(20_000)
    assert severities(design)["hot-partition"] == "warning"
    assert "1,728,000,000 rows a day" in why(design, "hot-partition")
    assert "hot-partition" not in severities(planned(9_999))


def test_milliseconds_are_too_coarse_for_a_thousand_a_second() -> None:
    assert severities(planned(1_000))["precision"] == "warning"
    assert "precision" not in severities(planned(1_000, precision=Precision.US))
    assert "precision" not in severities(planned(999))


@pytest.mark.parametrize(
    ("days", "severity"), [(1, "ok"), (90, "ok"), (200, "notice"), (2_000, "warning")]
)
def test_reads_of_many_partitions_are_judged(days: int, severity: str) -> None:
    design = planned(1, retention_s=None, read_span_s=days * DAY_S)
    assert severities(design)["read-fan-out"] == severity


def test_a_read_over_the_limit_of_partitions_is_an_error() -> None:
    design = planned(1_000, retention_s=30 * DAY_S, read_span_s=30 * DAY_S)
    assert design.bucket == "5min"
    assert severities(design)["read-fan-out"] == "warning"
    narrow = planned(
        100,
        retention_s=30 * DAY_S,
        read_span_s=30 * DAY_S,
        overrides=Overrides(bucket=BucketWidth.MINUTE),
    )
    assert narrow.read_partitions == 43_201
    assert severities(narrow)["read-fan-out"] == "error"
