"""Times in version 1 UUIDs (CQL ``timeuuid``), as arrays.

Rules of this file: a time is floored to microseconds when it is read; a time that is written gives
one UUID, always the same, so that a write that is sent twice is one row.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

# Hundreds of nanoseconds from 1582-10-15, where version 1 UUIDs start, to 1970.
_EPOCH_TICKS: Final = 0x01B21DD213814000
_PER_US: Final = 10
TIMEUUID_MIN_US: Final = -_EPOCH_TICKS // _PER_US
"""The first microsecond since 1970 that a timeuuid can hold."""

TIMEUUID_END_US: Final = (2**60 - _EPOCH_TICKS) // _PER_US
"""The first microsecond after all that a timeuuid can hold."""

# Clock sequence 0 in the standard's variant, and a node id whose multicast bit says that it is no
# machine's address.
_OURS: Final = b"\x80\x00\x01treer"
# Cassandra compares what follows the time as signed bytes: the smallest there is.
_LEAST: Final = b"\x80" * 8

_PARTS: Final = np.dtype([("low", ">u4"), ("mid", ">u2"), ("high", ">u2"), ("rest", "V8")])
_VERSION: Final = 0x1000


def timeuuids_of(ts_us: npt.NDArray[np.int64]) -> list[bytes]:
    """Return the UUID that treering writes for each time."""
    return _uuids_of(ts_us, _OURS)


def timeuuid_bound(ts_us: int) -> bytes:
    """Return the UUID that is not after any of that time and after all of earlier ones."""
    inside = min(max(ts_us, TIMEUUID_MIN_US), TIMEUUID_END_US - 1)
    return _uuids_of(np.array([inside], dtype=np.int64), _LEAST)[0]


def _uuids_of(ts_us: npt.NDArray[np.int64], rest: bytes) -> list[bytes]:
    ticks = (ts_us * _PER_US + _EPOCH_TICKS).astype(np.uint64)
    parts = np.zeros(len(ticks), dtype=_PARTS)
    parts["low"] = ticks & np.uint64(0xFFFFFFFF)
    parts["mid"] = (ticks >> np.uint64(32)) & np.uint64(0xFFFF)
    parts["high"] = (ticks >> np.uint64(48)) | np.uint64(_VERSION)
    parts["rest"] = np.void(rest)
    items: list[bytes] = parts.view("V16").tolist()
    return items


def times_of_timeuuids(uuids: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return the microseconds since 1970 of UUIDs of 16 bytes each, floored."""
    parts = uuids.view(_PARTS)
    ticks = parts["low"].astype(np.int64) | parts["mid"].astype(np.int64) << 32
    ticks |= (parts["high"].astype(np.int64) & 0x0FFF) << 48
    return (ticks - _EPOCH_TICKS) // _PER_US
