"""Line charts in text: braille dots, two by four a character, one panel above another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

_PANEL_LINES_MIN: Final = 4
_WIDTH_MIN: Final = 30
_DOTS_X: Final = 2
_DOTS_Y: Final = 4
# The bit of each dot of a braille character, by column, then from the top down.
_BITS: Final = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
_BLANK: Final = 0x2800

XLabel = Callable[[float, float], str]
"""Returns the label of a place on the axis, given the length of the axis."""


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
    """Return panels one above another, over one axis.

    Args:
        panels: At least one.
        title: Stands above all.
        width: In characters; 30 at least.
        height: In lines, over all panels.
        x_label: How a place on the axis is named.
    """
    width = max(width, _WIDTH_MIN)
    lines_each = max(height // len(panels), _PANEL_LINES_MIN)
    labels = [_y_labels(panel, lines_each) for panel in panels]
    margin = max(len(text) for each in labels for text in each)
    inner = width - margin - 2
    first = min(float(panel.x[0]) for panel in panels)
    last = max(float(panel.x[-1]) for panel in panels)
    out = [title.center(width).rstrip()]
    for panel, texts in zip(panels, labels, strict=True):
        if len(panels) > 1 or panel.name not in title:
            out.append(f"{'':>{margin}} {panel.name}")
        rows = _rows(panel, first, last, inner, lines_each)
        out += [f"{text:>{margin}}┤{row}" for text, row in zip(texts, rows, strict=True)]
    out += _axis(first, last, margin, inner, x_label)
    return "\n".join(out)


def _bounds(panel: Panel) -> tuple[float, float]:
    low, high = float(np.nanmin(panel.y)), float(np.nanmax(panel.y))
    if low == high:
        # A constant is drawn in the middle.
        pad = abs(low) / 10 or 1.0
        return low - pad, high + pad
    return low, high


def _y_labels(panel: Panel, lines: int) -> list[str]:
    low, high = _bounds(panel)
    texts = [""] * lines
    for place in (0, lines // 2, lines - 1):
        texts[place] = f"{high - (high - low) * place / (lines - 1):.4g}"
    return texts


def _rows(panel: Panel, first: float, last: float, width: int, lines: int) -> Iterator[str]:
    low, high = _bounds(panel)
    dots = np.zeros((lines * _DOTS_Y, width * _DOTS_X), dtype=np.bool_)
    right, bottom = dots.shape[1] - 1, dots.shape[0] - 1
    span = last - first
    x = (panel.x - first) / span * right if span > 0 else np.full(len(panel.x), right / 2)
    y = (high - panel.y) / (high - low) * bottom
    for place in np.flatnonzero(np.isfinite(y)).tolist():
        has_next = place + 1 < len(y) and np.isfinite(y[place + 1])
        after = place + 1 if has_next else place
        steps = int(max(abs(x[after] - x[place]), abs(y[after] - y[place]))) + 2
        across = np.linspace(x[place], x[after], steps).round().astype(np.int64)
        down = np.linspace(y[place], y[after], steps).round().astype(np.int64)
        dots[down, across] = True
    yield from _characters(dots)


def _characters(dots: npt.NDArray[np.bool_]) -> Iterator[str]:
    codes = np.full((dots.shape[0] // _DOTS_Y, dots.shape[1] // _DOTS_X), _BLANK, dtype=np.int64)
    for column, bits in enumerate(_BITS):
        for row, bit in enumerate(bits):
            codes += dots[row::_DOTS_Y, column::_DOTS_X] * bit
    for line in codes.tolist():
        yield "".join(map(chr, line))


def _axis(first: float, last: float, margin: int, width: int, x_label: XLabel) -> Iterator[str]:
    span = last - first
    sample = len(x_label(first, span))
    count = max(1, min(5, width // (2 * sample)))
    edge = ["─"] * width
    labels = [" "] * width
    for place in range(count + 1):
        at = round(place * (width - 1) / count)
        edge[at] = "┴"
        text = x_label(first + span * at / (width - 1), span)
        start = min(max(at - len(text) // 2, 0), width - len(text))
        labels[start : start + len(text)] = text
    yield f"{'':>{margin}}└{''.join(edge)}"
    yield f"{'':>{margin}} {''.join(labels)}".rstrip()
