"""Tables for the tests of checks: healthy ones, and what makes each of them sick."""

from __future__ import annotations

import calendar
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from treering.core.ddl import render_comment
from treering.core.design import Design, Workload, plan_design
from treering.core.schema import parse_columns
from treering.doctor.facts import (
    ColumnFacts,
    NodeFacts,
    Percentiles,
    SchemaFacts,
    TableFacts,
    TableHistograms,
)
from treering.sstable.facts import DropTimeHistogram, EstimatedHistogram, SSTableFacts
from treering.sstable.histogram import EMPTY_DROP_TIMES

NOW_S = calendar.timegm((2026, 11, 30, 0, 0, 0))
MINUTE_S, HOUR_S, DAY_S = 60, 3_600, 86_400
TWCS_PATH = "org.apache.cassandra.db.compaction.TimeWindowCompactionStrategy"
UCS_PATH = "org.apache.cassandra.db.compaction.UnifiedCompactionStrategy"
STCS_PATH = "org.apache.cassandra.db.compaction.SizeTieredCompactionStrategy"


def offsets(count: int = 150) -> list[int]:
    """Return the bounds of Cassandra's histograms."""
    found = [1]
    while len(found) < count:
        found.append(max(round(found[-1] * 1.2), found[-1] + 1))
    return found


OFFSETS = offsets()


def histogram(*values: tuple[int, int], overflow: int = 0) -> EstimatedHistogram:
    """Return the histogram of (value, how many) pairs, as Cassandra counts them."""
    counts = dict.fromkeys(OFFSETS, 0)
    for value, count in values:
        counts[OFFSETS[int(np.searchsorted(OFFSETS, value))]] += count
    return EstimatedHistogram.from_pairs(counts.items(), overflow=overflow)


def sstable(**given: Any) -> SSTableFacts:
    """Return a finished day of ten series at 1/s, written with a TTL of 30 days."""
    start_s = given.pop("start_s", NOW_S - 3 * DAY_S)
    end_s = given.pop("end_s", start_s + DAY_S - 1)
    ttl_s = given.pop("ttl_s", 30 * DAY_S)
    name = given.pop("id", "1")
    sizes = given.pop("sizes", ((2_678_400, 10),))
    cells = given.pop("cells", ((86_400, 10),))
    values: dict[str, Any] = {
        "path": f"/data/plant/readings-1/nb-{name}-big-Data.db",
        "keyspace": "plant",
        "table": "readings",
        "table_id": "1" * 32,
        "version": "nb",
        "format": "big",
        "id": name,
        "data_bytes": 13_000_000,
        "disk_bytes": 13_100_000,
        "uncompressed_bytes": 26_784_000,
        "mtime_s": end_s + 60,
        "min_write_us": start_s * 1_000_000,
        "max_write_us": end_s * 1_000_000,
        "min_deletion_s": start_s + ttl_s if ttl_s else None,
        "max_deletion_s": end_s + ttl_s if ttl_s else None,
        "min_ttl_s": ttl_s,
        "max_ttl_s": ttl_s,
        "compression_ratio": 0.5,
        "compressor": "LZ4Compressor",
        "chunk_bytes": 16_384,
        "partition_bytes": histogram(*sizes),
        "partition_cells": histogram(*cells),
        "deletions": DropTimeHistogram.from_pairs([(float(end_s + ttl_s), 864_000)])
        if ttl_s
        else EMPTY_DROP_TIMES,
        "level": 0,
        "repaired_at_ms": None,
        "pending_repair": None,
        "is_transient": False,
        "rows": 864_000,
        "columns_set": 864_000,
        "has_partition_deletions": None,
        "first_token": start_s * 1_000,
        "last_token": start_s * 1_000 + 10**15,
        "first_key": None,
        "last_key": None,
        "key_type": "org.apache.cassandra.db.marshal.CompositeType(UTF8Type,UTF8Type)",
        "clustering_types": ("ReversedType(TimestampType)",),
        "static_columns": (),
        "regular_columns": (("value", "DoubleType"),),
        "token_space_coverage": None,
        "host_id": None,
    }
    return SSTableFacts(**(values | given))


