"""What the driver received to readings; :mod:`batch_body` is the way back.

Rules of this file: no Python object a number where a page has a fixed stride; event times are
integers throughout.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from treering.core.columns import ColumnData
from treering.core.layout import Layout, TimeColumn, TimeType, own_layout
from treering.core.merge import wire_dtype
from treering.core.schema import Column, ColumnType
from treering.core.timeuuid import times_of_timeuuids, timeuuid_bound
from treering.core.units import Precision
from treering.engine.cassandra.driver import RawPage
from treering.engine.protocol import Page
from treering.errors import CorruptDataError, SchemaMismatchError

_TS: Final = np.dtype(">i8")
_UUID: Final = np.dtype("V16")
_INT: Final = struct.Struct(">i")
_TEXT_COLUMN: Final = "varchar"
_OWN: Final = own_layout("readings", Precision.MS)


def encode_bound(ts: int, time: TimeColumn) -> bytes:
    """Return the serialized end of an interval: the first value of the column from ``ts`` on."""
    if time.type is TimeType.TIMEUUID:
        return timeuuid_bound(ts)
    return (-(-ts // time.step)).to_bytes(8, "big", signed=True)


def decode_page(raw: RawPage, columns: tuple[Column, ...], layout: Layout = _OWN) -> Page:
    """Return a page of readings from the bytes of its rows: event time, then ``columns``.

    Raises:
        SchemaMismatchError: The page has other columns or types than were asked for.
        CorruptDataError: A value is longer or shorter than its type, or the page than its rows.
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
    return Page(((_ticks_of(rows["ts"], time), values),), cursor)


def _decode_walking(raw: RawPage, columns: tuple[Column, ...], time: TimeColumn) -> Page:
    """Decode a page whose rows differ in length: missing values, or text."""
    cells = _cells_of(raw, len(columns) + 1)
    wire = _wire_time(time)
    wrong = {len(cell or b"") for cell in cells[0]} - {wire.itemsize}
    if wrong:
        raise CorruptDataError(
            f"an event time has {min(wrong)} bytes, not {wire.itemsize}",
            expected=wire.itemsize,
            found=min(wrong),
        )
    stored = np.frombuffer(b"".join(cell or b"" for cell in cells[0]), dtype=wire)
    values = {
        column.name: _column_of(cell, column)
        for column, cell in zip(columns, cells[1:], strict=True)
    }
    return Page(((_ticks_of(stored, time), values),), raw.cursor)


def _cells_of(raw: RawPage, width: int) -> list[list[bytes | None]]:
    """Return the cells of each of ``width`` columns; None where one is missing.

    Raises:
        CorruptDataError: The page does not hold exactly so many rows.
    """
    body = bytes(raw.body)
    cells: list[list[bytes | None]] = [[] for _ in range(width)]
    read_size, position = _INT.unpack_from, 0
    try:
        for _ in range(raw.count):
            for cell in cells:
                size = read_size(body, position)[0]
                position += 4
                if size < 0:
                    cell.append(None)
                else:
                    cell.append(body[position : position + size])
                    position += size
    except struct.error:
        position = len(body) + 1
    if position != len(body):
        more_or_less = "fewer" if position > len(body) else "more"
        raise CorruptDataError(
            f"a page has {more_or_less} bytes than the {raw.count:,} rows that it should have",
            expected=raw.count,
            found=len(body),
        )
    return cells


def _column_of(cells: list[bytes | None], column: Column) -> ColumnData:
    if column.type is ColumnType.TEXT:
        there = np.fromiter((cell is not None for cell in cells), np.bool_, len(cells))
        texts = np.empty(len(cells), dtype=object)
        try:
            texts[:] = [None if cell is None else cell.decode() for cell in cells]
        except UnicodeDecodeError as error:
            raise CorruptDataError(
                f"a value of the column {column.name!r} is no UTF-8: {error}",
                expected="UTF-8",
                found=repr(error.object[:40]),
            ) from error
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
