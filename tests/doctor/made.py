"""Reports made by hand."""

from __future__ import annotations

from typing import Any

from treering.doctor.finding import (
    CHECK_IDS,
    Checked,
    Cost,
    FileVerdict,
    Finding,
    TableReport,
)
from treering.sstable.facts import (
    ClusteringBound,
    DropTimeHistogram,
    EstimatedHistogram,
    SSTableFacts,
)

NOW_S = 1_800_000_000


def finding(**given: Any) -> Finding:
    """Return a finding with everything that one needs."""
    values: dict[str, Any] = {
        "id": "never-expiring-cell",
        "check": "drops",
        "severity": "critical",
        "table": "plant.readings",
        "node": "127.0.0.1",
        "evidence": "1 file without expiry keeps 3 expired files, 1.2 GB",
        "cause": "a row was written without TTL",
        "consequence": "nothing leaves the disk any more",
        "cure": "delete the row and compact its file",
        "commands": ("nodetool compact --user-defined nb-1-big-Data.db",),
        "cost": Cost(text="one file is rewritten", rewritten_bytes=4_000_000, duration_s=12.0),
        "facts": {"files": 3},
        "impact_bytes": 1_200_000_000,
    }
    return Finding(**(values | given))


def verdict(**given: Any) -> FileVerdict:
    """Return the verdict on a live file."""
    values: dict[str, Any] = {
        "node": "127.0.0.1",
        "path": "/data/plant/readings-1/nb-1-big-Data.db",
        "window_start_s": NOW_S - 86_400,
        "window": "2027-01-14",
        "min_write_us": (NOW_S - 80_000) * 1_000_000,
        "max_write_us": (NOW_S - 4_000) * 1_000_000,
        "max_deletion_s": NOW_S + 80_000,
        "data_bytes": 1_000_000,
        "is_fully_expired": False,
        "removable": "no",
        "blocked_by": (),
        "removable_at_s": NOW_S + 100_000,
    }
    return FileVerdict(**(values | given))


def report(*findings: Finding, unknown: tuple[str, ...] = (), **given: Any) -> TableReport:
    """Return a report with these findings; checks in ``unknown`` have no facts."""
    table = given.get("table", "plant.readings")
    checks = tuple(
        Checked(
            check=check,
            is_known=check not in unknown,
            findings=tuple(one for one in findings if one.check == check),
            summary="" if check in unknown else f"{check} in numbers",
            unknown="nobody looked" if check in unknown else "",
        )
        for check in CHECK_IDS
    )
    values: dict[str, Any] = {
        "table": table,
        "checks": checks,
        "findings": findings,
        "files": (verdict(),),
        "missing": (),
    }
    return TableReport(**(values | given))


def sstable(**given: Any) -> SSTableFacts:
    """Return the facts of a live file."""
    values: dict[str, Any] = {
        "path": "/data/plant/readings-1/nb-1-big-Data.db",
        "keyspace": "plant",
        "table": "readings",
        "table_id": "0123456789abcdef0123456789abcdef",
        "version": "nb",
        "format": "big",
        "id": "1",
        "data_bytes": 1_000_000,
        "disk_bytes": 1_010_000,
        "uncompressed_bytes": 2_000_000,
        "mtime_s": NOW_S - 3_000,
        "min_write_us": (NOW_S - 80_000) * 1_000_000,
        "max_write_us": (NOW_S - 4_000) * 1_000_000,
        "min_deletion_s": NOW_S + 10_000,
        "max_deletion_s": NOW_S + 80_000,
        "min_ttl_s": 86_400,
        "max_ttl_s": 86_400,
        "compression_ratio": 0.5,
        "compressor": "LZ4Compressor",
        "chunk_bytes": 16_384,
        "partition_bytes": EstimatedHistogram.from_pairs([(1_000, 3), (1_200, 4)]),
        "partition_cells": EstimatedHistogram.from_pairs([(10, 7)]),
        "deletions": DropTimeHistogram.from_pairs([(NOW_S + 80_000.0, 70)]),
        "level": 0,
        "repaired_at_ms": None,
        "pending_repair": None,
        "is_transient": False,
        "rows": 70,
        "columns_set": 70,
        "has_partition_deletions": None,
        "first_token": -5,
        "last_token": 2**63 - 1,
        "first_key": b"pump-1",
        "last_key": b"pump-2",
        "key_type": "org.apache.cassandra.db.marshal.UTF8Type",
        "clustering_types": ("org.apache.cassandra.db.marshal.TimestampType",),
        "static_columns": (),
        "regular_columns": (("value", "org.apache.cassandra.db.marshal.DoubleType"),),
        "token_space_coverage": None,
        "host_id": None,
        "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
        "bloom_fp_chance": 0.01,
        "clustering_start": ClusteringBound(kind="INCL_START_BOUND", values=(b"secret-a", None)),
        "clustering_end": ClusteringBound(kind="INCL_END_BOUND", values=(b"secret-z",)),
    }
    return SSTableFacts(**(values | given))
