"""The STATS component of Statistics.db.

Mirrors ``io/sstable/metadata/StatsMetadata.StatsMetadataSerializer``, Cassandra 3.11 to 5.0.
Rules of this file: the sentinels of the file end here and become None; what cannot be (a negative
count, bounds that do not rise) is corrupt, so no later sum can overflow.
"""

from __future__ import annotations

import functools
import math
import struct
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from treering.errors import UsageError
from treering.sstable.clustering import parse_covered_slice, parse_legacy_bounds
from treering.sstable.cursor import Cursor
from treering.sstable.facts import ClusteringBound, CommitLogPosition
from treering.sstable.histogram import EMPTY_DROP_TIMES, DropTimeHistogram, EstimatedHistogram
from treering.sstable.version import FormatVersion

COUNT_MAX: Final = 1 << 48
"""More partitions or cells no file has; sums over 32,768 files still fit into 64 bits."""

_I64_MIN: Final = -(1 << 63)
_I64_MAX: Final = (1 << 63) - 1
_NEVER: Final = (1 << 31) - 1
_NEVER_WIDE: Final = (1 << 32) - 1
_BUCKETS_MAX: Final = 4_096
_BINS_MAX: Final = 1 << 16

_INTERVAL = struct.Struct(">qiqi")
# The upper end of the commit log, write times, deletion times, TTLs, compression ratio.
_TIMES = struct.Struct(">qiqqiiiid")
_TIMES_WIDE = struct.Struct(">qiqqIIiid")
_BINS = struct.Struct(">ii")
_LEVEL = struct.Struct(">iq")
_COUNTS = struct.Struct(">?qqqii")
_DOUBLE = struct.Struct(">d")
_BIG_I64 = np.dtype(">i8")
_BIN = np.dtype([("point", ">f8"), ("count", ">i8")])
_BIN_WIDE = np.dtype([("point", ">i8"), ("count", ">i4")])

Number = TypeVar("Number", np.int64, np.float64)
Ints = npt.NDArray[np.int64]
Positions = tuple[CommitLogPosition, CommitLogPosition]


@dataclass(slots=True, kw_only=True)
class Stats:
    """The STATS component; the attributes are those of ``SSTableFacts``.

    Lives between two functions only, so it is not frozen: that would take as long as reading the
    file does.
    """

    partition_bytes: EstimatedHistogram
    partition_cells: EstimatedHistogram
    min_write_us: int | None
    max_write_us: int | None
    min_deletion_s: int | None
    max_deletion_s: int | None
    min_ttl_s: int
    max_ttl_s: int
    compression_ratio: float | None
    deletions: DropTimeHistogram
    level: int
    repaired_at_ms: int | None
    clustering_start: ClusteringBound | None
    clustering_end: ClusteringBound | None
    has_legacy_counters: bool
    columns_set: int
    rows: int
    commit_log: tuple[Positions, ...]
    pending_repair: str | None
    is_transient: bool
    host_id: str | None
    has_partition_deletions: bool | None
    first_key: bytes | None
    last_key: bytes | None
    token_space_coverage: float | None


def parse_stats(cursor: Cursor, version: FormatVersion) -> Stats:
    """Return what a STATS component says.

    Raises:
        CorruptDataError: Cut off, or numbers that cannot be.
    """
    partition_bytes = _estimated_histogram(cursor)
    partition_cells = _estimated_histogram(cursor)
    _, _, oldest, newest, first_s, last_s, min_ttl_s, max_ttl_s, ratio = cursor.unpack(
        _TIMES_WIDE if version.is_wide else _TIMES
    )
    has_data = (oldest, newest) != (_I64_MIN, _I64_MAX)
    never = _NEVER_WIDE if version.is_wide else _NEVER
    if min_ttl_s < 0 or max_ttl_s < min_ttl_s:
        raise cursor.corrupt(f"TTLs from {min_ttl_s} s to {max_ttl_s} s")
    deletions = _drop_times(cursor, version)
    level, repaired_at_ms = cursor.unpack(_LEVEL)
    read_bounds = parse_covered_slice if version.is_wide else parse_legacy_bounds
    clustering_start, clustering_end = read_bounds(cursor)
    # Behind the counts is the lower end of the commit log, and how many intervals there are.
    has_legacy_counters, columns_set, rows, _, _, intervals = cursor.unpack(_COUNTS)
    if level < 0 or columns_set < 0 or rows < 0:
        raise cursor.corrupt(f"level {level}, {rows} rows and {columns_set} cells")
    commit_log = _commit_log(cursor, intervals)
    pending_repair = cursor.optional_uuid() if version.has_checksums else None
    is_transient = bool(cursor.byte()) if version.has_checksums else False
    host_id = cursor.optional_uuid() if version.has_host_id else None
    has_partition_deletions = bool(cursor.byte()) if version.is_wide else None
    first_key = cursor.vint_bytes() if version.is_wide else None
    last_key = cursor.vint_bytes() if version.is_wide else None
    return Stats(
        partition_bytes=partition_bytes,
        partition_cells=partition_cells,
        min_write_us=oldest if has_data else None,
        max_write_us=newest if has_data else None,
        min_deletion_s=None if first_s == never else first_s,
        max_deletion_s=None if last_s == never else last_s,
        min_ttl_s=min_ttl_s,
        max_ttl_s=max_ttl_s,
        compression_ratio=ratio if math.isfinite(ratio) and ratio >= 0 else None,
        deletions=deletions,
        level=level,
        repaired_at_ms=repaired_at_ms or None,
        clustering_start=clustering_start,
        clustering_end=clustering_end,
        has_legacy_counters=has_legacy_counters,
        columns_set=columns_set,
        rows=rows,
        commit_log=commit_log,
        pending_repair=pending_repair,
        is_transient=is_transient,
        host_id=host_id,
        has_partition_deletions=has_partition_deletions,
        first_key=first_key,
        last_key=last_key,
        token_space_coverage=_coverage(cursor) if version.is_wide else None,
    )


