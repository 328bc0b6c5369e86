"""Names of the catalog's tables, and the way back from them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from treering.engine.cassandra.statements import (
    BUCKETS,
    SERIES,
    TABLES,
    catalog_name,
    parse_catalog_name,
)

KEYSPACES = st.from_regex(r"[a-z][a-z0-9_]{0,20}", fullmatch=True) | st.just(TABLES)
KINDS = st.sampled_from([TABLES, SERIES, BUCKETS])


@given(KINDS, KEYSPACES, KEYSPACES)
def test_name_of_a_catalogs_table_tells_whose_it_is(table: str, keyspace: str, place: str) -> None:
    name = catalog_name(table, keyspace, place)
    assert parse_catalog_name(name, table, place) == keyspace
    others = {TABLES, SERIES, BUCKETS} - {table}
    assert [parse_catalog_name(name, other, place) for other in others] == [None, None]


def test_other_tables_are_nobodys() -> None:
    for name in ("readings", "treering", f"{TABLES}2", TABLES.upper()):
        assert parse_catalog_name(name, TABLES, "plant") is None
