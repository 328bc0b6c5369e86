"""Verbs as steps: written once, run by a thread that waits or by an event loop that does not.

Rules of this file: a verb is a generator that yields where it has nothing to do until something
comes, and returns its result; whoever runs it decides how to wait; only one thread runs it at a
time; closing it ends what it has under way. A verb that hands out many results yields those in
between, and stands still while its consumer has one.
"""

from __future__ import annotations

import contextvars
import functools
import inspect
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pause:
    """A place where a verb has nothing to do for now.

    Attributes:
        block: Waits for what is to come, at most for the seconds that it is given.
        subscribe: Takes what to call, from any thread and once, as soon as something came; returns
            what takes that back.
        timeout_s: When to go on in any case.
    """

    block: Callable[[float], None]
    subscribe: Callable[[Callable[[], None]], Callable[[], None]]
    timeout_s: float


Steps = Generator[Pause, None, T]
Stream = Generator[Pause | T, None, None]
"""The steps of a verb that hands out results one by one."""


def run_blocking(steps: Steps[T]) -> T:
    """Run a verb to its end in this thread and return its result."""
    try:
        while True:
            pause = next(steps)
            pause.block(pause.timeout_s)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        # An interrupt while it waits must end what it has under way.
        steps.close()


def verb(
    steps: Callable[Concatenate[S, P], Steps[T]],
) -> Callable[Concatenate[S, P], T]:
    """Make a plain method of one that is written as steps; :func:`steps_of` gives those back."""

    @functools.wraps(steps)
    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return run_blocking(steps(self, *args, **kwargs))

    signature = inspect.signature(steps)
    returned = str(signature.return_annotation).removeprefix("Steps[").removesuffix("]")
    call.__annotations__ = {**steps.__annotations__, "return": returned}
    call.__signature__ = signature.replace(return_annotation=returned)  # type: ignore[attr-defined]
    return call


def steps_of(method: Callable[..., T]) -> Callable[..., Steps[T]] | None:
    """Return the steps that a method is made of; None where it is a plain one."""
    steps: Any = getattr(method, "__wrapped__", None)
    return steps if inspect.isgeneratorfunction(steps) else None


def run_stream(steps: Stream[T]) -> Iterator[T]:
    """Yield the results of a verb as they are asked for; leaving it ends what it has under way."""
    # What a step sets, such as a deadline, must not hold for the consumer in between.
    context = contextvars.copy_context()
    try:
        while True:
            try:
                item = context.run(next, steps)
            except StopIteration:
                return
            if isinstance(item, Pause):
                item.block(item.timeout_s)
            else:
                yield item
    finally:
        context.run(steps.close)


def stream(
    steps: Callable[Concatenate[S, P], Stream[T]],
) -> Callable[Concatenate[S, P], Iterator[T]]:
    """Make a plain method of one that returns a stream; :func:`stream_of` gives those back."""

    @functools.wraps(steps)
    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return run_stream(steps(self, *args, **kwargs))

    signature = inspect.signature(steps)
    returned = str(signature.return_annotation).replace("Stream[", "Iterator[", 1)
    call.__annotations__ = {**steps.__annotations__, "return": returned}
    call.__signature__ = signature.replace(return_annotation=returned)  # type: ignore[attr-defined]
    return call


def stream_of(method: Callable[Concatenate[S, P], Iterator[T]]) -> Callable[..., Stream[T]]:
    """Return what a method of :func:`stream` is made of."""
    steps: Callable[..., Stream[T]] = method.__wrapped__  # type: ignore[attr-defined]
    return steps
