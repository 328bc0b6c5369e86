"""Sums by step, without rounding on the way.

Rules of this file: what is added up stays exact however it is cut and grouped, so the same readings
give the same sum from pages of any size and from blocks; rounding happens once, at the end.
Integers are kept as two halves, whole numbers of 2**32 and the rest. Doubles are kept as a few
terms a step, doubles themselves, whose sum is exact. Infinities follow IEEE 754: of one sign they
are the sum, of both it is NaN.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from operator import itemgetter
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from treering.core.exact_sum import ExactSum

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

# From here on a sum of 2**63 values might not be a double; such values are kept scaled down.
_LARGE: Final = 2.0**900
_SCALE_BITS: Final = 200
_LOW: Final = 0xFFFF_FFFF
_WHOLE_HIGH: Final = 2**20


def run_starts(steps: IntArray) -> npt.NDArray[np.intp]:
    """Return where each run of equal steps starts in an ascending array."""
    if not len(steps):
        return np.empty(0, dtype=np.intp)
    changes = np.flatnonzero(steps[1:] != steps[:-1]) + 1
    return np.concatenate([np.zeros(1, dtype=np.intp), changes])


@dataclass(frozen=True, slots=True)
class IntegerSums:
    """One sum a step: ``high * 2**32 + low`` with ``0 <= low < 2**32``, for 2**31 values a step."""

    high: IntArray
    low: IntArray

    @classmethod
    def of(cls, values: npt.NDArray[Any], starts: npt.NDArray[np.intp]) -> IntegerSums:
        """Add up integers or booleans of runs that start there."""
        wide = values.astype(np.int64, copy=False)
        return cls._carried(
            np.add.reduceat(wide >> 32, starts), np.add.reduceat(wide & _LOW, starts)
        )

    @classmethod
    def of_exact(cls, totals: Sequence[int]) -> IntegerSums:
        """Take sums as they are, each of at most 2**31 values."""
        high = np.array([total >> 32 for total in totals], dtype=np.int64)
        return cls(high, np.array([total & _LOW for total in totals], dtype=np.int64))

    @classmethod
    def _carried(cls, high: IntArray, low: IntArray) -> IntegerSums:
        return cls(high + (low >> 32), low & _LOW)

    @classmethod
    def combined(
        cls,
        parts: Sequence[IntegerSums],
        order: npt.NDArray[np.intp],
        starts: npt.NDArray[np.intp],
    ) -> IntegerSums:
        """Add up parts that, joined and put into ``order``, have runs that start there."""
        high = np.concatenate([part.high for part in parts])[order]
        low = np.concatenate([part.low for part in parts])[order]
        return cls._carried(np.add.reduceat(high, starts), np.add.reduceat(low, starts))

    def overflows(self) -> npt.NDArray[np.bool_]:
        """Return which sums no bigint can hold."""
        return (self.high < -(2**31)) | (self.high >= 2**31)

    def exact(self, place: int) -> int:
        """Return one sum."""
        return (int(self.high[place]) << 32) + int(self.low[place])

    def totals(self) -> IntArray:
        """Return the sums, where none overflows."""
        return (self.high << 32) + self.low

    def means(self, counts: IntArray) -> FloatArray:
        """Return the nearest double of each exact mean."""
        # A whole number below 2**52 is a double, and so is the count: one division, one rounding.
        is_small = np.abs(self.high) < _WHOLE_HIGH
        whole = np.where(is_small, self.high, 0) * 2**32 + self.low
        means = whole.astype(np.float64) / counts
        for place in np.flatnonzero(~is_small).tolist():
            # Python divides integers of any size with one rounding.
            means[place] = self.exact(place) / int(counts[place])
        return means


@dataclass(frozen=True, slots=True)
class Terms:
    """Doubles by step, any number of each; steps ascend."""

    steps: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    values: FloatArray = field(default_factory=lambda: np.empty(0, dtype=np.float64))

    def where(self, chosen: npt.NDArray[np.bool_]) -> Terms:
        """Return some of the terms."""
        return Terms(self.steps[chosen], self.values[chosen])


@dataclass(frozen=True, slots=True)
class FloatSums:
    """One sum a step, in terms of three kinds; a step without terms sums up to 0.

    Attributes:
        finite: Their sum is exact.
        large: The same of values from 2**900 on, divided by 2**200.
        infinite: At most one a step: an infinity, or NaN for infinities of both signs.
    """

    finite: Terms = field(default_factory=Terms)
    large: Terms = field(default_factory=Terms)
    infinite: Terms = field(default_factory=Terms)

    @classmethod
    def of(cls, steps: IntArray, values: npt.NDArray[Any]) -> FloatSums:
        """Add up doubles or floats, none of them NaN, whose steps ascend."""
        terms = Terms(steps, values.astype(np.float64, copy=False))
        top = max(float(values.max(initial=0)), -float(values.min(initial=0)))
        if top < _LARGE:
            return cls(finite=_distilled(terms))
        magnitude = np.abs(terms.values)
        is_infinite = np.isinf(magnitude)
        large = terms.where((magnitude >= _LARGE) & ~is_infinite)
        return cls(
            finite=_distilled(terms.where(magnitude < _LARGE)),
            large=_distilled(Terms(large.steps, np.ldexp(large.values, -_SCALE_BITS))),
            infinite=_infinite(terms.where(is_infinite)),
        )

    @classmethod
    def of_exact(cls, totals: Sequence[tuple[int, ExactSum]]) -> FloatSums:
        """Take exact sums of finite values with their steps, which ascend."""
        finite: list[tuple[int, float]] = []
        large: list[tuple[int, float]] = []
        for step, same in itertools.groupby(totals, key=itemgetter(0)):
            rest = ExactSum.of(total for _, total in same)
            while rest.whole:
                value, shift = float(rest), 0
                if abs(value) >= _LARGE:
                    shift = _SCALE_BITS
                    value = float(ExactSum(rest.whole, rest.exponent - shift))
                (large if shift else finite).append((step, value))
                taken = ExactSum.from_float(-value)
                rest += ExactSum.from_parts(taken.whole, taken.exponent + shift)
        return cls(finite=_terms_of(finite), large=_terms_of(large))

    def with_infinite(self, ends: Sequence[tuple[int, float]]) -> FloatSums:
        """Return the sums with infinities beside; their steps ascend."""
        return FloatSums(self.finite, self.large, _infinite(_terms_of(ends)))

    @classmethod
    def combined(cls, parts: Sequence[FloatSums]) -> FloatSums:
        """Add up sums of any steps."""
        return cls(
            finite=_distilled(_joined([part.finite for part in parts])),
            large=_distilled(_joined([part.large for part in parts])),
            infinite=_infinite(_joined([part.infinite for part in parts])),
        )

    def totals(self, steps: IntArray) -> FloatArray:
        """Return the nearest double of each sum; infinite beyond the largest."""
        totals = _rounded(self.finite, steps)
        for place, exact in self._exact_of_large(steps):
            totals[place] = _float_of(exact)
        return self._with_infinite(totals, steps)

    def means(self, steps: IntArray, counts: IntArray) -> FloatArray:
        """Return each sum's nearest double over its count; finite where all values are."""
        means = _rounded(self.finite, steps) / counts
        for place, exact in self._exact_of_large(steps):
            means[place] = float(exact / int(counts[place]))
        return self._with_infinite(means, steps)

    def _exact_of_large(self, steps: IntArray) -> list[tuple[int, Fraction]]:
        found = []
        for step in np.unique(self.large.steps).tolist():
            small = sum(map(Fraction, self._values_at(self.finite, step)), Fraction(0))
            large = sum(map(Fraction, self._values_at(self.large, step)), Fraction(0))
            place = int(np.searchsorted(steps, step))
            found.append((place, small + large * 2**_SCALE_BITS))
        return found

    @staticmethod
    def _values_at(terms: Terms, step: int) -> list[float]:
        first, end = np.searchsorted(terms.steps, [step, step + 1])
        values: list[float] = terms.values[first:end].tolist()
        return values

    def _with_infinite(self, totals: FloatArray, steps: IntArray) -> FloatArray:
        totals[np.searchsorted(steps, self.infinite.steps)] = self.infinite.values
        return totals


