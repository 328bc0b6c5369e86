"""What the checks measure against; every one is an option."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from treering.core.units import parse_bytes, parse_whole_s
from treering.errors import UsageError


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
        overdue_max_s: How long a file or expired rows may stay beyond grace. None derives it:
            with windows two of them or a twentieth of the TTL, without a tenth of the TTL and a
            day at the most, and in both cases a look for expired files more.
        span_windows_max: The most windows that the write times of one file may span.
        split_windows_max: The most past windows with repaired beside unrepaired files.
        ahead_max_s: How far ahead of the clock a write time may be.
        files_per_window_max: The most files of the current window.
        files_in_tiers_max: The most files of a table with SizeTieredCompactionStrategy.
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
    overdue_max_s: int | None = None
    span_windows_max: int = 2
    split_windows_max: int = 2
    ahead_max_s: int = 3_600
    files_per_window_max: int = 32
    files_in_tiers_max: int = 100
    horizon_s: int = 365 * 86_400
    throughput_bytes_per_s: int = 64 * 1_048_576


def parse_thresholds(pairs: Iterable[str]) -> Thresholds:
    """Return thresholds with what ``name=value`` texts say instead of the usual numbers.

    Bytes are read as sizes (``100MB``), lengths of time with their unit (``365d``).

    Raises:
        UsageError: An unknown name, one twice, or a value that is none.
    """
    given: dict[str, Any] = {}
    names = [field.name for field in fields(Thresholds)]
    for pair in pairs:
        name, _, text = pair.partition("=")
        name = name.strip().replace("-", "_")
        if name not in names or name in given:
            raise UsageError(
                f"{pair!r} sets no threshold, or one twice",
                hint=f"use one of {', '.join(names).replace('_', '-')}",
            )
        given[name] = _value_of(name, text.strip())
    return Thresholds(**given)


def _value_of(name: str, text: str) -> int | float:
    if name.endswith("_ratio_max"):
        return _number(name, text, float)
    if name.endswith("_s") and not name.endswith("_per_s"):
        return parse_whole_s(text)
    if "bytes" in name:
        return parse_bytes(text.removesuffix("/s"))
    return _number(name, text, int)


def _number(name: str, text: str, kind: type[int] | type[float]) -> int | float:
    try:
        value = kind(text.replace(",", "").replace("_", ""))
    except ValueError:
        value = kind(-1)
    if not 0 <= value < float("inf"):
        shown = name.replace("_", "-")
        raise UsageError(f"{text!r} is no value of {shown}", hint=f"use for instance {shown}=4")
    return value
