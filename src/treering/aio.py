"""The same store for asyncio: ``await`` in front of the same verbs.

Rules of this file: no verb is written a second time; nothing blocks the event loop: what computes
or waits runs on a few threads, and in between a verb waits on the loop; one wake-up serves all
answers that came; a verb that is cancelled ends what it has under way, gives its permits back, and
its late answers reach nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import os
import threading
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from types import TracebackType
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar

from treering.clock import Clock, system_clock
from treering.core.adopt import AdoptPlan
from treering.core.bucket import BucketWidth
from treering.core.schema import Column
from treering.core.table import TableSpec
from treering.core.units import Precision
from treering.errors import StoreClosedError
from treering.fanout.steps import Pause, Steps, Stream, steps_of, stream_of
from treering.readings import Readings
from treering.stats import StoreStats
from treering.store import Store as BlockingStore
from treering.store import open_store
from treering.table import Table as BlockingTable

__all__ = ["Store", "Table", "open"]

THREADS: Final = 8
"""How many threads compute, and talk to engines that block."""

VERBS_MAX: Final = 256
"""How many verbs of one event loop are under way; more of them wait their turn, in order."""

_NAMES_AT_ONCE: Final = 1_000

P = ParamSpec("P")
T = TypeVar("T")


class _Runner:
    """Runs verbs for event loops, on a few threads of its own."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="treering-aio")
        self._turns: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = (
            weakref.WeakKeyDictionary()
        )
        self._lock = threading.Lock()

    async def call(self, work: Callable[[], T]) -> T:
        """Run a blocking call on a thread."""
        async with self._turn():
            return await self._on_thread(work)

    async def run(self, start: Callable[[], Steps[T]]) -> T:
        """Run a verb: its steps on threads, its pauses on the loop."""
        async with self._turn():
            stepper = _Stepper(start())
            try:
                while (pause := await self._on_thread(stepper.advance)) is not None:
                    await _wait(pause)
            except BaseException:
                self._abandon(stepper)
                raise
            result: T = stepper.result
            return result

    async def stream(self, start: Callable[[], Stream[T]]) -> AsyncGenerator[T, None]:
        """Yield what a verb hands out; a turn is taken for each result, not for the consumer."""
        stepper = _Stepper(await self.call(start))
        try:
            while True:
                async with self._turn():
                    item = await self._on_thread(stepper.advance)
                    while isinstance(item, Pause):
                        await _wait(item)
                        item = await self._on_thread(stepper.advance)
                if item is None:
                    return
                yield item
        except BaseException:
            self._abandon(stepper)
            raise

    def _turn(self) -> asyncio.Semaphore:
        loop = asyncio.get_running_loop()
        with self._lock:
            if loop not in self._turns:
                self._turns[loop] = asyncio.Semaphore(VERBS_MAX)
            return self._turns[loop]

    async def _on_thread(self, work: Callable[[], T]) -> T:
        try:
            future = self._threads.submit(work)
        except RuntimeError as error:
            raise StoreClosedError("the store is closed", hint="open it again") from error
        return await asyncio.wrap_future(future)

    def _abandon(self, stepper: _Stepper) -> None:
        stepper.is_abandoned = True
        try:
            # The step under way has to end first, and the loop must not wait for it.
            self._threads.submit(stepper.close)
        except RuntimeError:
            stepper.close()

    def close(self) -> None:
        """Take no more work; what is under way ends by itself."""
        self._threads.shutdown(wait=False)


