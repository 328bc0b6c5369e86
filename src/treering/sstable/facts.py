"""What is known of one SSTable: the values that the doctor's checks read.

Rules of this file: None is "absent", so no sentinel of the file formats comes out of here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from treering.errors import UsageError
from treering.sstable.histogram import (
    DropTimeHistogram,
    EstimatedHistogram,
    droppable_ratio,
)

__all__ = [
    "BoundKind",
    "ClusteringBound",
    "CommitLogPosition",
    "DropTimeHistogram",
    "EstimatedHistogram",
    "FileProblem",
    "ProblemKind",
    "SSTableFacts",
    "SnapshotFacts",
    "TableFormat",
]

TableFormat = Literal["big", "bti"]

BoundKind = Literal[
    "EXCL_END_BOUND",
    "INCL_START_BOUND",
    "EXCL_END_INCL_START_BOUNDARY",
    "STATIC_CLUSTERING",
    "CLUSTERING",
    "INCL_END_EXCL_START_BOUNDARY",
    "INCL_END_BOUND",
    "EXCL_START_BOUND",
]
"""The kinds of a clustering prefix, in the order of their ordinals (``ClusteringPrefix.Kind``)."""

ProblemKind = Literal["corrupt", "unsupported", "foreign", "unreadable", "incomplete"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusteringBound:
    """Where the rows of a file begin or end in clustering order.

    Attributes:
        kind: Whether the bound itself belongs to the rows.
        values: Serialized clustering values, the first columns' only where there are fewer than
            columns; None is a null value.
    """

    kind: BoundKind
    values: tuple[bytes | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitLogPosition:
    """A place in the commit log of the node that flushed."""

    segment: int
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SSTableFacts:
    """All that the small components of one SSTable say about it.

    Attributes:
        path: The Data.db file.
        keyspace: As the folder says; empty where it does not.
        table: The same.
        table_id: 32 hexadecimal digits, or empty.
        version: Two letters, such as ``nb``.
        format: ``big`` or ``bti``.
        id: A number, or a time-based id such as ``3fw2_0tj4_46w3k2cpidnirvjy7k``.
        data_bytes: The size of Data.db; None where it is not at hand.
        disk_bytes: The size of all components; None likewise.
        uncompressed_bytes: What Data.db holds before compression.
        mtime_s: When Data.db was last written, epoch seconds.
        min_write_us: The oldest write time, in the unit that the writers used (microseconds as a
            rule); None where the file has no data.
        max_write_us: The newest write time, likewise.
        min_deletion_s: The earliest deletion time, epoch seconds; None where nothing expires and
            nothing is deleted.
        max_deletion_s: The latest deletion time; None where at least one cell never goes.
        min_ttl_s: The least TTL; 0 for none (a cell without TTL, or a tombstone).
        max_ttl_s: The largest TTL; 0 where nothing has one.
        compression_ratio: Compressed by uncompressed bytes; None without compression.
        compressor: The compressor's class, such as ``LZ4Compressor``; None without one.
        chunk_bytes: The length of an uncompressed chunk; None without compression.
        partition_bytes: Uncompressed bytes of each partition.
        partition_cells: Cells of each partition.
        deletions: When what expires or is deleted is gone.
        level: The level of leveled compaction; 0 elsewhere.
        repaired_at_ms: When it was repaired, epoch milliseconds; None for unrepaired.
        pending_repair: The id of the repair session that holds the file; None for none.
        is_transient: Whether the replica is a transient one.
        rows: Rows, static ones included.
        columns_set: Cells of all rows.
        has_partition_deletions: Whether a whole partition was deleted; None where the format does
            not say.
        first_token: Murmur3 token of the first partition; None where unknown.
        last_token: The same of the last.
        first_key: The first partition's serialized key; None where unknown.
        last_key: The same of the last.
        key_type: The class of the partition key's type.
        clustering_types: The classes of the clustering columns' types.
        static_columns: Name and type of each static column that the file has.
        regular_columns: Name and type of each regular column that the file has.
        token_space_coverage: The share of the token ring that the file spans; None where the
            format or the strategy does not record it.
        host_id: The node that flushed the file; None where the format does not say.
        partitioner: The partitioner's class.
        bloom_fp_chance: The bloom filter's false positive chance.
        clustering_start: Where rows begin in clustering order; None where unknown.
        clustering_end: Where they end.
        commit_log: From where to where in the commit log the file's data came.
        has_legacy_counters: Whether there are counters from before Cassandra 2.1.
    """

    path: str
    keyspace: str
    table: str
    table_id: str
    version: str
    format: TableFormat
    id: str
    data_bytes: int | None
    disk_bytes: int | None
    uncompressed_bytes: int | None
    mtime_s: int | None
    min_write_us: int | None
    max_write_us: int | None
    min_deletion_s: int | None
    max_deletion_s: int | None
    min_ttl_s: int
    max_ttl_s: int
    compression_ratio: float | None
    compressor: str | None
    chunk_bytes: int | None
    partition_bytes: EstimatedHistogram
    partition_cells: EstimatedHistogram
    deletions: DropTimeHistogram
    level: int
    repaired_at_ms: int | None
    pending_repair: str | None
    is_transient: bool
    rows: int
    columns_set: int
    has_partition_deletions: bool | None
    first_token: int | None
    last_token: int | None
    first_key: bytes | None
    last_key: bytes | None
    key_type: str
    clustering_types: tuple[str, ...]
    static_columns: tuple[tuple[str, str], ...]
    regular_columns: tuple[tuple[str, str], ...]
    token_space_coverage: float | None
    host_id: str | None
    partitioner: str = ""
    bloom_fp_chance: float | None = None
    clustering_start: ClusteringBound | None = None
    clustering_end: ClusteringBound | None = None
    commit_log: tuple[tuple[CommitLogPosition, CommitLogPosition], ...] = ()
    has_legacy_counters: bool = False

    def __post_init__(self) -> None:
        if (self.min_write_us is None) != (self.max_write_us is None):
            raise UsageError(f"{self.path} has one of two write times")

    def droppable_ratio(self, gc_before_s: int) -> float | None:
        """Return the estimated ratio of droppable tombstones, as Cassandra computes it.

        Adds up as the releases do that write this version of the format.

        Args:
            gc_before_s: Epoch seconds, now less the grace.

        Returns:
            About 0 to 2, see :func:`treering.sstable.histogram.droppable_ratio`; None where the
            histogram of cells overflowed.
        """
        return droppable_ratio(
            self.deletions, self.partition_cells, gc_before_s, as_3_11=self.version == "me"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FileProblem:
    """A file that could not be taken as what it should be.

    Attributes:
        path: The file or folder.
        id: The SSTable's id; empty where there is none.
        message: What is wrong, with numbers.
        kind: ``corrupt``, ``unsupported`` (too old or too new), ``foreign`` (not Cassandra's),
            ``unreadable`` (no permission) or ``incomplete`` (components are missing).
    """

    path: str
    id: str
    message: str
    kind: ProblemKind


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFacts:
    """A snapshot of one table, or its incremental backups.

    Attributes:
        name: The snapshot's name; ``backups`` for incremental backups.
        keyspace: The table's keyspace.
        table: The table.
        table_id: 32 hexadecimal digits, or empty.
        path: The snapshot's folder.
        bytes: The size of all its files.
        dropped_bytes: The size of those that belong to SSTables which are not live any more, so
            that the snapshot alone keeps them on disk.
        files: How many SSTables it holds.
        dropped_ids: The ids of those that are not live any more, sorted.
        is_backup: Whether these are the table's incremental backups, not a snapshot.
    """

    name: str
    keyspace: str
    table: str
    table_id: str
    path: str
    bytes: int
    dropped_bytes: int
    files: int
    dropped_ids: tuple[str, ...]
    is_backup: bool = False
