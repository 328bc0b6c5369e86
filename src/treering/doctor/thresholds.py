"""What the checks measure against; every one is an option."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Where a number becomes a finding.

    Attributes:
        partition_bytes_max: The largest partition that is fine; a design's own budget wins.
        partition_cells_max: The most cells of one partition.
        partition_bytes_min: Under this, most partitions are too small to be worth their key.
        partitions_many: From so many partitions of a node on, small ones matter.
        live_cells_per_slice_max: The most live cells that a read may meet.
        tombstones_per_slice_max: The most tombstones that a read may meet.
        sstables_per_read_max: The most files that the 99th percentile of reads may touch.
        windows_max: The most windows of a retention.
        windows_min: The fewest windows of a retention.
        expired_bytes_ratio_max: Share of the disk that may be held by expired data.
        horizon_s: How far ahead growth is judged.
        throughput_bytes_per_s: Compaction throughput where the node does not tell its own.
    """

    partition_bytes_max: int = 100 * 1_000_000
    partition_cells_max: int = 2_000_000
    partition_bytes_min: int = 10_000
    partitions_many: int = 10_000
    live_cells_per_slice_max: int = 100_000
    tombstones_per_slice_max: int = 1_000
    sstables_per_read_max: int = 4
    windows_max: int = 50
    windows_min: int = 10
    expired_bytes_ratio_max: float = 0.2
    horizon_s: int = 365 * 86_400
    throughput_bytes_per_s: int = 64 * 1_048_576
