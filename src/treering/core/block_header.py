"""A block's header: what is in the block, where, and what it says about its readings.

Rules of this file: the first 16 bytes mean the same in every version, so that a newer block is
told from a damaged one; nothing is believed before the header's checksum is right; every count is
compared with its bound before anything is made of it; its entries are tuples, because an overview
of years parses thousands of headers. ``docs/reference/block-format.md`` says the same in words.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from treering.core.block_columns import PackedColumn
from treering.core.block_damage import BlockDamage
from treering.core.block_stats import ColumnStats, parse_stats, render_stats
from treering.core.schema import ColumnType
from treering.core.units import Precision
from treering.errors import SchemaMismatchError

MAGIC: Final = b"TB"
CODEC: Final = 1
VERSION: Final = 1

BLOCK_ROWS_MAX: Final = 65_536
"""The most readings of one block."""
BLOCK_COLUMNS_MAX: Final = 256
"""The most columns of one block: those of a table, and as many that go with them."""
_NAME_BYTES_MAX: Final = 255
_HEADER_BYTES_MAX: Final = 2**20

_START: Final = struct.Struct("<2sBBIII")
_TIMES: Final = struct.Struct("<IBBHqqQII")
_COLUMN: Final = struct.Struct("<BBBBBBHIII")
_FIXED_BYTES: Final = _START.size + _TIMES.size

_TYPES: Final = (
    ColumnType.DOUBLE,
    ColumnType.FLOAT,
    ColumnType.INT,
    ColumnType.BIGINT,
    ColumnType.BOOLEAN,
    ColumnType.TEXT,
)
_PRECISIONS: Final = (Precision.MS, Precision.US, Precision.NS)


class TimesEntry(NamedTuple):
    """How event times are packed, and between which they lie; step in ticks."""

    encoding: int
    first: int
    last: int
    step: int
    chunk_bytes: int
    crc: int


class ColumnEntry(NamedTuple):
    """Where one column is, and how it is packed.

    Attributes:
        name: The column's name.
        type: Its type.
        validity: How missing values are marked.
        encoding: How values are packed.
        parameter: What the encoding needs besides.
        missing: How many values are missing.
        offset: Where its chunk begins, from the start of the block.
        chunk_bytes: How long the chunk is.
        crc: The chunk's CRC-32.
        raw_stats: Its statistics, not yet parsed.
    """

    name: str
    type: ColumnType
    validity: int
    encoding: int
    parameter: int
    missing: int
    offset: int
    chunk_bytes: int
    crc: int
    raw_stats: bytes

    def has_stats(self, count: int) -> bool:
        """Return whether the column was packed with statistics."""
        return bool(self.raw_stats) or not self.type.is_numeric or self.missing == count

    def stats(self, count: int) -> ColumnStats:
        """Return the column's statistics in a block of ``count`` readings."""
        return parse_stats(
            self.raw_stats, self.type, count=count - self.missing, missing=self.missing
        )


@dataclass(frozen=True, slots=True)
class ColumnParts:
    """What a column becomes in a block: its type, its bytes and, where wanted, its statistics."""

    type: ColumnType
    packed: PackedColumn
    stats: ColumnStats | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """A parsed header; ``columns`` by name, in the order of their chunks."""

    count: int
    precision: Precision
    times: TimesEntry
    header_bytes: int
    columns: Mapping[str, ColumnEntry]


def render_header(
    *,
    count: int,
    precision: Precision,
    times: tuple[int, int, bytes],
    first: int,
    last: int,
    columns: Mapping[str, ColumnParts],
) -> bytes:
    """Return the header of a block whose chunks follow in the order of ``columns``."""
    encoding, step, chunk = times
    parts = [
        _TIMES.pack(
            count,
            _PRECISIONS.index(precision),
            encoding,
            len(columns),
            first,
            last,
            step,
            len(chunk),
            zlib.crc32(chunk),
        )
    ]
    for name, column in columns.items():
        parts += _render_column(name, column)
    body = b"".join(parts)
    header_bytes = _START.size + len(body)
    chunks_bytes = len(chunk) + sum(len(column.packed.chunk) for column in columns.values())
    sizes = struct.pack("<II", header_bytes, header_bytes + chunks_bytes)
    start = MAGIC + bytes((CODEC, VERSION))
    crc = zlib.crc32(body, zlib.crc32(sizes, zlib.crc32(start)))
    return start + struct.pack("<I", crc) + sizes + body


def _render_column(name: str, column: ColumnParts) -> list[bytes]:
    text, packed = name.encode(), column.packed
    raw_stats = b"" if column.stats is None else render_stats(column.stats)
    head = _COLUMN.pack(
        len(text),
        _TYPES.index(column.type),
        packed.validity,
        packed.encoding,
        packed.parameter,
        0,
        len(raw_stats),
        packed.missing,
        len(packed.chunk),
        zlib.crc32(packed.chunk),
    )
    return [head, text, raw_stats]


def header_bytes_of(beginning: bytes) -> int:
    """Return how long a block's header says that it is, not more than one may be.

    Args:
        beginning: The first bytes of a block, of which nothing was checked yet.
    """
    if len(beginning) < _START.size:
        return 0
    header_bytes = int(_START.unpack_from(beginning)[4])
    return min(header_bytes, _HEADER_BYTES_MAX)


