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

from treering.core.bucket import Bucket
from treering.core.columns import BoolArray, ColumnData
from treering.core.schema import Column
from treering.core.table import TableSpec
from treering.core.times import render_ts
from treering.core.widths import History
from treering.core.write_cuts import Cuts, cut
from treering.core.write_input import (
    WriteInput,
    WriteInputs,
    edges_of_codes,
    edges_within,
    inputs_of_one,
    within_codes,
)

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
    reason = _reasons(spec, inputs, now_ts)
    chosen = _choose(inputs, reason, duplicates)
    ts = inputs.ts[chosen.places]
    cuts = cut(spec, inputs.series, ts, chosen.edges, now_ts=now_ts, widths=widths or {})
    writes = list(_partition_writes(inputs, chosen, ts, cuts, write_us))
    return tuple(_plans_of(spec, inputs, reason, chosen, cuts, writes))


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
    tests: dict[Reason, BoolArray | np.bool_] = {
        Reason.NO_TIME: ~inputs.timed,
        Reason.FINER: inputs.finer if spec.finer == "refuse" else np.False_,
        # A lifetime under one second is never sent: it would round to 0, which means for ever.
        Reason.EXPIRED: (
            inputs.ts < spec.oldest_ts(now_ts) + per_s
            if spec.retention_s is not None
            else np.False_
        ),
        Reason.FUTURE: inputs.ts > now_ts + spec.future_limit_s * per_s,
        Reason.VALUE: inputs.unfit,
        Reason.EMPTY: ~inputs.has_value(),
    }
    reason = np.full(len(inputs), -1, dtype=np.int8)
    for kind, holds in tests.items():
        if holds.any():
            reason[(reason < 0) & holds] = REASONS.index(kind)
    return reason


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chosen:
    """Readings to write.

    Attributes:
        places: Where they stand in the input, by series, then event time; a slice where they
            stand so already and all are written.
        edges: Where each series starts among them, and where the last one ends.
        repeats: How many readings of each series equal one of them.
    """

    places: slice | npt.NDArray[np.intp]
    edges: npt.NDArray[np.int64]
    repeats: list[int]


def _choose(inputs: WriteInputs, reason: npt.NDArray[np.int8], duplicates: Duplicates) -> _Chosen:
    """Return what is written of readings that are not refused; marks collisions in ``reason``."""
    places, edges = _by_time(inputs), inputs.edges
    is_good = reason[places] < 0
    if not is_good.all():
        places, edges = _picked(places, edges, is_good)
    ts = inputs.ts[places]
    is_same = within_codes(edges, ts[1:] == ts[:-1])
    if not is_same.any():
        return _Chosen(places=places, edges=edges, repeats=[0] * len(inputs.series))
    places = np.arange(len(inputs))[places]
    is_kept, is_repeat = _of_one_time(inputs, places, is_same, reason, duplicates)
    repeats = _counts(is_repeat, edges)
    places, edges = _picked(places, edges, is_kept)
    return _Chosen(places=places, edges=edges, repeats=repeats)


def _by_time(inputs: WriteInputs) -> slice | npt.NDArray[np.intp]:
    """Return places by series, then event time, then place."""
    if within_codes(inputs.edges, inputs.ts[1:] < inputs.ts[:-1]).any():
        return np.lexsort((inputs.ts, inputs.codes()))
    return slice(None)


def _picked(
    places: slice | npt.NDArray[np.intp], edges: npt.NDArray[np.int64], mask: BoolArray
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.int64]]:
    """Return those of the places for which the mask holds, and where series start among them."""
    taken = np.flatnonzero(mask)
    return taken if isinstance(places, slice) else places[taken], edges_within(edges, taken)


def _of_one_time(
    inputs: WriteInputs,
    places: npt.NDArray[np.intp],
    is_same: BoolArray,
    reason: npt.NDArray[np.int8],
    duplicates: Duplicates,
) -> tuple[BoolArray, BoolArray]:
    """Return which readings to write, and which repeat another; marks collisions in ``reason``.

    Args:
        inputs: The readings.
        places: Those to decide on, by series, then event time.
        is_same: Whether each has series and event time of the one before it.
        reason: Why readings are refused.
        duplicates: What becomes of readings with one event time and other values.
    """
    differs = np.zeros(len(places), dtype=np.bool_)
    differs[1:] = is_same[1:] & ~_equal_rows(inputs, places[1:], places[:-1])
    group = np.cumsum(~is_same) - 1
    in_conflict = np.zeros(group[-1] + 1, dtype=np.bool_)
    in_conflict[group[differs]] = True
    if duplicates == "refuse":
        is_refused = in_conflict[group]
        reason[places[is_refused]] = REASONS.index(Reason.COLLISION)
        return ~is_same & ~is_refused, is_same & ~is_refused
    is_kept = ~is_same
    if duplicates == "last":
        is_kept = np.ones(len(places), dtype=np.bool_)
        is_kept[:-1] = ~is_same[1:]
    return is_kept, ~is_kept


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


def _partition_writes(
    inputs: WriteInputs,
    chosen: _Chosen,
    ts: npt.NDArray[np.int64],
    cuts: Cuts,
    write_us: int,
) -> Iterator[PartitionWrite]:
    """Yield a write for each cut; they share memory."""
    columns = {name: data.take(chosen.places) for name, data in inputs.columns.items()}
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
    reason: npt.NDArray[np.int8],
    chosen: _Chosen,
    cuts: Cuts,
    writes: list[PartitionWrite],
) -> Iterator[WritePlan]:
    """Yield the plan of each series."""
    refused = np.flatnonzero(reason >= 0)
    index = refused if inputs.index is None else inputs.index[refused]
    reason, ts = reason[refused], inputs.ts[refused]
    per_series = zip(
        inputs.series,
        itertools.pairwise(edges_of_codes(cuts.code, len(inputs.series)).tolist()),
        itertools.pairwise(edges_within(inputs.edges, refused).tolist()),
        _counts(inputs.finer[chosen.places], chosen.edges),
        chosen.repeats,
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


def _counts(mask: BoolArray, edges: npt.NDArray[np.int64]) -> list[int]:
    """Return for how many readings of each series the mask holds."""
    # Most often it holds for none, and a write of one reading has no time for more.
    if not mask.any():
        return [0] * (len(edges) - 1)
    counts: list[int] = np.diff(edges_within(edges, np.flatnonzero(mask))).tolist()
    return counts


def unselected(columns: tuple[Column, ...], given: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names that were given and are no column of the table."""
    known = {column.name for column in columns}
    return tuple(name for name in given if name not in known)
