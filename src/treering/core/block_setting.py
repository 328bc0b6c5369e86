"""How much work packing a block may take, by what the block is for.

Measured with pcodec 1.1 on a gauge with two decimals, 3,600 readings a block: level 4 packs 2.5 %
worse than level 8 in two thirds of the time; level 10 gains under 0.2 % for two to five times
the time on full-precision noise. Unpacking costs the same at every level.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final


class Purpose(enum.StrEnum):
    """What a block is for."""

    LIVE = "live"
    """A few readings that a writer is waiting for."""
    BULK = "bulk"
    """Closed spans and bulk loads: the setting for speed and size."""
    HISTORY = "history"
    """Written once and kept for years: the smallest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Levels of the two codecs, and whether choices are made on a sample or on the whole block."""

    pco_level: int
    zstd_level: int
    is_thorough: bool


_SETTINGS: Final = {
    Purpose.LIVE: Setting(pco_level=4, zstd_level=1, is_thorough=False),
    Purpose.BULK: Setting(pco_level=8, zstd_level=3, is_thorough=False),
    Purpose.HISTORY: Setting(pco_level=8, zstd_level=12, is_thorough=True),
}


def setting_of(purpose: Purpose) -> Setting:
    """Return the setting for a purpose."""
    return _SETTINGS[purpose]