def parse_header(block: bytes, *, place: str, is_whole: bool) -> Header:
    """Return the header of a block, or of its beginning.

    Args:
        block: The bytes of a block, at least those of its header.
        place: Which block it is, for messages.
        is_whole: Whether ``block`` must be as long as the header says.

    Raises:
        BlockDamage: Not a block, cut short, or damaged.
        SchemaMismatchError: Of a newer version, or of a codec that this release does not have.
    """
    if len(block) < _START.size:
        raise BlockDamage(found=f"{len(block)} bytes", expected=f"at least {_START.size}")
    magic, codec, version, crc, header_bytes, block_bytes = _START.unpack_from(block)
    if magic != MAGIC:
        raise BlockDamage(found=f"a beginning of {magic!r}", expected=f"{MAGIC!r}")
    if not _START.size <= header_bytes <= min(len(block), _HEADER_BYTES_MAX):
        raise BlockDamage(
            found=f"a header of {header_bytes} bytes",
            expected=f"{_START.size} to {min(len(block), _HEADER_BYTES_MAX)}",
        )
    if zlib.crc32(block[8:header_bytes], zlib.crc32(block[:4])) != crc:
        raise BlockDamage(found="another checksum of the header", expected=f"{crc:#010x}")
    if (codec, version) != (CODEC, VERSION):
        raise _not_ours(codec, version, place)
    if is_whole and len(block) != block_bytes:
        raise BlockDamage(found=f"{len(block)} bytes", expected=f"{block_bytes}")
    return _parse_body(block[:header_bytes], block_bytes)


def _not_ours(codec: int, version: int, place: str) -> SchemaMismatchError:
    return SchemaMismatchError(
        f"{place} is of codec {codec}, version {version}; this release reads codec {CODEC} up to "
        f"version {VERSION}",
        hint="upgrade treering",
        place=place,
        codec=codec,
        version=version,
    )


def _parse_body(header: bytes, block_bytes: int) -> Header:
    if len(header) < _FIXED_BYTES:
        raise BlockDamage(found=f"a header of {len(header)} bytes", expected=f"{_FIXED_BYTES}")
    count, precision, encoding, columns, first, last, step, chunk_bytes, crc = _TIMES.unpack_from(
        header, _START.size
    )
    if not 1 <= count <= BLOCK_ROWS_MAX:
        raise BlockDamage(found=f"{count} readings", expected=f"1 to {BLOCK_ROWS_MAX}")
    if precision >= len(_PRECISIONS):
        raise BlockDamage(found=f"the precision {precision}", expected="0, 1 or 2")
    if columns > BLOCK_COLUMNS_MAX:
        raise BlockDamage(found=f"{columns} columns", expected=f"at most {BLOCK_COLUMNS_MAX}")
    entries = _parse_columns(header, columns, count, len(header) + chunk_bytes)
    end = len(header) + chunk_bytes + sum(entry.chunk_bytes for entry in entries.values())
    if end != block_bytes:
        raise BlockDamage(found=f"chunks up to byte {end}", expected=f"{block_bytes}")
    return Header(
        count=count,
        precision=_PRECISIONS[precision],
        times=TimesEntry(
            encoding=encoding, first=first, last=last, step=step, chunk_bytes=chunk_bytes, crc=crc
        ),
        header_bytes=len(header),
        columns=entries,
    )


def _parse_columns(header: bytes, columns: int, count: int, offset: int) -> dict[str, ColumnEntry]:
    entries: dict[str, ColumnEntry] = {}
    at = _FIXED_BYTES
    for _ in range(columns):
        if at + _COLUMN.size > len(header):
            raise BlockDamage(found=f"{len(entries)} columns", expected=str(columns))
        name_bytes, kind, validity, encoding, parameter, zero, stats_bytes, missing, size, crc = (
            _COLUMN.unpack_from(header, at)
        )
        at += _COLUMN.size
        name, raw_stats = header[at : at + name_bytes], header[at + name_bytes :][:stats_bytes]
        at += name_bytes + stats_bytes
        if at > len(header) or kind >= len(_TYPES) or missing > count or zero:
            raise BlockDamage(
                found=f"a column of type {kind}, {missing} values missing, up to byte {at}",
                expected=f"a known type, at most {count} missing, at most {len(header)} bytes",
            )
        text = _parse_name(name, entries)
        entries[text] = ColumnEntry(
            name=text,
            type=_TYPES[kind],
            validity=validity,
            encoding=encoding,
            parameter=parameter,
            missing=missing,
            offset=offset,
            chunk_bytes=size,
            crc=crc,
            raw_stats=raw_stats,
        )
        offset += size
    if at != len(header):
        raise BlockDamage(found=f"columns up to byte {at}", expected=f"{len(header)}")
    return entries


def _parse_name(name: bytes, others: Mapping[str, ColumnEntry]) -> str:
    try:
        text = name.decode()
    except UnicodeDecodeError as error:
        raise BlockDamage(found=f"the column {name!r}", expected="a name in UTF-8") from error
    if not text or text in others:
        raise BlockDamage(found=f"the column {text!r} again, or none", expected="another name")
    return text


def check_name(name: str) -> bool:
    """Return whether a block can hold a column of that name: 1 to 255 bytes of UTF-8."""
    try:
        return 1 <= len(name.encode()) <= _NAME_BYTES_MAX
    except UnicodeEncodeError:
        return False
