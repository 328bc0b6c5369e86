"""Every field is what sstablemetadata prints for the same file: recordings, and real nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cassandra_fixtures import NODES, driver_session, on_nodes
from tests.sstable.record import (
    HALF_YEAR_S,
    NOT_FOR_OLD_TOOLS,
    RECORDINGS,
    ToolCall,
    call_tool,
    recording,
)
from tests.sstable.tables import KEYSPACE, SCHEMA, make_tables
from tests.sstable.tool_text import OLD_TOOLS, check_against_tool, check_ratio, parse_tool
from treering.sstable.facts import SSTableFacts
from treering.sstable_scan import SSTableScan, scan_sstables
from treering.testing import LocalCassandra


def check_all(scan: SSTableScan, root: Path, calls: list[ToolCall]) -> dict[str, SSTableFacts]:
    """Compare all files with what the tool printed; return the facts by table."""
    assert scan.problems == ()
    by_table: dict[str, SSTableFacts] = {}
    for call in calls:
        printed = parse_tool(call.text)
        for facts in scan.facts:
            by_table[facts.table] = facts
            if "." in facts.table:  # The tool does not take an index's folder.
                continue
            if facts.version in OLD_TOOLS and facts.table in NOT_FOR_OLD_TOOLS:
                continue
            tool = printed.pop(facts.path.replace(str(root), call.root, 1))
            check_against_tool(facts, tool)
            check_ratio(facts, tool, call.gc_before_s)
        assert not printed, f"files that were not found: {sorted(printed)}"
    return by_table


def check_tables(found: dict[str, SSTableFacts]) -> None:
    """Check what must be so whatever the tool says."""
    assert found.keys() >= SCHEMA.keys()
    assert found["ttl"].rows == 300
    assert found["ttl"].min_ttl_s == found["ttl"].max_ttl_s == 365 * 86_400
    assert found["ttl"].max_deletion_s is not None
    assert found["plain"].max_deletion_s is None
    assert found["plain"].compressor is None
    assert found["plain"].uncompressed_bytes == found["plain"].data_bytes
    assert [name for name, _ in found["plain"].static_columns] == ["site"]
    assert (found["mixed"].min_ttl_s, found["mixed"].max_deletion_s) == (0, None)
    assert found["expired"].min_write_us == 1_600_000_000_000_000
    assert (found["partitions"].min_write_us, found["partitions"].max_write_us) == (5, 8)
    assert found["partitions"].max_deletion_s is not None
    assert found["leveled"].level == 1
    assert found["deletes"].deletions.count == 9
    assert found["spread"].deletions.count == 580
    assert len(found["spread"].deletions.points_s) <= 101
    assert (found["keys"].compressor, found["keys"].chunk_bytes) == ("DeflateCompressor", 4_096)
    assert found["types"].clustering_start is not None
    assert found["types"].clustering_start.values[0] == "é".encode()
    half_year_on = 182 * 86_400 + (found["spread"].min_deletion_s or 0)
    assert 0 < (found["spread"].droppable_ratio(half_year_on) or 0) < 2


@pytest.mark.parametrize("name", RECORDINGS)
def test_recorded_files_say_what_the_tool_printed(name: str) -> None:
    with recording(name) as (folder, calls):
        found = check_all(scan_sstables([folder]), folder / KEYSPACE, calls)
    check_tables(found)
    assert found["repaired"].repaired_at_ms is not None
    assert all((facts.host_id is None) == (facts.version == "na") for facts in found.values())
    if name == "nb":
        assert found["pending"].pending_repair == "11111111-2222-1333-8444-555555555555"
        assert found["older"].version == "na"
    elif name in ("oa", "da"):
        assert found["partitions"].has_partition_deletions is True
        assert found["ttl"].has_partition_deletions is False
        assert 0 < (found["sharded"].token_space_coverage or 0) <= 1


def test_an_index_is_a_table_of_its_own() -> None:
    with recording("nb") as (folder, _):
        found = {facts.table: facts for facts in scan_sstables([folder]).facts}
    assert found["indexed.by_value"].keyspace == KEYSPACE
    assert found["indexed.by_value"].table_id == found["indexed"].table_id
    assert found["indexed.by_value"].first_token is None  # Its partitioner is another.


@on_nodes(*(node for node in RECORDINGS.values() if node in NODES))
def test_files_of_a_node_say_what_its_own_tool_prints(cassandra_of: LocalCassandra) -> None:
    with driver_session(cassandra_of, protocol_version=4) as session:
        make_tables(cassandra_of, session)
        try:
            root = cassandra_of.data_folders()[0] / KEYSPACE
            scan = scan_sstables([root])
            calls = call_tool(cassandra_of, root, (-HALF_YEAR_S,))
            check_tables(check_all(scan, root, calls))
        finally:
            session.execute(f"DROP KEYSPACE {KEYSPACE}")
    assert {snapshot.name for snapshot in scan.snapshots} == {"kept"}
    assert all(snapshot.files == 1 for snapshot in scan.snapshots if snapshot.table != "sharded")
