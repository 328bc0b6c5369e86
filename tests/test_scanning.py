"""Scans: in order, at the consumer's pace, in bounded memory, and nothing left behind."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import treering
import treering.aio
from tests.engine.contract import DAY_MS, NOW_MS, fresh_name
from tests.engine.faults import FaultyEngine
from treering import scanning
from treering.aio import _Runner
from treering.engine.protocol import PageRead
from treering.errors import (
    EngineError,
    EngineTimeoutError,
    PartialReadError,
    SeriesNotFoundError,
    StoreClosedError,
    UsageError,
)
from treering.fanout import read
from treering.store import Store

MakeStore = Callable[..., tuple[FaultyEngine, Store, treering.Table]]


@pytest.fixture
def make_store() -> Iterator[MakeStore]:
    """Return a maker of a faulty engine, its store, and a table of day buckets."""
    stores: list[Store] = []

    def make(**faults: Any) -> tuple[FaultyEngine, Store, treering.Table]:
        engine = FaultyEngine(**faults)
        store = Store(engine, clock=treering.ManualClock(np.datetime64(NOW_MS, "ms")))
        stores.append(store)
        return engine, store, store.create(fresh_name("t"), rate="1/s", retention="30d")

    yield make
    for store in stores:
        store.close()


def fill(table: treering.Table, series: str, days: int, rows: int) -> None:
    """Write so many readings into each of the last buckets."""
    starts = NOW_MS - DAY_MS * np.arange(days, 0, -1)
    times = (starts[:, None] + 1_000 * np.arange(rows)).ravel()
    table.write(series, times, unit="ms", value=np.arange(len(times), dtype=float))


def reads_of(engine: FaultyEngine) -> list[PageRead]:
    """Return the page requests that arrived."""
    return [request for request in engine.requests if isinstance(request, PageRead)]


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds, for half a minute at most."""
    for _ in range(6_000):
        if holds():
            return
        threading.Event().wait(0.005)
    raise AssertionError("it did not come to hold")


def rows_of(batches: list[treering.Readings]) -> list[tuple[str, int, float]]:
    """Return series, time and value of every reading."""
    return [
        row
        for batch in batches
        for row in zip(
            batch.series_column().tolist(),
            batch.ts.tolist(),
            batch["value"].tolist(),
            strict=True,
        )
    ]


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("at_once", [1, 3, 1_000])
def test_what_is_planned_at_once_changes_nothing(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch, at_once: int, order: Any
) -> None:
    monkeypatch.setattr(scanning, "PARTITIONS_AT_ONCE", at_once)
    _, _, table = make_store()
    for number in range(4):
        fill(table, f"s{number}", days=3 + number, rows=7)
    names = ["s2", "s0", "s3", "s1"]
    whole = table.read(names, "-20d", order=order)
    batches = list(table.scan(names, "-20d", order=order, batch_rows=10))
    assert rows_of(batches) == rows_of([whole])
    assert max(map(len, batches)) <= 10


def test_series_are_taken_as_the_scan_goes_on(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "SERIES_AT_ONCE", 5)
    _, _, table = make_store()
    for number in range(20):
        fill(table, f"s{number:02}", days=1, rows=4)
    taken: list[str] = []

    def names() -> Iterator[str]:
        for name in table.series():
            taken.append(name)
            yield name

    batches = table.scan(names(), "-2d", batch_rows=4)
    assert taken == []
    assert next(batches).series == ("s00",)
    assert len(taken) <= 10
    assert len(list(batches)) == 19


def test_small_series_share_a_batch(make_store: MakeStore) -> None:
    _, _, table = make_store()
    for number in range(10):
        fill(table, f"s{number}", days=1, rows=4)
    batches = list(table.scan(table.series(), "-2d", batch_rows=12))
    assert [batch.series_rows for batch in batches] == [(4, 4, 4)] * 3 + [(4,)]


def test_a_slow_consumer_bounds_what_is_asked_for(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "ROWS_IN_FLIGHT_MAX", 100)
    engine, store, table = make_store()
    fill(table, "s", days=29, rows=20)
    engine.requests.clear()
    batches = table.scan("s", "-30d", batch_rows=20)
    next(batches)
    until(lambda: engine._in_flight == 0)
    asked = len(reads_of(engine))
    # Five pages of twenty fill the bound; the one that was handed out, and the head's next.
    assert asked <= 7
    for count in range(1, 10):
        next(batches)
        until(lambda: engine._in_flight == 0)
        assert len(reads_of(engine)) <= asked + count
    assert store._permits.in_flight == 0


def test_leaving_early_gives_back_permits_and_ends_requests(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "ROWS_IN_FLIGHT_MAX", 30)
    gate = threading.Event()
    gate.set()
    engine, store, table = make_store(gate=gate, in_flight_max=4, threads=2)
    fill(table, "s", days=20, rows=5)
    batches = table.scan("s", "-25d", batch_rows=5)
    next(batches)
    gate.clear()
    next(batches)
    assert store.stats().in_flight <= 4
    batches.close()  # type: ignore[attr-defined]
    gate.set()
    until(lambda: store._permits.in_flight == 0)
    # All partitions would be 26.
    assert len(reads_of(engine)) < 20
    assert len(table.read("s", "-25d")) == 100
    stats = store.stats().verbs["scan"]
    assert (stats.calls, stats.calls_failed) == (1, {})


