"""Pictures of readings: in the terminal, and as PNG.

Rules of this file: a picture shows every peak (points are thinned by minimum and maximum, never
by leaving out); where readings are missing there is a gap, not a line; times are UTC.
"""

from __future__ import annotations

import datetime as dt
import importlib
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from treering.core.schema import ColumnType
from treering.core.units import DAY_S
from treering.errors import UsageError, missing_extra
from treering.plot.panels import Panel, render_panels
from treering.readings import Readings

GAP_STEPS: Final = 5.0
"""A step so many times the usual one is a gap."""

_PNG_POINTS: Final = 4_000
_LINES_MAX: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotLine:
    """One line of a picture.

    Attributes:
        name: What the legend says.
        time_s: Seconds since 1970, UTC; shape (n,).
        values: Values; NaN where the line has a gap; shape (n,).
    """

    name: str
    time_s: npt.NDArray[np.float64]
    values: npt.NDArray[np.float64]


def plan_lines(readings: Readings, *, points_max: int) -> tuple[PlotLine, ...]:
    """Return one line a series and numeric column, thinned to at most ``points_max`` points each.

    Raises:
        UsageError: Nothing that can be drawn, or more lines than a picture can show.
    """
    columns = [c.name for c in readings.schema if c.type is not ColumnType.TEXT]
    if not columns:
        raise UsageError(
            "there is no column of numbers to draw", hint="draw a column that is not text"
        )
    lines = []
    for series, part in readings.split():
        order = np.argsort(part.ts, kind="stable")
        # Through whole seconds: nanoseconds as one float would lose the fraction.
        seconds, ticks = np.divmod(part.ts[order], part.precision.per_s)
        time_s = seconds + ticks / part.precision.per_s
        for name in columns:
            data = part.data[name]
            values = np.where(data.mask(), data.values, np.nan).astype(np.float64)[order]
            values[~np.isfinite(values)] = np.nan
            thin_s, thin = thin_line(time_s, values, points_max)
            label = series if len(columns) == 1 else f"{series} {name}"
            if np.isfinite(thin).any():
                lines.append(PlotLine(name=label, time_s=thin_s, values=thin))
    if not lines:
        raise UsageError("there are no readings to draw", hint="read an interval that has some")
    if len(lines) > _LINES_MAX:
        raise UsageError(
            f"{len(lines)} lines are more than a picture shows ({_LINES_MAX})",
            hint="draw fewer series, or one column with --column",
        )
    return tuple(lines)


