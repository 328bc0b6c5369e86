"""How many bytes a row and a partition take in Data.db, before compression.

Rules of this file: they mirror ``UnfilteredSerializer``, ``Cell.Serializer``,
``ClusteringPrefix.Serializer`` and ``SortedTablePartitionWriter``, the same row encoding in every
format from 3.0 to 5.0. A row stores its write time and its expiry as differences to the smallest
of its file; a finished window is one file, so the differences grow to the window's length. The
size given is that of the window's last row, the largest: a budget has to hold for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from treering.core.bucket import BucketWidth
from treering.core.schema import Column
from treering.core.server import ServerVersion, StorageMode
from treering.core.units import YEAR_S

TEXT_BYTES_DEFAULT: Final = 24
"""Bytes that a text value is taken to have where nothing else is stated."""

SERIES_BYTES_DEFAULT: Final = 16
"""Bytes that a series id is taken to have where nothing else is stated."""

# Without windows a file's rows may be years apart: any span from 51 days to 17 years costs 7 B.
_UNBOUNDED_SPAN_S: Final = YEAR_S


def vint_bytes(value: int) -> int:
    """Return the bytes of an unsigned variable-length integer: 7 bits a byte, 9 bytes at most.

    Mirrors ``VIntCoding.computeUnsignedVIntSize``.

    >>> [vint_bytes(v) for v in (0, 127, 128, 2**56 - 1, 2**56)]
    [1, 1, 2, 8, 9]
    """
    return min(max(-(-value.bit_length() // 7), 1), 9)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowPart:
    """One term of a row's size: what it is, and its bytes."""

    what: str
    size_bytes: int


def row_parts(
    columns: Sequence[Column],
    *,
    has_ttl: bool,
    span_s: float | None,
    text_bytes: int = TEXT_BYTES_DEFAULT,
) -> tuple[RowPart, ...]:
    """Return the terms whose sum is the size of one inserted row with all columns present.

    Args:
        columns: The columns of values.
        has_ttl: Whether the row carries a TTL.
        span_s: Longest time between two writes of one file: the window, or how long the writes
            took where they have not been compacted; None for a table without windows.
        text_bytes: Bytes of a text value in UTF-8.
    """
    span = _UNBOUNDED_SPAN_S if span_s is None else span_s
    parts = [
        RowPart(what="flags", size_bytes=1),
        # One header byte for up to 32 clustering values, then 8 raw bytes: timestamp and bigint
        # are the same length, so precision does not change the size.
        RowPart(what="event time", size_bytes=1 + 8),
        RowPart(what="write time less the file's first", size_bytes=vint_bytes(int(span * 1e6))),
    ]
    if has_ttl:
        # Every row of a table has the same TTL, so its difference to the smallest is 0: 1 byte.
        parts.append(RowPart(what="TTL", size_bytes=1))
        parts.append(RowPart(what="expiry less the file's first", size_bytes=vint_bytes(int(span))))
    parts += [
        RowPart(what=f"{c.name} {c.type}", size_bytes=_cell_bytes(c, text_bytes)) for c in columns
    ]
    return (*parts, _sizes_part(sum(part.size_bytes for part in parts)))


def _cell_bytes(column: Column, text_bytes: int) -> int:
    fixed = column.type.fixed_bytes
    value = fixed if fixed is not None else vint_bytes(text_bytes) + text_bytes
    return 1 + value


def _sizes_part(others_bytes: int) -> RowPart:
    # A row stores its own body's size and the whole size of the row before it. Both sizes count
    # the second of these numbers, so its length is found by trying: it settles at once.
    head = 1 + 1 + 8
    previous = 1
    while True:
        own = vint_bytes(others_bytes - head + previous)
        total = others_bytes + own + previous
        if vint_bytes(total) == previous:
            return RowPart(what="row sizes", size_bytes=own + previous)
        previous = vint_bytes(total)


def row_bytes_of(
    columns: Sequence[Column],
    *,
    has_ttl: bool,
    span_s: float | None,
    text_bytes: int = TEXT_BYTES_DEFAULT,
) -> int:
    """Return the uncompressed bytes of one row; the arguments are those of :func:`row_parts`.

    >>> from treering.core.schema import parse_columns
    >>> row_bytes_of(parse_columns("value:double"), has_ttl=True, span_s=86_400)
    31
    """
    parts = row_parts(columns, has_ttl=has_ttl, span_s=span_s, text_bytes=text_bytes)
    return sum(part.size_bytes for part in parts)


_BUCKET_TEXT_BYTES: Final[dict[BucketWidth, int]] = {
    BucketWidth.MINUTE: len("2025-11-20T13:15/1min"),
    BucketWidth.MINUTES_5: len("2025-11-20T13:15/5min"),
    BucketWidth.MINUTES_15: len("2025-11-20T13:15/15min"),
    BucketWidth.HOUR: len("2025-11-20T13"),
    BucketWidth.HOURS_6: len("2025-11-20T12/6h"),
    BucketWidth.DAY: len("2025-11-20"),
    BucketWidth.WEEK: len("2025-W47"),
    BucketWidth.MONTH: len("2025-11"),
}


def partition_overhead_bytes(
    width: BucketWidth,
    *,
    version: ServerVersion,
    mode: StorageMode,
    series_bytes: int = SERIES_BYTES_DEFAULT,
) -> int:
    """Return what a partition takes besides its rows: key, deletion mark, end mark.

    Args:
        width: The bucket's width, whose text is in the key.
        version: The server's version: 5.0 outside CASSANDRA_4 writes a shorter deletion mark.
        mode: The server's storage compatibility mode.
        series_bytes: Bytes of the series id in UTF-8.
    """
    key = (2 + series_bytes + 1) + (2 + _BUCKET_TEXT_BYTES[width] + 1)
    is_short = version.major >= 5 and mode is not StorageMode.CASSANDRA_4
    return 2 + key + (1 if is_short else 12) + 1
