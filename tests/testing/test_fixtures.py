"""The fixtures that every other test against Cassandra stands on."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from tests.cassandra_fixtures import driver_session, skip_without_cassandra
from treering.testing import LocalCassandra

if TYPE_CHECKING:
    from cassandra.cluster import Session


def test_a_keyspace_of_ones_own_takes_tables_and_rows(
    cassandra_keyspace: str, cassandra_session: Session
) -> None:
    keyspace = urlsplit(cassandra_keyspace).path.strip("/")
    cassandra_session.execute(f"CREATE TABLE {keyspace}.t (k int PRIMARY KEY, v text)")
    cassandra_session.execute(f"INSERT INTO {keyspace}.t (k, v) VALUES (1, 'one')")
    (row,) = cassandra_session.execute(f"SELECT v FROM {keyspace}.t WHERE k = 1")
    assert row.v == "one"


def test_the_url_names_host_port_keyspace_and_datacentre(
    cassandra_keyspace: str, cassandra_node: LocalCassandra
) -> None:
    url = urlsplit(cassandra_keyspace)
    assert (url.scheme, url.hostname, url.port) == ("cassandra", "127.0.0.1", cassandra_node.port)
    assert url.query == "local_dc=datacenter1"


def test_a_driver_session_speaks_protocol_5_to_the_wanted_release(
    cassandra_node: LocalCassandra,
) -> None:
    with driver_session(cassandra_node) as session:
        (row,) = session.execute("SELECT release_version FROM system.local")
        assert row.release_version == cassandra_node.version
        assert session.cluster.protocol_version == 5


def test_tests_that_ask_for_a_node_carry_the_marker(
    request: pytest.FixtureRequest, cassandra_node: LocalCassandra
) -> None:
    assert cassandra_node.is_running()
    assert request.node.get_closest_marker("cassandra") is not None


@pytest.mark.parametrize(
    ("ci", "outcome"),
    [("true", pytest.fail.Exception), ("", pytest.skip.Exception)],
    ids=["in CI a missing node is a failure", "elsewhere it is a skip"],
)
def test_a_machine_without_java(
    monkeypatch: pytest.MonkeyPatch, ci: str, outcome: type[BaseException]
) -> None:
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome, match="no Java here"):
        skip_without_cassandra("there is no Java here")
