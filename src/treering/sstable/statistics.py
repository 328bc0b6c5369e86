"""Statistics.db: its envelope, and the three components that are read here.

Mirrors ``io/sstable/metadata/MetadataSerializer``, ``ValidationMetadata`` and
``db/SerializationHeader``, Cassandra 3.11 to 5.0. The STATS component is in ``stats.py``.
"""

from __future__ import annotations

import functools
import struct
import zlib
from dataclasses import dataclass
from typing import Final

from treering.errors import CorruptDataError
from treering.sstable.cursor import Cursor
from treering.sstable.stats import Stats, parse_stats
from treering.sstable.version import FormatVersion

STATISTICS_BYTES_MAX: Final = 8 << 20
"""A larger Statistics.db is refused: key, bounds and names are at most some hundred kB of it."""

VALIDATION: Final = 0
COMPACTION: Final = 1
STATS: Final = 2
HEADER: Final = 3
_FILE: Final = "Statistics.db"
_TITLES: Final = {
    VALIDATION: "VALIDATION",
    COMPACTION: "COMPACTION",
    STATS: "STATS",
    HEADER: "HEADER",
}
_NAMES: Final = {ordinal: f"{_FILE} ({title})" for ordinal, title in _TITLES.items()}
_READ: Final = (VALIDATION, STATS, HEADER)
_KNOWN_BYTES_MAX: Final = 16 << 10
_COMPONENTS_MAX: Final = 16
_CRC_BYTES: Final = 4
_ENTRY = struct.Struct(">ii")
_DOUBLE = struct.Struct(">d")


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """The VALIDATION component.

    Attributes:
        partitioner: The partitioner's class.
        bloom_fp_chance: The bloom filter's false positive chance.
    """

    partitioner: str
    bloom_fp_chance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The HEADER component: the schema as far as the file needs it.

    Attributes:
        key_type: The class of the partition key's type.
        clustering_types: The classes of the clustering columns' types.
        static_columns: Name and type of each static column that the file has.
        regular_columns: Name and type of each regular column that the file has.
    """

    key_type: str
    clustering_types: tuple[str, ...]
    static_columns: tuple[tuple[str, str], ...]
    regular_columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """What Statistics.db says, but for the estimate of how many keys there are."""

    validation: Validation
    stats: Stats
    header: Header


def parse_statistics(data: bytes, version: FormatVersion) -> Statistics:
    """Return what a Statistics.db says.

    Args:
        data: The whole file.
        version: The version in the file's name.

    Raises:
        CorruptDataError: Cut off, a wrong checksum, or numbers that cannot be. Without checksums
            (``me``) a changed number may go unnoticed.
    """
    parts = _split(data, version)
    return Statistics(
        validation=_parse_validation(parts[VALIDATION]),
        stats=parse_stats(parts[STATS], version),
        header=_parse_header(parts[HEADER]),
    )


def _split(data: bytes, version: FormatVersion) -> dict[int, Cursor]:
    """Return a cursor for each component, after its checksum was found right."""
    entries, body_at = _contents(data, version)
    crc_bytes = _CRC_BYTES if version.has_checksums else 0
    ends = [offset for _, offset in entries[1:]] + [len(data)]
    parts = {}
    for (ordinal, offset), next_offset in zip(entries, ends, strict=True):
        end = next_offset - crc_bytes
        if not body_at <= offset <= end <= len(data) - crc_bytes:
            raise CorruptDataError(
                f"Statistics.db is corrupt: component {ordinal} lies from byte {offset} to {end} "
                f"of {len(data)}",
                offset=offset,
            )
        if crc_bytes:
            _check_crc(data, end, zlib.crc32(data[offset:end]), ordinal)
        if ordinal in _READ:
            parts[ordinal] = Cursor(data, _NAMES[ordinal], offset, end)
    if len(parts) < len(_READ):
        missing = next(ordinal for ordinal in _READ if ordinal not in parts)
        raise CorruptDataError(
            f"Statistics.db is corrupt: it has no {_TITLES[missing]} component", offset=0
        )
    return parts


def _contents(data: bytes, version: FormatVersion) -> tuple[list[tuple[int, int]], int]:
    """Return (ordinal, offset) of each component, and where the first one may begin."""
    cursor = Cursor(data, _FILE)
    count = cursor.i32()
    if version.has_checksums:
        crc = zlib.crc32(data[:4])
        cursor.skip(_CRC_BYTES)
        _check_crc(data, 4, crc)
    if not 0 < count <= _COMPONENTS_MAX:
        raise cursor.corrupt(f"{count} components, 1 to {_COMPONENTS_MAX} can be")
    contents = cursor.take(count * _ENTRY.size)
    if version.has_checksums:
        cursor.skip(_CRC_BYTES)
        _check_crc(data, cursor.at - _CRC_BYTES, zlib.crc32(contents, crc))
    entries = list(_ENTRY.iter_unpack(contents))
    ordinals = [ordinal for ordinal, _ in entries]
    if ordinals != sorted(set(ordinals)):
        raise cursor.corrupt("its components are not in order")
    return entries, cursor.at


def _check_crc(data: bytes, at: int, computed: int, ordinal: int | None = None) -> None:
    stored = int.from_bytes(data[at : at + _CRC_BYTES], "big")
    if stored != computed:
        name = _FILE if ordinal is None else _NAMES.get(ordinal, _FILE)
        raise CorruptDataError(
            f"{name} is corrupt: the checksum at byte {at} is {stored:08x}, the bytes before it "
            f"have {computed:08x}",
            offset=at,
            expected=stored,
            found=computed,
        )


def _parse_validation(cursor: Cursor) -> Validation:
    raw = cursor.take(cursor.left)
    return _known_validation(raw) if len(raw) <= _KNOWN_BYTES_MAX else _validation(raw)


def _validation(raw: bytes) -> Validation:
    cursor = Cursor(raw, f"{_NAMES[VALIDATION]}, from its start,")
    partitioner = cursor.utf()
    (chance,) = cursor.unpack(_DOUBLE)
    return Validation(partitioner=partitioner, bloom_fp_chance=chance)


def _parse_header(cursor: Cursor) -> Header:
    for _ in range(3):  # What write times, deletion times and TTLs in the rows are counted from.
        cursor.skip_vint()
    raw = cursor.take(cursor.left)
    return _known_schema(raw) if len(raw) <= _KNOWN_BYTES_MAX else _parse_schema(raw)


def _parse_schema(raw: bytes) -> Header:
    cursor = Cursor(raw, f"{_NAMES[HEADER]}, after its first three numbers,")
    return Header(
        key_type=cursor.vint_text(),
        clustering_types=parse_types(cursor),
        static_columns=_columns(cursor),
        regular_columns=_columns(cursor),
    )


# The files of one table have the same schema and chance, which are parsed once for most of them.
_known_schema = functools.lru_cache(maxsize=256)(_parse_schema)
_known_validation = functools.lru_cache(maxsize=256)(_validation)


def parse_types(cursor: Cursor) -> tuple[str, ...]:
    """Return names of types with their number, a vint, before them."""
    count = cursor.count("types", cursor.vint(), each=1)
    return tuple(cursor.vint_text() for _ in range(count))


def _columns(cursor: Cursor) -> tuple[tuple[str, str], ...]:
    count = cursor.count("columns", cursor.vint(), each=2)
    return tuple((cursor.vint_text(), cursor.vint_text()) for _ in range(count))
