"""The results as a picture: one bar a comparison, the budget marked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.measure import Result

MET, MISSED = "#2b7a4b", "#c0392b"


def draw_results(results: Sequence[Result], path: Path) -> None:
    """Draw the ratios on a logarithmic axis and write them as PNG.

    Green meets its budget, red misses it; a black mark is the budget.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 1.2 + 0.28 * len(results)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    places = range(len(results))
    # From 1, where both are equal: what is slower than its peer goes to the left.
    axes.barh(
        places,
        [result.ratio - 1 for result in results],
        left=1,
        color=[MET if result.is_met else MISSED for result in results],
        height=0.7,
    )
    for place, result in zip(places, results, strict=True):
        axes.annotate(
            f" {result.ratio:.2g}x",
            (max(result.ratio, 1.0), place),
            va="center",
            fontsize=7,
        )
        if result.budget is not None:
            axes.plot([result.budget] * 2, [place - 0.45, place + 0.45], color="black", lw=2)
    axes.set_xscale("log")
    axes.axvline(1, color="black", lw=0.8)
    axes.set_yticks(places, [f"{r.name}  |  {r.peer_name}" for r in results], fontsize=7)
    axes.invert_yaxis()
    axes.margins(x=0.1, y=0.01)
    axes.set_xlabel("times the peer's number, in the same run; the mark is the budget")
    figure.savefig(path, dpi=120)
