"""Pictures: every peak is drawn, gaps stay gaps, what is missing is named."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import treering
from treering.errors import MissingExtraError, UsageError
from treering.plot import plan_lines, render_plot, thin_line, write_png
from treering.readings import Readings

NOW = "2026-11-30T14:00Z"
BLANK = "\u2800"


def readings(times: list[int], values: Sequence[float | None], *, series: str = "a") -> Readings:
    """Return readings at seconds after noon."""
    with treering.open("memory://", clock=treering.ManualClock(NOW)) as store:
        table = store.create("r", rate="1/s", retention="7d", columns="value:double,note:text")
        start = np.datetime64("2026-11-30T12:00:00", "ms")
        moments = start + np.array(times, dtype="timedelta64[s]")
        table.write(series, moments, value=values, note=["x"] * len(times))
        return table.read(series, "2026-11-30", "2026-12-01", columns=["value"])


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=400),
    st.integers(min_value=6, max_value=60),
)
def test_thinning_keeps_the_extremes(values: list[float], points_max: int) -> None:
    x = np.arange(len(values), dtype=np.float64)
    y = np.array(values)
    thin_x, thin_y = thin_line(x, y, points_max)
    assert thin_y.min() == y.min()
    assert thin_y.max() == y.max()
    assert len(thin_x) <= max(points_max, len(x) if len(x) <= points_max else 0)
    assert bool((np.diff(thin_x) >= 0).all())


def test_a_gap_survives_thinning() -> None:
    x = np.concatenate([np.arange(1_000.0), np.arange(5_000.0, 6_000.0)])
    _, thin = thin_line(x, np.ones(len(x)), 40)
    assert np.isnan(thin).sum() == 1
    assert np.isfinite(thin[0])
    assert np.isfinite(thin[-1])


def test_missing_and_infinite_values_break_the_line() -> None:
    (line,) = plan_lines(
        readings([0, 1, 2, 3, 4], [1.0, None, 3.0, float("inf"), float("nan")]), points_max=100
    )
    assert np.isfinite(line.values).tolist() == [True, False, True, False, False]


def test_a_text_picture_shows_bounds_axis_and_a_gap() -> None:
    steps = [*range(100), *range(1_000, 1_100)]
    text = render_plot(readings(steps, [float(s % 7) for s in steps]), width=60, height=8)
    lines = text.splitlines()
    assert lines[0].strip() == "a (UTC)"
    assert lines[1].lstrip().startswith("6 |")
    assert "12:00:00" in lines[-1]
    assert max(map(len, lines)) <= 60
    body = [line.partition("| ")[2] for line in lines[1:-2]]
    middle = {row[22] for row in body if row}
    assert middle == {BLANK}
    assert any(row[0] != BLANK for row in body if row)


@pytest.mark.parametrize("values", [[5.0], [5.0, 5.0, 5.0], [0.0, 0.0]])
def test_a_constant_is_drawn(values: list[float]) -> None:
    text = render_plot(readings(list(range(len(values))), values), width=50)
    assert any(BLANK < character <= "\u28ff" for character in text)


def test_a_png_is_one(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    write_png(readings([0, 1, 2], [1.0, 2.0, 3.0]), path, title="°F in Seattle")
    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.stat().st_size > 5_000


def test_nothing_to_draw_is_said() -> None:
    with pytest.raises(UsageError, match="no readings to draw"):
        render_plot(readings([0], [None]))


def test_a_png_without_matplotlib_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match="'plot'"):
        write_png(readings([0], [1.0]), tmp_path / "a.png")
