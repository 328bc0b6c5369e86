"""What a block says about its readings without being unpacked, and how blocks add up.

Rules of this file: statistics of blocks that follow one another in time combine to exactly those
of all their readings, in any grouping. So sums are exact, and the least of 0.0 and -0.0 is -0.0.
NaN is a value: it is counted, and it may be the first or the last; the least, the largest and the
sum are those of the values that are numbers, and ``nan_count`` says how many are left out.
Infinities are numbers: they show in the least and the largest, and are left out of the exact sum.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from treering.core.block_damage import BlockDamage
from treering.core.block_numbers import little
from treering.core.exact_sum import ExactSum, exact_sum, integer_sum
from treering.core.schema import ColumnType

_NAN_COUNT: Final = struct.Struct("<I")
_SUM_HEAD: Final = struct.Struct("<hH")
_LITTLE: Final[dict[ColumnType, np.dtype[Any]]] = {
    kind: np.dtype(kind.dtype).newbyteorder("<") for kind in ColumnType if kind.is_numeric
}
_INT_SUM_BYTES: Final = 16
# The largest sum has 1024 + 16 bits before the point, the smallest 1074 after it.
_SUM_BYTES_MAX: Final = 272
_SUM_EXPONENT: Final = range(-1_074, 1_041)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnStats:
    """Statistics of one column of a block, or of many.

    Attributes:
        type: The column's type.
        count: How many values are there.
        missing: How many readings have no value.
        nan_count: How many of the values are NaN.
        minimum: The least number, of the column's NumPy type; None where there is none.
        maximum: The largest one.
        total: The exact sum of all finite values: an integer for int and bigint, an
            :class:`ExactSum` for float and double; None for boolean and text.
        first: The earliest value, NaN included; None where there is none.
        last: The latest value.
    """

    type: ColumnType
    count: int
    missing: int
    nan_count: int = 0
    minimum: Any = None
    maximum: Any = None
    total: int | ExactSum | None = None
    first: Any = None
    last: Any = None

    @property
    def rounded_sum(self) -> float | int | None:
        """The sum of the numbers: exact for integers, else the nearest double.

        Infinities of one sign give that infinity, of both NaN; None for boolean and text.
        """
        if not isinstance(self.total, ExactSum):
            return self.total
        ends = [end for end in (self.minimum, self.maximum) if end is not None and np.isinf(end)]
        if ends:
            return math.nan if len(set(ends)) == 2 else float(ends[0])
        return float(self.total)


def stats_of(values: npt.NDArray[Any], column_type: ColumnType, *, missing: int = 0) -> ColumnStats:
    """Return the statistics of the values that are there, in the order of their times."""
    if not column_type.is_numeric:
        return ColumnStats(type=column_type, count=len(values), missing=missing)
    is_float = values.dtype.kind == "f"
    if not len(values):
        return ColumnStats(type=column_type, count=0, missing=missing, total=_no_total(column_type))
    numbers, nan_count = values, 0
    if is_float:
        is_nan = np.isnan(values)
        nan_count = int(np.count_nonzero(is_nan))
        numbers = values[~is_nan] if nan_count else values
    return ColumnStats(
        type=column_type,
        count=len(values),
        missing=missing,
        nan_count=nan_count,
        minimum=_least(numbers, -1) if len(numbers) else None,
        maximum=_least(numbers, 1) if len(numbers) else None,
        total=exact_sum(numbers) if is_float else integer_sum(values),
        first=values[0],
        last=values[-1],
    )


def _least(numbers: npt.NDArray[Any], sign: int) -> Any:
    """Return the least number for -1, the largest for 1."""
    found = numbers.min() if sign < 0 else numbers.max()
    if found == 0 and numbers.dtype.kind == "f":
        # To NumPy 0.0 and -0.0 are equal, and which one it returns depends on their order.
        signs = np.signbit(numbers[numbers == 0])
        return found.dtype.type(-0.0 if (signs.any() if sign < 0 else signs.all()) else 0.0)
    return found


def combine_stats(parts: Sequence[ColumnStats]) -> ColumnStats:
    """Return the statistics of all readings of parts that follow one another in time.

    Raises:
        ValueError: No parts, or parts of different types.
    """
    if len({part.type for part in parts}) != 1:
        raise ValueError("statistics of one column type, at least one, can be combined")
    valued = [part for part in parts if part.count]
    least = [part.minimum for part in parts if part.minimum is not None]
    largest = [part.maximum for part in parts if part.maximum is not None]
    totals = [part.total for part in parts if part.total is not None]
    return ColumnStats(
        type=parts[0].type,
        count=sum(part.count for part in parts),
        missing=sum(part.missing for part in parts),
        nan_count=sum(part.nan_count for part in parts),
        minimum=_least(np.array(least), -1) if least else None,
        maximum=_least(np.array(largest), 1) if largest else None,
        total=sum(totals[1:], start=totals[0]) if totals else None,
        first=valued[0].first if valued else None,
        last=valued[-1].last if valued else None,
    )


def render_stats(stats: ColumnStats) -> bytes:
    """Return statistics as bytes; none for boolean and text, and where no value is there."""
    if not stats.type.is_numeric or not stats.count:
        return b""
    dtype = np.dtype(stats.type.dtype)
    nothing = math.nan if dtype.kind == "f" else 0
    ends = [nothing if end is None else end for end in (stats.minimum, stats.maximum)]
    four = np.empty(4, dtype=dtype)
    # One by one: through a list a NaN's bits could change on their way.
    for index, value in enumerate((*ends, stats.first, stats.last)):
        four[index] = value
    if isinstance(stats.total, int):
        return little(four) + stats.total.to_bytes(_INT_SUM_BYTES, "little", signed=True)
    total = stats.total or ExactSum()
    size = (total.whole.bit_length() + 8) // 8
    return (
        little(four)
        + _NAN_COUNT.pack(stats.nan_count)
        + _SUM_HEAD.pack(total.exponent, size)
        + total.whole.to_bytes(size, "little", signed=True)
    )


def parse_stats(raw: bytes, column_type: ColumnType, *, count: int, missing: int) -> ColumnStats:
    """Return what :func:`render_stats` rendered.

    Raises:
        BlockDamage: Too few or too many bytes, or numbers that cannot be.
    """
    if not column_type.is_numeric or not count:
        if raw:
            raise BlockDamage(found=f"{len(raw)} bytes of statistics", expected="none")
        return ColumnStats(
            type=column_type, count=count, missing=missing, total=_no_total(column_type)
        )
    dtype = _LITTLE[column_type]
    size = 4 * dtype.itemsize
    if len(raw) < size + _NAN_COUNT.size + _SUM_HEAD.size:
        raise BlockDamage(found=f"{len(raw)} bytes of statistics", expected=f"more than {size}")
    minimum, maximum, first, last = np.frombuffer(raw, dtype, 4)
    total: int | ExactSum
    if dtype.kind == "f":
        nan_count, total = _parse_float_sum(raw[size:], count)
    else:
        nan_count, total = 0, _parse_integer_sum(raw[size:])
    has_numbers = nan_count < count
    return ColumnStats(
        type=column_type,
        count=count,
        missing=missing,
        nan_count=nan_count,
        minimum=minimum if has_numbers else None,
        maximum=maximum if has_numbers else None,
        total=total,
        first=first,
        last=last,
    )


def _no_total(column_type: ColumnType) -> int | ExactSum | None:
    if not column_type.is_numeric:
        return None
    return ExactSum() if np.dtype(column_type.dtype).kind == "f" else 0


def _parse_integer_sum(raw: bytes) -> int:
    if len(raw) != _INT_SUM_BYTES:
        raise BlockDamage(found=f"a sum of {len(raw)} bytes", expected=str(_INT_SUM_BYTES))
    return int.from_bytes(raw, "little", signed=True)


def _parse_float_sum(raw: bytes, count: int) -> tuple[int, ExactSum]:
    (nan_count,) = _NAN_COUNT.unpack_from(raw)
    exponent, size = _SUM_HEAD.unpack_from(raw, _NAN_COUNT.size)
    digits = raw[_NAN_COUNT.size + _SUM_HEAD.size :]
    if nan_count > count:
        raise BlockDamage(found=f"{nan_count} NaN", expected=f"at most {count}")
    if len(digits) != size or size > _SUM_BYTES_MAX or exponent not in _SUM_EXPONENT:
        raise BlockDamage(
            found=f"a sum of {len(digits)} bytes times 2**{exponent}",
            expected=f"{size} bytes, at most {_SUM_BYTES_MAX}",
        )
    whole = int.from_bytes(digits, "little", signed=True)
    return nan_count, ExactSum.from_parts(whole, exponent)
