"""``treering drop``: remove a table with all its readings."""

from __future__ import annotations

from typing import Annotated

import typer

from treering.cli.options import DebugOption, JsonOption, StoreOption, TableArgument


def drop(
    table: TableArgument,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; nothing brings it back.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Remove a table with all its readings.

    Examples:

        treering drop readings --yes --store ./plant
    """
    from treering.cli.options import opened
    from treering.cli.output import print_json
    from treering.errors import UsageError

    with opened(store) as place:
        target = place.table(table)
        if not yes:
            raise UsageError(
                f"the table {target.name!r} with all its readings would be removed for good",
                hint="say --yes if that is meant",
            )
        place.drop(table)
    if as_json:
        print_json({"table": table, "dropped": True})
    else:
        print(f"table {table} is gone")
