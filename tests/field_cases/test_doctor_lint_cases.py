"""Problems that people had with options and reports of time-series tables, and what is said."""

from __future__ import annotations

from typing import Any

import pytest

from tests.doctor.checks.tables import (
    DAY_S,
    MINUTE_S,
    NOW_S,
    days,
    histograms,
    node,
    percentiles,
    schema,
    sstable,
    table,
    twcs,
)
from tests.doctor.checks.test_healthy import found
from treering.core.twcs import TwcsOptions
from treering.doctor.checks.partitions import check_partitions
from treering.doctor.checks.sizes import sizes_of
from treering.doctor.checks.sstables import check_sstables
from treering.doctor.thresholds import Thresholds

AGGRESSIVE = "unsafe_aggressive_sstable_expiration"
FLAG = "cassandra.allow_unsafe_aggressive_sstable_expiration"


@pytest.mark.parametrize(
    ("settings", "severity"),
    [({}, "notice"), ({FLAG: "true"}, "notice"), ({FLAG: "false"}, "warning")],
    ids=["nobody knows of the flag", "the flag is set", "the flag is missing"],
)
def test_ts38_the_option_is_named_with_the_flag_that_it_needs(
    settings: dict[str, str], severity: str
) -> None:
    facts = table(schema(twcs(**{AGGRESSIVE: "true"})), node(days(), settings=settings))
    (one,) = found(facts)
    assert (one.id, one.severity) == ("aggressive-expiration", severity)
    assert f"-D{FLAG}=true" in one.cause
    assert "falls back to false" in one.cause
    assert AGGRESSIVE not in one.commands[0]


def test_ts38_the_option_is_worse_where_something_is_deleted() -> None:
    files = days(has_partition_deletions=True)
    (one,) = found(table(schema(twcs(**{AGGRESSIVE: "true"})), node(files)))
    assert one.severity == "warning"
    assert "come back" in one.consequence


def test_ts65_a_resolution_taken_for_the_precision_of_the_data_is_flagged() -> None:
    # Read as milliseconds, a write of 2023 in microseconds lies some 53,870 years ahead.
    written = 1_700_000_000_000_000
    start_s = TwcsOptions(resolution="MILLISECONDS").window_start_s(written)
    assert 53_800 < start_s / (365.25 * DAY_S) < 53_900
    file = sstable(min_write_us=written - 10**9, max_write_us=written)
    (one,) = found(table(schema(twcs(timestamp_resolution="MILLISECONDS")), node([file])))
    assert (one.id, one.severity) == ("timestamp-resolution", "warning")
    assert "1/1,000" in one.consequence
    assert "timestamp_resolution" not in one.commands[0]


def test_ts71_a_table_of_nan_is_unknown_and_not_healthy() -> None:
    nothing = percentiles(None, None, None)
    facts = table(schema(), node(None, histograms=histograms(nothing, nothing, nothing)))
    for check in (check_partitions, check_sstables):
        assert check(facts, Thresholds()).status == "unknown"
    assert found(facts) == ()


def test_ts71_a_size_that_overflows_is_at_least_that_and_critical() -> None:
    over = percentiles(None, None, 5_839_588_000.0)
    facts = table(schema(), node(None, histograms=histograms(percentiles(1, 1, 1), over)))
    (one,) = found(facts)
    assert (one.id, one.severity) == ("large-partition", "critical")
    assert "at least 5.84 GB" in one.evidence


def test_ts71_latencies_without_reads_are_no_data() -> None:
    facts = table(schema(), node(days(), histograms=histograms(percentiles(0, 0, 0))))
    assert "files a read" not in check_sstables(facts, Thresholds()).summary
    assert found(facts) == ()


def test_ts71_tables_are_kept_apart_by_their_own_facts() -> None:
    large = node(days(sizes=((250_000_000, 1),)))
    assert sizes_of(large) != sizes_of(node(days()))
    assert [one.table for one in found(table(schema(), large, name="other"))] == ["plant.other"]


@pytest.mark.parametrize(
    "files",
    [
        [{"id": "a"}, {"id": "b", "start_s": NOW_S - 4 * DAY_S}],
        [{"id": str(n), "start_s": NOW_S - DAY_S, "end_s": NOW_S - MINUTE_S} for n in range(3)],
    ],
    ids=["past windows of one file", "three files in the window of today"],
)
def test_ts68_files_that_wait_for_their_window_are_no_fault(files: list[dict[str, Any]]) -> None:
    assert found(table(schema(), node(sstable(**given) for given in files))) == ()
