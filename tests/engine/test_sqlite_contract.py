"""The embedded engine keeps what every engine promises."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import treering
from tests.engine.contract import EngineContract, StoreContract
from treering.engine.protocol import Engine
from treering.engine.sqlite import SqliteEngine
from treering.store import Store


class TestSqliteEngine(EngineContract):
    @pytest.fixture
    def engine(self, tmp_path: Path) -> Iterator[Engine]:
        engine = SqliteEngine(tmp_path / "store")
        yield engine
        engine.close()


class TestSqliteStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path, clock: treering.ManualClock) -> Iterator[Store]:
        with treering.open(str(tmp_path / "store"), clock=clock) as store:
            yield store
