"""Cuts of a write: what is worked out for a few readings holds for all of them."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from tests.core.design_cases import DAY_S, NOW_S, planned
from treering.core.bucket import Bucket, BucketWidth, bucket_of
from treering.core.design import Overrides
from treering.core.expiry import TTL_MAX_S, ttl_for_age
from treering.core.table import TableSpec
from treering.core.units import HOUR_S, Precision
from treering.core.widths import History, WidthSince, width_at
from treering.core.window import Window, WindowUnit
from treering.core.write_cuts import cut

RETENTION_S = 31 * DAY_S


def spec_of(
    precision: Precision,
    width: BucketWidth,
    retention_s: int | None,
    ttl_s: int | None,
    window: Window | None,
) -> TableSpec:
    own = Overrides(bucket=width)
    if retention_s is not None:
        own = Overrides(bucket=width, ttl_s=ttl_s, window=window)
    design = planned(1 / 3_600, precision=precision, retention_s=retention_s, overrides=own)
    return TableSpec(name="readings", design=design)


def window_of(unit: WindowUnit, size: int) -> Window:
    return Window(unit=unit, size=size, count=1)


SPECS = st.builds(
    spec_of,
    st.sampled_from(list(Precision)),
    st.sampled_from(
        [BucketWidth.MINUTES_15, BucketWidth.HOURS_6, BucketWidth.DAY, BucketWidth.MONTH]
    ),
    st.sampled_from([None, RETENTION_S, RETENTION_S + 7, 35 * DAY_S - HOUR_S]),
    st.sampled_from([None, 40 * DAY_S]),
    st.sampled_from([None, window_of("DAYS", 1), window_of("DAYS", 2), window_of("HOURS", 7)]),
)
HISTORIES: list[History] = [
    (),
    (WidthSince(width=BucketWidth.MINUTE, since_s=None),),
    (WidthSince(width=BucketWidth.WEEK, since_s=NOW_S - 3 * DAY_S),),
    (
        WidthSince(width=BucketWidth.HOUR, since_s=NOW_S - 3 * DAY_S + 61),
        WidthSince(width=BucketWidth.WEEK, since_s=NOW_S - HOUR_S),
    ),
]
# Where days, windows and widths begin, and anywhere; readings stand a tick before, at or after.
AGES_S = st.one_of(
    st.integers(-RETENTION_S // DAY_S + 1, 0).map(lambda days: days * DAY_S),
    st.integers(-36, 0).map(lambda hours: hours * HOUR_S),
    st.sampled_from([-3 * DAY_S + 61, 0, 1, 600]),
    st.integers(-RETENTION_S + HOUR_S, 600),
)
TICKS = st.sampled_from([(-1, 0, 1), (0, 1), (-1, 0)])
SERIES = st.tuples(st.lists(AGES_S, max_size=10), st.sampled_from(HISTORIES))
EVERY_DAY_S = [-days * DAY_S for days in range(RETENTION_S // DAY_S)]


def lifetime_s(spec: TableSpec, ts: int, now_ts: int) -> int:
    """Return the lifetime of one reading; 0 for the table's default."""
    if spec.retention_s is None or spec.window_s is None:
        return 0
    per_s = spec.precision.per_s
    found = ttl_for_age((now_ts - ts) // per_s, spec.retention_s, spec.window_s)
    if ts >= now_ts + per_s:
        found = min(spec.retention_s + spec.future_limit_s, TTL_MAX_S)
    assert found is not None
    return 0 if found == spec.default_ttl_s else found


@given(SPECS, st.lists(SERIES, min_size=1, max_size=4), TICKS, st.integers(0, 2))
@example(
    spec_of(Precision.MS, BucketWidth.MONTH, None, None, None), [(EVERY_DAY_S, ())], (-1, 0, 1), 0
)
@example(
    spec_of(Precision.MS, BucketWidth.MONTH, RETENTION_S, None, window_of("DAYS", 2)),
    [([-2 * DAY_S], ()), ([1], ())],
    (0, 1),
    0,
)
@example(
    spec_of(Precision.MS, BucketWidth.MONTH, RETENTION_S, None, window_of("DAYS", 2)),
    [([1], ())],
    (-1, 0),
    0,
)
def test_cuts_are_where_series_bucket_or_lifetime_of_single_readings_change(
    spec: TableSpec,
    all_series: list[tuple[list[int], History]],
    ticks: tuple[int, ...],
    fraction: int,
) -> None:
    per_s, now_ts = spec.precision.per_s, NOW_S * spec.precision.per_s + fraction
    times = [
        sorted({now_ts + age_s * per_s + tick for age_s in ages_s for tick in ticks})
        for ages_s, _ in all_series
    ]
    names = tuple(f"s{number}" for number in range(len(times)))
    widths = {name: own for name, (_, own) in zip(names, all_series, strict=True)}
    expected: list[tuple[int, int, Bucket, int]] = []
    for code, (name, own) in enumerate(zip(names, times, strict=True)):
        for ts in own:
            width = width_at(ts, widths[name], spec.width, spec.precision)
            bucket = bucket_of(ts, width, spec.precision)
            expected.append((code, ts, bucket, lifetime_s(spec, ts, now_ts)))
    found = cut(
        spec,
        names,
        np.array([ts for _, ts, *_ in expected], dtype=np.int64),
        np.cumsum([0, *map(len, times)], dtype=np.int64),
        now_ts=now_ts,
        widths=widths,
    )
    keys = [(code, bucket, ttl_s) for code, _, bucket, ttl_s in expected]
    groups = [(key, len(list(group))) for key, group in itertools.groupby(keys)]
    starts = list(itertools.accumulate([0, *(count for _, count in groups)]))[:-1]
    assert found.starts.tolist() == starts
    assert list(zip(found.code.tolist(), found.buckets, found.ttl_s, strict=True)) == [
        key for key, _ in groups
    ]
    # None comes twice, so that a partition write is all that a call has for it.
    assert len(set(keys)) == len(groups)
