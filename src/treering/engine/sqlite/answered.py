"""Blocks whose statistics do in place of their readings.

Rules of this file: everything happens in the read transaction in which the readings of the page
are read; a block answers only where it lies wholly inside of what is asked for and no row lies
within it, so that nothing is in two places. A deletion needs no look: it took its cells out of the
block in the transaction that remembered it. What is not found to answer is unpacked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from treering.engine.protocol import Answers
from treering.engine.sqlite.block_table import BlockTable, StoredBlock
from treering.engine.sqlite.merged import Ask

if TYPE_CHECKING:
    from treering.core.block import BlockStats

_FIRST: Final = 4
"""How many blocks are asked about at first: about those of a page of readings."""

_GROUP_MAX: Final = 1_024


def find_answered(
    table: BlockTable,
    blocks: Sequence[StoredBlock],
    ask: Ask,
    has_rows: Callable[[StoredBlock], bool],
) -> dict[StoredBlock, BlockStats]:
    """Return the blocks that answer, each with what it says.

    Blocks are looked at in the page's order, and no further than the page reaches at most: where
    none answers, few headers are read in vain.

    Args:
        table: Where the blocks are.
        blocks: Those that may hold event times wanted, ascending.
        ask: What is wanted.
        has_rows: Whether there are rows within a block, from its first to its last event time.
    """
    found: dict[StoredBlock, BlockStats] = {}
    if ask.answers is None:
        return found
    inside = [block for block in blocks if ask.start <= block.first and block.last < ask.end]
    if not ask.is_ascending:
        inside.reverse()
    names = {column.name for column in ask.columns}
    at, size, readings = 0, _FIRST, 0
    while at < len(inside) and readings < ask.rows_max:
        group = inside[at : at + size]
        told: dict[StoredBlock, BlockStats] = {}
        for block in group:
            stats = None if has_rows(block) else table.stats(block)
            if stats is not None and names <= stats.columns.keys():
                told[block] = stats
        answering = _chosen(told, ask.answers)
        found |= answering
        readings += sum(block.count for block in group if block not in answering)
        at += size
        size = min(2 * size, _GROUP_MAX) if 2 * len(answering) >= len(group) else _FIRST
    return found


def _chosen(told: dict[StoredBlock, BlockStats], answers: Answers) -> dict[StoredBlock, BlockStats]:
    if not told:
        return {}
    mask = answers(tuple(told.values())).tolist()
    return {block: told[block] for block, is_chosen in zip(told, mask, strict=True) if is_chosen}
