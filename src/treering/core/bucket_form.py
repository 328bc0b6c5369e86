"""How a bucket stands in a partition key: as text by a pattern, as a date, or as an integer.

Rules of this file: a form names every bucket of its width differently, or the width is refused;
a pattern may carry the series id beside the bucket, and then gives it back; all times are UTC.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, assert_never

from treering.core.bucket import Bucket, BucketWidth, render_bucket
from treering.core.units import DAY_S, HOUR_S, MINUTE_S
from treering.errors import UsageError, WidthError

SERIES_MARK: Final = "{series}"
BUCKET_MARK: Final = "{bucket}"

# What each directive matches, and how fine the times are that it tells apart, in seconds.
_DIRECTIVES: Final[dict[str, tuple[str, int]]] = {
    "Y": (r"\d{4}", 366 * DAY_S),
    "G": (r"\d{4}", 366 * DAY_S),
    "m": (r"\d{2}", 28 * DAY_S),
    "V": (r"\d{2}", 7 * DAY_S),
    "d": (r"\d{2}", DAY_S),
    "H": (r"\d{2}", HOUR_S),
    "M": (r"\d{2}", MINUTE_S),
}
# What each directive means nothing without: a day needs its month.
_NEEDS: Final = {"m": "Y", "d": "m", "H": "d", "M": "H", "V": "G", "G": "V"}
_DIRECTIVE: Final = re.compile(r"%(.)|(\{series\})|(\{bucket\})", re.DOTALL)

# Units of an integer bucket, in nanoseconds.
_UNIT_NS: Final[dict[str, int]] = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "min": 60 * 1_000_000_000,
    "h": 3_600 * 1_000_000_000,
    "d": 86_400 * 1_000_000_000,
}

PATTERN_OF: Final[dict[BucketWidth, str]] = {
    BucketWidth.MINUTE: "%Y-%m-%dT%H:%M/1min",
    BucketWidth.MINUTES_5: "%Y-%m-%dT%H:%M/5min",
    BucketWidth.MINUTES_15: "%Y-%m-%dT%H:%M/15min",
    BucketWidth.HOUR: "%Y-%m-%dT%H",
    BucketWidth.HOURS_6: "%Y-%m-%dT%H/6h",
    BucketWidth.DAY: "%Y-%m-%d",
    BucketWidth.WEEK: "%G-W%V",
    BucketWidth.MONTH: "%Y-%m",
}
"""The pattern of each width's own text; equal to what ``Bucket.text`` gives."""


class FormKind(enum.StrEnum):
    """The kinds of forms that a bucket has in a key."""

    TEXT = "text"
    DATE = "date"
    EPOCH = "epoch"


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketForm:
    """How the bucket stands in its column.

    Attributes:
        kind: By a text pattern, as days (CQL ``date``), or as an integer since 1970.
        pattern: Of a text: ``{series}``, ``{bucket}`` (the width's own text), and %Y %m %d %H %M
            %G %V as in ``strftime``; everything else stands for itself, %% for a percent sign.
        unit: Of an integer: ns, us, ms, s, min, h or d.
    """

    kind: FormKind
    pattern: str = ""
    unit: str = ""

    def __post_init__(self) -> None:
        match self.kind:
            case FormKind.TEXT:
                _check_pattern(self.pattern)
            case FormKind.EPOCH:
                if self.unit not in _UNIT_NS:
                    raise UsageError(
                        f"{self.unit!r} is not a unit of an integer bucket",
                        hint=f"use one of {', '.join(f'epoch-{unit}' for unit in _UNIT_NS)}",
                    )
            case FormKind.DATE:
                pass
            case _:
                assert_never(self.kind)

    @classmethod
    def from_text(cls, text: str) -> BucketForm:
        """Return the form that ``date``, ``epoch-ms`` or a text pattern names.

        Raises:
            UsageError: None of these.
        """
        if text == "date":
            return cls(kind=FormKind.DATE)
        head, dash, unit = text.partition("-")
        if head == "epoch" and dash:
            return cls(kind=FormKind.EPOCH, unit=unit)
        return cls(kind=FormKind.TEXT, pattern=text)

    @property
    def text(self) -> str:
        """The form as :meth:`from_text` takes it."""
        match self.kind:
            case FormKind.TEXT:
                return self.pattern
            case FormKind.DATE:
                return "date"
            case FormKind.EPOCH:
                return f"epoch-{self.unit}"
            case _:
                assert_never(self.kind)

    @property
    def has_series(self) -> bool:
        """Whether the text carries the series id."""
        return self.kind is FormKind.TEXT and SERIES_MARK in self.pattern

    def check_width(self, width: BucketWidth) -> None:
        """Refuse a width of which two buckets would look the same.

        Raises:
            WidthError: The form is too coarse for the width.
        """
        if not self.tells_apart(width):
            raise WidthError(
                f"the form {self.text!r} does not tell buckets of the width {width} apart",
                hint="name a finer form or a wider width",
            )

    def tells_apart(self, width: BucketWidth) -> bool:
        """Return whether two buckets of the width never look the same."""
        match self.kind:
            case FormKind.TEXT:
                finest_s = _finest_s(self.pattern, width)
                if width is BucketWidth.WEEK and "%V" not in _expanded(self.pattern, width):
                    # Weeks start on any day of a month.
                    return finest_s <= DAY_S
                return finest_s <= _shortest_s(width)
            case FormKind.DATE:
                return _shortest_s(width) >= DAY_S
            case FormKind.EPOCH:
                return bool(_UNIT_NS[self.unit] <= _shortest_s(width) * _UNIT_NS["s"])
            case _:
                assert_never(self.kind)

    def value_of(self, bucket: Bucket, series: str) -> str | int:
        """Return what stands in the column: text, days since 1970, or an integer of the unit."""
        match self.kind:
            case FormKind.TEXT:
                return render_pattern(self.pattern, bucket.start_s, bucket.width, series)
            case FormKind.DATE:
                return bucket.start_s // DAY_S
            case FormKind.EPOCH:
                return bucket.start_s * _UNIT_NS["s"] // _UNIT_NS[self.unit]
            case _:
                assert_never(self.kind)

    def series_of(self, value: str, width: BucketWidth) -> str | None:
        """Return the series id that a text carries; None where the text is not of this form."""
        match = _regex_of(self.pattern, width).fullmatch(value)
        return None if match is None or not self.has_series else match["series"]


