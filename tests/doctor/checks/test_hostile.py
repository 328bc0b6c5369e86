"""Facts that no healthy server gives: nothing breaks on them."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.doctor.checks.tables import NOW_S, UCS_PATH, histogram, node, schema, sstable, table
from treering.doctor.checks import check_table, repair_advice
from treering.doctor.facts import (
    ColumnFacts,
    NodeFacts,
    Percentiles,
    SchemaFacts,
    TableFacts,
    TableHistograms,
    TableStats,
)
from treering.doctor.redesign import plan_redesign, redesign_to_json, render_redesign
from treering.doctor.thresholds import Thresholds
from treering.errors import TreeringError
from treering.sstable.facts import SSTableFacts

EXAMPLES = 60
"""A table takes milliseconds to draw; the rest of the suite has its time too."""

LONG = st.integers(-(2**63), 2**63 - 1)
SECOND = st.none() | st.integers(0, 2**32)
NAMES = st.text(max_size=12) | st.sampled_from(["series", "bucket", "ts", "day", 'a"b', "select"])
KINDS = st.sampled_from(["text", "timestamp", "timeuuid", "bigint", "blob", "date", "set<x>", ""])
NUMBER = st.none() | st.floats() | st.integers(-5, 10**20)
OPTION = st.sampled_from(["true", "false", "1", "0", "-1", "DAYS", "9" * 30, "", "HOURS"])
OPTION_NAMES = st.sampled_from(
    [
        "compaction_window_unit",
        "compaction_window_size",
        "timestamp_resolution",
        "unsafe_aggressive_sstable_expiration",
        "enabled",
        "tombstone_threshold",
        "only_purge_repaired_tombstones",
        "what's this",
    ]
)
CLASSES = st.sampled_from(
    [
        "org.apache.cassandra.db.compaction.TimeWindowCompactionStrategy",
        "SizeTieredCompactionStrategy",
        "LeveledCompactionStrategy",
        "DateTieredCompactionStrategy",
        UCS_PATH,
        "",
    ]
)


@st.composite
def files(draw: st.DrawFn) -> SSTableFacts:
    """Draw a file with numbers from anywhere."""
    sizes = draw(st.lists(st.tuples(st.integers(1, 10**10), st.integers(0, 10**9)), max_size=3))
    has_data = draw(st.booleans())
    ends = sorted([draw(LONG), draw(LONG)])
    return sstable(
        id=str(draw(st.integers(0, 99))),
        min_write_us=ends[0] if has_data else None,
        max_write_us=ends[1] if has_data else None,
        min_deletion_s=draw(SECOND),
        max_deletion_s=draw(SECOND),
        min_ttl_s=draw(st.integers(0, 2**31 - 1)),
        max_ttl_s=draw(st.integers(0, 2**31 - 1)),
        mtime_s=draw(st.none() | st.integers(-(2**40), 2**40)),
        data_bytes=draw(st.none() | st.integers(0, 2**62)),
        uncompressed_bytes=draw(st.none() | st.integers(0, 2**62)),
        rows=draw(st.integers(0, 2**62)),
        columns_set=draw(st.integers(0, 2**62)),
        partition_bytes=histogram(*sizes, overflow=draw(st.integers(0, 2))),
        partition_cells=histogram(*sizes, overflow=draw(st.integers(0, 2))),
        repaired_at_ms=draw(st.none() | LONG),
        pending_repair=draw(st.none() | st.text(max_size=3)),
        first_key=draw(st.none() | st.binary(max_size=20)),
        last_key=draw(st.none() | st.binary(max_size=20)),
        first_token=draw(st.none() | LONG),
        last_token=draw(st.none() | LONG),
        has_partition_deletions=draw(st.none() | st.booleans()),
    )


@st.composite
def columns(draw: st.DrawFn) -> tuple[ColumnFacts, ...]:
    """Draw some columns of any name and type."""
    pairs = draw(st.lists(st.tuples(NAMES, KINDS), max_size=3))
    return tuple(ColumnFacts(name=name, type=kind) for name, kind in pairs)


@st.composite
def schemas(draw: st.DrawFn) -> SchemaFacts:
    """Draw a schema of anything."""
    compaction: dict[str, str] = draw(st.dictionaries(OPTION_NAMES, OPTION, max_size=4))
    options: dict[str, Any] = {
        "compaction": compaction | {"class": draw(CLASSES)},
        "default_time_to_live": draw(st.none() | st.integers(-5, 2**40)),
        "gc_grace_seconds": draw(st.none() | st.integers(-5, 2**40)),
        "comment": draw(st.none() | st.just(" treering-design: {}") | st.text(max_size=9)),
        "read_repair": draw(st.none() | st.text(max_size=5)),
        "read_repair_chance": draw(NUMBER),
    }
    return SchemaFacts(
        table_id="",
        partition_key=draw(columns()),
        clustering=draw(columns()),
        columns=draw(columns()),
        options=draw(st.none() | st.just(options)),
    )


@st.composite
def percentiles(draw: st.DrawFn) -> Percentiles:
    """Draw a column of nodetool's histograms."""
    number = st.none() | st.floats(0, 1e19)
    p50, p75, p95, p98, p99, low, high = draw(st.tuples(*[number] * 7))
    return Percentiles(p50=p50, p75=p75, p95=p95, p98=p98, p99=p99, min=low, max=high)


