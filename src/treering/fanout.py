"""Bounded in-flight requests: what to send next, as a state machine, and the loop that runs it.

Rules of this file: the state machines read no clock and do no I/O, they are told the time; every
queue has a bound; a failed request is retried alone, with the same content; cancelled, timed out
and empty are three different outcomes; the order of results never depends on completion order.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Protocol, TypeVar

from treering.core.read_plan import PartitionRead, ReadPlan
from treering.core.write_plan import PartitionWrite
from treering.engine.protocol import Page, PageRead
from treering.errors import (
    EngineError,
    EngineTimeoutError,
    OverloadedError,
    PartialReadError,
    StoreClosedError,
)

PAGE_ROWS_MAX: Final = 50_000
PAGE_BYTES_MAX: Final = 2_000_000
ROWS_IN_FLIGHT_MAX: Final = 400_000
LOOK_AHEAD_MAX: Final = 256
WRITE_BYTES_IN_FLIGHT_MAX: Final = 32_000_000
ATTEMPTS_MAX: Final = 4
BACKOFF_S: Final = 0.05

R = TypeVar("R")


class Permits:
    """How many requests of a store may be in flight, shared by all its threads.

    Grows while all goes well and halves when requests time out or are turned away: additive
    increase, multiplicative decrease, between 1 and ``most``. Losses of requests that were in
    flight together halve it once.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        # Half of the bound to start with: small work never needs more, large work grows in.
        self._allowed = max(1.0, most / 2)
        self._in_flight = 0
        self._in_flight_peak = 0
        self._settled = 0
        # Failures of requests that were under way at the last halving tell nothing new.
        self._quiet_until = 0
        self._room = threading.Condition()

    @property
    def limit(self) -> int:
        """The most requests to have in flight now."""
        return int(self._allowed)

    @property
    def in_flight(self) -> int:
        """Requests in flight now."""
        return self._in_flight

    @property
    def in_flight_peak(self) -> int:
        """The most requests that ever were in flight at once."""
        return self._in_flight_peak

    def try_acquire(self) -> bool:
        """Take a permit if there is one."""
        with self._room:
            if self._in_flight >= self.limit:
                return False
            self._in_flight += 1
            self._in_flight_peak = max(self._in_flight_peak, self._in_flight)
            return True

    def release(self, error: BaseException | None = None) -> None:
        """Give a permit back, with the outcome of its request."""
        with self._room:
            self._in_flight -= 1
            self._settled += 1
            if error is None:
                self._allowed = min(float(self.most), self._allowed + 1 / self._allowed)
            elif is_overload(error) and self._settled > self._quiet_until:
                self._allowed = max(1.0, self._allowed / 2)
                self._quiet_until = self._settled + self._in_flight
            self._room.notify_all()

    def wait_for_room(self, timeout_s: float) -> None:
        """Wait until another thread gives a permit back, at most ``timeout_s``."""
        with self._room:
            self._room.wait_for(lambda: self._in_flight < self.limit, timeout_s)


def is_overload(error: BaseException) -> bool:
    """Return whether an error means that the server cannot keep up."""
    return isinstance(error, (EngineTimeoutError, OverloadedError))


def backoff_s(attempts: int) -> float:
    """Return how long to wait before sending a request again that failed ``attempts`` times."""
    return float(BACKOFF_S * 2 ** (attempts - 1))


class FanOut(Protocol[R]):
    """A state machine that the loop below drives."""

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to send or to wait for."""
        ...

    def start(self, now_s: float) -> list[R]:
        """Return the requests to send now; each will be answered once."""
        ...

    def wake_s(self) -> float | None:
        """Return when a delayed retry is due; None where nothing is delayed."""
        ...

    def on_result(self, request: R, result: Any) -> None:
        """Take an answer."""
        ...

    def on_error(self, request: R, error: EngineError, now_s: float) -> None:
        """Take a failure; raises when the whole must fail."""
        ...


@dataclass(slots=True)
class _Partition:
    """Where the reading of one partition stands."""

    read: PartitionRead
    cursor: Any = None
    pages: deque[Page] = field(default_factory=deque)
    in_flight_rows: int = 0
    attempts: int = 0
    due_s: float = 0.0
    rows: int = 0
    is_complete: bool = False
    error: EngineError | None = None

    @property
    def is_idle(self) -> bool:
        return not self.is_complete and self.in_flight_rows == 0


class ReadFanOut:
    """Reads partitions side by side and hands their pages out in the plan's order.

    The first unfinished partition, the head, may always send. Others run ahead of it within the
    bounds of requests and of rows in flight and waiting. With a limit, nothing runs ahead until
    partitions come back empty; then the look-ahead doubles, so that a sparse series costs few
    round trips and a dense one no wasted read.
    """

    def __init__(
        self,
        plan: ReadPlan,
        permits: Permits,
        *,
        partial: bool = False,
        attempts_max: int = ATTEMPTS_MAX,
    ) -> None:
        self._plan = plan
        self._permits = permits
        self._partial = partial
        self._attempts_max = attempts_max
        self._partitions = [_Partition(read) for read in plan.reads]
        self._head = 0
        self._look_ahead = LOOK_AHEAD_MAX if plan.limit is None else 1
        self._series_rows = 0
        self._pages_received = 0
        row_bytes = max(1, plan.bytes_estimate // max(plan.rows_estimate, 1))
        self._page_rows = max(1, min(PAGE_ROWS_MAX, PAGE_BYTES_MAX // row_bytes))

    @property
    def is_done(self) -> bool:
        """Whether every page has been handed out."""
        return self._head >= len(self._partitions)

    @property
    def missing(self) -> tuple[PartitionRead, ...]:
        """The partitions that stayed failed, in the plan's order."""
        return tuple(p.read for p in self._partitions if p.error is not None)

    @property
    def causes(self) -> tuple[EngineError, ...]:
        """Why, for each of :attr:`missing`."""
        return tuple(p.error for p in self._partitions if p.error is not None)

    def start(self, now_s: float) -> list[tuple[int, PageRead]]:
        """Return the page requests to send now, each with the place of its partition."""
        requests: list[tuple[int, PageRead]] = []
        last = min(self._head + self._look_ahead, len(self._partitions))
        rows = sum(
            p.in_flight_rows + sum(len(page) for page in p.pages)
            for p in self._partitions[self._head : last]
        )
        for place in range(self._head, last):
            partition = self._partitions[place]
            if place != self._head and rows + self._page_rows > ROWS_IN_FLIGHT_MAX:
                break
            if not partition.is_idle or partition.due_s > now_s:
                continue
            if not self._permits.try_acquire():
                break
            rows_max = self._rows_wanted(partition)
            partition.in_flight_rows = rows_max
            rows += rows_max
            requests.append((place, self._request(partition, rows_max)))
        return requests

    def _rows_wanted(self, partition: _Partition) -> int:
        if self._plan.limit is None:
            return self._page_rows
        taken = partition.rows
        if partition.read.series == self._partitions[self._head].read.series:
            taken += self._series_rows
        return max(1, min(self._page_rows, self._plan.limit - taken))

    def _request(self, partition: _Partition, rows_max: int) -> PageRead:
        return PageRead(
            partition=partition.read,
            order=self._plan.order,
            columns=self._plan.columns,
            rows_max=rows_max,
            cursor=partition.cursor,
        )

    def wake_s(self) -> float | None:
        """Return when the next delayed retry is due."""
        ahead = self._partitions[self._head : self._head + self._look_ahead]
        due = [p.due_s for p in ahead if p.is_idle and p.due_s > 0]
        return min(due, default=None)

    def on_result(self, request: tuple[int, PageRead], page: Page) -> None:
        """Take a page."""
        partition = self._settled(request)
        self._pages_received += 1
        partition.attempts, partition.due_s = 0, 0.0
        partition.cursor = page.cursor
        partition.is_complete = page.cursor is None
        partition.rows += len(page)
        if len(page):
            partition.pages.append(page)
        elif partition.is_complete and partition.rows == 0 and self._plan.limit is not None:
            self._look_ahead = min(2 * self._look_ahead, LOOK_AHEAD_MAX)

    def on_error(self, request: tuple[int, PageRead], error: EngineError, now_s: float) -> None:
        """Take a failure: retry the page later, or give the partition up.

        Raises:
            PartialReadError: A partition stayed failed and the caller wants all or nothing.
            EngineError: The same, where the read is of one partition or nothing came at all.
        """
        partition = self._settled(request)
        partition.attempts += 1
        if error.retryable and partition.attempts < self._attempts_max:
            partition.due_s = now_s + backoff_s(partition.attempts)
            return
        partition.error = error
        partition.is_complete = True
        if not self._partial:
            if len(self._partitions) == 1 or self._pages_received == 0:
                raise error
            raise partial_read_error(self._plan, self.missing, self.causes)

    def _settled(self, request: tuple[int, PageRead]) -> _Partition:
        partition = self._partitions[request[0]]
        partition.in_flight_rows = 0
        return partition

    def take(self) -> Iterator[tuple[str, Page]]:
        """Yield the pages that are next in order, with their series, and let them go."""
        while self._head < len(self._partitions):
            partition = self._partitions[self._head]
            while partition.pages:
                page = self._limited(partition, partition.pages.popleft())
                if page is not None:
                    yield partition.read.series, page
            if not partition.is_complete:
                return
            self._advance(partition)

    def _limited(self, partition: _Partition, page: Page) -> Page | None:
        limit = self._plan.limit
        if limit is None:
            return page
        room = limit - self._series_rows
        if room <= 0:
            return None
        if len(page) > room:
            columns = {name: data.take(slice(room)) for name, data in page.columns.items()}
            page = Page(page.ts[:room], columns, page.cursor)
        self._series_rows += len(page)
        if self._series_rows >= limit:
            self._skip_rest_of(partition.read.series)
        return page

    def _skip_rest_of(self, series: str) -> None:
        for partition in self._partitions[self._head :]:
            if partition.read.series != series:
                break
            # What is in flight is waited for but not asked for again.
            partition.is_complete = True

    def _advance(self, partition: _Partition) -> None:
        self._head += 1
        following = self._partitions[self._head :][:1]
        if following and following[0].read.series != partition.read.series:
            self._series_rows = 0
            if self._plan.limit is not None:
                self._look_ahead = 1


def partial_read_error(
    plan: ReadPlan, missing: tuple[PartitionRead, ...], causes: tuple[EngineError, ...]
) -> PartialReadError:
    """Return the error of a read that misses partitions, naming them."""
    names = ", ".join(read.name for read in missing[:5]) + (" …" if len(missing) > 5 else "")
    error = PartialReadError(
        f"{len(missing)} of {plan.fan_out} partitions of {plan.spec.name} could not be read: "
        f"{names}; the first because: {causes[0]}",
        hint="try again, or read with partial=True to get the rest with these named",
        missing=missing,
        causes=causes,
    )
    error.__cause__ = causes[0]
    return error


class WriteFanOut:
    """Sends partition writes side by side, bounded in requests and bytes."""

    def __init__(
        self,
        writes: Iterator[PartitionWrite],
        permits: Permits,
        *,
        attempts_max: int = ATTEMPTS_MAX,
    ) -> None:
        self._writes = writes
        self._permits = permits
        self._attempts_max = attempts_max
        self._retries: list[_Sent] = []
        self._next: PartitionWrite | None = next(writes, None)
        self._in_flight = 0
        self._bytes = 0
        self._failed: list[tuple[PartitionWrite, EngineError]] = []
        self.rows_acknowledged = 0

    @property
    def is_done(self) -> bool:
        """Whether every write was acknowledged or given up."""
        return self._in_flight == 0 and not self._retries and self._next is None

    @property
    def failed(self) -> tuple[tuple[PartitionWrite, EngineError], ...]:
        """The writes that were given up, with the reason of each."""
        return tuple(self._failed)

    def start(self, now_s: float) -> list[_Sent]:
        """Return the writes to send now; delayed retries that are due come first."""
        requests = []
        while self._bytes < WRITE_BYTES_IN_FLIGHT_MAX or self._in_flight == 0:
            if not self._has_due(now_s) or not self._permits.try_acquire():
                break
            request = self._take_due(now_s)
            self._in_flight += 1
            self._bytes += write_bytes(request.write)
            requests.append(request)
        return requests

    def _has_due(self, now_s: float) -> bool:
        return self._next is not None or any(sent.due_s <= now_s for sent in self._retries)

    def _take_due(self, now_s: float) -> _Sent:
        for place, sent in enumerate(self._retries):
            if sent.due_s <= now_s:
                return self._retries.pop(place)
        assert self._next is not None, "asked for a write although none is due"
        sent = _Sent(self._next)
        self._next = next(self._writes, None)
        return sent

    def wake_s(self) -> float | None:
        """Return when the next delayed retry is due."""
        return min((request.due_s for request in self._retries), default=None)

    def on_result(self, request: _Sent, _result: Any) -> None:
        """Take an acknowledgement."""
        self._settle(request)
        self.rows_acknowledged += len(request.write)

    def on_error(self, request: _Sent, error: EngineError, now_s: float) -> None:
        """Take a failure: send the same write again later, or give it up.

        After a write was given up no new one is started; those under way are waited for.
        """
        self._settle(request)
        request.attempts += 1
        if error.retryable and request.attempts < self._attempts_max:
            request.due_s = now_s + backoff_s(request.attempts)
            self._retries.append(request)
            return
        self._failed.append((request.write, error))
        # Nothing new is sent after a failure; what was not sent is not acknowledged.
        self._next = None

    def _settle(self, request: _Sent) -> None:
        self._in_flight -= 1
        self._bytes -= write_bytes(request.write)


@dataclass(slots=True)
class _Sent:
    """A write on its way, with its history."""

    write: PartitionWrite
    attempts: int = 0
    due_s: float = 0.0


def write_bytes(write: PartitionWrite) -> int:
    """Return about how many bytes a write holds while it is in flight."""
    # Text is counted at 64 bytes a value: its true length would cost a pass over every value.
    per_value = [
        64 if d.values.dtype == object else d.values.itemsize for d in write.columns.values()
    ]
    return len(write) * (8 + sum(per_value))


@dataclass(frozen=True, slots=True)
class _Answer(Generic[R]):
    request: R
    future: Future[Any]


def run_fan_out(
    fan_out: FanOut[R],
    submit: Callable[[R], Future[Any]],
    permits: Permits,
    *,
    deadline_s: float,
    is_cancelled: Callable[[], bool] = lambda: False,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[None]:
    """Drive a state machine to its end, yielding after each step so that results can be taken.

    A permit is given back when its request is settled, also when nobody waits for it any more.

    Args:
        fan_out: What to send and how to take answers; it takes the permits.
        submit: Starts a request.
        permits: Where the permits go back to.
        deadline_s: When to give up, on ``clock``.
        is_cancelled: Asked between steps, at least ten times a second.
        clock: Seconds, monotonic.

    Raises:
        EngineTimeoutError: The deadline passed.
        StoreClosedError: Cancelled.
        EngineError: What the state machine raises.
    """
    answers: queue.SimpleQueue[_Answer[R]] = queue.SimpleQueue()
    in_flight: set[Future[Any]] = set()
    try:
        while not fan_out.is_done:
            now_s = clock()
            _check_outcome(now_s, deadline_s, is_cancelled)
            for request in fan_out.start(now_s):
                in_flight.add(_send(request, submit, permits, answers))
            for answer in _wait(answers, fan_out, permits, bool(in_flight), now_s, deadline_s):
                in_flight.discard(answer.future)
                _settle(fan_out, answer, clock())
            yield
    finally:
        for future in in_flight:
            future.cancel()


def _send(
    request: R,
    submit: Callable[[R], Future[Any]],
    permits: Permits,
    answers: queue.SimpleQueue[_Answer[R]],
) -> Future[Any]:
    try:
        future = submit(request)
    except EngineError as error:
        future = Future()
        future.set_exception(error)

    def settle(settled: Future[Any]) -> None:
        error = None if settled.cancelled() else settled.exception()
        permits.release(error)
        answers.put(_Answer(request, settled))

    future.add_done_callback(settle)
    return future


def _check_outcome(now_s: float, deadline_s: float, is_cancelled: Callable[[], bool]) -> None:
    if is_cancelled():
        raise StoreClosedError(
            "the store was closed while this was under way", hint="open the store again"
        )
    if now_s >= deadline_s:
        raise EngineTimeoutError(
            "the whole did not finish before its deadline",
            hint="raise timeout_s, read a shorter interval, or look at the server's load",
        )


def _wait(
    answers: queue.SimpleQueue[_Answer[R]],
    fan_out: FanOut[R],
    permits: Permits,
    has_in_flight: bool,
    now_s: float,
    deadline_s: float,
) -> Iterator[_Answer[R]]:
    wake_s = fan_out.wake_s()
    # At most a tenth of a second, so that a cancellation is seen soon.
    until_s = min(deadline_s, now_s + 0.1, wake_s if wake_s is not None else deadline_s)
    timeout_s = max(until_s - now_s, 0.001)
    if not has_in_flight and wake_s is None:
        # Other threads of this store hold all permits.
        permits.wait_for_room(timeout_s)
        return
    try:
        yield answers.get(timeout=timeout_s)
        while True:
            yield answers.get_nowait()
    except queue.Empty:
        return


def _settle(fan_out: FanOut[R], answer: _Answer[R], now_s: float) -> None:
    error = answer.future.exception()
    if error is None:
        fan_out.on_result(answer.request, answer.future.result())
    elif isinstance(error, EngineError):
        fan_out.on_error(answer.request, error, now_s)
    else:
        raise error
