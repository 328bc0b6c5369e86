"""DESCRIBE TABLE as cqlsh prints it, and text that is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.core.ddl import render_create_table
from treering.core.design import plan_design
from treering.core.workload import Workload
from treering.doctor.describe import parse_describe
from treering.doctor.facts import ColumnFacts
from treering.errors import UsageError

DESCRIBED = """
CREATE KEYSPACE plant WITH replication = {'class': 'SimpleStrategy', 'replication_factor': '1'};

CREATE TYPE plant.pair (a int, b text);

CREATE TABLE plant."Readings" (
    series text,
    bucket text,
    ts timestamp,
    unit text static,
    tags frozen<map<text, frozen<list<int>>>>,
    place vector<float, 3>,
    "value""x" double,
    PRIMARY KEY ((series, bucket), ts)
) WITH CLUSTERING ORDER BY (ts DESC)
    AND additional_write_policy = '99p'
    AND bloom_filter_fp_chance = 0.01
    AND caching = {'keys': 'ALL', 'rows_per_partition': 'NONE'}
    AND cdc = false
    AND comment = 'it''s; a table (PRIMARY KEY) -- no comment'
    AND compaction = {'class': 'org.apache.cassandra.db.compaction.TimeWindowCompactionStrategy',
        'compaction_window_size': '1', 'compaction_window_unit': 'DAYS', 'max_threshold': '32'}
    AND default_time_to_live = 7776000
    AND gc_grace_seconds = 10800
    AND extensions = {}
    AND read_repair = 'NONE';

CREATE INDEX by_unit ON plant."Readings" (unit);
/* CREATE TABLE plant.hidden (a int PRIMARY KEY); */
CREATE TABLE IF NOT EXISTS plain (id int PRIMARY KEY, v text);
"""


def test_columns_that_were_dropped_or_added_again_are_those_of_the_end() -> None:
    text = (
        "CREATE TABLE IF NOT EXISTS plant.r (s text, ts timestamp, a int, b int, c int, "
        "PRIMARY KEY (s, ts)) WITH ID = d05bc800-ecf3-11f1-b410-c1b15a9fa0de AND cdc = false;\n"
        "ALTER TABLE plant.r DROP a USING TIMESTAMP 1000;\n"
        "ALTER TABLE plant.r DROP b USING TIMESTAMP 1000;\n"
        'ALTER TABLE plant.r ADD b frozen<list<int>>;\nALTER TABLE plant."R" DROP c;\n'
        "ALTER TABLE plant.r WITH cdc = true;\nALTER TABLE plant.r DROP (c, b);\nALTER TABLE"
    )
    (one,) = parse_describe(text, path="schema.cql")
    assert one.schema.table_id == "d05bc800ecf311f1b410c1b15a9fa0de"
    assert {column.name: column.type for column in one.schema.columns} == {
        "b": "frozen<list<int>>",
        "c": "int",
    }


def test_every_table_of_a_keyspace_is_read() -> None:
    first, second = parse_describe(DESCRIBED, path="schema.cql")
    assert (first.keyspace, first.table) == ("plant", "Readings")
    assert (second.keyspace, second.table) == ("", "plain")
    schema = first.schema
    assert [column.name for column in schema.partition_key] == ["series", "bucket"]
    assert schema.clustering == (ColumnFacts(name="ts", type="timestamp", is_descending=True),)
    assert {column.name: column.type for column in schema.columns} == {
        "unit": "text",
        "tags": "frozen<map<text, frozen<list<int>>>>",
        "place": "vector<float, 3>",
        'value"x': "double",
    }
    assert schema.strategy == "TimeWindowCompactionStrategy"
    assert schema.compaction is not None
    assert schema.compaction["compaction_window_unit"] == "DAYS"
    assert (schema.default_ttl_s, schema.gc_grace_s) == (7_776_000, 10_800)
    assert schema.comment == "it's; a table (PRIMARY KEY) -- no comment"
    assert schema.options is not None
    assert schema.options["cdc"] is False
    assert schema.options["read_repair"] == "NONE"
    assert [column.name for column in second.schema.partition_key] == ["id"]


def test_ddl_of_treering_is_read_back() -> None:
    from treering.core.schema import parse_columns

    design = plan_design(
        Workload(rate_hz=1.0, columns=parse_columns("value:double"), retention_s=90 * 86_400),
        now_s=1_764_000_000,
    )
    (table,) = parse_describe(
        render_create_table(design, keyspace="plant", table="readings"), path="ddl"
    )
    assert table.schema.default_ttl_s == design.ttl_s
    assert table.schema.gc_grace_s == design.gc_grace_s
    assert "treering-design" in table.schema.comment
    assert table.schema.clustering[0].is_descending


@pytest.mark.parametrize(
    "text",
    [
        "",
        "SELECT * FROM t;",
        "CREATE TABLE t (",
        "CREATE TABLE t (a int)",
        "CREATE TABLE t (a int, PRIMARY KEY (b))",
        "CREATE TABLE t (a int PRIMARY KEY) WITH comment",
        "CREATE TABLE t (a int PRIMARY KEY) WITH compaction = {'class' 'x'}",
        "CREATE TABLE t (a int PRIMARY KEY) garbage",
        "CREATE TABLE t (a " + "list<" * 100 + "int" + ">" * 100 + " PRIMARY KEY)",
    ],
)
def test_what_cannot_be_understood_is_refused_by_line(text: str) -> None:
    with pytest.raises(UsageError, match=r"s\.cql"):
        parse_describe(text, path="s.cql")


@given(st.integers(min_value=0, max_value=len(DESCRIBED)), st.text(max_size=8))
def test_a_damaged_text_is_refused_or_read(place: int, noise: str) -> None:
    try:
        tables = parse_describe(DESCRIBED[:place] + noise + DESCRIBED[place:], path="s.cql")
    except UsageError:
        return
    assert tables
