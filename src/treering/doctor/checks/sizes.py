"""How large the partitions of a node are: from its files, else from what nodetool says.

Rules of this file: a histogram knows a value between two bounds, and a verdict needs the lower one;
a file may hold a part of a partition only, so what files say is a floor, and a sum over the files
that may share a partition is a ceiling.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from treering.doctor.facts import NodeFacts, Percentiles
from treering.sstable.facts import EstimatedHistogram, SSTableFacts
from treering.sstable.histogram import merge_histograms

STEP: Final = 1.2
"""How far apart the bounds of Cassandra's histograms are."""

_MIB: Final = 1_048_576

Source = Literal["files", "tablehistograms", "tablestats"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A number that lies between two bounds; ``at_most`` is None where it has no upper one."""

    at_least: int
    at_most: int | None

    @property
    def shown(self) -> int:
        """The bound that people know from Cassandra's own tools: the upper one where there is."""
        return self.at_least if self.at_most is None else self.at_most


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSizes:
    """What is known of the partitions of one node.

    Attributes:
        node: Which node.
        source: Where it comes from.
        bytes_max: Uncompressed bytes of the largest partition, or of its largest part.
        bytes_p99: Of a hundred, ninety-nine are not larger.
        bytes_p50: Half of them are not larger.
        cells_max: Cells of the largest.
        cells_p99: As for bytes.
        cells_p50: As for bytes.
        partitions: How many there are, one counted once a file; None where nobody tells.
        files: How many files were looked at.
    """

    node: NodeFacts
    source: Source
    bytes_max: Size
    bytes_p99: Size | None
    bytes_p50: Size | None
    cells_max: Size | None
    cells_p99: Size | None
    cells_p50: Size | None
    partitions: int | None
    files: int


def sizes_of(node: NodeFacts) -> PartitionSizes | None:
    """Return the sizes of a node's partitions; None where nothing is known, or there are none."""
    if node.files is not None:
        return _from_files(node, node.files)
    return _from_nodetool(node)


def _from_files(node: NodeFacts, files: tuple[SSTableFacts, ...]) -> PartitionSizes | None:
    in_bytes = merge_histograms(file.partition_bytes for file in files)
    in_cells = merge_histograms(file.partition_cells for file in files)
    if not in_bytes.count:
        return None
    return PartitionSizes(
        node=node,
        source="files",
        bytes_max=size_at(in_bytes, 1.0),
        bytes_p99=size_at(in_bytes, 0.99),
        bytes_p50=size_at(in_bytes, 0.5),
        cells_max=size_at(in_cells, 1.0),
        cells_p99=size_at(in_cells, 0.99),
        cells_p50=size_at(in_cells, 0.5),
        partitions=in_bytes.count,
        files=len(files),
    )


def size_at(histogram: EstimatedHistogram, share: float) -> Size:
    """Return between which bounds the value lies that this share of all values does not exceed."""
    wanted = int(np.ceil(histogram.count * share))
    if wanted == 0:
        return Size(at_least=0, at_most=0)
    step = int(np.searchsorted(np.cumsum(histogram.counts), wanted))
    below = int(histogram.offsets[step - 1]) + 1 if step else 0
    over = step == len(histogram.offsets)
    return Size(at_least=below, at_most=None if over else int(histogram.offsets[step]))


def _from_nodetool(node: NodeFacts) -> PartitionSizes | None:
    stats, found = node.stats, node.histograms
    partitions = None if stats is None else stats.partitions
    if found is not None and found.partition_bytes.max:
        in_bytes, in_cells = found.partition_bytes, found.partition_cells
        # Without percentiles there is a largest all the same: values lie above the last bound.
        over = in_bytes.p99 is None
        return PartitionSizes(
            node=node,
            source="tablehistograms",
            bytes_max=_size(in_bytes.max, over=over) or Size(at_least=0, at_most=0),
            bytes_p99=_size(in_bytes.p99),
            bytes_p50=_size(in_bytes.p50),
            cells_max=_size(in_cells.max, over=_is_over(in_cells)),
            cells_p99=_size(in_cells.p99),
            cells_p50=_size(in_cells.p50),
            partitions=partitions,
            files=0,
        )
    if stats is None or not stats.partition_bytes_max:
        return None
    return PartitionSizes(
        node=node,
        source="tablestats",
        bytes_max=_size_of_stats(stats.partition_bytes_max),
        bytes_p99=None,
        bytes_p50=None,
        cells_max=None,
        cells_p99=None,
        cells_p50=None,
        partitions=partitions,
        files=0,
    )


def _is_over(column: Percentiles) -> bool:
    return column.p99 is None and column.max is not None


def _size_of_stats(value: int) -> Size:
    # Virtual tables round up to whole mebibytes, nodetool does not.
    below = _MIB if value % _MIB == 0 else 0
    return Size(at_least=int(max(value - below, 0) / STEP), at_most=value)


def _size(value: float | None, *, over: bool = False) -> Size | None:
    if value is None:
        return None
    if over:
        return Size(at_least=int(value), at_most=None)
    return Size(at_least=int(value / STEP), at_most=int(value))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """The largest parts that files may hold of one partition, added up.

    Attributes:
        bytes: Their sum; a partition is not larger than that.
        files: How many files share it.
    """

    bytes: int
    files: int


def bound_of(files: Iterable[SSTableFacts], length_s: float | None) -> Sum:
    """Return how large a partition can be at the most, its parts in several files added up.

    Args:
        files: The files of one node.
        length_s: How long a partition is written: files whose write times lie further apart hold
            no parts of one partition. None where a partition is written for ever.

    >>> bound_of([], 60.0)
    Sum(bytes=0, files=0)
    """
    spans = [
        (file.min_write_us, file.max_write_us, size_at(file.partition_bytes, 1.0).shown)
        for file in files
        if file.min_write_us is not None and file.max_write_us is not None
    ]
    if length_s is None:
        return Sum(bytes=sum(size for _, _, size in spans), files=len(spans))
    # A file counts while an interval of that length, by its end, touches it. Where ends meet, what
    # comes is counted before what goes.
    length_us = int(length_s * 1_000_000)
    events = [(low, 0, size) for low, _, size in spans]
    events += [(high + length_us, 1, size) for _, high, size in spans]
    best, total, count = Sum(bytes=0, files=0), 0, 0
    for _, goes, size in sorted(events):
        total, count = (total - size, count - 1) if goes else (total + size, count + 1)
        if total > best.bytes:
            best = Sum(bytes=total, files=count)
    return best


def write_span_s(files: Iterable[SSTableFacts]) -> float:
    """Return the seconds from the oldest to the newest write of some files; 0 for none."""
    spans = [
        (file.min_write_us, file.max_write_us)
        for file in files
        if file.min_write_us is not None and file.max_write_us is not None
    ]
    if not spans:
        return 0.0
    return (max(high for _, high in spans) - min(low for low, _ in spans)) / 1e6
