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

    Missing are None, masked cells, ``pandas.NA`` and the nulls of pandas, Polars and Arrow arrays
    (a NumPy array has no nulls). NaN is a value of double and float; for every other type it is
    refused. A double becomes the nearest float, as in CQL, unless that is infinite.

    Args:
        values: An array, a masked array or a sequence of Python values.
        column: Name and type.

    Returns:
        The column, in memory of its own, and a mask of refused readings (their values are
        unspecified).

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
    if array.size == 0:
        return empty_column(column.type), np.zeros(0, dtype=np.bool_)
    if array.dtype == object and present is not None:
        # What stands under a mask is nothing, whatever its type.
        array = array.copy()
        array[~present] = None
    if column.type is ColumnType.TEXT:
        return _parse_text(array, present, column)
    if array.dtype == object:
        return _parse_objects(array, column)
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
    if not hasattr(values, "__array__"):
        # From an iterator, so that NumPy does not look into what the items hold.
        return np.fromiter(values, dtype=object, count=len(values))
    nulls = _nulls_of(values)
    if nulls is None or not nulls.any():
        return np.asarray(values)
    # As plain numbers, a null would turn into NaN and big integers into doubles.
    # pandas, Polars and Arrow in this order; all others may go through doubles.
    names = ("tolist", "to_list", "to_pylist")
    as_list = next(getattr(values, name) for name in names if hasattr(values, name))
    array = np.fromiter(as_list(), dtype=object, count=len(values))
    array[nulls] = None
    return array


def _nulls_of(values: Any) -> BoolArray | None:
    if isinstance(getattr(values, "dtype", None), np.dtype):
        return None
    # pandas says isna, Polars and Arrow is_null; neither is imported for it.
    ask = getattr(values, "isna", None) or getattr(values, "is_null", None)
    return None if ask is None else np.asarray(ask(), dtype=np.bool_)


def _is_missing(value: Any) -> bool:
    # pandas.NA without importing pandas.
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def _is_of_kind(value: Any, column: Column) -> bool:
    if column.type is ColumnType.BOOLEAN:
        return isinstance(value, (bool, np.bool_))
    # A timedelta64 calls itself an integer.
    is_number = isinstance(value, (int, float, np.integer, np.floating))
    return is_number and not isinstance(value, (bool, np.timedelta64))


def _parse_objects(array: npt.NDArray[Any], column: Column) -> tuple[ColumnData, BoolArray]:
    items = array.tolist()
    present = np.fromiter((not _is_missing(item) for item in items), np.bool_, len(items))
    there = [item for item in items if not _is_missing(item)]
    wrong = next((item for item in there if not _is_of_kind(item, column)), None)
    if wrong is not None:
        raise _wrong_kind(column, type(wrong).__name__, wrong)
    values = np.zeros(len(items), dtype=column.type.dtype)
    refused = np.zeros(len(items), dtype=np.bool_)
    if column.type is ColumnType.BOOLEAN:
        values[present] = there
    else:
        values[present], refused[present] = _convert_numbers(there, column)
    return _compact(values, present), refused


def _convert_numbers(items: list[Any], column: Column) -> tuple[npt.NDArray[Any], BoolArray]:
    # Integers and floats apart: side by side NumPy would make doubles of all, inexactly.
    values = np.zeros(len(items), dtype=column.type.dtype)
    refused = np.zeros(len(items), dtype=np.bool_)
    whole = np.fromiter((isinstance(v, (int, np.integer)) for v in items), np.bool_, len(items))
    small = np.fromiter((-(2**63) <= v < 2**63 for v in items), np.bool_, len(items))
    for mask, dtype in ((whole & small, np.int64), (~whole, None)):
        part = np.array([items[place] for place in np.flatnonzero(mask)], dtype=dtype)
        values[mask], refused[mask] = _convert(part, column)
    for place in np.flatnonzero(whole & ~small):
        number = float(items[place]) if abs(items[place]) < 2**1023 else np.inf
        exact, inexact = _convert(np.array([number]), column)
        values[place] = exact[0]
        # As Python integers: NumPy would round the other side of the comparison.
        is_exact = bool(np.isfinite(exact[0])) and int(exact[0]) == items[place]
        refused[place] = bool(inexact[0]) or not is_exact
    return values, refused


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
            return array.copy(), none
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
        if array.dtype.itemsize < 4:
            array = array.astype(np.float32)  # The bounds below are infinite as float16.
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
        rounded = array.astype(column_type.dtype)
        # The type's largest integer rounds up to this power of two, which has no way back.
        top = 2.0 ** (8 * array.dtype.itemsize - (array.dtype.kind == "i"))
        back = np.where(rounded < top, rounded, 0).astype(array.dtype)
        return rounded, (rounded >= top) | (back != array)
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
    if present is not None:
        there &= present
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
    return _compact(values, there), refused