def _estimated_histogram(cursor: Cursor) -> EstimatedHistogram:
    """Return a histogram; the first two offsets are the same, and the last count is overflow."""
    count = cursor.i32()
    if not 2 <= count <= _BUCKETS_MAX:
        raise cursor.corrupt(f"a histogram of {count} buckets, 2 to {_BUCKETS_MAX} can be")
    pairs = cursor.array(_BIG_I64, 2 * count)
    counts = _counts(cursor, pairs[1::2])
    try:
        empty = _of_bounds(pairs[2::2].tobytes())
    except UsageError as wrong:
        raise cursor.corrupt(str(wrong)) from wrong
    return empty.with_checked_counts(counts[:-1], overflow=counts.item(-1))


# Cassandra knows one series of bounds, of a few lengths: the files share them, checked once.
@functools.lru_cache(maxsize=16)
def _of_bounds(raw: bytes) -> EstimatedHistogram:
    bounds = np.frombuffer(raw, _BIG_I64).astype(np.int64)
    return EstimatedHistogram(offsets=_frozen(bounds), counts=_frozen(np.zeros_like(bounds)))


def _counts(cursor: Cursor, raw: npt.NDArray[np.signedinteger[Any]]) -> Ints:
    counts = raw.astype(np.int64)
    counts.setflags(write=False)
    # As unsigned numbers the negative ones are the largest: one look finds both.
    if not 0 <= counts.item(counts.view(np.uint64).argmax()) <= COUNT_MAX:
        raise cursor.corrupt(f"counts from {int(counts.min())} to {int(counts.max())}")
    return counts


def _drop_times(cursor: Cursor, version: FormatVersion) -> DropTimeHistogram:
    _, count = cursor.unpack(_BINS)
    if not 0 <= count <= _BINS_MAX:
        raise cursor.corrupt(f"{count} drop times, {_BINS_MAX} are the most")
    if not count:
        return EMPTY_DROP_TIMES
    bins = cursor.array(_BIN_WIDE if version.is_wide else _BIN, count)
    counts = _counts(cursor, bins["count"])
    try:
        return DropTimeHistogram(points_s=_frozen(bins["point"].astype(np.float64)), counts=counts)
    except UsageError as wrong:
        raise cursor.corrupt(str(wrong)) from wrong


def _frozen(array: npt.NDArray[Number]) -> npt.NDArray[Number]:
    array.setflags(write=False)
    return array


def _commit_log(cursor: Cursor, intervals: int) -> tuple[Positions, ...]:
    count = cursor.count("commit log intervals", intervals, each=_INTERVAL.size)
    return tuple([_interval(cursor) for _ in range(count)])


def _interval(cursor: Cursor) -> Positions:
    segment, position, end_segment, end_position = cursor.unpack(_INTERVAL)
    return (
        CommitLogPosition(segment=segment, position=position),
        CommitLogPosition(segment=end_segment, position=end_position),
    )


def _coverage(cursor: Cursor) -> float | None:
    (coverage,) = cursor.unpack(_DOUBLE)
    return float(coverage) if math.isfinite(coverage) else None
