"""Statistics.db put together anew, with right checksums, around components that were changed."""

from __future__ import annotations

import struct
import uuid
import zlib
from typing import Final

STATS: Final = 2
PENDING: Final = uuid.UUID("11111111-2222-1333-8444-555555555555")
_ENTRY = struct.Struct(">ii")
# Flags for pending repair and host, the transient flag between them, and the host's id.
_TAIL_BYTES: Final = 3 + 16


def split(data: bytes, *, has_checksums: bool = True) -> dict[int, bytes]:
    """Return the components' bodies of a good file."""
    crc = 4 if has_checksums else 0
    (count,) = struct.unpack_from(">i", data)
    start = 4 + crc
    entries = list(_ENTRY.iter_unpack(data[start : start + count * 8]))
    ends = [*(offset for _, offset in entries[1:]), len(data)]
    return {
        ordinal: data[offset : end - crc]
        for (ordinal, offset), end in zip(entries, ends, strict=True)
    }


def join(parts: dict[int, bytes], *, has_checksums: bool = True) -> bytes:
    """Return a file of these components, with right checksums."""
    crc_bytes = 4 if has_checksums else 0
    count = struct.pack(">i", len(parts))
    offset = 4 + len(parts) * 8 + 2 * crc_bytes
    contents = b""
    bodies = b""
    for ordinal, body in sorted(parts.items()):
        contents += _ENTRY.pack(ordinal, offset + len(bodies))
        bodies += body + _crc(body)[:crc_bytes]
    checks = (_crc(count)[:crc_bytes], _crc(count + contents)[:crc_bytes])
    return count + checks[0] + contents + checks[1] + bodies


def _crc(data: bytes) -> bytes:
    return zlib.crc32(data).to_bytes(4, "big")


def with_pending_repair(data: bytes) -> bytes:
    """Return an ``nb`` file that a repair session holds."""
    parts = split(data)
    body = parts[STATS]
    parts[STATS] = body[:-_TAIL_BYTES] + b"\1" + PENDING.bytes + body[1 - _TAIL_BYTES :]
    return join(parts)


def as_na(data: bytes) -> bytes:
    """Return an ``nb`` file as version ``na`` would have it: without the host's id."""
    parts = split(data)
    parts[STATS] = parts[STATS][:-17]
    return join(parts)
