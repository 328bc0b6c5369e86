"""What a table shares with its store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final
from weakref import WeakSet

from treering.clock import Clock, WriteClock
from treering.core.units import YEAR_S
from treering.engine.deadline import deadline_in
from treering.engine.protocol import Engine
from treering.fanout.permits import Permits
from treering.stats import StatsRecorder
from treering.writer import Writer

TIMEOUT_S: Final = 300.0
"""How long one call may take as a whole unless the caller says otherwise."""

LOOK_BACK_S: Final = 10 * YEAR_S
"""How far back a search goes where readings are kept for ever."""

ROWS_ANY: Final = 2**63
"""The bound of readings where none is kept, so that their number bounds nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableContext:
    """What a table shares with its store.

    Attributes:
        engine: Where readings are kept.
        clock: The present, in epoch nanoseconds.
        write_clock: Where write times come from.
        permits: Requests in flight, over all threads of the store.
        is_closed: Whether the store was closed.
        stats: What counts what is done.
        writers: Those that are open; the store closes them first.
    """

    engine: Engine
    clock: Clock
    write_clock: WriteClock
    permits: Permits
    is_closed: Callable[[], bool]
    stats: StatsRecorder = field(default_factory=StatsRecorder)
    writers: WeakSet[Writer] = field(default_factory=WeakSet)

    @contextmanager
    def call(self, verb: str, timeout_s: float) -> Iterator[None]:
        """Count the call of a verb, and bound by its timeout all that stands inside."""
        with self.stats.call(verb), deadline_in(timeout_s):
            yield
