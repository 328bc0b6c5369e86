"""Where a partition lies on the ring: Murmur3 as Cassandra computes it.

Mirrors ``utils/MurmurHash.hash3_x64_128`` and ``dht/Murmur3Partitioner``, Cassandra 3.11 to 5.0:
the bytes after the last whole block are taken as signed, unlike in other implementations.
"""

from __future__ import annotations

import struct
from typing import Final

TOKEN_MIN: Final = -(1 << 63)
TOKEN_MAX: Final = (1 << 63) - 1

_MASK: Final = (1 << 64) - 1
_C1: Final = 0x87C37B91114253D5
_C2: Final = 0x4CF5AD432745937F
_BLOCK: Final = struct.Struct("<QQ")


def token_of(key: bytes) -> int:
    """Return the token of a serialized partition key.

    >>> token_of(b"abc") == -5434086359492102041
    True
    """
    if not key:
        return TOKEN_MIN
    h1 = h2 = 0
    whole = len(key) & ~15
    for k1, k2 in _BLOCK.iter_unpack(key[:whole]):
        h1 ^= _mixed_1(k1)
        h1 = ((h1 << 27 | h1 >> 37) + h2) * 5 + 0x52DCE729 & _MASK
        h2 ^= _mixed_2(k2)
        h2 = ((h2 << 31 | h2 >> 33) + h1) * 5 + 0x38495AB5 & _MASK
    tail = key[whole:]
    if len(tail) > 8:
        h2 ^= _mixed_2(_signed_tail(tail[8:]))
    if tail:
        h1 ^= _mixed_1(_signed_tail(tail[:8]))
    h1 ^= len(key)
    h2 ^= len(key)
    h1 = h1 + h2 & _MASK
    h2 = h2 + h1 & _MASK
    token = _finished(h1) + _finished(h2) & _MASK
    if token > TOKEN_MAX:
        token -= 1 << 64
    return TOKEN_MAX if token == TOKEN_MIN else token


def _mixed_1(k1: int) -> int:
    k1 = k1 * _C1 & _MASK
    return (k1 << 31 | k1 >> 33) * _C2 & _MASK


def _mixed_2(k2: int) -> int:
    k2 = k2 * _C2 & _MASK
    return (k2 << 33 | k2 >> 31) * _C1 & _MASK


def _signed_tail(tail: bytes) -> int:
    value = int.from_bytes(tail, "little")
    if not tail.isascii():
        # A byte above 127 is -256 more as a signed one, which flips all bits above it.
        for place, byte in enumerate(tail):
            if byte > 127:
                value ^= -1 << 8 * (place + 1)
    return value & _MASK


def _finished(h: int) -> int:
    h = (h ^ h >> 33) * 0xFF51AFD7ED558CCD & _MASK
    h = (h ^ h >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return h ^ h >> 33
