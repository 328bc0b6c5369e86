"""The choices of a design: bucket, TTL, window, grace, strategy, and what each refuses.

Rules of this file: :func:`choose` refuses, everything else only derives; a partition is sized by
the peak rate, disk by the mean; a choice that the user made is marked, never silently replaced.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final, Literal

from treering.core.bucket import BucketWidth, count_buckets
from treering.core.expiry import (
    EXPIRED_CHECK_S,
    HINT_WINDOW_S,
    check_ttl,
    expiry_cap_s,
    refused_from_s,
    render_day,
)
from treering.core.server import check_has_twcs
from treering.core.sizing import row_bytes_of
from treering.core.units import (
    DAY_S,
    YEAR_S,
    Interval,
    Precision,
    render_bytes,
    render_duration,
    render_rate,
)
from treering.core.window import Window, plan_window
from treering.core.workload import READ_SPAN_DEFAULT_S, Overrides, Strategy, Workload
from treering.errors import DesignError

GRACE_MAX_S: Final = DAY_S
"""Grace of an append-only table at most: nothing there needs a tombstone to reach a replica."""

GRACE_DEFAULT_S: Final = 10 * DAY_S
"""Cassandra's own default, kept where deletes have to reach every replica by repair."""

REPAIR_MARGIN_S: Final = 3 * DAY_S
"""What grace leaves beyond the repair interval: a repair that fails can be run again."""

OVER_PARTITIONED_BYTES: Final = 10_000
"""Below this a partition is mostly overhead: its key, index entry and bloom filter bits."""

