"""Whether requests take longer than they used to.

An overloaded Cassandra does not say so: it stops reading from its sockets, and every request waits
longer. What the requests in flight gain from more company shows in their latency alone.
"""

from __future__ import annotations

from typing import Final

RECENT: Final = 16
"""Over about how many requests the recent latency is taken."""

USUAL: Final = 65_536
"""Over about how many requests a lasting rise becomes the usual latency."""


NOTABLE_S: Final = 0.002
"""Latencies up to this are all one. A thread of this process that computes keeps the others from
looking at their answers for longer than that, and no server is overloaded that answers so soon."""


class LatencyTrend:
    """The recent latency of one kind of request beside its usual one.

    The usual latency follows a fall at once and a rise slowly: it is that of a cluster with time
    to spare.
    """

    def __init__(self) -> None:
        self._count = 0
        self._recent_s = 0.0
        self._usual_s = 0.0

    def add(self, took_s: float) -> None:
        """Take in how long a request took."""
        self._count += 1
        if self._count <= RECENT:
            # The plain mean of the first ones: a single one says little.
            self._recent_s += (took_s - self._recent_s) / self._count
            self._usual_s = self._recent_s
            return
        self._recent_s += (took_s - self._recent_s) / RECENT
        pace = RECENT if self._recent_s < self._usual_s else USUAL
        self._usual_s += (self._recent_s - self._usual_s) / pace

    @property
    def rise(self) -> float:
        """How many times as long as usual requests take now; 1 while nothing is known."""
        return max(self._recent_s, NOTABLE_S) / max(self._usual_s, NOTABLE_S)
