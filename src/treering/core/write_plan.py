"""Which readings are written where, and which are refused and why, decided before sending.

Rules of this file: nothing is dropped silently: every reading is in exactly one partition write
or in the refusals or among the repeats of an equal reading; every partition write holds readings
of one (series, bucket) and one lifetime; everything is arrays.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from treering.core.bucket import Bucket, bucket_end_s
from treering.core.columns import BoolArray, ColumnData
from treering.core.expiry import TTL_MAX_S, ttls_for_ages
from treering.core.schema import Column
from treering.core.table import TableSpec
from treering.core.times import render_ts
from treering.core.widths import History, Placed, place
from treering.core.write_input import WriteInput, WriteInputs, edges_of_codes, inputs_of_one

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
        if len(self) <= rows_max:
            yield self
            return
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


def plan_write(
    spec: TableSpec,
    readings: WriteInput,
    *,
    now_ts: int,
    write_us: int,
    duplicates: Duplicates = "refuse",
    widths: History = (),
) -> WritePlan:
    """Plan one write of one series; as :func:`plan_writes`."""
    (plan,) = plan_writes(
        spec,
        inputs_of_one(readings),
        now_ts=now_ts,
        write_us=write_us,
        duplicates=duplicates,
        widths={readings.series: widths},
    )
    return plan


def plan_writes(
    spec: TableSpec,
    inputs: WriteInputs,
    *,
    now_ts: int,
    write_us: int,
    duplicates: Duplicates = "refuse",
    widths: Mapping[str, History] | None = None,
) -> tuple[WritePlan, ...]:
    """Plan one write of many series: what to send and what to refuse of each, in their order.

    The plan of a series does not depend on those beside it. Everything is worked out for all
    readings at once and cut into partitions last, so that many small series cost little.

    Args:
        spec: The table.
        inputs: What is to be written. Where its readings ascend in time and none is refused, the
            plans share its memory.
        now_ts: The present, in the table's precision: decides expiry, lateness and the future.
        write_us: The write time of every cell.
        duplicates: What becomes of readings of this call with one event time and other values:
            all refused, or the first or the last kept.
        widths: The widths of those series that do not simply have the table's.
    """
    layout = spec.layout
    for name in inputs.series:
        layout.values_of(name)
    inputs = _as_stored(spec, inputs)
    code = inputs.codes()
    reason = _reasons(spec, inputs, now_ts)
    order = _by_time(inputs.ts, code)
    if bool((reason >= 0).any()):
        order = order[reason[order] < 0]
    kept, repeats = _without_duplicates(inputs, code, order, reason, duplicates)
    cuts = _cuts_of(spec, inputs, kept, code[kept], now_ts, widths or {})
    writes = list(_partition_writes(inputs, cuts, write_us))
    return tuple(_plans_of(spec, inputs, code, reason, cuts, writes, repeats))


def _as_stored(spec: TableSpec, inputs: WriteInputs) -> WriteInputs:
    """Floor event times to what the time column counts, and mark those that it cannot hold."""
    time = spec.layout.time
    step, (start, end) = time.step, time.range
    timed = inputs.timed & (inputs.ts >= start) & (inputs.ts < end)
    if step == 1:
        return replace(inputs, timed=timed)
    rest = inputs.ts % step
    return replace(inputs, ts=inputs.ts - rest, timed=timed, finer=inputs.finer | (rest != 0))


def _reasons(spec: TableSpec, inputs: WriteInputs, now_ts: int) -> npt.NDArray[np.int8]:
    per_s = spec.precision.per_s
    present = np.zeros(len(inputs), dtype=np.bool_)
    for data in inputs.columns.values():
        present |= data.mask()
    tests: dict[Reason, Any] = {
        Reason.NO_TIME: ~inputs.timed,
        Reason.FINER: inputs.finer & (spec.finer == "refuse"),
        # A lifetime under one second is never sent: it would round to 0, which means for ever.
        Reason.EXPIRED: (
            inputs.ts < spec.oldest_ts(now_ts) + per_s
            if spec.retention_s is not None
            else np.False_
        ),
        Reason.FUTURE: inputs.ts > now_ts + spec.future_limit_s * per_s,
        Reason.VALUE: inputs.unfit,
        Reason.EMPTY: ~present,
    }
    reason = np.full(len(inputs), -1, dtype=np.int8)
    for kind, holds in tests.items():
        reason[(reason < 0) & holds] = REASONS.index(kind)
    return reason


def _by_time(ts: npt.NDArray[np.int64], code: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
    """Return places by series, then event time, then place."""
    if bool(((ts[1:] >= ts[:-1]) | (code[1:] != code[:-1])).all()):
        return np.arange(len(ts))
    return np.lexsort((ts, code))


def _without_duplicates(
    inputs: WriteInputs,
    code: npt.NDArray[np.int64],
    order: npt.NDArray[np.intp],
    reason: npt.NDArray[np.int8],
    duplicates: Duplicates,
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return places to write, in the order given, and places that repeat another one.

    Marks collisions in ``reason``.
    """
    ts, of = inputs.ts[order], code[order]
    same_as_before = np.zeros(len(order), dtype=np.bool_)
    same_as_before[1:] = (ts[1:] == ts[:-1]) & (of[1:] == of[:-1])
    if not same_as_before.any():
        return order, order[:0]
    differs = np.zeros(len(order), dtype=np.bool_)
    differs[1:] = same_as_before[1:] & ~_equal_rows(inputs, order[1:], order[:-1])
    group = np.cumsum(~same_as_before) - 1
    in_conflict = np.zeros(group[-1] + 1, dtype=np.bool_)
    in_conflict[group[differs]] = True
    if duplicates == "refuse":
        refused = in_conflict[group]
        reason[order[refused]] = REASONS.index(Reason.COLLISION)
        return order[~same_as_before & ~refused], order[same_as_before & ~refused]
    keep = ~same_as_before
    if duplicates == "last":
        keep = np.ones(len(order), dtype=np.bool_)
        keep[:-1] = ~same_as_before[1:]
    return order[keep], order[~keep]


