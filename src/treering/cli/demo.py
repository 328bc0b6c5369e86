"""``treering demo``: the main job, end to end, with real input."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from treering.cli.options import DebugOption

if TYPE_CHECKING:
    from treering.core.design import Design
    from treering.engine.protocol import ExpireReport, TableInfo
    from treering.readings import Readings


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

    Each run makes a folder of its own below --out. With --store, the tables
    demo_temperature and demo_load are made there, and stay.

    Examples:

        treering demo

        treering demo --store cassandra://127.0.0.1/demo
    """
    from treering.demo import run_demo

    run_demo(store=store, out=out, seconds=seconds, screen=RichScreen())


class RichScreen:
    """Shows the demo on the terminal."""

    def heading(self, text: str) -> None:
        """Start a section."""
        from rich.text import Text

        from treering.cli.output import print_rich

        print_rich(Text(f"\n{text}\n", style="bold"))

    def text(self, text: str) -> None:
        """Show lines of text as they are."""
        print(text, flush=True)

    def design(self, design: Design) -> None:
        """Show a design with its arithmetic."""
        from treering.cli.output import print_rich
        from treering.cli.render_design import render_design

        print_rich(render_design(design), "")

    def readings(self, readings: Readings) -> None:
        """Show readings as a table."""
        from treering.cli.output import print_rich
        from treering.cli.render_readings import render_readings

        print_rich(render_readings(readings), "")

    def parts(self, title: str, info: TableInfo) -> None:
        """Show the parts of a table under a title."""
        from treering.cli.info import render_parts
        from treering.cli.output import print_rich

        print_rich(title, render_parts(info), "")

    def expiry(self, report: ExpireReport) -> None:
        """Show what left, or can leave."""
        from treering.cli.expire import render_expiry
        from treering.cli.output import print_rich

        print_rich(*render_expiry(report, is_dry_run=False), "")
