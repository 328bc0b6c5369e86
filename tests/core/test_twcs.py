"""Windows: as Cassandra computes them, before 1970 too."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.core.twcs import TwcsOptions, parse_twcs_options
from treering.core.window import WindowUnit
from treering.errors import UsageError

# What TimeWindowCompactionStrategy.getWindowBoundsInMillis of Cassandra 5.0.8 returns, in
# seconds: the newest write time, then windows of 1 DAYS, 7 HOURS and 3 MINUTES.
CASSANDRA = [
    (-1, 0, 0, 0),
    (-999, 0, 0, 0),
    (-1_000, 0, 0, 0),
    (-86_400_000_000, -86_400, -75_600, -86_400),
    (-86_400_000_001, -86_400, -75_600, -86_400),
    (-90_000_000_000, -86_400, -75_600, -90_000),
    (-172_800_000_000, -172_800, -151_200, -172_800),
    (0, 0, 0, 0),
    (86_399_999_999, 0, 75_600, 86_220),
    (86_400_000_000, 86_400, 75_600, 86_400),
    (1_700_000_000_000, 1_641_600, 1_688_400, 1_699_920),
    (1_700_000_000_000_000, 1_699_920_000, 1_699_992_000, 1_699_999_920),
]


@pytest.mark.parametrize(("write_us", "day_s", "hours_s", "minutes_s"), CASSANDRA)
def test_a_window_is_the_one_that_cassandra_computes(
    write_us: int, day_s: int, hours_s: int, minutes_s: int
) -> None:
    cut: list[tuple[WindowUnit, int, int]] = [
        ("DAYS", 1, day_s),
        ("HOURS", 7, hours_s),
        ("MINUTES", 3, minutes_s),
    ]
    for unit, size, start_s in cut:
        assert TwcsOptions(unit=unit, size=size).window_start_s(write_us) == start_s


def test_windows_of_seven_days_start_on_thursdays() -> None:
    start_s = TwcsOptions(size=7).window_start_s(1_700_000_000_000_000)
    assert start_s % (7 * 86_400) == 0
    assert (start_s // 86_400 + 3) % 7 == 3  # 1970-01-01 was a Thursday, and Monday is 0.


def test_milliseconds_taken_for_microseconds_land_in_january_1970() -> None:
    assert TwcsOptions().window_start_s(1_700_000_000_000) * 1_000 == 1_641_600_000
    declared = TwcsOptions(resolution="MILLISECONDS")
    assert declared.window_start_s(1_700_000_000_000) == 1_699_920_000


@given(st.integers(-(2**62), 2**62), st.integers(1, 400))
def test_a_write_time_lies_in_its_window(write_us: int, size: int) -> None:
    options = TwcsOptions(unit="MINUTES", size=size)
    start_s = options.window_start_s(write_us)
    assert start_s % options.window_s == 0
    assert abs(options.seconds_of(write_us) - start_s) < options.window_s


def test_options_that_are_left_out_are_cassandras() -> None:
    assert parse_twcs_options({"class": "x"}) == TwcsOptions()
    assert TwcsOptions().expired_check_s == 600
    assert TwcsOptions().text == "1 DAYS"


def test_options_are_read_as_the_server_has_them() -> None:
    found = parse_twcs_options(
        {
            "class": "TimeWindowCompactionStrategy",
            "compaction_window_unit": "HOURS",
            "compaction_window_size": "6",
            "timestamp_resolution": "MILLISECONDS",
            "expired_sstable_check_frequency_seconds": "60",
            "unsafe_aggressive_sstable_expiration": "true",
        }
    )
    assert found.window_s == 6 * 3_600
    assert (found.resolution, found.expired_check_s) == ("MILLISECONDS", 60)
    assert found.ignores_overlaps


@pytest.mark.parametrize(
    "wrong",
    [
        {"compaction_window_unit": "days"},
        {"compaction_window_size": "0"},
        {"compaction_window_size": "1.5"},
        {"compaction_window_size": "9" * 5_000},
        {"timestamp_resolution": "MICROS"},
        {"expired_sstable_check_frequency_seconds": "-1"},
    ],
)
def test_an_option_that_no_server_takes_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(UsageError, match=r"option|window"):
        parse_twcs_options(wrong)
