"""From the parts of one SSTable to its facts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from treering.errors import CorruptDataError
from treering.sstable.compression import KEY_BYTES_MAX, CompressionInfo
from treering.sstable.facts import SSTableFacts
from treering.sstable.names import Place
from treering.sstable.statistics import parse_statistics
from treering.sstable.token import token_of
from treering.sstable.version import FormatVersion

_MURMUR3: Final = "Murmur3Partitioner"

Keys = tuple[bytes, bytes]


@dataclass(slots=True, kw_only=True)
class SSTableParts:
    """What was read of one SSTable, on its way to ``facts_of``; not frozen, as ``Stats`` is not.

    Attributes:
        path: The Data.db file.
        id: As the files' names say.
        version: Likewise.
        place: As the folders' names say.
        statistics: All of Statistics.db.
        compression: What CompressionInfo.db says; None where there is none.
        keys: First and last key of Summary.db; None where unknown.
        data_bytes: The size of Data.db; None where it is not at hand.
        disk_bytes: The size of all components; None likewise.
        mtime_s: When Data.db was last written, epoch seconds; None likewise.
    """

    path: str
    id: str
    version: FormatVersion
    place: Place
    statistics: bytes
    compression: CompressionInfo | None = None
    keys: Keys | None = None
    data_bytes: int | None = None
    disk_bytes: int | None = None
    mtime_s: int | None = None


def facts_of(parts: SSTableParts) -> SSTableFacts:
    """Return the facts of an SSTable.

    Raises:
        CorruptDataError: Bytes that cannot be what they should be.
    """
    version, place, compression = parts.version, parts.place, parts.compression
    statistics = parse_statistics(parts.statistics, version)
    stats, header, validation = statistics.stats, statistics.header, statistics.validation
    _check_data_length(parts, stats.compression_ratio)
    first_key, last_key = _keys(parts.keys, (stats.first_key, stats.last_key))
    is_murmur = validation.partitioner.rpartition(".")[2] == _MURMUR3
    return SSTableFacts(
        path=parts.path,
        keyspace=place.keyspace,
        table=place.table,
        table_id=place.table_id,
        version=version.name,
        format=version.format,
        id=parts.id,
        data_bytes=parts.data_bytes,
        disk_bytes=parts.disk_bytes,
        uncompressed_bytes=compression.uncompressed_bytes if compression else parts.data_bytes,
        mtime_s=parts.mtime_s,
        min_write_us=stats.min_write_us,
        max_write_us=stats.max_write_us,
        min_deletion_s=stats.min_deletion_s,
        max_deletion_s=stats.max_deletion_s,
        min_ttl_s=stats.min_ttl_s,
        max_ttl_s=stats.max_ttl_s,
        compression_ratio=stats.compression_ratio,
        compressor=compression.compressor if compression else None,
        chunk_bytes=compression.chunk_bytes if compression else None,
        partition_bytes=stats.partition_bytes,
        partition_cells=stats.partition_cells,
        deletions=stats.deletions,
        level=stats.level,
        repaired_at_ms=stats.repaired_at_ms,
        pending_repair=stats.pending_repair,
        is_transient=stats.is_transient,
        rows=stats.rows,
        columns_set=stats.columns_set,
        has_partition_deletions=stats.has_partition_deletions,
        first_token=token_of(first_key) if is_murmur and first_key is not None else None,
        last_token=token_of(last_key) if is_murmur and last_key is not None else None,
        first_key=first_key,
        last_key=last_key,
        key_type=header.key_type,
        clustering_types=header.clustering_types,
        static_columns=header.static_columns,
        regular_columns=header.regular_columns,
        token_space_coverage=stats.token_space_coverage,
        host_id=stats.host_id,
        partitioner=validation.partitioner,
        bloom_fp_chance=validation.bloom_fp_chance,
        clustering_start=stats.clustering_start,
        clustering_end=stats.clustering_end,
        commit_log=stats.commit_log,
        has_legacy_counters=stats.has_legacy_counters,
    )


def _check_data_length(parts: SSTableParts, ratio: float | None) -> None:
    """Refuse a Data.db that is shorter than what was written, where the ratio tells.

    The ratio leaves the chunks' checksums out, so a whole file is longer than that; a hundredth
    is left for the ratio of a file whose writer went back and wrote a part again.
    """
    if parts.data_bytes is None:
        return
    written = parts.compression.uncompressed_bytes * ratio if parts.compression and ratio else 1
    if parts.data_bytes < 0.99 * written:
        raise CorruptDataError(
            f"Data.db is cut off: it has {parts.data_bytes} bytes of about {written:.0f}",
            offset=parts.data_bytes,
        )


def _keys(
    summary: Keys | None, stats: tuple[bytes | None, bytes | None]
) -> tuple[bytes | None, bytes | None]:
    """Return first and last key, from STATS where it has them and from Summary.db elsewhere."""
    found = stats if stats[0] is not None else (summary or (None, None))
    for key in found:
        if key is not None and len(key) > KEY_BYTES_MAX:
            raise CorruptDataError(f"Statistics.db is corrupt: a partition key of {len(key)} bytes")
    return found
