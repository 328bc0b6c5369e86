"""Columns of values with missing cells, and what people pass for them.

Rules of this file: a missing value and NaN are different things; a conversion is exact or the
reading is refused; no Python object per value for numbers and booleans.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from treering.core.schema import Column, ColumnType
from treering.errors import UsageError

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ColumnData:
    """Values of one column, one a reading.

    Attributes:
        values: One-dimensional, of the column type's ``dtype``; what stands at a missing place
            is unspecified.
        present: Whether each value is there; None where all are.
    """

    values: npt.NDArray[Any]
    present: BoolArray | None = None

    def __len__(self) -> int:
        return len(self.values)

    def mask(self) -> BoolArray:
        """Return whether each value is there, as an array in every case."""
        if self.present is None:
            return np.ones(len(self.values), dtype=np.bool_)
        return self.present

    def take(self, index: slice | npt.NDArray[Any]) -> ColumnData:
        """Return the values at ``index``; a slice shares memory."""
        present = None if self.present is None else self.present[index]
        return _compact(self.values[index], present)

    def to_masked(self) -> npt.NDArray[Any]:
        """Return a plain array where all values are there, else a masked one."""
        if self.present is None:
            return self.values
        return np.ma.MaskedArray(self.values, mask=~self.present)

    def to_list(self) -> list[Any]:
        """Return Python values, None where missing."""
        values: list[Any] = self.values.tolist()
        if self.present is None:
            return values
        return [
            value if there else None
            for value, there in zip(values, self.present.tolist(), strict=True)
        ]


def _compact(values: npt.NDArray[Any], present: BoolArray | None) -> ColumnData:
    # "All there" has one form, so that equal columns compare equal and fast paths are taken.
    if present is not None and bool(present.all()):
        present = None
    return ColumnData(values, present)


def column_from_list(values: Sequence[Any], column_type: ColumnType) -> ColumnData:
    """Return a column from Python values of exactly its type, None where missing.

    For engines that decode row by row; values from users go through :func:`parse_column`.
    """
    if column_type is ColumnType.TEXT:
        array = np.empty(len(values), dtype=object)
        array[:] = values
    else:
        if None not in values:
            return ColumnData(np.array(values, dtype=column_type.dtype))
        array = np.array([0 if v is None else v for v in values], dtype=column_type.dtype)
    return _compact(array, np.fromiter((v is not None for v in values), np.bool_, len(values)))


def empty_column(column_type: ColumnType) -> ColumnData:
    """Return a column of no values that keeps its dtype."""
    return ColumnData(np.empty(0, dtype=column_type.dtype))


def concat_columns(parts: Sequence[ColumnData], column_type: ColumnType) -> ColumnData:
    """Return one column of all parts in order; a single part is returned as it is."""
    if not parts:
        return empty_column(column_type)
    if len(parts) == 1:
        return parts[0]
    values = np.concatenate([part.values for part in parts])
    if all(part.present is None for part in parts):
        return ColumnData(values)
    return _compact(values, np.concatenate([part.mask() for part in parts]))


def parse_column(values: Any, column: Column) -> tuple[ColumnData, BoolArray]:
    """Return what a user passed for a column, and which values its type cannot hold exactly.

    Missing are None, masked cells and, in a list, ``pandas.NA``. NaN is a value of double and
    float; for every other type it is refused.

    Args:
        values: An array, a masked array or a sequence of Python values.
        column: Name and type.

    Returns:
        The column, and a mask of refused readings (their values are unspecified).

    Raises:
        UsageError: Not one-dimensional, or of a kind that the type never takes.
    """
    present: BoolArray | None = None
    if isinstance(values, np.ma.MaskedArray):
        present = ~np.ma.getmaskarray(values)
        values = values.data
    array = values if isinstance(values, np.ndarray) else _array_of(values, column)
    if array.ndim != 1:
        raise UsageError(f"the column {column.name!r} must be one-dimensional, not {array.shape}")
    if array.dtype == object and column.type is not ColumnType.TEXT:
        array, there = _split_missing(array, column)
        present = there if present is None else present & there
    elif column.type is ColumnType.TEXT:
        return _parse_text(array, present, column)
    converted, refused = _convert(array, column)
    if present is not None:
        refused &= present
    return _compact(converted, present), refused


def _array_of(values: Any, column: Column) -> npt.NDArray[Any]:
    if isinstance(values, (str, bytes)) or not hasattr(values, "__len__"):
        raise UsageError(
            f"the column {column.name!r} was given {type(values).__name__}, not a list of values",
            hint="pass one value a reading, in an array or a list",
        )
    if hasattr(values, "__array__"):
        return np.asarray(values)
    array = np.empty(len(values), dtype=object)
    array[:] = list(values)
    return array


def _is_missing(value: Any) -> bool:
    # pandas.NA without importing pandas.
    return value is None or type(value).__name__ in ("NAType", "NaTType")


_KINDS: dict[ColumnType, tuple[type, ...]] = {
    ColumnType.DOUBLE: (bool, np.bool_, str, bytes),
    ColumnType.FLOAT: (bool, np.bool_, str, bytes),
    ColumnType.INT: (bool, np.bool_, str, bytes),
    ColumnType.BIGINT: (bool, np.bool_, str, bytes),
}


def _split_missing(array: npt.NDArray[Any], column: Column) -> tuple[npt.NDArray[Any], BoolArray]:
    items = array.tolist()
    present = np.fromiter((not _is_missing(item) for item in items), np.bool_, len(items))
    there = [item for item in items if not _is_missing(item)]
    if column.type is ColumnType.BOOLEAN:
        wrong: Any = next((v for v in there if not isinstance(v, (bool, np.bool_))), None)
    else:
        wrong = next((v for v in there if isinstance(v, _KINDS[column.type])), None)
    if wrong is not None:
        raise _wrong_kind(column, type(wrong).__name__, wrong)
    try:
        dense = np.array(there) if there else np.empty(0, dtype=column.type.dtype)
    except (ValueError, OverflowError) as error:
        raise _wrong_kind(column, "an unusable value", error) from error
    if dense.dtype == object:
        # Mixed or huge Python numbers; through float they would lose digits silently.
        wrong = next((v for v in there if not isinstance(v, (int, float, np.number))), None)
        if wrong is not None:
            raise _wrong_kind(column, type(wrong).__name__, wrong)
        dense = np.array([_fitting(v) for v in there])
    full = np.zeros(len(items), dtype=dense.dtype)
    full[present] = dense
    return full, present


def _fitting(value: Any) -> Any:
    # A Python integer beyond 64 bits fits no column; as infinity every integer type refuses it.
    return value if isinstance(value, float) or -(2**63) <= value < 2**63 else np.inf


def _wrong_kind(column: Column, kind: str, shown: object) -> UsageError:
    return UsageError(
        f"the column {column.name!r} takes {column.type}, not {kind} ({shown!r})",
        hint="convert the values first",
        column=column.name,
    )


def _convert(array: npt.NDArray[Any], column: Column) -> tuple[npt.NDArray[Any], BoolArray]:
    kind, dtype = array.dtype.kind, column.type.dtype
    none = np.zeros(array.shape, dtype=np.bool_)
    match column.type:
        case ColumnType.BOOLEAN:
            if kind != "b":
                raise _wrong_kind(column, str(array.dtype), array[:1])
            return array, none
        case ColumnType.INT | ColumnType.BIGINT:
            if kind not in "iuf":
                raise _wrong_kind(column, str(array.dtype), array[:1])
            return _to_integer(array, dtype)
        case _:
            if kind not in "iuf":
                raise _wrong_kind(column, str(array.dtype), array[:1])
            return _to_float(array, column.type)


def _to_integer(
    array: npt.NDArray[Any], dtype: np.dtype[np.generic]
) -> tuple[npt.NDArray[Any], BoolArray]:
    bounds = np.iinfo(dtype)  # type: ignore[type-var]
    if array.dtype.kind == "f":
        # -2**63 is a double; 2**63 - 1 is not, so the upper bound is exclusive.
        with np.errstate(invalid="ignore"):
            fits = (
                np.isfinite(array)
                & (array >= float(bounds.min))
                & (array < float(bounds.max) + 1.0)
                & (np.floor(array) == array)
            )
    else:
        fits = (array >= bounds.min) & (array <= bounds.max)
    return np.where(fits, array, 0).astype(dtype), ~fits


def _to_float(
    array: npt.NDArray[Any], column_type: ColumnType
) -> tuple[npt.NDArray[Any], BoolArray]:
    if array.dtype.kind in "iu":
        # Every integer up to 2**53 (2**24 for float) is a double exactly; some beyond are too.
        whole = 2**53 if column_type is ColumnType.DOUBLE else 2**24
        fits = (array <= whole) if array.dtype.kind == "u" else (np.abs(array) <= whole)
        if array.dtype.kind == "i":
            fits &= array != np.iinfo(array.dtype).min
        return array.astype(column_type.dtype), ~fits
    if array.dtype.itemsize <= column_type.dtype.itemsize:
        return array.astype(column_type.dtype), np.zeros(array.shape, dtype=np.bool_)
    # A double into a float column is rounded to the nearest float, as CQL does; what becomes
    # infinite on the way is refused.
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = array.astype(column_type.dtype)
    return rounded, np.isinf(rounded) & np.isfinite(array)


def _parse_text(
    array: npt.NDArray[Any], present: BoolArray | None, column: Column
) -> tuple[ColumnData, BoolArray]:
    if array.dtype.kind not in "OUT":
        raise _wrong_kind(column, str(array.dtype), array[:1])
    items = array.tolist()
    there = np.fromiter((not _is_missing(item) for item in items), np.bool_, len(items))
    refused = np.zeros(len(items), dtype=np.bool_)
    values = np.empty(len(items), dtype=object)
    for index, item in enumerate(items):
        if not there[index]:
            continue
        if not isinstance(item, str):
            raise _wrong_kind(column, type(item).__name__, item)
        try:
            item.encode()
        except UnicodeEncodeError:
            refused[index] = True
        values[index] = item
    return _compact(values, there if present is None else there & present), refused