@st.composite
def nodes(draw: st.DrawFn) -> NodeFacts:
    """Draw a node that says anything."""
    five = [draw(percentiles()) for _ in range(5)]
    said = TableHistograms(
        sstables_per_read=five[0],
        read_latency_us=five[1],
        write_latency_us=five[2],
        partition_bytes=five[3],
        partition_cells=five[4],
    )
    stats = TableStats(
        sstable_count=draw(st.none() | st.integers(0, 10**9)),
        partition_bytes_max=draw(st.none() | st.integers(0, 2**63 - 1)),
        tombstones_per_slice_max=draw(st.none() | st.floats(0, 1e18)),
        live_cells_per_slice_max=draw(st.none() | st.floats(0, 1e18)),
    )
    return node(
        draw(st.none() | st.lists(files(), max_size=5)),
        node=draw(st.text(max_size=5)),
        collected_at_s=draw(st.sampled_from([0, NOW_S])),
        version=draw(st.sampled_from(["", "5.0.8", "3.11.19", "6.0", "9" * 40, "x"])),
        histograms=draw(st.none() | st.just(said)),
        stats=draw(st.none() | st.just(stats)),
        settings=draw(
            st.dictionaries(
                st.sampled_from(
                    ["max_hint_window", "compaction_throughput", "storage_compatibility_mode"]
                ),
                st.sampled_from(["", "null", "3h", "0", "64MiB/s", "NONE", "9" * 40]),
            )
        ),
    )


TABLES = st.builds(
    lambda found, some, ks, name: TableFacts(
        keyspace=ks, table=name, schema=found, nodes=tuple(some)
    ),
    st.none() | schemas(),
    st.lists(nodes(), min_size=1, max_size=2),
    NAMES,
    NAMES,
)


@given(TABLES)
@settings(max_examples=EXAMPLES)
def test_no_table_breaks_the_checks(facts: TableFacts) -> None:
    report = check_table(facts, Thresholds())
    assert len(report.checks) == 4
    for one in report.findings:
        assert "\n" not in one.id
        assert one.impact_bytes >= 0
    assert repair_advice(facts).commands


@given(TABLES)
@settings(max_examples=EXAMPLES)
def test_no_table_breaks_the_redesign(facts: TableFacts) -> None:
    try:
        found = plan_redesign(facts)
    except TreeringError:
        return
    assert render_redesign(found)
    assert redesign_to_json(found)["table"] == facts.name


def test_a_table_of_one_instant_has_no_rate_and_says_so() -> None:
    file = sstable(start_s=NOW_S, end_s=NOW_S)
    facts = table(schema(key="series text"), node([file]))
    (one,) = check_table(facts, Thresholds()).findings
    assert one.id == "unbounded-partition"
    assert "cannot be told" in one.evidence
