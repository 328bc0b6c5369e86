"""Verdicts on how readings leave."""

from __future__ import annotations

import pytest

from tests.core.design_cases import DAY_S, HOUR_S, YEAR_S, planned, severities, why
from treering.core.design import Overrides, Strategy
from treering.core.window import parse_window
from treering.errors import DesignError


@pytest.mark.parametrize(
    ("window", "days", "count", "severity"),
    [
        ("3d", 90, 30, "ok"),
        ("1d", 90, 90, "notice"),
        ("1h", 30, 720, "error"),
        ("1d", 365, 365, "warning"),
        ("1d", 366, 366, "error"),
        ("1d", 121, 121, "warning"),
        ("1d", 120, 120, "notice"),
        ("1d", 41, 41, "notice"),
        ("1d", 40, 40, "ok"),
        ("1d", 20, 20, "ok"),
        ("1d", 19, 19, "notice"),
        ("1d", 10, 10, "notice"),
        ("1d", 9, 9, "warning"),
    ],
)
def test_windows_are_judged_by_their_count(
    window: str, days: int, count: int, severity: str
) -> None:
    design = planned(retention_s=days * DAY_S, overrides=Overrides(window=parse_window(window, 1)))
    assert design.window is not None
    assert design.window.count == count
    assert severities(design)["window"] == severity
    assert f"{count} windows" in why(design, "window")


def test_a_retention_too_short_for_twenty_windows_says_so() -> None:
    assert severities(planned(retention_s=60))["window"] == "warning"
    assert severities(planned(retention_s=15 * 60))["window"] == "notice"
    assert severities(planned(retention_s=20 * 60))["window"] == "ok"


def test_the_ttl_says_from_when_on_writes_would_be_refused() -> None:
    design = planned()
    assert severities(design)["ttl"] == "ok"
    assert "from 2037-10-21 on" in why(design, "ttl")
    near = planned(1 / 60, retention_s=9 * YEAR_S)
    assert severities(near)["ttl"] == "notice"


def test_a_ttl_that_differs_from_the_retention_is_judged() -> None:
    short = planned(overrides=Overrides(ttl_s=80 * DAY_S))
    assert severities(short)["ttl"] == "error"
    assert "vanish 10d before" in why(short, "ttl")
    long = planned(overrides=Overrides(ttl_s=100 * DAY_S))
    assert severities(long)["ttl"] == "notice"
    assert "10d longer" in why(long, "ttl")


@pytest.mark.parametrize(
    ("grace_s", "replicas", "severity"),
    [
        (0, 3, "warning"),
        (600, 3, "warning"),
        (10_799, 3, "warning"),
        (10_800, 3, "ok"),
        (0, 1, "ok"),
        (600, 1, "ok"),
    ],
)
def test_grace_below_the_hint_window_is_a_warning_unless_there_is_one_replica(
    grace_s: int, replicas: int, severity: str
) -> None:
    design = planned(replication=(("dc1", replicas),), overrides=Overrides(gc_grace_s=grace_s))
    assert severities(design)["gc-grace"] == severity


def test_unstated_replication_counts_as_several_replicas() -> None:
    assert severities(planned(overrides=Overrides(gc_grace_s=600)))["gc-grace"] == "warning"


def test_grace_zero_says_what_it_gives_up() -> None:
    appended = planned(overrides=Overrides(gc_grace_s=0))
    assert "gives up hints" in why(appended, "gc-grace")
    deleted = planned(deletes=True, overrides=Overrides(gc_grace_s=0))
    assert severities(deleted)["gc-grace"] == "error"
    assert "readings come back" in why(deleted, "gc-grace")


def test_repair_outside_the_grace_is_a_notice_on_append_only_tables_with_the_reason() -> None:
    design = planned(repair_every_s=7 * DAY_S)
    assert severities(design)["repair"] == "notice"
    assert "expires a reading by itself" in why(design, "repair")
    assert "repair" not in severities(planned(repair_every_s=HOUR_S))


