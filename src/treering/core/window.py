"""Windows: how TWCS cuts write time into the files that later go whole.

Rules of this file: a window is a whole number of days, hours or minutes, because that is what the
table option takes; counts of windows are exact fractions until they are shown.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal, get_args

from treering.core.units import DAY_S, HOUR_S, MINUTE_S, parse_duration_s, render_duration
from treering.errors import DesignError

WindowUnit = Literal["DAYS", "HOURS", "MINUTES"]
UNIT_S: Final[dict[WindowUnit, int]] = {"DAYS": DAY_S, "HOURS": HOUR_S, "MINUTES": MINUTE_S}

WINDOWS_MIN: Final = 20
WINDOWS_BEST: Final = 30
WINDOWS_MAX: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A compaction window: ``size`` units, ``count`` of them over the retention, rounded up."""

    unit: WindowUnit
    size: int
    count: int

    def __post_init__(self) -> None:
        if self.unit not in get_args(WindowUnit):
            raise DesignError(
                f"{self.unit!r} is not a unit of windows", hint="use DAYS, HOURS or MINUTES"
            )
        if self.size < 1 or self.count < 1:
            raise DesignError(f"a window has at least 1 unit and count 1, not {self.size}")

    @property
    def length_s(self) -> int:
        """Length in seconds."""
        return self.size * UNIT_S[self.unit]

    @property
    def text(self) -> str:
        """Size and unit as the table option spells them, such as ``3 DAYS``."""
        return f"{self.size} {self.unit}"

    def over(self, retention_s: int) -> Window:
        """Return this window with the count that ``retention_s`` gives."""
        return Window(unit=self.unit, size=self.size, count=-(-retention_s // self.length_s))

    def to_json(self) -> dict[str, Any]:
        """Return unit, size and count."""
        return {"unit": self.unit, "size": self.size, "count": self.count}


def plan_window(retention_s: int) -> Window:
    """Return the window for a retention: 20 to 40 of them, as near to 30 as a whole size gets.

    The largest unit that has such a size wins; in it, the size whose count is nearest to 30, the
    larger of two equally near. From 20 minutes of retention on there always is one, since the
    sizes from a fortieth to a twentieth of it span a factor of two. A shorter retention gets the
    narrowest window there is, one minute, and fewer of them.

    >>> plan_window(90 * 86_400).text, plan_window(7 * 86_400).text
    ('3 DAYS', '6 HOURS')
    """
    for unit, unit_s in UNIT_S.items():
        smallest = -(-retention_s // (WINDOWS_MAX * unit_s))
        largest = retention_s // (WINDOWS_MIN * unit_s)
        # The best size is next to a thirtieth of the retention; no need to try them all.
        near = retention_s // (WINDOWS_BEST * unit_s)
        sizes = {min(max(size, smallest), largest) for size in (near - 1, near, near + 1, near + 2)}
        sizes = {size for size in sizes if size >= max(smallest, 1)}
        if sizes:
            size = min(sizes, key=lambda size: (_miss(retention_s, size * unit_s), -size))
            return Window(unit=unit, size=size, count=1).over(retention_s)
    return Window(unit="MINUTES", size=1, count=1).over(retention_s)


def _miss(retention_s: int, length_s: int) -> Fraction:
    return abs(Fraction(retention_s, length_s) - WINDOWS_BEST)


_OPTION = re.compile(r"^\s*(\d+)\s*(DAYS|HOURS|MINUTES)\s*$", re.IGNORECASE)


def parse_window(text: str, retention_s: int) -> Window:
    """Return the window that ``3 DAYS``, ``3d``, ``6h`` or ``90min`` names.

    Args:
        text: A length; its largest whole unit becomes the window's unit.
        retention_s: What the count is taken over.

    Raises:
        DesignError: Not a whole number of minutes, hours or days, or none.
        UsageError: Not a length of time.
    """
    if (option := _OPTION.match(text)) is not None:
        unit: WindowUnit
        for unit in UNIT_S:
            if unit == option[2].upper() and int(option[1]) >= 1:
                return Window(unit=unit, size=int(option[1]), count=1).over(retention_s)
    return window_from_length(
        0.0 if option is not None else parse_duration_s(text), retention_s=retention_s
    )


def window_from_length(length_s: float, *, retention_s: int) -> Window:
    """Return the window of that length, in its largest whole unit.

    Raises:
        DesignError: Not a whole number of minutes, or none.
    """
    for unit, unit_s in UNIT_S.items():
        size, rest = divmod(length_s, unit_s)
        if rest == 0 and size >= 1:
            return Window(unit=unit, size=math.floor(size), count=1).over(retention_s)
    raise DesignError(
        f"a window of {render_duration(length_s)} is not a whole number of minutes",
        hint="TWCS takes whole minutes, hours or days: for instance 15min, 6h or 3d",
    )
