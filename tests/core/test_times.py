"""Instants: every form that people write, floored, never guessed, never dependent on the host."""

from __future__ import annotations

import datetime as dt
import time
import zoneinfo
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from treering.core.times import (
    parse_time,
    render_instant,
    render_ts,
    ticks_from_array,
    ts_from_int,
    ts_from_iso,
    zone_offset_s,
)
from treering.core.units import TIME_END_S, TIME_MIN_S, Precision
from treering.errors import UsageError

MS, US, NS = Precision.MS, Precision.US, Precision.NS
PRECISIONS = st.sampled_from(list(Precision))
NOW_MS = 1_763_643_600_250
BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
NEW_YORK = zoneinfo.ZoneInfo("America/New_York")


def parsed(value: Any, precision: Precision = MS, **options: Any) -> int:
    return parse_time(
        value, now_ts=NOW_MS * precision.per_s // 1_000, precision=precision, **options
    )


def ticks(times: Any, precision: Precision = MS, **options: Any) -> list[int | None]:
    """Return ticks, None where the time is refused."""
    found, valid, floored = ticks_from_array(times, precision=precision, **options)
    assert found.dtype == np.int64
    assert not (floored & ~valid).any()
    assert not found[~valid].any()
    return [ts if there else None for ts, there in zip(found.tolist(), valid.tolist(), strict=True)]


def floored(times: Any, precision: Precision = MS, **options: Any) -> list[bool]:
    found: list[bool] = ticks_from_array(times, precision=precision, **options)[2].tolist()
    return found


# Text


@given(PRECISIONS.flatmap(lambda p: st.tuples(st.just(p), st.integers(p.ts_min, p.ts_end - 1))))
@example((MS, -1))
@example((NS, NS.ts_min))
@example((MS, MS.ts_end - 1))
def test_rendered_time_parses_back_at_each_precision(case: tuple[Precision, int]) -> None:
    precision, ts = case
    text = render_ts(ts, precision)
    assert parsed(text, precision) == ts
    assert ticks([text], precision) == [ts]


@pytest.mark.parametrize(
    "text",
    [
        "2025-11-20T13:00Z",
        "2025-11-20T13:00:00Z",
        "2025-11-20 13:00:00z",
        "2025-11-20T13:00:00.000000000Z",
        "2025-11-20T13:00:00,000Z",
        "2025-11-20T14:00+01:00",
        "2025-11-20T14:00+0100",
        "2025-11-20T14:00+01",
        "2025-11-20T08:00:00 -05:00",
        "2025-11-20T18:45+05:45",
        "2025-11-21T12:59+23:59",
        " 2025-11-20T13:00Z ",
    ],
)
def test_every_form_of_a_zone_is_understood(text: str) -> None:
    assert parsed(text) == 1_763_643_600_000


@pytest.mark.parametrize("text", ["2025-11-20T13:00", "2025-11-20 13:00:00.5"])
def test_text_without_a_zone_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="has no zone") as caught:
        parsed(text)
    assert "Z for UTC" in caught.value.hint
    with pytest.raises(UsageError, match="has no zone"):
        ticks([text])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2025-02-29",
        "2025-13-01",
        "2025-11-20T24:00Z",
        "2025-11-20T23:59:60Z",
        "2025-11-20T13:00+24:00",
        "2025-11-20T13:00+05:",
        "2025-11-20T13:00+1",
        "2025-11-20T13:00:00.1234567890Z",
        "2025-11-20T13Z",
        "0000-01-01",
        "12025-01-01",
        "1763643600",
        "now+",
        "-5 fortnights",
        "+",
    ],
)
def test_text_that_is_no_time_is_named(text: str) -> None:
    with pytest.raises(UsageError, match=r"is not a|not a length"):
        parsed(text)


def test_bare_date_is_a_utc_day() -> None:
    assert parsed("2025-11-20") == parsed("2025-11-20T00:00Z") == parsed(dt.date(2025, 11, 20))
    assert parsed("0001-01-01") == MS.ts_min
    assert parsed("2025-11-20", zone=BERLIN) == parsed("2025-11-19T23:00Z")


