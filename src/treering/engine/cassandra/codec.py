"""Readings to what the driver sends, and what it received to readings: the one seam for both.

Rules of this file: no Python object a number where a page has a fixed stride; a missing value is
UNSET when written, never null, which would be a tombstone; event times are integers throughout.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from treering.core.columns import ColumnData
from treering.core.layout import Layout, TimeColumn, TimeType, own_layout
from treering.core.merge import wire_dtype
from treering.core.schema import Column, ColumnType
from treering.core.timeuuid import times_of_timeuuids, timeuuid_bound, timeuuids_of
from treering.core.units import Precision
from treering.core.write_plan import PartitionWrite
from treering.engine.cassandra.driver import UNSET_VALUE, RawPage
from treering.engine.cassandra.keys import encode_key
from treering.engine.protocol import Page
from treering.errors import CorruptDataError, SchemaMismatchError

BATCH_BYTES_MAX: Final = 256 * 1024
"""The most bytes of one batch, but for a single row. One partition's batch is one mutation, which
Cassandra bounds by half a commit log segment (16 MiB) and not by the batch size thresholds."""

_TS: Final = np.dtype(">i8")
_UUID: Final = np.dtype("V16")
_INT: Final = struct.Struct(">i")
# What the parameters of one row cost beside their values: a length each, and the statement's id.
_STATEMENT_BYTES: Final = 25
_TEXT_COLUMN: Final = "varchar"
_OWN: Final = own_layout("readings", Precision.MS)


def batches_of(
    write: PartitionWrite,
    columns: tuple[Column, ...],
    layout: Layout = _OWN,
    *,
    bytes_max: int = BATCH_BYTES_MAX,
) -> Iterator[list[list[Any]]]:
    """Yield the rows of a write in batches, each row as serialized parameters.

    The order is that of the key's columns, event time, every column, write time and, where the
    write has one, TTL.

    Args:
        write: Readings of one partition.
        columns: All columns of the table, in the order of the statement.
        layout: Where readings stand in the table; treering's own by default.
        bytes_max: The most bytes of a batch; a row that alone has more goes alone.
    """
    head = encode_key(layout, write.series, write.bucket)
    times = _times(write.ts, layout.time)
    tail = [write.write_us.to_bytes(8, "big", signed=True)]
    if write.ttl_s is not None:
        tail.append(write.ttl_s.to_bytes(4, "big", signed=True))
    cells = [_cells_of(write.columns.get(column.name), column, len(write)) for column in columns]
    texts = [
        cell
        for cell, column in zip(cells, columns, strict=True)
        if column.type is ColumnType.TEXT and column.name in write.columns
    ]
    fixed_bytes = _STATEMENT_BYTES + sum(map(len, (*head, *tail, *times[:1])))
    fixed_bytes += sum(_INT.size + (column.type.fixed_bytes or 0) for column in columns)
    rows = zip(times, *cells, strict=True)
    for size in _batch_sizes(len(write), texts, fixed_bytes, bytes_max):
        yield [[*head, *row, *tail] for row in islice(rows, size)]


def _times(ts: npt.NDArray[np.int64], time: TimeColumn) -> list[bytes]:
    if time.type is TimeType.TIMEUUID:
        return timeuuids_of(ts)
    return _items(ts if time.step == 1 else ts // time.step, _TS)


def encode_bound(ts: int, time: TimeColumn) -> bytes:
    """Return the serialized end of an interval: the first value of the column from ``ts`` on."""
    if time.type is TimeType.TIMEUUID:
        return timeuuid_bound(ts)
    return (-(-ts // time.step)).to_bytes(8, "big", signed=True)


def _cells_of(data: ColumnData | None, column: Column, count: int) -> list[Any]:
    if data is None:
        return [UNSET_VALUE] * count
    if column.type is ColumnType.TEXT:
        return [
            value.encode() if there else UNSET_VALUE
            for value, there in zip(data.values.tolist(), data.mask().tolist(), strict=True)
        ]
    cells: list[Any] = _items(data.values, wire_dtype(column.type))
    if data.present is not None:
        for index in np.flatnonzero(~data.present).tolist():
            cells[index] = UNSET_VALUE
    return cells


def _items(values: npt.NDArray[Any], wire: np.dtype[Any]) -> list[bytes]:
    items: list[bytes] = values.astype(wire).view(f"V{wire.itemsize}").tolist()
    return items


def _batch_sizes(
    count: int, texts: list[list[Any]], fixed_bytes: int, bytes_max: int
) -> Iterator[int]:
    if not texts:
        per_batch = max(1, bytes_max // fixed_bytes)
        for start in range(0, count, per_batch):
            yield min(per_batch, count - start)
        return
    size = total = 0
    for values in zip(*texts, strict=True):
        row_bytes = fixed_bytes + sum(len(value) for value in values if value is not UNSET_VALUE)
        if size and total + row_bytes > bytes_max:
            yield size
            size = total = 0
        size, total = size + 1, total + row_bytes
    if size:
        yield size


def decode_page(raw: RawPage, columns: tuple[Column, ...], layout: Layout = _OWN) -> Page:
    """Return a page of readings from the bytes of its rows: event time, then ``columns``.

    Raises:
        SchemaMismatchError: The page has other columns or types than were asked for.
        CorruptDataError: A value is longer or shorter than its type.
    """
    if raw.error is not None:
        raise SchemaMismatchError(
            f"a page of readings could not be read: {raw.error}",
            hint="does a column have a type that treering does not write?",
        ) from raw.error
    _check_types(raw, columns, layout)
    time = layout.time
    stride = _stride_of(columns, _wire_time(time))
    if stride is not None and len(raw.body) == raw.count * stride.itemsize:
        rows = np.frombuffer(raw.body, dtype=stride)
        if _is_fixed_stride(rows, columns):
            return _decode_fixed(rows, columns, raw.cursor, time)
    return _decode_walking(raw, columns, time)


def _wire_time(time: TimeColumn) -> np.dtype[Any]:
    return _UUID if time.type is TimeType.TIMEUUID else _TS


def _ticks_of(stored: npt.NDArray[Any], time: TimeColumn) -> npt.NDArray[np.int64]:
    if time.type is TimeType.TIMEUUID:
        return times_of_timeuuids(np.ascontiguousarray(stored))
    ts = stored.astype(np.int64)
    return ts if time.step == 1 else ts * time.step


def _check_types(raw: RawPage, columns: tuple[Column, ...], layout: Layout) -> None:
    found = [(name, kind.typename) for _, _, name, kind in raw.columns[1:]]
    renamed = dict(layout.renamed)
    wanted = [
        (renamed.get(c.name, c.name), _TEXT_COLUMN if c.type is ColumnType.TEXT else str(c.type))
        for c in columns
    ]
    found = [(name, _TEXT_COLUMN if kind == "text" else kind) for name, kind in found]
    if found != wanted:
        raise SchemaMismatchError(
            f"a page of readings has the columns {found}, not {wanted}",
            hint="was the table altered? Open it again",
        )


@lru_cache(maxsize=256)
def _stride_of(columns: tuple[Column, ...], time: np.dtype[Any]) -> np.dtype[Any] | None:
    fields: list[tuple[str, Any]] = [("size", ">i4"), ("ts", time)]
    for index, column in enumerate(columns):
        if column.type is ColumnType.TEXT:
            return None
        fields += [(f"size{index}", ">i4"), (f"value{index}", wire_dtype(column.type))]
    return np.dtype(fields)


def _is_fixed_stride(rows: npt.NDArray[Any], columns: tuple[Column, ...]) -> bool:
    return bool((rows["size"] == rows["ts"].dtype.itemsize).all()) and all(
        bool((rows[f"size{index}"] == column.type.fixed_bytes).all())
        for index, column in enumerate(columns)
    )


def _decode_fixed(
    rows: npt.NDArray[Any], columns: tuple[Column, ...], cursor: bytes | None, time: TimeColumn
) -> Page:
    values = {
        column.name: ColumnData(rows[f"value{index}"].astype(column.type.dtype))
        for index, column in enumerate(columns)
    }
    return Page(_ticks_of(rows["ts"], time), values, cursor)


def _decode_walking(raw: RawPage, columns: tuple[Column, ...], time: TimeColumn) -> Page:
    """Decode a page whose rows differ in length: missing values, or text."""
    body, width = bytes(raw.body), len(columns) + 1
    cells: list[list[bytes | None]] = [[] for _ in range(width)]
    read_size, position = _INT.unpack_from, 0
    for _ in range(raw.count):
        for cell in cells:
            size = read_size(body, position)[0]
            position += 4
            if size < 0:
                cell.append(None)
            else:
                cell.append(body[position : position + size])
                position += size
    stored = np.frombuffer(b"".join(cell or b"" for cell in cells[0]), dtype=_wire_time(time))
    values = {
        column.name: _column_of(cell, column)
        for column, cell in zip(columns, cells[1:], strict=True)
    }
    return Page(_ticks_of(stored, time), values, raw.cursor)


def _column_of(cells: list[bytes | None], column: Column) -> ColumnData:
    if column.type is ColumnType.TEXT:
        there = np.fromiter((cell is not None for cell in cells), np.bool_, len(cells))
        texts = np.empty(len(cells), dtype=object)
        texts[:] = [None if cell is None else cell.decode() for cell in cells]
        return ColumnData(texts, None if there.all() else there)
    # CQL allows an empty value of any type; no number stands for it, so it is missing.
    there = np.fromiter((bool(cell) for cell in cells), np.bool_, len(cells))
    wire = wire_dtype(column.type)
    blank = bytes(wire.itemsize)
    wrong = next((cell for cell in cells if cell and len(cell) != len(blank)), None)
    if wrong is not None:
        raise CorruptDataError(
            f"a value of the column {column.name!r} has {len(wrong)} bytes, not {len(blank)}",
            expected=len(blank),
            found=len(wrong),
        )
    joined = b"".join(cell or blank for cell in cells)
    values = np.frombuffer(joined, dtype=wire).astype(column.type.dtype)
    return ColumnData(values, None if there.all() else there)
