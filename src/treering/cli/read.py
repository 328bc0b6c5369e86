"""``treering read``: readings of an interval, as a table, text for programs, or a picture."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from treering.cli.options import (
    ChosenSeriesArgument,
    ColumnsOption,
    DebugOption,
    EndOption,
    FanOutOption,
    JsonOption,
    LimitOption,
    NowOption,
    OrderOption,
    PrefixOption,
    RowsOption,
    SeriesMaxOption,
    StartOption,
    StoreOption,
    TableArgument,
    TagOption,
    UnitOption,
)

if TYPE_CHECKING:
    from treering.core.read_plan import PartitionRead
    from treering.core.units import Precision
    from treering.readings import Readings

_STEPS: Final = "Aggregates by step"


def read(
    table: TableArgument,
    start: StartOption,
    series: ChosenSeriesArgument = None,
    prefix: PrefixOption = None,
    tag: TagOption = None,
    series_max: SeriesMaxOption = None,
    end: EndOption = None,
    order: OrderOption = "asc",
    limit: LimitOption = None,
    column: ColumnsOption = None,
    every: Annotated[
        str | None,
        typer.Option(
            "--every",
            metavar="LENGTH",
            help="Aggregates by step: 5m, 1h, 1d. Only readings in [start, end) count, though the "
            "first step may start before --start.",
            rich_help_panel=_STEPS,
        ),
    ] = None,
    agg: Annotated[
        str | None,
        typer.Option(
            "--agg",
            metavar="NAME,…",
            help="What becomes of a step's values: mean, min, max, sum, count, first, last. "
            "Missing values and NaN are left out.",
            rich_help_panel=_STEPS,
        ),
    ] = None,
    tz: Annotated[
        str | None,
        typer.Option(
            "--tz",
            metavar="ZONE",
            help="Steps are days of this zone, or start anew at its midnights; times without a "
            "zone are of it.",
            rich_help_panel=_STEPS,
        ),
    ] = None,
    origin: Annotated[
        str | None,
        typer.Option(
            "--origin",
            metavar="TIME",
            help="A time at which a step starts; 1970-01-01 if left out.",
            rich_help_panel=_STEPS,
        ),
    ] = None,
    empty: Annotated[
        str,
        typer.Option(
            "--empty",
            metavar="absent|null",
            help="Whether steps without values are left out, or come without values.",
            rich_help_panel=_STEPS,
        ),
    ] = "absent",
    time_unit: UnitOption = None,
    fan_out_max: FanOutOption = None,
    rows_max: RowsOption = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="table|csv|jsonl|parquet",
            help="How readings come out; by the ending of --out, else table.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write there, not to the terminal.")
    ] = None,
    plot: Annotated[
        bool, typer.Option("--plot", help="Draw in the terminal instead of printing readings.")
    ] = False,
    png: Annotated[
        Path | None, typer.Option("--png", metavar="FILE", help="Draw as a PNG file.")
    ] = None,
    partial: Annotated[
        bool,
        typer.Option("--partial", help="Take what can be read, say what is missing, exit 3."),
    ] = False,
    skip_damaged: Annotated[
        bool,
        typer.Option(
            "--skip-damaged", help="Leave out what is damaged on disk, say what that is, exit 3."
        ),
    ] = False,
    store: StoreOption = None,
    now: NowOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Read the readings of an interval, [start, end), or aggregates by step.

    Examples:

        treering read readings pump-7 --start -7d --store ./plant

        treering read readings pump-7 pump-8 --start 2025-11-01 --end 2025-12-01 --format csv

        treering read readings --tag site=north --tag kind=fan --start -1d

        treering read readings pump-7 --start -1d --plot --png day.png

        treering read readings pump-7 --start -7d --every 5m --agg mean,max
    """
    from treering.cli.options import (
        check_one_of,
        chosen_series,
        opened,
        parse_bound_text,
        parse_moment_text,
        stated,
    )
    from treering.cli.output import print_note
    from treering.core.render_plan import all_expired

    check_one_of(json=as_json, plot=plot, format=form is not None)
    check_one_of(json=as_json, plot=plot, out=out is not None)
    shape = form_of(form, out)
    _check_png(png)
    options: dict[str, Any] = {
        "order": order,
        "limit": limit,
        "columns": column,
        "unit": time_unit,
        "tz": tz,
        **stated(fan_out_max=fan_out_max, rows_max=rows_max),
    }
    steps: dict[str, Any] = {
        "every": every,
        "agg": agg,
        "origin": None if origin is None else parse_moment_text(origin, time_unit),
        "empty": empty,
        "partial": partial,
        "skip_damaged": skip_damaged,
    }
    bounds = (
        parse_moment_text(start, time_unit),
        parse_bound_text(end, time_unit),
    )
    with opened(store, now=now) as place:
        target = place.table(table)
        names = chosen_series(target, series, prefix=prefix, tag=tag, series_max=series_max)
        readings = target.read(names, *bounds, **{**options, **steps})
        plan = None if len(readings) else target.explain(names, *bounds, **options)
    if plan is not None and plan.is_all_expired:
        print_note(all_expired(plan))
    show_readings(readings, table, form=shape, out=out, plot=plot, png=png, as_json=as_json)


