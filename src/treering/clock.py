"""Clocks: the present as the store sees it, and write times that never repeat."""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Callable

from treering.core.times import TimeInput, parse_time, render_ts
from treering.core.units import Precision, parse_duration_s

Clock = Callable[[], int]
"""Returns the present in epoch nanoseconds."""


def system_clock() -> int:
    """Return the machine's time in epoch nanoseconds."""
    return time.time_ns()


class ManualClock:
    """A clock that stands still until it is moved: for demos, tests and what-if questions.

    It decides what is late, expired or in the future. Write times stay the machine's.

    >>> clock = ManualClock("2025-11-20")
    >>> clock.advance("1d")
    >>> clock.text
    '2025-11-21T00:00:00.000000000Z'
    """

    def __init__(self, now: TimeInput) -> None:
        self._now_ns = parse_time(now, now_ts=system_clock(), precision=Precision.NS)

    def __call__(self) -> int:
        return self._now_ns

    @property
    def text(self) -> str:
        """The time that it shows, as ISO text."""
        return render_ts(self._now_ns, Precision.NS)

    def set(self, now: TimeInput) -> None:
        """Show another time, later or earlier."""
        self._now_ns = parse_time(now, now_ts=self._now_ns, precision=Precision.NS)

    def advance(self, length: str | dt.timedelta) -> None:
        """Move forward by a length of time, such as ``30d``."""
        self._now_ns += round(parse_duration_s(length) * 1_000) * 1_000_000


class WriteClock:
    """Write times in microseconds: the machine's clock, but never the same or less twice.

    A delete and a write in one microsecond would leave the delete standing, and two writes would
    be told apart by their values; so each call of one store gets a later time than the last.
    """

    def __init__(self, now_us: Callable[[], int] = lambda: time.time_ns() // 1_000) -> None:
        self._now_us = now_us
        self._last_us = 0
        self._lock = threading.Lock()
        self.writes = 0
        """How many write times were taken for writes that went out at once."""

    def next_us(self, *, is_buffered: bool = False) -> int:
        """Return a write time later than all before.

        Args:
            is_buffered: More readings may join this write later. A buffer looks at ``writes`` to
                see whether a write went out in between, which must not win over what joins then.
        """
        with self._lock:
            self.writes += not is_buffered
            self._last_us = max(self._now_us(), self._last_us + 1)
            return self._last_us
