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
    from treering.importing import FileFormat, ImportReport

_COLUMNS = "What stands where"
_READINGS = "What becomes of readings"
_NAMED = 10


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
            help="Stop at the first line that is refused; its chunk is not written.",
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
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Let --refused overwrite a file that does not hold refused lines.",
            rich_help_panel=_READINGS,
        ),
    ] = False,
    chunk: Annotated[
        int,
        typer.Option(
            "--chunk",
            metavar="N",
            help="Lines a write; 100,000.",
            rich_help_panel=_READINGS,
            show_default=False,
        ),
    ] = 100_000,
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
    from treering.cli.refused import check_refused_path, refused_sink
    from treering.formats.layout import FileMapping
    from treering.importing import ImportOptions, ImportReport, run_import

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
    formats = [_format_of(file, file_format) for file in files]
    if refused is not None:
        check_refused_path(refused, files, force=force)
    report = ImportReport()
    with ExitStack() as stack:
        place = stack.enter_context(opened(store, now=now))
        target = place.table(table)
        streams = [stack.enter_context(_stream(file)) for file in files]
        add_refused = stack.enter_context(refused_sink(refused, _shown, is_named=len(files) > 1))
        advance = stack.enter_context(_progress(files))
        stack.enter_context(_told(report, table, files, as_json=as_json))
        for file, form, stream in zip(files, formats, streams, strict=True):
            options = ImportOptions(
                mapping=mapping,
                duplicates=duplicates,  # type: ignore[arg-type]  # checked by the options
                strict=strict,
                chunk_lines=chunk,
                on_refused=add_refused(file),
                on_progress=advance(file),
            )
            run_import(target, stream, form, options, path=_shown(file), report=report)
    unfilled = [c.name for c in target.columns if c.name not in report.filled]
    _print(report, table, refused, unfilled, as_json=as_json)
    if report.refused:
        from treering.cli.failures import INCOMPLETE

        raise typer.Exit(INCOMPLETE)


def _format_of(file: str, stated: str | None) -> FileFormat:
    from treering.errors import UsageError
    from treering.importing import format_of

    path = Path(file)
    if file != "-" and path.is_dir():
        raise UsageError(f"{file} is a folder", hint="name the files in it, such as DIR/*.csv")
    if file != "-" and not path.exists():
        raise UsageError(f"there is no file {file}", hint="check the name of the file")
    return format_of(file, stated)


@contextmanager
def _told(report: ImportReport, table: str, files: list[str], *, as_json: bool) -> Iterator[None]:
    """Say what is in the table already when something ends the import before its end."""
    from treering.cli.output import print_note
    from treering.core.units import render_count

    try:
        yield
    except BaseException:
        if not as_json and (report.accepted or len(files) > 1):
            what = "nothing"
            if report.accepted:
                what = render_count(report.accepted, "reading")
            verb = "are" if report.accepted > 1 else "is"
            print_note(f"stopped before the end: {what} of this import {verb} in {table} so far")
        raise


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


def _print(
    report: ImportReport,
    table: str,
    refused: Path | None,
    unfilled: list[str],
    *,
    as_json: bool,
) -> None:
    from treering.cli.output import print_json, print_note
    from treering.core.units import render_count

    notes = [
        f"{what}: {_listed(names)}"
        for what, names in (
            ("columns of the file that were left out", sorted(report.ignored)),
            (f"columns of {table} that were not filled", unfilled if report.lines else []),
        )
        if names
    ]
    if notes:
        print_note("; ".join(notes))
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
                "ignored_columns": sorted(report.ignored),
                "unfilled_columns": unfilled,
            }
        )
        return
    accepted, verb = render_count(report.accepted, "reading"), _are(report.accepted)
    print(f"{accepted} of {render_count(report.lines, 'line')} {verb} in {table}")
    if report.floored:
        print(f"  {report.floored:,} of them floored to the table's precision")
    if report.repeats:
        print(f"  {render_count(report.repeats, 'repeat')} of another line left out")
    for kind, count in report.reasons.most_common():
        print(f"  {count:,} refused: {kind}")
    if report.refused:
        if refused:
            print(f"  {'it is' if report.refused == 1 else 'they are'} in {refused}")
        else:
            print("  see them with --refused FILE")


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
