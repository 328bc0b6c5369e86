"""Sealing in the background: a little after each write, the rest when the store is closed.

Rules of this file: there is no thread of its own; a write that was acknowledged never fails because
of what is sealed after it; work is found in the files, so that nothing is forgotten by a crash:
the first write of a process to a table also looks at the segments before.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

from treering.core.segment import Segment
from treering.core.span import span_length_s
from treering.core.table import TableSpec
from treering.engine.sqlite.block_table import SealRules
from treering.engine.sqlite.sealing import BEGIN, Place, Sealed
from treering.engine.sqlite.segment_file import SegmentFile
from treering.errors import TreeringError

CLOSE_S: Final = 10.0
"""How long closing a store seals at most, in seconds; the next who writes goes on."""

_SEGMENTS_MAX: Final = 1_024
_PASS_S: Final = range(30, 3_601)

Key = tuple[str, int, Segment]
FileLease = Callable[[TableSpec, Segment], AbstractContextManager[SegmentFile | None]]


@dataclass(slots=True)
class _Pass:
    """Where the sealing of one segment stands.

    Attributes:
        spec: The table.
        place: Where the pass goes on.
        due_s: When, in epoch seconds.
        has_sealed: Whether this pass sealed anything.
    """

    spec: TableSpec
    place: Place = BEGIN
    due_s: float = 0.0
    has_sealed: bool = False


class Sealer:
    """Seals the segments that this process writes to.

    Args:
        lease: Holds a segment's open file; gives None where there is none.
        rules: When readings become blocks.
        clock: The present, in epoch seconds.
    """

    def __init__(
        self, lease: FileLease, rules: SealRules, clock: Callable[[], float] = time.time
    ) -> None:
        self._lease = lease
        self._rules = rules
        self._clock = clock
        self._passes: dict[Key, _Pass] = {}
        self._tables: set[tuple[str, int]] = set()
        self._turn = threading.Lock()

    def is_new(self, spec: TableSpec) -> bool:
        """Return whether nothing was added of this table yet, and whether that is of interest."""
        return self._rules.is_on and (spec.name, spec.incarnation) not in self._tables

    def add(self, spec: TableSpec, segments: Iterable[Segment]) -> None:
        """Take note of segments that may have rows to seal."""
        if not self._rules.is_on:
            return
        self._tables.add((spec.name, spec.incarnation))
        for segment in segments:
            key = (spec.name, spec.incarnation, segment)
            if key not in self._passes and len(self._passes) < _SEGMENTS_MAX:
                self._passes[key] = _Pass(spec)

    def work(self) -> None:
        """Do one step where one is due; who comes while another thread is at it does nothing."""
        if not self._passes or not self._turn.acquire(blocking=False):
            return
        try:
            now_s = self._clock()
            due = next((k for k, one in list(self._passes.items()) if one.due_s <= now_s), None)
            if due is not None:
                self._step(due, now_s)
        finally:
            self._turn.release()

    def finish(self) -> None:
        """Seal what is closed in all segments that were written to, for a bounded time."""
        ends_s = time.monotonic() + CLOSE_S
        with self._turn:
            for key in list(self._passes):
                if key in self._passes:
                    self._passes[key].place = BEGIN
                while time.monotonic() < ends_s and key in self._passes:
                    if self._step(key, self._clock()):
                        break

    def _step(self, key: Key, now_s: float) -> bool:
        """Do one step of a pass; return whether the pass is through."""
        one, segment = self._passes[key], key[2]
        try:
            after = self._seal(one, segment, now_s)
        except TreeringError:
            # Busy, damaged or full: rows are as good where they are.
            after = None
        if after is not None:
            one.place = after
            return False
        if key not in self._passes:
            return True
        length_s = self._rules.span_s or span_length_s(one.spec)
        one.place, one.has_sealed = BEGIN, False
        one.due_s = now_s + max(_PASS_S[0], min(length_s // 4, _PASS_S[-1]))
        # In the order in which they are due, as near as it matters.
        self._passes[key] = self._passes.pop(key)
        return True

    def _seal(self, one: _Pass, segment: Segment, now_s: float) -> Place | None:
        with self._lease(one.spec, segment) as file:
            if file is None:
                self._passes.pop((one.spec.name, one.spec.incarnation, segment), None)
                return None
            after, sealed = file.seal(one.place, closed_before=self.closed_before(one.spec, now_s))
            one.has_sealed |= bool(sealed.readings)
            if after is None and one.has_sealed and segment.end_s + self._rules.late_s <= now_s:
                file.give_back()
        return after

    def closed_before(self, spec: TableSpec, now_s: float) -> int:
        """Return until when spans have to end to be closed, in ticks."""
        return (int(now_s) - self._rules.late_s) * spec.precision.per_s


def seal_segment(
    lease: FileLease, spec: TableSpec, segment: Segment, *, closed_before: int
) -> Sealed:
    """Seal all that is closed in one segment, step by step, and give its free pages back."""
    sealed, place = Sealed(), BEGIN
    while True:
        # Between two steps whoever waits for the file has a turn.
        with lease(spec, segment) as file:
            if file is None:
                return sealed
            after, step = file.seal(place, closed_before=closed_before)
        sealed.add(step)
        if after is None:
            break
        place = after
    while sealed.readings:
        with lease(spec, segment) as file:
            if file is None or not file.give_back():
                break
    return sealed
