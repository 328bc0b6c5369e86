"""What a store did so far: requests, rows, refusals and latencies, by verb.

Rules of this file: counting costs a lock and a few additions for each request, which carries up to
thousands of readings; nothing grows with the number of requests; numbers only rise.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from treering.core.histogram import Histogram, LatencyStats
from treering.core.write_plan import Reason, WritePlan
from treering.fanout.permits import Permits

_REASONS = tuple(Reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerbStats:
    """What one verb of all tables of a store did so far.

    Attributes:
        calls: How often it was called and came to an end.
        calls_failed: How many calls failed, by the name of the error.
        requests: Requests sent to the engine, repeated ones included.
        requests_failed: Requests that failed, by the name of the error.
        retries: How many requests were sent again after a failure.
        partitions: Partitions that requests were sent for.
        rows: Readings acknowledged, or returned.
        call_latency: How long calls took as a whole.
        request_latency: How long requests took, from sending to their outcome.
    """

    calls: int
    calls_failed: Mapping[str, int]
    requests: int
    requests_failed: Mapping[str, int]
    retries: int
    partitions: int
    rows: int
    call_latency: LatencyStats
    request_latency: LatencyStats


_CHANGES: Final = frozenset({"write", "delete"})


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStats:
    """What a store did so far.

    Attributes:
        in_flight: Requests under way now.
        in_flight_peak: The most that were ever under way at once.
        in_flight_limit: The most that may be under way now; falls when the server is overloaded.
        refused: Readings that writes refused, by the name of the reason; see ``Reason``.
        verbs: ``write``, ``read``, ``scan``, ``latest``, ``count``, ``explain`` and ``delete``, as
            far as they asked the engine. A scan's call lasts as long as its consumer takes.
    """

    in_flight: int
    in_flight_peak: int
    in_flight_limit: int
    refused: Mapping[str, int]
    verbs: Mapping[str, VerbStats]

    @property
    def requests(self) -> int:
        """Requests sent by all verbs."""
        return sum(verb.requests for verb in self.verbs.values())

    @property
    def retries(self) -> int:
        """Requests of all verbs that were sent again."""
        return sum(verb.retries for verb in self.verbs.values())

    @property
    def partitions_read(self) -> int:
        """Partitions that reads asked for."""
        return sum(verb.partitions for name, verb in self.verbs.items() if name not in _CHANGES)

    @property
    def rows_in(self) -> int:
        """Readings that writes had acknowledged."""
        return sum(verb.rows for name, verb in self.verbs.items() if name == "write")

    @property
    def rows_out(self) -> int:
        """Readings that reads returned."""
        return sum(verb.rows for name, verb in self.verbs.items() if name not in _CHANGES)

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as values that JSON takes, without the histograms' steps."""
        facts: dict[str, Any] = asdict(self)
        for verb in facts["verbs"].values():
            for name in ("call_latency", "request_latency"):
                del verb[name]["counts"]
        return facts


class VerbRecorder:
    """Counts what one verb does. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls_failed: Counter[str] = Counter()
        self._requests_failed: Counter[str] = Counter()
        self._requests = self._retries = self._partitions = self._rows = 0
        self._call_latency = Histogram()
        self._request_latency = Histogram()

    def on_sent(self) -> None:
        """Count a request that is sent."""
        with self._lock:
            self._requests += 1

    def on_settled(self, duration_s: float) -> None:
        """Count how long a request took, whatever its outcome."""
        with self._lock:
            self._request_latency.add(duration_s)

    def on_failed(self, error: BaseException, retries: int) -> None:
        """Count a request that failed, and whether it is sent again."""
        with self._lock:
            self._requests_failed[type(error).__name__] += 1
            self._retries += retries

    def on_end(self, *, partitions: int, rows: int) -> None:
        """Count what a fan-out touched and what came of it."""
        with self._lock:
            self._partitions += partitions
            self._rows += rows

    def on_call(self, duration_s: float, error: BaseException | None) -> None:
        """Count a call that came to its end."""
        with self._lock:
            self._call_latency.add(duration_s)
            if error is not None:
                self._calls_failed[type(error).__name__] += 1

    def stats(self) -> VerbStats:
        """Return what was counted so far."""
        with self._lock:
            calls = self._call_latency.stats()
            return VerbStats(
                calls=calls.count,
                calls_failed=dict(self._calls_failed),
                requests=self._requests,
                requests_failed=dict(self._requests_failed),
                retries=self._retries,
                partitions=self._partitions,
                rows=self._rows,
                call_latency=calls,
                request_latency=self._request_latency.stats(),
            )


class StatsRecorder:
    """Counts what a store does. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._verbs: dict[str, VerbRecorder] = {}
        self._refused = np.zeros(len(_REASONS), dtype=np.int64)

    def verb(self, name: str) -> VerbRecorder:
        """Return what counts one verb; made when it is first asked for."""
        with self._lock:
            found = self._verbs.get(name)
            if found is None:
                found = self._verbs[name] = VerbRecorder()
            return found

    @contextmanager
    def call(self, verb: str) -> Iterator[None]:
        """Count the call of a verb, and how long what stands inside takes."""
        began_s = time.perf_counter()
        try:
            yield
        except BaseException as error:
            self.verb(verb).on_call(time.perf_counter() - began_s, error)
            raise
        self.verb(verb).on_call(time.perf_counter() - began_s, None)

    def on_refused(self, plans: Iterable[WritePlan]) -> None:
        """Count the readings that plans refused."""
        counts = [
            np.bincount(plan.refused_reason, minlength=len(_REASONS))
            for plan in plans
            if len(plan.refused_reason)
        ]
        with self._lock:
            for count in counts:
                self._refused += count

    def stats(self, permits: Permits) -> StoreStats:
        """Return what was counted so far."""
        with self._lock:
            verbs = dict(self._verbs)
            refused = self._refused.tolist()
        return StoreStats(
            in_flight=permits.in_flight,
            in_flight_peak=permits.in_flight_peak,
            in_flight_limit=permits.limit,
            refused={r.name: n for r, n in zip(_REASONS, refused, strict=True) if n},
            verbs={name: recorder.stats() for name, recorder in sorted(verbs.items())},
        )
