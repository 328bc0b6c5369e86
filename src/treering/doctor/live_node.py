"""What one node of a cluster tells about tables: its own virtual tables, and its nodetool.

Rules of this file: one node, one bound; the first question that has no answer in time is the last
one that is asked that way; a virtual table is a view of the node that is asked, so no other is.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from treering.doctor.facts import Missing, NodeFacts, TableHistograms, TableStats
from treering.doctor.nodetool import (
    TableName,
    capped_partition_bytes,
    parse_listsnapshots,
    parse_tablehistograms,
    parse_tablestats,
)
from treering.doctor.nodetool_run import NodetoolCommand
from treering.engine.cassandra.link import Link
from treering.engine.deadline import deadline_in
from treering.errors import EngineTimeoutError, TreeringError
from treering.sstable.facts import SnapshotFacts

# From so many tables on one run over all tables is quicker than one for each; 3.11 has no such run.
RUN_OVER_ALL_FROM: Final = 4

_MIB: Final = 1024 * 1024
_SETTINGS: Final = frozenset(
    {
        *("storage_compatibility_mode", "hinted_handoff_enabled"),
        *("max_hint_window", "max_hint_window_in_ms"),
        *("compaction_throughput", "compaction_throughput_mb_per_sec", "concurrent_compactors"),
        *("auto_snapshot", "snapshot_before_compaction", "num_tokens"),
        *("tombstone_warn_threshold", "tombstone_failure_threshold"),
        *("partition_size_warn_threshold", "partition_tombstones_warn_threshold"),
        *("maximum_timestamp_warn_threshold", "maximum_timestamp_fail_threshold"),
        *("minimum_timestamp_warn_threshold", "minimum_timestamp_fail_threshold"),
        *("zero_ttl_on_twcs_enabled", "zero_ttl_on_twcs_warned"),
    }
)
_PROPERTIES: Final = frozenset(
    {
        "cassandra.allow_unsafe_aggressive_sstable_expiration",
        "cassandra.expiration_date_overflow_policy",
        "cassandra.never_purge_tombstones",
    }
)
# Of each virtual table: which column is which statistic, and in what unit.
_VIEWS: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "disk_usage": (("mebibytes", "total_bytes"),),
    "max_partition_size": (("mebibytes", "partition_bytes_max"),),
    "rows_per_read": (("max", "live_cells_per_slice_max"),),
    "tombstones_per_read": (("max", "tombstones_per_slice_max"),),
    "local_read_latency": (("count", "reads"),),
    "local_write_latency": (("count", "writes"), ("per_second", "writes_per_s")),
}


@dataclass(slots=True, kw_only=True)
class Seen:
    """What one visit brought, table by table."""

    node: NodeFacts
    stats: dict[TableName, TableStats] = field(default_factory=dict)
    histograms: dict[TableName, TableHistograms] = field(default_factory=dict)
    snapshots: list[SnapshotFacts] | None = None
    missing: list[Missing] = field(default_factory=list)
    missing_of_tables: dict[TableName, list[Missing]] = field(default_factory=dict)

    def facts_of(self, name: TableName) -> NodeFacts:
        """Return the node's facts about one table."""
        snapshots = None
        if self.snapshots is not None:
            snapshots = tuple(one for one in self.snapshots if (one.keyspace, one.table) == name)
        return replace(
            self.node,
            stats=self.stats.get(name),
            histograms=self.histograms.get(name),
            snapshots=snapshots,
        )

    def missing_of(self, name: TableName) -> list[Missing]:
        """Return what is missing for one table alone."""
        return self.missing_of_tables.get(name, [])


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeVisit:
    """One node to ask.

    Attributes:
        link: The connection.
        host: The node.
        tables: What to ask about.
        nodetool: How to run nodetool for it, or None.
    """

    link: Link
    host: Any
    tables: tuple[TableName, ...]
    nodetool: NodetoolCommand | None

    @property
    def address(self) -> str:
        """The node's address."""
        return str(self.host.address)

    @property
    def version(self) -> str:
        """The node's version, as it says it itself."""
        return str(self.host.release_version or "")

    def run(self, timeout_s: float) -> Seen:
        """Ask the node, within a bound; what it does not say is missing, and nothing raises."""
        ends_s = time.monotonic() + timeout_s
        node = NodeFacts(
            node=self.address,
            collected_at_s=int(time.time()),
            version=self.version,
            datacenter=str(self.host.datacenter or ""),
        )
        seen = Seen(node=node)
        with deadline_in(timeout_s):
            _Cql(self, seen).collect()
        if self.nodetool is not None:
            _Nodetool(self, self.nodetool, seen, ends_s).collect()
        return seen


class _Steps:
    """Steps that may fail, until one has no answer in time."""

    def __init__(self, visit: NodeVisit, seen: Seen) -> None:
        self._visit = visit
        self._seen = seen
        self._hangs = ""

    def _try(self, what: str, step: Callable[[], None], *, table: TableName | None = None) -> bool:
        missing = self._seen.missing
        if table is not None:
            missing = self._seen.missing_of_tables.setdefault(table, [])
        why = f"not asked, because {self._hangs}" if self._hangs else ""
        if not why:
            try:
                step()
                return True
            except TreeringError as error:
                why = f"{error}{f'; {error.hint}' if error.hint else ''}"
                if isinstance(error, EngineTimeoutError):
                    self._hangs = str(error)
        missing.append(Missing(node=self._visit.address, what=what, why=why))
        return False


