"""Schema changes without the driver."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from treering.errors import UsageError
from treering.testing import LocalCassandra, NodeError
from treering.testing.cql import check_keyspace, keyspace_statement, native_answers, run_cql
from treering.testing.process import free_ports

if TYPE_CHECKING:
    from cassandra.cluster import Session

HOST = "127.0.0.1"


@contextlib.contextmanager
def server_that_says(answer: bytes) -> Iterator[int]:
    """Yield the port of a server that sends ``answer`` to one client and hangs up."""
    with socket.create_server((HOST, 0)) as server:
        server.settimeout(10)

        def serve() -> None:
            link, _ = server.accept()
            with link:
                link.recv(1024)
                link.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


def test_a_node_answers_and_a_closed_port_does_not(cassandra_node: LocalCassandra) -> None:
    assert native_answers(HOST, cassandra_node.port)
    assert not native_answers(HOST, free_ports(1, [HOST])[0])


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\x84\x00",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x84\x00\x00\x00\x06\x7f\xff\xff\xff",
    ],
    ids=["hangs up", "half a header", "another protocol", "an absurd length"],
)
def test_a_server_that_is_no_node_is_not_taken_for_one(answer: bytes) -> None:
    with server_that_says(answer) as port:
        assert not native_answers(HOST, port)


def test_a_keyspace_is_created_once_and_creating_it_again_is_fine(
    cassandra_node: LocalCassandra, cassandra_session: Session
) -> None:
    for _ in range(2):
        cassandra_node.create_keyspace("made_without_driver")
    rows = list(
        cassandra_session.execute(
            "SELECT replication FROM system_schema.keyspaces "
            "WHERE keyspace_name = 'made_without_driver'"
        )
    )
    assert rows[0].replication["datacenter1"] == "1"
    cassandra_session.execute("DROP KEYSPACE made_without_driver")


def test_a_refused_statement_says_why(
    cassandra_node: LocalCassandra, cassandra_keyspace: str
) -> None:
    keyspace = urlsplit(cassandra_keyspace).path.strip("/")
    with pytest.raises(NodeError, match=r"refused.*nosuch"):
        run_cql(HOST, cassandra_node.port, f"DROP TABLE {keyspace}.nosuch")


def test_a_statement_to_nobody_names_the_address() -> None:
    port = free_ports(1, [HOST])[0]
    with pytest.raises(NodeError, match=f"{HOST}:{port} gave no answer"):
        run_cql(HOST, port, "DROP TABLE x.y")


def test_a_keyspace_has_a_replica_on_every_node_asked_for() -> None:
    statement = keyspace_statement("plant", {"datacenter1": 3})
    assert "plant" in statement
    assert "'datacenter1': 3" in statement


@pytest.mark.parametrize("name", ["", "Plant", "1st", "a b", "x; DROP", "é", "k" * 49, "k\n"])
def test_a_name_that_would_need_quotes_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="not a keyspace name"):
        check_keyspace(name)
