"""TWCS: which window a file belongs to, and what a table's options say.

Rules of this file: a window is decided by a file's **newest** write time alone; all arithmetic
rounds towards zero as Java does, so that the window at 1970 is as long as two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeVar, get_args

from treering.core.expiry import EXPIRED_CHECK_S
from treering.core.window import UNIT_S, WindowUnit
from treering.errors import UsageError

_Text = TypeVar("_Text", bound=str)

Resolution = Literal["SECONDS", "MILLISECONDS", "MICROSECONDS", "NANOSECONDS"]
"""The unit of write times that a table declares with ``timestamp_resolution``."""

RESOLUTION_PER_S: Final[dict[Resolution, int]] = {
    "SECONDS": 1,
    "MILLISECONDS": 1_000,
    "MICROSECONDS": 1_000_000,
    "NANOSECONDS": 1_000_000_000,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TwcsOptions:
    """The compaction options of a TWCS table; the defaults are Cassandra's.

    Attributes:
        unit: ``compaction_window_unit``.
        size: ``compaction_window_size``.
        resolution: ``timestamp_resolution``.
        expired_check_s: ``expired_sstable_check_frequency_seconds``.
        ignores_overlaps: ``unsafe_aggressive_sstable_expiration``; it takes effect only where
            the server was started with its flag.
    """

    unit: WindowUnit = "DAYS"
    size: int = 1
    resolution: Resolution = "MICROSECONDS"
    expired_check_s: int = EXPIRED_CHECK_S
    ignores_overlaps: bool = False

    def __post_init__(self) -> None:
        if self.size < 1:
            raise UsageError(f"a window has at least one unit, not {self.size}")

    @property
    def window_s(self) -> int:
        """Length of a window in seconds."""
        return self.size * UNIT_S[self.unit]

    @property
    def text(self) -> str:
        """Size and unit as the options spell them, such as ``1 DAYS``."""
        return f"{self.size} {self.unit}"

    def seconds_of(self, write_time: int) -> int:
        """Return a write time, in the declared unit, as whole epoch seconds, towards zero."""
        per_s = RESOLUTION_PER_S[self.resolution]
        return -(-write_time // per_s) if write_time < 0 else write_time // per_s

    def window_start_s(self, max_write: int) -> int:
        """Return the start of the window of a file, epoch seconds.

        Mirrors ``TimeWindowCompactionStrategy.getWindowBoundsInMillis``, 3.11 to 5.0.

        Args:
            max_write: The file's newest write time, in the declared unit.

        >>> TwcsOptions().window_start_s(1_700_000_000_000_000)
        1699920000
        >>> TwcsOptions().window_start_s(-1_000_000), TwcsOptions().window_start_s(-86_400_000_000)
        (0, -86400)
        """
        write_s = self.seconds_of(max_write)
        rest_s = abs(write_s) % self.window_s
        return write_s + rest_s if write_s < 0 else write_s - rest_s


def parse_twcs_options(compaction: Mapping[str, str]) -> TwcsOptions:
    """Return what a table's compaction options say; what is left out has Cassandra's default.

    Raises:
        UsageError: A value that Cassandra would not take.
    """
    return TwcsOptions(
        unit=_one_of(compaction, "compaction_window_unit", "DAYS", get_args(WindowUnit)),
        size=_whole(compaction, "compaction_window_size", 1),
        resolution=_one_of(
            compaction, "timestamp_resolution", "MICROSECONDS", get_args(Resolution)
        ),
        expired_check_s=_whole(
            compaction, "expired_sstable_check_frequency_seconds", EXPIRED_CHECK_S
        ),
        ignores_overlaps=compaction.get("unsafe_aggressive_sstable_expiration", "").lower()
        == "true",
    )


def _one_of(
    options: Mapping[str, str], name: str, default: _Text, allowed: tuple[_Text, ...]
) -> _Text:
    given = options.get(name, default)
    for value in allowed:
        if value == given:
            return value
    raise UsageError(
        f"the option {name} is {given!r}", hint=f"use one of {', '.join(map(str, allowed))}"
    )


def _whole(options: Mapping[str, str], name: str, default: int) -> int:
    given = options.get(name, str(default)).strip()
    # More digits than any length of time has are not worth converting.
    if not (given.isascii() and given.isdigit() and len(given) <= 10):
        raise UsageError(f"the option {name} is {given!r}", hint="use a whole number")
    return int(given)
