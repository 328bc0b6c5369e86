"""The two histograms that an SSTable keeps about itself, with Cassandra's own arithmetic.

Rules of this file: sizes are counted by upper bound, so a quantile is never below the true one;
what lies above the last bound is overflow, and a quantile that falls there is None rather than a
number; drop times are summed to the last digit as Cassandra sums them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from treering.errors import UsageError

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_I64: Final = 1 << 64
_I64_MAX: Final = (1 << 63) - 1


def _read_only(values: npt.ArrayLike, dtype: type[Any]) -> npt.NDArray[Any]:
    array = np.array(values, dtype=dtype)
    array.setflags(write=False)
    return array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EstimatedHistogram:
    """How many values fell under each of some rising bounds.

    Mirrors ``utils/EstimatedHistogram``, Cassandra 3.11 to 5.0; the number of bounds differs
    between versions, the bounds themselves do not.

    Attributes:
        offsets: Rising upper bounds, shape (n,).
        counts: How many values are at most that bound and above the one before, shape (n,).
        overflow: How many values are above the last bound.

    Raises:
        UsageError: Bounds that do not rise, counts of another shape, or a negative count.
    """

    offsets: Ints
    counts: Ints
    overflow: int = 0

    def __post_init__(self) -> None:
        if self.offsets.ndim != 1 or self.offsets.shape != self.counts.shape:
            raise UsageError(
                f"a histogram of {self.offsets.shape} bounds cannot have {self.counts.shape} counts"
            )
        # Counting is the quickest question to ask a short array; thousands of files ask it.
        if np.count_nonzero(self.offsets[1:] <= self.offsets[:-1]):
            raise UsageError("the bounds of a histogram must rise")
        if self.overflow < 0 or np.count_nonzero(self.counts < 0):
            raise UsageError("a histogram counted fewer than 0 values")

    @classmethod
    def from_pairs(cls, pairs: Iterable[tuple[int, int]], *, overflow: int = 0) -> Self:
        """Return the histogram of (upper bound, count) pairs."""
        both = tuple(pairs)
        return cls(
            offsets=_read_only([bound for bound, _ in both], np.int64),
            counts=_read_only([count for _, count in both], np.int64),
            overflow=overflow,
        )

    def with_checked_counts(self, counts: Ints, *, overflow: int) -> Self:
        """Return a histogram of the same bounds, and of counts that the caller has checked.

        Thousands of files are read in a second: looking at bounds and counts once is enough.

        Args:
            counts: As many as bounds, none negative.
            overflow: Not negative.
        """
        made = object.__new__(type(self))
        object.__setattr__(made, "offsets", self.offsets)
        object.__setattr__(made, "counts", counts)
        object.__setattr__(made, "overflow", overflow)
        return made

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, EstimatedHistogram):
            return NotImplemented
        return (
            self.overflow == other.overflow
            and np.array_equal(self.offsets, other.offsets)
            and np.array_equal(self.counts, other.counts)
        )

    def __hash__(self) -> int:
        return hash((self.overflow, self.offsets.tobytes(), self.counts.tobytes()))

    @property
    def count(self) -> int:
        """How many values were counted, those of the overflow included."""
        return int(self.counts.sum()) + self.overflow

    @property
    def max(self) -> int | None:
        """The bound that no value exceeds; None where values lie above the last bound.

        An empty histogram has 0, as Cassandra says.
        """
        if self.overflow:
            return None
        filled = np.flatnonzero(self.counts)
        return int(self.offsets[filled[-1]]) if len(filled) else 0

    @property
    def min(self) -> int:
        """The least value that may be there; 0 for an empty histogram."""
        filled = np.flatnonzero(self.counts)
        if len(filled):
            return int(self.offsets[filled[0] - 1]) + 1 if filled[0] else 0
        return int(self.offsets[-1]) + 1 if self.overflow and len(self.offsets) else 0

    @property
    def mean(self) -> int:
        """The mean of the bounds that values fell under, rounded up; overflow is left out.

        Cassandra refuses to answer where there is overflow; the number is then a lower bound.
        """
        counted = int(self.counts.sum())
        if not counted:
            return 0
        pairs = zip(self.offsets.tolist(), self.counts.tolist(), strict=True)
        # Java sums in 64 bits, divides as doubles and then rounds up; so do we.
        total = _as_i64(sum(bound * count for bound, count in pairs if count))
        return int(np.ceil(total / counted))

    def quantile(self, share: float) -> int | None:
        """Return the bound that this share of all values does not exceed.

        Args:
            share: From 0.0 to 1.0; 0.99 asks for the 99th percentile.

        Returns:
            A bound, at most a fifth above the true value; 0 for an empty histogram or share 0,
            as Cassandra says; None where the answer lies above the last bound.
        """
        if not 0.0 <= share <= 1.0:
            raise UsageError(f"a share is from 0.0 to 1.0, not {share}")
        wanted = int(np.ceil(self.count * share))
        if wanted == 0:
            return 0
        reached = int(np.searchsorted(np.cumsum(self.counts), wanted))
        return int(self.offsets[reached]) if reached < len(self.offsets) else None

    def above(self, limit: int) -> int:
        """Return how many values are certainly above ``limit``.

        A value counts where the bound below it is at least the limit, so values between the limit
        and the next bound are left out.
        """
        first = int(np.searchsorted(self.offsets, limit)) + 1
        return int(self.counts[first:].sum()) + self.overflow


EMPTY_HISTOGRAM: Final = EstimatedHistogram.from_pairs(())


def merge_histograms(histograms: Iterable[EstimatedHistogram]) -> EstimatedHistogram:
    """Return one histogram with the values of all, whatever their bounds.

    The bounds are the union of all bounds, so every value keeps its own upper bound. The overflow
    of a shorter histogram stays overflow, since nobody knows how large its values are.
    """
    by_bounds: dict[bytes, tuple[Ints, Ints]] = {}
    overflow = 0
    for histogram in histograms:
        overflow += histogram.overflow
        key = histogram.offsets.tobytes()
        if key in by_bounds:
            np.add(by_bounds[key][1], histogram.counts, out=by_bounds[key][1])
        else:
            by_bounds[key] = (histogram.offsets, histogram.counts.copy())
    if not by_bounds:
        return EMPTY_HISTOGRAM
    offsets = np.unique(np.concatenate([bounds for bounds, _ in by_bounds.values()]))
    counts = np.zeros(len(offsets), dtype=np.int64)
    for bounds, some in by_bounds.values():
        counts[np.searchsorted(offsets, bounds)] += some
    return EstimatedHistogram(
        offsets=_read_only(offsets, np.int64),
        counts=_read_only(counts, np.int64),
        overflow=overflow,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DropTimeHistogram:
    """When what is expiring or deleted in a file is gone: deletion times with their counts.

    Counted are row markers, cells and deletions of rows, ranges and partitions, each that has a
    deletion time. Mirrors ``utils/streamhist/TombstoneHistogram``, Cassandra 3.11 to 5.0: at most
    about a hundred points, rounded up to a minute and merged where there are more.

    Attributes:
        points_s: Rising deletion times, epoch seconds, shape (n,).
        counts: How many, shape (n,).

    Raises:
        UsageError: Points that do not rise, or counts of another shape.
    """

    points_s: Floats
    counts: Ints

    def __post_init__(self) -> None:
        if self.points_s.ndim != 1 or self.points_s.shape != self.counts.shape:
            raise UsageError(
                f"{self.points_s.shape} drop times cannot have {self.counts.shape} counts"
            )
        last = len(self.points_s) - 1
        if last < 0:
            return
        # Where all rise, only the ends can be infinite; nothing rises above what is no number.
        if last and np.count_nonzero(self.points_s[1:] > self.points_s[:-1]) != last:
            raise UsageError("drop times must rise")
        if not math.isfinite(self.points_s[0]) or not math.isfinite(self.points_s[last]):
            raise UsageError("a drop time must be a number")

    @classmethod
    def from_pairs(cls, pairs: Iterable[tuple[float, int]]) -> Self:
        """Return the histogram of (deletion time in epoch seconds, count) pairs."""
        both = tuple(pairs)
        return cls(
            points_s=_read_only([point for point, _ in both], np.float64),
            counts=_read_only([count for _, count in both], np.int64),
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DropTimeHistogram):
            return NotImplemented
        return np.array_equal(self.points_s, other.points_s) and np.array_equal(
            self.counts, other.counts
        )

    def __hash__(self) -> int:
        return hash((self.points_s.tobytes(), self.counts.tobytes()))

    @property
    def count(self) -> int:
        """How many deletion times there are in all."""
        return int(self.counts.sum())

    def before(self, gc_before_s: int, *, as_3_11: bool = False) -> float:
        """Return about how many are gone at ``gc_before_s``, as Cassandra estimates it.

        Between two points it adds a share of a trapezium (``TombstoneHistogram.sum``, and
        ``StreamingHistogram.sum`` before 4.0).

        Args:
            gc_before_s: Epoch seconds, now less the grace.
            as_3_11: Whether to add up in the order of 3.11, which may differ in the last digit.
        """
        after = int(np.searchsorted(self.points_s, gc_before_s, side="right"))
        if after == 0 or after == len(self.points_s):
            return float(self.counts[:after].sum())
        left, right = float(self.points_s[after - 1]), float(self.points_s[after])
        count, following = float(self.counts[after - 1]), float(self.counts[after])
        weight = (gc_before_s - left) / (right - left)
        height = count + (following - count) * weight
        share = (count + height) * weight / 2
        earlier = self.counts[: after - 1].tolist()
        if as_3_11:
            # One by one, since every sum is rounded.
            total = share + count / 2
            for some in earlier:
                total += some
            return total
        return float(sum(earlier)) + share + count / 2


EMPTY_DROP_TIMES: Final = DropTimeHistogram.from_pairs(())


def droppable_ratio(
    deletions: DropTimeHistogram,
    partition_cells: EstimatedHistogram,
    gc_before_s: int,
    *,
    as_3_11: bool = False,
) -> float | None:
    """Return the estimated ratio of droppable tombstones, as ``sstablemetadata`` prints it.

    Mirrors ``StatsMetadata.getEstimatedDroppableTombstoneRatio``, Cassandra 3.11 to 5.0. What it
    counts above and below the line differs: row markers and deletions count above, cells alone
    below, so a table of single values written with a TTL reaches about 2.

    Args:
        deletions: The file's drop times.
        partition_cells: The file's cells a partition.
        gc_before_s: Epoch seconds, now less the grace.
        as_3_11: Whether to add up in the order of 3.11, which may differ in the last digit.

    Returns:
        0.0 or more; None where partitions have more cells than the histogram can say, for which
        Cassandra gives no ratio either.
    """
    if partition_cells.overflow:
        return None
    cells = _as_i64(partition_cells.mean * partition_cells.count)
    return deletions.before(gc_before_s, as_3_11=as_3_11) / cells if cells > 0 else 0.0


def _as_i64(number: int) -> int:
    """Return a number as 64 signed bits hold it, wrapped around as in Java."""
    number %= _I64
    return number - _I64 if number > _I64_MAX else number
