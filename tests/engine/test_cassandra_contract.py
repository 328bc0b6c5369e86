"""The Cassandra engine keeps what every engine promises, on a real node."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.engine.contract import EngineContract
from treering.engine.cassandra.engine import CassandraEngine
from treering.engine.protocol import Engine
from treering.testing import LocalCassandra

if TYPE_CHECKING:
    from treering.core.table import TableSpec


@pytest.fixture(scope="module")
def shared_url(cassandra_node: LocalCassandra) -> str:
    """The address of a keyspace that the tests of this module share."""
    url = cassandra_node.url(f"contract_{uuid.uuid4().hex[:8]}")
    CassandraEngine.connect(url, replication={"datacenter1": 1}).close()
    return url


class TestCassandraEngine(EngineContract):
    @pytest.fixture
    def engine(self, shared_url: str) -> Iterator[Engine]:
        engine = CassandraEngine.connect(shared_url, replication={"datacenter1": 1})
        yield engine
        engine.close()
