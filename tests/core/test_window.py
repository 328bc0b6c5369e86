"""Windows: 20 to 40 of them, in the largest unit that has a whole size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.core.window import (
    UNIT_S,
    Window,
    parse_window,
    plan_window,
    window_from_length,
)
from treering.errors import DesignError, UsageError

DAY_S = 86_400


@pytest.mark.parametrize(
    ("days", "text", "count"),
    [
        (30, "1 DAYS", 30),
        (90, "3 DAYS", 30),
        (180, "6 DAYS", 30),
        (20, "1 DAYS", 20),
        (7, "6 HOURS", 28),
        (2, "2 HOURS", 24),
        (1, "1 HOURS", 24),
        (365, "12 DAYS", 31),
    ],
)
def test_windows_of_usual_retentions(days: int, text: str, count: int) -> None:
    window = plan_window(days * DAY_S)
    assert (window.text, window.count) == (text, count)


@given(st.integers(20 * 60, 20 * 365 * DAY_S))
def test_every_retention_from_twenty_minutes_gets_20_to_40_windows(retention_s: int) -> None:
    window = plan_window(retention_s)
    assert 20 <= window.count <= 40
    assert window.length_s * 20 <= retention_s <= window.length_s * 40


@given(st.integers(20 * 60, 400 * DAY_S))
def test_no_other_size_of_the_unit_is_nearer_to_thirty_and_no_larger_unit_fits(
    retention_s: int,
) -> None:
    window = plan_window(retention_s)
    fitting = {
        unit: [
            size
            for size in range(retention_s // (41 * unit_s), retention_s // (19 * unit_s) + 2)
            if size >= 1 and 20 * size * unit_s <= retention_s <= 40 * size * unit_s
        ]
        for unit, unit_s in UNIT_S.items()
    }
    unit = next(unit for unit, sizes in fitting.items() if sizes)
    assert window.unit == unit
    # |R/L - 30| without fractions that floats would blur: compare |R - 30 L| * other L.
    unit_s = UNIT_S[unit]
    mine = abs(retention_s - 30 * window.length_s)
    for size in fitting[unit]:
        other_s = size * unit_s
        assert mine * other_s <= abs(retention_s - 30 * other_s) * window.length_s


@given(st.integers(1, 20 * 60 - 1))
def test_a_shorter_retention_gets_the_narrowest_window(retention_s: int) -> None:
    window = plan_window(retention_s)
    assert window.text == "1 MINUTES"
    assert window.count == -(-retention_s // 60) < 21


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("3d", "3 DAYS"),
        ("3 DAYS", "3 DAYS"),
        ("24 hours", "24 HOURS"),
        ("24h", "1 DAYS"),
        ("6h", "6 HOURS"),
        ("90min", "90 MINUTES"),
        ("1w", "7 DAYS"),
    ],
)
def test_a_window_in_words(text: str, window: str) -> None:
    parsed = parse_window(text, 90 * DAY_S)
    assert parsed.text == window
    assert parsed.count == -(-90 * DAY_S // parsed.length_s)


@pytest.mark.parametrize("text", ["90s", "30s", "0 DAYS", "0d", "1.5min"])
def test_a_window_that_the_option_cannot_say_is_refused(text: str) -> None:
    with pytest.raises(DesignError, match="whole number of minutes"):
        parse_window(text, DAY_S)


def test_a_window_that_is_no_length_is_refused() -> None:
    with pytest.raises(UsageError, match="not a length of time"):
        parse_window("3 FORTNIGHTS", DAY_S)


def test_a_fractional_day_falls_to_hours() -> None:
    assert window_from_length(1.5 * DAY_S, retention_s=30 * DAY_S).text == "36 HOURS"


def test_an_unknown_unit_is_refused_and_never_taken_for_days() -> None:
    with pytest.raises(DesignError, match="SECONDS"):
        Window(unit="SECONDS", size=1, count=1)  # type: ignore[arg-type]


def test_the_last_partial_window_counts() -> None:
    assert parse_window("7d", 90 * DAY_S).count == 13
