"""Folding rows into blocks, a bounded step at a time.

Rules of this file: a step is one transaction of bounded work, so that writers who wait for it stay
well within their bound; it finds its work in the file itself, so that whoever comes next goes on
where another was killed; what cannot be sealed stays as it is, and is named.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from treering.core.schema import Column
from treering.engine.sqlite.block_table import BlockTable, Owner
from treering.engine.sqlite.row_table import RowRange, RowTable
from treering.errors import CorruptDataError, SchemaMismatchError, UsageError

STEP_ROWS_MAX: Final = 32_768
"""The most rows of one step; with the block that they are folded into, three times as many."""

STEP_SPANS_MAX: Final = 64
STEP_LOOKS_MAX: Final = 256
STEP_S: Final = 0.5
"""After so long no further span is begun in a step."""

Place = tuple[int, int]
"""Where a pass stands: the number of a series, and an event time."""

_TS_MIN: Final = -(2**63)

BEGIN: Final[Place] = (0, _TS_MIN)


@dataclass(slots=True)
class Sealed:
    """What a step, or many, came to.

    Attributes:
        readings: How many rows became part of a block.
        blocks: How many blocks were made or made anew.
        problems: What could not be sealed and why, each in one sentence.
    """

    readings: int = 0
    blocks: int = 0
    problems: list[str] = field(default_factory=list)

    def add(self, other: Sealed) -> None:
        """Add what another step came to."""
        self.readings += other.readings
        self.blocks += other.blocks
        self.problems += other.problems


class SealStep:
    """One step of a pass over a file, in a transaction of the caller's.

    Args:
        rows: The file's rows.
        blocks: The file's blocks.
        columns: The table's columns.
        closed_before: Spans that end then or before are closed, in ticks.
        name_of: Tells the name of a series, by its number.
    """

    def __init__(
        self,
        rows: RowTable,
        blocks: BlockTable,
        columns: tuple[Column, ...],
        *,
        closed_before: int,
        name_of: Callable[[int], str],
    ) -> None:
        self._rows = rows
        self._blocks = blocks
        self._columns = columns
        self._closed_before = closed_before
        self._name_of = name_of
        self.sealed = Sealed()

    def find(self, place: Place) -> tuple[Place | None, bool]:
        """Return the next row that is worth sealing, from a place on, and whether it is one.

        Returns:
            The place of that row and True; or where to look on and False, None at the end.
        """
        rules = self._blocks.rules
        for _ in range(STEP_LOOKS_MAX):
            found = self._rows.next_from(*place)
            if found is None:
                return None, False
            series_id, ts = found
            span = self._blocks.span()
            if ts - ts % span + span > self._closed_before:
                # All later spans of this series are open too.
                place = (series_id + 1, _TS_MIN)
                continue
            territory = self._blocks.territory(Owner(series_id, ""), ts)
            least = rules.rows_min
            if territory.block is not None or (
                self._rows.count(series_id, ts, territory.end, limit=least) >= least
            ):
                return found, True
            place = (series_id, territory.end)
        return place, False

    def run(self, place: Place) -> Place | None:
        """Seal from a place on, within the bounds of a step; return where to go on."""
        ends_s = time.monotonic() + STEP_S
        at, is_work = self.find(place)
        for _ in range(STEP_SPANS_MAX):
            if at is None or not is_work:
                return at
            at, is_work = self.find(self._seal(at))
            if self.sealed.readings >= STEP_ROWS_MAX or time.monotonic() > ends_s:
                break
        return at

    def _seal(self, place: Place) -> Place:
        series_id, ts = place
        owner = Owner(series_id, self._name_of(series_id))
        territory = self._blocks.territory(owner, ts)
        limit = STEP_ROWS_MAX
        wanted = RowRange(start=territory.start, end=territory.end, limit=limit)
        try:
            cells = self._rows.cells(series_id, self._columns, wanted)
            self.sealed.blocks += self._blocks.put(owner, territory, cells)
        except (CorruptDataError, SchemaMismatchError, UsageError) as error:
            # Rows over a block that cannot be read are safe where they are.
            self.sealed.problems.append(error.message)
            return series_id, territory.end
        last = int(cells.ts[-1])
        self._rows.forget(series_id, territory.start, last + 1)
        self.sealed.readings += len(cells)
        return series_id, last + 1
