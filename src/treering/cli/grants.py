"""``treering grants``: what a role has to be granted."""

from __future__ import annotations

from typing import Annotated

import typer

from treering.cli.options import DebugOption, JsonOption, StoreOption, TableArgument


def grants(
    table: TableArgument,
    role: Annotated[
        str, typer.Option("--role", metavar="ROLE", help="What it is for: reader, writer or admin.")
    ],
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="NAME", help="The role's name on the server; ROLE itself."),
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Print the GRANTs that a role of the server needs; nothing is sent.

    Examples:

        treering grants readings --role reader --to ada --store cassandra://10.0.0.5/plant
    """
    import os

    from treering.cli.output import print_json
    from treering.engine.cassandra.grants import parse_role, plan_grants
    from treering.engine.cassandra.settings import read_url
    from treering.engine.cassandra.url import is_cassandra_url
    from treering.errors import UsageError

    if not is_cassandra_url(store or ""):
        raise UsageError(
            "roles are those of a server, and the store is none" if store else "no store was named",
            hint="name it: --store cassandra://host/keyspace; who may use a folder is decided by "
            "its permissions",
        )
    kind = parse_role(role)
    name = to or kind
    statements = plan_grants(read_url(store or "", os.environ), table, kind, name)
    if as_json:
        print_json({"table": table, "role": kind, "to": name, "grants": list(statements)})
    else:
        for statement in statements:
            print(statement)
