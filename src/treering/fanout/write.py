"""Sending many partition writes side by side: which to send next, and which were given up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from treering.core.write_plan import PartitionWrite
from treering.errors import EngineError
from treering.fanout.permits import ATTEMPTS_MAX, Permits, backoff_s

BYTES_IN_FLIGHT_MAX: Final = 32_000_000


class WriteFanOut:
    """Sends partition writes side by side, bounded in requests and bytes."""

    def __init__(
        self,
        writes: Iterator[PartitionWrite],
        permits: Permits,
        *,
        attempts_max: int = ATTEMPTS_MAX,
    ) -> None:
        self._writes = writes
        self._permits = permits
        self._attempts_max = attempts_max
        self._retries: list[_Sent] = []
        self._next: PartitionWrite | None = next(writes, None)
        self._in_flight = 0
        self._bytes = 0
        self._failed: list[tuple[PartitionWrite, EngineError]] = []
        self.rows_acknowledged = 0

    @property
    def is_done(self) -> bool:
        """Whether every write was acknowledged or given up."""
        return self._in_flight == 0 and not self._retries and self._next is None

    @property
    def failed(self) -> tuple[tuple[PartitionWrite, EngineError], ...]:
        """The writes that were given up, with the reason of each."""
        return tuple(self._failed)

    def start(self, now_s: float) -> list[_Sent]:
        """Return the writes to send now; delayed retries that are due come first."""
        requests = []
        while self._bytes < BYTES_IN_FLIGHT_MAX or self._in_flight == 0:
            if not self._has_due(now_s) or not self._permits.try_acquire():
                break
            request = self._take_due(now_s)
            self._in_flight += 1
            self._bytes += write_bytes(request.write)
            requests.append(request)
        return requests

    def _has_due(self, now_s: float) -> bool:
        return self._next is not None or any(sent.due_s <= now_s for sent in self._retries)

    def _take_due(self, now_s: float) -> _Sent:
        for place, sent in enumerate(self._retries):
            if sent.due_s <= now_s:
                return self._retries.pop(place)
        assert self._next is not None, "asked for a write although none is due"
        sent = _Sent(self._next)
        self._next = next(self._writes, None)
        return sent

    def wake_s(self) -> float | None:
        """Return when the next delayed retry is due."""
        return min((request.due_s for request in self._retries), default=None)

    def on_result(self, request: _Sent, _result: Any) -> None:
        """Take an acknowledgement."""
        self._settle(request)
        self.rows_acknowledged += len(request.write)

    def on_error(self, request: _Sent, error: EngineError, now_s: float) -> None:
        """Take a failure: send the same write again later, or give it up.

        After a write was given up no new one is started; those under way are waited for.
        """
        self._settle(request)
        request.attempts += 1
        if error.retryable and request.attempts < self._attempts_max:
            request.due_s = now_s + backoff_s(request.attempts)
            self._retries.append(request)
            return
        self._failed.append((request.write, error))
        # Nothing new is sent after a failure; what was not sent is not acknowledged.
        self._next = None

    def _settle(self, request: _Sent) -> None:
        self._in_flight -= 1
        self._bytes -= write_bytes(request.write)


@dataclass(slots=True)
class _Sent:
    """A write on its way, with its history."""

    write: PartitionWrite
    attempts: int = 0
    due_s: float = 0.0


def write_bytes(write: PartitionWrite) -> int:
    """Return about how many bytes a write holds while it is in flight."""
    # Text is counted at 64 bytes a value: its true length would cost a pass over every value.
    per_value = [
        64 if d.values.dtype == object else d.values.itemsize for d in write.columns.values()
    ]
    return len(write) * (8 + sum(per_value))
