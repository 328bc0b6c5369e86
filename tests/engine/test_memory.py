"""The memory engine keeps what every engine promises."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import treering
from tests.engine.contract import EngineContract, StoreContract
from treering.engine.memory import MemoryEngine
from treering.engine.protocol import Engine
from treering.store import Store


class TestMemoryEngine(EngineContract):
    @pytest.fixture
    def engine(self) -> Iterator[Engine]:
        engine = MemoryEngine()
        yield engine
        engine.close()


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self, clock: treering.ManualClock) -> Iterator[Store]:
        with treering.open("memory://", clock=clock) as store:
            yield store