def _check_pattern(pattern: str) -> None:
    marks = [match for match in _DIRECTIVE.finditer(pattern) if match[1] != "%"]
    unknown = [match[0] for match in marks if match[1] and match[1] not in _DIRECTIVES]
    if unknown:
        raise UsageError(
            f"the bucket form {pattern!r} has the unknown directive {unknown[0]}",
            hint=f"use {', '.join(f'%{name}' for name in _DIRECTIVES)}, {BUCKET_MARK} "
            f"or {SERIES_MARK}",
        )
    if not any(match[1] or match[3] for match in marks):
        raise UsageError(
            f"the bucket form {pattern!r} has no bucket in it",
            hint="write for instance {series}:{bucket}, %Y%m%d, date or epoch-ms",
        )
    named = {match[1] for match in marks if match[1]}
    lacking = sorted({_NEEDS[name] for name in named if name in _NEEDS} - named)
    if lacking:
        raise UsageError(
            f"the bucket form {pattern!r} repeats itself without %{', %'.join(lacking)}",
            hint="name the year and everything between it and the finest part",
        )
    if pattern.count(SERIES_MARK) > 1 or pattern.count(BUCKET_MARK) > 1:
        raise UsageError(f"the bucket form {pattern!r} names one of its parts twice")


def _expanded(pattern: str, width: BucketWidth) -> str:
    return pattern.replace(BUCKET_MARK, PATTERN_OF[width])


def _finest_s(pattern: str, width: BucketWidth) -> int:
    marks = _DIRECTIVE.finditer(_expanded(pattern, width))
    return min((_DIRECTIVES[m[1]][1] for m in marks if m[1] in _DIRECTIVES), default=400 * DAY_S)


def _shortest_s(width: BucketWidth) -> int:
    return 28 * DAY_S if width is BucketWidth.MONTH else width.length_s


def render_pattern(pattern: str, start_s: int, width: BucketWidth, series: str = "") -> str:
    """Return the text of the bucket that starts at ``start_s``."""
    if pattern == BUCKET_MARK:
        return render_bucket(start_s, width)
    fields = _fields_of(start_s)

    def text_of(match: re.Match[str]) -> str:
        if match[2]:
            return series
        return "%" if match[1] == "%" else fields[match[1]]

    return _DIRECTIVE.sub(text_of, _expanded(pattern, width))


def _fields_of(start_s: int) -> dict[str, str]:
    # The texts of day and week hold every directive; years below 1000 keep four digits.
    year, month, day = render_bucket(start_s, BucketWidth.DAY).rsplit("-", 2)
    monday_s = start_s - (start_s + 3 * DAY_S) % (7 * DAY_S)
    iso_year, week = render_bucket(monday_s, BucketWidth.WEEK).rsplit("-W", 1)
    hour, minute = divmod(start_s % DAY_S // MINUTE_S, 60)
    return {
        "Y": year,
        "m": month,
        "d": day,
        "G": iso_year,
        "V": week,
        "H": f"{hour:02d}",
        "M": f"{minute:02d}",
    }


@lru_cache(maxsize=256)
def _regex_of(pattern: str, width: BucketWidth) -> re.Pattern[str]:
    text, parts, end = _expanded(pattern, width), [], 0
    for match in _DIRECTIVE.finditer(text):
        parts.append(re.escape(text[end : match.start()]))
        if match[2]:
            parts.append("(?P<series>.+)")
        else:
            parts.append("%" if match[1] == "%" else _DIRECTIVES[match[1]][0])
        end = match.end()
    parts.append(re.escape(text[end:]))
    return re.compile("".join(parts), re.DOTALL)
