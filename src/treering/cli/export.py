"""``treering export``: a table into files."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from treering.cli.options import (
    ColumnsOption,
    DebugOption,
    EndOption,
    JsonOption,
    NowOption,
    PrefixOption,
    StoreOption,
    TableArgument,
    TagOption,
    UnitOption,
)

if TYPE_CHECKING:
    from treering.core.units import Interval
    from treering.exporting import ExportForm, ExportReport, SeriesSource
    from treering.table import Table

_FILES = "Files"


def export(
    table: TableArgument,
    series: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SERIES…]", help="One series id, or several; all if none."),
    ] = None,
    to_parquet: Annotated[
        Path | None,
        typer.Option(
            "--parquet",
            metavar="FILE|FOLDER",
            help="A file that ends in .parquet, or a folder with a file a UTC day.",
            rich_help_panel=_FILES,
        ),
    ] = None,
    to_csv: Annotated[
        Path | None,
        typer.Option(
            "--csv",
            metavar="FILE|FOLDER",
            help="The same as CSV: a file that ends in .csv, or a folder.",
            rich_help_panel=_FILES,
        ),
    ] = None,
    row_group: Annotated[
        int | None,
        typer.Option(
            "--row-group",
            min=1,
            metavar="N",
            help="Readings of a row group of Parquet; 250,000.",
            rich_help_panel=_FILES,
        ),
    ] = None,
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="Replace files that are there.", rich_help_panel=_FILES),
    ] = False,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Keep the days that a folder has already, and write the others.",
            rich_help_panel=_FILES,
        ),
    ] = False,
    prefix: PrefixOption = None,
    tag: TagOption = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--start", metavar="TIME", help="First event time wanted; all that is kept if left out."
        ),
    ] = None,
    end: EndOption = None,
    column: ColumnsOption = None,
    time_unit: UnitOption = None,
    partial: Annotated[
        bool,
        typer.Option("--partial", help="Take what can be read, say what is missing, exit 3."),
    ] = False,
    store: StoreOption = None,
    now: NowOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Export a table to Parquet or CSV, however large, in constant memory.

    Without series, a prefix or tags: all series. A file has its name only
    once it is whole; what is there is not replaced unasked.

    Examples:

        treering export readings --parquet readings.parquet --store ./plant

        treering export readings --parquet archive --start 2025-01-01 --resume

        treering export readings pump-7 --csv pump-7.csv --start -30d
    """
    from treering.cli.options import check_one_of, opened, parse_bound_text, stated
    from treering.errors import UsageError
    from treering.exporting import (
        Existing,
        ExportForm,
        ExportOptions,
        ExportReport,
        interval_of_export,
        run_export,
    )

    check_one_of(parquet=to_parquet is not None, csv=to_csv is not None)
    check_one_of(overwrite=overwrite, resume=resume)
    target = to_parquet or to_csv
    if target is None:
        raise UsageError("nothing says where to export to", hint="say --parquet FILE or --csv FILE")
    first = parse_bound_text(start, time_unit)
    last = parse_bound_text(end, time_unit)
    existing = Existing.OVERWRITE if overwrite else Existing.RESUME if resume else Existing.REFUSE
    report = ExportReport()
    with opened(store, now=now) as place, _progress() as on_progress:
        source_table = place.table(table)
        source, note = _series_source(source_table, series, prefix, tag)
        interval = interval_of_export(source_table, first, last, time_unit)
        options = ExportOptions(
            form=ExportForm.CSV if to_parquet is None else ExportForm.PARQUET,
            columns=column,
            existing=existing,
            partial=partial,
            note=note,
            on_progress=on_progress,
            **stated(row_group_rows=row_group),
        )
        run_export(source_table, target, source, interval, options, report=report)
    _print(report, source_table, target, interval, options.form, as_json=as_json)


def _series_source(
    table: Table, names: list[str] | None, prefix: str | None, tag: list[str] | None
) -> tuple[SeriesSource, str]:
    """Return what gives the series of an export, and the choice in words."""
    from treering.cli.add_series import parse_tags
    from treering.errors import SeriesNotFoundError, UsageError
    from treering.table_series import render_choice

    if names and (prefix is not None or tag):
        raise UsageError(
            "series were named, and --prefix or --tag said too",
            hint="name the series, or have them chosen",
        )
    if names:
        chosen = list(names)
        return lambda: chosen, ", ".join(sorted(set(names)))
    tags = parse_tags(tag)
    choice = render_choice(prefix or "", tags)

    def source() -> Iterable[str]:
        return table.series(prefix or "", tags)

    if next(iter(source()), None) is None:
        hint = f"treering series {table.name} lists all, also by --prefix and --tag"
        if table.spec.is_adopted:
            hint = f"treering series {table.name} --scan finds those that others write"
        if choice:
            raise SeriesNotFoundError(f"none of the series of {table.name!r}{choice}", hint=hint)
        if table.spec.is_adopted:
            raise SeriesNotFoundError(f"no series of {table.name!r} is listed", hint=hint)
    return source, choice.strip() or "all"


@contextmanager
def _progress() -> Iterator[Callable[[int, str], None] | None]:
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), "{task.description}", TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("reading", total=None)

        def advance(readings: int, series: str) -> None:
            from rich.markup import escape

            progress.update(task, description=f"{readings:,} readings, at {escape(series)}")

        yield advance


def _print(
    report: ExportReport,
    table: Table,
    target: Path,
    interval: Interval,
    form: ExportForm,
    *,
    as_json: bool,
) -> None:
    from treering.cli.output import print_json, print_note
    from treering.core.times import render_ts
    from treering.core.units import render_bytes, render_count

    if as_json:
        print_json(
            {
                "table": table.name,
                "format": str(form),
                "start": render_ts(interval.start, interval.precision),
                "end": render_ts(interval.end, interval.precision),
                "readings": report.readings,
                "bytes": report.file_bytes,
                "files": [str(path) for path in report.files],
                "kept": [str(path) for path in report.kept],
                "missing": [read.name for read in report.missing],
            }
        )
    else:
        what = render_count(report.readings, "reading")
        files = "" if target in report.files else f"{render_count(len(report.files), 'file')} of "
        print(f"{what} of {table.name} in {files}{target}, {render_bytes(report.file_bytes)}")
        if report.kept:
            print(f"  {render_count(len(report.kept), 'file')} of an earlier run kept")
    if report.missing:
        from treering.cli.failures import INCOMPLETE

        names = ", ".join(read.name for read in report.missing)
        count = render_count(len(report.missing), "partition")
        print_note(f"incomplete: {count} could not be read: {names}")
        raise typer.Exit(INCOMPLETE)
