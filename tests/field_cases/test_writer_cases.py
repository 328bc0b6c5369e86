"""Problems that people had with clients that buffer readings, as far as the writer answers them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import treering
from tests.engine.contract import NOW_MS
from tests.engine.faults import FaultyEngine
from treering.core.write_plan import PartitionWrite
from treering.errors import EngineError, EngineTimeoutError, WriterFullError
from treering.store import Store

THREADS, EACH = 8, 2_500


@pytest.fixture
def gate() -> threading.Event:
    """Return what holds all answers back until it is set."""
    return threading.Event()


@pytest.fixture
def engine(gate: threading.Event) -> Iterator[FaultyEngine]:
    """Return an engine on which every tenth request times out."""

    def fault(number: int, request: Any) -> EngineError | None:
        return EngineTimeoutError("no answer") if number % 10 == 0 else None

    made = FaultyEngine(fault=fault, in_flight_max=8, gate=gate)
    yield made
    gate.set()


@pytest.fixture
def table(engine: FaultyEngine) -> Iterator[treering.Table]:
    """Return a table on the engine."""
    with Store(engine, clock=treering.ManualClock(np.datetime64(NOW_MS, "ms"))) as store:
        yield store.create("readings", rate="1/s", retention="30d")


def append_all(writer: treering.Writer, thread: int) -> None:
    """Append as fast as it goes."""
    for n in range(EACH):
        writer.append(f"s{thread}", ts=NOW_MS - n, unit="ms", value=float(n))


def test_unthrottled_appends_keep_requests_bounded_and_all_arrive(
    table: treering.Table, engine: FaultyEngine, gate: threading.Event
) -> None:
    gate.set()
    with table.writer(linger="1ms", max_rows=2_000) as writer, ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(append_all, [writer] * THREADS, range(THREADS)))
    report = writer.report
    assert (report.accepted, report.pending) == (THREADS * EACH, 0)
    assert report.retried > 0
    assert engine.in_flight_peak <= 8
    for thread in range(THREADS):
        rows = table.read(f"s{thread}", "-1h")
        assert rows["value"].tolist() == [float(n) for n in reversed(range(EACH))]


def test_store_that_stands_still_fills_a_bounded_queue_and_nothing_is_dropped(
    table: treering.Table, engine: FaultyEngine, gate: threading.Event
) -> None:
    with table.writer(linger="1ms", max_rows=500, block_s=0.05) as writer:
        with pytest.raises(WriterFullError, match="the reading was not taken: 500 readings"):
            append_all(writer, 0)
        assert (writer.report.appended, writer.report.pending) == (500, 500)
        waiting = [request for request in engine.requests if isinstance(request, PartitionWrite)]
        assert len(waiting) <= 8
        gate.set()
    assert writer.report.accepted == 500
    assert len(table.read("s0", "-1h")) == 500
