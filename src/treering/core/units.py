"""Units of time, rate and size: text and numbers at the edge, integers inside."""

from __future__ import annotations

import datetime as dt
import enum
import math
import re
from dataclasses import dataclass
from typing import Final, Literal

from treering.errors import UsageError

MINUTE_S: Final = 60
HOUR_S: Final = 3_600
DAY_S: Final = 86_400
WEEK_S: Final = 7 * DAY_S
MONTH_S: Final = 31 * DAY_S  # The longest month: what a design has to survive.
YEAR_S: Final = 365 * DAY_S

# Event times that treering takes: what both datetime and every CQL client can show.
TIME_MIN_S: Final = -62_135_596_800  # 0001-01-01T00:00:00Z
TIME_END_S: Final = 253_402_300_800  # 10000-01-01T00:00:00Z, exclusive

TimeUnit = Literal["s", "ms", "us", "ns"]
PER_S: Final[dict[str, int]] = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


class Precision(enum.StrEnum):
    """How finely a table keeps event time: CQL ``timestamp`` for ms, ``bigint`` for us and ns.

    Attributes:
        per_s: Ticks of this precision in a second.
        ts_min: The first event time that a table of this precision takes.
        ts_end: The first event time after all that a table of this precision takes.
    """

    MS = "ms"
    US = "us"
    NS = "ns"

    def __init__(self, unit: str) -> None:
        self.per_s: int = PER_S[unit]
        self.ts_min: int = max(TIME_MIN_S * self.per_s, -(2**63) + 1)
        self.ts_end: int = min(TIME_END_S * self.per_s, 2**63 - 1)

    @classmethod
    def from_text(cls, text: str) -> Precision:
        """Return the precision of that name.

        Raises:
            UsageError: No such precision.
        """
        try:
            return cls(text)
        except ValueError:
            raise UsageError(f"{text!r} is not a precision", hint="use ms, us or ns") from None


@dataclass(frozen=True, slots=True)
class Interval:
    """Half-open event time ``[start, end)`` in ticks of ``precision``."""

    start: int
    end: int
    precision: Precision = Precision.MS

    @property
    def is_empty(self) -> bool:
        """Whether no event time lies inside."""
        return self.end <= self.start

    @property
    def length_s(self) -> float:
        """Length in seconds."""
        return max(self.end - self.start, 0) / self.precision.per_s

    def clipped(self, start: int, end: int) -> Interval:
        """Return the part of this interval that lies in ``[start, end)``."""
        first = max(self.start, start)
        # Where nothing is left, the interval is empty and not reversed: it is shown to people.
        return Interval(first, max(first, min(self.end, end)), self.precision)


_DURATION = re.compile(
    r"(?P<count>\d+(?:\.\d+)?)\s*"
    r"(?P<unit>ms|seconds?|secs?|s|months?|mo|minutes?|mins?|m|hours?|h|days?|d|weeks?|w|years?|y)",
)
_DURATION_S: Final[dict[str, float]] = {
    "ms": 0.001,
    "s": 1,
    "m": MINUTE_S,
    "h": HOUR_S,
    "d": DAY_S,
    "w": WEEK_S,
    "mo": MONTH_S,
    "y": YEAR_S,
}


def _duration_unit_s(unit: str) -> float:
    if unit in _DURATION_S:
        return _DURATION_S[unit]
    return _DURATION_S["mo" if unit.startswith("mo") else unit[0]]


def parse_duration_s(text: str | dt.timedelta) -> float:
    """Return a length of time in seconds.

    Args:
        text: ``90d``, ``1h30m``, ``15min``, ``2w``, or a ``timedelta``. A number without a unit
            is refused: whether it means seconds or days is not for us to guess. A month counts
            31 days and a year 365.

    Raises:
        UsageError: Not a length of time, no unit, negative, or not finite.

    >>> parse_duration_s("1h30m")
    5400.0
    """
    # What callers pass is not always what the annotation says: a number has no unit.
    given: object = text
    seconds = math.nan
    if isinstance(given, dt.timedelta):
        seconds = given.total_seconds()
    elif isinstance(given, str):
        seconds = _sum_of_parts_s(given)
    if not math.isfinite(seconds) or seconds < 0:
        raise UsageError(f"{text!r} is not a length of time{_why_no_duration(text)}", hint=_LENGTHS)
    return seconds


_LENGTHS: Final = "use for instance 90d, 6h, 15min, 30s, 6mo, or a combination such as 1h30m"
_BARE_NUMBER: Final = re.compile(r"\s*[+-]?\d+(\.\d*)?\s*")
_CAPITAL_M: Final = re.compile(r"\d\s*M(?![A-Za-z])")


def _why_no_duration(given: object) -> str:
    is_number = isinstance(given, (int, float)) and not isinstance(given, bool)
    if is_number or _BARE_NUMBER.fullmatch(str(given)):
        return ": it has no unit"
    if _CAPITAL_M.search(str(given)):
        return ": M may be minutes or months"
    return ""


_CALENDAR: Final = re.compile(r"\d\s*(months?|mo|years?|y)(?![a-z])", re.IGNORECASE)


def has_calendar_unit(text: str) -> bool:
    """Return whether a length of time is in months or years, of which no two are equally long."""
    return _CALENDAR.search(text) is not None


