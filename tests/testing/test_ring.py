"""Three real nodes: a ring, also while one of them is dead or paused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cassandra import ConsistencyLevel
from cassandra.query import SimpleStatement

from tests.cassandra_fixtures import driver_session
from treering.testing import LocalCassandra
from treering.testing.process import wait_for

pytestmark = pytest.mark.slow


@pytest.fixture
def ring_table(cassandra_ring: LocalCassandra) -> Iterator[str]:
    cassandra_ring.create_keyspace("threefold")
    with driver_session(cassandra_ring) as session:
        session.execute("CREATE TABLE threefold.t (k int PRIMARY KEY, v int)")
        yield "threefold.t"
        session.execute("DROP KEYSPACE threefold")


def write(ring: LocalCassandra, table: str, key: int) -> None:
    statement = SimpleStatement(
        f"INSERT INTO {table} (k, v) VALUES ({key}, 7)",
        consistency_level=ConsistencyLevel.QUORUM,
    )
    with driver_session(ring) as session:
        session.execute(statement)


def up_and_normal(ring: LocalCassandra, node: int) -> int:
    return sum(line.startswith("UN ") for line in ring.nodetool("status", node=node).splitlines())


def test_every_node_sees_three_up(cassandra_ring: LocalCassandra) -> None:
    assert [up_and_normal(cassandra_ring, node) for node in range(3)] == [3, 3, 3]


def test_two_rings_share_addresses_and_not_data(
    cassandra_ring: LocalCassandra, cassandra_node: LocalCassandra
) -> None:
    assert cassandra_ring.contact_points[0] == cassandra_node.contact_points[0]
    assert cassandra_ring.port != cassandra_node.port
    assert up_and_normal(cassandra_node, 0) == 1


def test_the_url_names_every_node(cassandra_ring: LocalCassandra) -> None:
    port = cassandra_ring.port
    assert cassandra_ring.url("plant") == (
        f"cassandra://127.0.0.1:{port},127.0.0.2:{port},127.0.0.3:{port}/plant?local_dc=datacenter1"
    )


def test_quorum_holds_while_a_node_is_dead_and_the_node_comes_back(
    cassandra_ring: LocalCassandra, ring_table: str
) -> None:
    cassandra_ring.kill(2)
    try:
        write(cassandra_ring, ring_table, 1)
    finally:
        cassandra_ring.restart(2)
    assert [up_and_normal(cassandra_ring, node) for node in range(3)] == [3, 3, 3]
    with driver_session(cassandra_ring) as session:
        statement = SimpleStatement(
            f"SELECT v FROM {ring_table} WHERE k = 1", consistency_level=ConsistencyLevel.ALL
        )
        assert session.execute(statement).one().v == 7


def test_a_paused_node_stops_answering_and_its_peers_go_on(
    cassandra_ring: LocalCassandra,
) -> None:
    cassandra_ring.pause(1)
    try:
        assert cassandra_ring.is_running(1)
        assert not cassandra_ring.answers(1)
        assert wait_for(
            lambda: cassandra_ring.answers(0) and cassandra_ring.answers(2), timeout_s=30
        )
    finally:
        cassandra_ring.resume(1)
    assert wait_for(lambda: cassandra_ring.answers(1), timeout_s=30)
    assert wait_for(lambda: up_and_normal(cassandra_ring, 0) == 3, timeout_s=60)