class _Cql(_Steps):
    """What a node tells over CQL."""

    def collect(self) -> None:
        if self._major < 4:
            self._seen.missing.append(
                Missing(
                    node=self._visit.address,
                    what="virtual tables",
                    why=f"Cassandra {self._visit.version} has none: settings are not known, and "
                    "statistics come from nodetool alone",
                )
            )
        else:
            self._try("settings", self._settings)
            for view in _VIEWS:
                self._try(view, lambda view=view: self._view(view))  # type: ignore[misc]
            if self._major >= 5:
                self._try("snapshots", self._snapshots)
        self._try("size_estimates", self._sizes)

    @property
    def _major(self) -> int:
        first = self._visit.version.partition(".")[0]
        return int(first) if first.isdigit() else 0

    def _ask(self, cql: str, *values: Any, what: str) -> list[dict[str, Any]]:
        where = f"reading {what} of {self._visit.address}"
        return self._visit.link.ask(cql, *values, what=where, host=self._visit.host)

    def _settings(self) -> None:
        found: dict[str, str] = {}
        for table, wanted in (("settings", _SETTINGS), ("system_properties", _PROPERTIES)):
            rows = self._ask(f"SELECT name, value FROM system_views.{table}", what=table)  # noqa: S608
            found |= {
                row["name"]: row["value"]
                for row in rows
                # What a node does not set is null, and so is what it takes from elsewhere.
                if row["name"] in wanted and row["value"] is not None
            }
        self._seen.node = replace(self._seen.node, settings=found)

    def _view(self, view: str) -> None:
        for row in self._rows_of_tables(f"SELECT * FROM system_views.{view}", view):  # noqa: S608
            name = (row["keyspace_name"], row["table_name"])
            values: dict[str, Any] = {
                field: _statistic(row.get(column), field) for column, field in _VIEWS[view]
            }
            self._seen.stats[name] = replace(self._stats_of(name), **values)

    def _rows_of_tables(self, cql: str, what: str) -> Iterable[dict[str, Any]]:
        tables = set(self._visit.tables)
        rows = self._ask(cql, what=what)
        return (row for row in rows if (row["keyspace_name"], row["table_name"]) in tables)

    def _stats_of(self, name: TableName) -> TableStats:
        return self._seen.stats.get(name) or TableStats()

    def _snapshots(self) -> None:
        cql = "SELECT * FROM system_views.snapshots"
        self._seen.snapshots = [
            SnapshotFacts(
                name=row["name"],
                keyspace=row["keyspace_name"],
                table=row["table_name"],
                table_id="",
                path="",
                bytes=row["size_on_disk"] or 0,
                dropped_bytes=row["true_size"] or 0,
                files=0,
                dropped_ids=(),
            )
            for row in self._rows_of_tables(cql, "snapshots")
        ]

    def _sizes(self) -> None:
        cql = (
            "SELECT mean_partition_size, partitions_count FROM system.size_estimates "
            "WHERE keyspace_name = %s AND table_name = %s"
        )
        for name in self._visit.tables:
            rows = self._ask(cql, *name, what="size_estimates")
            # A node writes them every five minutes, and none before the first file.
            counts = [max(row["partitions_count"] or 0, 0) for row in rows]
            sizes = [max(row["mean_partition_size"] or 0, 0) for row in rows]
            if sum(counts):
                total = sum(size * count for size, count in zip(sizes, counts, strict=True))
                self._seen.stats[name] = replace(
                    self._stats_of(name),
                    partition_bytes_mean=total // sum(counts),
                    partitions_owned=sum(counts),
                )


class _Nodetool(_Steps):
    """What a node's nodetool prints."""

    def __init__(
        self, visit: NodeVisit, command: NodetoolCommand, seen: Seen, ends_s: float
    ) -> None:
        super().__init__(visit, seen)
        self._command = command
        self._ends_s = ends_s

    def collect(self) -> None:
        self._try("tablestats", self._tablestats)
        tables = self._visit.tables
        if len(tables) < RUN_OVER_ALL_FROM or self._visit.version.startswith("3."):
            for name in tables:
                self._try("tablehistograms", lambda name=name: self._histograms(name), table=name)  # type: ignore[misc]
        else:
            self._try("tablehistograms", self._histograms)
        if self._seen.snapshots is None:
            self._try("listsnapshots", self._listsnapshots)

    def _run(self, *args: str) -> str:
        left_s = self._ends_s - time.monotonic()
        if left_s <= 0:
            raise EngineTimeoutError("the time for this node was over before nodetool was asked")
        return self._command.run(self._visit.address, *args, timeout_s=left_s)

    def _tablestats(self) -> None:
        keyspaces = sorted({name[0] for name in self._visit.tables})
        found = parse_tablestats(self._run("tablestats", "-F", "json", *keyspaces))
        for name in set(self._visit.tables) & found.keys():
            self._seen.stats[name] = _merged(found[name], self._seen.stats.get(name))

    def _histograms(self, name: TableName | None = None) -> None:
        found = parse_tablehistograms(self._run("tablehistograms", *(name or ())))
        wanted = set(self._visit.tables) if name is None else {name}
        self._seen.histograms |= {one: found[one] for one in wanted & found.keys()}

    def _listsnapshots(self) -> None:
        self._seen.snapshots = list(parse_listsnapshots(self._run("listsnapshots")))


def _statistic(value: Any, field: str) -> int | float | None:
    if value is None or not math.isfinite(value) or value < 0:
        return None
    if field.endswith("_bytes"):
        return int(value) * _MIB
    if field == "partition_bytes_max":
        return capped_partition_bytes(int(value) * _MIB)
    return int(value) if field in ("reads", "writes") else float(value)


def _merged(strong: TableStats, weak: TableStats | None) -> TableStats:
    """Return statistics of two sources, the stronger one's where it has them."""
    if weak is None:
        return strong
    gaps = [name for name in TableStats.__dataclass_fields__ if getattr(strong, name) is None]
    return replace(strong, **{name: getattr(weak, name) for name in gaps})
