"""What an operator would have misread: alarms that were none, and oks that nobody knew."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.doctor.checks.tables import (
    DAY_S,
    NOW_S,
    STCS_PATH,
    days,
    histograms,
    node,
    percentiles,
    schema,
    sstable,
    table,
)
from treering.doctor.checks import check_table
from treering.doctor.facts import TableFacts, TableStats
from treering.doctor.finding import TableReport
from treering.doctor.thresholds import Thresholds
from treering.sstable.facts import DropTimeHistogram, SnapshotFacts


def report(facts: TableFacts) -> TableReport:
    return check_table(facts, Thresholds())


def ids(facts: TableFacts) -> list[str]:
    return [one.id for one in report(facts).findings]


def statuses(facts: TableFacts) -> dict[str, str]:
    return {one.check: one.status for one in report(facts).checks}


def test_a_large_snapshot_beside_a_larger_table_is_no_alarm_where_only_the_node_tells() -> None:
    snapshot = SnapshotFacts(
        name="daily",
        keyspace="plant",
        table="readings",
        table_id="",
        path="",
        bytes=10**10,
        dropped_bytes=10**10,
        files=0,
        dropped_ids=(),
    )
    stats = TableStats(total_bytes=10**12)
    alone = node(None, stats=stats, snapshots=(snapshot,))
    assert "snapshots-hold-files" not in ids(table(None, alone))
    small = replace(alone, stats=TableStats(total_bytes=10**9))
    assert "snapshots-hold-files" in ids(table(None, small))


def test_a_snapshot_in_two_data_folders_is_cleared_once() -> None:
    parts = tuple(
        SnapshotFacts(
            name="daily",
            keyspace="plant",
            table="readings",
            table_id="",
            path=f"/data{n}/daily",
            bytes=10**9,
            dropped_bytes=10**9,
            files=1,
            dropped_ids=("1",),
        )
        for n in range(2)
    )
    (finding,) = report(table(None, node(days(), snapshots=parts))).findings
    assert finding.evidence.startswith("1 snapshot holds 2 GB")
    assert finding.commands[1:] == ("nodetool clearsnapshot -t daily -- plant",)


def test_the_largest_partition_alone_does_not_make_partitions_ok() -> None:
    alone = node(None, stats=TableStats(partition_bytes_max=1_048_576))
    assert statuses(table(None, alone))["partitions"] == "unknown"
    known = node(
        None,
        stats=TableStats(partition_bytes_max=1_048_576, partitions=9),
        histograms=histograms(
            percentiles(1, 2, 2), sizes=percentiles(900_000, 1_000_000, 1_048_576)
        ),
    )
    assert statuses(table(None, known))["partitions"] == "ok"


def test_a_notice_does_not_hide_that_a_check_is_unknown() -> None:
    facts = table(schema(gc_grace_seconds=60), node(None))
    assert ids(facts) == ["short-grace"]
    assert statuses(facts)["drops"] == "unknown"
    assert report(facts).is_healthy is False


def test_a_warning_counts_though_the_files_were_not_seen() -> None:
    facts = table(schema(gc_grace_seconds=0), node(None))
    assert statuses(facts)["drops"] == "warning"


def test_a_long_grace_is_right_where_rows_are_deleted() -> None:
    long = schema(gc_grace_seconds=30 * DAY_S)
    assert ids(table(long)) == ["long-grace"]
    # A delete is purgeable from its own time on, before any row of the file expires.
    deleted = (*days()[:-1], sstable(id="30", min_deletion_s=NOW_S - 3 * DAY_S + 60))
    assert ids(table(long, node(deleted))) == []


def test_a_table_that_is_no_series_is_not_told_to_take_windows() -> None:
    tiers = {"class": STCS_PATH}
    names = schema(tiers, key="service text", clustering="operation text")
    young = node((sstable(start_s=NOW_S - DAY_S),))
    assert ids(table(names, young)) == []
    assert ids(table(schema(tiers), young)) == ["stcs-with-ttl"]


def test_five_even_windows_in_one_file_are_a_major_compaction() -> None:
    start_s, ttl_s = NOW_S - 4 * DAY_S, 12 * DAY_S
    ends = [start_s + n * DAY_S + ttl_s for n in range(5)]
    merged = sstable(
        start_s=start_s,
        end_s=NOW_S,
        ttl_s=ttl_s,
        # Points are rounded up to whole minutes, the newest deletion is not.
        max_deletion_s=ends[-1] - 11,
        deletions=DropTimeHistogram.from_pairs([(float(end), 18) for end in ends]),
    )
    assert ids(table(schema(default_time_to_live=ttl_s), node((merged,)))) == ["major-compaction"]


@pytest.mark.parametrize("files", [(), days(1)], ids=["an empty table", "one file"])
def test_summaries_count_nothing_that_is_not_there(files: tuple[object, ...]) -> None:
    facts = table(None, node(files))  # type: ignore[arg-type]
    drops = next(one for one in report(facts).checks if one.check == "drops")
    said = "1 file, none of them fully expired" if files else "no file on disk yet"
    assert drops.summary == said


def test_that_nobody_read_is_no_call_for_nodetool_which_was_there() -> None:
    facts = table(None, node(None, histograms=histograms(percentiles(None, None, None))))
    (sstables,) = [one for one in report(facts).checks if one.check == "sstables"]
    assert "no node has counted a read" in sstables.unknown
