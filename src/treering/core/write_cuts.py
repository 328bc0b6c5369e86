"""Where readings of a write are cut: a partition write is of one series, bucket and lifetime.

Rules of this file: every cut is of one series, one bucket and one lifetime, and no two cuts are of
the same but around a narrower width that held for a while inside a bucket; every reading is asked
only whether a cut may start at it, and what it is of is worked out for those alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from treering.core.bucket import Bucket, BucketWidth, bucket_end_s
from treering.core.columns import BoolArray
from treering.core.expiry import TTL_MAX_S, ttls_for_ages
from treering.core.table import TableSpec
from treering.core.units import DAY_S
from treering.core.widths import History, Placed, place
from treering.core.write_input import codes_at, edges_within


@dataclass(frozen=True, slots=True, kw_only=True)
class Cuts:
    """Where series, bucket or lifetime change in readings by series, then event time.

    Attributes:
        starts: Where each cut starts, ascending.
        code: The place of its series.
        buckets: Its bucket.
        ttl_s: Its lifetime; 0 for the table's default.
    """

    starts: npt.NDArray[np.intp]
    code: npt.NDArray[np.int64]
    buckets: list[Bucket]
    ttl_s: list[int]


def cut(
    spec: TableSpec,
    series: tuple[str, ...],
    ts: npt.NDArray[np.int64],
    edges: npt.NDArray[np.int64],
    *,
    now_ts: int,
    widths: Mapping[str, History],
) -> Cuts:
    """Cut readings.

    Args:
        spec: The table.
        series: The series.
        ts: Event times in ticks, by series, then ascending; within retention and future limit.
        edges: Where those of each series start, and where the last ones end.
        now_ts: The present.
        widths: The widths of those series that do not simply have the table's.
    """
    starts = np.flatnonzero(_may_start(spec, series, ts, edges, now_ts, widths))
    ts, code = ts[starts], codes_at(edges, starts)
    placed = _placed(spec, series, ts, edges_within(edges, starts), widths)
    ttl_s = _lifetimes_s(spec, ts, now_ts)
    is_start = np.ones(len(starts), dtype=np.bool_)
    is_start[1:] = (
        _changes(code) | _changes(placed.piece) | _changes(placed.start_s) | _changes(ttl_s)
    )
    # Event time ascends in a series, and so do pieces, buckets and lifetimes.
    return Cuts(
        starts=starts[is_start],
        code=code[is_start],
        buckets=_buckets_of(placed, np.flatnonzero(is_start)),
        ttl_s=ttl_s[is_start].tolist(),
    )


def _may_start(
    spec: TableSpec,
    series: tuple[str, ...],
    ts: npt.NDArray[np.int64],
    edges: npt.NDArray[np.int64],
    now_ts: int,
    widths: Mapping[str, History],
) -> BoolArray:
    """Return whether a cut may start at each reading; false only where none does."""
    per_s = spec.precision.per_s
    step = ts // (_step_s(spec.width, ()) * per_s)
    for name, part in _parts_of_own(series, edges, widths):
        step[part] = ts[part] // (_step_s(spec.width, widths[name]) * per_s)
    may_start = np.zeros(len(ts) + 1, dtype=np.bool_)
    may_start[1:-1] = _changes(step)
    for numbers in _lifetime_numbers(spec, ts, now_ts):
        may_start[1:-1] |= _changes(numbers)
    may_start[edges] = True
    return may_start[:-1]


def _step_s(default: BucketWidth, history: History) -> int:
    """Return a length that every bucket and every change of width starts at a multiple of."""
    widths = (default, *(change.width for change in history))
    # Weeks and months start with a day.
    lengths_s = (min(width.length_s, DAY_S) for width in widths)
    return math.gcd(*lengths_s, *(change.since_s or 0 for change in history))


def _lifetime_numbers(
    spec: TableSpec, ts: npt.NDArray[np.int64], now_ts: int
) -> Iterator[npt.NDArray[np.integer]]:
    """Yield numbers of which one changes wherever :func:`_lifetimes_s` does."""
    if spec.retention_s is None or spec.window_s is None or not len(ts):
        return
    per_s = spec.precision.per_s
    on_time, ahead = now_ts - spec.window_s * per_s, now_ts + per_s
    if ts.min() <= on_time:
        # How many windows of its retention remain to a reading, and whether they count yet.
        yield (now_ts - spec.retention_s * per_s - ts) // (spec.window_s * per_s)
        yield (ts > on_time).view(np.int8)
    if ts.max() >= ahead:
        yield (ts >= ahead).view(np.int8)


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


def _placed(
    spec: TableSpec,
    series: tuple[str, ...],
    ts: npt.NDArray[np.int64],
    edges: npt.NDArray[np.int64],
    widths: Mapping[str, History],
) -> Placed:
    """Return the piece and the bucket of readings of many series; pieces count over all series."""
    placed = place(ts, (), spec.width, spec.precision)
    pieces = list(placed.widths)
    for name, part in _parts_of_own(series, edges, widths):
        one = place(ts[part], widths[name], spec.width, spec.precision)
        placed.piece[part] = one.piece + len(pieces)
        placed.start_s[part] = one.start_s
        pieces += one.widths
    return Placed(placed.piece, placed.start_s, tuple(pieces))


def _parts_of_own(
    series: tuple[str, ...], edges: npt.NDArray[np.int64], widths: Mapping[str, History]
) -> Iterator[tuple[str, slice]]:
    """Yield each series that does not simply have the table's width, and where it stands."""
    if not widths:
        return
    for number, name in enumerate(series):
        if widths.get(name):
            yield name, slice(int(edges[number]), int(edges[number + 1]))


def _changes(values: npt.NDArray[np.integer]) -> BoolArray:
    """Return whether each value but the first differs from the one before it."""
    changes: BoolArray = values[1:] != values[:-1]
    return changes


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
