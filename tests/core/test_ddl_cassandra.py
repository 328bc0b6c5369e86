"""Statements of designs on a real node, and what it keeps of them."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from tests.core.design_cases import workload
from treering.core.ddl import parse_comment, render_create_keyspace, render_create_table
from treering.core.design import Overrides, plan_design
from treering.core.window import parse_window

if TYPE_CHECKING:
    from cassandra.cluster import Session

pytestmark = pytest.mark.cassandra


@pytest.mark.parametrize(
    ("stated", "overrides"),
    [
        ({}, Overrides()),
        ({"precision": "us", "columns": "a:double,b:text,c:boolean"}, Overrides()),
        ({"retention_s": None}, Overrides()),
        ({"overwrites": True, "deletes": True}, Overrides()),
        ({"retention_s": 60}, Overrides(window=parse_window("1min", 60), gc_grace_s=0)),
        ({"replication": (("it's; -- ", 3),)}, Overrides()),
    ],
    ids=["usual", "microseconds", "for ever", "deletes", "a minute", "quotes"],
)
def test_a_node_takes_the_statement_and_keeps_the_design(
    cassandra_session: Session,
    cassandra_keyspace: str,
    stated: dict[str, Any],
    overrides: Overrides,
) -> None:
    keyspace = cassandra_keyspace.rpartition("/")[2].partition("?")[0]
    design = plan_design(workload(**stated), now_s=int(time.time()), overrides=overrides)
    table_id = uuid.uuid4()
    statement = render_create_table(
        design, keyspace=keyspace, table="readings", table_id=table_id, if_not_exists=True
    )
    for _ in range(2):  # The second one finds the table and leaves it alone.
        cassandra_session.execute(statement)
    row = cassandra_session.execute(
        "SELECT id, comment, default_time_to_live, gc_grace_seconds, compaction, read_repair "
        "FROM system_schema.tables WHERE keyspace_name = %s AND table_name = 'readings'",
        [keyspace],
    ).one()
    assert row.id == table_id
    assert parse_comment(row.comment) == design
    assert row.default_time_to_live == (design.ttl_s or 0)
    assert row.gc_grace_seconds == design.gc_grace_s
    assert row.compaction["class"].endswith(design.strategy.class_name)
    assert row.read_repair == ("NONE" if design.strategy == "TWCS" else "BLOCKING")


def test_a_node_takes_the_keyspace(cassandra_session: Session) -> None:
    keyspace = f"t_{uuid.uuid4().hex[:12]}"
    for _ in range(2):
        cassandra_session.execute(render_create_keyspace(keyspace, {"datacenter1": 1}))
    try:
        row = cassandra_session.execute(
            "SELECT durable_writes, replication FROM system_schema.keyspaces "
            "WHERE keyspace_name = %s",
            [keyspace],
        ).one()
        assert row.durable_writes is True
        assert row.replication["datacenter1"] == "1"
    finally:
        cassandra_session.execute(f"DROP KEYSPACE {keyspace}")
