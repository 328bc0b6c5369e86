"""Which tables are looked at where nobody, or somebody, names one."""

from __future__ import annotations

import pytest

from treering.doctor.scope import SYSTEM_KEYSPACES, is_looked_at


@pytest.mark.parametrize("keyspace", sorted(SYSTEM_KEYSPACES))
def test_keyspaces_of_cassandra_are_looked_at_only_where_they_are_named(keyspace: str) -> None:
    assert not is_looked_at(keyspace, "local")
    assert is_looked_at(keyspace, "local", only_keyspace=keyspace)


def test_tables_of_a_catalog_are_looked_at_only_where_they_are_named() -> None:
    assert not is_looked_at("plant", "treering_series", only_keyspace="plant")
    assert is_looked_at("plant", "treering_series", only_table="treering_series")


def test_names_are_compared_letter_by_letter() -> None:
    assert is_looked_at("Plant", "Readings", only_keyspace="Plant", only_table="Readings")
    assert not is_looked_at("Plant", "Readings", only_keyspace="plant")
    assert not is_looked_at("plant", "readings", only_table="Readings")
