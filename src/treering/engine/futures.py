"""Futures of engines that do their work in the caller's thread."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from treering.errors import TreeringError

T = TypeVar("T")


def completed(work: Callable[[], T]) -> Future[T]:
    """Run ``work`` now and return its outcome as a future that has completed."""
    future: Future[T] = Future()
    try:
        future.set_result(work())
    except TreeringError as error:
        future.set_exception(error)
    return future
