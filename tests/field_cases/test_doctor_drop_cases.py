"""Field cases of the doctor: tables whose disk does not come back, as operators met them."""

from __future__ import annotations

import calendar
from dataclasses import replace

import pytest

from tests.doctor.checks.expiring import (
    DAY_S,
    GB,
    NOW_S,
    TTL_S,
    TWCS,
    ids,
    only,
    schema,
    sstable,
    table,
    windows,
)
from treering.core.twcs import TwcsOptions
from treering.doctor.checks.disk import check_disk
from treering.doctor.checks.drops import check_drops, verdicts_of
from treering.doctor.checks.node_files import judge_nodes
from treering.doctor.checks.release import left_at, plan_release
from treering.doctor.facts import TableStats
from treering.doctor.thresholds import Thresholds
from treering.sstable.facts import SnapshotFacts

LIMITS = Thresholds()
DAY_1_S = calendar.timegm((2026, 1, 1, 0, 0, 0))


def test_ts01_one_row_without_ttl_blocks_every_later_window_and_today_blocks_nothing() -> None:
    now_s = DAY_1_S + 10 * DAY_S
    a = sstable(1, DAY_1_S, DAY_1_S + DAY_S - 1, ttl_s=DAY_S, max_deletion_s=None)
    b = sstable(2, DAY_1_S + DAY_S, DAY_1_S + 2 * DAY_S - 1, ttl_s=DAY_S)
    c = sstable(3, DAY_1_S + 2 * DAY_S, DAY_1_S + 3 * DAY_S - 1, ttl_s=DAY_S)
    d = sstable(4, now_s - 3_600, now_s - 60, ttl_s=DAY_S)
    about = schema(default_time_to_live=DAY_S, gc_grace_seconds=0)
    facts = table([a, b, c, d], about, collected_at_s=now_s, is_memtable_known=True)
    verdicts = {verdict.path: verdict for verdict in verdicts_of(facts, LIMITS)}
    assert [verdict.removable for verdict in verdicts.values()] == ["no"] * 4
    assert verdicts[b.path].blocked_by == verdicts[c.path].blocked_by == (a.path,)
    finding = only(check_drops(facts, LIMITS))
    assert (finding.id, finding.facts["blockers"]) == ("no-ttl-blocks", [a.path])


@pytest.mark.parametrize(("gap_us", "removable"), [(0, "no"), (1, "yes")])
def test_ts01_an_equal_write_time_blocks(gap_us: int, removable: str) -> None:
    about = schema(default_time_to_live=DAY_S, gc_grace_seconds=0)
    expired = sstable(1, NOW_S - 5 * DAY_S, NOW_S - 4 * DAY_S, ttl_s=DAY_S)
    assert expired.max_write_us is not None
    live = sstable(2, NOW_S, NOW_S, min_write_us=expired.max_write_us + gap_us, ttl_s=DAY_S)
    facts = table([expired, live], about, is_memtable_known=True)
    assert verdicts_of(facts, LIMITS)[0].removable == removable


def test_ts13_milliseconds_put_a_thousand_days_into_one_window_of_1970() -> None:
    assert TwcsOptions().window_start_s(1_700_000_000_000) * 1_000 == 1_641_600_000
    ms = sstable(
        1,
        NOW_S - DAY_S,
        NOW_S,
        min_write_us=1_700_000_000_000,
        max_write_us=1_700_000_000_000,
        max_deletion_s=NOW_S + TTL_S,
    )
    finding = only(check_drops(table([ms]), LIMITS))
    assert finding.id == "write-time-unit"
    assert "milliseconds, such as 1700000000000" in finding.evidence
    assert "window of 1970-01-20" in finding.evidence


def test_ts24_never_in_a_table_with_a_default_ttl_points_to_ttl_zero() -> None:
    files = windows(31)
    mixed = replace(files[20], max_deletion_s=None, min_ttl_s=0)
    finding = only(check_drops(table([*files[:20], mixed, *files[21:]]), LIMITS))
    assert finding.id == "no-ttl-blocks"
    assert "USING TTL 0 or a null TTL" in finding.cause


def test_ts39_a_major_compaction_frees_nothing_for_a_ttl_and_then_all_at_once() -> None:
    grace_s = 3 * 3_600
    day_30_s = DAY_1_S + 30 * DAY_S
    merged = sstable(1, DAY_1_S, day_30_s - 1, data_bytes=30 * GB)
    about = schema(gc_grace_seconds=grace_s)
    facts = table([merged], about, collected_at_s=day_30_s)
    finding = only(check_drops(facts, LIMITS))
    assert finding.id == "major-compaction"
    assert "do not run nodetool compact on TWCS" in finding.cure
    (files,) = judge_nodes(facts)
    curve = plan_release(files)
    day_60_s = DAY_1_S + 60 * DAY_S
    assert left_at(curve, day_60_s + grace_s - 1) == 30 * GB
    assert left_at(curve, day_60_s + grace_s + 600) == 0


def test_ts48_live_data_is_healthy_and_snapshots_are_the_finding() -> None:
    held = SnapshotFacts(
        name="dropped-1700000000",
        keyspace="plant",
        table="readings",
        table_id="",
        path="/data/plant/readings-1/snapshots/dropped-1700000000",
        bytes=400 * GB,
        dropped_bytes=400 * GB,
        files=40,
        dropped_ids=("1",),
    )
    facts = table(windows(31, data_bytes=3 * GB), snapshots=(held,))
    assert check_drops(facts, LIMITS).status == "ok"
    finding = only(check_disk(facts, LIMITS))
    assert finding.id == "snapshots-hold-files"
    assert finding.impact_bytes == 400 * GB
    assert "auto_snapshot" in finding.cause


def test_ts73_a_third_dead_on_stcs_is_a_warning_and_on_twcs_asks_for_blockers_instead() -> None:
    stcs = {"class": "org.apache.cassandra.db.compaction.SizeTieredCompactionStrategy"}
    stats = TableStats(droppable_ratio=0.2997, live_bytes=100 * GB)
    finding = only(check_drops(table(None, schema(stcs), stats=stats), LIMITS))
    assert (finding.id, finding.severity) == ("stcs-with-ttl", "warning")
    assert "0.3" in finding.evidence
    assert "TWCS with windows of 1 DAYS" in finding.cure
    assert "count as one window and stay until their newest row" in finding.cure
    assert ids(check_drops(table(windows(31), schema(TWCS), stats=stats), LIMITS)) == []
