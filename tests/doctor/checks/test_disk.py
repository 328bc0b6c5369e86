"""Check "disk": what leaves when, what a cure frees, and what snapshots hold."""

from __future__ import annotations

import itertools
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.doctor.checks.expiring import (
    DAY_S,
    GB,
    GRACE_S,
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
from treering.doctor.checks.disk import POINTS_MAX, check_disk
from treering.doctor.checks.drops import check_drops
from treering.doctor.checks.node_files import judge_nodes
from treering.doctor.checks.release import freed_soon, left_at, plan_release
from treering.doctor.facts import TableStats
from treering.doctor.thresholds import Thresholds
from treering.sstable.facts import SnapshotFacts

LIMITS = Thresholds()
CHECK_S = 600


def snapshot(name: str, dropped_bytes: int) -> SnapshotFacts:
    """Return a snapshot of the table."""
    return SnapshotFacts(
        name=name,
        keyspace="plant",
        table="readings",
        table_id="",
        path=f"/data/plant/readings-1/snapshots/{name}",
        bytes=dropped_bytes + GB,
        dropped_bytes=dropped_bytes,
        files=4,
        dropped_ids=("1", "2"),
    )


def test_a_healthy_table_comes_back_a_window_a_day() -> None:
    (files,) = judge_nodes(table(windows(31)))
    curve = plan_release(files)
    assert curve[0] == (NOW_S, 31 * GB)
    assert [left for _, left in curve] == [count * GB for count in range(31, -1, -1)]
    oldest_s = min(file.max_deletion_s or 0 for file in files.files)
    assert curve[1][0] == oldest_s + GRACE_S + 1 + CHECK_S
    assert left_at(curve, NOW_S) == 31 * GB
    assert left_at(curve, NOW_S + 10**9) == 0


def test_what_never_expires_is_what_a_curve_ends_with() -> None:
    files = windows(50)
    bad = replace(files[48], max_deletion_s=None)
    facts = table([*files[:48], bad, files[49]])
    (judged,) = judge_nodes(facts)
    assert plan_release(judged)[-1][1] == 49 * GB
    assert plan_release(judged, cured=[48])[-1][1] == 0
    assert freed_soon(judged, cured=[48]) == 18 * GB
    finding = only(check_disk(facts, LIMITS))
    assert (finding.id, finding.severity) == ("expired-bytes-held", "notice")
    assert "49 GB never" in finding.evidence
    after = finding.facts["release_after"]
    assert after["no-ttl-blocks"][-1][1] == 0
    assert set(after) == {"no-ttl-blocks", "aggressive"}


def test_a_shorter_grace_moves_the_curve_and_a_missing_repair_stops_it() -> None:
    (files,) = judge_nodes(table(windows(31)))
    sooner = plan_release(files, rules=replace(files.rules, gc_grace_s=0))
    assert sooner[-1][0] == plan_release(files)[-1][0] - GRACE_S
    about = schema(TWCS | {"only_purge_repaired_tombstones": "true"})
    (unrepaired,) = judge_nodes(table(windows(31), about))
    assert plan_release(unrepaired) == ((NOW_S, 31 * GB),)


@given(st.lists(st.integers(0, 60), min_size=1, max_size=20), st.integers(0, 20))
def test_a_curve_only_falls_and_a_cure_never_leaves_more(ages: list[int], which: int) -> None:
    some = [
        sstable(n, NOW_S - (age + 1) * DAY_S, NOW_S - age * DAY_S - 60)
        for n, age in enumerate(ages)
    ]
    index = which % len(some)
    some[index] = replace(some[index], max_deletion_s=None)
    (files,) = judge_nodes(table(some))
    curve, cured = plan_release(files), plan_release(files, cured=[index])
    moments = sorted({moment for moment, _ in (*curve, *cured)})
    for one in (curve, cured):
        assert all(a[0] < b[0] and a[1] > b[1] for a, b in itertools.pairwise(one))
        assert one[0] == (NOW_S, len(some) * GB)
    assert all(left_at(cured, moment) <= left_at(curve, moment) for moment in moments)
    assert cured[-1][1] == 0


def test_a_long_curve_is_thinned_and_keeps_its_ends() -> None:
    hourly = TWCS | {"compaction_window_unit": "HOURS"}
    some = [sstable(n, NOW_S - (n + 2) * 3_600, NOW_S - (n + 1) * 3_600) for n in range(1_500)]
    finding = only(check_disk(table(some, schema(hourly)), LIMITS))
    points = finding.facts["release"]
    assert len(points) <= POINTS_MAX + 2
    assert points[0] == [NOW_S, 1_500 * GB]
    assert points[-1][1] == 0


def test_files_that_a_stopped_node_will_drop_are_not_held_by_anything() -> None:
    stopped = table(windows(80), is_memtable_known=True)
    assert ids(check_drops(stopped, LIMITS)) == []
    assert ids(check_disk(stopped, LIMITS)) == []
    running = table(windows(80))
    # There the finding on drops says what keeps them.
    assert ids(check_drops(running, LIMITS)) == ["expired-not-reached"]
    assert ids(check_disk(running, LIMITS)) == ["expired-bytes-held"]


def test_snapshots_that_hold_dropped_files_are_found_with_their_names() -> None:
    facts = table(
        windows(31),
        snapshots=(snapshot("before upgrade", 90 * GB), snapshot("new", 0), snapshot("old", GB)),
    )
    finding = only(check_disk(facts, LIMITS))
    assert (finding.id, finding.severity) == ("snapshots-hold-files", "warning")
    assert "2 snapshots hold 91 GB" in finding.evidence
    assert finding.commands[1:] == (
        "nodetool clearsnapshot -t 'before upgrade' -- plant",
        "nodetool clearsnapshot -t old -- plant",
    )
    small = table(windows(31), snapshots=(snapshot("daily", 3 * GB),))
    assert only(check_disk(small, LIMITS)).severity == "notice"
    tiny = table(windows(31), snapshots=(snapshot("daily", GB // 2),))
    assert ids(check_disk(tiny, LIMITS)) == []


def test_what_statistics_say_of_snapshots_counts_where_nobody_looked() -> None:
    stats = TableStats(live_bytes=100 * GB, snapshot_bytes=400 * GB)
    checked = check_disk(table(None, stats=stats), LIMITS)
    assert only(checked).id == "snapshots-hold-files"
    assert not checked.is_known


def test_half_of_a_merged_file_is_older_than_the_schedule_allows() -> None:
    merged = sstable(1, NOW_S - 2 * TTL_S, NOW_S, data_bytes=60 * GB)
    finding = only(check_disk(table([merged]), LIMITS))
    assert finding.id == "expired-bytes-held"
    assert 0.4 < finding.facts["expired_bytes"] / (60 * GB) < 0.5