class _Stepper:
    """The steps of one verb, run by one thread at a time, in one context.

    Attributes:
        result: What the verb returned.
        is_abandoned: Whether nobody waits for it any more.
    """

    def __init__(self, steps: Generator[Any, None, Any]) -> None:
        self.result: Any = None
        self.is_abandoned = False
        self._steps = steps
        self._lock = threading.Lock()
        # What a step sets, such as the call's deadline, holds for the next on another thread.
        self._context = contextvars.copy_context()

    def advance(self) -> Any:
        """Go on to the next pause or result; None where the verb has come to its end."""
        with self._lock:
            if self.is_abandoned:
                return None
            try:
                return self._context.run(next, self._steps)
            except StopIteration as end:
                self.result = end.value
                return None

    def close(self) -> None:
        """End what is under way."""
        with self._lock, contextlib.suppress(asyncio.CancelledError):
            self._context.run(self._steps.throw, asyncio.CancelledError())


async def _wait(pause: Pause) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def finish() -> None:
        if not ready.done():
            ready.set_result(None)

    def wake() -> None:
        # An answer may come when its loop has ended long ago.
        if not loop.is_closed():
            try:
                loop.call_soon_threadsafe(finish)
            except RuntimeError:
                return

    timer = loop.call_later(pause.timeout_s, finish)
    unsubscribe = pause.subscribe(wake)
    try:
        await ready
    finally:
        timer.cancel()
        unsubscribe()


def _awaited(
    method: Callable[Concatenate[BlockingTable, P], T],
) -> Callable[Concatenate[Table, P], Coroutine[Any, Any, T]]:
    """Return the same verb to be awaited, with the same arguments and words."""
    steps = steps_of(method)

    @functools.wraps(method)
    async def call(self: Table, /, *args: P.args, **kwargs: P.kwargs) -> T:
        table = self.blocking
        if steps is None:
            return await self._runner.call(lambda: method(table, *args, **kwargs))
        return await self._runner.run(lambda: steps(table, *args, **kwargs))

    return call


