"""The loop that drives a fan-out: sends, waits, hands answers back, and ends in one way."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

from treering.errors import EngineTimeoutError, StoreClosedError, TreeringError
from treering.fanout.permits import Permits
from treering.fanout.steps import Pause, Steps

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

    def on_arrival(self, request: R, future: Future[Any]) -> None:
        """Take note of an answer that came; it is looked at after what is now wanted was sent."""
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
    took_s: float


class _Inbox(Generic[R]):
    """Answers that came and were not looked at yet, put in by any thread."""

    def __init__(self) -> None:
        self._answers: deque[_Answer[R]] = deque()
        self._came = threading.Condition()
        self._listener: Callable[[], None] | None = None

    def put(self, answer: _Answer[R]) -> None:
        """Take an answer in, and tell whoever waits."""
        with self._came:
            self._answers.append(answer)
            listener, self._listener = self._listener, None
            self._came.notify()
        if listener is not None:
            listener()

    @property
    def is_empty(self) -> bool:
        """Whether no answer waits."""
        return not self._answers

    def take(self) -> Iterator[_Answer[R]]:
        """Yield the answers that are there, oldest first."""
        while self._answers:
            yield self._answers.popleft()

    def wait(self, timeout_s: float) -> None:
        """Wait for an answer, at most ``timeout_s``."""
        with self._came:
            self._came.wait_for(lambda: self._answers, timeout_s)

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Have ``listener`` called once, as soon as there is an answer."""
        with self._came:
            is_there = bool(self._answers)
            self._listener = None if is_there else listener
        if is_there:
            listener()
        return self._unsubscribe

    def _unsubscribe(self) -> None:
        with self._came:
            self._listener = None


def _at_once(listener: Callable[[], None]) -> Callable[[], None]:
    listener()
    return lambda: None


_TURN: Final = Pause(lambda _timeout_s: None, _at_once, 0.0)
"""A pause in which nothing is waited for."""


def run_fan_out(
    fan_out: FanOut[R],
    submit: Callable[[R], Future[Any]],
    permits: Permits,
    *,
    deadline_s: float,
    is_cancelled: Callable[[], bool] = lambda: False,
    on_step: Callable[[], bool | None] = lambda: None,
    clock: Callable[[], float] = time.monotonic,
    watch: Watch | None = None,
) -> Steps[None]:
    """Drive a state machine to its end, as steps: pauses where there is nothing to do.

    A permit is given back when its request is settled, also when nobody waits for it any more.

    Args:
        fan_out: What to send and how to take answers; it takes the permits.
        submit: Starts a request.
        permits: Where the permits go back to.
        deadline_s: When to give up, on ``clock``.
        is_cancelled: Asked between steps, at least ten times a second while requests are under
            way; whoever cancels wakes those who wait for permits.
        on_step: Called after answers were taken in, so that results can be handed on; where it
            returns True, there is a pause that ends at once, for whoever hands them on.
        clock: Seconds, monotonic.
        watch: Is told what becomes of requests.

    Raises:
        EngineTimeoutError: The deadline passed.
        StoreClosedError: Cancelled.
        TreeringError: What the state machine raises.
    """
    answers: _Inbox[R] = _Inbox()
    in_flight: set[Future[Any]] = set()
    try:
        while not fan_out.is_done:
            now_s = clock()
            _check_outcome(now_s, deadline_s, is_cancelled)
            came = list(answers.take())
            # What an answer makes wanted is on its way while the answer is looked at.
            for answer in came:
                fan_out.on_arrival(answer.request, answer.future)
            for request in fan_out.start(now_s):
                in_flight.add(_send(request, submit, permits, answers, clock, watch))
            for answer in came:
                in_flight.discard(answer.future)
                _settle(fan_out, answer, permits, clock(), watch)
            if on_step():
                yield _TURN
            elif not came and answers.is_empty:
                yield _pause(answers, fan_out, permits, bool(in_flight), now_s, deadline_s)
    finally:
        for future in in_flight:
            future.cancel()


def _send(
    request: R,
    submit: Callable[[R], Future[Any]],
    permits: Permits,
    answers: _Inbox[R],
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
        took_s = clock() - began_s
        permits.release()
        if watch is not None:
            watch.on_settled(took_s)
        answers.put(_Answer(request, settled, took_s))

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


def _pause(
    answers: _Inbox[R],
    fan_out: FanOut[R],
    permits: Permits,
    has_in_flight: bool,
    now_s: float,
    deadline_s: float,
) -> Pause:
    wake_s = fan_out.wake_s()
    if not has_in_flight and wake_s is None:
        # Others of this store hold all permits; whoever closes it wakes those who wait here.
        # Thousands may: none of them looks around meanwhile.
        return Pause(permits.wait_for_room, permits.subscribe, max(deadline_s - now_s, 0.001))
    # At most a tenth of a second, so that a cancellation is seen soon.
    until_s = min(deadline_s, now_s + 0.1, wake_s if wake_s is not None else deadline_s)
    return Pause(answers.wait, answers.subscribe, max(until_s - now_s, 0.001))


def _settle(
    fan_out: FanOut[R],
    answer: _Answer[R],
    permits: Permits,
    now_s: float,
    watch: Watch | None,
) -> None:
    error = _cancelled() if answer.future.cancelled() else answer.future.exception()
    permits.learn(error, answer.took_s, type(fan_out))
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
