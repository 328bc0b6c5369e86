"""Problems that people had with asynchronous clients, as far as the store answers for them."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import treering
import treering.aio
from tests.engine.contract import NOW_MS
from tests.engine.faults import FaultyEngine
from tests.test_aio import days_on, permits_of, run, store_on, until
from treering.core.write_plan import PartitionWrite
from treering.errors import EngineError, EngineTimeoutError

PUTS, CANCELLED = 1_000, 100


def test_ts08_puts_at_once_are_bounded_and_each_is_written_once() -> None:
    def fault(number: int, _request: Any) -> EngineError | None:
        return EngineTimeoutError("no answer") if number % 100 == 0 else None

    async def main() -> None:
        gate = threading.Event()
        engine = FaultyEngine(fault=fault, in_flight_max=32, gate=gate)
        store, blocking = store_on(engine)
        async with store:
            table = await store.create("readings", rate="100/s", retention="30d")

            def put(number: int) -> asyncio.Task[treering.WriteReport]:
                ts = NOW_MS - number * 20
                write = table.write("s", [ts], unit="ms", value=[float(number)])
                return asyncio.create_task(write)

            tasks = [put(number) for number in range(PUTS)]
            await until(lambda: len(engine.requests) > 0)
            for task in tasks[:CANCELLED]:
                task.cancel()
            gate.set()
            done = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(one, asyncio.CancelledError) for one in done[:CANCELLED])
            assert all(getattr(one, "accepted", 0) == 1 for one in done[CANCELLED:]), done
            await asyncio.gather(*map(put, range(CANCELLED)))
            await until(lambda: permits_of(blocking).in_flight == 0)
            assert 1 < engine.in_flight_peak <= 32
            found = await table.read("s", "-1d")
            assert len(np.unique(found.ts)) == len(found) == PUTS

        sent: dict[int, list[int]] = defaultdict(list)
        for request in engine.requests:
            if isinstance(request, PartitionWrite):
                sent[int(request.ts[0])].append(request.write_us)
        again = {ts: stamps for ts, stamps in sent.items() if len(stamps) > 1}
        # What timed out was sent again as it was; only what was cancelled is another write.
        cancelled = {NOW_MS - number * 20 for number in range(CANCELLED)}
        assert again.keys() - cancelled
        assert all(len(set(again[ts])) == 1 for ts in again.keys() - cancelled)

    asyncio.run(main())


def test_ts35_answers_on_other_threads_reach_the_loop_safely_and_late_ones_nobody() -> None:
    gate = threading.Event()
    gate.set()
    engine = FaultyEngine(gate=gate)
    store, blocking = store_on(engine)
    told: list[Any] = []

    async def main() -> int:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        table = await store.table("readings")
        whole = len(await table.read("s", "-5d"))
        gate.clear()
        before = len(engine.requests)
        task = asyncio.create_task(table.read("s", "-5d"))
        await until(lambda: len(engine.requests) > before)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        gate.set()
        await until(lambda: permits_of(blocking).in_flight == 0)
        assert len(await table.read("s", "-5d")) == whole
        return whole

    run(days_on(store))
    # Debug mode refuses what other threads call on a loop that is not theirs.
    assert run(main()) == run(main()) == 20
    with ThreadPoolExecutor(2) as pool:

        async def read() -> int:
            asyncio.get_running_loop().set_exception_handler(lambda _, told_: told.append(told_))
            table = await store.table("readings")
            return sum([len(await table.read("s", "-5d")) for _ in range(5)])

        assert list(pool.map(lambda _: run(read()), range(2))) == [100, 100]
    run(store.close())
    assert told == []
