"""A change of the retention: derived again, priced, and honest about what stays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.core.bucket import BucketWidth
from treering.core.ddl import render_alter_table
from treering.core.design import Overrides, Workload, plan_design
from treering.core.retention import (
    REMARKED_MAX,
    SPEC_LEASE_S,
    buckets_to_mark,
    plan_retention,
    render_retention_plan,
)
from treering.core.schema import parse_columns
from treering.core.segment import segment_length_s
from treering.core.table import TableSpec
from treering.core.units import DAY_S, HOUR_S
from treering.core.widths import WidthSince
from treering.errors import UsageError

NOW_S = 1_764_504_000


def spec_of(retention_s: int | None = 90 * DAY_S, **choices: object) -> TableSpec:
    load = Workload(rate_hz=1.0, columns=parse_columns("value:double"), retention_s=retention_s)
    overrides = Overrides(**choices)  # type: ignore[arg-type]
    return TableSpec(name="readings", design=plan_design(load, now_s=NOW_S, overrides=overrides))


@given(st.integers(1, 400), st.integers(1, 400), st.sampled_from(list(BucketWidth)[4:6]))
def test_new_table_is_what_the_design_says_and_readings_stay_where_they_are(
    days: int, new_days: int, width: BucketWidth
) -> None:
    spec = spec_of(days * DAY_S, bucket=width)
    after = plan_retention(spec, new_days * DAY_S, now_s=NOW_S, is_by_ttl=True).after
    fresh = spec_of(new_days * DAY_S, bucket=width).design
    assert (after.design.ttl_s, after.design.window, after.design.gc_grace_s) == (
        fresh.ttl_s,
        fresh.window,
        fresh.gc_grace_s,
    )
    assert after.width is spec.width
    assert segment_length_s(after) == segment_length_s(spec)
    assert TableSpec.from_json(after.to_json()) == after


def test_second_change_keeps_the_length_of_the_first_files() -> None:
    spec = spec_of()
    once = plan_retention(spec, 30 * DAY_S, now_s=NOW_S, is_by_ttl=False).after
    twice = plan_retention(once, 400 * DAY_S, now_s=NOW_S + 5, is_by_ttl=False).after
    assert segment_length_s(twice) == segment_length_s(spec) == 3 * DAY_S
    assert twice.window_s != once.window_s != spec.window_s


def test_same_retention_changes_nothing() -> None:
    spec = spec_of()
    plan = plan_retention(spec, 90 * DAY_S, now_s=NOW_S + 5, is_by_ttl=True)
    assert plan.after == spec
    assert not plan.changes
    assert not plan.unchanged
    assert "nothing is left to do" in render_retention_plan(plan)


def test_shrinking_frees_nothing_before_the_last_old_reading_has_gone() -> None:
    plan = plan_retention(spec_of(), 30 * DAY_S, now_s=NOW_S, is_by_ttl=True)
    assert [change[0] for change in plan.changes] == ["retention", "default TTL", "window"]
    text = render_retention_plan(plan)
    assert "none of them leaves the disk earlier" in text
    assert "stays as full as it is until about 2026-03-04" in text
    assert "Windows shrink from 3 DAYS to 1 DAYS" in text
    # 90 days of lifetime, a day of grace, a window of three days.
    assert 94 * DAY_S < plan.complete_s - NOW_S < 94 * DAY_S + HOUR_S


def test_growing_is_complete_one_new_retention_later_and_compacts_into_larger_windows() -> None:
    plan = plan_retention(spec_of(30 * DAY_S), 90 * DAY_S, now_s=NOW_S, is_by_ttl=True)
    assert plan.grows
    assert plan.complete_s == NOW_S + SPEC_LEASE_S + 90 * DAY_S
    text = render_retention_plan(plan)
    assert "does not come back" in text
    assert "compacted together" in text


def test_embedded_files_are_not_touched() -> None:
    plan = plan_retention(spec_of(), 30 * DAY_S, now_s=NOW_S, is_by_ttl=False)
    assert plan.complete_s == NOW_S + SPEC_LEASE_S
    assert "keep their length of 3d" in render_retention_plan(plan)


def test_named_grace_stays_named_and_a_new_one_replaces_it() -> None:
    spec = spec_of(gc_grace_s=5 * DAY_S)
    kept = plan_retention(spec, 30 * DAY_S, now_s=NOW_S, is_by_ttl=True)
    assert kept.after.design.gc_grace_s == 5 * DAY_S
    other = plan_retention(spec, 30 * DAY_S, now_s=NOW_S, is_by_ttl=True, gc_grace_s=2 * DAY_S)
    assert other.after.design.gc_grace_s == 2 * DAY_S


@pytest.mark.parametrize(("before", "after"), [(None, 30 * DAY_S), (30 * DAY_S, None)])
def test_retention_without_end_is_refused(before: int | None, after: int | None) -> None:
    with pytest.raises(UsageError, match="for ever"):
        plan_retention(spec_of(before), after, now_s=NOW_S, is_by_ttl=True)


@given(st.sampled_from(list(BucketWidth)[:6]), st.integers(0, 10 * DAY_S))
def test_buckets_that_writers_may_be_at_are_marked_and_not_without_bound(
    width: BucketWidth, later_s: int
) -> None:
    load = Workload(rate_hz=0.01, columns=parse_columns("value:double"), retention_s=90 * DAY_S)
    design = plan_design(load, now_s=NOW_S, overrides=Overrides(bucket=width))
    spec = TableSpec(name="readings", design=design, future_limit_s=60)
    now_s = NOW_S + later_s
    buckets = buckets_to_mark(spec, now_s)
    assert 1 <= len(buckets) <= REMARKED_MAX
    assert any(bucket.start_s <= now_s < bucket.end_s for bucket in buckets)
    assert any(b.start_s <= now_s + SPEC_LEASE_S + 60 < b.end_s for b in buckets)


def test_alter_changes_lifetimes_and_windows_and_nothing_else() -> None:
    cql = render_alter_table(spec_of().design, keyspace="plant", table="readings")
    assert cql.startswith("ALTER TABLE plant.readings WITH default_time_to_live = 7776000\n")
    assert "read_repair" not in cql.partition(" AND comment")[0]
    assert "'compaction_window_size': '3'" in cql
    assert "CLUSTERING" not in cql


def test_series_of_another_width_is_marked_by_its_own_buckets() -> None:
    spec = spec_of()
    history = (WidthSince(width=BucketWidth.HOUR, since_s=None),)
    buckets = buckets_to_mark(spec, NOW_S, history)
    assert {bucket.width for bucket in buckets} == {BucketWidth.HOUR}
    assert len(buckets) == REMARKED_MAX
