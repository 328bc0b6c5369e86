"""The Cassandra engine keeps what every engine promises, on a real node."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

import treering
from tests.engine.contract import ALL_TYPES, EngineContract, StoreContract, spec_of
from treering.core.table import TableSpec
from treering.engine.cassandra import CassandraEngine
from treering.engine.protocol import Engine
from treering.store import Store
from treering.testing import LocalCassandra


@pytest.fixture(scope="module")
def shared_url(cassandra_node: LocalCassandra) -> str:
    """The address of a keyspace that the tests of this module share."""
    return cassandra_node.url(f"contract_{uuid.uuid4().hex[:8]}")


class TestCassandraEngine(EngineContract):
    @pytest.fixture
    def engine(self, shared_url: str) -> Iterator[Engine]:
        engine = CassandraEngine.connect(shared_url, replication={"datacenter1": 1})
        yield engine
        engine.close()

    def shared_spec(self, engine: Engine) -> TableSpec:
        """Return a table of all types without a lifetime.

        On equal write times Cassandra lets the later expiry win before it compares bytes, so two
        such writes of expiring cells are decided by the second in which each arrived.
        """
        if not hasattr(self, "_shared"):
            self._shared = engine.create_table(
                spec_of("shared", columns=ALL_TYPES, retention_s=None)
            )
        return self._shared


class TestCassandraStore(StoreContract):
    @pytest.fixture
    def store(self, clock: treering.ManualClock, shared_url: str) -> Iterator[Store]:
        with treering.open(shared_url, clock=clock, replication={"datacenter1": 1}) as store:
            yield store
