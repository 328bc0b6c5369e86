"""Until when the call under way may take, known to everything that is asked on its way.

A verb asks an engine for more than readings: whether a series is listed, a statement prepared.
Those are bounded by the time that is left of the call, without a parameter through every layer.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_DEADLINE_S: ContextVar[float | None] = ContextVar("treering_deadline_s", default=None)
TIME_LEFT_MIN_S: Final = 0.001


@contextmanager
def deadline_in(timeout_s: float) -> Iterator[None]:
    """Bound what stands inside; an earlier deadline around it stays in force."""
    outer_s = _DEADLINE_S.get()
    own_s = time.monotonic() + timeout_s
    token = _DEADLINE_S.set(own_s if outer_s is None else min(own_s, outer_s))
    try:
        yield
    finally:
        _DEADLINE_S.reset(token)


def time_left_s(bound_s: float) -> float:
    """Return how long a request may take: ``bound_s``, or less where the call has less left.

    Never 0 or less, so that what comes too late times out and is not taken as unbounded.
    """
    deadline_s = _DEADLINE_S.get()
    if deadline_s is None:
        return bound_s
    return max(min(bound_s, deadline_s - time.monotonic()), TIME_LEFT_MIN_S)
