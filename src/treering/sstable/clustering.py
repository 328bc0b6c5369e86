"""Where the rows of a file begin and end in clustering order, as STATS says it.

Mirrors ``db/ClusteringPrefix.Serializer`` and ``db/Slice.Serializer``, Cassandra 5.0, and for
older formats the lists of least and largest values.
"""

from __future__ import annotations

import struct
from typing import Final, get_args

from treering.sstable.cursor import Cursor
from treering.sstable.facts import BoundKind, ClusteringBound

Bounds = tuple[ClusteringBound | None, ClusteringBound | None]

_KINDS: Final[tuple[BoundKind, ...]] = get_args(BoundKind)
_U16 = struct.Struct(">H")
_VALUES_A_HEADER: Final = 32
_PACKAGE: Final = "org.apache.cassandra.db.marshal."
_TYPE_DEPTH_MAX: Final = 8

# Types whose values have a fixed length and so no length before them; all others have one, the
# smaller integers and simple dates too.
_FIXED_BYTES: Final = {
    "BooleanType": 1,
    "DateType": 8,
    "DoubleType": 8,
    "EmptyType": 0,
    "FloatType": 4,
    "Int32Type": 4,
    "LexicalUUIDType": 16,
    "LongType": 8,
    "TimestampType": 8,
    "TimeUUIDType": 16,
    "UUIDType": 16,
}


def parse_legacy_bounds(cursor: Cursor) -> Bounds:
    """Return the bounds that formats before ``oa`` keep: the values alone, in comparator order."""
    least, largest = _values(cursor), _values(cursor)
    if not least and not largest:
        return None, None
    return (
        ClusteringBound(kind="INCL_START_BOUND", values=least),
        ClusteringBound(kind="INCL_END_BOUND", values=largest),
    )


def parse_covered_slice(cursor: Cursor) -> Bounds:
    """Return the bounds that ``oa`` and ``da`` keep, after the types that they are written in."""
    count = cursor.count("clustering types", cursor.vint(), each=1)
    lengths = tuple(value_bytes_of(cursor.vint_text()) for _ in range(count))
    return _bound(cursor, lengths), _bound(cursor, lengths)


def value_bytes_of(type_name: str, *, depth: int = 0) -> int | None:
    """Return the length of every value of a type; None where it varies.

    >>> value_bytes_of("org.apache.cassandra.db.marshal.LongType")
    8
    """
    name, _, arguments = type_name.partition("(")
    name, arguments = name.removeprefix(_PACKAGE), arguments.removesuffix(")")
    if depth < _TYPE_DEPTH_MAX and name in ("ReversedType", "FrozenType"):
        return value_bytes_of(arguments, depth=depth + 1)
    if depth < _TYPE_DEPTH_MAX and name == "VectorType":
        element, _, dimension = arguments.rpartition(",")
        each = value_bytes_of(element.strip(), depth=depth + 1)
        is_plain = dimension.strip().isdecimal() and len(dimension) < 10
        return each * int(dimension) if each is not None and is_plain else None
    return _FIXED_BYTES.get(name)


def _values(cursor: Cursor) -> tuple[bytes, ...]:
    return cursor.short_list(cursor.count("clustering values", cursor.i32(), each=2))


def _bound(cursor: Cursor, lengths: tuple[int | None, ...]) -> ClusteringBound:
    ordinal = cursor.byte()
    if ordinal >= len(_KINDS):
        raise cursor.corrupt(f"a clustering bound of kind {ordinal}")
    (count,) = cursor.unpack(_U16)
    if count > len(lengths):
        raise cursor.corrupt(f"a bound of {count} values for {len(lengths)} clustering columns")
    values: list[bytes | None] = []
    header = 0
    for place in range(count):
        if place % _VALUES_A_HEADER == 0:
            header = cursor.vint()
        state = header >> 2 * (place % _VALUES_A_HEADER) & 3
        values.append(_value(cursor, lengths[place], state))
    return ClusteringBound(kind=_KINDS[ordinal], values=tuple(values))


def _value(cursor: Cursor, length: int | None, state: int) -> bytes | None:
    if state & 2:
        return None
    if state & 1:
        return b""
    return cursor.vint_bytes() if length is None else cursor.take(length)
