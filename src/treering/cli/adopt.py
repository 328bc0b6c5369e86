"""``treering adopt``: read and write a table that others made."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from treering.cli.options import DebugOption, JsonOption, NowOption, StoreOption, parse_pairs


def adopt(
    table: Annotated[
        str, typer.Argument(metavar="[KEYSPACE.]TABLE", help="The table that others made.")
    ],
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="What it is called here.")
    ] = None,
    series: Annotated[
        list[str] | None,
        typer.Option("--series", metavar="COLUMN", help="A key column of the series; or more."),
    ] = None,
    bucket: Annotated[
        str | None,
        typer.Option("--bucket", metavar="COLUMN", help="The key column of the bucket, or none."),
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--bucket-form",
            metavar="FORM",
            help="{series}:{bucket}, %Y%m%d, date, epoch-ms: how the bucket stands there.",
        ),
    ] = None,
    width: Annotated[
        str | None, typer.Option("--width", metavar="WIDTH", help="Of a bucket: day, month, …")
    ] = None,
    time: Annotated[
        str | None, typer.Option("--time", metavar="COLUMN", help="The column of event time.")
    ] = None,
    time_unit: Annotated[
        str | None,
        typer.Option("--time-unit", metavar="UNIT", help="What a bigint time counts: s, ms, …"),
    ] = None,
    value: Annotated[
        list[str] | None,
        typer.Option("--value", metavar="COLUMN|NAME=COLUMN", help="A column of values wanted."),
    ] = None,
    retention: Annotated[
        str | None,
        typer.Option("--retention", metavar="TIME", help="Instead of the table's default TTL."),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option("--rate", metavar="RATE", help="Of one series, instead of the sample's."),
    ] = None,
    look_back: Annotated[
        str | None,
        typer.Option("--look-back", metavar="TIME", help="How far latest steps back."),
    ] = None,
    finer: Annotated[
        str, typer.Option("--finer", metavar="floor|refuse", help="Times finer than the column's.")
    ] = "floor",
    yes: Annotated[
        bool, typer.Option("--yes", help="Enter it into the catalog; without it only look.")
    ] = False,
    store: StoreOption = None,
    now: NowOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Adopt a bucketed table that others made, without changing it.

    What is not said is inferred from the schema and a sample of the rows, and every sampled row is
    checked. Without --yes nothing is written; with it, only treering's own catalog.

    Examples:

        treering adopt iot.sensor_data --store cassandra://10.0.0.5/plant

        treering adopt tb.ts_kv_cf --series entity_type --series entity_id --series key --yes
    """
    from treering.cli.options import opened
    from treering.cli.output import print_json
    from treering.core.adopt_notes import adopt_to_json, render_adopt

    choices: dict[str, Any] = {
        "name": name,
        "series": series,
        "bucket": bucket,
        "bucket_form": form,
        "width": width,
        "time": time,
        "time_unit": time_unit,
        "values": _values(value),
        "retention": retention,
        "rate": rate,
        "look_back": look_back,
        "finer": finer,
    }
    with opened(store, now=now) as place:
        plan = place.plan_adopt(table, **choices)
        if yes:
            place.adopt(plan)
    if as_json:
        print_json({"adopted": yes, **adopt_to_json(plan)})
    else:
        print(render_adopt(plan))
        print("it is adopted" if yes else "nothing was written: say --yes to adopt it so")


def _values(texts: list[str] | None) -> dict[str, str] | None:
    pairs = [text if "=" in text else f"{text}={text}" for text in texts or ()]
    return parse_pairs(pairs, "temp_c=tempC")
