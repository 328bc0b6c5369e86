"""Expiry: one set of rules for designs, writers and checks."""

from __future__ import annotations

import calendar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.core.expiry import (
    EXPIRY_MAX_S,
    EXPIRY_MAX_UNSIGNED_S,
    TTL_MAX_S,
    check_ttl,
    expiry_cap_s,
    gc_before_s,
    index_ttl_s,
    is_fully_expired,
    refused_from_s,
    render_day,
    ttl_for_age,
    ttl_max_at_s,
    ttls_for_ages,
)
from treering.errors import DesignError

NOW_S = calendar.timegm((2026, 11, 30, 0, 0, 0))
DAY_S = 86_400
TWELVE_YEARS_S = 378_432_000


def test_limits_are_the_dates_and_years_they_stand_for() -> None:
    assert TTL_MAX_S == 630_720_000
    assert calendar.timegm((2038, 1, 19, 3, 14, 6)) == EXPIRY_MAX_S
    assert calendar.timegm((2106, 2, 7, 6, 28, 13)) == EXPIRY_MAX_UNSIGNED_S


@pytest.mark.parametrize(
    ("version", "mode"),
    [("3.0.16", "NONE"), ("3.11", "CASSANDRA_4"), ("4.0", "NONE"), ("5.0", "CASSANDRA_4")],
)
def test_a_ttl_past_2038_is_refused_with_the_most_that_is_allowed(version: str, mode: str) -> None:
    with pytest.raises(DesignError, match="2038-01-19") as raised:
        check_ttl(TWELVE_YEARS_S, NOW_S, version, mode)
    assert raised.value.ttl_max_s == 351_486_846
    assert "351,486,846 s" in raised.value.hint
    assert ttl_max_at_s(NOW_S, version, mode) == 351_486_846


def test_an_upgrading_cluster_counts_with_the_lower_cap() -> None:
    assert expiry_cap_s("5.0", "UPGRADING") == EXPIRY_MAX_S


def test_mode_none_of_cassandra_5_reaches_2106() -> None:
    check_ttl(TWELVE_YEARS_S, NOW_S, "5.0", "NONE")
    assert expiry_cap_s("5.0", "NONE") == EXPIRY_MAX_UNSIGNED_S


def test_a_version_that_overflows_is_refused_for_losing_the_reading() -> None:
    with pytest.raises(DesignError, match="overflows and loses the reading"):
        check_ttl(TWELVE_YEARS_S, NOW_S, "3.11.1", "CASSANDRA_4")


@pytest.mark.parametrize("ttl_s", [1_038_700_758, TTL_MAX_S + 1])
def test_a_ttl_above_twenty_years_is_refused_whatever_the_version(ttl_s: int) -> None:
    with pytest.raises(DesignError, match="630,720,000"):
        check_ttl(ttl_s, 0, "5.0", "NONE")
    check_ttl(TTL_MAX_S, 0, "5.0", "NONE")


@pytest.mark.parametrize("ttl_s", [0, -1])
def test_zero_and_below_are_no_lifetimes_because_zero_means_never(ttl_s: int) -> None:
    with pytest.raises(DesignError, match="no lifetime"):
        check_ttl(ttl_s, NOW_S, "5.0", "NONE")


def test_refused_from_is_the_second_after_the_last_write_that_fits() -> None:
    day = refused_from_s(90 * DAY_S, "5.0", "CASSANDRA_4")
    check_ttl(90 * DAY_S, day - 1, "5.0", "CASSANDRA_4")
    with pytest.raises(DesignError):
        check_ttl(90 * DAY_S, day, "5.0", "CASSANDRA_4")
    assert render_day(day) == "2037-10-21"


def test_a_file_goes_only_strictly_after_gc_before() -> None:
    before = gc_before_s(1_000_000, 10_800)
    assert before == 989_200
    assert is_fully_expired(before - 1, before)
    assert not is_fully_expired(before, before)


def test_a_cell_that_never_expires_keeps_its_file() -> None:
    assert not is_fully_expired(None, 2**40)


@pytest.mark.parametrize(
    ("age_s", "ttl_s"),
    [
        (0, 90 * DAY_S),
        (-600, 90 * DAY_S),
        (3 * DAY_S - 1, 90 * DAY_S),
        (3 * DAY_S, 87 * DAY_S),
        (3 * DAY_S + 1, 87 * DAY_S),
        (6 * DAY_S - 1, 87 * DAY_S),
        (90 * DAY_S - 1, 3 * DAY_S),
        (90 * DAY_S - 0.5, None),
        (90 * DAY_S, None),
        (1_000 * DAY_S, None),
    ],
)
def test_an_older_reading_gets_what_remains_in_whole_windows(
    age_s: float, ttl_s: int | None
) -> None:
    assert ttl_for_age(age_s, 90 * DAY_S, 3 * DAY_S) == ttl_s


AGES_S = st.integers(-DAY_S, 400 * DAY_S)
RETENTIONS_S = st.integers(1, 365 * DAY_S)
WINDOWS_S = st.integers(1, 10 * DAY_S).map(lambda s: max(s // 60, 1) * 60)


@given(AGES_S, RETENTIONS_S, WINDOWS_S)
def test_a_reading_stays_readable_for_its_retention_and_never_much_longer(
    age_s: int, retention_s: int, window_s: int
) -> None:
    ttl_s = ttl_for_age(age_s, retention_s, window_s)
    remaining_s = retention_s - age_s
    if ttl_s is None:
        assert remaining_s < 1
    else:
        assert 1 <= ttl_s <= retention_s
        assert min(remaining_s, retention_s) <= ttl_s < remaining_s + window_s + DAY_S
        assert age_s < 0 or ttl_s <= remaining_s + window_s


@given(st.lists(AGES_S, min_size=1), RETENTIONS_S, WINDOWS_S)
def test_the_array_twin_agrees(ages_s: list[int], retention_s: int, window_s: int) -> None:
    ttls, is_expired = ttls_for_ages(np.array(ages_s, dtype=np.int64), retention_s, window_s)
    twin = [None if gone else int(ttl) for ttl, gone in zip(ttls, is_expired, strict=True)]
    assert twin == [ttl_for_age(age, retention_s, window_s) for age in ages_s]


def test_an_index_entry_outlives_its_bucket() -> None:
    ttl_s = index_ttl_s(
        90 * DAY_S, bucket_s=DAY_S, window_s=3 * DAY_S, future_s=600, ttl_max_s=TTL_MAX_S
    )
    assert ttl_s == 94 * DAY_S + 600


def test_an_index_ttl_over_the_limit_is_left_out_though_the_data_ttl_is_legal() -> None:
    common = {"bucket_s": 21 * DAY_S, "window_s": 1, "future_s": 0}
    assert index_ttl_s(TTL_MAX_S, **common, ttl_max_s=TTL_MAX_S) is None
    assert index_ttl_s(None, **common, ttl_max_s=TTL_MAX_S) is None