def days(count: int = 30, **given: Any) -> tuple[SSTableFacts, ...]:
    """Return one file a day, the last of them of today so far."""
    first_s = NOW_S - count * DAY_S
    return tuple(sstable(id=str(n + 1), start_s=first_s + n * DAY_S, **given) for n in range(count))


def twcs(**options: str) -> dict[str, str]:
    """Return compaction options of windows of a day."""
    return {
        "class": TWCS_PATH,
        "compaction_window_unit": "DAYS",
        "compaction_window_size": "1",
        "max_threshold": "32",
        "min_threshold": "4",
    } | options


def schema(
    compaction: Mapping[str, str] | None = None,
    *,
    key: str = "series text, bucket text",
    clustering: str = "ts timestamp desc",
    **options: Any,
) -> SchemaFacts:
    """Return the schema of a healthy table, with options as given."""
    values = {
        "default_time_to_live": 30 * DAY_S,
        "gc_grace_seconds": DAY_S,
        "read_repair": "NONE",
        "comment": "",
        "compaction": dict(twcs() if compaction is None else compaction),
    }
    return SchemaFacts(
        table_id="1" * 32,
        partition_key=_columns(key),
        clustering=_columns(clustering),
        columns=_columns("value double"),
        options=values | options,
    )


def _columns(text: str) -> tuple[ColumnFacts, ...]:
    parts = (part.split() for part in text.split(",") if part.strip())
    return tuple(ColumnFacts(name=p[0], type=p[1], is_descending=p[2:] == ["desc"]) for p in parts)


def node(files: Iterable[SSTableFacts] | None = (), **given: Any) -> NodeFacts:
    """Return a node of 5.0 with these files."""
    values: dict[str, Any] = {
        "node": "127.0.0.1",
        "collected_at_s": NOW_S,
        "version": "5.0.8",
        "files": None if files is None else tuple(files),
        "is_memtable_known": True,
    }
    return NodeFacts(**(values | given))


def table(
    found: SchemaFacts | None = None, *nodes: NodeFacts, name: str = "readings"
) -> TableFacts:
    """Return a table on some nodes; on one with thirty days of files where none is given."""
    return TableFacts(
        keyspace="plant", table=name, schema=found or schema(), nodes=nodes or (node(days()),)
    )


def percentiles(p50: float | None, p99: float | None, most: float | None) -> Percentiles:
    """Return a column of nodetool's histograms."""
    return Percentiles(p50=p50, p75=p50, p95=p99, p98=p99, p99=p99, min=p50, max=most)


def histograms(
    sstables: Percentiles, sizes: Percentiles | None = None, cells: Percentiles | None = None
) -> TableHistograms:
    """Return what nodetool tablehistograms says."""
    nothing = percentiles(None, None, None)
    return TableHistograms(
        sstables_per_read=sstables,
        read_latency_us=nothing,
        write_latency_us=nothing,
        partition_bytes=sizes or nothing,
        partition_cells=cells or nothing,
    )


def planned(rate_hz: float = 1.0, retention_s: int | None = 30 * DAY_S, **stated: Any) -> Design:
    """Return a design of treering's."""
    load = Workload(
        rate_hz=rate_hz,
        columns=parse_columns("value:double"),
        retention_s=retention_s,
        **stated,
    )
    return plan_design(load, now_s=NOW_S)


def ours(design: Design, *nodes: NodeFacts, **options: Any) -> TableFacts:
    """Return a table that treering made by a design."""
    compaction = {"class": f"org.apache.cassandra.db.compaction.{design.strategy.class_name}"}
    if design.window is not None and design.strategy.value == "TWCS":
        compaction["compaction_window_unit"] = design.window.unit
        compaction["compaction_window_size"] = str(design.window.size)
    values: dict[str, Any] = {
        "default_time_to_live": design.ttl_s or 0,
        "gc_grace_seconds": design.gc_grace_s,
        "comment": render_comment(design),
    }
    values |= options
    if design.strategy.value != "TWCS" and "read_repair" not in options:
        values["read_repair"] = "BLOCKING"
    return table(schema(compaction, **values), *nodes)


def changed(files: tuple[SSTableFacts, ...], index: int, **given: Any) -> tuple[SSTableFacts, ...]:
    """Return files, one of which is changed."""
    return tuple(replace(f, **given) if i == index else f for i, f in enumerate(files))
