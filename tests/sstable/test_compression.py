"""CompressionInfo.db and Summary.db: numbers that cannot be are refused."""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.errors import CorruptDataError
from treering.sstable.compression import (
    HEAD_BYTES,
    SUMMARY_HEAD_BYTES,
    check_data_length,
    parse_compression_info,
    parse_summary_keys,
    summary_keys_at,
)
from treering.sstable.version import version_of

NB = version_of("nb", "big")
ME = version_of("me", "big")


def utf(text: str) -> bytes:
    """Return text as Java writes it."""
    return struct.pack(">H", len(text)) + text.encode()


def info_of(
    length: int, chunks: int, *, chunk_bytes: int = 16_384, longest: bytes = b"\x7f\xff\xff\xff"
) -> bytes:
    """Return a CompressionInfo.db."""
    head = utf("LZ4Compressor") + struct.pack(">i", 1) + utf("a") + utf("b")
    numbers = struct.pack(">i", chunk_bytes) + longest + struct.pack(">qi", length, chunks)
    return head + numbers + bytes(8 * chunks)


def test_all_of_it_is_read() -> None:
    data = info_of(40_000, 3)
    info = parse_compression_info(data, NB, file_bytes=len(data))
    assert (info.compressor, info.options) == ("LZ4Compressor", (("a", "b"),))
    assert (info.chunk_bytes, info.uncompressed_bytes) == (16_384, 40_000)
    assert info.max_compressed_bytes is None
    assert info.last_offset_at == len(data) - 8


def test_older_versions_have_no_longest_length() -> None:
    data = info_of(40_000, 3, longest=b"")
    assert parse_compression_info(data, ME, file_bytes=len(data)).uncompressed_bytes == 40_000


def test_one_chunk_too_many_is_what_some_versions_write() -> None:
    data = info_of(40_000, 4)
    info = parse_compression_info(data, NB, file_bytes=len(data))
    assert info.last_offset_at == len(data) - 16


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (info_of(40_000, 2), "2 chunks of 16384 bytes cannot hold 40000"),
        (info_of(40_000, 9), "9 chunks"),
        (info_of(-1, 0), "-1 bytes"),
        (info_of(1, 1, chunk_bytes=0), "chunks of 0"),
        (info_of(40_000, 3)[:-1], "3 offsets of chunks are needed"),
        (info_of(40_000, 3)[:20], "more bytes are needed"),
        (b"", "2 more bytes are needed and 0 are left"),
        (utf("x") + struct.pack(">i", 2_000_000_000), "2000000000 options"),
        (b"\0\1\xff", "not UTF-8"),
    ],
)
def test_what_cannot_be_is_corrupt(data: bytes, message: str) -> None:
    with pytest.raises(CorruptDataError, match=message):
        parse_compression_info(data, NB, file_bytes=len(data))


def test_data_that_ends_before_its_last_chunk_is_cut_off() -> None:
    check_data_length((100).to_bytes(8, "big"), data_bytes=106)
    with pytest.raises(CorruptDataError, match="begins at byte 100, it has 104"):
        check_data_length((100).to_bytes(8, "big"), data_bytes=104)


def test_first_and_last_key_lie_after_the_entries() -> None:
    data = struct.pack(">iiqii", 128, 1, 10, 128, 1) + bytes(10) + b"\0\0\0\2ab\0\0\0\1c"
    start = summary_keys_at(data[:SUMMARY_HEAD_BYTES], file_bytes=len(data))
    assert parse_summary_keys(data[start:]) == (b"ab", b"c")


@pytest.mark.parametrize("size", [-1, 1 << 40])
def test_entries_longer_than_the_file_are_corrupt(size: int) -> None:
    with pytest.raises(CorruptDataError, match="bytes of entries"):
        summary_keys_at(struct.pack(">iiqii", 128, 1, size, 128, 1), file_bytes=100)


@pytest.mark.parametrize("tail", [b"", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\5abc"])
def test_keys_that_cannot_be_are_corrupt(tail: bytes) -> None:
    with pytest.raises(CorruptDataError):
        parse_summary_keys(tail)


@given(st.binary(max_size=200), st.integers(0, 10_000))
def test_any_bytes_are_a_value_or_a_clear_error(data: bytes, file_bytes: int) -> None:
    for version in (NB, ME):
        with contextlib.suppress(CorruptDataError):
            info = parse_compression_info(data[:HEAD_BYTES], version, file_bytes=file_bytes)
            assert info.chunk_bytes > 0