def _equal_rows(
    inputs: WriteInputs, one: npt.NDArray[np.intp], other: npt.NDArray[np.intp]
) -> BoolArray:
    equal = np.ones(len(one), dtype=np.bool_)
    for data in inputs.columns.values():
        mask = data.mask()
        a, b = data.values[one], data.values[other]
        same = np.asarray(a == b, dtype=np.bool_)
        if data.values.dtype.kind == "f":
            # Bit for bit: NaN equals itself, and -0.0 is not 0.0.
            bits = np.dtype(f"i{data.values.dtype.itemsize}")
            same = data.values.view(bits)[one] == data.values.view(bits)[other]
        equal &= (mask[one] == mask[other]) & (same | ~mask[one])
    return equal


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cuts:
    """Readings to write, cut where series, bucket or lifetime change.

    Attributes:
        kept: Places of the readings, those of one cut together and by ascending event time.
        starts: Where each cut starts in ``kept``.
        code: The place of its series.
        buckets: Its bucket.
        ttl_s: Its lifetime; 0 for the table's default.
    """

    kept: npt.NDArray[np.intp]
    starts: npt.NDArray[np.intp]
    code: npt.NDArray[np.int64]
    buckets: list[Bucket]
    ttl_s: list[int]


def _cuts_of(
    spec: TableSpec,
    inputs: WriteInputs,
    kept: npt.NDArray[np.intp],
    code: npt.NDArray[np.int64],
    now_ts: int,
    widths: Mapping[str, History],
) -> _Cuts:
    """Cut readings that stand by series and event time."""
    ts = inputs.ts[kept]
    placed = _placed(spec, inputs.series, ts, code, widths)
    ttl_s = _lifetimes_s(spec, ts, now_ts)
    is_start = np.ones(len(ts), dtype=np.bool_)
    is_start[1:] = _changes(code) | _changes(placed.piece) | _changes(placed.start_s)
    # Event time ascends, so pieces and their buckets do; a lifetime may fall within a bucket.
    if bool((~is_start[1:] & (ttl_s[1:] < ttl_s[:-1])).any()):
        order = np.lexsort((ts, ttl_s, placed.start_s, placed.piece, code))
        kept, ttl_s = kept[order], ttl_s[order]
    is_start[1:] |= _changes(ttl_s)
    starts = np.flatnonzero(is_start)
    return _Cuts(
        kept=kept,
        starts=starts,
        code=code[starts],
        buckets=_buckets_of(placed, starts),
        ttl_s=ttl_s[starts].tolist(),
    )


