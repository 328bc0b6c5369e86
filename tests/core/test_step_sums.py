"""Sums by step equal those of fractions, however they are cut and grouped."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.core.step_sums import FloatSums, IntegerSums, run_starts

INT64 = st.integers(-(2**63), 2**63 - 1)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
HARD = st.sampled_from([5e-324, -5e-324, 1.7e308, -1.7e308, 2.0**900, -(2.0**899), 1e16, 1.0, -0.0])


def nearest(total: Fraction) -> float:
    """Return the nearest double, infinite beyond the largest."""
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def same(found: float, wanted: float) -> bool:
    """Return whether two doubles are equal, NaN too."""
    return found == wanted or (math.isnan(found) and math.isnan(wanted))


@given(
    st.lists(st.tuples(st.integers(0, 4), FINITE | HARD), min_size=1, max_size=40),
    st.sets(st.integers(1, 39), max_size=4),
)
def test_sums_of_doubles_are_the_nearest_of_the_exact_ones_wherever_they_are_cut(
    pairs: list[tuple[int, float]], cuts: set[int]
) -> None:
    pairs.sort(key=lambda pair: pair[0])
    edges = [0, *sorted(cut for cut in cuts if cut < len(pairs)), len(pairs)]
    steps = np.array([step for step, _ in pairs])
    values = np.array([value for _, value in pairs])
    parts = [FloatSums.of(steps[a:b], values[a:b]) for a, b in pairwise(edges)]
    heads = np.unique(steps)
    counts = np.bincount(steps)[heads]
    for whole in (FloatSums.combined(parts), FloatSums.combined(parts[::-1])):
        totals, means = whole.totals(heads), whole.means(heads, counts)
        for place, step in enumerate(heads.tolist()):
            exact = sum((Fraction(v) for s, v in pairs if s == step), Fraction(0))
            assert totals[place] == nearest(exact)
            error = abs(Fraction(float(means[place])) - exact / int(counts[place]))
            assert error <= Fraction(math.ulp(means[place]))


@given(st.lists(FINITE | HARD | st.just(math.inf) | st.just(-math.inf), min_size=1, max_size=12))
def test_infinities_follow_the_standard(values: list[float]) -> None:
    steps = np.zeros(len(values), dtype=np.int64)
    parts = [FloatSums.of(steps[:1], np.array([value])) for value in values]
    ends = {value for value in values if math.isinf(value)}
    wanted = math.nan if len(ends) == 2 else next(iter(ends), None)
    for sums in (FloatSums.of(steps, np.array(values)), FloatSums.combined(parts)):
        total, mean = sums.totals(steps[:1])[0], sums.means(steps[:1], np.array([len(values)]))[0]
        if wanted is None:
            assert total == nearest(sum(map(Fraction, values), Fraction(0)))
            assert math.isfinite(mean)
        else:
            assert same(total, wanted)
            assert same(mean, wanted)


def test_many_values_of_all_sizes_add_up_exactly() -> None:
    random = np.random.default_rng(1)
    values = np.ldexp(random.normal(size=60_000), random.integers(-1_070, 890, 60_000))
    steps = np.repeat(np.arange(3), 20_000)
    found = FloatSums.of(steps, values).totals(np.arange(3))
    for step in range(3):
        assert found[step] == math.fsum(values[steps == step].tolist())


def test_few_terms_are_kept_of_many_parts() -> None:
    random = np.random.default_rng(2)
    steps = np.zeros(1_000, dtype=np.int64)
    sums = FloatSums()
    for _ in range(50):
        sums = FloatSums.combined([sums, FloatSums.of(steps, random.normal(size=1_000))])
    assert 1 <= len(sums.finite.steps) <= 5


@given(st.lists(st.tuples(st.integers(0, 3), INT64), min_size=1, max_size=30), st.integers(1, 29))
def test_sums_of_integers_are_exact_and_tell_when_no_bigint_holds_them(
    pairs: list[tuple[int, int]], cut: int
) -> None:
    pairs.sort(key=lambda pair: pair[0])
    steps = np.array([step for step, _ in pairs])
    values = np.array([value for _, value in pairs], dtype=np.int64)
    parts, heads = [], []
    for part in (slice(cut), slice(cut, None)):
        starts = run_starts(steps[part])
        if len(starts):
            parts.append(IntegerSums.of(values[part], starts))
            heads.append(steps[part][starts])
    joined = np.concatenate(heads)
    order = np.argsort(joined, kind="stable")
    starts = run_starts(joined[order])
    sums = IntegerSums.combined(parts, order, starts)
    counts = np.bincount(steps)[joined[order][starts]]
    means, overflows = sums.means(counts), sums.overflows()
    for place, step in enumerate(joined[order][starts].tolist()):
        exact = sum(value for s, value in pairs if s == step)
        assert sums.exact(place) == exact
        assert overflows[place] == (not -(2**63) <= exact < 2**63)
        assert means[place] == exact / int(counts[place])
        if not overflows[place]:
            assert sums.totals()[place] == exact


@pytest.mark.parametrize("dtype", [np.int32, np.bool_])
def test_narrow_integers_and_booleans_add_up(dtype: type) -> None:
    values: Any = np.ones(10, dtype=dtype)
    sums = IntegerSums.of(values, np.array([0, 4]))
    assert sums.totals().tolist() == [4, 6]


def test_nothing_adds_up_to_nothing() -> None:
    none = np.empty(0, dtype=np.int64)
    assert len(run_starts(none)) == 0
    sums = FloatSums.combined([FloatSums.of(none, np.empty(0)), FloatSums()])
    assert len(sums.totals(none)) == 0
    assert len(IntegerSums.of(none, run_starts(none)).totals()) == 0
    assert sums.totals(np.array([3])).tolist() == [0.0]
