"""CompressionInfo.db and Summary.db: what their heads and ends say."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from treering.errors import CorruptDataError
from treering.sstable.cursor import Cursor
from treering.sstable.version import FormatVersion

HEAD_BYTES: Final = 8_192
"""How much of CompressionInfo.db holds all but the chunks' offsets: options are few."""

SUMMARY_HEAD_BYTES: Final = 24
KEY_BYTES_MAX: Final = 65_535
"""The longest partition key of Cassandra."""
SUMMARY_KEYS_BYTES_MAX: Final = 2 * (4 + KEY_BYTES_MAX)

_CRC_BYTES: Final = 4
_OPTIONS_MAX: Final = 64
_CHUNK_BYTES_MAX: Final = 1 << 30
_LENGTHS = struct.Struct(">iqi")
_LENGTHS_SINCE_NA = struct.Struct(">iiqi")
_SUMMARY_HEAD = struct.Struct(">iiqii")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompressionInfo:
    """How Data.db is compressed.

    Attributes:
        compressor: The compressor's class, such as ``LZ4Compressor``.
        options: Its options.
        chunk_bytes: The length of an uncompressed chunk.
        max_compressed_bytes: Chunks that would be longer are stored as they are; None for all are
            compressed.
        uncompressed_bytes: The length of the data before compression.
        last_offset_at: Where in the file the offset of the last chunk is; None without chunks.
    """

    compressor: str
    options: tuple[tuple[str, str], ...]
    chunk_bytes: int
    max_compressed_bytes: int | None
    uncompressed_bytes: int
    last_offset_at: int | None


def parse_compression_info(
    head: bytes, version: FormatVersion, *, file_bytes: int
) -> CompressionInfo:
    """Return what CompressionInfo.db says.

    Args:
        head: The first ``HEAD_BYTES`` of the file, or all of it.
        version: The version in the file's name.
        file_bytes: The size of the whole file.

    Raises:
        CorruptDataError: Cut off, or numbers that cannot be.
    """
    cursor = Cursor(head, "CompressionInfo.db")
    compressor = cursor.utf()
    count = cursor.i32()
    if not 0 <= count <= _OPTIONS_MAX:
        raise cursor.corrupt(f"{count} options of a compressor, {_OPTIONS_MAX} are the most")
    options = tuple([(cursor.utf(), cursor.utf()) for _ in range(count)])
    if version.has_checksums:
        chunk_bytes, longest, uncompressed_bytes, chunks = cursor.unpack(_LENGTHS_SINCE_NA)
    else:
        chunk_bytes, uncompressed_bytes, chunks = cursor.unpack(_LENGTHS)
        longest = (1 << 31) - 1
    if not 0 < chunk_bytes <= _CHUNK_BYTES_MAX or uncompressed_bytes < 0 or longest < 0:
        raise cursor.corrupt(
            f"{uncompressed_bytes} bytes in chunks of {chunk_bytes}, {longest} compressed"
        )
    # Some 3.x versions list one chunk more than there are.
    wanted = -(-uncompressed_bytes // chunk_bytes)
    if not wanted <= chunks <= wanted + 1:
        raise cursor.corrupt(
            f"{chunks} chunks of {chunk_bytes} bytes cannot hold {uncompressed_bytes} bytes"
        )
    if cursor.at + 8 * chunks > file_bytes:
        raise cursor.corrupt(
            f"{chunks} offsets of chunks are needed, the file ends at byte {file_bytes}"
        )
    return CompressionInfo(
        compressor=compressor,
        options=options,
        chunk_bytes=chunk_bytes,
        max_compressed_bytes=None if longest == (1 << 31) - 1 else longest,
        uncompressed_bytes=uncompressed_bytes,
        last_offset_at=cursor.at + 8 * (wanted - 1) if wanted else None,
    )


def check_data_length(last_offset: bytes, *, data_bytes: int) -> None:
    """Refuse a Data.db that ends before its last chunk.

    Args:
        last_offset: The eight bytes at ``last_offset_at``.
        data_bytes: The size of Data.db.

    Raises:
        CorruptDataError: Cut off.
    """
    start = int.from_bytes(last_offset, "big")
    if len(last_offset) != 8 or start + _CRC_BYTES >= data_bytes:
        raise CorruptDataError(
            f"Data.db is cut off: its last chunk begins at byte {start}, it has {data_bytes}",
            offset=data_bytes,
        )


def summary_keys_at(head: bytes, *, file_bytes: int) -> int:
    """Return where in Summary.db the first and last key begin.

    Args:
        head: The first ``SUMMARY_HEAD_BYTES`` of the file, or more.
        file_bytes: The size of the whole file.

    Raises:
        CorruptDataError: Cut off, or a size that cannot be.
    """
    cursor = Cursor(head, "Summary.db")
    off_heap_bytes = cursor.unpack(_SUMMARY_HEAD)[2]
    if not 0 <= off_heap_bytes <= file_bytes - SUMMARY_HEAD_BYTES:
        raise cursor.corrupt(f"{off_heap_bytes} bytes of entries in a file of {file_bytes}")
    return int(SUMMARY_HEAD_BYTES + off_heap_bytes)


def parse_summary_keys(tail: bytes) -> tuple[bytes, bytes]:
    """Return the first and the last partition key.

    Args:
        tail: Summary.db from where ``summary_keys_at`` says, ``SUMMARY_KEYS_BYTES_MAX`` at most.

    Raises:
        CorruptDataError: Cut off, or a key that is too long.
    """
    cursor = Cursor(tail, "Summary.db's end")
    return _key(cursor), _key(cursor)


def _key(cursor: Cursor) -> bytes:
    length = cursor.i32()
    if not 0 <= length <= KEY_BYTES_MAX:
        raise cursor.corrupt(f"a partition key of {length} bytes")
    return cursor.take(length)
