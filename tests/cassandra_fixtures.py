"""Nodes and sessions that the whole suite shares; each is started when a test first asks."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn

import pytest

from treering.testing import LocalCassandra, MissingToolError
from treering.testing.jars import cassandra_jars
from treering.testing.releases import RELEASES, VERSION_DEFAULT
from treering.testing.tools import find_java

if TYPE_CHECKING:
    from cassandra.cluster import Session

# Every fixture of this file asks for this one, so it tells which tests need a node.
PROGRAMS: Final = "cassandra_programs"
_REQUEST_TIMEOUT_S: Final = 60.0

# What `cassandra_of` starts, by name: the releases, and the two newer formats of files of 5.0.
NODES: Final[Mapping[str, Mapping[str, Any]]] = {
    **{name: {"version": release.newest} for name, release in RELEASES.items()},
    "5.0 oa": {"version": VERSION_DEFAULT, "storage_mode": "NONE"},
    "5.0 da": {
        "version": VERSION_DEFAULT,
        "storage_mode": "NONE",
        "yaml": {"sstable": {"selected_format": "bti"}},
    },
}


def on_nodes(*names: str) -> pytest.MarkDecorator:
    """Run a test on each of some nodes of ``NODES``; it takes the node as ``cassandra_of``.

    The tests of one node run one after another, whichever modules they are in: each node is
    started once, and stopped before the next one starts.
    """
    return pytest.mark.parametrize("cassandra_of", names, indirect=True, scope="session")


def skip_without_cassandra(reason: str) -> NoReturn:
    """Skip the test; where CI says that everything must run, fail it instead."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI runs every test, but {reason}")
    pytest.skip(reason)


@contextlib.contextmanager
def driver_session(
    node: LocalCassandra, keyspace: str | None = None, *, protocol_version: int = 5
) -> Iterator[Session]:
    """Yield a plain session of the driver on every node of a ring, closed afterwards."""
    try:
        from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
        from cassandra.policies import DCAwareRoundRobinPolicy, TokenAwarePolicy
    except ImportError:
        skip_without_cassandra("cassandra-driver is not installed")
    profile = ExecutionProfile(
        load_balancing_policy=TokenAwarePolicy(DCAwareRoundRobinPolicy("datacenter1")),
        request_timeout=_REQUEST_TIMEOUT_S,
    )
    cluster = Cluster(
        list(node.contact_points),
        port=node.port,
        protocol_version=protocol_version,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        connect_timeout=_REQUEST_TIMEOUT_S,
        control_connection_timeout=_REQUEST_TIMEOUT_S,
    )
    try:
        yield cluster.connect(keyspace)
    finally:
        cluster.shutdown()


@pytest.fixture(scope="session")
def cassandra_programs() -> None:
    """Skip where the machine lacks what a node needs; fetch the jars where they are missing."""
    try:
        find_java()
        cassandra_jars(VERSION_DEFAULT)
    except MissingToolError as missing:
        skip_without_cassandra(f"{missing}; {missing.hint}")


@pytest.fixture(scope="session")
def cassandra_node(cassandra_programs: None) -> Iterator[LocalCassandra]:
    """One node for the whole suite. Tests leave it running, with keyspaces of their own."""
    with LocalCassandra() as ring:
        yield ring


@pytest.fixture(scope="session")
def cassandra_of(
    request: pytest.FixtureRequest, cassandra_programs: None
) -> Iterator[LocalCassandra]:
    """The node of ``NODES`` that ``on_nodes`` names. Tests leave it running."""
    if request.param == "5.0":
        yield request.getfixturevalue("cassandra_node")
        return
    try:
        ring = LocalCassandra(**NODES[request.param])
        ring.start()
    except MissingToolError as missing:
        skip_without_cassandra(f"{missing}; {missing.hint}")
    try:
        yield ring
    finally:
        ring.stop()


@pytest.fixture(scope="session")
def cassandra_ring(cassandra_programs: None) -> Iterator[LocalCassandra]:
    """Three nodes for the whole suite, beside ``cassandra_node`` on other ports.

    A test may kill or pause a node of it, and leaves all three up.
    """
    with LocalCassandra(nodes=3) as ring:
        yield ring


@pytest.fixture(scope="session")
def cassandra_session(cassandra_node: LocalCassandra) -> Iterator[Session]:
    """A session of the plain driver on ``cassandra_node``; use full table names with it."""
    with driver_session(cassandra_node) as session:
        yield session


@pytest.fixture
def cassandra_keyspace(cassandra_node: LocalCassandra, cassandra_session: Session) -> Iterator[str]:
    """The store URL of a keyspace of one test's own, replicated once, dropped afterwards."""
    keyspace = f"t_{uuid.uuid4().hex[:12]}"
    cassandra_session.execute(
        f"CREATE KEYSPACE {keyspace} WITH replication = "
        "{'class': 'NetworkTopologyStrategy', 'datacenter1': 1}"
    )
    try:
        yield cassandra_node.url(keyspace)
    finally:
        cassandra_session.execute(f"DROP KEYSPACE {keyspace}")
