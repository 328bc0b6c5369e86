"""``treering set-bucket``: change the bucket width of a series from a date on."""

from __future__ import annotations

from typing import Annotated

import typer

from treering.cli.options import DebugOption, JsonOption, NowOption, StoreOption, TableArgument


def set_bucket(
    table: TableArgument,
    series: Annotated[str, typer.Argument(metavar="SERIES", help="The series id.")],
    width: Annotated[
        str,
        typer.Argument(metavar="WIDTH", help="1min, 5min, 15min, hour, 6h, day, week or month."),
    ],
    store: StoreOption = None,
    now: NowOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Change the bucket width of a series from a date on; says which.

    What is there stays where it is, and reads see both layouts.

    Examples:

        treering set-bucket readings pump-7 hour --store ./plant
    """
    from treering.cli.add_series import record_to_json, render_record
    from treering.cli.options import opened
    from treering.cli.output import print_json

    with opened(store, now=now) as place:
        opened_table = place.table(table)
        record = opened_table.set_bucket(series, width)
        default = str(opened_table.bucket)
    if as_json:
        print_json({"table": table, **record_to_json(record, default)})
    else:
        print(render_record(record, default))
