"""What a role needs, as CQL: table by table, and of every table that a catalog has."""

from __future__ import annotations

import re
from uuid import UUID

import pytest

from treering.engine.cassandra.grants import CATALOG_TABLES, parse_role, plan_grants
from treering.engine.cassandra.statements import CatalogStatements
from treering.engine.cassandra.url import parse_url
from treering.errors import UsageError

URL = parse_url("cassandra://h/plant")
ELSEWHERE = parse_url("cassandra://h/plant?catalog=meta")


def test_reader_may_only_select() -> None:
    grants = plan_grants(URL, "readings", "reader", "ada")
    assert all(grant.startswith("GRANT SELECT ON plant.") for grant in grants)
    assert grants[0] == "GRANT SELECT ON plant.readings TO ada;"


def test_writer_may_not_read_readings() -> None:
    grants = plan_grants(URL, "readings", "writer", "probe")
    assert "GRANT MODIFY ON plant.readings TO probe;" in grants
    assert "GRANT SELECT ON plant.readings TO probe;" not in grants


def test_catalog_elsewhere_is_granted_there() -> None:
    grants = " ".join(plan_grants(ELSEWHERE, "readings", "reader", "ada"))
    assert "meta.treering_tables_plant" in grants
    assert "plant.treering" not in grants
    admin = plan_grants(ELSEWHERE, "readings", "admin", "ops")
    assert "GRANT CREATE ON KEYSPACE meta TO ops;" in admin


def test_every_table_of_a_catalog_is_known_to_the_grants() -> None:
    cql = CatalogStatements("plant")
    some_id = UUID(int=1)
    made = [
        getattr(cql, name)(some_id)
        for name in dir(cql)
        if name.startswith("create_") and callable(getattr(cql, name))
    ]
    names = {match[1] for text in made if (match := re.search(r"EXISTS plant\.(\w+)", text))}
    assert len(made) == len(names)
    assert set(CATALOG_TABLES) == names


@pytest.mark.parametrize("name", ["Ada", "ada-1", "1ada"])
def test_name_that_is_not_plain_is_quoted(name: str) -> None:
    assert plan_grants(URL, "readings", "reader", name)[0].endswith(f'TO "{name}";')


@pytest.mark.parametrize("name", ["", 'a"; DROP ROLE b'])
def test_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="not the name of a role"):
        plan_grants(URL, "readings", "reader", name)


def test_role_that_is_none_names_those_that_there_are() -> None:
    with pytest.raises(UsageError, match="'owner' is not a role") as caught:
        parse_role("owner")
    assert re.search("reader, writer, admin", caught.value.hint)
