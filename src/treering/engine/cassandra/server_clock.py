"""How far this machine's clock is from that of a node.

Write times come from clients, and those of deletes made elsewhere often from servers: the later
one wins, so a client that is ahead hides what servers do after it, and one that is behind writes
what is ignored.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from treering.engine.cassandra import statements
from treering.engine.cassandra.driver import ConsistencyLevel
from treering.engine.cassandra.link import Link
from treering.errors import EngineError

OFFSET_WARNED_S: Final = 1.0
"""What a clock may be off before it is told."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockOffset:
    """How far this machine's clock is ahead of a node's.

    Attributes:
        ahead_s: Seconds; negative where it is behind.
        error_s: How far off that may be: half of the time that the question took.
    """

    ahead_s: float
    error_s: float

    @property
    def is_warned(self) -> bool:
        """Whether the clocks differ by more than is fine, whatever the question took."""
        return abs(self.ahead_s) - self.error_s > OFFSET_WARNED_S

    def render(self, where: str) -> str:
        """Return what that means, in one sentence without its full stop."""
        side = "ahead of" if self.ahead_s > 0 else "behind"
        harm = (
            "deletes and updates that servers stamp lose against its writes"
            if self.ahead_s > 0
            else "its writes lose against what servers stamped before"
        )
        return (
            f"this machine's clock is {abs(self.ahead_s):,.1f} s {side} that of {where}: {harm}; "
            "let both follow a time server (NTP)"
        )


def read_clock_offset(
    link: Link, *, host: Any = None, now_ns: Callable[[], int] = time.time_ns
) -> ClockOffset:
    """Return how far this machine's clock is from a node's.

    Args:
        link: The connection.
        host: The node; any where None.
        now_ns: This machine's clock.

    Raises:
        EngineError: The node does not answer.

    Cost:
        One small request.
    """
    link.prepare(statements.SERVER_CLOCK)  # So that the question below takes one round trip.
    before_ns = now_ns()
    rows = link.query(
        statements.SERVER_CLOCK,
        what="reading the server's clock",
        consistency=ConsistencyLevel.ONE,
        host=host,
    )
    server_ms = next(iter(rows))["ms"]
    after_ns = now_ns()
    middle_ns = (before_ns + after_ns) // 2
    # The server counts in whole milliseconds.
    return ClockOffset(
        ahead_s=(middle_ns - server_ms * 1_000_000) / 1e9,
        error_s=(after_ns - before_ns) / 2e9 + 0.001,
    )


def warn_of_clock(link: Link, *, now_ns: Callable[[], int] = time.time_ns) -> None:
    """Log a warning where this machine's clock is off; a clock that cannot be read is no failure.

    Cost:
        Two small requests.
    """
    try:
        offset = read_clock_offset(link, now_ns=now_ns)
    except EngineError as error:
        log.info("the server's clock was not read: %s", error)
        return
    if offset.is_warned:
        log.warning("%s", offset.render(link.where))
