"""Reads tar archives of strangers, gzipped or not, member by member.

Rules of this file: regular files and folders alone; one name, one member; no name leaves the
folder; sizes, number and names of members are bounded before a byte of them is kept. Python's own
``tarfile`` reads extended headers of any size into memory, so the few needed forms are read here.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from treering.errors import CorruptDataError

_BLOCK: Final = 512
_PIECE: Final = 1 << 20
_MEMBERS_MAX: Final = 1_000_000
_NAME_MAX: Final = 4_096
_EXTENDED_MAX: Final = 64 << 10
_PARTS_MAX: Final = 16
_MTIME_MAX: Final = 1 << 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What an archive may hold.

    Attributes:
        member_bytes: The largest member.
        total_bytes: All of the archive, uncompressed.
    """

    member_bytes: int = 256 << 20
    total_bytes: int = 2 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A regular file of an archive.

    Attributes:
        parts: Its name, folder by folder; none is empty, ``.`` or ``..``.
        mtime_s: When it was written, epoch seconds.
        data: All of it.
    """

    parts: tuple[str, ...]
    mtime_s: int
    data: bytes


def read_tar(path: Path, limits: Limits | None = None) -> Iterator[Member]:
    """Yield the regular files of an archive.

    Raises:
        CorruptDataError: Not an archive, cut off, over a limit, or with a member that is no
            plain file or would land outside of the folder.
        OSError: It cannot be read.
    """
    with path.open("rb") as raw:
        magic = raw.read(2)
        raw.seek(0)
        if magic == b"\x1f\x8b":
            with gzip.GzipFile(fileobj=raw) as stream:
                yield from _members(_Stream(stream, path, limits or Limits()))
        else:
            yield from _members(_Stream(raw, path, limits or Limits()))


class _Readable(Protocol):
    def read(self, count: int, /) -> bytes: ...


class _Stream:
    """Bytes of an archive, counted."""

    def __init__(self, stream: _Readable, path: Path, limits: Limits) -> None:
        self._stream = stream
        self._left = limits.total_bytes
        self.path = path
        self.limits = limits

    def take(self, count: int) -> bytes:
        if count > self._left:
            raise self.refused(f"it holds more than {self.limits.total_bytes:,} bytes")
        self._left -= count
        try:
            data = self._stream.read(count)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise self.refused(str(error)) from error
        if len(data) < count:
            raise self.refused("it is cut off")
        return data

    def finish(self) -> None:
        """Read on to the end, so that a cut that spared the members shows too."""
        while self._left > 0:
            try:
                data = self._stream.read(min(_PIECE, self._left))
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise self.refused(str(error)) from error
            if not data:
                return
            self._left -= len(data)
        raise self.refused(f"it holds more than {self.limits.total_bytes:,} bytes")

    def refused(self, why: str) -> CorruptDataError:
        return CorruptDataError(
            f"{self.path} is no bundle that can be read: {why}",
            hint="collect it again with treering doctor collect",
            path=str(self.path),
        )


def _members(stream: _Stream) -> Iterator[Member]:
    seen: set[tuple[str, ...]] = set()
    long_name: str | None = None
    for _ in range(_MEMBERS_MAX):
        header = stream.take(_BLOCK)
        if not header.strip(b"\0"):
            stream.finish()
            return
        kind, size = _checked(stream, header)
        if kind in b"LxgK":
            extended = _data(stream, size, _EXTENDED_MAX)
            long_name = _long_name(stream, kind, extended) or long_name
            continue
        name = long_name if long_name is not None else _short_name(header)
        long_name = None
        if kind == ord("5"):
            _parts(stream, name)
            continue
        if kind not in (ord("0"), 0):
            raise stream.refused(f"{name[:80]!r} is no plain file")
        parts = _parts(stream, name)
        if parts in seen or not parts:
            raise stream.refused(f"{name[:80]!r} is in it twice, or has no name")
        seen.add(parts)
        mtime_s = min(_number(stream, header[136:148]), _MTIME_MAX)
        data = _data(stream, size, stream.limits.member_bytes)
        yield Member(parts=parts, mtime_s=mtime_s, data=data)
    raise stream.refused(f"it has more than {_MEMBERS_MAX:,} members")


def _checked(stream: _Stream, header: bytes) -> tuple[int, int]:
    """Return kind and size of a member whose header has the right checksum."""
    blanked = header[:148] + b" " * 8 + header[156:]
    if _number(stream, header[148:156]) != sum(blanked):
        raise stream.refused("a header has the wrong checksum")
    return header[156], _number(stream, header[124:136])


def _number(stream: _Stream, field: bytes) -> int:
    if field[0] & 0x80:
        return int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big")
    text = field.strip(b" \0")
    if any(digit not in b"01234567" for digit in text):
        raise stream.refused("a header has a number that is none")
    return int(text or b"0", 8)


def _data(stream: _Stream, size: int, size_max: int) -> bytes:
    if size > size_max:
        raise stream.refused(f"a member has {size:,} bytes; {size_max:,} are read")
    data = stream.take(size)
    stream.take(-size % _BLOCK)
    return data


def _short_name(header: bytes) -> str:
    name = header[:100].partition(b"\0")[0]
    if header[257:263] == b"ustar\0":
        prefix = header[345:500].partition(b"\0")[0]
        name = prefix + b"/" + name if prefix else name
    return name.decode("utf-8", "replace")


def _long_name(stream: _Stream, kind: int, data: bytes) -> str | None:
    """Return the name that an extended header gives to the next member; None for none."""
    if kind == ord("L"):
        return data.rstrip(b"\0").decode("utf-8", "replace")
    if kind != ord("x"):
        return None
    while data:
        length, _, rest = data.partition(b" ")
        if not length.isdigit() or len(length) > 6 or not len(length) < int(length) <= len(data):
            raise stream.refused("an extended header cannot be read")
        record = rest[: int(length) - len(length) - 1]
        key, _, value = record.removesuffix(b"\n").partition(b"=")
        if key == b"path":
            return value.decode("utf-8", "replace")
        if key.startswith((b"GNU.sparse", b"size")):
            raise stream.refused("a member is not stored plainly")
        data = data[int(length) :]
    return None


def _parts(stream: _Stream, name: str) -> tuple[str, ...]:
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    is_odd = len(name) > _NAME_MAX or len(parts) > _PARTS_MAX or "\0" in name
    if name.startswith("/") or ".." in parts or is_odd:
        raise stream.refused(f"{name[:80]!r} would land outside of the folder")
    return parts