def test_a_scan_counts_what_it_handed_out(make_store: MakeStore) -> None:
    _, store, table = make_store()
    fill(table, "s", days=3, rows=5)
    assert len(list(table.scan("s", "-5d", batch_rows=5))) == 3
    stats = store.stats().verbs["scan"]
    assert (stats.calls, stats.rows) == (1, 15)
    assert stats.partitions >= 3


def failing(bucket: list[str]) -> Callable[[int, Any], EngineError | None]:
    """Return a fault of the named buckets."""

    def fault(number: int, request: Any) -> EngineError | None:
        if isinstance(request, PageRead) and request.partition.bucket.text in bucket:
            return EngineError("disk on fire")
        return None

    return fault


def test_a_partition_that_stays_failed_ends_the_scan_or_is_named(make_store: MakeStore) -> None:
    bad: list[str] = []
    _, _, table = make_store(fault=failing(bad))
    fill(table, "s", days=5, rows=4)
    bad.append(table.explain("s", "-5d").reads[2].bucket.text)
    with pytest.raises(PartialReadError, match=bad[0]):
        list(table.scan("s", "-5d", batch_rows=4))
    batches = list(table.scan("s", "-5d", batch_rows=4, partial=True))
    assert sum(map(len, batches)) == 16
    missing = [part.bucket.text for batch in batches for part in batch.missing]
    assert missing == bad


def test_what_cannot_be_is_refused_at_once_and_what_is_not_there_in_its_turn(
    make_store: MakeStore,
) -> None:
    engine, _, table = make_store()
    fill(table, "s", days=1, rows=4)
    engine.requests.clear()
    wrong: list[dict[str, Any]] = [
        {"end": "-9d"},
        {"columns": ["nothing"]},
        {"order": "up"},
        {"batch_rows": 0},
    ]
    for choices in wrong:
        with pytest.raises(UsageError):
            next(table.scan("s", "-2d", **choices))
    assert engine.requests == []
    with pytest.raises(SeriesNotFoundError, match="'nobody'"):
        list(table.scan(["s", "nobody"], "-2d"))
    assert sum(map(len, table.scan(["s", "nobody"], "-2d", missing_ok=True))) == 4
    assert list(table.scan([], "-2d")) == []


def test_nothing_for_too_long_is_a_timeout_and_the_consumer_may_take_its_time(
    make_store: MakeStore,
) -> None:
    gate = threading.Event()
    gate.set()
    _, _, table = make_store(gate=gate)
    fill(table, "s", days=3, rows=4)
    batches = table.scan("s", "-5d", batch_rows=4, timeout_s=0.3)
    next(batches)
    threading.Event().wait(0.5)
    assert len(next(batches)) == 4
    gate.clear()
    with pytest.raises(EngineTimeoutError, match="no page"):
        list(table.scan("s", "-5d", timeout_s=0.2))
    gate.set()


def test_closing_the_store_ends_a_scan_as_such(make_store: MakeStore) -> None:
    _, store, table = make_store()
    fill(table, "s", days=5, rows=4)
    batches = table.scan("s", "-6d", batch_rows=4)
    next(batches)
    store.close()
    with pytest.raises(StoreClosedError):
        list(batches)


def test_the_same_batches_are_awaited_and_leaving_them_ends_requests(
    make_store: MakeStore,
) -> None:
    _, store, table = make_store(in_flight_max=4)
    fill(table, "a", days=10, rows=5)
    fill(table, "b", days=1, rows=5)
    runner = _Runner()
    awaited = treering.aio.Table(table, runner)

    async def main() -> None:
        batches = [b async for b in awaited.scan(table.series(), "-20d", batch_rows=5)]
        assert rows_of(batches) == rows_of([await awaited.read(["a", "b"], "-20d")])
        with pytest.raises(UsageError):
            await anext(awaited.scan("a", "-1d", "-2d"))
        early = awaited.scan("a", "-20d", batch_rows=5)
        assert len(await anext(early)) == 5
        await early.aclose()  # type: ignore[attr-defined]
        # More scans than verbs may run: a turn is not held while the consumer has a batch.
        held = [awaited.scan("a", "-20d", batch_rows=5) for _ in range(257)]
        for one in held:
            await anext(one)
        for one in held:
            await one.aclose()  # type: ignore[attr-defined]

    asyncio.run(main(), debug=True)
    until(lambda: store._permits.in_flight == 0)
    runner.close()


def test_many_batches_take_no_more_memory_than_ten(make_store: MakeStore) -> None:
    import tracemalloc

    with treering.open("memory://", clock=treering.ManualClock("2026-11-30T14:00Z")) as store:
        table = store.create("t", rate="1/s", retention="90d", bucket="hour")
        times = np.arange(1_793_000_000_000, 1_793_000_000_000 + 400_000_000, 1_000)
        table.write("s", times, unit="ms", value=np.zeros(len(times)))

        def peak(count: int) -> int:
            tracemalloc.start()
            for _ in itertools.islice(table.scan("s", "-60d", batch_rows=2_000), count):
                pass
            top = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            return top

        peak(1)
        few, many = peak(10), peak(150)
    assert many < 2 * few + 1_000_000
