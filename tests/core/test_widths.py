"""Widths over time: every instant in exactly one slice, and writes agree with reads."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.core.bucket import BucketWidth, bucket_of, bucket_start_s, buckets_between
from treering.core.units import DAY_S, Interval, Precision
from treering.core.widths import (
    CHANGES_MAX,
    CLOCK_BOUND_S,
    LEASE_S,
    History,
    WidthSince,
    all_widths,
    check_history,
    count_slices,
    earliest_since_s,
    history_from_text,
    history_to_text,
    is_void,
    last_width,
    place,
    plan_width,
    slices_between,
    valid_history,
    width_at,
)
from treering.errors import CorruptDataError, WidthError

DAY, HOUR, WEEK, MONTH = BucketWidth.DAY, BucketWidth.HOUR, BucketWidth.WEEK, BucketWidth.MONTH
NOW_S = 1_764_000_123
WIDTHS = st.sampled_from(list(BucketWidth))
PRECISIONS = st.sampled_from(list(Precision))


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Return any history within two months of the epoch, aligned to nothing."""
    dates = draw(st.lists(st.integers(-30 * DAY_S, 30 * DAY_S), max_size=5, unique=True))
    changes = [WidthSince(width=draw(WIDTHS), since_s=date) for date in sorted(dates)]
    if draw(st.booleans()):
        changes.insert(0, WidthSince(width=draw(WIDTHS), since_s=None))
    return tuple(changes)


@st.composite
def intervals(draw: st.DrawFn) -> Interval:
    """Return an interval of up to two days."""
    precision = draw(PRECISIONS)
    per_s = precision.per_s
    start = draw(st.integers(-31 * DAY_S * per_s, 31 * DAY_S * per_s))
    return Interval(start, start + draw(st.integers(0, 2 * DAY_S * per_s)), precision)


@given(interval=intervals(), history=histories(), default=WIDTHS)
def test_slices_tile_any_interval_of_any_history(
    interval: Interval, history: History, default: BucketWidth
) -> None:
    slices = list(slices_between(interval, history, default))
    assert len(slices) == count_slices(interval, history, default)
    if interval.is_empty:
        assert not slices
        return
    assert slices[0].start == interval.start
    assert slices[-1].end == interval.end
    for one, next_one in itertools.pairwise(slices):
        assert one.end == next_one.start
    for part in slices:
        assert part.start < part.end
        whole = part.bucket.interval(interval.precision)
        assert whole.start <= part.start
        assert part.end <= whole.end


@given(
    history=histories(),
    default=WIDTHS,
    precision=PRECISIONS,
    seconds=st.lists(st.integers(-31 * DAY_S, 31 * DAY_S), min_size=1, max_size=20),
    fraction=st.integers(0, 999),
)
def test_write_and_read_agree_on_the_partition_of_every_event_time(
    history: History,
    default: BucketWidth,
    precision: Precision,
    seconds: list[int],
    fraction: int,
) -> None:
    dates = [change.since_s for change in history if change.since_s is not None]
    seconds = sorted([*seconds, *dates, *(date - 1 for date in dates)])
    ts = np.array([second * precision.per_s + fraction for second in seconds], dtype=np.int64)
    placed = place(ts, history, default, precision)
    for one, piece, start_s in zip(
        ts.tolist(), placed.piece.tolist(), placed.start_s.tolist(), strict=True
    ):
        width = placed.widths[piece]
        (read,) = slices_between(Interval(one, one + 1, precision), history, default)
        assert read.bucket.width is width is width_at(one, history, default, precision)
        assert (read.bucket.start_s, read.bucket.width) == (start_s, width)


@given(interval=intervals(), default=WIDTHS)
def test_empty_history_reads_the_buckets_of_the_table(
    interval: Interval, default: BucketWidth
) -> None:
    slices = slices_between(interval, (), default)
    assert [part.bucket for part in slices] == list(buckets_between(interval, default))


def test_wider_bucket_is_clipped_where_the_narrower_begins() -> None:
    noon = 1_763_640_000  # 2025-11-20T12:00Z
    history = (WidthSince(width=HOUR, since_s=noon),)
    day = Interval((noon - 12 * 3_600) * 1_000, (noon + 12 * 3_600) * 1_000)
    slices = list(slices_between(day, history, DAY))
    assert [part.bucket.text for part in slices][:3] == [
        "2025-11-20",
        "2025-11-20T12",
        "2025-11-20T13",
    ]
    assert len(slices) == 13
    assert slices[0].end == noon * 1_000
    back = (WidthSince(width=HOUR, since_s=None), WidthSince(width=DAY, since_s=noon))
    slices = list(slices_between(day, back, DAY))
    assert len(slices) == 13
    assert (slices[-1].bucket.text, slices[-1].start) == ("2025-11-20", noon * 1_000)


