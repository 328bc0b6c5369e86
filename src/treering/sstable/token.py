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
        h1 = (_rotated(h1, 27) + h2) * 5 + 0x52DCE729 & _MASK
        h2 ^= _mixed_2(k2)
        h2 = (_rotated(h2, 31) + h1) * 5 + 0x38495AB5 & _MASK
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


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _MASK


def _mixed_1(k1: int) -> int:
    return _rotated(k1 * _C1 & _MASK, 31) * _C2 & _MASK


def _mixed_2(k2: int) -> int:
    return _rotated(k2 * _C2 & _MASK, 33) * _C1 & _MASK


def _signed_tail(tail: bytes) -> int:
    value = 0
    for place, byte in enumerate(tail):
        value ^= (byte - 256 if byte > 127 else byte) << (8 * place)
    return value & _MASK


def _finished(h: int) -> int:
    h = (h ^ h >> 33) * 0xFF51AFD7ED558CCD & _MASK
    h = (h ^ h >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return h ^ h >> 33
