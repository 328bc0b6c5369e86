"""``treering add-series``: enter series with tags and bucket widths of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from treering.cli.options import DebugOption, JsonOption, StoreOption, TableArgument

if TYPE_CHECKING:
    from treering.core.series import SeriesRecord
    from treering.table import Table

_AT_ONCE = 5_000


def add_series(
    table: TableArgument,
    series: Annotated[
        str | None, typer.Argument(metavar="[SERIES]", help="The series id; none with --rates.")
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option("--rate", metavar="RATE", help="Its readings a second: its width follows."),
    ] = None,
    bucket: Annotated[
        str | None, typer.Option("--bucket", metavar="WIDTH", help="Its width by name.")
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option("--tag", metavar="NAME=VALUE", help="A tag; again for more."),
    ] = None,
    rates: Annotated[
        str | None,
        typer.Option(
            "--rates", metavar="FILE", help="CSV with series,rate instead of one; - is stdin."
        ),
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Enter series with tags and bucket widths of their own.

    A series that is only written needs no such call. The same call again is fine.

    Examples:

        treering add-series readings pump-7 --rate 10/s --tag site=north --store ./plant

        treering add-series readings --rates rates.csv --store ./plant
    """
    from treering.cli.options import opened
    from treering.cli.output import print_json
    from treering.cli.rates import read_rates
    from treering.errors import UsageError

    if (series is None) == (rates is None):
        raise UsageError("say either a series or --rates", hint="see treering add-series --help")
    if rates is not None and (rate is not None or bucket is not None):
        raise UsageError(
            "--rates says the rate of each series", hint="leave --rate and --bucket out"
        )
    tags = parse_tags(tag)
    wanted = {series or "": rate} if rates is None else dict(read_rates(rates))
    with opened(store) as place:
        opened_table = place.table(table)
        records = [
            record
            for names in batches(list(wanted))
            for record in _enter(opened_table, {n: wanted[n] for n in names}, bucket, tags)
        ]
        default = str(opened_table.bucket)
    if as_json:
        print_json(
            {"table": table, "series": [record_to_json(record, default) for record in records]}
        )
    elif rates is None:
        print(render_record(records[0], default))
    else:
        own = sum(1 for record in records if record.widths)
        print(f"{len(records):,} series entered, {own:,} with a width of their own")


def _enter(
    table: Table, wanted: dict[str, Any], bucket: str | None, tags: dict[str, str] | None
) -> tuple[SeriesRecord, ...]:
    return table.add_many_series(
        table.plan_series(name, rate=rate, bucket=bucket, tags=tags)
        for name, rate in wanted.items()
    )


def batches(names: list[str]) -> list[list[str]]:
    """Return names some at a time."""
    return [names[start : start + _AT_ONCE] for start in range(0, len(names), _AT_ONCE)]


def parse_tags(tags: list[str] | None) -> dict[str, str] | None:
    """Return ``name=value`` texts as tags; None where there are none.

    Raises:
        UsageError: Not of that form, or a name twice.
    """
    from treering.errors import UsageError

    parsed: dict[str, str] = {}
    for text in tags or []:
        name, equals, value = text.partition("=")
        if not name or not equals or not value:
            raise UsageError(f"{text!r} is not a tag", hint="for instance --tag site=north")
        if name in parsed:
            raise UsageError(f"the tag {name!r} was given twice")
        parsed[name] = value
    return parsed or None


def render_record(record: SeriesRecord, default: str) -> str:
    """Return a series for people: ``pump-7: 6h buckets, tags site=north``."""
    from treering.core.series import render_tags
    from treering.core.widths import render_history

    is_dated = any(change.since_s is not None for change in record.widths)
    if is_dated:
        before = "" if record.widths[0].since_s is None else f"{default}, then "
        text = f"{record.name}: {before}{render_history(record.widths)}"
    else:
        text = f"{record.name}: {record.widths[0].width if record.widths else default} buckets"
    return f"{text}, tags {render_tags(record.tags)}" if record.tags else text


def record_to_json(record: SeriesRecord, default: str) -> dict[str, Any]:
    """Return a series as JSON values; its first width holds since ever."""
    from treering.core.times import render_ts
    from treering.core.units import Precision

    widths: list[dict[str, Any]] = [
        {
            "bucket": change.width.value,
            "since": None
            if change.since_s is None
            else render_ts(change.since_s * 1_000, Precision.MS),
        }
        for change in record.widths
    ]
    if not widths or widths[0]["since"] is not None:
        widths.insert(0, {"bucket": default, "since": None})
    return {"series": record.name, "tags": dict(record.tags), "widths": widths}