_FORMS: Final = ("table", "csv", "jsonl", "parquet")
_ENDINGS: Final = {
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
}


_FORM_NAMES: Final = {
    "table": "a table for people",
    "csv": "CSV",
    "jsonl": "JSON lines",
    "parquet": "Parquet",
}


def form_of(form: str | None, out: Path | None) -> str:
    """Return how readings come out: as stated, else by the ending of the file, else a table.

    Raises:
        UsageError: An unknown form; nothing was read.
    """
    from treering.errors import UsageError

    if form is None:
        return "table" if out is None else _ENDINGS.get(out.suffix.lower(), "table")
    if form not in _FORMS:
        raise UsageError(f"{form!r} is not a format of readings", hint=f"use {', '.join(_FORMS)}")
    return form


def _check_png(png: Path | None) -> None:
    from treering.errors import UsageError

    if png is not None and png.suffix.lower() != ".png":
        raise UsageError(
            f"{png} would hold a PNG picture and does not end in .png",
            hint=f"name it {png.with_suffix('.png')}",
        )


def show_readings(
    readings: Readings,
    table: str,
    *,
    form: str,
    out: Path | None = None,
    plot: bool = False,
    png: Path | None = None,
    as_json: bool = False,
) -> None:
    """Print, draw or write readings; exits with 3 where partitions are missing."""
    from treering.cli.output import print_json, print_note
    from treering.core.units import render_count

    if png is not None:
        from treering.plot import write_png

        write_png(readings, png, title=table)
        print_note(f"drew {render_count(len(readings), 'reading')} in {png}")
    if plot:
        from treering.plot import render_plot

        print(render_plot(readings, title=table))
    elif as_json:
        print_json(_document(readings, table))
    elif png is None or out is not None or form != "table":
        write_readings(readings, form, out)
        if out is not None:
            what = render_count(len(readings), "reading")
            print_note(f"wrote {what} to {out} as {_FORM_NAMES[form]}")
    if readings.is_partial:
        from treering.cli.failures import INCOMPLETE

        names = ", ".join(_named(read, readings.precision) for read in readings.missing)
        count = render_count(len(readings.missing), "partition")
        print_note(f"incomplete: {count} could not be read: {names}")
        raise typer.Exit(INCOMPLETE)


def _named(read: PartitionRead, precision: Precision) -> str:
    """Return a partition that is missing, with the event times where not all of it is."""
    from treering.core.times import render_ts

    inside = read.bucket.interval(precision)
    if (read.start, read.end) == (inside.start, inside.end):
        return read.name
    return f"{read.name} ({render_ts(read.start, precision)} to {render_ts(read.end, precision)})"


def _document(readings: Readings, table: str) -> dict[str, Any]:
    from treering.formats.export import json_rows

    return {
        "table": table,
        "series": dict(zip(readings.series, readings.series_rows, strict=True)),
        "count": len(readings),
        "readings": list(json_rows(readings)),
        "missing": [read.name for read in readings.missing],
    }


def write_readings(readings: Readings, form: str, out: Path | None) -> None:
    """Write readings in a form to a file, or to standard output."""
    if form == "parquet":
        _write_parquet(readings, out)
    elif out is None:
        _write_text(readings, form, sys.stdout)
    else:
        with out.open("w", encoding="utf-8", newline="") as stream:
            _write_text(readings, form, stream)


def _write_parquet(readings: Readings, out: Path | None) -> None:
    from treering.errors import UsageError
    from treering.formats.export import write_parquet

    if out is not None:
        with out.open("wb") as stream:
            write_parquet(readings, stream)
    elif sys.stdout.isatty():
        raise UsageError("Parquet is no text for a terminal", hint="say --out FILE")
    else:
        write_parquet(readings, sys.stdout.buffer)


def _write_text(readings: Readings, form: str, stream: Any) -> None:
    from treering.formats.export import render_csv, render_jsonl

    match form:
        case "csv":
            stream.writelines(render_csv(readings))
        case "jsonl":
            stream.writelines(render_jsonl(readings))
        case _:
            from rich.console import Console

            from treering.cli.render_readings import render_readings

            Console(file=stream, highlight=False).print(render_readings(readings))