def thin_line(
    time_s: npt.NDArray[np.float64], values: npt.NDArray[np.float64], points_max: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return at most about ``points_max`` points with every peak, and NaN where a gap is.

    Args:
        time_s: Ascending.
        values: As many; NaN breaks the line.
        points_max: At least 4.
    """
    if len(time_s) == 0:
        return time_s, values
    time_s, values = _with_gaps(time_s, values)
    if len(time_s) <= points_max:
        return time_s, values
    edges = np.linspace(time_s[0], time_s[-1], max(points_max // 3, 1) + 1)
    cell = np.clip(np.searchsorted(edges, time_s, side="right") - 1, 0, len(edges) - 2)
    starts = np.flatnonzero(np.diff(cell, prepend=-1))
    is_gap = np.isnan(values)
    low = _first_where(np.where(is_gap, np.inf, values), starts, np.minimum)
    high = _first_where(np.where(is_gap, -np.inf, values), starts, np.maximum)
    gap = starts[np.add.reduceat(is_gap, starts) > 0]
    gaps = np.array([start + int(np.argmax(is_gap[start:])) for start in gap], dtype=np.int64)
    kept = np.unique(np.concatenate([low, high, gaps]))
    return time_s[kept], values[kept]


def _first_where(
    values: npt.NDArray[np.float64], starts: npt.NDArray[np.int64], reduce: Any
) -> npt.NDArray[np.int64]:
    """Return the place of the first extreme value of each cell."""
    extremes = reduce.reduceat(values, starts)
    sizes = np.diff(np.append(starts, len(values)))
    hits = np.flatnonzero(values == np.repeat(extremes, sizes))
    cells = np.searchsorted(starts, hits, side="right") - 1
    _, first = np.unique(cells, return_index=True)
    places: npt.NDArray[np.int64] = hits[first]
    return places


def _with_gaps(
    time_s: npt.NDArray[np.float64], values: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    if len(time_s) < 3:
        return time_s, values
    steps = np.diff(time_s)
    usual = float(np.median(steps))
    places = np.flatnonzero(steps > GAP_STEPS * usual) + 1
    if usual <= 0 or not len(places):
        return time_s, values
    middle = (time_s[places - 1] + time_s[places]) / 2
    return np.insert(time_s, places, middle), np.insert(values, places, np.nan)


def render_plot(
    readings: Readings, *, title: str = "", width: int | None = None, height: int = 16
) -> str:
    """Return a picture of readings as text for a terminal.

    Each line has a panel of its own, with a scale of its own, above one axis of time.

    Args:
        readings: One series or several, with a numeric column or several.
        title: Stands above.
        width: In characters; the terminal's by default.
        height: In lines, over all panels; each panel has at least four.

    Raises:
        UsageError: Nothing to draw, or too many lines.
        MissingExtraError: plotille is not installed.
    """
    columns = width or shutil.get_terminal_size((100, 24)).columns
    lines = plan_lines(readings, points_max=8 * columns)
    panels = [Panel(name=line.name, x=line.time_s, y=line.values) for line in lines]
    return render_panels(
        panels,
        title=f"{title or _title(readings)} (UTC)",
        width=columns,
        height=height,
        x_label=render_tick,
    )


def render_tick(time_s: float, span_s: float) -> str:
    """Return an instant as short as the length of the axis allows; at most 8 characters."""
    moment = dt.datetime.fromtimestamp(time_s, tz=dt.UTC)
    if span_s > 3 * DAY_S:
        return moment.strftime("%y-%m-%d")
    return moment.strftime("%d %H:%M" if span_s > DAY_S / 2 else "%H:%M:%S")


def write_png(readings: Readings, path: Path, *, title: str = "") -> None:
    """Write a picture of readings as a PNG file.

    Args:
        readings: One series or several, with a numeric column or several.
        path: Where to.
        title: Stands above.

    Raises:
        MissingExtraError: Matplotlib is not installed.
        UsageError: Nothing to draw.
    """
    lines = plan_lines(readings, points_max=_PNG_POINTS)
    write_lines_png(lines, path, title=title or _title(readings))


def write_lines_png(lines: Sequence[PlotLine], path: Path, *, title: str) -> None:
    """Write lines over one axis of time as a PNG file.

    Raises:
        MissingExtraError: Matplotlib is not installed.
        UsageError: No line, or more than a picture shows.
    """
    if not lines or len(lines) > _LINES_MAX:
        raise UsageError(
            f"{len(lines)} lines cannot be drawn; a picture shows 1 to {_LINES_MAX}",
            hint="draw fewer tables, with --keyspace and --table",
        )
    figure_module = _import("matplotlib.figure", "drawing a PNG")
    agg = _import("matplotlib.backends.backend_agg", "drawing a PNG")
    dates = _import("matplotlib.dates", "drawing a PNG")
    # A figure of its own, without pyplot: no global state, no display, safe in any thread.
    figure = figure_module.Figure(figsize=(11, 4.5), dpi=120, layout="constrained")
    agg.FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for line in lines:
        moments = (line.time_s * 1e6).astype("datetime64[us]")
        axes.plot(moments, line.values, label=line.name, linewidth=0.9)
    locator = dates.AutoDateLocator(tz=dt.UTC)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator, tz=dt.UTC))
    axes.set_title(title)
    axes.set_xlabel("UTC")
    axes.grid(visible=True, alpha=0.3)
    if len(lines) > 1:
        axes.legend(loc="best", fontsize="small")
    figure.savefig(path, format="png")


def _title(readings: Readings) -> str:
    return ", ".join(readings.series[:3]) + (" …" if len(readings.series) > 3 else "")


def _import(module: str, what: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise missing_extra(what, "plot") from error