@given(now_s=st.floats(0, 2e9), old=WIDTHS, new=WIDTHS, limit_s=st.integers(0, 10_000))
def test_change_is_dated_after_all_that_a_client_may_have_written(
    now_s: float, old: BucketWidth, new: BucketWidth, limit_s: int
) -> None:
    since_s = earliest_since_s(now_s, old, new, future_limit_s=limit_s, lease_s=LEASE_S)
    narrower = min(old, new, key=lambda width: width.length_s)
    first_s = now_s + limit_s + 2 * LEASE_S
    assert bucket_start_s(since_s, narrower) == since_s
    assert first_s <= since_s <= first_s + narrower.length_s + 1
    change = WidthSince(width=new, since_s=since_s)
    for late_s, void in ((0, False), (LEASE_S - 2 * CLOCK_BOUND_S, False)):
        written_us = int((now_s + late_s) * 1_000_000)
        assert is_void(change, written_us, future_limit_s=limit_s, lease_s=LEASE_S) is void


def test_change_that_was_written_too_late_is_void_for_everyone() -> None:
    history = plan_width((), HOUR, DAY, now_s=NOW_S, future_limit_s=600, lease_s=60)
    since_s = history[-1].since_s
    assert since_s is not None
    last_us = round((since_s - 600 - 60 - 2 * CLOCK_BOUND_S) * 1_000_000)
    terms = {"future_limit_s": 600, "lease_s": 60}
    assert valid_history(history, last_us, **terms) == history
    assert valid_history(history, last_us + 1, **terms) == ()
    ever = (WidthSince(width=HOUR, since_s=None),)
    assert valid_history(ever, 2**62, **terms) == ever


def test_second_change_is_refused_while_one_is_pending() -> None:
    terms = {"future_limit_s": 600, "lease_s": 60}
    first = plan_width((), HOUR, DAY, now_s=NOW_S, **terms)
    since_s = first[-1].since_s
    assert since_s is not None
    with pytest.raises(WidthError, match="pending"):
        plan_width(first, WEEK, DAY, now_s=since_s - 1, **terms)
    assert plan_width(first, HOUR, DAY, now_s=NOW_S, **terms) == first
    second = plan_width(first, WEEK, DAY, now_s=since_s, **terms)
    assert [change.width for change in second] == [HOUR, WEEK]


def test_setting_the_tables_width_on_an_ordinary_series_changes_nothing() -> None:
    assert plan_width((), DAY, DAY, now_s=NOW_S, future_limit_s=600, lease_s=60) == ()


@given(history=histories())
def test_history_survives_the_catalog(history: History) -> None:
    assert history_from_text(history_to_text(history)) == history
    assert history_from_text(None) == ()


@pytest.mark.parametrize("text", ["{", "[[1]]", '[["fortnight", 1]]', '[["day", 2], ["hour", 1]]'])
def test_damaged_history_is_named(text: str) -> None:
    with pytest.raises(CorruptDataError, match="widths"):
        history_from_text(text)


def test_histories_are_bounded_and_ordered() -> None:
    with pytest.raises(WidthError, match="ascend"):
        check_history((WidthSince(width=DAY, since_s=5), WidthSince(width=HOUR, since_s=None)))
    many = tuple(WidthSince(width=DAY, since_s=date) for date in range(CHANGES_MAX + 1))
    with pytest.raises(WidthError, match="more than"):
        check_history(many)


def test_last_and_all_widths_count_the_tables_own() -> None:
    assert last_width((), DAY) is DAY
    assert all_widths((), DAY) == (DAY,)
    dated = (WidthSince(width=MONTH, since_s=0), WidthSince(width=DAY, since_s=1))
    assert last_width(dated[:1], DAY) is MONTH
    assert all_widths(dated, DAY) == (DAY, MONTH)
    assert all_widths((WidthSince(width=MONTH, since_s=None),), DAY) == (MONTH,)


def test_bucket_of_a_slice_is_the_bucket_of_its_instants() -> None:
    (part,) = slices_between(Interval(5, 6), (WidthSince(width=WEEK, since_s=None),), DAY)
    assert part.bucket == bucket_of(5, "week")