@pytest.mark.parametrize(
    ("text", "moved_ms"),
    [
        ("now", 0),
        ("NOW", 0),
        ("-6h", -6 * 3_600_000),
        ("now-90d", -90 * 86_400_000),
        ("now - 1h30m", -5_400_000),
        ("+10min", 600_000),
        ("-250ms", -250),
    ],
)
@pytest.mark.parametrize("precision", list(Precision))
def test_relative_time_counts_from_now(text: str, moved_ms: int, precision: Precision) -> None:
    assert parsed(text, precision) == (NOW_MS + moved_ms) * precision.per_s // 1_000


@pytest.mark.parametrize("text", ["now", " now", "now ", "-5m", " -5m", "now-1h", "+1s"])
def test_reading_has_no_relative_time(text: str) -> None:
    with pytest.raises(UsageError, match="not the time of a reading"):
        ticks([text])


@given(st.integers(0, 10**9 - 1), PRECISIONS)
def test_decimals_are_a_number_and_are_floored(nanoseconds: int, precision: Precision) -> None:
    text = f"1969-12-31T23:59:58.{nanoseconds:09d}Z"
    expected = (-2 * 10**9 + nanoseconds) * precision.per_s // 10**9
    assert parsed(text, precision) == expected
    assert ticks([text], precision) == [expected]
    assert floored([text], precision) == [nanoseconds % (10**9 // precision.per_s) != 0]


# Zones and daylight saving


def test_time_that_daylight_saving_skips_names_no_instant() -> None:
    with pytest.raises(UsageError, match="skips 2025-03-30T02:30:00"):
        ts_from_iso("2025-03-30T02:30", MS, zone=BERLIN)
    with pytest.raises(UsageError, match="skips"):
        parsed(dt.datetime(2025, 3, 30, 2, 30), zone=BERLIN)  # noqa: DTZ001
    assert ts_from_iso("2025-03-30T03:00", MS, zone=BERLIN) == parsed("2025-03-30T01:00Z")


def test_time_that_the_clock_shows_twice_means_the_first() -> None:
    assert ts_from_iso("2025-10-26T02:30", MS, zone=BERLIN) == parsed("2025-10-26T00:30Z")
    assert ts_from_iso("2025-10-26T03:00", MS, zone=BERLIN) == parsed("2025-10-26T02:00Z")
    aware = dt.datetime(2025, 10, 26, 2, 30, tzinfo=BERLIN)
    assert parsed(aware) == parsed("2025-10-26T00:30Z")
    assert parsed(aware.replace(fold=1)) == parsed("2025-10-26T01:30Z")


@given(st.integers(TIME_MIN_S + 86_400, TIME_END_S - 86_401))
def test_wall_clock_of_a_zone_comes_back_unless_it_was_shown_before(ts_s: int) -> None:
    moment = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=ts_s)
    local = moment.astimezone(NEW_YORK)
    offset_s = zone_offset_s(local, NEW_YORK)
    back_s = ts_from_iso(local.replace(tzinfo=None).isoformat(), MS, zone=NEW_YORK) // 1_000
    if local.fold == 0:
        # Zones had offsets with seconds before they were standardised.
        assert offset_s == local.utcoffset().total_seconds()  # type: ignore[union-attr]
        assert back_s == ts_s
    else:
        assert back_s == ts_s - 3_600


@pytest.mark.parametrize("wall", ["0001-01-01T00:00", "9999-12-31T23:59"])
def test_wall_clock_at_the_ends_of_the_calendar_is_refused_without_an_accident(wall: str) -> None:
    zone = BERLIN if wall.startswith("0") else NEW_YORK
    with pytest.raises(UsageError, match=r"outside|not a time"):
        ts_from_iso(wall, MS, zone=zone)


def test_explicit_zone_wins_over_the_stated_one() -> None:
    assert parsed("2025-11-20T13:00Z", zone=BERLIN) == 1_763_643_600_000
    assert parsed(dt.datetime(2025, 11, 20, 13, tzinfo=dt.UTC), zone=BERLIN) == 1_763_643_600_000


@pytest.fixture(params=["America/New_York", "Asia/Kathmandu", "UTC"])
def host_zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Set the zone of the process."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        yield request.param
    time.tzset()


def test_no_time_depends_on_the_zone_of_the_host(host_zone: str) -> None:
    assert time.tzname[0] in {"EST", "+0545", "UTC"}, host_zone
    eastern = dt.timezone(dt.timedelta(hours=-5))
    assert parsed(dt.datetime(2024, 3, 10, 2, 30, tzinfo=eastern)) == 1_710_055_800_000
    assert parsed("2024-03-10T02:30Z") == 1_710_037_800_000
    assert ticks(np.array(["2024-03-10T02:30"], "datetime64[s]")) == [1_710_037_800_000]
    assert render_ts(1_710_037_800_000, MS) == "2024-03-10T02:30:00.000Z"
    with pytest.raises(UsageError, match="no time zone"):
        parsed(dt.datetime(2024, 3, 10, 2, 30))  # noqa: DTZ001
    with pytest.raises(UsageError, match="no time zone"):
        ticks(["2024-03-10T02:30Z", dt.datetime(2024, 3, 10, 2, 30)])  # noqa: DTZ001


# Datetimes


@given(st.datetimes(timezones=st.timezones()), PRECISIONS)
def test_aware_datetime_is_floored_exactly(moment: dt.datetime, precision: Precision) -> None:
    offset = moment.utcoffset()
    assert offset is not None
    delta = moment.replace(tzinfo=None) - dt.datetime(1970, 1, 1) - offset  # noqa: DTZ001
    expected = (delta // dt.timedelta(microseconds=1)) * precision.per_s // 1_000_000
    inside = precision.ts_min <= expected < precision.ts_end
    assert ticks([moment], precision) == [expected if inside else None]


def test_nanoseconds_of_a_pandas_timestamp_are_kept_or_counted_as_finer() -> None:
    moment = pd.Timestamp("2025-01-01T00:00:00.123456789Z")
    assert ticks([moment], NS) == [1_735_689_600_123_456_789]
    assert ticks([moment], US) == [1_735_689_600_123_456]
    assert floored([moment, moment.floor("us")], US) == [True, False]


# Integers


@given(
    st.integers(-(2**63), 2**63 - 1),
    st.sampled_from(["s", "ms", "us", "ns"]),
    PRECISIONS,
)
@example(-(2**63), "s", NS)
@example(2**63 - 1, "s", NS)
@example(-1, "ns", MS)
def test_integers_of_every_unit_are_floored_or_refused_one_by_one(
    value: int, unit: str, precision: Precision
) -> None:
    per_s = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    expected = value * precision.per_s // per_s
    inside = precision.ts_min <= expected < precision.ts_end
    for times in ([value, 0], np.array([value, 0]), np.array([value, 0], dtype=object)):
        assert ticks(times, precision, unit=unit) == [expected if inside else None, 0]
        is_finer = inside and value * precision.per_s % per_s != 0
        assert floored(times, precision, unit=unit) == [is_finer, False]
    if value > -(2**63):  # Which is NaT.
        times = np.array([value, 0], f"datetime64[{unit}]")
        assert ticks(times, precision) == [expected if inside else None, 0]
    if inside:
        assert ts_from_int(value, unit=unit, precision=precision) == expected
    elif expected != precision.ts_end:
        with pytest.raises(UsageError, match="outside what a table of precision"):
            ts_from_int(value, unit=unit, precision=precision)


def test_nanoseconds_given_as_milliseconds_are_refused_with_a_hint() -> None:
    with pytest.raises(UsageError, match="outside") as caught:
        parsed(NOW_MS * 1_000_000, unit="ms")
    assert "unit='ns'" in caught.value.hint
    assert ticks([NOW_MS * 1_000_000, NOW_MS], unit="ms") == [None, NOW_MS]


def test_integer_beyond_64_bits_is_refused_alone() -> None:
    assert ticks(np.array([2**63, 5, 2**64 - 1], dtype=np.uint64), unit="ms") == [None, 5, None]
    assert ticks([2**63, 5, -(2**70)], unit="ms") == [None, 5, None]
    assert ticks([np.uint64(2**63), np.uint64(5)], unit="ms") == [None, 5]


@pytest.mark.parametrize(
    "times", [[5], np.array([5]), np.array([5], dtype=object), [5, "2025-01-01"]]
)
def test_integers_without_a_unit_are_refused(times: Any) -> None:
    with pytest.raises(UsageError, match="no unit") as caught:
        ticks(times)
    assert "ms" in caught.value.hint


@pytest.mark.parametrize("times", [[5], np.array([5]), np.array([5], dtype=object)])
def test_unknown_unit_is_named(times: Any) -> None:
    with pytest.raises(UsageError, match="'minutes' is not a unit"):
        ticks(times, unit="minutes")


# datetime64


@pytest.mark.parametrize(
    "unit", ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as"]
)
def test_datetime64_of_every_unit_is_its_instant(unit: str) -> None:
    array = np.array([0, 1, -1], f"datetime64[{unit}]")
    exact = array.astype("datetime64[as]") if unit == "as" else array
    coarse = {"Y", "M", "W", "D", "h", "m", "s", "ms"}
    if unit in coarse:
        assert ticks(array) == exact.astype("datetime64[ms]").astype(np.int64).tolist()
    else:
        assert ticks(array) == [0, 0, -1]
    assert floored(array) == [False, unit not in coarse, unit not in coarse]


@given(st.integers(-(2**40), 2**40), st.integers(2, 60), st.sampled_from(["s", "ms", "us", "ps"]))
def test_datetime64_in_multiples_of_a_unit_counts_them(value: int, count: int, unit: str) -> None:
    per_s = {"s": 1, "ms": 10**3, "us": 10**6, "ps": 10**12}[unit]
    array = np.array([value], f"datetime64[{count}{unit}]")
    expected = value * count * 1_000 // per_s
    inside = MS.ts_min <= expected < MS.ts_end
    assert ticks(array) == [expected if inside else None]
    assert floored(array) == [inside and value * count * 1_000 % per_s != 0]


def test_picoseconds_are_finer_than_nanoseconds() -> None:
    assert floored(np.array([1_000, 1_001], "datetime64[ps]"), NS) == [False, True]


@pytest.mark.parametrize("unit", ["Y", "M", "W", "D", "h", "m", "s", "ms", "25ms"])
def test_datetime64_far_outside_is_refused_and_never_wraps(unit: str) -> None:
    array = np.array([2**62, 0, -(2**62)], f"datetime64[{unit}]")
    assert ticks(array) == [None, 0, None]


def test_datetime64_of_several_units_are_not_squeezed_into_the_finest() -> None:
    times = [np.datetime64("9999-01-01", "s"), np.datetime64(1, "ns")]
    assert ticks(times) == [253_370_764_800_000, 0]
    assert ticks(np.array(times, dtype=object)) == [253_370_764_800_000, 0]


def test_missing_times_are_refused_one_by_one_in_every_form() -> None:
    nat = np.datetime64("NaT")
    day = np.datetime64("2025-01-01")
    expected = [None, 1_735_689_600_000]
    forms: list[Any] = [
        np.array([nat, day]),
        np.array([nat, day], "datetime64[ms]"),
        np.array([nat, day], dtype=object),
        np.ma.MaskedArray(np.array([day, day]), mask=[True, False]),
        [None, "2025-01-01"],
        [pd.NaT, pd.Timestamp("2025-01-01", tz="UTC")],
        [pd.NA, dt.datetime(2025, 1, 1, tzinfo=dt.UTC)],
        pd.DatetimeIndex([None, "2025-01-01"], tz="UTC"),
        pd.Series(pd.DatetimeIndex([None, "2025-01-01"], tz="UTC")),
    ]
    for form in forms:
        assert ticks(form) == expected
    masked = np.ma.MaskedArray(np.array([7, 1_735_689_600_000]), mask=[True, False])
    for form in (masked, [None, 1_735_689_600_000], pd.array([None, expected[1]], dtype="Int64")):
        assert ticks(form, unit="ms") == expected
    assert ticks(
        np.ma.MaskedArray(np.array([[], 3], dtype=object), mask=[True, False]), unit="ms"
    ) == [
        None,
        3,
    ]


def test_forms_may_be_mixed_in_one_array() -> None:
    times = [
        "2025-01-01",
        dt.datetime(2025, 1, 1, tzinfo=dt.UTC),
        np.datetime64("2025-01-01", "h"),
        dt.date(2025, 1, 1),
        1_735_689_600,
    ]
    assert ticks(times, unit="s") == [1_735_689_600_000] * 5


@pytest.mark.parametrize("year", ["1600-01-01", "2300-01-01"])
def test_year_that_the_precision_does_not_reach_is_refused_alone(year: str) -> None:
    moment = dt.datetime.fromisoformat(year).replace(tzinfo=dt.UTC)
    forms: list[Any] = [[year], [moment], np.array([year], "datetime64[s]"), [np.datetime64(year)]]
    for form in forms:
        assert ticks(form, NS) == [None]
        assert ticks(form, US) != [None]


@pytest.mark.parametrize("text", ["1600-01-01T00:00:00.000500Z", "9000-01-01T00:00:00.000500Z"])
def test_what_is_floored_is_known_in_years_that_nanoseconds_do_not_reach(text: str) -> None:
    assert floored([text]) == [True]
    assert floored(np.array([text[:-1]], "datetime64[us]")) == [True]


@pytest.mark.parametrize(
    "times",
    [
        [True],
        np.array([True]),
        [1.5],
        np.array([1.5]),
        [b"2025-01-01"],
        [[1], [2]],
        [object()],
        [1j],
    ],
)
def test_what_is_no_time_is_refused_whole(times: Any) -> None:
    with pytest.raises(UsageError, match=r"not a time|not an array of times"):
        ticks(times, unit="ms")


def test_times_have_one_dimension() -> None:
    with pytest.raises(UsageError, match=r"\(2, 1\)"):
        ticks(np.zeros((2, 1), "datetime64[s]"))


@pytest.mark.parametrize(
    "times", [[], (), np.array([]), np.array([], "datetime64[s]"), np.array([], dtype=int)]
)
def test_no_times_are_no_times(times: Any) -> None:
    assert ticks(times, unit="ms") == []


# Rendering


@given(st.integers(-(2**63), 2**63 - 1), PRECISIONS)
def test_any_integer_can_be_shown(ts: int, precision: Precision) -> None:
    text = render_ts(ts, precision)
    outside = not TIME_MIN_S <= ts // precision.per_s < TIME_END_S
    assert (text == f"@{ts}{precision}") is outside


def test_milliseconds_are_shown_as_a_number() -> None:
    shown = [render_ts(ts, MS)[-5:] for ts in (50, 1, 999)]
    assert shown == [".050Z", ".001Z", ".999Z"]
    assert parsed("1970-01-01T00:00:00.050Z", US) == 50_000
    assert parsed("1970-01-01T00:00:00.05Z", US) == 50_000


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "1970-01-01"),
        (1, "1970-01-01T00:00:01Z"),
        (-1, "1969-12-31T23:59:59Z"),
        (TIME_END_S, f"@{TIME_END_S * 1_000}ms"),
    ],
)
def test_instant_is_short_where_it_starts_a_day(seconds: int, text: str) -> None:
    assert render_instant(seconds) == text
