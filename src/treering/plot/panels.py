"""Line charts in text, by plotille: one panel above another, gaps left open."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from treering.errors import missing_extra

_PANEL_LINES_MIN: Final = 4
_WIDTH_MIN: Final = 40
# What plotille sets beside a canvas; labels start every ten characters and take eight.
_MARGIN: Final = 14
_LABEL_STEP: Final = 10
_LABEL: Final = 8

XLabel = Callable[[float, float], str]
"""Returns the label of a place on the axis, given the length of the axis; at most 8 characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One line to draw.

    Attributes:
        name: Stands above the panel.
        x: Ascending; shape (n,).
        y: NaN where the line has a gap; shape (n,); at least one is a number.
    """

    name: str
    x: npt.NDArray[np.float64]
    y: npt.NDArray[np.float64]


def render_panels(
    panels: Sequence[Panel], *, title: str, width: int, height: int, x_label: XLabel
) -> str:
    """Return panels one above another, each over the same span of x.

    Args:
        panels: At least one.
        title: Stands above all.
        width: In characters; 40 at least.
        height: In lines, over all panels.
        x_label: How a place on the axis is named.

    Raises:
        MissingExtraError: plotille is not installed.
    """
    width = max(width, _WIDTH_MIN)
    canvas = (width - _MARGIN - _LABEL) // _LABEL_STEP * _LABEL_STEP + _LABEL
    lines_each = max(height // len(panels), _PANEL_LINES_MIN)
    first = min(float(panel.x[0]) for panel in panels)
    last = max(float(panel.x[-1]) for panel in panels)
    out = [title.center(width).rstrip()]
    for number, panel in enumerate(panels):
        if len(panels) > 1 or panel.name not in title:
            out.append(f"{'':>{_MARGIN}}{panel.name}")
        is_last = number == len(panels) - 1
        figure = _figure(panel, (first, last), canvas, lines_each, x_label)
        out += _shown(figure, has_axis=is_last)
    return "\n".join(line.rstrip() for line in out)


def _figure(
    panel: Panel, span: tuple[float, float], width: int, lines: int, x_label: XLabel
) -> Any:
    figure = _plotille().Figure()
    figure.width, figure.height = width, lines
    figure.with_colors = False
    figure.origin = False
    figure.x_label = ""
    first, last = span if span[1] > span[0] else (span[0] - 0.5, span[0] + 0.5)
    low, high = _bounds(panel)
    figure.set_x_limits(first, last)
    figure.set_y_limits(low, high)
    figure.x_ticks_fkt = lambda place, _: x_label(place, last - first)
    figure.y_ticks_fkt = lambda value, _: f"{value:.4g}"
    for x, y in _pieces(panel):
        if len(x) == 1:
            figure.scatter(x, y)
        else:
            figure.plot(x, y)
    return figure


def _shown(figure: Any, *, has_axis: bool) -> Iterator[str]:
    # The first line of plotille is the y axis's arrow, the last two are the x axis.
    lines = figure.show().splitlines()[1:]
    lines[-2] = lines[-2].removesuffix("-> ()")
    yield from lines if has_axis else lines[:-2]


def _pieces(panel: Panel) -> Iterator[tuple[list[float], list[float]]]:
    finite = np.isfinite(panel.y)
    edges = np.flatnonzero(np.diff(finite)) + 1
    for part in np.split(np.arange(len(panel.y)), edges):
        if len(part) and finite[part[0]]:
            yield panel.x[part].tolist(), panel.y[part].tolist()


def _bounds(panel: Panel) -> tuple[float, float]:
    low, high = float(np.nanmin(panel.y)), float(np.nanmax(panel.y))
    if low == high:
        # A constant is drawn in the middle.
        pad = abs(low) / 10 or 1.0
        return low - pad, high + pad
    return low, high


def _plotille() -> Any:
    try:
        return importlib.import_module("plotille")
    except ImportError as error:
        raise missing_extra("a plot in the terminal", "plot") from error
