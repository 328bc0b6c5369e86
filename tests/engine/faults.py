"""An engine that is slow and fails as told, around the memory engine: for fan-out and retries."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from treering.core.delete_plan import PartitionDelete
from treering.core.table import TableSpec
from treering.core.write_plan import PartitionWrite
from treering.engine.memory import MemoryEngine
from treering.engine.protocol import Page, PageRead
from treering.errors import EngineError, StoreClosedError

Fault = Callable[[int, Any], EngineError | None]
"""From the number of a request, from 1, and the request to its failure; None: it succeeds."""


class FaultyEngine(MemoryEngine):
    """Answers on threads of its own after a delay, and fails where ``fault`` says so.

    Attributes:
        requests: Every request that arrived, in order.
        in_flight_peak: The most that were under way at once.
    """

    name = "faulty"
    write_rows_max = 100

    def __init__(
        self,
        *,
        fault: Fault = lambda _number, _request: None,
        threads: int = 16,
        in_flight_max: int = 16,
        gate: threading.Event | None = None,
    ) -> None:
        super().__init__()
        self.in_flight_max = in_flight_max
        self.requests: list[Any] = []
        self.in_flight_peak = 0
        self._fault = fault
        self._gate = gate
        self._pool = ThreadPoolExecutor(threads)
        self._in_flight = 0
        self._count_lock = threading.Lock()

    def submit_write(self, spec: TableSpec, write: PartitionWrite) -> Future[None]:
        """Start a write on a thread."""
        return self._start(write, lambda: self._write(spec, write))

    def submit_delete(self, spec: TableSpec, delete: PartitionDelete) -> Future[None]:
        """Start a deletion on a thread."""
        return self._start(delete, lambda: self._delete(spec, delete))

    def submit_read(self, spec: TableSpec, read: PageRead) -> Future[Page]:
        """Start a read on a thread."""
        return self._start(read, lambda: self._read(spec, read))

    def _start(self, request: Any, work: Callable[[], Any]) -> Future[Any]:
        with self._count_lock:
            self.requests.append(request)
            number = len(self.requests)
            self._in_flight += 1
            self.in_flight_peak = max(self.in_flight_peak, self._in_flight)
        try:
            return self._pool.submit(self._answer, number, request, work)
        except RuntimeError as error:
            # The pool was shut down by close, on another thread.
            raise StoreClosedError("the store is closed") from error

    def _answer(self, number: int, request: Any, work: Callable[[], Any]) -> Any:
        try:
            if self._gate is not None:
                self._gate.wait(60)
            error = self._fault(number, request)
            if error is not None:
                raise error
            return work()
        finally:
            with self._count_lock:
                self._in_flight -= 1

    def close(self) -> None:
        """Wait for what is under way, then forget everything."""
        super().close()
        self._pool.shutdown(wait=True, cancel_futures=True)
