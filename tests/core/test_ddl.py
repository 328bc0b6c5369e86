"""CQL: right for the version, safely quoted, and readable back."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.design_cases import NOW_S, overrides_for, planned, workloads
from treering.core.ddl import (
    parse_comment,
    quote,
    render_comment,
    render_create_keyspace,
    render_create_table,
)
from treering.core.design import Overrides, Precision, Strategy, plan_design
from treering.errors import DesignError, SchemaMismatchError, UsageError


def ddl(**stated: Any) -> str:
    """Return the statement of a design, without its comment."""
    statement = render_create_table(planned(**stated), keyspace="plant", table="readings")
    return statement.partition("\n  AND comment")[0]


def test_the_statement_of_a_common_design() -> None:
    assert ddl() == (
        "CREATE TABLE plant.readings (\n"
        "  series text,\n"
        "  bucket text,\n"
        "  ts timestamp,\n"
        "  value double,\n"
        "  PRIMARY KEY ((series, bucket), ts)\n"
        ") WITH CLUSTERING ORDER BY (ts DESC)\n"
        "  AND default_time_to_live = 7776000\n"
        "  AND gc_grace_seconds = 86400\n"
        "  AND read_repair = 'NONE'\n"
        "  AND compaction = {'class': 'TimeWindowCompactionStrategy', "
        "'compaction_window_unit': 'DAYS', 'compaction_window_size': '3'}"
    )


@pytest.mark.parametrize("version", ["4.0", "4.1", "5.0"])
def test_new_versions_get_read_repair_and_neither_chance(version: str) -> None:
    statement = ddl(cassandra=version)
    assert "read_repair = 'NONE'" in statement
    assert "chance" not in statement


@pytest.mark.parametrize("version", ["3.11", "3.0.8"])
def test_old_versions_get_both_chances_at_zero(version: str) -> None:
    statement = ddl(cassandra=version)
    assert "\n  AND read_repair_chance = 0.0\n  AND dclocal_read_repair_chance = 0.0" in statement
    assert "read_repair =" not in statement


@pytest.mark.parametrize("stated", [{"deletes": True}, {"retention_s": None}])
def test_tables_that_are_not_append_only_twcs_keep_read_repair(stated: dict[str, Any]) -> None:
    assert "read_repair" not in ddl(**stated)
    assert "read_repair" not in ddl(cassandra="3.11", **stated)


def test_twcs_always_has_a_default_ttl_and_no_timestamp_resolution() -> None:
    statement = ddl(deletes=True, overrides=Overrides(strategy=Strategy.TWCS))
    assert "TimeWindowCompactionStrategy" in statement
    assert "default_time_to_live = 7776000" in statement
    assert "timestamp_resolution" not in statement


def test_ucs_and_stcs_carry_no_window() -> None:
    assert "compaction = {'class': 'UnifiedCompactionStrategy'}" in ddl(retention_s=None)
    assert "default_time_to_live = 0" in ddl(retention_s=None)
    old = ddl(overwrites=True, cassandra="4.1")
    assert "compaction = {'class': 'SizeTieredCompactionStrategy'}" in old


def test_unsafe_expiration_is_written_only_where_asked_for() -> None:
    option = "'unsafe_aggressive_sstable_expiration': 'true'"
    assert option not in ddl()
    assert option in ddl(overrides=Overrides(unsafe_aggressive_expiration=True))


@pytest.mark.parametrize(
    ("precision", "kind"),
    [(Precision.MS, "timestamp"), (Precision.US, "bigint"), (Precision.NS, "bigint")],
)
def test_the_clustering_column_has_the_type_of_the_precision(
    precision: Precision, kind: str
) -> None:
    assert f"\n  ts {kind},\n" in ddl(precision=precision)


def test_columns_of_every_type_stand_in_order() -> None:
    columns = "a:double,b:float,c:int,d:bigint,e:boolean,f:text"
    assert "  a double,\n  b float,\n  c int,\n  d bigint,\n  e boolean,\n  f text,\n" in ddl(
        columns=columns
    )


def test_an_id_and_a_guard_are_written_where_given() -> None:
    table_id = UUID(int=7)
    statement = render_create_table(
        planned(), keyspace="plant", table="t", table_id=table_id, if_not_exists=True
    )
    assert statement.startswith("CREATE TABLE IF NOT EXISTS plant.t (")
    assert f") WITH ID = {table_id}\n  AND CLUSTERING ORDER BY (ts DESC)" in statement


@pytest.mark.parametrize("name", ["", "Readings", "a;drop", "a-b", "9lives", "x" * 49])
def test_a_name_that_is_no_identifier_never_reaches_cql(name: str) -> None:
    with pytest.raises(UsageError, match="not a name"):
        render_create_table(planned(), keyspace="plant", table=name)
    with pytest.raises(UsageError, match="not a name"):
        render_create_table(planned(), keyspace=name, table="readings")
    with pytest.raises(UsageError, match="not a name"):
        render_create_keyspace(name, {"dc1": 3})


def test_a_keyspace_names_its_datacentres_and_stays_durable() -> None:
    assert render_create_keyspace("plant", {"dc1": 3, "it's": 2}) == (
        "CREATE KEYSPACE IF NOT EXISTS plant\n"
        "  WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': '3', 'it''s': '2'}\n"
        "  AND durable_writes = true"
    )


@pytest.mark.parametrize("replication", [{}, {"dc1": 0}, {"": 1}])
def test_a_keyspace_without_a_replica_is_refused(replication: dict[str, int]) -> None:
    with pytest.raises(DesignError, match="needs a datacentre"):
        render_create_keyspace("plant", replication)


@given(st.text())
def test_quoted_text_is_one_literal(text: str) -> None:
    literal = quote(text)
    assert re.fullmatch(r"'(?:[^']|'')*'", literal)
    assert literal[1:-1].replace("''", "'") == text


def unquoted_comment(statement: str) -> str:
    """Return the comment of a statement as the server would keep it."""
    (literal,) = re.findall(r"AND comment = '((?:[^']|'')*)'$", statement)
    return str(literal).replace("''", "'")


@given(st.data(), workloads())
def test_a_comment_gives_the_design_back_through_quoting(data: st.DataObject, load: Any) -> None:
    try:
        design = plan_design(load, now_s=NOW_S, overrides=data.draw(overrides_for(load)))
    except DesignError:
        # A partition over the ceiling; test_choices has these.
        return
    statement = render_create_table(design, keyspace="plant", table="readings")
    assert parse_comment(unquoted_comment(statement)) == design


def test_a_comment_says_the_decision_in_words_and_stays_small() -> None:
    comment = render_comment(planned())
    words = comment.partition(" treering-design: ")[0]
    assert "1/s a series kept for 90d" in words
    assert "series and day (86,400 rows, 2.68 MB)" in words
    assert "windows of 3 DAYS" in words
    assert "no read repair: it would write old cells into the file of today" in words
    assert len(comment) < 1_000


@pytest.mark.parametrize("comment", ["", "sensor data, ask Jo", "{}", "treering"])
def test_any_other_comment_is_none(comment: str) -> None:
    assert parse_comment(comment) is None


@pytest.mark.parametrize("data", ["", "{", "[]", "7", "{}"])
def test_a_damaged_comment_is_named_and_not_taken_for_a_foreign_one(data: str) -> None:
    with pytest.raises(DesignError):
        parse_comment(f"words. treering-design: {data}")


def test_a_comment_of_a_newer_format_is_refused() -> None:
    comment = render_comment(planned()).replace('"format":1', '"format":9')
    with pytest.raises(SchemaMismatchError, match="format 9"):
        parse_comment(comment)
