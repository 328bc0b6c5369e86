"""What was watched, for people: text, pictures, a page; and as JSON."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

import numpy as np

from treering.core.units import render_bytes
from treering.doctor.html import PAGE_HEAD
from treering.doctor.pictures import DiskStep, draw_disk, draw_sizes
from treering.doctor.report import printable
from treering.doctor.sawtooth import render_prediction
from treering.doctor.watch import Watched

_POINTS_MAX: Final = 4_000


def render_watch(watched: Watched) -> str:
    """Return what was seen of one table's disk, in a few lines."""
    lines = [f"{printable(watched.of.name)}: {watched.shape.kind}", f"  {watched.shape.why}"]
    if watched.of.datacenters:
        lines.append("  no node of the other datacentres was seen: give their addresses as well")
    if watched.curve is not None:
        assumed = f", {watched.assumed}" if watched.assumed else ""
        lines.append(f"  {render_prediction(watched.curve)}{assumed}")
    if watched.snapshot_bytes:
        lines.append(
            f"  snapshots alone keep {render_bytes(watched.snapshot_bytes)} more, which no expiry "
            "frees"
        )
    return "\n".join(lines)


def watch_to_json(found: Sequence[Watched]) -> dict[str, Any]:
    """Return a document of everything that was seen."""
    return {
        "tables": [
            {
                "table": one.of.table,
                "datacenters": list(one.of.datacenters) or None,
                "kind": one.shape.kind,
                "why": one.shape.why,
                "samples": one.shape.samples,
                "span_s": one.shape.span_s,
                "falls": one.shape.falls,
                "fallen_bytes": one.shape.fallen_bytes,
                "risen_bytes": one.shape.risen_bytes,
                "low_growth_bytes_per_day": one.shape.low_growth_bytes_per_day,
                "snapshot_bytes": one.snapshot_bytes,
                "assumed": one.assumed or None,
                "predicted": None if one.curve is None else [list(step) for step in one.curve],
            }
            for one in found
        ]
    }


def render_picture(watched: Watched) -> str:
    """Return the sizes as a picture for a terminal; empty with fewer than two samples.

    Raises:
        MissingExtraError: plotille is not installed.
    """
    from treering.plot.panels import Panel, render_panels
    from treering.plot.pictures import render_tick

    if len(watched.times_s) < 2:
        return ""
    panel = Panel(
        name="GB",
        x=np.array(watched.times_s, dtype=np.float64),
        y=np.array(watched.sizes_bytes, dtype=np.float64) / 1e9,
    )
    return render_panels(
        [panel],
        title=f"{printable(watched.of.name)}, live GB (UTC)",
        width=shutil.get_terminal_size((80, 24)).columns,
        height=12,
        x_label=render_tick,
    )


def draw_png(found: Sequence[Watched], path: Path) -> None:
    """Draw the sizes of all tables into one PNG.

    Raises:
        MissingExtraError: Matplotlib is not installed.
        UsageError: There is nothing to draw, or there are too many tables.
    """
    from treering.plot.pictures import PlotLine, thin_line, write_lines_png

    lines = []
    for one in found:
        times, sizes = thin_line(
            np.array(one.times_s, dtype=np.float64),
            np.array(one.sizes_bytes, dtype=np.float64) / 1e9,
            _POINTS_MAX,
        )
        lines.append(PlotLine(name=printable(one.of.name), time_s=times, values=sizes))
    write_lines_png(lines, path, title="live GB on disk")


def render_watch_html(found: Sequence[Watched]) -> str:
    """Return a page with the sizes of all tables, and what their files of now will leave."""
    parts = [*PAGE_HEAD, "<h1>Disk over time</h1>"]
    for one in found:
        parts.append(f"<h2>{escape(printable(one.of.name))}: {one.shape.kind}</h2>")
        parts += [f"<p>{escape(line.strip())}</p>" for line in render_watch(one).splitlines()[1:]]
        sizes = draw_sizes(one.times_s, one.sizes_bytes)
        if sizes:
            parts += ["<h3>Live bytes, as sampled</h3>", sizes]
        steps = [DiskStep(time_s=at_s, bytes=left) for at_s, left in one.curve or ()]
        predicted = draw_disk(steps)
        if predicted:
            parts += ["<h3>What the files of now will take, if nothing changes</h3>", predicted]
    parts.append("</body></html>\n")
    return "\n".join(parts).encode("utf-8", "replace").decode()
