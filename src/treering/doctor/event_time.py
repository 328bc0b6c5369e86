"""When the readings of files happened, as the ends of their clustering say.

Rules of this file: only a first clustering column sorts a file by time, so a later one tells
nothing; what is no time that can be is absent, never guessed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from treering.core.bucket import BucketWidth, bucket_end_s, bucket_start_s
from treering.core.timeuuid import times_of_timeuuids
from treering.core.twcs import RESOLUTION_PER_S
from treering.core.units import TIME_END_S, TIME_MIN_S
from treering.doctor.checks.write_times import unit_of
from treering.doctor.facts import ColumnFacts, SchemaFacts
from treering.sstable.facts import ClusteringBound, SSTableFacts

_UUID: Final = np.dtype("V16")
_UUID_BYTES: Final = 16
_NUMBER_BYTES_MAX: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSpan:
    """From the first to the last event time of some readings, epoch seconds, both included."""

    first_s: float
    last_s: float

    @property
    def length_s(self) -> float:
        """The seconds between them."""
        return self.last_s - self.first_s


def event_span_of(
    file: SSTableFacts, schema: SchemaFacts, time: ColumnFacts | None
) -> EventSpan | None:
    """Return when the readings of a file happened; None where its clustering does not say.

    Args:
        file: The file; a bundle without keys has no clustering.
        schema: The table's.
        time: The clustering column of event time.
    """
    if time is None or not schema.clustering or schema.clustering[0] != time:
        return None
    ends = [_time_of(bound, time) for bound in (file.clustering_start, file.clustering_end)]
    first_s, last_s = ends[::-1] if time.is_descending else ends
    if first_s is None or last_s is None or first_s > last_s:
        return None
    return EventSpan(first_s=first_s, last_s=last_s)


def _time_of(bound: ClusteringBound | None, time: ColumnFacts) -> float | None:
    value = bound.values[0] if bound is not None and bound.values else None
    if not value:
        return None
    at_s = _seconds_of(value, time.type)
    return at_s if at_s is not None and TIME_MIN_S <= at_s < TIME_END_S else None


def _seconds_of(value: bytes, kind: str) -> float | None:
    if kind == "timeuuid":
        if len(value) != _UUID_BYTES:
            return None
        return int(times_of_timeuuids(np.frombuffer(value, _UUID))[0]) / 1e6
    if len(value) > _NUMBER_BYTES_MAX:
        return None
    number = int.from_bytes(value, "big", signed=True)
    if kind == "timestamp":
        return number / 1e3
    unit = unit_of(number)  # A number tells its unit itself, from 1985 on.
    return None if unit is None else number / RESOLUTION_PER_S[unit]


def count_touched(span: EventSpan, width_s: int) -> int:
    """Return how many buckets of a width event times reach into.

    >>> count_touched(EventSpan(first_s=86_000.0, last_s=86_400.0), 86_400)
    2
    """
    first_s, last_s = (_bucket_of(at_s, width_s)[0] for at_s in (span.first_s, span.last_s))
    if width_s == BucketWidth.MONTH.length_s:
        first, last = np.array([first_s, last_s]).astype("M8[s]").astype("M8[M]").astype(np.int64)
        return int(last - first) + 1
    return (last_s - first_s) // width_s + 1


def _bucket_of(at_s: float, width_s: int) -> tuple[int, int]:
    """Return from when to when the bucket of a moment is."""
    whole_s = int(at_s // 1)
    width = next((width for width in BucketWidth if width.length_s == width_s), None)
    if width is None:
        start_s = whole_s - whole_s % width_s
        return start_s, start_s + width_s
    start_s = bucket_start_s(whole_s, width)
    return start_s, bucket_end_s(start_s, width)


def covered_s(spans: Iterable[EventSpan]) -> float:
    """Return how many seconds some spans cover together; what lies between them does not count.

    >>> spans = [EventSpan(first_s=0.0, last_s=5.0), EventSpan(first_s=3.0, last_s=9.0)]
    >>> covered_s([*spans, EventSpan(first_s=20.0, last_s=21.0)])
    10.0
    """
    total, end_s = 0.0, float("-inf")
    for span in sorted(spans, key=lambda one: one.first_s):
        total += max(span.last_s - max(span.first_s, end_s), 0.0)
        end_s = max(end_s, span.last_s)
    return total


def idle_s(spans: Iterable[EventSpan], width_s: int | None) -> float:
    """Return how many seconds lie between some spans, in buckets that hold readings.

    Args:
        spans: The spans.
        width_s: How long a bucket is; None where a partition goes on for ever, and all counts.

    >>> spans = [EventSpan(first_s=0.0, last_s=5.0), EventSpan(first_s=86_405.0, last_s=86_409.0)]
    >>> idle_s(spans, None), idle_s(spans, 3_600)
    (86400.0, 3600.0)
    """
    total, end_s = 0.0, float("inf")
    for span in sorted(spans, key=lambda one: one.first_s):
        if span.first_s > end_s:
            total += _idle_between(end_s, span.first_s, width_s)
        end_s = span.last_s if math.isinf(end_s) else max(end_s, span.last_s)
    return total


def _idle_between(last_s: float, next_s: float, width_s: int | None) -> float:
    if width_s is None:
        return next_s - last_s
    ends_s, starts_s = _bucket_of(last_s, width_s)[1], _bucket_of(next_s, width_s)[0]
    if ends_s >= starts_s:
        return next_s - last_s
    return (ends_s - last_s) + (next_s - starts_s)
