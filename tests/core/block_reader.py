"""A reader of blocks written from docs/reference/block-format.md alone: nothing of treering.

It is slow, checks little, and makes Python values; missing ones are None.
"""

from __future__ import annotations

import struct
import zlib
from fractions import Fraction
from typing import Any

import zstandard
from pcodec import standalone

UNITS = ("ms", "us", "ns")
TYPES = ("double", "float", "int", "bigint", "boolean", "text")
FORMATS = {"double": "d", "float": "f", "int": "i", "bigint": "q"}


def pco(data: bytes) -> list[Any]:
    """Return the numbers of a standalone file of pcodec."""
    values = standalone.simple_decompress(data)
    assert values is not None
    return list(values.tolist())


def zstd(data: bytes) -> bytes:
    """Return what one frame holds."""
    return zstandard.ZstdDecompressor().decompress(data)


def bits(data: bytes, count: int) -> list[bool]:
    """Return the first so many bits, the lowest of each byte first."""
    assert len(data) == (count + 7) // 8
    return [bool(data[i // 8] >> (i % 8) & 1) for i in range(count)]


def read(block: bytes) -> dict[str, Any]:
    """Return all that a block says: unit, times, columns and their statistics.

    Doubles and floats are their bits as integers.
    """
    assert block[:2] == b"TB"
    assert block[2] == 1
    assert block[3] == 1
    crc, header_bytes, block_bytes = struct.unpack_from("<III", block, 4)
    assert zlib.crc32(block[:4] + block[8:header_bytes]) == crc
    assert len(block) == block_bytes
    n, unit, encoding, columns, first, last, step, size, crc = struct.unpack_from(
        "<IBBHqqQII", block, 16
    )
    chunk, rest = block[header_bytes : header_bytes + size], block[header_bytes + size :]
    assert zlib.crc32(chunk) == crc
    beside = [0] * n if encoding == 0 else pco(chunk)
    times = [signed(first + i * step + r, 64) for i, r in enumerate(beside)]
    assert times[0] == first
    assert times[-1] == last
    found: dict[str, Any] = {}
    at = 56
    for _ in range(columns):
        a, kind, validity, encoding, digits, zero, b, missing, size, crc = struct.unpack_from(
            "<BBBBBBHIII", block, at
        )
        name = block[at + 20 : at + 20 + a].decode()
        stats = block[at + 20 + a : at + 20 + a + b]
        at += 20 + a + b
        chunk, rest = rest[:size], rest[size:]
        assert zero == 0
        assert zlib.crc32(chunk) == crc
        there, chunk = validity_of(chunk, validity, n)
        assert there.count(False) == missing
        m = n - missing
        values = iter(values_of(chunk, TYPES[kind], encoding, digits, m) if m else [])
        found[name] = (
            TYPES[kind],
            [next(values) if is_there else None for is_there in there],
            stats_of(stats, TYPES[kind]) if b else None,
        )
        assert next(values, None) is None
    assert at == header_bytes
    assert not rest
    return {"unit": UNITS[unit], "times": times, "columns": found}


def signed(number: int, width: int) -> int:
    """Return a number modulo two to the width, as a signed one."""
    number %= 1 << width
    return number - (1 << width) if number >> (width - 1) else number


def validity_of(chunk: bytes, validity: int, n: int) -> tuple[list[bool], bytes]:
    """Return which values are there, and the rest of the chunk."""
    if validity == 0:
        return [True] * n, chunk
    if validity == 3:
        return [False] * n, chunk
    if validity == 1:
        size = (n + 7) // 8
        return bits(chunk[:size], n), chunk[size:]
    (size,) = struct.unpack_from("<I", chunk)
    return bits(zstd(chunk[4 : 4 + size]), n), chunk[4 + size :]


def values_of(chunk: bytes, kind: str, encoding: int, digits: int, m: int) -> list[Any]:
    """Return the values that are there."""
    if kind == "text":
        return texts_of(zstd(chunk), encoding, m)
    if kind == "boolean":
        if encoding == 1:
            return [chunk == b"\1"] * m
        return bits(chunk if encoding == 7 else zstd(chunk), m)
    if encoding in (1, 2):
        # Integers have the same size as floats of that size: bits for bits.
        letter = {"d": "q", "f": "i"}.get(FORMATS[kind], FORMATS[kind])
        values = [value for (value,) in struct.iter_unpack("<" + letter, chunk)]
        return values * m if encoding == 1 else values
    if encoding in (3, 4):
        return bits_of(chunk, kind)
    return decimals_of(chunk, kind, digits)


def bits_of(chunk: bytes, kind: str) -> list[int]:
    """Return numbers by pcodec, floats as their bits."""
    values = standalone.simple_decompress(chunk)
    assert values is not None
    if kind in ("double", "float"):
        return list(values.view("i8" if kind == "double" else "i4").tolist())
    return list(values.tolist())


def decimals_of(chunk: bytes, kind: str, digits: int) -> list[int]:
    """Return decimals as bits of their type."""
    (x,) = struct.unpack_from("<I", chunk)
    letter, whole = ("d", "q") if kind == "double" else ("f", "i")
    values = [
        struct.unpack("<" + whole, struct.pack("<" + letter, float(number) / 10.0**digits))[0]
        for number in pco(chunk[4 + x :])
    ]
    if x:
        raw = zstd(chunk[4 : 4 + x])
        e = len(raw) // (4 + struct.calcsize(whole))
        places = struct.unpack_from(f"<{e}I", raw)
        for place, value in zip(
            places, struct.unpack_from(f"<{e}{whole}", raw, 4 * e), strict=True
        ):
            values[place] = value
    return values


def texts_of(raw: bytes, encoding: int, m: int) -> list[str]:
    """Return the texts."""
    count, at = m, 0
    if encoding == 10:
        (count,), at = struct.unpack_from("<I", raw), 4
    lengths = struct.unpack_from(f"<{count}I", raw, at)
    at += 4 * count
    texts = []
    for length in lengths:
        texts.append(raw[at : at + length].decode())
        at += length
    if encoding == 9:
        assert at == len(raw)
        return texts
    numbers = struct.unpack_from(f"<{m}{'B' if count <= 256 else 'H'}", raw, at)
    return [texts[number] for number in numbers]


def stats_of(raw: bytes, kind: str) -> dict[str, Any]:
    """Return statistics."""
    letter = FORMATS[kind]
    size = 4 * struct.calcsize(letter)
    least, largest, first, last = struct.unpack("<4" + letter, raw[:size])
    found = {"least": least, "largest": largest, "first": first, "last": last}
    if letter in "iq":
        return {**found, "nan": 0, "sum": int.from_bytes(raw[size:], "little", signed=True)}
    nan, p, q = struct.unpack_from("<IhH", raw, size)
    assert len(raw) == size + 8 + q
    total = int.from_bytes(raw[size + 8 :], "little", signed=True) * Fraction(2) ** p
    return {**found, "nan": nan, "sum": total}
