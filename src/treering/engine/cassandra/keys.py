"""Partition keys to bytes and back, for every type that a key column of a layout has.

Rules of this file: pure; a value that its type cannot hold is refused by name, never wrapped.
"""

from __future__ import annotations

import struct
from typing import Final, assert_never
from uuid import UUID

from treering.core.bucket import Bucket
from treering.core.layout import BucketColumn, KeyColumn, KeyType, KeyValue, Layout
from treering.errors import CorruptDataError, UsageError

# A CQL date counts days from 2^31 before 1970.
_DATE_ZERO: Final = 2**31
_INTEGERS: Final = {
    KeyType.INT: struct.Struct(">i"),
    KeyType.BIGINT: struct.Struct(">q"),
    KeyType.TIMESTAMP: struct.Struct(">q"),
    KeyType.DATE: struct.Struct(">I"),
}


def encode_key(layout: Layout, series: str, bucket: Bucket) -> list[bytes]:
    """Return the serialized values of a partition's key, in the order of ``key_columns``.

    Raises:
        UsageError: Not a series id of this table, or a bucket that the column cannot hold.
    """
    values = layout.values_of(series)
    key = [encode_value(value, column) for value, column in zip(values, layout.series, strict=True)]
    if layout.bucket is not None:
        key.append(encode_value(layout.bucket.value_of(bucket, series), layout.bucket))
    return key


def encode_value(value: KeyValue, column: KeyColumn | BucketColumn) -> bytes:
    """Return one serialized value of a key column.

    Raises:
        UsageError: The column's type cannot hold it.
    """
    match column.type:
        case KeyType.TEXT:
            return str(value).encode()
        case KeyType.UUID | KeyType.TIMEUUID:
            assert isinstance(value, UUID)
            return value.bytes
        case KeyType.INT | KeyType.BIGINT | KeyType.TIMESTAMP | KeyType.DATE:
            number = int(value) + (_DATE_ZERO if column.type is KeyType.DATE else 0)
            try:
                return _INTEGERS[column.type].pack(number)
            except struct.error as error:
                raise UsageError(
                    f"the key column {column.name!r} of type {column.type} cannot hold {value}"
                ) from error
        case _:
            assert_never(column.type)


def decode_value(cell: bytes, column: KeyColumn) -> KeyValue:
    """Return the value of a serialized key column.

    Raises:
        CorruptDataError: Too long or too short for its type.
    """
    try:
        match column.type:
            case KeyType.TEXT:
                return cell.decode()
            case KeyType.UUID | KeyType.TIMEUUID:
                return UUID(bytes=cell)
            case KeyType.INT | KeyType.BIGINT | KeyType.TIMESTAMP | KeyType.DATE:
                number: int = _INTEGERS[column.type].unpack(cell)[0]
                return number - (_DATE_ZERO if column.type is KeyType.DATE else 0)
            case _:
                assert_never(column.type)
    except (ValueError, struct.error) as error:
        raise CorruptDataError(
            f"a value of the key column {column.name!r} is no {column.type}: {cell.hex()}",
            found=len(cell),
        ) from error
