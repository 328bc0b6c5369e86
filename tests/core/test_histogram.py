"""Durations in a bounded histogram: every one counted once, quantiles near and never below."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.core.histogram import STEPS, Histogram, end_of_step_us, step_of


@given(st.integers(0, 2**40))
def test_a_duration_lies_below_the_end_of_its_step_and_not_below_that_of_the_one_before(
    duration_us: int,
) -> None:
    step = step_of(duration_us)
    assert 0 <= step < STEPS
    if step > 0:
        assert duration_us >= end_of_step_us(step - 1)
    if step < STEPS - 1:
        assert duration_us < end_of_step_us(step)


def test_ends_of_steps_rise_by_an_eighth_at_most() -> None:
    ends = np.array([end_of_step_us(step) for step in range(STEPS)])
    assert (np.diff(ends) > 0).all()
    assert (ends[1:] / ends[:-1]).max() <= 1.125


@given(st.lists(st.integers(8, 10**9), min_size=1, max_size=200))
def test_quantiles_are_at_most_an_eighth_above_the_true_ones(durations_us: list[int]) -> None:
    histogram = Histogram()
    for duration_us in durations_us:
        histogram.add(duration_us / 1e6)
    stats = histogram.stats()
    assert stats.count == sum(stats.counts) == len(durations_us)
    assert stats.max_s == max(durations_us) / 1e6
    ordered = sorted(durations_us)
    for percent, found_s in ((50, stats.p50_s), (99, stats.p99_s)):
        true_us = ordered[-(-len(ordered) * percent // 100) - 1]
        # The float may fall a microsecond short of the integer that it came from.
        assert (true_us - 1) / 1e6 <= found_s <= true_us * 1.126 / 1e6 + 1e-6
    assert stats.total_s == pytest.approx(sum(durations_us) / 1e6)


def test_nothing_counted_is_zero_everywhere() -> None:
    stats = Histogram().stats()
    assert (stats.count, stats.p50_s, stats.p99_s, stats.max_s) == (0, 0.0, 0.0, 0.0)


def test_what_is_within_a_power_of_two_is_counted_exactly() -> None:
    histogram = Histogram()
    for duration_us in (255, 256, 1_023, 1_024, 5_000_000):
        histogram.add(duration_us / 1e6)
    stats = histogram.stats()
    assert [stats.within(octave) for octave in (8, 9, 10, 11, 26)] == [1, 2, 3, 4, 5]
