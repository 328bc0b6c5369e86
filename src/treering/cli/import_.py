"""``treering import``: files into a table."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from treering.cli.options import DebugOption, JsonOption, NowOption, StoreOption, TableArgument

if TYPE_CHECKING:
    from treering.importing import ImportReport

_COLUMNS = "What stands where"
_READINGS = "What becomes of readings"


def import_(
    table: TableArgument,
    files: Annotated[
        list[str], typer.Argument(metavar="FILE…", help="Files; - is standard input.")
    ],
    file_format: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="csv|jsonl|parquet",
            help="What the files are, where their names do not say.",
        ),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(
            "--time", metavar="COLUMN", help="The event times; ts.", rich_help_panel=_COLUMNS
        ),
    ] = None,
    series: Annotated[
        str | None,
        typer.Option(
            "--series", metavar="COLUMN", help="The series ids; series.", rich_help_panel=_COLUMNS
        ),
    ] = None,
    series_name: Annotated[
        str | None,
        typer.Option(
            "--series-name",
            metavar="NAME",
            help="The one series that all readings belong to.",
            rich_help_panel=_COLUMNS,
        ),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            "--column",
            metavar="FILE=TABLE",
            help="A column of values and where it goes; again for more. Equal names if none.",
            rich_help_panel=_COLUMNS,
        ),
    ] = None,
    time_unit: Annotated[
        str | None,
        typer.Option(
            "--time-unit",
            metavar="UNIT",
            help="Times are numbers of s, ms, us or ns.",
            rich_help_panel=_COLUMNS,
        ),
    ] = None,
    time_format: Annotated[
        str | None,
        typer.Option(
            "--time-format",
            metavar="FORM",
            help="Times are of this strptime form, such as '%Y/%m/%d %H:%M'.",
            rich_help_panel=_COLUMNS,
        ),
    ] = None,
    tz: Annotated[
        str | None,
        typer.Option(
            "--tz",
            metavar="ZONE",
            help="The zone of times that name none, such as UTC or Europe/Berlin.",
            rich_help_panel=_COLUMNS,
        ),
    ] = None,
    delimiter: Annotated[
        str,
        typer.Option(
            "--delimiter",
            metavar="C",
            help="What stands between fields of CSV; \\t is a tab.",
            rich_help_panel=_COLUMNS,
        ),
    ] = ",",
    duplicates: Annotated[
        str,
        typer.Option(
            "--duplicates",
            metavar="refuse|first|last",
            help="Of readings of one chunk with one event time and other values.",
            rich_help_panel=_READINGS,
        ),
    ] = "refuse",
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="Stop at the first line that is refused.",
            rich_help_panel=_READINGS,
        ),
    ] = False,
    refused: Annotated[
        Path | None,
        typer.Option(
            "--refused",
            metavar="FILE",
            help="Write refused lines there as CSV: line, reason, the original columns.",
            rich_help_panel=_READINGS,
        ),
    ] = None,
    chunk: Annotated[
        int | None,
        typer.Option("--chunk", metavar="N", help="Lines a write.", rich_help_panel=_READINGS),
    ] = None,
    store: StoreOption = None,
    now: NowOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Import CSV, JSON lines or Parquet.

    Lines that are no readings are refused and counted, and the others are
    imported; the exit code is then 3. Importing a file again is harmless.

    Examples:

        treering import readings may.csv --store ./plant

        treering import air a.csv --series-name roof --column temp=value

        treering import air a.csv --time date --tz America/Los_Angeles

        zcat a.jsonl.gz | treering import air - --format jsonl
    """
    from treering.cli.options import opened, parse_pairs
    from treering.formats.layout import FileMapping
    from treering.importing import CHUNK_LINES, ImportOptions, ImportReport, format_of, run_import

    mapping = FileMapping(
        time=time,
        series=series,
        series_name=series_name,
        columns=parse_pairs(column, "--column temp=value"),
        time_unit=time_unit,
        time_format=time_format,
        tz=tz,
        delimiter="\t" if delimiter == "\\t" else delimiter,
    )
    formats = [format_of(file, file_format) for file in files]
    report = ImportReport()
    with ExitStack() as stack:
        place = stack.enter_context(opened(store, now=now))
        target = place.table(table)
        streams = [stack.enter_context(_stream(file)) for file in files]
        add_refused = stack.enter_context(_refused_sink(refused, is_named=len(files) > 1))
        advance = stack.enter_context(_progress(files))
        for file, form, stream in zip(files, formats, streams, strict=True):
            options = ImportOptions(
                mapping=mapping,
                duplicates=duplicates,  # type: ignore[arg-type]  # checked by the options
                strict=strict,
                chunk_lines=CHUNK_LINES if chunk is None else chunk,
                on_refused=add_refused(file),
                on_progress=advance(file),
            )
            run_import(target, stream, form, options, path=_shown(file), report=report)
    _print(report, table, refused, as_json=as_json)
    if report.refused:
        from treering.cli.failures import INCOMPLETE

        raise typer.Exit(INCOMPLETE)


def _shown(file: str) -> str:
    return "standard input" if file == "-" else file


@contextmanager
def _stream(file: str) -> Iterator[BinaryIO]:
    if file != "-":
        with open(file, "rb") as stream:
            yield stream
        return
    yield sys.stdin.buffer


@contextmanager
def _refused_sink(path: Path | None, *, is_named: bool) -> Iterator[Callable[[str], Any]]:
    if path is None:
        yield lambda _: None
        return
    from treering.importing import RefusedFile

    with path.open("w", encoding="utf-8", newline="") as stream:
        sink = RefusedFile(stream)

        def adder(file: str) -> Any:
            return lambda refusal, names: sink.add(
                refusal, names, path=_shown(file) if is_named else None
            )

        yield adder


@contextmanager
def _progress(files: list[str]) -> Iterator[Callable[[str], Any]]:
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

    columns = ("{task.description}", BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:

        def advance(file: str) -> Any:
            size = None if file == "-" else Path(file).stat().st_size
            task = progress.add_task(_shown(file), total=size)
            return lambda done: progress.update(task, completed=done)

        yield advance


def _print(report: ImportReport, table: str, refused: Path | None, *, as_json: bool) -> None:
    from treering.cli.output import print_json

    if as_json:
        print_json(
            {
                "table": table,
                "lines": report.lines,
                "accepted": report.accepted,
                "floored": report.floored,
                "repeats": report.repeats,
                "refused": report.refused,
                "reasons": dict(report.reasons),
                "refused_file": None if refused is None else str(refused),
            }
        )
        return
    print(f"{report.accepted:,} readings of {report.lines:,} lines are in {table}")
    if report.floored:
        print(f"  {report.floored:,} of them floored to the table's precision")
    if report.repeats:
        print(f"  {report.repeats:,} repeats of another line left out")
    for kind, count in report.reasons.most_common():
        print(f"  {count:,} refused: {kind}")
    if report.refused:
        where = f"they are in {refused}" if refused else "see them with --refused FILE"
        print(f"  {where}")
