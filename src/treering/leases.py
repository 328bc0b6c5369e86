"""The widths of a table's series as one client holds them, for the length of a lease.

Rules of this file: what is held serves event times below the time of reading, the table's future
limit and a lease, and is read again before the present reaches beyond that; a refresh asks for what
changed only; only series that deviate from the table's width are held, so a million ordinary series
cost nothing but the names that this process touched.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from treering.core.series import SeriesRecord
from treering.core.table import TableSpec
from treering.core.widths import CLOCK_BOUND_S, LEASE_S, History
from treering.engine.protocol import Engine
from treering.errors import EngineError

KNOWN_MAX: Final = 1_000_000
"""How many names of listed series one table remembers; beyond it forgets and looks again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTerms:
    """How long widths may be held, and by which clocks. All clients of a table share the length.

    Attributes:
        length_s: The length of a lease, in seconds.
        clock_bound_s: How far this machine's clock may be from the server's.
        elapsed_s: A clock that only goes forward, in seconds.
        wall_s: This machine's clock, in epoch seconds: what write times come from.
    """

    length_s: float = LEASE_S
    clock_bound_s: float = CLOCK_BOUND_S
    elapsed_s: Callable[[], float] = time.monotonic
    wall_s: Callable[[], float] = time.time


class SeriesLease:
    """The series of one table as one store sees them. Safe to use from any thread.

    Attributes:
        terms: How long widths may be held.
        refreshes: How often widths were read.
    """

    def __init__(self, spec: TableSpec, engine: Engine, terms: LeaseTerms) -> None:
        self.terms = terms
        self.refreshes = 0
        self._spec = spec
        self._engine = engine
        self._lock = threading.RLock()
        self._histories: dict[str, History] = {}
        self._interned: dict[History, History] = {}
        self._known: set[str] = set()
        self._seen: Any = None
        self._until_s = -1.0
        self._end_ts = 0
        self._off_s = 0.0
        self._durable_until_s = -1.0

    @property
    def deviating(self) -> int:
        """How many series have widths of their own."""
        return len(self._histories)

    def is_known(self, name: str) -> bool:
        """Return whether the series was seen in the catalog."""
        return name in self._known

    def forget(self, names: Iterable[str] = ()) -> None:
        """Read the widths again before they are used next, and look for these series again."""
        with self._lock:
            self._until_s = -1.0
            self._known.difference_update(names)

    def widths_to_read(self, names: Sequence[str], now_ts: int) -> dict[str, History]:
        """Return the widths of those of the series that deviate, as a read needs them.

        Series that this process did not see before are looked for in the catalog: one that was
        added since the lease began may have a width of its own, and readings already.

        Cost:
            Once a lease a request for each shard of the catalog; one look for new names.
        """
        self._hold(now_ts)
        new = tuple(name for name in names if name not in self._known)
        if new:
            loaded = self._engine.load_series(self._spec, new, lease_s=self.terms.length_s)
            self._learn(loaded.values(), now_ts)
        return self._of(names)

    def widths_to_write(self, names: Iterable[str], now_ts: int) -> dict[str, History]:
        """Return the widths of those of the series that deviate, as far as they are known.

        Raises:
            EngineError: This machine's clock is too far from the server's.
            UsageError: What is acknowledged would not be durable.
        """
        self._hold(now_ts)
        self._check_clock()
        self.check_durable()
        return self._of(names)

    def enter(self, series: Iterable[str | SeriesRecord], now_ts: int) -> tuple[SeriesRecord, ...]:
        """List series before they are written to; return what the catalog has of each."""
        self.check_durable()
        records = self._engine.add_series(self._spec, tuple(series))
        self._learn(records, now_ts)
        return records

    def check_durable(self) -> None:
        """Refuse to write where an acknowledgement would not mean durable; looks once a lease.

        Raises:
            UsageError: Says what to change; once that is done, the next call goes through.
        """
        now_s = self.terms.elapsed_s()
        if now_s >= self._durable_until_s:
            self._engine.check_durable(self._spec)
            self._durable_until_s = now_s + self.terms.length_s

    def _learn(self, records: Iterable[SeriesRecord], now_ts: int) -> None:
        records = tuple(records)
        # A series can be entered with a width of its own at any time: its history is in what
        # changed since the lease began.
        if any(record.widths and record.name not in self._histories for record in records):
            with self._lock:
                self._refresh(now_ts)
        with self._lock:
            if len(self._known) + len(records) > KNOWN_MAX:
                self._known = set()
            self._known.update(record.name for record in records)

    def _of(self, names: Iterable[str]) -> dict[str, History]:
        held = self._histories
        return {name: held[name] for name in names if name in held} if held else {}

    def _hold(self, now_ts: int) -> None:
        if self._is_held(now_ts):
            return
        with self._lock:
            if not self._is_held(now_ts):
                self._refresh(now_ts)

    def _is_held(self, now_ts: int) -> bool:
        limit = self._spec.future_limit_s * self._spec.precision.per_s
        return self.terms.elapsed_s() < self._until_s and now_ts + limit < self._end_ts

    def _refresh(self, now_ts: int) -> None:
        terms, per_s = self.terms, self._spec.precision.per_s
        # The lease counts from before the reading: what changes meanwhile may be missed.
        began_s = terms.elapsed_s()
        self._off_s = self._clock_off_s()
        news = self._engine.read_widths(self._spec, self._seen, lease_s=terms.length_s)
        for name, history in news.histories.items():
            if history:
                self._histories[name] = self._interned.setdefault(history, history)
            else:
                self._histories.pop(name, None)
        self._seen = news.seen
        self._until_s = began_s + terms.length_s
        self._end_ts = now_ts + round((self._spec.future_limit_s + terms.length_s) * per_s)
        self.refreshes += 1

    def _clock_off_s(self) -> float:
        """Return by how much this machine's clock is certainly off the server's."""
        before_s = self.terms.wall_s()
        server_s = self._engine.server_time_s()
        after_s = self.terms.wall_s()
        if server_s is None:
            return 0.0
        off_s = (before_s + after_s) / 2 - server_s
        uncertain_s = max(after_s - before_s, 0.0) / 2
        return max(abs(off_s) - uncertain_s, 0.0) * (1 if off_s > 0 else -1)

    def _check_clock(self) -> None:
        if abs(self._off_s) <= self.terms.clock_bound_s:
            return
        with self._lock:
            # It may have been set right since.
            self._off_s = self._clock_off_s()
        if abs(self._off_s) > self.terms.clock_bound_s:
            raise EngineError(
                f"this machine's clock is {abs(self._off_s):.1f} s "
                f"{'ahead of' if self._off_s > 0 else 'behind'} the server's, more than "
                f"{self.terms.clock_bound_s:g} s: nothing was written to {self._spec.name}",
                hint="set the clock, by NTP for instance; write times and expiry depend on it",
                off_s=self._off_s,
            )
