"""Deletions that are remembered, so that a late write with an earlier write time stays dead.

Rules of this file: Cassandra's rule for every engine: a deletion wins over each cell of its range
that was written at its time or before, also on a tie, whenever the cell arrives; one deletion that
covers another makes that one superfluous.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Deletion:
    """Cells of event times ``[start, end)`` written at ``write_us`` or before are gone."""

    start: int
    end: int
    write_us: int

    def covers(self, other: Deletion) -> bool:
        """Return whether the other one changes nothing beside this one."""
        is_inside = self.start <= other.start and other.end <= self.end
        return is_inside and other.write_us <= self.write_us


def dead_mask(
    deletions: Iterable[Deletion], ts: npt.NDArray[np.int64], write_us: int
) -> npt.NDArray[np.bool_]:
    """Return which event times of a write are dead on arrival."""
    dead = np.zeros(len(ts), dtype=np.bool_)
    for deletion in deletions:
        if write_us <= deletion.write_us:
            dead |= (ts >= deletion.start) & (ts < deletion.end)
    return dead


def with_deletion(deletions: Iterable[Deletion], added: Deletion) -> list[Deletion]:
    """Return the deletions with one more, without those that it makes superfluous."""
    kept = list(deletions)
    if any(deletion.covers(added) for deletion in kept):
        return kept
    return [*(deletion for deletion in kept if not added.covers(deletion)), added]
