"""Blocks whose statistics do in place of their readings.

Rules of this file: everything happens in the read transaction in which the readings of the page
are read; a block answers only where it lies wholly inside of what is asked for and no row lies
within it, so that nothing is in two places. A deletion needs no look: it took its cells out of the
block in the transaction that remembered it. What is not found to answer is unpacked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from treering.engine.protocol import Answers
from treering.engine.sqlite.block_table import BlockTable, StoredBlock
from treering.engine.sqlite.merged import Ask

if TYPE_CHECKING:
    from treering.core.block import BlockStats

_GROUP: Final = 64
"""How many blocks are asked about at once; so many headers a page may be read in vain."""


def find_answered(
    table: BlockTable,
    blocks: Sequence[StoredBlock],
    ask: Ask,
    has_rows: Callable[[int, int], bool],
) -> dict[StoredBlock, BlockStats]:
    """Return the blocks that answer, each with what it says.

    Blocks are looked at in the page's order, and no further than the page reaches at most.

    Args:
        table: Where the blocks are.
        blocks: Those that may hold event times wanted, ascending.
        ask: What is wanted.
        has_rows: Whether there are rows from one event time to another, both included.
    """
    found: dict[StoredBlock, BlockStats] = {}
    if ask.answers is None:
        return found
    inside = [block for block in blocks if ask.start <= block.first and block.last < ask.end]
    if not inside:
        return found
    may = ask.answers.may_answer(
        np.array([block.first for block in inside], dtype=np.int64),
        np.array([block.last for block in inside], dtype=np.int64),
    )
    names = {column.name for column in ask.columns}
    asked = list(zip(inside, may.tolist(), strict=True))[:: 1 if ask.is_ascending else -1]
    at, readings = 0, 0
    while at < len(asked) and readings < ask.rows_max:
        group = asked[at : at + _GROUP]
        edges = sorted((group[0][0], group[-1][0]), key=lambda block: block.first)
        is_free = not has_rows(edges[0].first, edges[1].last)
        told: dict[StoredBlock, BlockStats] = {}
        for block, may_answer in group:
            if not may_answer or not (is_free or not has_rows(block.first, block.last)):
                continue
            stats = table.stats(block)
            if stats is not None and names <= stats.columns.keys():
                told[block] = stats
        found |= _chosen(told, ask.answers)
        readings += sum(block.readings for block, _ in group if block not in found)
        at += _GROUP
    return found


def _chosen(told: dict[StoredBlock, BlockStats], answers: Answers) -> dict[StoredBlock, BlockStats]:
    if not told:
        return {}
    mask = answers.answers(tuple(told.values())).tolist()
    return {block: told[block] for block, is_chosen in zip(told, mask, strict=True) if is_chosen}
