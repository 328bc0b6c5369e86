"""Sending many partition writes side by side: which to send next, and which were given up.

The unit is a group: one partition write, or several small ones where the engine writes them
together for the price of one.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

from treering.core.write_plan import PartitionWrite
from treering.errors import TreeringError
from treering.fanout.permits import ATTEMPTS_MAX, Permits, backoff_s

BYTES_IN_FLIGHT_MAX: Final = 32_000_000


WriteGroup = tuple[PartitionWrite, ...]


class WriteFanOut:
    """Sends partition writes side by side, bounded in requests and bytes."""

    def __init__(
        self,
        groups: Iterator[WriteGroup],
        permits: Permits,
        *,
        attempts_max: int = ATTEMPTS_MAX,
    ) -> None:
        self._groups = groups
        self._permits = permits
        self._attempts_max = attempts_max
        self._retries: list[_Sent] = []
        self._next: WriteGroup | None = next(groups, None)
        self._in_flight = 0
        self._bytes = 0
        self._failed: list[tuple[WriteGroup, TreeringError]] = []
        self.rows_acknowledged = 0
        self.partitions_sent = 0
        self.retries = 0
        self.rows_retried = 0

    @property
    def is_done(self) -> bool:
        """Whether every write was acknowledged or given up."""
        return self._in_flight == 0 and not self._retries and self._next is None

    @property
    def failed(self) -> tuple[tuple[WriteGroup, TreeringError], ...]:
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
            self._bytes += request.bytes
            requests.append(request)
        return requests

    def _has_due(self, now_s: float) -> bool:
        return self._next is not None or any(sent.due_s <= now_s for sent in self._retries)

    def _take_due(self, now_s: float) -> _Sent:
        for place, sent in enumerate(self._retries):
            if sent.due_s <= now_s:
                return self._retries.pop(place)
        assert self._next is not None, "asked for a write although none is due"
        sent = _Sent(self._next, sum(map(len, self._next)), group_bytes(self._next))
        self.partitions_sent += len(sent.group)
        self._next = next(self._groups, None)
        return sent

    def wake_s(self) -> float | None:
        """Return when the next delayed retry is due."""
        return min((request.due_s for request in self._retries), default=None)

    def on_arrival(self, request: _Sent, future: Future[Any]) -> None:
        """Nothing follows from an answer before it is looked at."""

    def on_result(self, request: _Sent, _result: Any) -> None:
        """Take an acknowledgement."""
        self._settle(request)
        self.rows_acknowledged += request.rows

    def on_error(self, request: _Sent, error: TreeringError, now_s: float) -> None:
        """Take a failure: send the same write again later, or give it up.

        After a write was given up no new one is started; those under way are waited for.
        """
        self._settle(request)
        request.attempts += 1
        if error.retryable and request.attempts < self._attempts_max:
            request.due_s = now_s + backoff_s(request.attempts)
            self._retries.append(request)
            self.retries += 1
            self.rows_retried += request.rows
            return
        self._failed.append((request.group, error))
        # Nothing new is sent after a failure; what was not sent is not acknowledged.
        self._next = None

    def _settle(self, request: _Sent) -> None:
        self._in_flight -= 1
        self._bytes -= request.bytes


@dataclass(slots=True)
class _Sent:
    """A group on its way, with its history."""

    group: WriteGroup
    rows: int
    bytes: int
    attempts: int = 0
    due_s: float = 0.0


def groups_of(writes: Iterator[PartitionWrite], rows_max: int) -> Iterator[WriteGroup]:
    """Yield writes in groups of at most ``rows_max`` readings; larger ones on their own."""
    group: list[PartitionWrite] = []
    rows = 0
    for write in writes:
        if group and rows + len(write) > rows_max:
            yield tuple(group)
            group, rows = [], 0
        group.append(write)
        rows += len(write)
    if group:
        yield tuple(group)


def group_bytes(group: WriteGroup) -> int:
    """Return about how many bytes a group holds while it is in flight."""
    return sum(len(write) * _row_bytes(write) for write in group)


def _row_bytes(write: PartitionWrite) -> int:
    # Text is counted at 64 bytes a value: its true length would cost a pass over every value.
    return 8 + sum(
        64 if data.values.dtype == object else data.values.itemsize
        for data in write.columns.values()
    )
