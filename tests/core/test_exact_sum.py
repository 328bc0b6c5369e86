"""Sums of floats are exact: they equal those of fractions, in any order and grouping."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from treering.core.exact_sum import ExactSum, exact_sum, integer_sum

FINITE = st.floats(allow_nan=False, allow_infinity=False)


def fraction(total: ExactSum) -> Fraction:
    """Return an exact sum as a fraction."""
    return total.whole * Fraction(2) ** total.exponent


@given(st.lists(FINITE, max_size=20))
def test_a_sum_equals_that_of_fractions(values: list[float]) -> None:
    wanted = sum(map(Fraction, values), Fraction(0))
    assert fraction(exact_sum(np.array(values))) == wanted


@given(st.lists(FINITE, max_size=20), st.integers(0, 20))
def test_equal_sums_have_equal_fields_however_they_came_about(
    values: list[float], cut: int
) -> None:
    whole = exact_sum(np.array(values))
    assert whole == exact_sum(np.array(values[cut:])) + exact_sum(np.array(values[:cut]))
    one_by_one = sum(map(ExactSum.from_float, reversed(values)), ExactSum())
    assert whole == one_by_one


@given(st.lists(st.floats(-1e300, 1e300), max_size=20))
def test_a_sum_is_rounded_once(values: list[float]) -> None:
    assert float(exact_sum(np.array(values))) == math.fsum(values)


def test_a_sum_beyond_the_largest_double_is_infinite_but_not_lost() -> None:
    large = exact_sum(np.full(4, 1.7e308))
    assert float(large) == math.inf
    assert float(exact_sum(np.full(4, -1.7e308))) == -math.inf
    assert float(large + exact_sum(np.full(3, -1.7e308))) == 1.7e308


def test_infinities_are_left_out() -> None:
    assert float(exact_sum(np.array([math.inf, 1.0, -math.inf]))) == 1.0


def test_what_cancels_leaves_the_smallest_double() -> None:
    assert float(exact_sum(np.array([1e308, 5e-324, -1e308]))) == 5e-324


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20))
def test_integers_do_not_overflow(values: list[int]) -> None:
    assert integer_sum(np.array(values, dtype=np.int64)) == sum(values)
