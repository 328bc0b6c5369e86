"""Which tables are looked at where nobody names one: neither Cassandra's own nor treering's."""

from __future__ import annotations

from typing import Final

from treering.engine.cassandra.statements import BUCKETS, SERIES, TABLES, TAGS

SYSTEM_KEYSPACES: Final = frozenset(
    {
        *("system", "system_auth", "system_distributed", "system_schema", "system_traces"),
        *("system_views", "system_virtual_schema", "system_metrics", "system_cluster_metadata"),
        *("dse_system", "dse_security", "dse_perf", "dse_leases", "dse_system_local"),
    }
)
_CATALOG: Final = (TABLES, SERIES, BUCKETS, TAGS)


def is_looked_at(
    keyspace: str, table: str, *, only_keyspace: str | None = None, only_table: str | None = None
) -> bool:
    """Return whether a table is looked at.

    Args:
        keyspace: The table's keyspace.
        table: Its name.
        only_keyspace: The keyspace that was named; None: all but Cassandra's own.
        only_table: The table that was named; None: all but those of a catalog of treering, which
            hold no readings.

    >>> is_looked_at("plant", "readings"), is_looked_at("plant", "treering_series")
    (True, False)
    """
    if only_keyspace not in (None, keyspace):
        return False
    if only_keyspace is None and keyspace in SYSTEM_KEYSPACES:
        return False
    return table == only_table if only_table is not None else not table.startswith(_CATALOG)
