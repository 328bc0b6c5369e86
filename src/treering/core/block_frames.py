"""Bytes and bits inside a block: zstd frames of a known size, and bitmaps.

Rules of this file: how many bytes come out is known, and bounded, before anything is decompressed.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np
import numpy.typing as npt
import zstandard

from treering.core.block_damage import BlockDamage

BoolArray = npt.NDArray[np.bool_]

_U32: Final = struct.Struct("<I")


def pack_frame(raw: bytes, level: int) -> bytes:
    """Return bytes as one zstd frame that says how many they are."""
    return zstandard.ZstdCompressor(level=level, write_content_size=True).compress(raw)


def unpack_frame(frame: bytes, *, bytes_max: int) -> bytes:
    """Return what a zstd frame holds.

    Raises:
        BlockDamage: Not one whole frame, or more than ``bytes_max``.
    """
    try:
        # A frame's own word for its size decides what is allocated, so it is looked at first.
        size = zstandard.frame_content_size(frame)
        if not 0 <= size <= bytes_max:
            raise BlockDamage(
                found=f"a zstd frame of {size} bytes", expected=f"at most {bytes_max}"
            )
        raw = zstandard.ZstdDecompressor().decompress(
            frame, max_output_size=max(1, size), allow_extra_data=False
        )
    except zstandard.ZstdError as error:
        raise BlockDamage(found=f"no zstd frame ({error})", expected="a zstd frame") from error
    if len(raw) != size:
        raise BlockDamage(found=f"{len(raw)} bytes in a zstd frame", expected=str(size))
    return raw


def pack_bits(flags: BoolArray) -> bytes:
    """Return booleans as bits, the first in the lowest bit of the first byte."""
    return np.packbits(flags, bitorder="little").tobytes()


def unpack_bits(raw: bytes, count: int) -> BoolArray:
    """Return ``count`` booleans.

    Raises:
        BlockDamage: Another number of bytes, or bits set beyond the last.
    """
    if len(raw) != bitmap_bytes(count):
        raise BlockDamage(
            found=f"a bitmap of {len(raw)} bytes", expected=f"{bitmap_bytes(count)} bytes"
        )
    bits = np.unpackbits(np.frombuffer(raw, np.uint8), bitorder="little").view(np.bool_)
    if bits[count:].any():
        raise BlockDamage(found="bits after the end of a bitmap", expected="zeros")
    return bits[:count]


def bitmap_bytes(count: int) -> int:
    """Return how many bytes ``count`` bits take."""
    return (count + 7) // 8


def pack_sized(raw: bytes) -> bytes:
    """Return bytes after their length, so that others can follow."""
    return _U32.pack(len(raw)) + raw


def unpack_sized(chunk: bytes) -> tuple[bytes, bytes]:
    """Return what :func:`pack_sized` packed, and what follows.

    Raises:
        BlockDamage: Too few bytes.
    """
    if len(chunk) < _U32.size:
        raise BlockDamage(found=f"{len(chunk)} bytes", expected="a length of 4 bytes")
    (length,) = _U32.unpack_from(chunk)
    end = _U32.size + length
    if end > len(chunk):
        raise BlockDamage(
            found=f"a length of {length}", expected=f"at most {len(chunk) - _U32.size}"
        )
    return chunk[_U32.size : end], chunk[end:]
