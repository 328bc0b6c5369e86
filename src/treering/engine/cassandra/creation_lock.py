"""Who creates a table: one process at a time, as the state of the table's catalog row says.

Rules of this file: the lock is a state that only conditional writes change; whoever waits for a
holder that makes no progress takes over; two holders at once do the same, with the same ids.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Final

CREATING: Final = "creating"

TAKE_OVER_S: Final = 20.0
"""How long a holder may take before another creator goes on in its place."""

_POLL_S: Final = 0.1


class CreationLock:
    """One process's side of the lock.

    Attributes:
        held: The state of a row that this process holds.
    """

    def __init__(self) -> None:
        self.held = f"{CREATING} by {uuid.uuid4().hex}"

    def is_held_by_other(self, state: str) -> bool:
        """Return whether another process holds the row; nobody does where the state names none."""
        return state not in (self.held, CREATING)

    def wait(self, state: str, read_state: Callable[[], str | None]) -> bool:
        """Wait for another holder; return whether it made no progress and is to be replaced.

        Args:
            state: The row's state.
            read_state: Reads it anew.
        """
        if not self.is_held_by_other(state):
            return True
        deadline_s = time.monotonic() + TAKE_OVER_S
        while time.monotonic() < deadline_s:
            time.sleep(_POLL_S)
            if read_state() != state:
                return False
        return True


def is_creating(state: str | None) -> bool:
    """Return whether a row says that its table is being created."""
    return state is not None and state.partition(" ")[0] == CREATING
