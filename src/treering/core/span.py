"""Spans: the slices of event time that one block of the embedded engine covers."""

from __future__ import annotations

from typing import Final

from treering.core.segment import segment_length_s
from treering.core.table import TableSpec
from treering.core.units import DAY_S, HOUR_S, MINUTE_S

SPAN_ROWS_MAX: Final = 16_384
"""The most readings, at the table's rate, of the span that is chosen where several would do."""

SPAN_ROWS_MIN: Final = 4_096
"""Below so many a block packs worse, so that a longer span is worth more readings than that."""

_ROUND_S: Final = (
    *(1, 2, 5, 10, 15, 20, 30),
    *(MINUTE_S * minutes for minutes in (1, 2, 5, 10, 15, 20, 30)),
    *(HOUR_S * hours for hours in (1, 2, 3, 4, 6, 8, 12)),
    *(DAY_S * days for days in (1, 2, 3, 5, 7, 10, 14)),
)


def span_length_s(spec: TableSpec) -> int:
    """Return how much event time a block of this table covers, in seconds.

    Spans are round and tile a segment: of those, the longest whose readings at the table's rate
    are at most ``SPAN_ROWS_MAX``; the next longer one where they would be few. It follows from
    what never changes of a table; a segment's file keeps it all the same.
    """
    segment_s, rate_hz = segment_length_s(spec), spec.design.workload.rate_hz
    lengths = [s for s in _ROUND_S if s < segment_s and segment_s % s == 0]
    lengths = sorted({*lengths, segment_s})
    fitting = [s for s in lengths if s * rate_hz <= SPAN_ROWS_MAX]
    if not fitting:
        return lengths[0]
    longer = [s for s in lengths if fitting[-1] < s and s * rate_hz <= 4 * SPAN_ROWS_MAX]
    if fitting[-1] * rate_hz < SPAN_ROWS_MIN and longer:
        return longer[0]
    return fitting[-1]