def _changes(values: npt.NDArray[np.int64]) -> BoolArray:
    """Return whether each value but the first differs from the one before it."""
    changes: BoolArray = values[1:] != values[:-1]
    return changes


def _placed(
    spec: TableSpec,
    series: tuple[str, ...],
    ts: npt.NDArray[np.int64],
    code: npt.NDArray[np.int64],
    widths: Mapping[str, History],
) -> Placed:
    """Return the piece and the bucket of readings of many series; pieces count over all series."""
    placed = place(ts, (), spec.width, spec.precision)
    own = [number for number, name in enumerate(series) if widths.get(name)] if widths else []
    if not own:
        return placed
    pieces = list(placed.widths)
    first, end = (np.searchsorted(code, own, side=side).tolist() for side in ("left", "right"))
    for number, *edges in zip(own, first, end, strict=True):
        part = slice(*edges)
        one = place(ts[part], widths[series[number]], spec.width, spec.precision)
        placed.piece[part] = one.piece + len(pieces)
        placed.start_s[part] = one.start_s
        pieces += one.widths
    return Placed(placed.piece, placed.start_s, tuple(pieces))


def _buckets_of(placed: Placed, places: npt.NDArray[np.intp]) -> list[Bucket]:
    # Many series have few buckets between them.
    made: dict[tuple[int, int], Bucket] = {}
    buckets = []
    for key in zip(placed.start_s[places].tolist(), placed.piece[places].tolist(), strict=True):
        bucket = made.get(key)
        if bucket is None:
            start_s, width = key[0], placed.widths[key[1]]
            bucket = made[key] = Bucket(start_s, bucket_end_s(start_s, width), width)
        buckets.append(bucket)
    return buckets


def _partition_writes(inputs: WriteInputs, cuts: _Cuts, write_us: int) -> Iterator[PartitionWrite]:
    """Yield a write for each cut; they share memory."""
    ts, columns = inputs.ts, dict(inputs.columns)
    if len(cuts.kept) < len(ts) or bool((cuts.kept != np.arange(len(ts))).any()):
        ts = ts[cuts.kept]
        columns = {name: data.take(cuts.kept) for name, data in columns.items()}
    edges = itertools.pairwise([*cuts.starts.tolist(), len(ts)])
    parts = zip(edges, cuts.code.tolist(), cuts.buckets, cuts.ttl_s, strict=True)
    for (start, end), code, bucket, ttl_s in parts:
        part = slice(start, end)
        taken = {name: data.take(part) for name, data in columns.items()}
        yield PartitionWrite(
            series=inputs.series[code],
            bucket=bucket,
            ts=ts[part],
            columns={n: d for n, d in taken.items() if d.present is None or d.present.any()},
            write_us=write_us,
            ttl_s=ttl_s or None,
        )


def _plans_of(
    spec: TableSpec,
    inputs: WriteInputs,
    code: npt.NDArray[np.int64],
    reason: npt.NDArray[np.int8],
    cuts: _Cuts,
    writes: list[PartitionWrite],
    repeats: npt.NDArray[np.intp],
) -> Iterator[WritePlan]:
    """Yield the plan of each series."""
    count = len(inputs.series)
    refused = np.flatnonzero(reason >= 0)
    index = refused if inputs.index is None else inputs.index[refused]
    reason, ts = reason[refused], inputs.ts[refused]
    floored = cuts.kept[inputs.finer[cuts.kept]]
    per_series = zip(
        inputs.series,
        itertools.pairwise(edges_of_codes(cuts.code, count).tolist()),
        itertools.pairwise(edges_of_codes(code[refused], count).tolist()),
        _counts(code[floored], count),
        _counts(code[repeats], count),
        strict=True,
    )
    for name, sent, left, floored_count, repeats_count in per_series:
        part = slice(*left)
        yield WritePlan(
            spec=spec,
            series=name,
            writes=tuple(writes[slice(*sent)]),
            refused_index=index[part],
            refused_reason=reason[part],
            refused_ts=ts[part],
            floored=floored_count,
            repeats=repeats_count,
        )


def _counts(codes: npt.NDArray[np.int64], count: int) -> list[int]:
    """Return how often each of ``count`` codes stands there."""
    # Most often there is nothing to count, and a write of one reading has no time for it.
    return np.bincount(codes, minlength=count).tolist() if len(codes) else [0] * count


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
