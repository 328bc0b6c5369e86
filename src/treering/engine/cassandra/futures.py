"""Futures of several requests, and their settling where closing may have been quicker."""

from __future__ import annotations

import threading
from concurrent.futures import Future, InvalidStateError
from typing import Any


def all_of(futures: list[Future[None]]) -> Future[None]:
    """Return a future that completes when all have, with the first failure if there is one."""
    whole: Future[None] = Future()
    # Running, as its parts are: what was sent cannot be taken back.
    whole.set_running_or_notify_cancel()
    left = len(futures)
    lock = threading.Lock()

    def settled(future: Future[None]) -> None:
        nonlocal left
        error = future.exception()
        if error is not None:
            settle_error(whole, error)
        with lock:
            left -= 1
            is_last = left == 0
        if is_last:
            settle(whole, None)

    for future in futures:
        future.add_done_callback(settled)
    if not futures:
        whole.set_result(None)
    return whole


def settle(future: Future[Any], value: Any) -> None:
    try:
        future.set_result(value)
    except InvalidStateError:
        return  # Closing was quicker.


def settle_error(future: Future[Any], error: BaseException) -> None:
    try:
        future.set_exception(error)
    except InvalidStateError:
        return
