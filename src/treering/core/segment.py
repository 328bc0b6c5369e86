"""Segments: the slices of event time that one file of the embedded engine holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from treering.core.table import TableSpec
from treering.core.units import MONTH_S, Precision


@dataclass(frozen=True, slots=True, order=True)
class Segment:
    """Event time ``[start_s, end_s)`` in epoch seconds."""

    start_s: int
    end_s: int


def segment_length_s(spec: TableSpec) -> int:
    """Return how much event time a segment of this table holds, in seconds.

    A window's worth where readings expire, so that the disk holds at most one window more than
    the retention, as on Cassandra; a month where they do not. A later change of the retention
    leaves it as it is: existing files are found by it.
    """
    return spec.segment_s or spec.window_s or MONTH_S


def segment_of(ts_s: int, length_s: int) -> Segment:
    """Return the segment that holds the second ``ts_s``; segments tile time from the epoch."""
    start_s = ts_s - ts_s % length_s
    return Segment(start_s, start_s + length_s)


def cut_at_segments(
    ts: npt.NDArray[np.int64], length_s: int, precision: Precision
) -> Iterator[tuple[Segment, slice]]:
    """Yield each segment that ascending event times touch, with the part of them that it holds."""
    per_s, first = precision.per_s, 0
    while first < len(ts):
        segment = segment_of(int(ts[first]) // per_s, length_s)
        # The end of a segment may lie beyond what 64 bits hold, a time does not.
        end_ts = segment.end_s * per_s
        end = len(ts) if int(ts[-1]) < end_ts else int(np.searchsorted(ts, end_ts))
        yield segment, slice(first, end)
        first = end


def is_segment_expired(segment: Segment, *, now_s: int, retention_s: int | None) -> bool:
    """Return whether every event time of the segment is past the retention."""
    return retention_s is not None and segment.end_s <= now_s - retention_s
