"""Values as SQLite keeps them: exactly, or not at all.

Rules of this file: columns have no affinity, so SQLite converts nothing: -0.0, infinities, 64-bit
integers and text with NUL come back as they went in. NaN, which SQLite would turn into NULL and
thus into a missing value, is kept as a BLOB of its serialized bytes, so that every NaN keeps its
bits. A float is kept as the double that equals it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from treering.core.columns import ColumnData, column_from_list
from treering.core.merge import serialized, wire_dtype
from treering.core.schema import ColumnType
from treering.engine.sqlite.failures import corrupt


def encode_column(data: ColumnData, column_type: ColumnType) -> list[Any]:
    """Return the values to bind, one a reading, None where missing."""
    values: list[Any] = data.values.tolist()
    if column_type in (ColumnType.DOUBLE, ColumnType.FLOAT):
        for index in np.flatnonzero(np.isnan(data.values)).tolist():
            # Through an array, not a Python float: that conversion may change a NaN's bits.
            values[index] = data.values[index : index + 1].astype(wire_dtype(column_type)).tobytes()
    if data.present is not None:
        for index in np.flatnonzero(~data.present).tolist():
            values[index] = None
    return values


def decode_column(values: Sequence[Any], column_type: ColumnType, path: Path) -> ColumnData:
    """Return a column from what SQLite gave back.

    Raises:
        CorruptDataError: A value that :func:`encode_column` never makes.
    """
    try:
        return column_from_list(values, column_type)
    except (TypeError, ValueError, OverflowError):
        # A NaN's bytes never read as a number: their first one is 0x7f or 0xff.
        return _decode_with_nan(values, column_type, path)


def _decode_with_nan(values: Sequence[Any], column_type: ColumnType, path: Path) -> ColumnData:
    blobs = [index for index, value in enumerate(values) if isinstance(value, bytes)]
    wire = None if column_type is ColumnType.TEXT else wire_dtype(column_type)
    plain = list(values)
    for index in blobs:
        if wire is None or wire.kind != "f" or len(values[index]) != wire.itemsize:
            raise _unexpected(values[index], column_type, path)
        plain[index] = 0.0
    try:
        data = column_from_list(plain, column_type)
    except (TypeError, ValueError, OverflowError) as error:
        wrong = next((v for v in plain if isinstance(v, str)), plain[0])
        raise _unexpected(wrong, column_type, path) from error
    if wire is not None and blobs:
        bits = np.frombuffer(b"".join(values[index] for index in blobs), wire)
        data.values[blobs] = bits.astype(column_type.dtype)
    return data


def _unexpected(value: object, column_type: ColumnType, path: Path) -> Exception:
    return corrupt(path, found=f"the value {value!r}", expected=f"a value of type {column_type}")


def is_newer_on_tie(column_type: ColumnType, new: Any, old: Any) -> bool:
    """Return whether a kept value wins over another of the same write time.

    Takes both as :func:`encode_column` made them.
    """
    return _wire(new, column_type) > _wire(old, column_type)


def _wire(value: Any, column_type: ColumnType) -> bytes:
    return value if isinstance(value, bytes) else serialized(value, column_type)
