"""Which readings are written where, and which are refused and why, decided before sending.

Rules of this file: nothing is dropped silently: every reading is in exactly one partition write
or in the refusals or among the repeats of an equal reading; every partition write holds readings
of one (series, bucket) and one lifetime; everything is arrays.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from treering.core.bucket import Bucket, bucket_end_s
from treering.core.columns import BoolArray, ColumnData
from treering.core.expiry import TTL_MAX_S, ttls_for_ages
from treering.core.schema import Column
from treering.core.table import TableSpec
from treering.core.times import render_ts
from treering.core.widths import History, place

Duplicates = Literal["refuse", "first", "last"]


class Reason(enum.StrEnum):
    """Why a reading was refused."""

    NO_TIME = "no time, or outside the years that the table takes"
    FINER = "finer than the table's precision"
    EXPIRED = "older than the retention"
    FUTURE = "too far ahead of now"
    VALUE = "a value that its column's type cannot hold exactly"
    EMPTY = "no value in any column"
    COLLISION = "the same event time as another reading of this call, with other values"


# The order is the precedence: a reading is refused once, for the first reason that holds.
REASONS: Final = tuple(Reason)


@dataclass(frozen=True, slots=True)
class Refusal:
    """One reading that was refused.

    Attributes:
        index: Its place in the input, from 0.
        series: Its series.
        time: Its event time as text; empty where it has none.
        reason: Why.
    """

    index: int
    series: str
    time: str
    reason: Reason

    def __str__(self) -> str:
        return f"reading {self.index} of {self.series} at {self.time or 'no time'}: {self.reason}"


@dataclass(frozen=True, slots=True)
class PartitionWrite:
    """Readings of one partition and one lifetime, by ascending event time, each time once.

    Attributes:
        series: The series id.
        bucket: The bucket.
        ts: Event times in ticks of the table's precision, int64, shape (n,).
        columns: Values, n each; only columns that have a value.
        write_us: The write time of every cell.
        ttl_s: The lifetime to send; None for the table's default.
    """

    series: str
    bucket: Bucket
    ts: npt.NDArray[np.int64]
    columns: Mapping[str, ColumnData]
    write_us: int
    ttl_s: int | None

    def __len__(self) -> int:
        return len(self.ts)

    @property
    def name(self) -> str:
        """The partition as people say it: ``pump-7/2025-11-20``."""
        return f"{self.series}/{self.bucket.text}"

    def split(self, rows_max: int) -> Iterator[PartitionWrite]:
        """Yield this write in parts of at most ``rows_max`` readings; parts share memory."""
        for start in range(0, len(self), rows_max):
            part = slice(start, start + rows_max)
            yield replace(
                self,
                ts=self.ts[part],
                columns={name: data.take(part) for name, data in self.columns.items()},
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePlan:
    """A write of one series, planned.

    Attributes:
        writes: What is sent.
        refused_index: Places of refused readings in the input, ascending, int64.
        refused_reason: Index into ``tuple(Reason)`` for each, int8.
        refused_ts: Their event times, int64; 0 where there is none.
        floored: How many accepted readings were finer than the precision.
        repeats: How many readings equal another of this call, and are covered by it.
    """

    spec: TableSpec
    series: str
    writes: tuple[PartitionWrite, ...]
    refused_index: npt.NDArray[np.int64]
    refused_reason: npt.NDArray[np.int8]
    refused_ts: npt.NDArray[np.int64]
    floored: int = 0
    repeats: int = 0

    @property
    def rows(self) -> int:
        """Readings that are sent."""
        return sum(len(write) for write in self.writes)

    def refusals(self) -> Iterator[Refusal]:
        """Yield every refused reading with its reason."""
        precision = self.spec.precision
        for index, code, ts in zip(
            self.refused_index.tolist(),
            self.refused_reason.tolist(),
            self.refused_ts.tolist(),
            strict=True,
        ):
            reason = REASONS[code]
            time = "" if reason is Reason.NO_TIME else render_ts(ts, precision)
            yield Refusal(index, self.series, time, reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteInput:
    """Readings of one series as arrays of one length, conversions done.

    Attributes:
        series: The series id.
        ts: Event times in ticks of the table's precision.
        timed: Whether each has an event time that the table takes.
        finer: Whether each was finer than the precision, and floored.
        columns: Values by column.
        unfit: Whether some value of the reading does not fit its column.
    """

    series: str
    ts: npt.NDArray[np.int64]
    timed: BoolArray
    finer: BoolArray
    columns: Mapping[str, ColumnData]
    unfit: BoolArray
    index: npt.NDArray[np.int64] | None = field(default=None)


def plan_write(
    spec: TableSpec,
    readings: WriteInput,
    *,
    now_ts: int,
    write_us: int,
    duplicates: Duplicates = "refuse",
    widths: History = (),
) -> WritePlan:
    """Plan one write of one series.

    Args:
        spec: The table.
        readings: What is to be written.
        now_ts: The present, in the table's precision: decides expiry, lateness and the future.
        write_us: The write time of every cell.
        duplicates: What becomes of readings of this call with one event time and other values:
            all refused, or the first or the last kept.
        widths: The widths of the series, where it does not simply have the table's.
    """
    spec.layout.values_of(readings.series)
    readings = _as_stored(spec, readings)
    reason = _reasons(spec, readings, now_ts)
    order = np.lexsort((np.arange(len(reason)), readings.ts))
    order = order[reason[order] < 0]
    kept, repeats = _without_duplicates(readings, order, reason, duplicates)
    refused = np.flatnonzero(reason >= 0)
    index = readings.index if readings.index is not None else np.arange(len(reason))
    return WritePlan(
        spec=spec,
        series=readings.series,
        writes=tuple(_partition_writes(spec, readings, kept, now_ts, write_us, widths)),
        refused_index=index[refused].astype(np.int64),
        refused_reason=reason[refused],
        refused_ts=readings.ts[refused],
        floored=int(readings.finer[kept].sum()),
        repeats=repeats,
    )


def _as_stored(spec: TableSpec, readings: WriteInput) -> WriteInput:
    """Floor event times to what the time column counts, and mark those that it cannot hold."""
    time = spec.layout.time
    step, (start, end) = time.step, time.range
    timed = readings.timed & (readings.ts >= start) & (readings.ts < end)
    if step == 1:
        return replace(readings, timed=timed)
    rest = readings.ts % step
    return replace(readings, ts=readings.ts - rest, timed=timed, finer=readings.finer | (rest != 0))


def _reasons(spec: TableSpec, readings: WriteInput, now_ts: int) -> npt.NDArray[np.int8]:
    per_s = spec.precision.per_s
    present = np.zeros(len(readings.ts), dtype=np.bool_)
    for data in readings.columns.values():
        present |= data.mask()
    tests: dict[Reason, Any] = {
        Reason.NO_TIME: ~readings.timed,
        Reason.FINER: readings.finer & (spec.finer == "refuse"),
        # A lifetime under one second is never sent: it would round to 0, which means for ever.
        Reason.EXPIRED: (
            readings.ts < spec.oldest_ts(now_ts) + per_s
            if spec.retention_s is not None
            else np.False_
        ),
        Reason.FUTURE: readings.ts > now_ts + spec.future_limit_s * per_s,
        Reason.VALUE: readings.unfit,
        Reason.EMPTY: ~present,
    }
    reason = np.full(len(readings.ts), -1, dtype=np.int8)
    for kind, holds in tests.items():
        reason[(reason < 0) & holds] = REASONS.index(kind)
    return reason


def _without_duplicates(
    readings: WriteInput,
    order: npt.NDArray[np.intp],
    reason: npt.NDArray[np.int8],
    duplicates: Duplicates,
) -> tuple[npt.NDArray[np.intp], int]:
    """Return places to write, by event time, and how many repeat another one.

    Marks collisions in ``reason``.
    """
    ts = readings.ts[order]
    same_as_before = np.zeros(len(order), dtype=np.bool_)
    same_as_before[1:] = ts[1:] == ts[:-1]
    if not same_as_before.any():
        return order, 0
    differs = np.zeros(len(order), dtype=np.bool_)
    differs[1:] = same_as_before[1:] & ~_equal_rows(readings, order[1:], order[:-1])
    group = np.cumsum(~same_as_before) - 1
    in_conflict = np.zeros(group[-1] + 1, dtype=np.bool_)
    in_conflict[group[differs]] = True
    if duplicates == "refuse":
        refused = in_conflict[group]
        reason[order[refused]] = REASONS.index(Reason.COLLISION)
        keep = ~same_as_before & ~refused
        return order[keep], int((same_as_before & ~refused).sum())
    keep = ~same_as_before
    if duplicates == "last":
        keep = np.ones(len(order), dtype=np.bool_)
        keep[:-1] = ~same_as_before[1:]
    return order[keep], int((~keep).sum())


def _equal_rows(
    readings: WriteInput, one: npt.NDArray[np.intp], other: npt.NDArray[np.intp]
) -> BoolArray:
    equal = np.ones(len(one), dtype=np.bool_)
    for data in readings.columns.values():
        mask = data.mask()
        a, b = data.values[one], data.values[other]
        same = np.asarray(a == b, dtype=np.bool_)
        if data.values.dtype.kind == "f":
            # Bit for bit: NaN equals itself, and -0.0 is not 0.0.
            bits = np.dtype(f"i{data.values.dtype.itemsize}")
            same = data.values.view(bits)[one] == data.values.view(bits)[other]
        equal &= (mask[one] == mask[other]) & (same | ~mask[one])
    return equal


def _partition_writes(
    spec: TableSpec,
    readings: WriteInput,
    kept: npt.NDArray[np.intp],
    now_ts: int,
    write_us: int,
    widths: History,
) -> Iterator[PartitionWrite]:
    if not len(kept):
        return
    ts = readings.ts[kept]
    placed = place(ts, widths, spec.width, spec.precision)
    ttl_s = _lifetimes_s(spec, ts, now_ts)
    # Event time ascends, so pieces and their buckets do; a lifetime may change within a bucket.
    order = np.lexsort((ts, ttl_s, placed.start_s, placed.piece))
    kept, ts, ttl_s = kept[order], ts[order], ttl_s[order]
    start_s, piece = placed.start_s[order], placed.piece[order]
    is_change = (np.diff(piece) != 0) | (np.diff(start_s) != 0) | (np.diff(ttl_s) != 0)
    changes = np.flatnonzero(is_change) + 1
    edges = [0, *changes.tolist(), len(ts)]
    for first, end in itertools.pairwise(edges):
        where = kept[first:end]
        taken = {name: data.take(where) for name, data in readings.columns.items()}
        bucket_s, lifetime_s = int(start_s[first]), int(ttl_s[first])
        width = placed.widths[int(piece[first])]
        yield PartitionWrite(
            series=readings.series,
            bucket=Bucket(bucket_s, bucket_end_s(bucket_s, width), width),
            ts=ts[first:end],
            columns={n: d for n, d in taken.items() if d.present is None or d.present.any()},
            write_us=write_us,
            ttl_s=lifetime_s or None,
        )


def _lifetimes_s(spec: TableSpec, ts: npt.NDArray[np.int64], now_ts: int) -> npt.NDArray[np.int64]:
    """Return the lifetime to send with each reading; 0 for the table's default.

    A reading older than one window gets what remains of its retention, rounded up to a window,
    so that it does not outlive its neighbours by a whole retention. One from the future gets the
    retention plus the most it can be ahead, so that it does not die before its time.
    """
    if spec.retention_s is None or spec.window_s is None:
        return np.zeros(len(ts), dtype=np.int64)
    age_s = (now_ts - ts) // spec.precision.per_s
    lifetimes, _ = ttls_for_ages(age_s, spec.retention_s, spec.window_s)
    # Lifetimes count whole seconds, so what is less than one ahead is on time.
    lifetimes[ts >= now_ts + spec.precision.per_s] = min(
        spec.retention_s + spec.future_limit_s, TTL_MAX_S
    )
    lifetimes[lifetimes == (spec.default_ttl_s or 0)] = 0
    return lifetimes


def unselected(columns: tuple[Column, ...], given: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names that were given and are no column of the table."""
    known = {column.name for column in columns}
    return tuple(name for name in given if name not in known)
