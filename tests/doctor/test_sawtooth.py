"""Sawtooth or staircase, from sizes that are made by hand."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.core.units import DAY_S
from treering.doctor.sawtooth import render_prediction, shape_of
from treering.errors import UsageError

GB = 10**9
HOURS = np.arange(0, 60 * 24) * 3_600


def disk(
    rate: float, *, kept_s: float, window_s: float = DAY_S, blocked_s: float = np.inf
) -> npt.NDArray[np.float64]:
    """Return sizes of a table whose windows leave whole, until a blocker stops that."""
    sizes = []
    for now in HOURS.tolist():
        written = min(now, blocked_s)
        gone = max((written - kept_s) // window_s * window_s, 0)
        sizes.append(rate * (now - gone))
    return np.array(sizes)


def test_a_table_whose_windows_leave_is_a_sawtooth() -> None:
    tail = HOURS > 12 * DAY_S
    shape = shape_of(HOURS[tail], disk(1e4, kept_s=10 * DAY_S)[tail], due_after_s=12 * DAY_S)
    assert shape.kind == "sawtooth"
    assert shape.falls >= 40
    assert shape.fallen_bytes == pytest.approx(shape.risen_bytes, rel=0.05)


def test_a_table_whose_files_are_blocked_is_a_staircase() -> None:
    sizes = disk(1e4, kept_s=10 * DAY_S, blocked_s=20 * DAY_S)
    shape = shape_of(HOURS, sizes, due_after_s=12 * DAY_S)
    assert shape.kind == "staircase"
    assert shape.low_growth_bytes_per_day == pytest.approx(1e4 * DAY_S, rel=0.3)
    assert "GB" in shape.why or "MB" in shape.why


def test_a_table_younger_than_its_lifetime_is_filling() -> None:
    shape = shape_of(
        HOURS[: 5 * 24], disk(1e4, kept_s=10 * DAY_S)[: 5 * 24], due_after_s=12 * DAY_S
    )
    assert shape.kind == "filling"


def test_growth_without_a_known_lifetime_is_not_judged() -> None:
    assert shape_of(HOURS, HOURS * 10.0).kind == "unknown"


def test_daily_falls_around_a_level_are_a_sawtooth_whatever_snapshots_hold() -> None:
    # Live 100 GB ± 10 GB; a volume of 500 GB rising is another matter.
    live = 100 * GB + 10 * GB * ((HOURS % DAY_S) / DAY_S * 2 - 1)
    assert shape_of(HOURS, live, due_after_s=10 * DAY_S).kind == "sawtooth"


def test_what_does_not_move_is_flat() -> None:
    assert shape_of(HOURS, np.full(len(HOURS), 7 * GB)).kind == "flat"
    assert shape_of(HOURS, np.zeros(len(HOURS))).kind == "flat"


def test_few_samples_tell_nothing() -> None:
    shape = shape_of([1, 2, 3], [1, 2, 1])
    assert shape.kind == "unknown"
    assert "8 are needed" in shape.why
    assert shape_of([], []).kind == "unknown"


@pytest.mark.parametrize(
    ("times", "sizes"),
    [([1, 1], [1, 1]), ([2, 1], [1, 1]), ([1], [-1]), ([1, 2], [1]), ([1], [np.nan])],
)
def test_samples_that_cannot_be_are_refused(times: list[float], sizes: list[float]) -> None:
    with pytest.raises(UsageError):
        shape_of(times, sizes)


@given(
    st.lists(st.integers(min_value=0, max_value=10**15), min_size=8, max_size=60),
    st.integers(min_value=1, max_value=10**6),
)
def test_the_verdict_does_not_depend_on_the_unit_of_size(sizes: list[int], factor: int) -> None:
    times = np.arange(len(sizes)) * 3_600
    ours = shape_of(times, [10_000.0 + size for size in sizes], due_after_s=7_200)
    theirs = shape_of(times, [(10_000.0 + size) * factor for size in sizes], due_after_s=7_200)
    assert ours.kind == theirs.kind


def test_the_prediction_says_what_leaves_when_and_what_never_does() -> None:
    curve = [(0, 100 * GB), (DAY_S, 60 * GB), (3 * DAY_S, 20 * GB)]
    text = render_prediction(curve)
    assert "80 GB leave by themselves" in text
    assert "half of them within 1d" in text
    assert "all within 3d" in text
    assert "20 GB never leave" in text
    assert "ever leave" in render_prediction([(0, 5 * GB)])
