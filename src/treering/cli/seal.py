"""``treering seal``: pack live readings whose time is over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from treering.cli.options import DebugOption, JsonOption, NowOption, StoreOption, TableArgument

if TYPE_CHECKING:
    from treering.engine.protocol import SealReport


def seal(
    table: TableArgument,
    store: StoreOption = None,
    now: NowOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Pack the live readings of every span that is over into blocks.

    The embedded engine does that by itself while it writes; this does what is left, for instance
    after a crash. It changes no result of any read, and may run beside writers.

    Examples:

        treering seal readings --store ./plant
    """
    from treering.cli.options import opened
    from treering.cli.output import print_json, print_rich

    with opened(store, now=now) as place, _progress() as show:
        report = place.table(table).seal(on_progress=show)
    if as_json:
        print_json(_document(table, report))
    else:
        print_rich(*render_seal(report))
    if report.problems:
        from treering.cli.failures import INCOMPLETE

        raise typer.Exit(INCOMPLETE)


def _progress() -> Any:
    """Return a context that gives what shows how far it came, on a terminal's error stream."""
    import sys
    from contextlib import contextmanager, nullcontext

    if not sys.stderr.isatty():
        # A bar that nobody sees leaves an empty line.
        return nullcontext(lambda report: None)
    from rich.console import Console
    from rich.progress import Progress

    @contextmanager
    def shown() -> Any:
        with Progress(console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task("sealing", total=None)

            def show(report: SealReport) -> None:
                progress.update(task, total=report.segments_total, completed=report.segments)

            yield show

    return shown()


def _document(table: str, report: SealReport) -> dict[str, Any]:
    return {
        "table": table,
        "readings": report.readings,
        "blocks": report.blocks,
        "bytes_before": report.bytes_before,
        "bytes_after": report.bytes_after,
        "files": report.segments,
        "problems": list(report.problems),
        "note": report.note,
    }


def render_seal(report: SealReport) -> list[Any]:
    """Return what was sealed, and what could not be, as parts that Rich prints."""
    from rich.text import Text

    from treering.core.units import render_bytes, render_count

    if report.note:
        return [Text(report.note)]
    if report.readings:
        lines = [
            f"sealed {render_count(report.readings, 'reading')} into "
            f"{render_count(report.blocks, 'block')}; on disk {render_bytes(report.bytes_before)} "
            f"before, {render_bytes(report.bytes_after)} now"
        ]
    else:
        lines = ["nothing to seal: all spans that are over are packed"]
    return [Text(line) for line in [*lines, *(f"not sealed: {p}" for p in report.problems)]]
