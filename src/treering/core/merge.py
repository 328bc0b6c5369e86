"""Which of two cells wins: Cassandra's reconciliation, for engines that are not Cassandra.

Mirrors ``db/rows/Cells.reconcile`` of Cassandra 5.0 for live cells of one lifetime: the larger
write time wins, column by column; on a tie the larger serialized value does, compared as unsigned
bytes. A missing value is no cell and changes nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from treering.core.schema import ColumnType

_WIRE: dict[ColumnType, np.dtype[Any]] = {
    ColumnType.DOUBLE: np.dtype(">f8"),
    ColumnType.FLOAT: np.dtype(">f4"),
    ColumnType.INT: np.dtype(">i4"),
    ColumnType.BIGINT: np.dtype(">i8"),
    ColumnType.BOOLEAN: np.dtype(">u1"),
}


def wire_dtype(column_type: ColumnType) -> np.dtype[Any]:
    """Return the NumPy type of a serialized value: big-endian, as CQL has it; not for text."""
    return _WIRE[column_type]


def serialized(value: Any, column_type: ColumnType) -> bytes:
    """Return a value as CQL serializes it."""
    if column_type is ColumnType.TEXT:
        return str(value).encode()
    array: npt.NDArray[Any] = np.array(value, dtype=_WIRE[column_type])
    return array.tobytes()


def is_newer(
    write_us: int, value: Any, than_write_us: int, than_value: Any, column_type: ColumnType
) -> bool:
    """Return whether the first cell wins over the second."""
    if write_us != than_write_us:
        return write_us > than_write_us
    return serialized(value, column_type) > serialized(than_value, column_type)


def newer_mask(
    write_us: npt.NDArray[np.int64],
    values: npt.NDArray[Any],
    than_write_us: npt.NDArray[np.int64],
    than_values: npt.NDArray[Any],
    column_type: ColumnType,
) -> npt.NDArray[np.bool_]:
    """Return where the first cells win over the second; the array twin of :func:`is_newer`.

    Both have values everywhere: a missing value is no cell.
    """
    wins = write_us > than_write_us
    ties = np.flatnonzero(write_us == than_write_us)
    if not len(ties):
        return wins
    ours, theirs = values[ties], than_values[ties]
    if column_type is ColumnType.TEXT:
        # Between code points UTF-8 keeps the order, so that texts need not be serialized.
        wins[ties] = [
            one > other for one, other in zip(ours.tolist(), theirs.tolist(), strict=True)
        ]
    else:
        # Compared as unsigned big-endian bytes, a value is its bits as an unsigned integer.
        bits = np.dtype(f"u{ours.dtype.itemsize}")
        wins[ties] = ours.view(bits) > theirs.view(bits)
    return wins
