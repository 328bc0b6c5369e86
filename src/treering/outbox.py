"""Where batches wait until they are written: in memory, or in a spool."""

from __future__ import annotations

import threading
from collections import deque
from typing import Protocol

from treering.core.batch import Batch


class Outbox(Protocol):
    """Batches in the order in which they were put in. Safe to use from any thread."""

    name: str
    """What it is, for messages."""
    bytes_max: int
    """The most bytes that it may hold."""
    is_durable: bool
    """Whether what was put in survives the process."""
    last_us: int
    """The latest write time that ever was in it."""
    overhead: int
    """Bytes of a put beside those of its readings."""
    rows: int
    """Readings that were in it when it was opened."""
    batches: int
    """Batches that were in it when it was opened."""

    @property
    def bytes(self) -> int:
        """Bytes of the batches inside."""
        ...

    def put(self, batch: Batch) -> None:
        """Take a batch, or a further part of the last one; durable when it returns.

        Raises:
            EngineError: It was not taken.
        """
        ...

    def first(self) -> Batch:
        """Return the oldest batch, whole: all parts that have its write time."""
        ...

    def done(self, batch: Batch) -> None:
        """Forget the oldest batch, which is written."""
        ...

    def close(self) -> None:
        """Release what it holds; a durable one keeps its batches."""
        ...


class MemoryOutbox:
    """Batches in memory."""

    name = "memory"
    is_durable = False
    last_us = 0
    overhead = 0
    rows = 0
    batches = 0

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._batches: deque[Batch] = deque()
        self._bytes = 0
        self._lock = threading.Lock()

    @property
    def bytes(self) -> int:
        """Bytes of the batches inside."""
        return self._bytes

    def put(self, batch: Batch) -> None:
        """Take a whole batch."""
        with self._lock:
            self._batches.append(batch)
            self._bytes += batch.bytes

    def first(self) -> Batch:
        """Return the oldest batch."""
        return self._batches[0]

    def done(self, batch: Batch) -> None:
        """Forget the oldest batch."""
        with self._lock:
            self._batches.popleft()
            self._bytes -= batch.bytes

    def close(self) -> None:
        """Forget all."""
        with self._lock:
            self._batches.clear()
            self._bytes = 0
