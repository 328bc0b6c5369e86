"""Series, tags and widths are the same on every engine."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

import treering
from tests.engine.series_contract import SeriesContract, SeriesStoreContract
from treering.engine.cassandra import CassandraEngine
from treering.engine.memory import MemoryEngine
from treering.engine.protocol import Engine
from treering.engine.sqlite import SqliteEngine
from treering.store import Store
from treering.testing import LocalCassandra


class TestMemorySeries(SeriesContract):
    @pytest.fixture
    def engine(self) -> Iterator[Engine]:
        engine = MemoryEngine()
        yield engine
        engine.close()


class TestMemorySeriesStore(SeriesStoreContract):
    @pytest.fixture
    def store(self, clock: treering.ManualClock) -> Iterator[Store]:
        with treering.open("memory://", clock=clock) as store:
            yield store


class TestSqliteSeries(SeriesContract):
    @pytest.fixture
    def engine(self, tmp_path: Path) -> Iterator[Engine]:
        engine = SqliteEngine(tmp_path / "store")
        yield engine
        engine.close()


class TestSqliteSeriesStore(SeriesStoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path, clock: treering.ManualClock) -> Iterator[Store]:
        with treering.open(str(tmp_path / "store"), clock=clock) as store:
            yield store


@pytest.fixture(scope="module")
def series_url(cassandra_node: LocalCassandra) -> str:
    """The address of a keyspace that the tests of this module share."""
    return cassandra_node.url(f"series_{uuid.uuid4().hex[:8]}")


class TestCassandraSeries(SeriesContract):
    @pytest.fixture
    def engine(self, series_url: str) -> Iterator[Engine]:
        engine = CassandraEngine.connect(series_url, replication={"datacenter1": 1})
        yield engine
        engine.close()


class TestCassandraSeriesStore(SeriesStoreContract):
    @pytest.fixture
    def store(self, clock: treering.ManualClock, series_url: str) -> Iterator[Store]:
        with treering.open(series_url, clock=clock, replication={"datacenter1": 1}) as store:
            yield store
