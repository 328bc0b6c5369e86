"""Steps tile time: from an origin, and by the days of a zone across daylight saving."""

from __future__ import annotations

import datetime as dt
from itertools import pairwise
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.core.local_days import day_start_s, local_day
from treering.core.time_steps import (
    EdgeSteps,
    TimeSteps,
    plan_even_steps,
    plan_local_steps,
    ticks_of,
)
from treering.core.units import DAY_S, HOUR_S, Interval, Precision, parse_duration_s
from treering.errors import FanOutTooWideError, UsageError

HOUR_MS, DAY_MS = HOUR_S * 1_000, DAY_S * 1_000
ZONES = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "UTC"]
QUARTER_S = 900


def at_s(text: str) -> int:
    """Return an instant in epoch seconds."""
    return int(dt.datetime.fromisoformat(text).timestamp())


def starts(steps: TimeSteps) -> list[int]:
    """Return when each step starts."""
    found: list[int] = steps.starts_of(np.arange(steps.count, dtype=np.int64)).tolist()
    return found


@given(
    st.integers(-(10**15), 10**15),
    st.integers(1, 10**9),
    st.integers(1, 10**10),
    st.integers(-(10**15), 10**15),
)
def test_even_steps_tile_the_interval_from_the_origin(
    start: int, span: int, length: int, origin: int
) -> None:
    length = max(length, span // 1_000)
    steps = plan_even_steps(Interval(start, start + span), length, origin)
    first = starts(steps)[0]
    assert first <= start < first + length
    assert (first - origin) % length == 0
    assert starts(steps)[-1] < start + span <= starts(steps)[-1] + length
    ts = np.linspace(start, start + span - 1, 50, dtype=np.int64)
    wanted = [(t - first) // length for t in ts.tolist()]
    assert steps.places_of(ts).tolist() == wanted


def test_even_steps_reach_over_all_of_64_bits() -> None:
    low, high = Precision.NS.ts_min, Precision.NS.ts_end
    steps = plan_even_steps(Interval(low, high, Precision.NS), 2**62, -(2**63))
    assert steps.count == 4
    assert steps.places_of(np.array([low + 4, 0, high - 1])).tolist() == [0, 2, 3]
    with pytest.raises(UsageError, match="first step would start before 1677"):
        plan_even_steps(Interval(low, low + 10, Precision.NS), DAY_S * 10**9)


def test_an_empty_interval_has_no_steps() -> None:
    assert plan_even_steps(Interval(5, 5), 10).count == 0
    assert plan_local_steps(Interval(5, 5), DAY_MS, dt.UTC).count == 0


@given(st.integers(2, 1_000_000), st.integers(1, 5), st.integers(0, 10**7))
def test_too_many_steps_are_refused_with_a_length_that_fits(
    steps_max: int, series: int, beyond: int
) -> None:
    span = steps_max // series + 1 + beyond
    interval = Interval(-span // 2, -span // 2 + span)
    with pytest.raises(FanOutTooWideError) as refused:
        plan_even_steps(interval, 1, series_count=series, steps_max=steps_max)
    assert refused.value.steps == span * series
    words = refused.value.hint.split()
    if steps_max >= 2 * series:
        assert words[0] == "steps"
    if words[0] == "steps":
        length = ticks_of(parse_duration_s(words[2]), Precision.MS)
        assert length is not None
        plan_even_steps(interval, length, series_count=series, steps_max=steps_max)


def test_local_steps_are_bounded_too() -> None:
    year = Interval(0, 365 * DAY_MS)
    with pytest.raises(FanOutTooWideError) as refused:
        plan_local_steps(year, 1, ZoneInfo("Europe/Berlin"))
    assert refused.value.hint.startswith("steps of 5s fit")
    ages = Interval(Precision.MS.ts_min + 400 * DAY_MS, 0)
    with pytest.raises(FanOutTooWideError, match="718,7"):
        plan_local_steps(ages, DAY_MS, ZoneInfo("Europe/Berlin"))
    with pytest.raises(UsageError, match="years 1 to 9999"):
        plan_local_steps(
            Interval(Precision.MS.ts_min, Precision.MS.ts_min + DAY_MS),
            DAY_MS,
            ZoneInfo("America/New_York"),
        )


@given(
    st.sampled_from(ZONES),
    st.integers(at_s("1985-01-01T00:00Z") // QUARTER_S, at_s("2037-01-01T00:00Z") // QUARTER_S),
)
def test_a_day_starts_where_the_clock_of_the_zone_first_shows_it(name: str, quarter: int) -> None:
    zone = ZoneInfo(name)

    def date_at(s: int) -> dt.date:
        return dt.datetime.fromtimestamp(s, zone).date()

    now_s = first_s = quarter * QUARTER_S
    while date_at(first_s - QUARTER_S) == date_at(now_s):
        first_s -= QUARTER_S
    assert local_day(now_s, zone) == date_at(now_s).toordinal()
    assert day_start_s(date_at(now_s).toordinal(), zone) == first_s


@pytest.mark.parametrize(
    ("name", "date", "start"),
    [
        ("Asia/Beirut", "2022-03-27", "2022-03-26T22:00Z"),  # Midnight is skipped.
        ("America/Havana", "2022-11-06", "2022-11-06T04:00Z"),  # Midnight comes twice.
        ("Pacific/Apia", "2011-12-30", "2011-12-30T10:00Z"),  # The whole day is skipped.
        ("Pacific/Apia", "2011-12-31", "2011-12-30T10:00Z"),
        ("America/St_Johns", "1988-04-03", "1988-04-03T03:30Z"),
        ("America/Toronto", "1919-03-31", "1919-03-31T04:30Z"),  # From 23:30 to 00:30.
    ],
)
def test_days_start_where_midnight_is_skipped_or_comes_twice(
    name: str, date: str, start: str
) -> None:
    day = dt.date.fromisoformat(date).toordinal()
    assert day_start_s(day, ZoneInfo(name)) == at_s(start)


def test_a_clock_that_goes_back_over_midnight_stays_in_the_day_that_has_begun() -> None:
    # At 00:01 the clock of St John's went back to 23:01.
    zone = ZoneInfo("America/St_Johns")
    day = dt.date(2006, 10, 29).toordinal()
    began_s = day_start_s(day, zone)
    assert began_s == at_s("2006-10-29T02:30Z")
    assert [local_day(began_s + m * 60, zone) - day for m in (-1, 0, 1, 30, 61, 90)] == [
        *(-1, 0, 0, 0, 0, 0)
    ]


@pytest.mark.parametrize("name", ZONES)
@pytest.mark.parametrize("hours", [1, 6, 24])
def test_local_steps_start_anew_at_each_midnight_over_a_year(name: str, hours: int) -> None:
    zone = ZoneInfo(name)
    start, end = at_s("2026-01-01T07:00Z"), at_s("2027-01-01T07:00Z")
    steps = plan_local_steps(Interval(start * 1_000, end * 1_000), hours * HOUR_MS, zone)
    edges = [edge // 1_000 for edge in steps.edges.tolist()]
    assert edges[0] <= start < edges[1]
    assert edges[-2] < end <= edges[-1]
    lengths = set()
    for first, last in pairwise(edges):
        wall = dt.datetime.fromtimestamp(first, zone)
        midnight = day_start_s(wall.date().toordinal(), zone)
        assert (first - midnight) % (hours * HOUR_S) == 0
        assert dt.datetime.fromtimestamp(last - 1, zone).date() == wall.date()
        lengths.add((last - first) / HOUR_S)
    wanted = {
        ("Europe/Berlin", 24): {23, 24, 25},
        ("America/New_York", 24): {23, 24, 25},
        ("Australia/Lord_Howe", 24): {23.5, 24, 24.5},
        ("Europe/Berlin", 6): {1, 5, 6},
        ("America/New_York", 6): {1, 5, 6},
        ("Australia/Lord_Howe", 6): {0.5, 5.5, 6},
        ("Australia/Lord_Howe", 1): {0.5, 1},
    }
    assert lengths == wanted.get((name, hours), {hours})


def test_steps_of_several_days_are_counted_from_the_origin() -> None:
    zone = ZoneInfo("Europe/Berlin")
    monday = at_s("2026-01-05T00:00+01:00") * 1_000
    interval = Interval(at_s("2026-03-20T00:00Z") * 1_000, at_s("2026-04-10T00:00Z") * 1_000)
    steps = plan_local_steps(interval, 7 * DAY_MS, zone, origin=monday)
    shown = [str(dt.datetime.fromtimestamp(s / 1_000, zone)) for s in starts(steps)]
    assert shown == [
        "2026-03-16 00:00:00+01:00",
        "2026-03-23 00:00:00+01:00",
        "2026-03-30 00:00:00+02:00",
        "2026-04-06 00:00:00+02:00",
    ]
    with pytest.raises(UsageError, match="not the start of a day"):
        plan_local_steps(interval, 7 * DAY_MS, zone, origin=monday + 1)
    with pytest.raises(UsageError, match="no other origin"):
        plan_local_steps(interval, HOUR_MS, zone, origin=monday)
    with pytest.raises(UsageError, match="steps of 1d12h"):
        plan_local_steps(interval, 36 * HOUR_MS, zone)


@given(st.sampled_from(ZONES), st.integers(0, 10**9), st.integers(1, 20 * DAY_S))
def test_local_steps_hold_every_event_time_once(name: str, start: int, span: int) -> None:
    zone = ZoneInfo(name)
    interval = Interval(start * 1_000, (start + span) * 1_000)
    steps = plan_local_steps(interval, 8 * HOUR_MS, zone)
    ts = np.linspace(interval.start, interval.end - 1, 40, dtype=np.int64)
    places = steps.places_of(ts)
    assert (steps.starts_of(places) <= ts).all()
    assert (ts < steps.edges[places + 1]).all()
    assert (places[0], places[-1]) == (0, steps.count - 1)


def test_edges_are_the_last_instant_that_64_bits_hold_at_most() -> None:
    interval = Interval(Precision.NS.ts_end - 10, Precision.NS.ts_end, Precision.NS)
    steps = plan_local_steps(interval, DAY_S * 10**9, ZoneInfo("Europe/Berlin"))
    assert isinstance(steps, EdgeSteps)
    assert steps.edges[-1] == 2**63 - 1


@pytest.mark.parametrize(
    ("length_s", "precision", "ticks"),
    [
        (0.1, Precision.MS, 100),
        (300.0, Precision.US, 300_000_000),
        (0.0005, Precision.MS, None),
        (0.0005, Precision.US, 500),
        (1e-7, Precision.NS, None),
        (0.0, Precision.MS, None),
        (1e10, Precision.NS, None),
        (36_500.0 * DAY_S, Precision.MS, 36_500 * DAY_MS),
    ],
)
def test_lengths_are_whole_ticks_or_none(
    length_s: float, precision: Precision, ticks: int | None
) -> None:
    assert ticks_of(length_s, precision) == ticks
