"""Clocks: a present that moves by hand, and write times that never repeat."""

from __future__ import annotations

import datetime as dt
import itertools
import threading
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.clock import ManualClock, WriteClock, system_clock
from treering.errors import UsageError


@given(st.lists(st.integers(0, 20), min_size=1, max_size=30))
def test_write_times_rise_whatever_the_machine_clock_does(readings_us: list[int]) -> None:
    times = iter(readings_us)
    clock = WriteClock(lambda: next(times))
    found = [clock.next_us() for _ in readings_us]
    assert all(one < other for one, other in itertools.pairwise(found))
    assert all(us >= machine_us for us, machine_us in zip(found, readings_us, strict=True))


def test_write_time_is_now_in_microseconds() -> None:
    before_us = time.time_ns() // 1_000
    found = WriteClock().next_us()
    assert before_us <= found <= time.time_ns() // 1_000


def test_threads_never_get_the_same_write_time() -> None:
    clock = WriteClock(lambda: 5)
    found: list[list[int]] = [[] for _ in range(8)]

    def work(own: list[int]) -> None:
        own.extend(clock.next_us() for _ in range(500))

    threads = [threading.Thread(target=work, args=(own,)) for own in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(us for own in found for us in own) == list(range(5, 4_005))
    assert all(own == sorted(own) for own in found)


def test_system_clock_is_in_nanoseconds() -> None:
    assert abs(system_clock() - time.time_ns()) < 10 * 10**9


def test_manual_clock_stands_still_until_it_is_moved() -> None:
    clock = ManualClock("2025-11-20T13:00:00.123456789Z")
    assert clock() == clock() == 1_763_643_600_123_456_789
    clock.advance("1h30m")
    assert clock.text == "2025-11-20T14:30:00.123456789Z"
    clock.advance(dt.timedelta(milliseconds=1))
    clock.advance("0s")
    assert clock.text == "2025-11-20T14:30:00.124456789Z"
    clock.set("-1d")
    assert clock.text == "2025-11-19T14:30:00.124456789Z"
    clock.set(dt.datetime(2020, 1, 1, tzinfo=dt.UTC))
    assert clock.text == "2020-01-01T00:00:00.000000000Z"


@pytest.mark.parametrize("now", ["2025-11-20T13:00", 5, dt.datetime(2025, 1, 1), "soon", None])  # noqa: DTZ001
def test_manual_clock_takes_no_time_that_is_none(now: Any) -> None:
    clock = ManualClock("2025-11-20")
    with pytest.raises(UsageError):
        ManualClock(now)
    with pytest.raises(UsageError):
        clock.set(now)
    assert clock.text == "2025-11-20T00:00:00.000000000Z"


@pytest.mark.parametrize("length", ["-1d", -5, "soon"])
def test_manual_clock_is_not_moved_back_by_a_length(length: Any) -> None:
    clock = ManualClock("2025-11-20")
    with pytest.raises(UsageError, match="not a length of time"):
        clock.advance(length)
    assert clock.text == "2025-11-20T00:00:00.000000000Z"
