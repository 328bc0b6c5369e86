"""Sums of floats without rounding: a whole number times a power of two.

Rules of this file: adding is exact, so the order and the grouping of what is added never show;
rounding happens once, when a sum is asked for as a double. Equal sums have equal fields.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

# Above 2**900 the sum of 65,536 values might not be a double; those are summed scaled down.
_LARGE: Final = 2.0**900
_SCALE_BITS: Final = 200


@dataclass(frozen=True, slots=True)
class ExactSum:
    """``whole * 2**exponent``; ``whole`` is odd, or 0 with exponent 0."""

    whole: int = 0
    exponent: int = 0

    @classmethod
    def from_parts(cls, whole: int, exponent: int) -> ExactSum:
        """Return the sum of that value in its one form."""
        if not whole:
            return cls()
        zeros = (whole & -whole).bit_length() - 1
        return cls(whole >> zeros, exponent + zeros)

    @classmethod
    def from_float(cls, value: float) -> ExactSum:
        """Return a finite double as it is."""
        numerator, denominator = value.as_integer_ratio()
        return cls.from_parts(numerator, 1 - denominator.bit_length())

    @classmethod
    def of(cls, parts: Iterable[ExactSum]) -> ExactSum:
        """Return the sum of some sums."""
        some = tuple(parts)
        exponent = min((part.exponent for part in some), default=0)
        return cls.from_parts(
            sum(part.whole << (part.exponent - exponent) for part in some), exponent
        )

    def __add__(self, other: ExactSum) -> ExactSum:
        return ExactSum.of((self, other))

    def __float__(self) -> float:
        """Return the nearest double; infinite beyond the largest."""
        try:
            if self.exponent >= 0:
                return float(self.whole << self.exponent)
            # The quotient of two integers is rounded once.
            return self.whole / (1 << -self.exponent)
        except OverflowError:
            return math.inf if self.whole > 0 else -math.inf


def exact_sum(numbers: npt.NDArray[Any]) -> ExactSum:
    """Return the sum of the finite values of at most 2**20 floats; infinities are left out.

    Bits are taken off from the top down: adding a power of two well above all values and taking it
    off again keeps the leading bits of each, and those add up without rounding (Rump, Ogita and
    Oishi, "Accurate floating-point summation", 2008).
    """
    rest = numbers.astype(np.float64)
    top = _top(rest)
    total = ExactSum()
    if top >= _LARGE:
        rest[np.isinf(rest)] = 0.0
        is_large = np.abs(rest) >= _LARGE
        scaled = exact_sum(np.ldexp(rest[is_large], -_SCALE_BITS))
        total = ExactSum.from_parts(scaled.whole, scaled.exponent + _SCALE_BITS)
        rest[is_large] = 0.0
        top = _top(rest)
    headroom = len(rest).bit_length() + 1
    while top:
        above = math.ldexp(1.0, math.frexp(top)[1] + headroom)
        leading = rest + above
        leading -= above
        total += ExactSum.from_float(float(leading.sum()))
        rest -= leading
        top = _top(rest)
    return total


def _top(values: npt.NDArray[np.float64]) -> float:
    """Return the largest magnitude; 0 where there are no values."""
    return max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))


def integer_sum(values: npt.NDArray[Any]) -> int:
    """Return the sum of at most 2**31 integers of up to 64 bits."""
    wide = values.astype(np.int64, copy=False)
    # Halves of 32 bits do not overflow 64.
    high, low = int((wide >> 32).sum()), int((wide & 0xFFFF_FFFF).sum())
    return (high << 32) + low
