"""``treering design --table cassandra://…``: collect a table's facts, plan, print."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit, urlunsplit

if TYPE_CHECKING:
    from treering.doctor.catalogued import Catalogued


def split_table(url: str) -> tuple[str, str, str]:
    """Return the address of a cluster without the table, its keyspace, and the table.

    Raises:
        UsageError: The address names no keyspace or no table.
    """
    from treering.errors import UsageError

    parts = urlsplit(url)
    names = [unquote(name) for name in parts.path.split("/") if name]
    if parts.scheme != "cassandra" or len(names) != 2:
        raise UsageError(
            f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path} is no address of a "
            "table",
            hint="use cassandra://host[:port][,host…]/keyspace/table?local_dc=…",
        )
    keyspace, table = names
    return urlunsplit(parts._replace(path=f"/{keyspace}")), keyspace, table


def print_redesign(
    url: str,
    *,
    files: list[str],
    rate_hz: float | None,
    nodetool: str | None,
    now_s: int,
    as_json: bool,
) -> None:
    """Print a table beside the design that its own rate and rows ask for.

    Raises:
        UsageError: No such table, or its rate cannot be told.
        DesignError: No design fits what it carries.
    """
    from treering.cli.doctor import collected_of
    from treering.cli.output import print_json
    from treering.doctor.collect import Wanted
    from treering.doctor.redesign import plan_redesign, redesign_to_json, render_redesign
    from treering.errors import UsageError

    cluster, keyspace, table = split_table(url)
    wanted = Wanted(now_s=now_s, keyspace=keyspace, table=table)
    collected = collected_of([cluster, *files], wanted, nodetool=nodetool, timeout="30s")
    if not collected.tables:
        why = "; ".join(collected.unseen)
        raise UsageError(
            f"the table {keyspace}.{table} was not found{f': {why}' if why else ''}",
            hint="only tables with a clustering column are looked at",
        )
    known = _catalogued(cluster, keyspace, table)
    found = plan_redesign(collected.tables[0], rate_hz=rate_hz, known=known)
    if as_json:
        print_json(redesign_to_json(found))
    else:
        print(render_redesign(found))


def _catalogued(cluster: str, keyspace: str, table: str) -> Catalogued | None:
    """Return the table in treering's catalog; one that cannot be read is told, the rest stands."""
    from treering.cli.output import print_note
    from treering.doctor.live_catalog import collect_catalog
    from treering.errors import TreeringError

    try:
        return collect_catalog(cluster, keyspace=keyspace, table=table)
    except TreeringError as error:
        print_note(f"without treering's catalog: {error}")
        return None
