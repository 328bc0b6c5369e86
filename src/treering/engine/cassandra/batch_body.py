"""Readings to the bodies of batches: one array of bytes for all rows of a partition.

Rules of this file: pure; no Python object a number; the bytes are those that the driver itself
would write (a property test compares them); a missing value is UNSET, never null, which would be
a tombstone.

A batch's body holds, for each row: a kind byte, the id of the prepared statement, how many values
there are, and the values, each a length and its bytes: the key's columns, event time, every
column, write time and, where the write has one, TTL.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from treering.core.columns import ColumnData
from treering.core.layout import Layout, TimeColumn, TimeType, own_layout
from treering.core.merge import wire_dtype
from treering.core.schema import Column, ColumnType
from treering.core.timeuuid import timeuuids_of
from treering.core.units import Precision
from treering.core.write_plan import PartitionWrite
from treering.engine.cassandra.keys import encode_key

BATCH_BYTES_MAX: Final = 256 * 1024
"""The most bytes of one batch, but for a single row. One partition's batch is one mutation, which
Cassandra bounds by half a commit log segment (16 MiB) and not by the batch size thresholds."""

BATCH_ROWS_MAX: Final = 65_535
"""The protocol counts the statements of a batch in two bytes."""

_TS: Final = np.dtype(">i8")
_UUID: Final = np.dtype("V16")
_SIZE: Final = np.dtype(">i4")
_PREPARED: Final = 1
_UNSET: Final = -2
_INT: Final = struct.Struct(">i")
_HEAD: Final = struct.Struct(">BH")
_COUNT: Final = struct.Struct(">H")
_UNSET_CELL: Final = _INT.pack(_UNSET)
_OWN: Final = own_layout("readings", Precision.MS)


@dataclass(frozen=True, slots=True)
class BatchBody:
    """The rows of one batch, as the protocol has them.

    Attributes:
        rows: How many.
        body: Their bytes.
    """

    rows: int
    body: memoryview

    def __len__(self) -> int:
        return self.rows


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """What all rows of a write have in common."""

    before: bytes
    after: bytes
    time: np.dtype[Any]
    times: npt.NDArray[Any]
    columns: tuple[Column, ...]


def batch_bodies(
    write: PartitionWrite,
    columns: tuple[Column, ...],
    statement_id: bytes,
    layout: Layout = _OWN,
    *,
    bytes_max: int = BATCH_BYTES_MAX,
    key: Sequence[bytes] | None = None,
) -> Iterator[BatchBody]:
    """Yield the rows of a write in batches, as the body of each.

    Args:
        write: Readings of one partition.
        columns: All columns of the table, in the order of the statement.
        statement_id: Id of the prepared statement.
        layout: Where readings stand in the table; treering's own by default.
        bytes_max: The most bytes of a batch; a row that alone has more goes alone.
        key: The serialized key, where the caller has it already.
    """
    key = encode_key(layout, write.series, write.bucket) if key is None else key
    shape = _shape_of(write, columns, statement_id, layout, key)
    cells = [write.columns.get(column.name) for column in columns]
    if _is_fixed_stride(cells, columns):
        body, stride = _fixed_rows(shape, cells)
        if 0 < len(body) <= bytes_max and len(write) <= BATCH_ROWS_MAX:
            yield BatchBody(len(write), body)
            return
        ends = np.arange(1, len(write) + 1, dtype=np.int64) * stride
    else:
        body, ends = _varying_rows(shape, cells)
    start = 0
    while start < len(ends):
        first_byte = int(ends[start - 1]) if start else 0
        stop = int(np.searchsorted(ends, first_byte + bytes_max, side="right"))
        stop = min(max(stop, start + 1), start + BATCH_ROWS_MAX)
        yield BatchBody(stop - start, body[first_byte : int(ends[stop - 1])])
        start = stop


def _shape_of(
    write: PartitionWrite,
    columns: tuple[Column, ...],
    statement_id: bytes,
    layout: Layout,
    key: Sequence[bytes],
) -> _Shape:
    after = _cell(write.write_us.to_bytes(8, "big", signed=True))
    if write.ttl_s is not None:
        after += _cell(write.ttl_s.to_bytes(4, "big", signed=True))
    values = len(key) + 1 + len(columns) + (1 if write.ttl_s is None else 2)
    time = _UUID if layout.time.type is TimeType.TIMEUUID else _TS
    before = [_HEAD.pack(_PREPARED, len(statement_id)), statement_id, _COUNT.pack(values)]
    before += [*map(_cell, key), _INT.pack(time.itemsize)]
    return _Shape(
        before=b"".join(before),
        after=after,
        time=time,
        times=_times_of(write.ts, layout.time),
        columns=columns,
    )


def _cell(value: bytes) -> bytes:
    return _INT.pack(len(value)) + value


def _times_of(ts: npt.NDArray[np.int64], time: TimeColumn) -> npt.NDArray[Any]:
    if time.type is TimeType.TIMEUUID:
        return np.frombuffer(b"".join(timeuuids_of(ts)), dtype=_UUID)
    return ts if time.step == 1 else ts // time.step


def _is_fixed_stride(cells: Sequence[ColumnData | None], columns: Sequence[Column]) -> bool:
    return all(
        cell is None or (cell.present is None and column.type is not ColumnType.TEXT)
        for cell, column in zip(cells, columns, strict=True)
    )


def _fixed_rows(shape: _Shape, cells: Sequence[ColumnData | None]) -> tuple[memoryview, int]:
    """Return the bytes of rows of one length, and that length."""
    # A row in which times and values are still to be filled in, and where each of them stands.
    row = bytearray(shape.before)
    filled = [(len(row), shape.time, shape.times)]
    row += bytes(shape.time.itemsize)
    for cell, column in zip(cells, shape.columns, strict=True):
        if cell is None:
            row += _UNSET_CELL
            continue
        wire = wire_dtype(column.type)
        row += _INT.pack(wire.itemsize)
        filled.append((len(row), wire, cell.values))
        row += bytes(wire.itemsize)
    row += shape.after
    count, stride = len(shape.times), len(row)
    body = row * count
    for place, wire, values in filled if count else ():
        np.ndarray((count,), wire, body, place, (stride,))[...] = values
    return memoryview(body), stride


def _varying_rows(
    shape: _Shape, cells: Sequence[ColumnData | None]
) -> tuple[memoryview, npt.NDArray[np.int64]]:
    """Return the bytes of rows that differ in length, and where each of them ends."""
    count = len(shape.times)
    parts = [
        _parts_of(cell, column, count) for cell, column in zip(cells, shape.columns, strict=True)
    ]
    fixed = len(shape.before) + shape.time.itemsize + len(shape.after)
    sizes = np.full(count, fixed + _SIZE.itemsize * len(parts), dtype=np.int64)
    for lengths, _ in parts:
        sizes += np.maximum(lengths, 0)
    ends = np.cumsum(sizes)
    body = np.empty(int(ends[-1]) if count else 0, dtype=np.uint8)
    place = ends - sizes
    place = _put(body, place, np.frombuffer(shape.before, np.uint8)[np.newaxis])
    times = shape.times.astype(shape.time)
    place = _put(body, place, times.view(np.uint8).reshape(count, -1))
    for lengths, joined in parts:
        place = _put(body, place, lengths.astype(_SIZE).view(np.uint8).reshape(count, -1))
        place = _put_varying(body, place, np.maximum(lengths, 0), joined)
    _put(body, place, np.frombuffer(shape.after, np.uint8)[np.newaxis])
    return body.data, ends


def _parts_of(
    data: ColumnData | None, column: Column, count: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Return the length of each cell, and the bytes of all cells that are there, joined."""
    if data is None:
        return np.full(count, _UNSET, dtype=np.int64), np.empty(0, np.uint8)
    there = data.mask()
    if column.type is ColumnType.TEXT:
        texts = [text.encode() for text in data.values[there].tolist()]
        sizes = np.fromiter(map(len, texts), np.int64, len(texts))
        joined = np.frombuffer(b"".join(texts), np.uint8)
    else:
        wire = wire_dtype(column.type)
        joined = data.values[there].astype(wire).view(np.uint8)
        sizes = np.full(len(joined) // wire.itemsize, wire.itemsize, dtype=np.int64)
    lengths = np.full(count, _UNSET, dtype=np.int64)
    lengths[there] = sizes
    return lengths, joined


def _put(
    body: npt.NDArray[np.uint8], place: npt.NDArray[np.int64], cells: npt.NDArray[np.uint8]
) -> npt.NDArray[np.int64]:
    """Write cells of one length at their places; return where they end."""
    width: int = cells.shape[1]
    body[place[:, np.newaxis] + np.arange(width)] = cells
    return place + width


def _put_varying(
    body: npt.NDArray[np.uint8],
    place: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
    joined: npt.NDArray[np.uint8],
) -> npt.NDArray[np.int64]:
    """Write cells of many lengths, given joined, at their places; return where they end."""
    starts = np.cumsum(sizes) - sizes
    body[np.repeat(place - starts, sizes) + np.arange(len(joined))] = joined
    return place + sizes