def _store_awaited(
    method: Callable[Concatenate[BlockingStore, P], T],
) -> Callable[Concatenate[Store, P], Coroutine[Any, Any, T]]:
    @functools.wraps(method)
    async def call(self: Store, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._runner.call(lambda: method(self.blocking, *args, **kwargs))

    return call


def _table_awaited(
    method: Callable[Concatenate[BlockingStore, P], BlockingTable],
) -> Callable[Concatenate[Store, P], Coroutine[Any, Any, Table]]:
    @functools.wraps(method)
    async def call(self: Store, /, *args: P.args, **kwargs: P.kwargs) -> Table:
        table = await self._runner.call(lambda: method(self.blocking, *args, **kwargs))
        return Table(table, self._runner)

    return call


class Table:
    """A table whose verbs are awaited. Any number of tasks, and several event loops, may use it.

    Attributes:
        blocking: The same table for threads.
    """

    def __init__(self, blocking: BlockingTable, runner: _Runner) -> None:
        self.blocking = blocking
        self._runner = runner

    def __repr__(self) -> str:
        return repr(self.blocking)

    @property
    def name(self) -> str:
        """The table's name."""
        return self.blocking.name

    @property
    def spec(self) -> TableSpec:
        """The table as the catalog has it, its design included."""
        return self.blocking.spec

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of values."""
        return self.blocking.columns

    @property
    def precision(self) -> Precision:
        """The precision of event time."""
        return self.blocking.precision

    @property
    def bucket(self) -> BucketWidth:
        """How series of this table cut event time into partitions."""
        return self.blocking.bucket

    write = _awaited(BlockingTable.write)
    write_frame = _awaited(BlockingTable.write_frame)
    read = _awaited(BlockingTable.read)
    explain = _awaited(BlockingTable.explain)
    latest = _awaited(BlockingTable.latest)
    count = _awaited(BlockingTable.count)
    info = _awaited(BlockingTable.info)
    expire = _awaited(BlockingTable.expire)
    seal = _awaited(BlockingTable.seal)
    plan_retention = _awaited(BlockingTable.plan_retention)
    set_retention = _awaited(BlockingTable.set_retention)
    plan_delete = _awaited(BlockingTable.plan_delete)
    delete = _awaited(BlockingTable.delete)
    plan_drop_series = _awaited(BlockingTable.plan_drop_series)
    drop_series = _awaited(BlockingTable.drop_series)
    add_series = _awaited(BlockingTable.add_series)
    add_many_series = _awaited(BlockingTable.add_many_series)
    plan_series = _awaited(BlockingTable.plan_series)
    find_series = _awaited(BlockingTable.find_series)
    series_record = _awaited(BlockingTable.series_record)
    set_tags = _awaited(BlockingTable.set_tags)
    set_bucket = _awaited(BlockingTable.set_bucket)
    scan_series = _awaited(BlockingTable.scan_series)

    async def scan(self, *args: Any, **choices: Any) -> AsyncIterator[Readings]:
        """Yield batches of readings, as the blocking table does; read as they are asked for.

        All series of a table: ``scan(table.blocking.series(), start)``.
        """
        steps = stream_of(BlockingTable.scan)
        batches = self._runner.stream(lambda: steps(self.blocking, *args, **choices))
        async with contextlib.aclosing(batches):
            async for batch in batches:
                yield batch

    async def series(self, *args: Any, **choices: Any) -> AsyncIterator[str]:
        """Yield ids of series, as the blocking table does; read as they are asked for."""
        names = await self._runner.call(lambda: iter(self.blocking.series(*args, **choices)))
        while page := await self._runner.call(lambda: list(islice(names, _NAMES_AT_ONCE))):
            for name in page:
                yield name


class Store:
    """A store whose verbs are awaited, and an asynchronous context manager.

    Attributes:
        blocking: The same store for threads.
    """

    def __init__(self, blocking: BlockingStore, runner: _Runner) -> None:
        self.blocking = blocking
        self._runner = runner

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def engine_name(self) -> str:
        """``memory``, ``sqlite`` or ``cassandra``."""
        return self.blocking.engine_name

    async def create(self, name: str, *, force: bool = False, **choices: Any) -> Table:
        """Create a table, as :meth:`treering.Store.create` does."""
        table = await self._runner.call(lambda: self.blocking.create(name, force=force, **choices))
        return Table(table, self._runner)

    def stats(self) -> StoreStats:
        """Return what the store did so far; nothing is awaited and nothing is sent."""
        return self.blocking.stats()

    async def adopt(self, table: str | AdoptPlan, **choices: Any) -> Table:
        """Adopt a table that others made, as :meth:`treering.Store.adopt` does."""
        adopted = await self._runner.call(lambda: self.blocking.adopt(table, **choices))
        return Table(adopted, self._runner)

    async def plan_adopt(self, table: str, **choices: Any) -> AdoptPlan:
        """Plan that and change nothing, as :meth:`treering.Store.plan_adopt` does."""
        return await self._runner.call(lambda: self.blocking.plan_adopt(table, **choices))

    create_from = _table_awaited(BlockingStore.create_from)
    table = _table_awaited(BlockingStore.table)
    plan_create = _store_awaited(BlockingStore.plan_create)
    plan_from = _store_awaited(BlockingStore.plan_from)
    tables = _store_awaited(BlockingStore.tables)
    drop = _store_awaited(BlockingStore.drop)

    async def close(self) -> None:
        """Release everything; verbs under way raise ``StoreClosedError``. Twice is fine."""
        # Not in turn and not on the pool: closing must not wait behind what it ends.
        await asyncio.to_thread(self.blocking.close)
        self._runner.close()


async def open(  # the same word as in treering
    where: str | os.PathLike[str] | None = None,
    *,
    clock: Clock = system_clock,
    create: bool = True,
    **options: Any,
) -> Store:
    """Open a store; takes and raises what :func:`treering.open` does."""
    runner = _Runner()
    try:
        blocking = await runner.call(
            lambda: open_store(where, clock=clock, create=create, **options)
        )
    except BaseException:
        runner.close()
        raise
    return Store(blocking, runner)
