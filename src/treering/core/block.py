"""Readings of one series as one block of bytes, and back, exactly.

Rules of this file: a block stands alone: it says its version, its codecs, its columns and their
types, and what its readings add up to; any engine can keep it. A block that is damaged raises and
never gives other readings: every byte lies under a checksum, which is compared before a codec sees
the bytes. Statistics are read from the header; a column is unpacked without the others.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from treering.core.block_columns import PackedColumn, pack_column, unpack_column
from treering.core.block_damage import BlockDamage, damaged_block
from treering.core.block_header import (
    BLOCK_COLUMNS_MAX,
    BLOCK_ROWS_MAX,
    ColumnEntry,
    ColumnParts,
    Header,
    check_name,
    parse_header,
    render_header,
)
from treering.core.block_numbers import is_ascending
from treering.core.block_setting import Purpose, Setting, setting_of
from treering.core.block_stats import ColumnStats, stats_of
from treering.core.block_times import pack_times, unpack_times
from treering.core.columns import ColumnData
from treering.core.schema import ColumnType
from treering.core.units import Precision
from treering.errors import SchemaMismatchError, UsageError

A_BLOCK: Final = "a block"

_TYPE_OF: Final = {np.dtype(column_type.dtype): column_type for column_type in ColumnType}


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """An unpacked block.

    Attributes:
        ts: Event times in ticks of ``precision``, strictly ascending.
        columns: The columns asked for, as long as ``ts``.
        precision: The table's precision.
    """

    ts: npt.NDArray[np.int64]
    columns: Mapping[str, ColumnData]
    precision: Precision


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockStats:
    """What a block says about its readings without being unpacked.

    Attributes:
        count: How many readings it holds.
        first_ts: The event time of the first, in ticks of ``precision``.
        last_ts: The event time of the last.
        precision: The table's precision.
        columns: The statistics of each column that was packed with some.
    """

    count: int
    first_ts: int
    last_ts: int
    precision: Precision
    columns: Mapping[str, ColumnStats]


def pack_block(
    ts: npt.NDArray[np.int64],
    columns: Mapping[str, ColumnData],
    *,
    precision: Precision = Precision.MS,
    purpose: Purpose = Purpose.BULK,
    without_stats: Collection[str] = (),
) -> bytes:
    """Return readings of one series as bytes.

    Args:
        ts: Event times in ticks of ``precision``, strictly ascending; 1 to 65,536.
        columns: Values by name, as many as times; the type of a column is that of its array.
        precision: The table's precision.
        purpose: How much work to take for a small block.
        without_stats: Columns that no one aggregates, such as write times: about 50 bytes less
            each.

    Raises:
        UsageError: No readings or too many, times that do not ascend, a column of another length
            or type, a name that is too long, or too much text.
    """
    ts = np.ascontiguousarray(ts)
    _check_readings(ts, columns)
    setting = setting_of(purpose)
    packed = {
        name: _pack_column(name, data, setting, has_stats=name not in without_stats)
        for name, data in columns.items()
    }
    times = pack_times(ts, setting)
    header = render_header(
        count=len(ts),
        precision=precision,
        times=times,
        first=int(ts[0]),
        last=int(ts[-1]),
        columns=packed,
    )
    return b"".join([header, times[2], *(parts.packed.chunk for parts in packed.values())])


def _check_readings(ts: npt.NDArray[np.int64], columns: Mapping[str, ColumnData]) -> None:
    if ts.dtype != np.int64 or ts.ndim != 1 or not 1 <= len(ts) <= BLOCK_ROWS_MAX:
        raise UsageError(
            f"a block holds 1 to {BLOCK_ROWS_MAX:,} readings with 64-bit times, not {ts.dtype} of "
            f"shape {ts.shape}",
            hint="cut the readings into several blocks",
        )
    if not is_ascending(ts):
        raise UsageError(
            "the times of a block must ascend, each once", hint="sort and merge the readings first"
        )
    if len(columns) > BLOCK_COLUMNS_MAX:
        raise UsageError(
            f"a block holds at most {BLOCK_COLUMNS_MAX} columns, not {len(columns)}",
            hint="put some of the columns into a table of their own",
        )
    for name, data in columns.items():
        lengths = {len(data.values), len(ts if data.present is None else data.present)}
        if lengths != {len(ts)} or not check_name(name):
            raise UsageError(
                f"the column {name[:40]!r} of a block has {sorted(lengths)} values for {len(ts)} "
                "times",
                hint="give one value a time, and a name of 1 to 255 bytes",
            )


def _pack_column(name: str, data: ColumnData, setting: Setting, *, has_stats: bool) -> ColumnParts:
    column_type = _TYPE_OF.get(data.values.dtype)
    if column_type is None or data.values.ndim != 1:
        raise UsageError(
            f"the column {name!r} of a block cannot hold {data.values.dtype}",
            hint=f"use one of {', '.join(ColumnType)}",
        )
    packed = pack_column(data, column_type, setting)
    if not has_stats:
        return ColumnParts(column_type, packed, None)
    there = data.values if data.present is None else data.values[data.present]
    return ColumnParts(column_type, packed, stats_of(there, column_type, missing=packed.missing))


def read_stats(
    block: bytes, names: Iterable[str] | None = None, *, place: str = A_BLOCK
) -> BlockStats:
    """Return what a block says about its readings.

    Args:
        block: A block, or its beginning with at least its header.
        names: Of which columns, all by default.
        place: Which block it is, for messages: series and span, and what holds it.

    Raises:
        CorruptDataError: Damaged; the error names the place.
        SchemaMismatchError: Of a newer version, or without a column of that name.
    """
    header = _header_of(block, place, is_whole=False)
    entries = _entries(header, names, place)
    return BlockStats(
        count=header.count,
        first_ts=header.times.first,
        last_ts=header.times.last,
        precision=header.precision,
        columns={
            entry.name: _stats(entry, header, place)
            for entry in entries
            if entry.has_stats(header.count)
        },
    )


def _stats(entry: ColumnEntry, header: Header, place: str) -> ColumnStats:
    try:
        return entry.stats(header.count)
    except BlockDamage as damage:
        part = f"the statistics of the column {entry.name}"
        raise damaged_block(damage, place=place, part=part, offset=0) from damage


def unpack_block(
    block: bytes, names: Iterable[str] | None = None, *, place: str = A_BLOCK
) -> Block:
    """Return a block's readings.

    Args:
        block: The bytes that :func:`pack_block` returned.
        names: Which columns to unpack, all by default.
        place: Which block it is, for messages.

    Raises:
        CorruptDataError: Damaged where it is unpacked; the error names the place.
        SchemaMismatchError: Of a newer version, or without a column of that name.
    """
    header = _header_of(block, place, is_whole=True)
    return Block(
        ts=_unpack_times(block, header, place),
        columns=_unpack_columns(block, header, names, place),
        precision=header.precision,
    )


def unpack_columns(
    block: bytes, names: Iterable[str] | None = None, *, place: str = A_BLOCK
) -> dict[str, ColumnData]:
    """Return columns of a block without its times; as :func:`unpack_block` otherwise."""
    return _unpack_columns(block, _header_of(block, place, is_whole=True), names, place)


def column_names(block: bytes, *, place: str = A_BLOCK) -> tuple[str, ...]:
    """Return the names of a block's columns, in order; raises as :func:`read_stats`."""
    return tuple(_header_of(block, place, is_whole=False).columns)


