"""Segments tile event time, and expire only when nothing in them can be read."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.design_cases import DAY_S, planned
from treering.core.segment import (
    Segment,
    cut_at_segments,
    is_segment_expired,
    segment_length_s,
    segment_of,
)
from treering.core.table import TableSpec
from treering.core.units import MONTH_S, TIME_END_S, TIME_MIN_S, Precision

SECONDS = st.integers(TIME_MIN_S, TIME_END_S - 1)
LENGTHS = st.integers(1, 400 * DAY_S)


@given(SECONDS, LENGTHS)
def test_segments_tile_time(ts_s: int, length_s: int) -> None:
    segment = segment_of(ts_s, length_s)
    assert segment.start_s <= ts_s < segment.end_s == segment.start_s + length_s
    assert segment_of(segment.end_s - 1, length_s) == segment
    assert segment_of(segment.end_s, length_s).start_s == segment.end_s
    assert segment_of(segment.start_s - 1, length_s).end_s == segment.start_s


@given(st.lists(SECONDS, max_size=10), LENGTHS, st.sampled_from(list(Precision)), st.integers(0))
def test_array_of_times_gets_the_segments_that_each_time_gets(
    seconds: list[int], length_s: int, precision: Precision, ticks: int
) -> None:
    times = sorted(
        min(max(s * precision.per_s + ticks % precision.per_s, precision.ts_min), precision.ts_end)
        for s in seconds
    )
    cuts = list(cut_at_segments(np.array(times, dtype=np.int64), length_s, precision))
    starts = [segment.start_s for segment, part in cuts for _ in times[part]]
    assert starts == [segment_of(ts // precision.per_s, length_s).start_s for ts in times]
    # Each segment once, its times together and in their order.
    assert len({segment for segment, _ in cuts}) == len(cuts)
    assert [ts for _, part in cuts for ts in times[part]] == times


@given(SECONDS, LENGTHS, SECONDS, st.integers(1, 9_000 * DAY_S))
def test_segment_is_expired_only_when_its_last_reading_is(
    ts_s: int, length_s: int, now_s: int, retention_s: int
) -> None:
    segment = segment_of(ts_s, length_s)
    last_is_readable = segment.end_s > now_s - retention_s
    assert is_segment_expired(segment, now_s=now_s, retention_s=retention_s) is not last_is_readable
    assert not is_segment_expired(segment, now_s=now_s, retention_s=None)


@pytest.mark.parametrize(
    ("retention_s", "length_s"), [(90 * DAY_S, 3 * DAY_S), (DAY_S, 3_600), (None, MONTH_S)]
)
def test_segment_holds_a_window_or_a_month(retention_s: int | None, length_s: int) -> None:
    spec = TableSpec(name="t", design=planned(retention_s=retention_s))
    assert segment_length_s(spec) == length_s


def test_segments_are_ordered_by_start() -> None:
    assert sorted([Segment(10, 20), Segment(-10, 0)]) == [Segment(-10, 0), Segment(10, 20)]
