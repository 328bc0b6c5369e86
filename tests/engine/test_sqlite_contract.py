"""The embedded engine keeps what every engine promises."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import treering
from tests.engine.contract import EngineContract, StoreContract
from tests.engine.sealing import (
    ALWAYS,
    EagerEngine,
    RandomEngine,
)
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


class TestEngineThatSealsAfterEveryWrite(EngineContract):
    @pytest.fixture
    def engine(self, tmp_path: Path) -> Iterator[Engine]:
        engine = EagerEngine(tmp_path / "store", rules=ALWAYS)
        yield engine
        engine.close()


class TestEngineThatSealsNowAndThen(EngineContract):
    @pytest.fixture
    def engine(self, tmp_path: Path) -> Iterator[Engine]:
        engine = RandomEngine(tmp_path / "store", rules=ALWAYS)
        yield engine
        engine.close()


class TestEngineThatPacksEveryWriteAtOnce(EngineContract):
    @pytest.fixture
    def engine(self, tmp_path: Path) -> Iterator[Engine]:
        engine = SqliteEngine(tmp_path / "store", rules=replace(ALWAYS, bulk_rows=1))
        yield engine
        engine.close()


class TestStoreThatSealsAfterEveryWrite(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path, clock: treering.ManualClock) -> Iterator[Store]:
        engine = EagerEngine(tmp_path / "store", rules=ALWAYS)
        with Store(engine, clock=clock) as store:
            yield store