@pytest.mark.parametrize("kind", ["deletes", "overwrites"])
def test_repair_outside_the_grace_is_a_warning_with_deletes_or_overwrites(kind: str) -> None:
    design = planned(
        repair_every_s=7 * DAY_S, overrides=Overrides(gc_grace_s=DAY_S), **{kind: True}
    )
    found = severities(design)
    assert (found["repair"], found["gc-grace"]) == ("warning", "warning")
    inside = severities(planned(repair_every_s=7 * DAY_S, **{kind: True}))
    assert inside["gc-grace"] == "ok"
    assert "repair" not in inside


def test_deletes_without_a_stated_repair_ask_for_one() -> None:
    assert severities(planned(deletes=True))["repair"] == "notice"


@pytest.mark.parametrize(
    ("late_s", "fraction", "severity", "word"),
    [
        (2 * HOUR_S, None, "ok", "fine"),
        (3 * DAY_S, None, "ok", "fine"),
        (4 * DAY_S, None, "notice", "not stated"),
        (4 * DAY_S, 0.05, "notice", "survivable"),
        (4 * DAY_S, 0.051, "warning", "partition key"),
        (None, 0.2, "warning", "partition key"),
        (4 * DAY_S, 0.0, "ok", "fine"),
    ],
)
def test_late_data_is_judged_by_the_share_beyond_one_window(
    late_s: float | None, fraction: float | None, severity: str, word: str
) -> None:
    design = planned(late_s=late_s, late_fraction=fraction)
    assert severities(design)["late"] == severity
    assert word in why(design, "late")


def test_late_data_says_over_how_many_windows_a_partition_spreads() -> None:
    assert "up to 3 windows" in why(planned(late_s=5 * DAY_S), "late")


def test_nothing_is_said_about_late_data_that_nobody_stated() -> None:
    assert "late" not in severities(planned())


@pytest.mark.parametrize("kind", ["deletes", "overwrites"])
def test_twcs_is_the_wrong_strategy_with_deletes_or_overwrites_and_why(kind: str) -> None:
    chosen = planned(**{kind: True})
    assert severities(chosen)[kind] == "warning"
    assert f"TWCS is the wrong strategy with {kind}" in why(chosen, kind)
    assert "UCS is designed instead" in why(chosen, kind)
    forced = severities(planned(overrides=Overrides(strategy=Strategy.TWCS), **{kind: True}))
    assert (forced[kind], forced["strategy"]) == ("error", "error")


def test_ucs_is_judged_on_cassandra_5_alone() -> None:
    assert "ucs" not in severities(planned(cassandra="4.1"))
    assert "not by time" in why(planned(cassandra="5.0"), "ucs")


def test_ucs_for_readings_that_expire_in_order_is_a_warning() -> None:
    design = planned(overrides=Overrides(strategy=Strategy.UCS))
    assert severities(design)["strategy"] == "warning"
    assert "window" not in severities(design)


def test_for_ever_states_the_growth_of_a_year() -> None:
    design = planned(1, row_bytes=100, retention_s=None, compression_ratio=0.5)
    assert severities(design)["retention-forever"] == "notice"
    assert "grows by 1.58 GB a year" in why(design, "retention-forever")
    assert design.window is None
    assert "window" not in severities(design)


def test_unsafe_expiration_names_the_flag_as_the_source_spells_it() -> None:
    design = planned(overrides=Overrides(unsafe_aggressive_expiration=True))
    assert severities(design)["aggressive-expiry"] == "warning"
    flag = "-Dcassandra.allow_unsafe_aggressive_sstable_expiration=true"
    assert flag in why(design, "aggressive-expiry")
    deleted = planned(deletes=True, overrides=Overrides(unsafe_aggressive_expiration=True))
    assert severities(deleted)["aggressive-expiry"] == "error"


@pytest.mark.parametrize("unit", ["MILLISECONDS", "seconds", "NANOSECONDS"])
def test_a_timestamp_resolution_that_drivers_do_not_write_is_refused(unit: str) -> None:
    with pytest.raises(DesignError, match="microseconds"):
        Overrides(timestamp_resolution=unit)
    assert Overrides(timestamp_resolution="MICROSECONDS")
