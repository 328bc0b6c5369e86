"""What is wrong with a block's bytes, said by whoever finds it and placed by whoever asked.

Rules of this file: codecs know what they found and what they expected; only the caller knows which
block it is and where the part lies in it, so the error that users see is made in one place.
"""

from __future__ import annotations

from typing import Final

from treering.errors import CorruptDataError

_HINT: Final = (
    "restore what holds the block from a replica or a backup; all other blocks are readable"
)


class BlockDamage(Exception):
    """Bytes that no writer of this version makes.

    Args:
        found: What is there.
        expected: What had to be there.
    """

    def __init__(self, *, found: str, expected: str) -> None:
        super().__init__(f"found {found}, expected {expected}")
        self.found = found
        self.expected = expected


def damaged_block(damage: BlockDamage, *, place: str, part: str, offset: int) -> CorruptDataError:
    """Return the error for a damaged part of a block.

    Args:
        damage: What is wrong.
        place: Which block it is: series and span, and the file or table that holds it.
        part: The part of the block, such as ``the column value``.
        offset: Where that part begins, in bytes from the start of the block.
    """
    return CorruptDataError(
        f"{place} is damaged in {part} at byte {offset}: found {damage.found}, "
        f"expected {damage.expected}",
        hint=_HINT,
        place=place,
        part=part,
        offset=offset,
        found=damage.found,
        expected=damage.expected,
        retryable=False,
    )