def parse_whole_s(text: str | dt.timedelta) -> int:
    """Return a length of time in whole seconds, which is what Cassandra counts in.

    Raises:
        UsageError: As :func:`parse_duration_s`, or not whole seconds.
    """
    seconds = parse_duration_s(text)
    if seconds != int(seconds):
        raise UsageError(
            f"{text!r} is not a whole number of seconds", hint="Cassandra counts in seconds"
        )
    return int(seconds)


def parse_retention_s(text: str | dt.timedelta | None) -> int | None:
    """Return how long readings are kept, in seconds; None for ``forever``.

    Raises:
        UsageError: As :func:`parse_whole_s`, or no time at all.
    """
    if text is None or (isinstance(text, str) and text.strip().lower() in _FOR_EVER):
        return None
    retention_s = parse_whole_s(text)
    if retention_s == 0:
        raise UsageError(
            f"readings cannot be kept for {text!r}",
            hint="state a retention such as 90d, or forever",
        )
    return retention_s


_FOR_EVER: Final = frozenset({"forever", "for ever", "none"})


def _float_of(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf  # An integer of hundreds of digits; the callers refuse infinity.


def _sum_of_parts_s(text: str) -> float:
    if _CAPITAL_M.search(text):
        return math.nan
    rest = text.strip().lower()
    seconds = 0.0
    seen = False
    while rest:
        match = _DURATION.match(rest)
        # The unit must not run on into further letters: '5mx' is not five minutes.
        if match is None or rest[match.end() : match.end() + 1].isalpha():
            return math.nan
        seconds += float(match["count"]) * _duration_unit_s(match["unit"])
        rest = rest[match.end() :].lstrip()
        seen = True
    return seconds if seen else math.nan


def render_duration(seconds: float) -> str:
    """Return a length of time in its largest whole units, such as ``3d`` or ``1h30m``."""
    if seconds < 1:
        return f"{seconds * 1_000:g}ms" if seconds else "0s"
    whole = round(seconds)
    parts = []
    for unit, unit_s in (("d", DAY_S), ("h", HOUR_S), ("m", MINUTE_S), ("s", 1)):
        count, whole = divmod(whole, unit_s)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts[:2])


_RATE = re.compile(r"^\s*(?P<count>\d+(?:\.\d+)?)\s*(?:/|per\s)\s*(?P<per>.+?)\s*$", re.IGNORECASE)
_COUNT = re.compile(r"^\d")


def parse_rate_hz(text: str | float) -> float:
    """Return readings a second.

    Args:
        text: ``1/s``, ``10/min``, ``1/10s``, ``4/h``, ``10Hz``, or a number a second.

    Raises:
        UsageError: Not a rate, or not above zero.

    >>> parse_rate_hz("1/10s")
    0.1
    """
    rate = math.nan
    if isinstance(text, (int, float)) and not isinstance(text, bool):
        rate = _float_of(text)
    elif (match := _RATE.match(str(text))) is not None:
        per = match["per"] if _COUNT.match(match["per"]) else f"1{match['per']}"
        per_s = _sum_of_parts_s(per)
        rate = float(match["count"]) / per_s if per_s > 0 else math.nan
    elif str(text).strip().lower().endswith("hz"):
        try:
            rate = float(str(text).strip()[:-2])
        except ValueError:
            rate = math.nan
    if not math.isfinite(rate) or rate <= 0:
        raise UsageError(
            f"{text!r} is not a rate of readings",
            hint="use for instance 1/s, 10/s, 1/min, 1/10s, 4/h or 10Hz",
        )
    return rate


def render_rate(rate_hz: float) -> str:
    """Return a rate in the unit that keeps its number between 1 and the next unit."""
    for unit, unit_s in (("s", 1), ("min", MINUTE_S), ("h", HOUR_S), ("d", DAY_S)):
        if rate_hz * unit_s >= 1 - 1e-9:
            count = rate_hz * unit_s
            return f"{count:.6g}/{unit}" if count < 999_999 else f"{count:.0f}/{unit}"
    return f"{rate_hz * DAY_S:.6g}/d"


def render_count(count: int, noun: str, nouns: str | None = None) -> str:
    """Return a count with its noun in the right number: ``1 reading``, ``2 readings``."""
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


_BYTES = re.compile(r"^\s*(?P<count>\d+(?:\.\d+)?)\s*(?P<unit>(?:[kmgtp]i?)?b?)\s*$", re.IGNORECASE)


def parse_bytes(text: str | int | float) -> int:
    """Return a size in bytes: ``10MB`` (decimal), ``16MiB`` (binary), or a number of bytes."""
    size = math.nan
    if isinstance(text, (int, float)) and not isinstance(text, bool):
        size = text
    elif (match := _BYTES.match(str(text))) is not None:
        unit = match["unit"].lower().removesuffix("b")
        base = 1024 if unit.endswith("i") else 1000
        power = " kmgtp".index(unit[:1] or " ")
        size = float(match["count"]) * base**power
    if not 0 <= size < math.inf:
        raise UsageError(f"{text!r} is not a size", hint="use for instance 10MB, 100 kB or 16MiB")
    return int(size)


def render_bytes(size: float) -> str:
    """Return a size with a decimal unit and three digits: ``8.64 MB``."""
    for unit, scale in (("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        # What three digits would round up to 1000 belongs to the next unit.
        if size >= 0.9995 * scale:
            return f"{size / scale:.3g} {unit}"
    return f"{size:.3g} B"
