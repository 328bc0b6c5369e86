"""What a role has to be granted for its work, as CQL for whoever may grant it.

Rules of this file: pure; one statement a permission, so that every version takes it; no more than
is needed, table by table, and nothing on a keyspace but for who makes tables.
"""

from __future__ import annotations

import re
from typing import Final, Literal, assert_never, get_args

from treering.core.schema import check_identifier
from treering.engine.cassandra.statements import BUCKETS, SERIES, TABLES, TAGS, catalog_name
from treering.engine.cassandra.url import CassandraUrl
from treering.errors import UsageError

Role = Literal["reader", "writer", "admin"]
"""Reads; writes; makes, alters and drops tables, and reads and writes all of them."""

CATALOG_TABLES: Final = (TABLES, SERIES, TAGS, BUCKETS)
"""Every table of a catalog."""

_PLAIN: Final = re.compile(r"[a-z][a-z0-9_]*")


def parse_role(text: str) -> Role:
    """Return the role of that name.

    Raises:
        UsageError: There is none.
    """
    for known in get_args(Role):
        if text.lower() == known:
            return known  # type: ignore[no-any-return]
    raise UsageError(f"{text!r} is not a role", hint=f"use one of {', '.join(get_args(Role))}")


def plan_grants(url: CassandraUrl, table: str, role: Role, to: str) -> tuple[str, ...]:
    """Return the statements that give a role of the server what it needs.

    Args:
        url: The store.
        table: The table that readers read and writers write; admins get the keyspace.
        role: What it is for.
        to: Its name on the server.

    Raises:
        UsageError: A name that cannot be one.
    """
    check_identifier(table, "table")
    if not to or '"' in to:
        raise UsageError(f"{to!r} is not the name of a role")
    name = to if _PLAIN.fullmatch(to) else f'"{to}"'
    needs = _needs_of(url, table, role)
    return tuple(f"GRANT {permission} ON {resource} TO {name};" for permission, resource in needs)


def _needs_of(url: CassandraUrl, table: str, role: Role) -> list[tuple[str, str]]:
    place = url.catalog or url.keyspace
    catalog = {
        name: f"{place}.{catalog_name(name, url.keyspace, place)}" for name in CATALOG_TABLES
    }
    readings = f"{url.keyspace}.{table}"
    match role:
        case "reader":
            return [("SELECT", readings), *(("SELECT", one) for one in catalog.values())]
        case "writer":
            # A conditional write reads what it changes.
            read = [("SELECT", catalog[name]) for name in (TABLES, SERIES)]
            listed = [("MODIFY", catalog[name]) for name in (SERIES, TAGS, BUCKETS)]
            return [("MODIFY", readings), *read, *listed]
        case "admin":
            needs = [
                (permission, f"KEYSPACE {url.keyspace}")
                for permission in ("CREATE", "ALTER", "DROP", "SELECT", "MODIFY")
            ]
            if place != url.keyspace:
                needs += [(one, f"KEYSPACE {place}") for one in ("CREATE", "SELECT", "MODIFY")]
            return needs
        case _:
            assert_never(role)