def _header_of(block: bytes, place: str, *, is_whole: bool) -> Header:
    try:
        return parse_header(block, place=place, is_whole=is_whole)
    except BlockDamage as damage:
        raise damaged_block(damage, place=place, part="the header", offset=0) from damage


def _unpack_times(block: bytes, header: Header, place: str) -> npt.NDArray[np.int64]:
    times, offset = header.times, header.header_bytes
    try:
        return unpack_times(
            _chunk(block, offset, times.chunk_bytes, times.crc),
            encoding=times.encoding,
            first=times.first,
            last=times.last,
            step=times.step,
            count=header.count,
        )
    except BlockDamage as damage:
        raise damaged_block(damage, place=place, part="the times", offset=offset) from damage


def _unpack_columns(
    block: bytes, header: Header, names: Iterable[str] | None, place: str
) -> dict[str, ColumnData]:
    entries = _entries(header, names, place)
    return {entry.name: _unpack_column(block, header, entry, place) for entry in entries}


def _entries(header: Header, names: Iterable[str] | None, place: str) -> list[ColumnEntry]:
    if names is None:
        return list(header.columns.values())
    wanted = list(names)
    unknown = [name for name in wanted if name not in header.columns]
    if unknown:
        raise SchemaMismatchError(
            f"{place} has no column {', '.join(unknown)}; it has {', '.join(header.columns)}",
            hint="ask for the columns that it has",
            place=place,
            unknown=unknown,
        )
    return [header.columns[name] for name in wanted]


def _unpack_column(block: bytes, header: Header, entry: ColumnEntry, place: str) -> ColumnData:
    try:
        packed = PackedColumn(
            entry.validity,
            entry.encoding,
            entry.parameter,
            entry.missing,
            _chunk(block, entry.offset, entry.chunk_bytes, entry.crc),
        )
        return unpack_column(packed, entry.type, header.count)
    except BlockDamage as damage:
        part = f"the column {entry.name}"
        raise damaged_block(damage, place=place, part=part, offset=entry.offset) from damage


def _chunk(block: bytes, offset: int, size: int, crc: int) -> bytes:
    chunk: Any = block[offset : offset + size]
    if zlib.crc32(chunk) != crc:
        raise BlockDamage(found="another checksum", expected=f"{crc:#010x}")
    return bytes(chunk)
