"""What the doctor knows about tables, whoever collected it: from files, a cluster or a bundle.

Rules of this file: values only; None means that nobody could tell, never zero; what could not be
collected is said by a :class:`Missing`, so that a check without facts is unknown and not healthy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from treering.core.times import render_instant
from treering.sstable.facts import FileProblem, SnapshotFacts, SSTableFacts
from treering.sstable.names import SCHEMA_FILE


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """Facts that could not be collected.

    Attributes:
        node: The node that they are missing for; empty for the cluster.
        what: Which facts, such as ``"tablehistograms"``.
        why: What happened, and what would bring them.
    """

    node: str
    what: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnFacts:
    """A column of a table: its CQL type, and the order of a clustering column.

    The name is empty where it is not known: files do not name the columns of their key.
    """

    name: str
    type: str
    is_descending: bool = False

    @property
    def label(self) -> str:
        """Its name; where only files are known, which do not name their keys, its type."""
        return self.name or f"<{self.type}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaSource:
    """The snapshot whose schema.cql a schema is from: what was altered since is not in it.

    Attributes:
        snapshot: Its name.
        at_s: When it was taken, epoch seconds.
    """

    snapshot: str
    at_s: int

    @property
    def text(self) -> str:
        """What it is, in words that follow "options"."""
        when = render_instant(self.at_s)
        return f"as of {when}, by {SCHEMA_FILE} of the snapshot {self.snapshot}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaFacts:
    """How a table is declared, over CQL or from the headers of its files.

    Attributes:
        table_id: The table's id as 32 hex digits; empty where it is not known.
        partition_key: Columns of the partition key, in order.
        clustering: Clustering columns, in order.
        columns: Regular and static columns.
        options: The table's options, as ``system_schema.tables`` has them: ``compaction`` and
            ``compression`` are mappings, the rest is what the driver gives. None: only the files
            are known, and no option is.
        source: The snapshot that it is from; None where a cluster, the caller or files said it.
    """

    table_id: str
    partition_key: tuple[ColumnFacts, ...]
    clustering: tuple[ColumnFacts, ...]
    columns: tuple[ColumnFacts, ...]
    options: Mapping[str, object] | None
    source: SchemaSource | None = None

    @property
    def compaction(self) -> Mapping[str, str] | None:
        """The compaction options, the class included; None where no option is known."""
        found = None if self.options is None else self.options.get("compaction")
        if not isinstance(found, Mapping):
            return None
        return {str(key): str(value) for key, value in found.items()}

    @property
    def strategy(self) -> str | None:
        """The compaction strategy's class without its package; None where it is not known."""
        compaction = self.compaction
        return None if compaction is None else compaction.get("class", "").rpartition(".")[2]

    def integer(self, option: str) -> int | None:
        """Return an option that is a whole number; None where it is not known."""
        value = None if self.options is None else self.options.get(option)
        return value if isinstance(value, int) else None

    @property
    def default_ttl_s(self) -> int | None:
        """``default_time_to_live``; 0 is never; None where it is not known."""
        return self.integer("default_time_to_live")

    @property
    def gc_grace_s(self) -> int | None:
        """``gc_grace_seconds``; None where it is not known."""
        return self.integer("gc_grace_seconds")

    @property
    def comment(self) -> str:
        """The table's comment; empty where there is none."""
        return str((self.options or {}).get("comment") or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentiles:
    """One column of ``nodetool tablehistograms``; None for NaN.

    A value is the upper edge of a histogram's step, up to a fifth above the true one. Where the
    histogram overflowed there are no percentiles, and ``max`` is what the largest value is above.
    """

    p50: float | None
    p75: float | None
    p95: float | None
    p98: float | None
    p99: float | None
    min: float | None
    max: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHistograms:
    """What ``nodetool tablehistograms`` says about a table on one node.

    The first three are of reads and writes since the node started; the last two of its files.
    """

    sstables_per_read: Percentiles
    read_latency_us: Percentiles
    write_latency_us: Percentiles
    partition_bytes: Percentiles
    partition_cells: Percentiles


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStats:
    """What ``nodetool tablestats`` or the virtual tables say about a table on one node.

    Attributes:
        sstable_count: Live files.
        live_bytes: Bytes of live files.
        total_bytes: Bytes of all files, those not yet deleted included.
        snapshot_bytes: Bytes that only snapshots hold.
        partition_bytes_max: Largest partition of one file.
        partition_bytes_mean: Mean partition.
        partitions: Estimated partitions.
        partitions_owned: Of them those in ranges that the node is the first replica of: their sum
            over all nodes is the table's.
        live_cells_per_slice_max: Most live cells that a read met, last five minutes.
        tombstones_per_slice_max: Most tombstones that a read met, last five minutes.
        live_cells_per_slice_mean: Mean of them.
        tombstones_per_slice_mean: Mean of them.
        droppable_ratio: Tombstones past grace against cells; above 1 is possible.
        repaired_percent: Share of bytes in repaired files.
        reads: Local reads since the node started.
        writes: Local writes since the node started.
        writes_per_s: Local writes a second, over five minutes.
        memtable_cells: Cells in the memtable.
    """

    sstable_count: int | None = None
    live_bytes: int | None = None
    total_bytes: int | None = None
    snapshot_bytes: int | None = None
    partition_bytes_max: int | None = None
    partition_bytes_mean: int | None = None
    partitions: int | None = None
    partitions_owned: int | None = None
    live_cells_per_slice_max: float | None = None
    tombstones_per_slice_max: float | None = None
    live_cells_per_slice_mean: float | None = None
    tombstones_per_slice_mean: float | None = None
    droppable_ratio: float | None = None
    repaired_percent: float | None = None
    reads: int | None = None
    writes: int | None = None
    writes_per_s: float | None = None
    memtable_cells: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """One table on one node.

    Attributes:
        node: The node's address or the name that its bundle or folder goes by.
        collected_at_s: When, epoch seconds; expiry is judged at this moment.
        version: The server's version; empty where it is not known.
        settings: The node's settings by their name in ``system_views.settings``.
        files: Live files; None where nobody looked (a cluster without its folders).
        problems: Files that could not be read.
        snapshots: Snapshots of the table; None where nobody looked.
        histograms: From nodetool.
        stats: From nodetool or virtual tables.
        disk_free_bytes: Free on the volume of the data; None where it is not known.
        is_memtable_known: Whether what the memtable holds is known to be in the files: nobody
            wrote since they were flushed (a node that is stopped, or drained).
        is_partial: Whether single files were named, and their folder was not looked at.
        datacenter: Where the node is; empty where it is not known.
    """

    node: str
    collected_at_s: int
    version: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    files: tuple[SSTableFacts, ...] | None = None
    problems: tuple[FileProblem, ...] = ()
    snapshots: tuple[SnapshotFacts, ...] | None = None
    histograms: TableHistograms | None = None
    stats: TableStats | None = None
    disk_free_bytes: int | None = None
    is_memtable_known: bool = False
    is_partial: bool = False
    datacenter: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """All that is known about one table, on all the nodes that were looked at.

    Attributes:
        keyspace: Its keyspace.
        table: Its name.
        schema: None where neither CQL nor any file tells.
        nodes: One entry a node; at least one.
        missing: What could not be collected for this table.
        address: The cluster's address without a keyspace and without secrets; empty where only
            files are known.
    """

    keyspace: str
    table: str
    schema: SchemaFacts | None
    nodes: tuple[NodeFacts, ...]
    missing: tuple[Missing, ...] = ()
    address: str = ""

    @property
    def name(self) -> str:
        """Keyspace and table."""
        return f"{self.keyspace}.{self.table}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """What one target gave: tables, and what could not be collected at all.

    Attributes:
        target: What was looked at, without secrets.
        tables: In the order of their names.
        missing: What is missing for every table.
        problems: Files that belong to no table that could be told.
        left_out: Tables that are there and are none of readings, as ``keyspace.table``: without
            a clustering column, and views. Files of them that another target has are no table.
    """

    target: str
    tables: tuple[TableFacts, ...]
    missing: tuple[Missing, ...] = ()
    problems: tuple[FileProblem, ...] = ()
    left_out: tuple[str, ...] = ()
