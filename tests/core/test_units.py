"""Units: what people write for lengths, rates and sizes, and the way back."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.core.units import (
    DAY_S,
    HOUR_S,
    MINUTE_S,
    TIME_END_S,
    TIME_MIN_S,
    Interval,
    Precision,
    parse_bytes,
    parse_duration_s,
    parse_rate_hz,
    parse_retention_s,
    render_bytes,
    render_duration,
    render_rate,
)
from treering.errors import UsageError

HUGE = 10**400


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90d", 90 * DAY_S),
        ("1h30m", 5_400),
        ("1 h 30 min", 5_400),
        ("15min", 900),
        ("15 minutes", 900),
        ("2w", 14 * DAY_S),
        ("1mo", 31 * DAY_S),
        ("2 months", 62 * DAY_S),
        ("1y", 365 * DAY_S),
        ("250ms", 0.25),
        ("1.5s", 1.5),
        ("90D", 90 * DAY_S),
        ("0s", 0),
        (dt.timedelta(days=1, milliseconds=500), DAY_S + 0.5),
    ],
)
def test_length_of_time_is_understood(text: str | dt.timedelta, seconds: float) -> None:
    assert parse_duration_s(text) == pytest.approx(seconds, rel=1e-12)


@pytest.mark.parametrize(
    "text",
    [
        "5mx",
        "5 fortnights",
        "",
        " ",
        "-5m",
        "5",
        "m",
        "1h-30m",
        "nan",
        "inf",
        "1e3s",
        "1d,2h",
        "1.5.2s",
        "9" * 400 + "d",
        -1,
        math.nan,
        math.inf,
        HUGE,
        True,
        dt.timedelta(seconds=-1),
    ],
)
def test_what_is_no_length_of_time_is_refused(text: Any) -> None:
    with pytest.raises(UsageError, match="not a length of time") as caught:
        parse_duration_s(text)
    assert "90d" in caught.value.hint


@given(st.integers(0, 10**12) | st.floats(0, 1e12))
def test_a_number_without_a_unit_is_no_length_of_time(number: float) -> None:
    for given_as in (number, str(number), f" {number} "):
        with pytest.raises(UsageError, match="is not a length of time") as caught:
            parse_duration_s(given_as)  # type: ignore[arg-type]
        assert "90d" in caught.value.hint
        with pytest.raises(UsageError):
            parse_retention_s(given_as)  # type: ignore[arg-type]


def test_a_capital_m_is_neither_minutes_nor_months() -> None:
    for text in ("6M", "1h6M", "6 M"):
        with pytest.raises(UsageError, match="may be minutes or months"):
            parse_duration_s(text)


def test_a_retention_is_whole_seconds_above_none() -> None:
    assert parse_retention_s("90d") == 90 * DAY_S
    assert parse_retention_s(dt.timedelta(hours=1)) == HOUR_S
    assert parse_retention_s(None) is None
    assert parse_retention_s("Forever") is None
    for text in ("0d", "1.5s"):
        with pytest.raises(UsageError):
            parse_retention_s(text)


@given(st.integers(1, 40 * 365 * DAY_S))
def test_rendered_duration_keeps_its_two_largest_units(seconds: int) -> None:
    back = parse_duration_s(render_duration(seconds))
    assert back <= seconds
    smallest = HOUR_S if seconds >= DAY_S else MINUTE_S if seconds >= HOUR_S else 1
    assert seconds - back < smallest


@given(st.integers(1, 999))
def test_milliseconds_come_back_as_they_were(milliseconds: int) -> None:
    back = parse_duration_s(render_duration(milliseconds / 1_000))
    assert back == pytest.approx(milliseconds / 1_000, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "rate_hz"),
    [
        ("1/s", 1),
        ("10/min", 1 / 6),
        ("1/10s", 0.1),
        ("4/h", 4 / 3_600),
        ("10Hz", 10),
        ("0.5 hz", 0.5),
        ("1 per minute", 1 / 60),
        ("1/15min", 1 / 900),
        ("2.5/1h30m", 2.5 / 5_400),
        ("1/d", 1 / DAY_S),
        (0.25, 0.25),
        (3, 3),
    ],
)
def test_rate_is_understood(text: str | float, rate_hz: float) -> None:
    assert parse_rate_hz(text) == pytest.approx(rate_hz, rel=1e-12)


@pytest.mark.parametrize(
    "text",
    [
        "1/0s",
        "0/s",
        "-1/s",
        "1/-1s",
        "1/",
        "/s",
        "1/x",
        "1/10",
        "1/5mx",
        "hz",
        "nanHz",
        "infHz",
        "-3Hz",
        "fast",
        "",
        0,
        -1,
        math.nan,
        math.inf,
        HUGE,
        True,
    ],
)
def test_what_is_no_rate_is_refused(text: str | float) -> None:
    with pytest.raises(UsageError, match="not a rate") as caught:
        parse_rate_hz(text)
    assert "1/10s" in caught.value.hint


@given(st.floats(1e-3 / DAY_S, 1e6))
def test_rendered_rate_means_the_same_rate(rate_hz: float) -> None:
    assert parse_rate_hz(render_rate(rate_hz)) == pytest.approx(rate_hz, rel=1e-4)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("10MB", 10_000_000),
        ("100 kB", 100_000),
        ("16MiB", 16 * 2**20),
        ("16Mi", 16 * 2**20),
        ("1.5k", 1_500),
        ("1KIB", 1_024),
        ("7", 7),
        ("7B", 7),
        (0, 0),
        (12.9, 12),
        ("2TB", 2 * 10**12),
        (2**63, 2**63),
    ],
)
def test_size_is_understood(text: str | int | float, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize(
    "text", ["", "B", "10X", "-1", "10iB", "10i", "1e3", "nan", "9" * 400, -1, math.nan, True]
)
def test_what_is_no_size_is_refused(text: str | int | float) -> None:
    with pytest.raises(UsageError, match="not a size"):
        parse_bytes(text)


@given(st.integers(0, 10**17))
def test_rendered_size_has_three_digits_and_no_exponent(size: int) -> None:
    text = render_bytes(size)
    assert "e" not in text
    assert parse_bytes(text) == pytest.approx(size, rel=0.006)


@pytest.mark.parametrize(
    ("size", "text"), [(999, "999 B"), (999_999, "1 MB"), (8_640_000, "8.64 MB"), (0, "0 B")]
)
def test_size_moves_to_the_next_unit_before_it_needs_four_digits(size: int, text: str) -> None:
    assert render_bytes(size) == text


@pytest.mark.parametrize("precision", list(Precision))
def test_every_event_time_of_a_precision_fits_64_bits_and_the_years(precision: Precision) -> None:
    assert -(2**63) < precision.ts_min < 0 < precision.ts_end < 2**63
    assert precision.ts_min // precision.per_s >= TIME_MIN_S
    assert (precision.ts_end - 1) // precision.per_s < TIME_END_S


def test_unknown_precision_is_named() -> None:
    with pytest.raises(UsageError, match="'s' is not a precision") as caught:
        Precision.from_text("s")
    assert "ms, us or ns" in caught.value.hint


@given(st.integers(-100, 100), st.integers(-100, 100), st.integers(-100, 100), st.integers(0, 50))
def test_clipped_interval_holds_what_both_hold(start: int, end: int, low: int, length: int) -> None:
    clipped = Interval(start, end).clipped(low, low + length)
    for ts in range(-101, 151):
        both = start <= ts < end and low <= ts < low + length
        assert (clipped.start <= ts < clipped.end) is both
    assert clipped.is_empty is (clipped.length_s == 0)
    assert clipped.end >= clipped.start
