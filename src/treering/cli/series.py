"""``treering series``: the series of a table."""

from __future__ import annotations

from typing import Annotated

import typer

from treering.cli.options import DebugOption, JsonOption, StoreOption, TableArgument


def series(
    table: TableArgument,
    prefix: Annotated[
        str, typer.Option("--prefix", metavar="TEXT", help="Only those that start so.")
    ] = "",
    tag: Annotated[
        list[str] | None,
        typer.Option(
            "--tag", metavar="NAME=VALUE", help="Only those that have it; again for more."
        ),
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """List the series of a table, one a line.

    Examples:

        treering series readings --prefix pump- --store ./plant

        treering series readings --tag site=north --tag kind=fan --store ./plant
    """
    from treering.cli.add_series import parse_tags
    from treering.cli.options import opened
    from treering.cli.output import print_json

    with opened(store) as place:
        names = place.table(table).series(prefix=prefix, tags=parse_tags(tag))
        if as_json:
            print_json({"table": table, "series": list(names)})
        else:
            for name in names:
                print(name)
