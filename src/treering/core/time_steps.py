"""How time is cut into the steps of a result: of one length from an origin, or by local days.

Rules of this file: steps tile time, so every reading of an interval lies in exactly one; the first
may start before the interval and the last may end after it; how many there are is known before
memory is used for them, and more than a stated number are refused with a length that would fit.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from treering.core.local_days import EPOCH_DAY, day_start_s, local_day
from treering.core.times import render_ts
from treering.core.units import DAY_S, Interval, Precision, render_duration
from treering.errors import FanOutTooWideError, UsageError

IntArray = npt.NDArray[np.int64]

STEPS_MAX: Final = 10_000_000
"""The most steps, over all series, that one read may cut its interval into."""

LOCAL_DAYS_MAX: Final = 200_000
"""The most days of a time zone that one read may touch: 547 years."""

_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1
# Lengths that people would choose, to name one that fits.
_ROUND_S: Final = (
    *(0.001, 0.01, 0.1, 1, 5, 10, 30, 60, 300, 900, 1_800, 3_600, 21_600, 43_200),
    *(DAY_S, 7 * DAY_S, 30 * DAY_S, 365 * DAY_S, 3_650 * DAY_S, 36_500 * DAY_S),
)


@dataclass(frozen=True, slots=True)
class EvenSteps:
    """Steps of one length.

    Attributes:
        first: When the first starts, in ticks.
        length: Their length in ticks.
        count: How many there are.
    """

    first: int
    length: int
    count: int

    def places_of(self, ts: IntArray) -> IntArray:
        """Return which step holds each of these event times."""
        # Without a sign, the distance of any two times fits 64 bits.
        away = ts.view(np.uint64) - np.uint64(self.first % 2**64)
        return (away // np.uint64(self.length)).view(np.int64)

    def starts_of(self, places: IntArray) -> IntArray:
        """Return when these steps start."""
        return places * np.int64(self.length) + np.int64(self.first)


@dataclass(frozen=True, slots=True)
class EdgeSteps:
    """Steps of any lengths; one more edge than there are steps, ascending."""

    edges: IntArray

    @property
    def count(self) -> int:
        """How many steps there are."""
        return len(self.edges) - 1

    def places_of(self, ts: IntArray) -> IntArray:
        """Return which step holds each of these event times."""
        return np.searchsorted(self.edges, ts, side="right").astype(np.int64) - 1

    def starts_of(self, places: IntArray) -> IntArray:
        """Return when these steps start."""
        return self.edges[places]


TimeSteps = EvenSteps | EdgeSteps


def plan_even_steps(
    interval: Interval,
    length: int,
    origin: int = 0,
    *,
    series_count: int = 1,
    steps_max: int = STEPS_MAX,
) -> EvenSteps:
    """Cut an interval into steps of one length that are counted from an origin.

    Args:
        interval: Event time.
        length: Ticks of the interval's precision, at least 1.
        origin: An instant at which a step starts, in such ticks.
        series_count: How many series are cut so.
        steps_max: The most steps over all of them.

    Raises:
        FanOutTooWideError: More steps; the hint names a length that fits.
        UsageError: The first step would start before what 64 bits hold.
    """
    if interval.is_empty:
        return EvenSteps(0, length, 0)
    first = origin + (interval.start - origin) // length * length
    count = -((first - interval.end) // length)
    _check_count(count, interval, series_count, steps_max)
    _check_first(first, interval.precision)
    return EvenSteps(first, length, count)


def plan_local_steps(
    interval: Interval,
    length: int,
    zone: dt.tzinfo,
    *,
    origin: int | None = None,
    series_count: int = 1,
    steps_max: int = STEPS_MAX,
) -> EdgeSteps:
    """Cut an interval into steps of whole local days, or into ones that start anew with each.

    A day of 23 or 25 hours is one step; steps of six hours in it end with a shorter one.

    Args:
        interval: Event time.
        length: Whole days, or a length that divides one, in ticks of the interval's precision.
        zone: Whose days.
        origin: The start of a local day from which steps of several days are counted; by default
            that of 1970-01-01.
        series_count: How many series are cut so.
        steps_max: The most steps over all of them.

    Raises:
        FanOutTooWideError: More steps or days than there may be.
        UsageError: Another length, or an origin that is none.
    """
    if interval.is_empty:
        return EdgeSteps(np.zeros(1, dtype=np.int64))
    per_s = interval.precision.per_s
    day = DAY_S * per_s
    _check_local(length, day, origin, per_s)
    _check_count(
        interval.length_s * per_s // length, interval, series_count, steps_max, is_local=True
    )
    days = max(length // day, 1)
    first = local_day(interval.start // per_s, zone)
    first -= (first - _origin_day(origin, zone, per_s)) % days
    last = local_day((interval.end - 1) // per_s, zone)
    if last - first >= LOCAL_DAYS_MAX:
        raise FanOutTooWideError(
            f"the interval has {last - first + 1:,} days of {zone}, more than {LOCAL_DAYS_MAX:,}",
            hint="read a shorter interval, or leave the zone out",
        )
    # One start after the last step, and a shorter day between two of them may be of no length.
    starts = [day_start_s(d, zone) * per_s for d in range(first, last + days + 1, days)]
    _check_first(starts[0], interval.precision)
    edges = np.unique(np.array([min(start, _INT64_MAX) for start in starts], dtype=np.int64))
    if length < day:
        edges = _cut_days(edges, length)
    inside = slice(
        int(np.searchsorted(edges, interval.start, side="right")) - 1,
        int(np.searchsorted(edges, interval.end)) + 1,
    )
    steps = EdgeSteps(edges[inside])
    _check_count(steps.count, interval, series_count, steps_max, is_local=True)
    return steps


def _cut_days(starts: IntArray, length: int) -> IntArray:
    counts = -(-np.diff(starts) // length)
    before = np.repeat(np.cumsum(counts) - counts, counts)
    within = np.arange(int(counts.sum()), dtype=np.int64) - before
    return np.append(np.repeat(starts[:-1], counts) + within * length, starts[-1])


def _origin_day(origin: int | None, zone: dt.tzinfo, per_s: int) -> int:
    if origin is None:
        return EPOCH_DAY
    day = local_day(origin // per_s, zone)
    if day_start_s(day, zone) * per_s != origin:
        raise UsageError(
            f"the origin is not the start of a day of {zone}",
            hint="give the date on which a step starts, such as 2026-01-05",
        )
    return day


def _check_local(length: int, day: int, origin: int | None, per_s: int) -> None:
    if length % day and day % length:
        raise UsageError(
            f"steps of {render_duration(length / per_s)} do not fit the days of a time zone",
            hint="use whole days, or a length that divides one such as 6h; or leave tz out",
            cli_hint="use whole days, or a length that divides one such as 6h; or leave --tz out",
        )
    if origin is not None and length < day:
        raise UsageError(
            "with a time zone, steps shorter than a day start anew at each midnight, and have no "
            "other origin",
            hint="leave the origin or the time zone out",
        )


def _check_first(first: int, precision: Precision) -> None:
    if first < _INT64_MIN:
        raise UsageError(
            f"the first step would start before {render_ts(_INT64_MIN, precision)}, which no "
            f"table of precision {precision} holds",
            hint="read from a later time on, or use shorter steps",
        )


def _check_count(
    count: float, interval: Interval, series_count: int, steps_max: int, *, is_local: bool = False
) -> None:
    if count * series_count <= steps_max:
        return
    # An interval of k lengths touches k + 1 steps.
    room = steps_max // series_count - 1
    fitting = [s for s in _ROUND_S if interval.length_s <= s * room]
    if is_local:
        fitting = [s for s in fitting if s % DAY_S == 0 or DAY_S % s == 0]
    words = f"steps of {render_duration(fitting[0])} fit" if fitting else "read fewer series"
    of = f" of {series_count:,} series" if series_count > 1 else ""
    raise FanOutTooWideError(
        f"the interval has {int(count) * series_count:,} steps{of}, more than {steps_max:,}",
        hint=f"{words}; or read a shorter interval",
        steps=int(count) * series_count,
    )


def ticks_of(length_s: float, precision: Precision) -> int | None:
    """Return a length of time in ticks; None where it is not a whole number of them, above 0."""
    micros = round(length_s * 1_000_000)
    ticks, rest = divmod(micros * precision.per_s, 1_000_000)
    # Lengths come in floating-point seconds: a millionth of a microsecond off is rounding.
    is_whole = not rest and abs(length_s * 1_000_000 - micros) <= 1e-6 * max(micros, 1)
    return ticks if is_whole and 0 < ticks <= _INT64_MAX else None


def is_ascending(ts: npt.NDArray[Any]) -> bool:
    """Return whether event times ascend."""
    return bool((ts[1:] >= ts[:-1]).all())
