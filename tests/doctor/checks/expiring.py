"""Tables whose rows expire, made by hand: files, windows, options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from treering.doctor.facts import ColumnFacts, NodeFacts, SchemaFacts, TableFacts
from treering.doctor.finding import Checked, Finding
from treering.sstable.facts import DropTimeHistogram, EstimatedHistogram, SSTableFacts

HOUR_S: Final = 3_600
DAY_S: Final = 86_400
NOW_S: Final = 20_700 * DAY_S + 12 * HOUR_S  # Noon of a day in 2026.
TTL_S: Final = 30 * DAY_S
GRACE_S: Final = 12 * HOUR_S
GB: Final = 1_000_000_000
FOLDER: Final = "/data/plant/readings-1b4e28ba2fa111d2883fb9a761bde3fb"

TWCS: Final = {
    "class": "org.apache.cassandra.db.compaction.TimeWindowCompactionStrategy",
    "compaction_window_unit": "DAYS",
    "compaction_window_size": "1",
}


def drop_times(first_s: int, last_s: int, count: int = 1_000) -> DropTimeHistogram:
    """Return drop times spread evenly between two moments."""
    points = 20
    step = max((last_s - first_s) // points, 1)
    moments = sorted({min(first_s + step * (i + 1), last_s) for i in range(points)} | {last_s})
    return DropTimeHistogram.from_pairs(
        [(float(moment), count // len(moments)) for moment in moments]
    )


def sstable(
    number: int, first_s: int, last_s: int, *, ttl_s: int = TTL_S, **given: Any
) -> SSTableFacts:
    """Return a file of rows written steadily between two moments with a TTL; 0 for none."""
    expires = ttl_s > 0
    last_s = min(last_s, NOW_S - 60) if "max_write_us" not in given else last_s
    values: dict[str, Any] = {
        "path": f"{FOLDER}/nb-{number}-big-Data.db",
        "keyspace": "plant",
        "table": "readings",
        "table_id": "1b4e28ba2fa111d2883fb9a761bde3fb",
        "version": "nb",
        "format": "big",
        "id": str(number),
        "data_bytes": GB,
        "disk_bytes": GB,
        "uncompressed_bytes": 2 * GB,
        "mtime_s": min(last_s + HOUR_S, NOW_S),
        "min_write_us": first_s * 1_000_000,
        "max_write_us": last_s * 1_000_000,
        "min_deletion_s": first_s + ttl_s if expires else None,
        "max_deletion_s": last_s + ttl_s if expires else None,
        "min_ttl_s": ttl_s,
        "max_ttl_s": ttl_s,
        "compression_ratio": 0.5,
        "compressor": "LZ4Compressor",
        "chunk_bytes": 16_384,
        "partition_bytes": EstimatedHistogram.from_pairs([(10_090_808, 100)]),
        "partition_cells": EstimatedHistogram.from_pairs([(10, 100)]),
        "deletions": drop_times(first_s + ttl_s, last_s + ttl_s)
        if expires
        else DropTimeHistogram.from_pairs(()),
        "level": 0,
        "repaired_at_ms": None,
        "pending_repair": None,
        "is_transient": False,
        "rows": 500,
        "columns_set": 500,
        "has_partition_deletions": None,
        "first_token": -(2**62),
        "last_token": 2**62,
        "first_key": None,
        "last_key": None,
        "key_type": "org.apache.cassandra.db.marshal.UTF8Type",
        "clustering_types": ("org.apache.cassandra.db.marshal.TimestampType",),
        "static_columns": (),
        "regular_columns": (("value", "org.apache.cassandra.db.marshal.DoubleType"),),
        "token_space_coverage": None,
        "host_id": None,
    }
    return SSTableFacts(**(values | given))


def windows(count: int, *, start: int = 1, ttl_s: int = TTL_S, **given: Any) -> list[SSTableFacts]:
    """Return one file a day: the current day's first, then ``count - 1`` days before it."""
    today_s = NOW_S - NOW_S % DAY_S
    return [
        sstable(
            start + age,
            today_s - age * DAY_S,
            today_s - age * DAY_S + DAY_S - 1,
            ttl_s=ttl_s,
            **given,
        )
        for age in range(count)
    ]


def schema(compaction: Mapping[str, str] = TWCS, **options: Any) -> SchemaFacts:
    """Return the schema of a table of readings with a TTL."""
    return SchemaFacts(
        table_id="",
        partition_key=(
            ColumnFacts(name="series", type="text"),
            ColumnFacts(name="bucket", type="text"),
        ),
        clustering=(ColumnFacts(name="ts", type="timestamp", is_descending=True),),
        columns=(ColumnFacts(name="value", type="double"),),
        options={
            "compaction": dict(compaction),
            "default_time_to_live": TTL_S,
            "gc_grace_seconds": GRACE_S,
            "read_repair": "NONE",
            "comment": "",
        }
        | options,
    )


def table(
    files: list[SSTableFacts] | None, about: SchemaFacts | None = None, **node: Any
) -> TableFacts:
    """Return a table on one node."""
    values: dict[str, Any] = {
        "node": "10.0.0.1",
        "collected_at_s": NOW_S,
        "version": "5.0.8",
        "files": None if files is None else tuple(files),
    }
    return TableFacts(
        keyspace="plant",
        table="readings",
        schema=schema() if about is None else about,
        nodes=(NodeFacts(**(values | node)),),
    )


def ids(checked: Checked) -> list[str]:
    """Return what a check found."""
    return [finding.id for finding in checked.findings]


def only(checked: Checked) -> Finding:
    """Return the one finding of a check."""
    assert len(checked.findings) == 1, ids(checked)
    return checked.findings[0]
