"""One column inside a block: which values are missing, and the others in the encoding that fits.

Rules of this file: values that are missing are not kept; a column's chunk is the bitmap of missing
values, where one is needed, and then the values that are there.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, Final, assert_never

import numpy as np
import numpy.typing as npt

from treering.core.block_damage import BlockDamage
from treering.core.block_frames import (
    BoolArray,
    bitmap_bytes,
    pack_bits,
    pack_frame,
    pack_sized,
    unpack_bits,
    unpack_frame,
    unpack_sized,
)
from treering.core.block_numbers import (
    from_little,
    is_constant,
    little,
    narrowed,
    pack_decimals,
    pack_pco,
    unpack_decimals,
    unpack_pco,
)
from treering.core.block_setting import Setting
from treering.core.block_text import pack_texts, unpack_texts
from treering.core.columns import ColumnData
from treering.core.schema import ColumnType


class Validity(enum.IntEnum):
    """How a column says which values are there."""

    ALL = 0
    BITS = 1
    ZSTD_BITS = 2
    NONE = 3


class Encoding(enum.IntEnum):
    """How the values that are there are packed."""

    NOTHING = 0
    CONSTANT = 1
    RAW = 2
    PCO = 3
    PCO_NARROW = 4
    DECIMAL_32 = 5
    DECIMAL_64 = 6
    BITS = 7
    ZSTD_BITS = 8
    TEXT = 9
    DICTIONARY = 10


@dataclass(frozen=True, slots=True)
class PackedColumn:
    """A column as bytes, and what is needed to unpack them.

    Attributes:
        validity: How missing values are marked.
        encoding: How values are packed.
        parameter: Digits after the point, for decimals.
        missing: How many values are missing.
        chunk: The bytes.
    """

    validity: int
    encoding: int
    parameter: int
    missing: int
    chunk: bytes


_ENCODINGS: Final[dict[ColumnType, frozenset[int]]] = {
    ColumnType.DOUBLE: frozenset({1, 2, 3, 5, 6}),
    ColumnType.FLOAT: frozenset({1, 2, 3, 5, 6}),
    ColumnType.INT: frozenset({1, 2, 3}),
    ColumnType.BIGINT: frozenset({1, 2, 3, 4}),
    ColumnType.BOOLEAN: frozenset({1, 7, 8}),
    ColumnType.TEXT: frozenset({9, 10}),
}


def pack_column(data: ColumnData, column_type: ColumnType, setting: Setting) -> PackedColumn:
    """Return a column of at least one reading, packed.

    Raises:
        UsageError: A text column that holds something else, or too much.
    """
    if data.present is None:
        return PackedColumn(Validity.ALL, *_pack_values(data.values, column_type, setting))
    missing = len(data) - int(np.count_nonzero(data.present))
    if missing == len(data):
        return PackedColumn(Validity.NONE, Encoding.NOTHING, 0, missing, b"")
    encoding, parameter, _, chunk = _pack_values(data.values[data.present], column_type, setting)
    if not missing:
        return PackedColumn(Validity.ALL, encoding, parameter, 0, chunk)
    bits = pack_bits(data.present)
    frame = pack_sized(pack_frame(bits, setting.zstd_level))
    is_smaller = len(frame) < len(bits)
    validity = Validity.ZSTD_BITS if is_smaller else Validity.BITS
    return PackedColumn(
        validity, encoding, parameter, missing, (frame if is_smaller else bits) + chunk
    )


def _pack_values(
    values: npt.NDArray[Any], column_type: ColumnType, setting: Setting
) -> tuple[int, int, int, bytes]:
    """Return encoding, parameter, 0 missing values, and the chunk."""
    if column_type is ColumnType.TEXT:
        has_dictionary, chunk = pack_texts(values.tolist(), setting)
        return Encoding.DICTIONARY if has_dictionary else Encoding.TEXT, 0, 0, chunk
    if is_constant(values):
        return Encoding.CONSTANT, 0, 0, little(values[:1])
    if column_type is ColumnType.BOOLEAN:
        bits = pack_bits(values)
        frame = pack_frame(bits, setting.zstd_level)
        if len(frame) < len(bits):
            return Encoding.ZSTD_BITS, 0, 0, frame
        return Encoding.BITS, 0, 0, bits
    encoding, parameter, chunk = _pack_numbers(values, column_type, setting)
    if len(chunk) >= values.nbytes:
        return Encoding.RAW, 0, 0, little(values)
    return encoding, parameter, 0, chunk


def _pack_numbers(
    values: npt.NDArray[Any], column_type: ColumnType, setting: Setting
) -> tuple[int, int, bytes]:
    if column_type in (ColumnType.DOUBLE, ColumnType.FLOAT):
        decimals = pack_decimals(values, setting)
        if decimals is not None:
            exponent, integers, chunk = decimals
            is_narrow = integers.dtype.itemsize == 4
            return Encoding.DECIMAL_32 if is_narrow else Encoding.DECIMAL_64, exponent, chunk
    elif column_type is ColumnType.BIGINT:
        integers = narrowed(values)
        if integers.dtype.itemsize == 4:
            return Encoding.PCO_NARROW, 0, pack_pco(integers, setting)
    return Encoding.PCO, 0, pack_pco(values, setting)


def unpack_column(packed: PackedColumn, column_type: ColumnType, count: int) -> ColumnData:
    """Return a column of ``count`` readings.

    Raises:
        BlockDamage: Not what :func:`pack_column` makes.
    """
    present, chunk = _take_validity(packed, count)
    there = count - packed.missing
    if not there:
        if packed.encoding != Encoding.NOTHING or chunk:
            raise BlockDamage(found=f"{len(chunk)} bytes of no values", expected="none")
        return ColumnData(_blank(count, column_type), present)
    if packed.encoding not in _ENCODINGS[column_type]:
        raise BlockDamage(
            found=f"the encoding {packed.encoding}", expected=f"one for {column_type}"
        )
    values = _unpack_values(packed, chunk, column_type, there)
    if present is None:
        return ColumnData(values)
    spread = _blank(count, column_type)
    spread[present] = values
    return ColumnData(spread, present)


def _blank(count: int, column_type: ColumnType) -> npt.NDArray[Any]:
    if column_type is ColumnType.TEXT:
        return np.empty(count, dtype=object)
    return np.zeros(count, dtype=column_type.dtype)


def _take_validity(packed: PackedColumn, count: int) -> tuple[BoolArray | None, bytes]:
    chunk = packed.chunk
    match packed.validity:
        case Validity.ALL:
            present, found = None, 0
        case Validity.NONE:
            present, found = np.zeros(count, dtype=np.bool_), count
        case Validity.BITS:
            size = bitmap_bytes(count)
            present, chunk = unpack_bits(chunk[:size], count), chunk[size:]
            found = count - int(np.count_nonzero(present))
        case Validity.ZSTD_BITS:
            frame, chunk = unpack_sized(chunk)
            present = unpack_bits(unpack_frame(frame, bytes_max=bitmap_bytes(count)), count)
            found = count - int(np.count_nonzero(present))
        case _:
            raise BlockDamage(found=f"the validity {packed.validity}", expected="0, 1, 2 or 3")
    if found != packed.missing:
        raise BlockDamage(found=f"{found} missing values", expected=str(packed.missing))
    return present, chunk


def _unpack_values(
    packed: PackedColumn, chunk: bytes, column_type: ColumnType, count: int
) -> npt.NDArray[Any]:
    dtype = np.dtype(column_type.dtype)
    match Encoding(packed.encoding):
        case Encoding.CONSTANT:
            if column_type is ColumnType.BOOLEAN and chunk not in (b"\0", b"\1"):
                raise BlockDamage(found=f"the boolean {chunk!r}", expected="0 or 1")
            return np.repeat(from_little(chunk, dtype, 1), count)
        case Encoding.RAW:
            return from_little(chunk, dtype, count)
        case Encoding.PCO:
            return unpack_pco(chunk, dtype, count)
        case Encoding.PCO_NARROW:
            return unpack_pco(chunk, np.dtype(np.int32), count).astype(dtype)
        case Encoding.DECIMAL_32 | Encoding.DECIMAL_64 as encoding:
            return unpack_decimals(
                chunk,
                exponent=packed.parameter,
                integer=np.dtype(np.int32 if encoding is Encoding.DECIMAL_32 else np.int64),
                dtype=dtype,
                count=count,
            )
        case Encoding.BITS:
            return unpack_bits(chunk, count)
        case Encoding.ZSTD_BITS:
            return unpack_bits(unpack_frame(chunk, bytes_max=bitmap_bytes(count)), count)
        case Encoding.TEXT | Encoding.DICTIONARY as encoding:
            return unpack_texts(chunk, has_dictionary=encoding is Encoding.DICTIONARY, count=count)
        case Encoding.NOTHING:
            raise BlockDamage(found="no values", expected=str(count))
        case _ as never:
            assert_never(never)
