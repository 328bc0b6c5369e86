"""How many requests of a store may be in flight, and how long a failed one waits."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from treering.errors import EngineTimeoutError, OverloadedError
from treering.fanout.latency import LatencyTrend

ATTEMPTS_MAX: Final = 4
"""How often one request is sent at most."""

BACKOFF_S: Final = 0.05

RISE_FLAT: Final = 1.5
"""Up to this many times the usual latency, more requests in flight do no harm."""

RISE_MAX: Final = 3.0
"""From this many times the usual latency on, requests only wait for one another."""

SLOWED_SHARE_MIN: Final = 1 / 8
"""Slow answers alone leave at least this share of the bound: they come, after all."""


class Permits:
    """How many requests of a store may be in flight, shared by all its threads.

    Grows while latency is flat, shrinks by an eighth when it has risen, and halves when requests
    time out or are turned away: additive increase, multiplicative decrease, between 1 and
    ``most``. Requests that were in flight together shrink it once.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        # Half of the bound to start with: small work never needs more, large work grows in.
        self._allowed = max(1.0, most / 2)
        self._in_flight = 0
        self._in_flight_peak = 0
        self._settled = 0
        # Failures of requests that were under way at the last halving tell nothing new.
        self._quiet_until = 0
        self._room = threading.Condition()
        self._listeners: OrderedDict[int, Callable[[], None]] = OrderedDict()
        self._tickets = 0
        self._wakes = 0
        self._trends: dict[object, LatencyTrend] = {}

    @property
    def limit(self) -> int:
        """The most requests to have in flight now."""
        return int(self._allowed)

    @property
    def in_flight(self) -> int:
        """Requests in flight now."""
        return self._in_flight

    @property
    def in_flight_peak(self) -> int:
        """The most requests that ever were in flight at once."""
        return self._in_flight_peak

    def try_acquire(self) -> bool:
        """Take a permit if there is one."""
        with self._room:
            if self._in_flight >= self.limit:
                return False
            self._in_flight += 1
            self._in_flight_peak = max(self._in_flight_peak, self._in_flight)
            return True

    def release(self) -> None:
        """Give a permit back: its request is settled, well or not."""
        with self._room:
            self._in_flight -= 1
            self._settled += 1
            self._room.notify_all()
            told = self._take_listeners()
        for listener in told:
            listener()

    def learn(
        self, error: BaseException | None, took_s: float | None = None, kind: object = None
    ) -> None:
        """Adapt the bound to the outcome of a request.

        Args:
            error: What went wrong; None: it went well.
            took_s: How long it took; None where nobody knows.
            kind: What kind of request it was: only those of one kind are compared.
        """
        with self._room:
            if error is None:
                self._adapt(1.0 if took_s is None else self._rise(took_s, kind))
            elif is_overload(error):
                self._shrink(1 / 2, least=1.0)
            self._room.notify_all()
            told = self._take_listeners()
        for listener in told:
            listener()

    def _rise(self, took_s: float, kind: object) -> float:
        trend = self._trends.get(kind)
        if trend is None:
            trend = self._trends[kind] = LatencyTrend()
        trend.add(took_s)
        return trend.rise

    def _adapt(self, rise: float) -> None:
        if rise <= RISE_FLAT:
            self._allowed = min(float(self.most), self._allowed + 1 / self._allowed)
        elif rise >= RISE_MAX:
            self._shrink(7 / 8, least=max(1.0, self.most * SLOWED_SHARE_MIN))

    def _shrink(self, factor: float, *, least: float) -> None:
        if self._settled > self._quiet_until and self._allowed > least:
            self._allowed = max(least, self._allowed * factor)
            self._quiet_until = self._settled + self._in_flight

    def wait_for_room(self, timeout_s: float) -> None:
        """Wait until another thread gives a permit back, at most ``timeout_s``."""
        with self._room:
            wakes = self._wakes
            self._room.wait_for(
                lambda: self._in_flight < self.limit or self._wakes != wakes, timeout_s
            )

    def wake(self) -> None:
        """Have all who wait for room look again, room or not: the store was closed."""
        with self._room:
            self._wakes += 1
            self._room.notify_all()
            told = list(self._listeners.values())
            self._listeners.clear()
        for listener in told:
            listener()

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Have ``listener`` called once, when there is room; first come, first served.

        Returns:
            What takes it back.
        """
        with self._room:
            self._tickets += 1
            ticket = self._tickets
            self._listeners[ticket] = listener
            told = self._take_listeners()
        for other in told:
            other()

        def unsubscribe() -> None:
            with self._room:
                self._listeners.pop(ticket, None)

        return unsubscribe

    def _take_listeners(self) -> list[Callable[[], None]]:
        if not self._listeners:
            return []
        # As many as there is room for: to wake all for one permit would be a stampede.
        room = min(self.limit - self._in_flight, len(self._listeners))
        return [self._listeners.popitem(last=False)[1] for _ in range(room)]


def is_overload(error: BaseException) -> bool:
    """Return whether an error means that the server cannot keep up."""
    return isinstance(error, (EngineTimeoutError, OverloadedError))


def backoff_s(attempts: int) -> float:
    """Return how long to wait before sending a request again that failed ``attempts`` times."""
    return float(BACKOFF_S * 2 ** (attempts - 1))
