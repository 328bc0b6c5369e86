"""Waiting for a condition, with a generous bound and never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(holds: Callable[[], object], *, bound_s: float, pause_s: float = 0.005) -> None:
    """Return when something holds; fail where it does not within ``bound_s``."""
    deadline_s = time.monotonic() + bound_s
    while not holds():
        assert time.monotonic() < deadline_s, "it never held"
        time.sleep(pause_s)
