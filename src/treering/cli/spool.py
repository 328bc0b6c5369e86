"""``treering spool``: what waits in a writer's spool, and writing it."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from treering.cli.options import DebugOption, JsonOption, StoreOption

if TYPE_CHECKING:
    from treering.spool import SpoolStatus
    from treering.writer import Writer
    from treering.writer_report import WriterReport

_STEP_S: Final = 2.0

spool = typer.Typer(
    help="Look into the spool of a writer, or write what it holds.", no_args_is_help=True
)

FolderArgument = Annotated[str, typer.Argument(metavar="FOLDER", help="The spool's folder.")]
TimeoutOption = Annotated[
    str,
    typer.Option("--timeout", metavar="TIME", help="Give up after that long; nothing is lost."),
]


@spool.command("status")
def status(folder: FolderArgument, as_json: JsonOption = False, debug: DebugOption = False) -> None:
    """Say what waits in a spool, also while a process uses it.

    Example:

        treering spool status ./spool
    """
    from treering.cli.output import print_json, print_rich
    from treering.spool import spool_status

    found = spool_status(folder)
    if as_json:
        print_json(_document(found))
    else:
        print_rich(*_lines(found))


def _document(found: SpoolStatus) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(found)


def _lines(found: SpoolStatus) -> list[str]:
    from treering.core.times import render_ts
    from treering.core.units import Precision, render_bytes, render_count

    lines = [
        f"the spool keeps {render_count(found.rows, 'reading')} for the table {found.table}, "
        f"{render_bytes(found.bytes)} in {render_count(found.batches, 'batch', 'batches')}",
        f"on disk {render_bytes(found.disk_bytes)}",
    ]
    if found.oldest_us is not None:
        lines.append(f"the oldest since {render_ts(found.oldest_us, Precision.US)}")
    lines.append(f"used by {found.holder}" if found.holder else "no process uses it")
    return lines


@spool.command("replay")
def replay(
    folder: FolderArgument,
    store: StoreOption = None,
    timeout: TimeoutOption = "1h",
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Write what waits in a spool to its table, in order, with the write times it was given.

    Running it again is safe. Refused readings make the exit code 3.

    Example:

        treering spool replay ./spool --store cassandra://10.0.0.5/plant?local_dc=dc1
    """
    from treering.cli.failures import INCOMPLETE
    from treering.cli.options import opened
    from treering.cli.output import print_json, print_rich
    from treering.core.units import parse_duration_s
    from treering.spool import spool_table

    spec = spool_table(folder)
    with (
        opened(store) as place,
        place.table(spec.name).writer(spool=folder, close_s=0) as writer,
    ):
        report = _flushed(writer, parse_duration_s(timeout))
    if as_json:
        print_json(_report(report))
    else:
        print_rich(str(report), *(str(refusal) for refusal in report.refused[:10]))
    if report.refused_count:
        raise typer.Exit(INCOMPLETE)


def _flushed(writer: Writer, timeout_s: float) -> WriterReport:
    """Flush step by step, so that people see how far it is."""
    from treering.cli.output import print_note
    from treering.errors import EngineTimeoutError

    deadline_s = time.monotonic() + timeout_s
    while True:
        left_s = deadline_s - time.monotonic()
        try:
            return writer.flush(min(_STEP_S, max(left_s, 0.0)))
        except EngineTimeoutError:
            if left_s <= _STEP_S:
                raise
            if sys.stderr.isatty():
                print_note(str(writer.report))


def _report(report: WriterReport) -> dict[str, Any]:
    return {
        "recovered": report.recovered,
        "accepted": report.accepted,
        "repeats": report.repeats,
        "retried": report.retried,
        "refused": report.refused_count,
        "reasons": report.reasons,
        "pending": report.pending,
    }
