"""``treering demo``: the main job, end to end, with real input."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from treering.cli.options import DebugOption


def demo(
    store: Annotated[
        str | None,
        typer.Option("--store", metavar="PLACE", help="A store of your own; a new folder if none."),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where pictures and the store go.")
    ] = Path("demo-out"),
    seconds: Annotated[
        float, typer.Option("--seconds", min=1, max=60, help="How long to record this machine.")
    ] = 5.0,
    debug: DebugOption = False,
) -> None:
    """Run the main job with real data: design, write, read, draw, and let old data leave.

    Examples:

        treering demo

        treering demo --store cassandra://127.0.0.1/demo
    """
    from treering.cli.output import print_rich
    from treering.demo import run_demo

    run_demo(store=store, out=out, seconds=seconds, show=print_rich)
