"""A deletion is planned exactly, and says what it costs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.core.bucket import bucket_of
from treering.core.delete_plan import DeletePlan, plan_delete, render_delete_plan
from treering.core.design import Workload, plan_design
from treering.core.read_plan import plan_read
from treering.core.schema import parse_columns
from treering.core.table import TableSpec
from treering.core.units import DAY_S, Interval, Precision
from treering.errors import UsageError

NOW_S = 1_764_504_000
DAY_MS = DAY_S * 1_000
NOW_MS = NOW_S * 1_000


def spec_of(**workload: object) -> TableSpec:
    load = Workload(
        rate_hz=1.0,
        columns=parse_columns("value:double"),
        retention_s=30 * DAY_S,
        **workload,  # type: ignore[arg-type]
    )
    return TableSpec(name="readings", design=plan_design(load, now_s=NOW_S))


def planned(start: int, end: int, spec: TableSpec | None = None) -> DeletePlan:
    spec = spec or spec_of()
    interval = Interval(start, end, Precision.MS)
    reads = plan_read(spec, ["s"], interval, now_ts=NOW_MS, rows_max=2**63)
    return plan_delete(reads, write_us=5, leaves_tombstones=True)


@given(st.integers(-35 * DAY_MS, DAY_MS), st.integers(0, 40 * DAY_MS))
def test_every_instant_inside_is_deleted_once_and_none_outside(offset: int, length: int) -> None:
    start, end = NOW_MS + offset, NOW_MS + offset + length
    plan = planned(start, end)
    at = max(start, spec_of().oldest_ts(NOW_MS))
    for delete in plan.deletes:
        assert delete.bucket == bucket_of(delete.start, "day")
        assert delete.start <= at < delete.end or at == delete.end == delete.start
        whole = delete.bucket.interval(Precision.MS)
        assert delete.is_whole is ((delete.start, delete.end) == (whole.start, whole.end))
        at = delete.end
    assert not plan.deletes or at == end


def test_what_the_retention_cut_off_does_not_make_an_edge() -> None:
    plan = planned(NOW_MS - 60 * DAY_MS, NOW_MS)
    assert (plan.wholes, plan.ranges) == (30, 1)
    assert not plan.deletes[-1].is_whole


def test_twcs_is_refused_with_the_cost_and_other_compactions_are_not() -> None:
    plan = planned(NOW_MS - 3 * DAY_MS, NOW_MS)
    with pytest.raises(UsageError, match="4 tombstones") as caught:
        plan.check_allowed(allow_on_twcs=False)
    assert "No disk is freed" in caught.value.hint
    assert "they come back" in caught.value.hint
    plan.check_allowed(allow_on_twcs=True)
    other = planned(NOW_MS - 3 * DAY_MS, NOW_MS, spec_of(deletes=True))
    other.check_allowed(allow_on_twcs=False)
    assert not any("No disk is freed" in cost for cost in other.costs)


def test_single_replica_has_nothing_to_come_back_from() -> None:
    plan = planned(NOW_MS - DAY_MS, NOW_MS, spec_of(replication=(("dc1", 1),)))
    assert not any("come back" in cost for cost in plan.costs)


def test_empty_deletion_is_said_to_be_one() -> None:
    plan = planned(NOW_MS, NOW_MS)
    plan.check_allowed(allow_on_twcs=False)
    assert "nothing of s" in render_delete_plan(plan)
