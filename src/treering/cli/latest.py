"""``treering latest``: the newest readings of series."""

from __future__ import annotations

from typing import Annotated

import typer

from treering.cli.options import (
    ChosenSeriesArgument,
    ColumnsOption,
    DebugOption,
    JsonOption,
    NowOption,
    PrefixOption,
    SeriesMaxOption,
    StoreOption,
    TableArgument,
    TagOption,
)


def latest(
    table: TableArgument,
    series: ChosenSeriesArgument = None,
    prefix: PrefixOption = None,
    tag: TagOption = None,
    series_max: SeriesMaxOption = None,
    count: Annotated[
        int, typer.Option("--count", "-n", min=1, metavar="N", help="How many of each series.")
    ] = 1,
    look_back: Annotated[
        str | None,
        typer.Option("--look-back", metavar="TIME", help="How far to look; the retention."),
    ] = None,
    column: ColumnsOption = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="table|csv|jsonl|parquet", help="How readings come out; table."
        ),
    ] = None,
    store: StoreOption = None,
    now: NowOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show the newest readings of each series, newest first.

    Examples:

        treering latest readings pump-7 --store ./plant

        treering latest readings pump-7 pump-8 --count 10 --format csv

        treering latest readings --prefix pump- --tag site=north
    """
    from treering.cli.options import check_one_of, chosen_series, opened
    from treering.cli.read import form_of, show_readings

    check_one_of(json=as_json, format=form is not None)
    shape = form_of(form, None)
    with opened(store, now=now) as place:
        target = place.table(table)
        names = chosen_series(target, series, prefix=prefix, tag=tag, series_max=series_max)
        readings = target.latest(names, count, columns=column, look_back=look_back)
    show_readings(readings, table, form=shape, as_json=as_json)