Fit = Literal["target", "ceiling", "over"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What one bucket width would give; ``fit`` is what its partition stays within."""

    bucket: BucketWidth
    rows: int
    partition_bytes: float
    cells: int
    read_partitions: int
    fit: Fit


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """Every choice of a design beside the workload that it is for, and when it was made."""

    workload: Workload
    now_s: int
    bucket: BucketWidth
    row_bytes: float
    ttl_s: int | None
    window: Window | None
    gc_grace_s: int
    strategy: Strategy
    unsafe_aggressive_expiration: bool = False
    overridden: tuple[str, ...] = field(default=())
    has_blocks: bool = False

    @property
    def candidate(self) -> Candidate:
        """What the chosen width gives."""
        return candidate_of(self.workload, self.bucket, self.row_bytes)

    @property
    def file_span_s(self) -> int | None:
        """The longest time between two writes that end up in one file; None for any time."""
        return file_span_s_of(self.strategy, self.window, self.ttl_s)

    @property
    def disk_terms_s(self) -> tuple[tuple[str, int], ...]:
        """What the disk holds, as lengths of time that add up."""
        if self.ttl_s is None:
            return (("a year of readings", YEAR_S), ("room to compact all of it", YEAR_S))
        held = (("retention", self.ttl_s), ("gc grace", self.gc_grace_s))
        if self.strategy is not Strategy.TWCS or self.window is None:
            return (*held, ("room to compact all of it", self.ttl_s + self.gc_grace_s))
        return (
            *held,
            ("the window that has to end first", self.window.length_s),
            ("the check for expired files", EXPIRED_CHECK_S),
            ("room to compact the largest window", self.window.length_s),
        )

    @property
    def disk_bytes_per_series(self) -> float:
        """Compressed bytes of one series on one replica at the most."""
        load = self.workload
        held_s = sum(seconds for _, seconds in self.disk_terms_s)
        return held_s * load.rate_hz * self.row_bytes * load.compression_ratio


def rows_of(rate_hz: float, length_s: float) -> int:
    """Return the readings of a length of time, rounded up; 60 * (1/60) is 1, not 2."""
    rows = rate_hz * length_s
    return math.ceil(rows * (1 - 1e-12))


def candidate_of(load: Workload, width: BucketWidth, row_bytes: float) -> Candidate:
    """Return what a bucket width would give."""
    rows = rows_of(load.sizing_rate_hz, width.length_s)
    size, cells = rows * row_bytes, rows * len(load.columns)
    fit: Fit = "target"
    if size > load.partition_bytes_target:
        fit = "ceiling"
    if size > load.partition_bytes_max or cells > load.partition_cells_max:
        fit = "over"
    return Candidate(
        bucket=width,
        rows=rows,
        partition_bytes=size,
        cells=cells,
        read_partitions=read_partitions_of(width, read_span_s_of(load)),
        fit=fit,
    )


def candidates_of(load: Workload, row_bytes: float) -> tuple[Candidate, ...]:
    """Return what every bucket width would give, from narrow to wide."""
    return tuple(candidate_of(load, width, row_bytes) for width in BucketWidth)


def widest_within_target(load: Workload, row_bytes: float) -> BucketWidth | None:
    """Return the widest bucket whose partition stays within the target, or None."""
    fitting = [c.bucket for c in candidates_of(load, row_bytes) if c.fit == "target"]
    return fitting[-1] if fitting else None


def read_span_s_of(load: Workload) -> float:
    """Return the event time of a typical read: stated, or a day; never over the retention."""
    span_s = load.read_span_s if load.read_span_s is not None else READ_SPAN_DEFAULT_S
    return span_s if load.retention_s is None else min(span_s, load.retention_s)


def read_partitions_of(width: BucketWidth, span_s: float) -> int:
    """Return the most partitions that a read of ``span_s`` touches, wherever it starts."""
    ticks = max(round(span_s * 1_000), 1)
    if width is not BucketWidth.MONTH:
        return -(-(ticks - 1) // (width.length_s * 1_000)) + 1
    # Months differ: the most are touched by a read that starts in the last instant of one of the
    # twelve months of a common year. 2001 is one.
    return max(
        count_buckets(Interval(end - 1, end - 1 + ticks, Precision.MS), width)
        for end in _month_ends_ms()
    )


def _month_ends_ms() -> tuple[int, ...]:
    lengths = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
    start_ms = 978_307_200_000  # 2001-01-01T00:00Z
    ends, total = [], 0
    for days in lengths:
        total += days
        ends.append(start_ms + total * DAY_S * 1_000)
    return tuple(ends)


def choose(
    load: Workload, *, now_s: int, overrides: Overrides, has_blocks: bool = False
) -> Choices:
    """Return the choices for a workload.

    Raises:
        DesignError: The server lacks what the design needs, the TTL cannot be written, or no
            partition stays under the ceiling.
    """
    check_has_twcs(load.version)
    ttl_s = _choose_ttl_s(load, now_s, overrides)
    window = _choose_window(load, ttl_s, overrides)
    strategy = _choose_strategy(load, ttl_s, overrides)
    span_s = file_span_s_of(strategy, window, ttl_s)
    row_bytes = load.row_bytes if load.row_bytes is not None else exact_row_bytes(load, span_s)
    return Choices(
        workload=load,
        now_s=now_s,
        bucket=choose_bucket(load, row_bytes, overrides),
        row_bytes=row_bytes,
        ttl_s=ttl_s,
        window=window,
        gc_grace_s=_choose_grace_s(load, ttl_s, overrides),
        strategy=strategy,
        unsafe_aggressive_expiration=overrides.unsafe_aggressive_expiration,
        overridden=overridden_of(overrides),
        has_blocks=has_blocks,
    )


def file_span_s_of(strategy: Strategy, window: Window | None, ttl_s: int | None) -> int | None:
    """Return the longest time between two writes that end up in one file; None for any time."""
    if strategy is Strategy.TWCS and window is not None:
        return window.length_s
    # Without windows compaction puts the oldest rows that still live beside the newest.
    return ttl_s


def exact_row_bytes(load: Workload, span_s: int | None) -> int:
    """Return the row size by the on-disk rules, whatever the workload states."""
    return row_bytes_of(
        load.columns,
        has_ttl=load.retention_s is not None,
        span_s=span_s,
        text_bytes=load.text_bytes,
    )


def overridden_of(overrides: Overrides) -> tuple[str, ...]:
    """Return the names of the choices that the user made."""
    names = ("bucket", "window", "gc_grace_s", "ttl_s", "strategy")
    return tuple(name for name in names if getattr(overrides, name) is not None)


def _choose_ttl_s(load: Workload, now_s: int, overrides: Overrides) -> int | None:
    if load.retention_s is None:
        if overrides.ttl_s is not None:
            raise DesignError(
                f"a TTL of {overrides.ttl_s:,} s contradicts a retention for ever",
                hint="state the retention, or leave the TTL out",
            )
        return None
    ttl_s = overrides.ttl_s if overrides.ttl_s is not None else load.retention_s
    check_ttl(ttl_s, now_s, load.version, load.mode)
    refused_s = refused_from_s(ttl_s, load.version, load.mode)
    if refused_s - now_s < YEAR_S:
        cap_s = expiry_cap_s(load.version, load.mode)
        raise DesignError(
            f"writes with a TTL of {render_duration(ttl_s)} would be refused from "
            f"{render_day(refused_s)} on, in {render_duration(max(refused_s - now_s, 0))}: they "
            f"would expire after {render_day(cap_s)}, the last expiry that Cassandra "
            f"{load.version} can store",
            hint=f"a design needs a year at least: choose a retention of "
            f"{render_duration(max(cap_s - now_s - YEAR_S, 0))} or less, or Cassandra 5 in "
            "storage mode NONE, whose cap is 2106",
            refused_from_s=refused_s,
        )
    return ttl_s


def _choose_window(load: Workload, ttl_s: int | None, overrides: Overrides) -> Window | None:
    if ttl_s is None or load.retention_s is None:
        if overrides.window is not None:
            raise DesignError(
                f"windows of {overrides.window.text} without an end of retention never drop a "
                "file, and there would be more of them every day",
                hint="state a retention, or leave the window out",
            )
        return None
    return overrides.window.over(ttl_s) if overrides.window is not None else plan_window(ttl_s)


def _choose_strategy(load: Workload, ttl_s: int | None, overrides: Overrides) -> Strategy:
    if overrides.strategy is Strategy.UCS and not load.version.has_ucs:
        raise DesignError(
            f"Cassandra {load.version} has no UnifiedCompactionStrategy: it exists from 5.0 on",
            hint="use STCS, or design for 5.0",
        )
    if overrides.strategy is Strategy.TWCS and ttl_s is None:
        raise DesignError(
            "TWCS without a TTL never drops a file, keeps one more file for every window that "
            "passes, and Cassandra 5 warns about the table or refuses it (zero_ttl_on_twcs)",
            hint="state a retention, or leave the strategy to the design",
        )
    if overrides.strategy is not None:
        return overrides.strategy
    if ttl_s is not None and load.is_append_only:
        return Strategy.TWCS
    return Strategy.UCS if load.version.has_ucs else Strategy.STCS


def _choose_grace_s(load: Workload, ttl_s: int | None, overrides: Overrides) -> int:
    if overrides.gc_grace_s is not None:
        return overrides.gc_grace_s
    if ttl_s is None or not load.is_append_only:
        repair_s = load.repair_every_s
        return max(GRACE_DEFAULT_S, 0 if repair_s is None else repair_s + REPAIR_MARGIN_S)
    return appended_grace_s(ttl_s)


def appended_grace_s(ttl_s: int) -> int:
    """Return the grace of a table that is only appended to: a seventh of its TTL, 3 to 24 hours."""
    return min(max(ttl_s // 7, HINT_WINDOW_S), GRACE_MAX_S)


def choose_bucket(load: Workload, row_bytes: float, overrides: Overrides) -> BucketWidth:
    """Return the widest width within the target, or what the user chose under the ceiling.

    Raises:
        DesignError: It is over the ceiling; says what would fit.
    """
    if overrides.bucket == "none":
        raise _unbucketed(load, row_bytes)
    if overrides.bucket is not None:
        candidate = candidate_of(load, overrides.bucket, row_bytes)
    else:
        width = widest_within_target(load, row_bytes)
        candidate = candidate_of(load, width or BucketWidth.MINUTE, row_bytes)
    if candidate.fit == "over":
        raise _over_ceiling(load, candidate, row_bytes)
    return candidate.bucket


def _over_ceiling(load: Workload, candidate: Candidate, row_bytes: float) -> DesignError:
    return DesignError(
        f"a partition of one {candidate.bucket} at {render_rate(load.sizing_rate_hz)} would hold "
        f"{candidate.rows:,} rows, {candidate.cells:,} cells, "
        f"{render_bytes(candidate.partition_bytes)}: over the ceiling of "
        f"{render_bytes(load.partition_bytes_max)} and {load.partition_cells_max:,} cells",
        hint=what_fits(load, row_bytes),
        rows=candidate.rows,
        cells=candidate.cells,
        partition_bytes=candidate.partition_bytes,
    )


def _unbucketed(load: Workload, row_bytes: float) -> DesignError:
    length_s = load.retention_s if load.retention_s is not None else YEAR_S
    rows = rows_of(load.sizing_rate_hz, length_s)
    size = rows * row_bytes
    over = size > load.partition_bytes_max or rows * len(load.columns) > load.partition_cells_max
    why = (
        f"over the ceiling of {render_bytes(load.partition_bytes_max)} and "
        f"{load.partition_cells_max:,} cells"
        if over
        else "and it would never be finished: every file of every window holds a part of it"
    )
    return DesignError(
        f"one partition a series without a bucket would hold {rows:,} rows, "
        f"{render_bytes(size)}, after {render_duration(length_s)}: {why}",
        hint=what_fits(load, row_bytes),
        rows=rows,
        partition_bytes=size,
    )


def what_fits(load: Workload, row_bytes: float) -> str:
    """Return advice: the widest width within the target, else under the ceiling, else more."""
    candidates = candidates_of(load, row_bytes)
    for fit, words in (("target", "within the target"), ("ceiling", "under the ceiling")):
        fitting = [c for c in candidates if c.fit == fit]
        if fitting:
            best = fitting[-1]
            return (
                f"the widest {words} is {best.bucket}: {best.rows:,} rows, "
                f"{render_bytes(best.partition_bytes)}"
            )
    rate_hz = min(
        load.partition_bytes_max / row_bytes / BucketWidth.MINUTE.length_s,
        load.partition_cells_max / len(load.columns) / BucketWidth.MINUTE.length_s,
    )
    return (
        f"no width fits: even 1min is over; split the series (up to {rate_hz:,.0f}/s each), "
        "or aggregate before writing"
    )
