"""Sick tables: each finding in the scenario that it is for, and nothing else beside it."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.doctor.checks.tables import (
    DAY_S,
    HOUR_S,
    MINUTE_S,
    NOW_S,
    STCS_PATH,
    UCS_PATH,
    changed,
    days,
    histogram,
    histograms,
    node,
    ours,
    percentiles,
    planned,
    schema,
    sstable,
    table,
    twcs,
)
from tests.doctor.checks.test_healthy import found
from treering.core.timeuuid import timeuuids_of
from treering.doctor.facts import SchemaFacts, TableFacts, TableStats

NONE_S: dict[str, Any] = {"default_time_to_live": 0, "read_repair": "BLOCKING"}
UNBUCKETED: dict[str, Any] = {"key": "series text", "clustering": "ts timestamp desc"}
AGGRESSIVE = "unsafe_aggressive_sstable_expiration"


def session_of(begun_s: int) -> str:
    """Return the id of a repair session that began then."""
    (raw,) = timeuuids_of(np.array([begun_s * 1_000_000], dtype=np.int64))
    return str(uuid.UUID(bytes=raw))


def three_days_of_two_files() -> TableFacts:
    """Return a table with three past windows that were not merged."""
    more = (
        sstable(id=f"9{n}", start_s=NOW_S - n * DAY_S, mtime_s=NOW_S - DAY_S) for n in (5, 6, 7)
    )
    return table(schema(), node((*days(), *more)))


def longer_lived() -> TableFacts:
    """Return a table where one window in the middle holds readings of a longer TTL."""
    files = days()
    later_s = files[10].max_deletion_s
    assert later_s is not None
    longer = changed(files, 10, max_ttl_s=90 * DAY_S, max_deletion_s=later_s + 60 * DAY_S)
    return table(schema(), node(longer))


# Scenario → the table, and what is found: id and severity, worst first as they stand.
SICK: dict[str, tuple[TableFacts, list[tuple[str, str]]]] = {
    "a key without a bucket, growing for ever": (
        table(
            schema({"class": UCS_PATH}, **UNBUCKETED, **NONE_S),
            node(days(ttl_s=0)),
        ),
        [("unbounded-partition", "warning")],
    ),
    "a key without a bucket, over the ceiling": (
        table(
            schema({"class": UCS_PATH}, **UNBUCKETED, **NONE_S),
            node([sstable(sizes=((400_000_000, 3),), ttl_s=0)]),
        ),
        [("unbounded-partition", "critical")],
    ),
    "a key without a bucket, held under the ceiling by its TTL": (
        table(schema(**UNBUCKETED), node(days(sizes=((20_000, 10),)))),
        [("unbounded-partition", "notice")],
    ),
    "a key without a bucket, and nothing on disk yet": (
        table(schema({"class": UCS_PATH}, **UNBUCKETED, **NONE_S), node()),
        [("unbounded-partition", "warning")],
    ),
    "a key without a bucket, the newest last": (
        table(
            schema({"class": UCS_PATH}, key="series text", clustering="ts timestamp", **NONE_S),
            node(days(ttl_s=0)),
        ),
        [("unbounded-partition", "warning"), ("ascending-order", "notice")],
    ),
    "a bucket that is too wide": (
        table(schema(), node(days(sizes=((250_000_000, 2), (1_000_000, 500))))),
        [("large-partition", "warning")],
    ),
    "a partition of gigabytes": (
        table(schema(), node(days(sizes=((2_500_000_000, 1), (1_000_000, 500))))),
        [("large-partition", "critical")],
    ),
    "a partition larger than a histogram can say": (
        table(schema(), node([sstable(partition_bytes=histogram((10_000, 5), overflow=1))])),
        [("large-partition", "critical")],
    ),
    "too many cells, though few bytes": (
        table(schema(), node(days(cells=((6_000_000, 1), (1_000, 50))))),
        [("large-partition", "warning")],
    ),
    "a large partition that only nodetool saw": (
        table(
            schema(),
            node(
                None,
                histograms=histograms(
                    percentiles(1, 1, 2),
                    percentiles(1e6, 2e6, 4e8),
                    percentiles(1e3, 2e3, 1e4),
                ),
            ),
        ),
        [("large-partition", "warning")],
    ),
    "a large partition that only a virtual table saw": (
        table(schema(), node(None, stats=TableStats(partition_bytes_max=400 * 1_048_576))),
        [("large-partition", "warning")],
    ),
    "faster than the table was designed for": (
        ours(planned(), node(days(sizes=((40_000_000, 3), (2_678_400, 90))))),
        [("large-partition", "notice")],
    ),
    "partitions of a few readings": (
        table(schema(), node(days(sizes=((300, 2_000),), cells=((10, 2_000),)))),
        [("over-partitioned", "warning")],
    ),
    "reads of hundreds of thousands of cells": (
        table(schema(), node(days(), stats=TableStats(live_cells_per_slice_max=250_000.0))),
        [("many-live-cells", "warning")],
    ),
    "reads over tombstones": (
        table(schema(), node(days(), stats=TableStats(tombstones_per_slice_max=4_000.0))),
        [("many-tombstones", "warning")],
    ),
    "reads that are refused for tombstones": (
        table(schema(), node(days(), stats=TableStats(tombstones_per_slice_max=100_001.0))),
        [("many-tombstones", "critical")],
    ),
    "reads that touch many files": (
        table(schema(), node(days(), histograms=histograms(percentiles(2, 12, 30)))),
        [("many-sstables-per-read", "warning")],
    ),
    "past windows of two files": (three_days_of_two_files(), [("windows-not-merged", "warning")]),
    "a past window of three files": (
        table(
            schema(),
            node((*days(), *(sstable(id=f"9{n}", start_s=NOW_S - 9 * DAY_S) for n in range(2)))),
        ),
        [("windows-not-merged", "notice")],
    ),
    "forty files in the window of today": (
        table(
            schema(),
            node(
                (
                    *days(),
                    *(
                        sstable(id=f"1{n}", start_s=NOW_S - DAY_S, end_s=NOW_S - HOUR_S)
                        for n in range(40)
                    ),
                )
            ),
        ),
        [("too-many-files", "warning")],
    ),
    "tiers that compaction does not keep up with": (
        table(
            schema({"class": STCS_PATH}, **NONE_S),
            node(sstable(id=str(n), ttl_s=0) for n in range(150)),
        ),
        [("too-many-files", "warning")],
    ),
    "files that only nodetool counted": (
        table(schema(), node(None, stats=TableStats(sstable_count=500))),
        [("too-many-files", "warning")],
    ),
    "compaction switched off": (
        table(schema(twcs(enabled="false")), three_days_of_two_files().nodes[0]),
        [("compaction-disabled", "critical")],
    ),
    "the strategy of old": (
        table(
            schema({"class": "DateTieredCompactionStrategy", "base_time_seconds": "3600"}),
            node(version="4.1.10"),
        ),
        [("date-tiered-strategy", "warning")],
    ),
    "an option of another strategy": (
        table(schema(twcs(sstable_size_in_mb="160"))),
        [("unknown-compaction-option", "warning")],
    ),
    "a class from elsewhere": (
        table(schema({"class": "com.jeffjirsa.cassandra.TimeWindow"})),
        [("unknown-compaction-option", "notice")],
    ),
    "a window unit that no server takes": (
        table(schema(twcs(compaction_window_unit="WEEKS"))),
        [("unknown-compaction-option", "notice")],
    ),
    "tombstone options under UCS": (
        table(
            schema({"class": UCS_PATH, "unchecked_tombstone_compaction": "true"}, **NONE_S),
            node(days(ttl_s=0)),
        ),
        [("inert-option", "notice")],
    ),
    "overlaps ignored": (
        table(schema(twcs(**{AGGRESSIVE: "true"}))),
        [("aggressive-expiration", "notice")],
    ),
    "overlaps ignored, with deletes": (
        table(
            schema(twcs(**{AGGRESSIVE: "true"})),
            node(changed(days(), 3, has_partition_deletions=True)),
        ),
        [("aggressive-expiration", "warning")],
    ),
    "write times read in milliseconds": (
        table(schema(twcs(timestamp_resolution="MILLISECONDS")), node(days(3))),
        [("timestamp-resolution", "warning")],
    ),
    "720 windows": (
        table(schema(twcs(compaction_window_unit="HOURS")), node()),
        [("too-many-windows", "warning")],
    ),
    "90 windows": (
        table(schema(default_time_to_live=90 * DAY_S), node()),
        [("too-many-windows", "notice")],
    ),
    "three windows": (
        table(schema(default_time_to_live=3 * DAY_S), node()),
        [("too-few-windows", "notice")],
    ),
    "no grace": (table(schema(gc_grace_seconds=0)), [("zero-grace", "warning")]),
    "less grace than hints": (
        table(schema(gc_grace_seconds=HOUR_S)),
        [("short-grace", "notice")],
    ),
    "less grace than hints of a node's own setting": (
        table(schema(), node(days(), settings={"max_hint_window": "48h"})),
        [("short-grace", "notice")],
    ),
    "no TTL by default, and readings without one": (
        table(schema(default_time_to_live=0), node(changed(days(), 5, max_deletion_s=None))),
        [("no-default-ttl", "warning")],
    ),
    "no TTL by default, but writers send theirs": (
        table(schema(default_time_to_live=0)),
        [("no-default-ttl", "notice")],
    ),
    "a TTL past 2038": (
        table(
            schema(twcs(compaction_window_size="150"), default_time_to_live=12 * 365 * DAY_S),
            node(),
        ),
        [("expiry-cap", "critical")],
    ),
    "a TTL that passes 2038 within a year": (
        table(
            schema(
                twcs(compaction_window_size="120"), default_time_to_live=int(10.5 * 365 * DAY_S)
            ),
            node(),
        ),
        [("expiry-cap", "warning")],
    ),
    "two lifetimes in one table": (longer_lived(), [("mixed-ttl", "warning")]),
    "read repair by default": (
        table(schema(read_repair="BLOCKING")),
        [("read-repair-on-twcs", "notice")],
    ),
    "a comment that says another retention": (
        ours(planned(retention_s=60 * DAY_S), node(), default_time_to_live=30 * DAY_S),
        [("comment-contradicts", "warning")],
    ),
    "a comment that cannot be read": (
        table(schema(comment="words. treering-design: {broken")),
        [("comment-contradicts", "warning")],
    ),
    "an incremental repair": (
        table(schema(), node(changed(days(), 29, pending_repair="5f0b"))),
        [("repair-unsafe", "notice")],
    ),
    "an incremental repair that was left days ago": (
        table(schema(), node(changed(days(), 29, pending_repair=session_of(NOW_S - 2 * DAY_S)))),
        [("repair-unsafe", "warning")],
    ),
}


@pytest.mark.parametrize(("facts", "wanted"), SICK.values(), ids=SICK)
def test_each_finding_is_found_alone(facts: TableFacts, wanted: list[tuple[str, str]]) -> None:
    assert [(one.id, one.severity) for one in found(facts)] == wanted


@pytest.mark.parametrize(("facts", "wanted"), SICK.values(), ids=SICK)
def test_every_finding_says_all_that_it_has_to(
    facts: TableFacts, wanted: list[tuple[str, str]]
) -> None:
    for one in found(facts):
        assert one.table == "plant.readings"
        assert all((one.evidence, one.cause, one.consequence, one.cure, one.cost.text))
        assert "\n" not in one.evidence
        assert any(letter.isdigit() for letter in one.evidence) or one.id in WITHOUT_NUMBERS
        assert all(command.strip() == command for command in one.commands)


# What these see is a name or a word, not an amount.
WITHOUT_NUMBERS = {
    "aggressive-expiration",
    "ascending-order",
    "comment-contradicts",
    "compaction-disabled",
    "date-tiered-strategy",
    "inert-option",
    "read-repair-on-twcs",
    "timestamp-resolution",
    "unbounded-partition",
    "unknown-compaction-option",
}


def test_chances_of_read_repair_are_named_on_3_11() -> None:
    base = schema()
    assert base.options is not None
    options = {k: v for k, v in base.options.items() if k != "read_repair"}
    old = SchemaFacts(
        table_id="",
        partition_key=base.partition_key,
        clustering=base.clustering,
        columns=base.columns,
        options=options | {"read_repair_chance": 0.0, "dclocal_read_repair_chance": 0.1},
    )
    (one,) = found(table(old, node(days(), version="3.11.19")))
    assert one.id == "read-repair-on-twcs"
    assert one.evidence.startswith("dclocal_read_repair_chance = 0.1 ")
    assert one.commands == (
        "ALTER TABLE plant.readings WITH read_repair_chance = 0.0 "
        "AND dclocal_read_repair_chance = 0.0;",
    )


def test_the_cure_of_an_option_keeps_the_others() -> None:
    (one,) = found(table(schema(twcs(timestamp_resolution="SECONDS")), node(days(3))))
    assert one.commands == (
        "ALTER TABLE plant.readings WITH compaction = {'class': 'TimeWindowCompactionStrategy', "
        "'compaction_window_unit': 'DAYS', 'compaction_window_size': '1', "
        "'max_threshold': '32', 'min_threshold': '4'};",
    )


def test_names_that_need_quotes_have_them() -> None:
    facts = replace(table(schema(gc_grace_seconds=0)), keyspace="Plant", table="my table")
    (one,) = found(facts)
    assert one.commands == ('ALTER TABLE "Plant"."my table" WITH gc_grace_seconds = 10800;',)


def test_windows_of_a_minute_cannot_be_shorter() -> None:
    compaction = twcs(compaction_window_unit="MINUTES")
    assert found(table(schema(compaction, default_time_to_live=5 * MINUTE_S), node())) == ()


def test_hints_that_are_off_ask_for_no_grace() -> None:
    off = node(days(), settings={"hinted_handoff_enabled": "false"})
    assert found(table(schema(gc_grace_seconds=60), off)) == ()


def test_write_times_in_the_resolution_of_the_table_are_right() -> None:
    files = [sstable(min_write_us=NOW_S * 1_000 - 5_000, max_write_us=NOW_S * 1_000)]
    facts = table(schema(twcs(timestamp_resolution="MILLISECONDS")), node(files))
    assert found(facts) == ()


def test_a_retention_that_was_shortened_is_no_mix_of_ttls() -> None:
    older, after = days(20, ttl_s=60 * DAY_S)[:15], days(5)
    assert found(table(schema(), node((*older, *after)))) == ()


def test_the_flag_that_is_missing_is_named() -> None:
    flag = {"cassandra.allow_unsafe_aggressive_sstable_expiration": "false"}
    (one,) = found(table(schema(twcs(**{AGGRESSIVE: "true"})), node(days(), settings=flag)))
    assert one.severity == "warning"
    assert "-Dcassandra.allow_unsafe_aggressive_sstable_expiration=true" in one.evidence


def test_the_worst_node_is_named_among_several() -> None:
    large = node(days(sizes=((250_000_000, 2),)), node="10.0.0.2")
    (one,) = found(table(schema(), node(days()), large))
    assert (one.id, one.node) == ("large-partition", "10.0.0.2")


def test_a_cap_of_2106_leaves_a_long_ttl_alone() -> None:
    long = schema(twcs(compaction_window_size="150"), default_time_to_live=12 * 365 * DAY_S)
    settings = {"storage_compatibility_mode": "NONE"}
    assert found(table(long, node(settings=settings))) == ()


def test_a_session_of_repair_is_named_with_its_age_and_quoted_for_a_shell() -> None:
    (old,) = found(SICK["an incremental repair that was left days ago"][0])
    assert old.evidence.endswith("1 session of incremental repair, begun 2d ago")
    assert f"nodetool repair_admin cancel --session {session_of(NOW_S - 2 * DAY_S)}" in old.commands
    (strange,) = found(table(schema(), node(changed(days(), 29, pending_repair="x; reboot"))))
    assert "nodetool repair_admin cancel --session 'x; reboot'" in strange.commands
