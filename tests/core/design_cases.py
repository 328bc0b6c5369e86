"""Workloads for the tests of designs."""

from __future__ import annotations

import calendar
from typing import Any

from hypothesis import strategies as st

from treering.core.bucket import BucketWidth
from treering.core.design import Design, Overrides, Precision, Strategy, Workload, plan_design
from treering.core.schema import ColumnType, parse_columns
from treering.core.window import window_from_length

NOW_S = calendar.timegm((2026, 11, 30, 0, 0, 0))
MINUTE_S, HOUR_S, DAY_S = 60, 3_600, 86_400
YEAR_S = 365 * DAY_S


def workload(rate_hz: float = 1.0, columns: str = "value:double", **stated: Any) -> Workload:
    """Return a workload of 90 days unless stated otherwise."""
    stated.setdefault("retention_s", 90 * DAY_S)
    return Workload(rate_hz=rate_hz, columns=parse_columns(columns), **stated)


def planned(rate_hz: float = 1.0, **stated: Any) -> Design:
    """Return the design of :func:`workload`, with ``overrides`` where stated."""
    overrides = stated.pop("overrides", Overrides())
    return plan_design(workload(rate_hz, **stated), now_s=NOW_S, overrides=overrides)


def severities(design: Design) -> dict[str, str]:
    """Return severity by verdict id; an id twice is a fault."""
    found: dict[str, str] = {verdict.id: verdict.severity for verdict in design.verdicts}
    assert len(found) == len(design.verdicts)
    return found


def why(design: Design, verdict_id: str) -> str:
    """Return the reason of one verdict."""
    (reason,) = (v.why for v in design.verdicts if v.id == verdict_id)
    return reason


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """Draw a workload that has a design."""
    kinds = draw(st.lists(st.sampled_from(list(ColumnType)), min_size=1, max_size=5))
    rate_hz = draw(st.floats(1e-6, 1_000))
    peak = draw(st.none() | st.floats(1, 4))
    return Workload(
        rate_hz=rate_hz,
        columns=parse_columns({f"c{i}": kind for i, kind in enumerate(kinds)}),
        retention_s=draw(st.none() | st.integers(1, 9 * YEAR_S)),
        peak_rate_hz=None if peak is None else rate_hz * peak,
        row_bytes=draw(st.none() | st.integers(10, 300)),
        late_s=draw(st.none() | st.floats(0, 30 * DAY_S)),
        late_fraction=draw(st.none() | st.floats(0, 1)),
        read_span_s=draw(st.none() | st.floats(1, 400 * DAY_S)),
        series_count=draw(st.integers(1, 10**6)),
        replication=draw(st.sampled_from([(), (("dc1", 3),), (("DC 'x'", 1), ("dc2", 2))])),
        deletes=draw(st.booleans()),
        overwrites=draw(st.booleans()),
        repair_every_s=draw(st.none() | st.integers(HOUR_S, 60 * DAY_S)),
        cassandra=draw(st.sampled_from(["5.0", "4.1", "4.0", "3.11", "3.11.19"])),
        storage_mode=draw(st.sampled_from(["CASSANDRA_4", "UPGRADING", "NONE"])),
        precision=draw(st.sampled_from(list(Precision))),
    )


@st.composite
def overrides_for(draw: st.DrawFn, load: Workload) -> Overrides:
    """Draw choices that are judged and not refused."""
    retention_s = load.retention_s
    window_s = draw(st.none() | st.integers(1, 5_000).map(lambda n: n * MINUTE_S))
    is_for_ever = retention_s is None
    strategies = [None, Strategy.STCS] if is_for_ever else [None, Strategy.STCS, Strategy.TWCS]
    return Overrides(
        bucket=draw(st.sampled_from([None, BucketWidth.MINUTE])),
        window=None
        if window_s is None or retention_s is None
        else window_from_length(window_s, retention_s=retention_s),
        gc_grace_s=draw(st.none() | st.integers(0, 20 * DAY_S)),
        ttl_s=None if is_for_ever else draw(st.none() | st.integers(1, 9 * YEAR_S)),
        strategy=draw(st.sampled_from(strategies)),
        unsafe_aggressive_expiration=draw(st.booleans()),
    )
