"""Keyspaces that cannot keep readings are refused before they can be in the way."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import numpy as np
import pytest

import treering
from treering.engine.cassandra.server_facts import check_replication, check_usable
from treering.errors import UsageError
from treering.testing import LocalCassandra

if TYPE_CHECKING:
    from cassandra.cluster import Session

TOPOLOGY = "org.apache.cassandra.locator.NetworkTopologyStrategy"


@pytest.mark.parametrize(
    ("replicas", "said"),
    [
        ({"dc1": 3}, "3 in dc1, which has 1 node"),
        ({"dc1": 1, "dc9": 1}, "1 in dc9, which has 0 nodes"),
    ],
)
def test_more_replicas_than_nodes_are_refused(replicas: dict[str, int], said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        check_replication("plant", replicas, {"dc1": 1, "dc2": 3})
    assert "dc1:1, dc2:3" in caught.value.hint
    check_replication("plant", {"dc1": 1, "dc2": 3}, {"dc1": 1, "dc2": 3})


def test_a_keyspace_without_a_quorum_of_nodes_is_answered_with_the_statement_that_helps() -> None:
    options = {"class": TOPOLOGY, "dc1": "3", "dc2": "3"}
    with pytest.raises(UsageError, match="3 replicas in dc1, which has 1 node") as caught:
        check_usable("plant", options, {"dc1": 1, "dc2": 2})
    assert caught.value.hint == (
        "ALTER KEYSPACE plant WITH replication = "
        "{'class': 'NetworkTopologyStrategy', 'dc1': 1, 'dc2': 2};"
    )
    check_usable("plant", options, {"dc1": 2, "dc2": 2})
    simple = {"class": TOPOLOGY.replace("NetworkTopology", "Simple"), "replication_factor": "3"}
    check_usable("plant", simple, {"dc1": 1})


@pytest.mark.cassandra
def test_a_keyspace_that_nothing_could_be_written_to_is_not_made(
    cassandra_node: LocalCassandra, cassandra_session: object
) -> None:
    keyspace = f"replicas_{uuid.uuid4().hex[:8]}"
    url = cassandra_node.url(keyspace)
    with treering.open(url, replication={"datacenter1": 3}) as store:
        for verb in (store.plan_create, store.create):
            with pytest.raises(UsageError, match="3 in datacenter1, which has 1 node"):
                verb("readings", rate="1/s", retention="9d")
    with (
        treering.open(url) as store,
        pytest.raises(UsageError, match=f"no keyspace {keyspace}"),
    ):
        store.tables()
    cassandra_session.execute(  # type: ignore[attr-defined]
        f"CREATE KEYSPACE {keyspace} WITH replication = "
        "{'class': 'NetworkTopologyStrategy', 'datacenter1': 3}"
    )
    with treering.open(url) as store, pytest.raises(UsageError) as caught:
        store.create("readings", rate="1/s", retention="9d")
    cassandra_session.execute(caught.value.hint)  # type: ignore[attr-defined]
    with treering.open(url) as store:
        assert store.create("readings", rate="1/s", retention="9d").name == "readings"


@pytest.mark.cassandra
def test_what_a_keyspace_without_a_commit_log_would_acknowledge_is_refused(
    cassandra_node: LocalCassandra, cassandra_keyspace: str, cassandra_session: Session
) -> None:
    keyspace = cassandra_keyspace.partition("?")[0].rpartition("/")[2]
    lossy = f"ALTER KEYSPACE {keyspace} WITH durable_writes = false"
    said = f"the keyspace {keyspace} has durable_writes = false"
    cassandra_session.execute(lossy)
    with treering.open(cassandra_keyspace) as store:
        for verb in (store.plan_create, store.create):
            with pytest.raises(UsageError, match=said) as caught:
                verb("readings", rate="1/s", retention="9d")
        cassandra_session.execute(caught.value.hint)
        table = store.create("readings", rate="1/s", retention="9d")
        now = np.datetime64("now", "ms")
        table.write("s", now, value=1.0)
        assert table.info().problems == ()
    cassandra_session.execute(lossy)
    with treering.open(cassandra_keyspace) as store:
        table = store.table("readings")
        assert table.read("s", "-1h")["value"].tolist() == [1.0]
        (problem,) = table.info().problems
        assert problem.startswith(said)
        for refused in (
            lambda: table.write("s", now, value=2.0),
            lambda: table.delete("s", "-1h", allow_on_twcs=True),
            lambda: table.add_series("t"),
            lambda: table.set_tags("s", {"site": "north"}),
            lambda: table.set_bucket("s", "hour"),
        ):
            with pytest.raises(UsageError, match=said) as caught:
                refused()
        with pytest.raises(UsageError, match=said), table.writer(linger="1ms") as writer:
            writer.append("s", value=3.0)
        cassandra_session.execute(caught.value.hint)
        # No need to open it again.
        table.write("s", now, value=2.0)
        assert table.read("s", "-1h")["value"].tolist() == [2.0]
