"""The awaited verbs are the blocking ones, and the event loop never waits for them."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

import treering
import treering.aio
from tests.engine.contract import DAY_MS, NOW_MS
from tests.engine.faults import FaultyEngine
from tests.waiting import wait_until
from treering.aio import _Runner
from treering.engine.protocol import PageRead
from treering.errors import EngineError, EngineTimeoutError, StoreClosedError
from treering.fanout.permits import Permits
from treering.store import Store

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a loop of its own in debug mode, which tells what blocks or is lost."""
    return asyncio.run(main, debug=True)


def clock() -> treering.ManualClock:
    """Return a clock that stands at the tests' present."""
    return treering.ManualClock(np.datetime64(NOW_MS, "ms"))


async def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds, for half a minute at most."""
    async with asyncio.timeout(30):
        while not holds():
            await asyncio.sleep(0.005)


def store_on(engine: FaultyEngine) -> tuple[treering.aio.Store, Store]:
    """Return a store on an engine, to be awaited, and the blocking one under it."""
    blocking = Store(engine, clock=clock())
    return treering.aio.Store(blocking, _Runner()), blocking


async def days_on(store: treering.aio.Store, days: int = 5) -> treering.aio.Table:
    """Return a table with four readings in each of the last days."""
    table = await store.create("readings", rate="1/s", retention="30d")
    starts = NOW_MS - DAY_MS * np.arange(days, 0, -1)
    times = (starts[:, None] + 1_000 * np.arange(4)).ravel()
    await table.write("s", times, unit="ms", value=np.arange(len(times), dtype=float))
    return table


def permits_of(store: Store) -> Permits:
    """Return the permits of a store."""
    return store._permits


async def round_trip(place: str, **options: Any) -> None:
    """Use every verb once."""
    async with await treering.aio.open(place, clock=clock(), **options) as store:
        name = "awaited"
        plan = await store.plan_create(name, rate="1/s", retention="30d")
        table = await store.create_from(plan)
        assert (await store.table(name)).spec == table.spec == plan.spec.with_incarnation(1)
        assert await store.tables() == (name,)
        times = NOW_MS - np.arange(2_000) * 1_000
        report = await table.write("a", times, unit="ms", value=times.astype(float))
        assert (report.accepted, report.refused_count) == (2_000, 0)
        frame = {"ts": np.array([NOW_MS], dtype="datetime64[ms]"), "id": ["b"], "value": [1.5]}
        await table.write_frame(frame, series="id")
        found = await table.read(["a", "b"], "-1d")
        assert found.series_rows == (2_000, 1)
        assert found.ts.tolist() == [*sorted(times.tolist()), NOW_MS]
        assert (await table.latest("a", 2)).ts.tolist() == times[:2].tolist()
        daily = await table.read("a", "-1d", every="1d", agg="count", tz="Asia/Kathmandu")
        assert daily["value_count"].sum() == 2_000
        assert (await table.explain("a", "-1d")).fan_out == 2
        assert [each async for each in table.series()] == ["a", "b"]
        assert [each async for each in table.series(prefix="b")] == ["b"]
        await table.set_tags("b", {"site": "north"})
        chosen = await table.find_series(tags={"site": "north"})
        assert (await table.read(chosen, "-1d")).series == chosen == ("b",)
        with pytest.raises(treering.FanOutTooWideError, match="more than 1 series"):
            await table.find_series(series_max=1)
        assert (await table.info()).series_count == 2
        await table.expire(dry_run=True)
        await table.seal()
        with pytest.raises(treering.SeriesNotFoundError):
            await table.read("nobody", "-1d")
        with pytest.raises(treering.UsageError, match="no zone"):
            await table.read("a", "2025-01-01T00:00")
        stats = store.stats()
        assert (stats.rows_in, stats.in_flight) == (2_001, 0)
        await table.delete("a", "-1h", allow_on_twcs=True)
        assert len(await table.read("a", "-1h")) == 0
        await table.drop_series("b", allow_on_twcs=True)
        assert [each async for each in table.series()] == ["a"]
        assert (await table.set_retention("60d")).grows
        assert table.spec.retention_s == 60 * 86_400
        await store.drop(name)
        assert await store.tables() == ()
    with pytest.raises(StoreClosedError):
        await table.read("a", "-1d")


def test_every_verb_works_in_memory() -> None:
    run(round_trip("memory://"))


def test_every_verb_works_in_a_folder(tmp_path: Path) -> None:
    run(round_trip(str(tmp_path / "store")))


def test_every_verb_works_on_cassandra(cassandra_keyspace: str) -> None:
    run(round_trip(cassandra_keyspace))


def test_verbs_have_the_words_and_arguments_of_the_blocking_ones() -> None:
    for name in ("write", "write_frame", "read", "latest", "explain", "info", "expire", "seal"):
        awaited, blocking = getattr(treering.aio.Table, name), getattr(treering.Table, name)
        assert inspect.iscoroutinefunction(awaited)
        assert awaited.__doc__ == blocking.__doc__
        assert list(inspect.signature(awaited).parameters) == list(
            inspect.signature(blocking).parameters
        )
    assert inspect.signature(treering.Table.read).return_annotation == "Readings"


class WatchedEngine(FaultyEngine):
    """Notes on which threads it is called."""

    def __init__(self, **faults: Any) -> None:
        super().__init__(**faults)
        self.threads: dict[str, set[int]] = {}

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if not name.startswith("_") and callable(value):
            self.threads.setdefault(name, set()).add(threading.get_ident())
        return value


def test_engine_is_never_called_on_the_loop() -> None:
    async def main() -> None:
        engine = WatchedEngine()
        store, _ = store_on(engine)
        engine.threads.clear()
        async with store:
            table = await days_on(store)
            await table.read("s", "-9d")
            await table.latest("s")
            await table.info()
            assert [name async for name in table.series()] == ["s"]
        asked = {"submit_write", "submit_read", "add_series", "create_table", "series", "close"}
        assert asked <= set(engine.threads)
        loop_thread = threading.get_ident()
        assert [name for name, seen in engine.threads.items() if loop_thread in seen] == []

    run(main())


def test_loop_goes_on_while_an_engine_computes_and_blocks(tmp_path: Path) -> None:
    async def main() -> None:
        async with await treering.aio.open(tmp_path / "store", clock=clock()) as store:
            table = await store.create("big", rate="1/s", retention="30d")
            times = NOW_MS - np.arange(400_000) * 1_000
            turns = 0

            async def count() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            counting = asyncio.create_task(count())
            await table.write("s", times, unit="ms", value=times.astype(float))
            assert len(await table.read("s", "-9d")) > 100_000
            counting.cancel()
            # The write alone takes a good part of a second.
            assert turns > 100

    run(main())


def test_cancelled_read_gives_its_permits_back_and_ignores_late_answers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        gate = threading.Event()
        gate.set()
        engine = FaultyEngine(gate=gate, in_flight_max=8)
        store, blocking = store_on(engine)
        async with store:
            table = await days_on(store)
            gate.clear()
            engine.requests.clear()
            reading = asyncio.create_task(table.read("s", "-9d"))
            await until(lambda: len(engine.requests) >= 4)
            assert permits_of(blocking).in_flight >= 4
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            gate.set()
            await until(lambda: permits_of(blocking).in_flight == 0)
            sent = len(engine.requests)
            assert len(await table.read("s", "-9d")) == 20
            # Only the new read asked for anything.
            assert len(engine.requests) - sent == 10

    with caplog.at_level(logging.WARNING, logger="asyncio"):
        run(main())
    assert [r.message for r in caplog.records if "took" not in r.message] == []


def test_answers_that_come_after_the_loop_has_ended_reach_nobody() -> None:
    gate = threading.Event()
    gate.set()
    engine = FaultyEngine(gate=gate, in_flight_max=8)
    store, blocking = store_on(engine)

    async def leave_early() -> None:
        await days_on(store)
        gate.clear()
        table = await store.table("readings")
        asyncio.create_task(table.read("s", "-9d"))  # noqa: RUF006
        await until(lambda: permits_of(blocking).in_flight >= 4)

    async def come_again() -> int:
        table = await store.table("readings")
        return len(await table.read("s", "-9d"))

    run(leave_early())
    gate.set()
    assert run(come_again()) == 20
    # Those of the loop that has ended may be answered later than all that came after.
    wait_until(lambda: permits_of(blocking).in_flight == 0, bound_s=60)
    run(store.close())


def test_two_loops_use_one_store_at_once() -> None:
    engine = FaultyEngine(in_flight_max=8)
    store, blocking = store_on(engine)
    table = run(days_on(store))

    async def main() -> list[int]:
        return [len(r) for r in await asyncio.gather(*(table.read("s", "-9d") for _ in range(20)))]

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda _: run(main()), range(2))) == [[20] * 20] * 2
    assert engine.in_flight_peak <= 8
    assert permits_of(blocking).in_flight == 0
    run(store.close())


def test_closing_ends_a_read_and_does_not_empty_it() -> None:
    async def main() -> None:
        gate = threading.Event()
        gate.set()
        engine = FaultyEngine(gate=gate)
        store, _ = store_on(engine)
        table = await days_on(store)
        gate.clear()
        engine.requests.clear()
        reading = asyncio.create_task(table.read("s", "-9d"))
        await until(lambda: bool(engine.requests))
        closing = asyncio.create_task(store.close())
        with pytest.raises(StoreClosedError):
            await reading
        gate.set()
        await closing
        await store.close()

    run(main())


def test_deadlines_and_failures_are_those_of_the_blocking_verbs() -> None:
    async def main() -> None:
        gate = threading.Event()
        gate.set()
        bad: list[str] = []

        def fault(_number: int, request: Any) -> EngineError | None:
            is_bad = isinstance(request, PageRead) and request.partition.bucket.text in bad
            return EngineError("disk on fire") if is_bad else None

        store, _ = store_on(FaultyEngine(gate=gate, fault=fault))
        async with store:
            table = await days_on(store)
            bad.append((await table.explain("s", "-5d")).reads[2].bucket.text)
            with pytest.raises(treering.PartialReadError, match=bad[0]):
                await table.read("s", "-5d")
            assert len(await table.read("s", "-5d", partial=True)) == 16
            gate.clear()
            with pytest.raises(EngineTimeoutError, match="deadline"):
                await table.read("s", "-5d", timeout_s=0.2)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await table.read("s", "-5d")
            gate.set()

    run(main())


@pytest.mark.parametrize("puts", [3_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_many_puts_at_once_stay_bounded_and_none_is_lost(puts: int) -> None:
    def fault(number: int, _request: Any) -> EngineError | None:
        return EngineTimeoutError("no answer") if number % 100 == 0 else None

    async def main() -> None:
        engine = FaultyEngine(fault=fault, in_flight_max=32, threads=4)
        store, blocking = store_on(engine)
        async with store:
            table = await store.create("readings", rate="1/s", retention="30d")

            def put(number: int) -> Awaitable[treering.WriteReport]:
                ts = NOW_MS - number * 20
                return table.write("s", [ts], unit="ms", value=[float(number)])

            reports = await asyncio.gather(*(put(number) for number in range(puts)))
            assert sum(report.accepted for report in reports) == puts
            assert len(engine.requests) > puts * 1.01 - 10
            assert 1 < engine.in_flight_peak <= 32
            assert permits_of(blocking).in_flight == 0
            found = await table.read("s", "-1d")
            assert len(np.unique(found.ts)) == len(found) == puts

    asyncio.run(main())