def _terms_of(pairs: Sequence[tuple[int, float]]) -> Terms:
    steps = np.array([step for step, _ in pairs], dtype=np.int64)
    return Terms(steps, np.array([value for _, value in pairs], dtype=np.float64))


def _joined(parts: Sequence[Terms]) -> Terms:
    there = [part for part in parts if len(part.steps)]
    if len(there) < 2:
        return there[0] if there else Terms()
    steps = np.concatenate([part.steps for part in there])
    order = np.argsort(steps, kind="stable")
    return Terms(steps[order], np.concatenate([part.values for part in there])[order])


def _distilled(terms: Terms) -> Terms:
    """Return few terms a step with the same exact sum; the values are finite, below 2**900.

    Bits are taken off from the top down: adding a power of two well above all values of a step and
    taking it off again keeps the leading bits of each, and those add up without rounding (Rump,
    Ogita and Oishi, "Accurate floating-point summation", 2008).
    """
    starts = run_starts(terms.steps)
    if len(starts) == len(terms.steps):
        return terms.where(terms.values != 0)
    lengths = np.diff(starts, append=len(terms.steps))
    headroom = int(lengths.max()).bit_length() + 1
    heads, rest = terms.steps[starts], terms.values.copy()
    found: list[Terms] = []
    while (tops := np.maximum.reduceat(np.abs(rest), starts)).any():
        above = np.repeat(np.ldexp(1.0, np.frexp(tops)[1] + headroom), lengths)
        leading = rest + above
        leading -= above
        sums = np.add.reduceat(leading, starts)
        found.append(Terms(heads, sums).where(sums != 0))
        rest -= leading
    return _joined(found)


def _infinite(terms: Terms) -> Terms:
    starts = run_starts(terms.steps)
    with np.errstate(invalid="ignore"):
        # Infinities of both signs: NaN is the answer, not a fault.
        return Terms(terms.steps[starts], np.add.reduceat(terms.values, starts))


def _rounded(terms: Terms, steps: IntArray) -> FloatArray:
    """Return the nearest double of the sum of each step's terms."""
    totals = np.zeros(len(steps))
    starts = run_starts(terms.steps)
    places = np.searchsorted(steps, terms.steps[starts])
    # The sum of two doubles is rounded once; of more, fsum does so.
    totals[places] = np.add.reduceat(terms.values, starts)
    lengths = np.diff(starts, append=len(terms.steps))
    for run in np.flatnonzero(lengths > 2).tolist():
        values = terms.values[starts[run] : starts[run] + lengths[run]]
        totals[places[run]] = math.fsum(values.tolist())
    return totals


def _float_of(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf
