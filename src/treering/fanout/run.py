"""The loop that drives a fan-out: sends, waits, hands answers back, and ends in one way."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from treering.errors import EngineTimeoutError, StoreClosedError, TreeringError
from treering.fanout.permits import Permits

R = TypeVar("R")


class Watch(Protocol):
    """Is told what becomes of requests; must not raise and must not wait."""

    def on_sent(self) -> None:
        """Take note of a request that is sent."""
        ...

    def on_settled(self, duration_s: float) -> None:
        """Take note of how long a request took; called where the engine settles futures."""
        ...

    def on_failed(self, error: BaseException, retries: int) -> None:
        """Take note of a failure, and whether the request is sent again."""
        ...


class FanOut(Protocol[R]):
    """A state machine that the loop below drives."""

    retries: int
    """How many requests were, or will be, sent again."""

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

    def on_error(self, request: R, error: TreeringError, now_s: float) -> None:
        """Take a failure; raises when the whole must fail."""
        ...


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
    watch: Watch | None = None,
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
        watch: Is told what becomes of requests.

    Raises:
        EngineTimeoutError: The deadline passed.
        StoreClosedError: Cancelled.
        TreeringError: What the state machine raises.
    """
    answers: queue.SimpleQueue[_Answer[R]] = queue.SimpleQueue()
    in_flight: set[Future[Any]] = set()
    try:
        while not fan_out.is_done:
            now_s = clock()
            _check_outcome(now_s, deadline_s, is_cancelled)
            for request in fan_out.start(now_s):
                in_flight.add(_send(request, submit, permits, answers, clock, watch))
            for answer in _wait(answers, fan_out, permits, bool(in_flight), now_s, deadline_s):
                in_flight.discard(answer.future)
                _settle(fan_out, answer, permits, clock(), watch)
            yield
    finally:
        for future in in_flight:
            future.cancel()


def _send(
    request: R,
    submit: Callable[[R], Future[Any]],
    permits: Permits,
    answers: queue.SimpleQueue[_Answer[R]],
    clock: Callable[[], float],
    watch: Watch | None,
) -> Future[Any]:
    began_s = clock()
    if watch is not None:
        watch.on_sent()
    try:
        future = submit(request)
    except TreeringError as error:
        future = Future()
        future.set_exception(error)
    except BaseException:
        permits.release()
        raise

    def settle(settled: Future[Any]) -> None:
        # This runs where the engine settles futures: the outcome is looked at by the consumer.
        permits.release()
        if watch is not None:
            watch.on_settled(clock() - began_s)
        answers.put(_Answer(request, settled))

    future.add_done_callback(settle)
    return future


def _check_outcome(now_s: float, deadline_s: float, is_cancelled: Callable[[], bool]) -> None:
    if is_cancelled():
        raise _cancelled()
    if now_s >= deadline_s:
        raise EngineTimeoutError(
            "the whole did not finish before its deadline",
            hint="raise timeout_s, read a shorter interval, or look at the server's load",
        )


def _cancelled() -> StoreClosedError:
    return StoreClosedError(
        "the store was closed while this was under way", hint="open the store again"
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


def _settle(
    fan_out: FanOut[R],
    answer: _Answer[R],
    permits: Permits,
    now_s: float,
    watch: Watch | None,
) -> None:
    error = _cancelled() if answer.future.cancelled() else answer.future.exception()
    permits.learn(error)
    if error is None:
        fan_out.on_result(answer.request, answer.future.result())
    elif isinstance(error, TreeringError):
        before = fan_out.retries
        try:
            fan_out.on_error(answer.request, error, now_s)
        finally:
            if watch is not None:
                watch.on_failed(error, fan_out.retries - before)
    else:
        raise error
