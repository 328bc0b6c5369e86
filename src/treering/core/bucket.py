"""Buckets: how event time is cut into the slices that partition keys carry.

Rules of this file: a bucket is an instant to start at, [start, end) in UTC, never a year plus a
week number; buckets of one width tile time without gap or overlap, before 1970 too, because
every division floors; buckets are ordered by start, never by their text.
"""

from __future__ import annotations

import enum
import operator
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, assert_never

import numpy as np
import numpy.typing as npt

from treering.core.units import (
    DAY_S,
    HOUR_S,
    MINUTE_S,
    MONTH_S,
    TIME_END_S,
    TIME_MIN_S,
    WEEK_S,
    Interval,
    Precision,
)
from treering.errors import FanOutTooWideError, WidthError

FAN_OUT_MAX: Final = 10_000
"""The most partitions that one read may touch unless the caller says otherwise."""

# 1970-01-01 was a Thursday: ISO weeks start on Monday, three days earlier.
_WEEK_OFFSET_S: Final = -3 * DAY_S


class BucketWidth(enum.StrEnum):
    """How a series cuts event time into partitions, from narrow to wide."""

    MINUTE = "1min"
    MINUTES_5 = "5min"
    MINUTES_15 = "15min"
    HOUR = "hour"
    HOURS_6 = "6h"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"

    @property
    def length_s(self) -> int:
        """The longest this bucket gets, in seconds: a month counts 31 days."""
        return _LENGTH_S[self]

    @classmethod
    def from_text(cls, text: str) -> BucketWidth:
        """Return the width of that name.

        Raises:
            WidthError: No such width.
        """
        name = text.strip().lower()
        aliases = {
            "1h": "hour",
            "1d": "day",
            "1w": "week",
            "minute": "1min",
            "hourly": "hour",
            "daily": "day",
            "weekly": "week",
            "monthly": "month",
            "6hours": "6h",
        }
        try:
            return cls(aliases.get(name, name))
        except ValueError:
            raise WidthError(
                f"{text!r} is not a bucket width",
                hint=f"use one of {', '.join(width.value for width in cls)}",
            ) from None


_LENGTH_S: Final[dict[BucketWidth, int]] = {
    BucketWidth.MINUTE: MINUTE_S,
    BucketWidth.MINUTES_5: 5 * MINUTE_S,
    BucketWidth.MINUTES_15: 15 * MINUTE_S,
    BucketWidth.HOUR: HOUR_S,
    BucketWidth.HOURS_6: 6 * HOUR_S,
    BucketWidth.DAY: DAY_S,
    BucketWidth.WEEK: WEEK_S,
    BucketWidth.MONTH: MONTH_S,
}


@dataclass(frozen=True, slots=True, order=True)
class Bucket:
    """The slice of event time ``[start_s, end_s)`` of one partition; epoch seconds, UTC."""

    start_s: int
    end_s: int
    width: BucketWidth

    @property
    def text(self) -> str:
        """The bucket as it stands in a partition key, such as ``2025-11-20T13``."""
        return render_bucket(self.start_s, self.width)

    def interval(self, precision: Precision) -> Interval:
        """Return the bucket's event time in ticks of ``precision``."""
        return Interval(self.start_s * precision.per_s, self.end_s * precision.per_s, precision)


def bucket_start_s(ts_s: int, width: BucketWidth) -> int:
    """Return the start, in epoch seconds, of the bucket that holds the second ``ts_s``."""
    match width:
        case BucketWidth.MONTH:
            year, month = _month_of(ts_s)
            return _month_start_s(year, month)
        case BucketWidth.WEEK:
            return ts_s - (ts_s - _WEEK_OFFSET_S) % WEEK_S
        case (
            BucketWidth.MINUTE
            | BucketWidth.MINUTES_5
            | BucketWidth.MINUTES_15
            | BucketWidth.HOUR
            | BucketWidth.HOURS_6
            | BucketWidth.DAY
        ):
            return ts_s - ts_s % width.length_s
        case _:
            assert_never(width)


def bucket_end_s(start_s: int, width: BucketWidth) -> int:
    """Return the end of the bucket that starts at ``start_s``."""
    if width is BucketWidth.MONTH:
        year, month = _month_of(start_s)
        return _month_start_s(year + month // 12, month % 12 + 1)
    return start_s + width.length_s


def bucket_starts_s(
    ts: npt.NDArray[np.int64],
    width: BucketWidth,
    precision: Precision,
) -> npt.NDArray[np.int64]:
    """Return the bucket start, in epoch seconds, of every event time of an array.

    The array twin of :func:`bucket_start_s`; a property test holds them equal.
    """
    ts_s = ts // precision.per_s
    if width is BucketWidth.MONTH:
        months = ts_s.astype("datetime64[s]").astype("datetime64[M]")
        return months.astype("datetime64[s]").astype(np.int64)
    if width is BucketWidth.WEEK:
        return ts_s - (ts_s - _WEEK_OFFSET_S) % WEEK_S
    return ts_s - ts_s % width.length_s


def bucket_of(
    ts: int,
    width: BucketWidth | str,
    precision: Precision | str = Precision.MS,
) -> Bucket:
    """Return the bucket that holds one event time.

    Args:
        ts: Event time in ticks of ``precision`` since 1970-01-01T00:00Z; may be negative.
        width: A width, or its name.
        precision: The unit of ``ts``: ms, us or ns.

    Raises:
        WidthError: No such width, or a time outside the years 1 to 9999.
        UsageError: No such precision.

    >>> bucket_of(1_763_643_600_000, "day").text
    '2025-11-20'
    """
    width, precision = BucketWidth.from_text(width), Precision.from_text(precision)
    # A float of nanoseconds has lost digits already; as an index it is refused.
    ts_s = operator.index(ts) // precision.per_s
    if not TIME_MIN_S <= ts_s < TIME_END_S:
        raise WidthError(
            f"the event time {ts} {precision} is outside the years 1 to 9999 and has no bucket",
            hint="check the unit of the time",
        )
    return _bucket_from_start(bucket_start_s(ts_s, width), width)


def _bucket_from_start(start_s: int, width: BucketWidth) -> Bucket:
    return Bucket(start_s, bucket_end_s(start_s, width), width)


def count_buckets(interval: Interval, width: BucketWidth) -> int:
    """Return how many buckets a read of ``interval`` touches, without building them."""
    if interval.is_empty:
        return 0
    first_s = interval.start // interval.precision.per_s
    last_s = (interval.end - 1) // interval.precision.per_s
    if width is BucketWidth.MONTH:
        (y0, m0), (y1, m1) = _month_of(first_s), _month_of(last_s)
        return (y1 - y0) * 12 + m1 - m0 + 1
    start_s, end_s = bucket_start_s(first_s, width), bucket_start_s(last_s, width)
    return (end_s - start_s) // width.length_s + 1


def buckets_between(
    interval: Interval, width: BucketWidth | str, *, fan_out_max: int = FAN_OUT_MAX
) -> tuple[Bucket, ...]:
    """Return every bucket that a read of ``interval`` touches.

    An end that falls on a bucket edge does not reach into the next bucket.

    Args:
        interval: Half-open event time, in ticks of its precision.
        width: How this series cuts time, or the name of it.
        fan_out_max: The most buckets to return.

    Returns:
        Buckets in ascending order of start; empty for an empty interval.

    Raises:
        FanOutTooWideError: More than ``fan_out_max`` buckets; names the width that would fit.

    Cost:
        One partition read per element.
    """
    width = BucketWidth.from_text(width)
    count = count_buckets(interval, width)
    if count > fan_out_max:
        raise fan_out_error(interval, width, count, fan_out_max)
    return tuple(_iter_buckets(interval, width))


def _iter_buckets(interval: Interval, width: BucketWidth) -> Iterator[Bucket]:
    if interval.is_empty:
        return
    per_s = interval.precision.per_s
    start_s = bucket_start_s(interval.start // per_s, width)
    last_s = (interval.end - 1) // per_s
    while start_s <= last_s:
        bucket = _bucket_from_start(start_s, width)
        yield bucket
        start_s = bucket.end_s


def fan_out_error(
    interval: Interval,
    width: BucketWidth,
    count: int,
    fan_out_max: int,
    *,
    series_count: int = 1,
) -> FanOutTooWideError:
    """Return the refusal of a read over too many partitions, with the width that would fit.

    ``count`` and ``fan_out_max`` are over all of ``series_count`` series.
    """
    counts = {other: count_buckets(interval, other) * series_count for other in BucketWidth}
    fitting = [other for other in BucketWidth if counts[other] <= fan_out_max]
    hint = "read a shorter interval, or raise fan_out_max"
    if series_count > 1:
        hint = "read fewer series or a shorter interval, or raise fan_out_max"
    if fitting:
        hint += f"; a table with {fitting[0]} buckets would take {counts[fitting[0]]:,} partitions"
    option = hint.replace("raise fan_out_max", "raise --fan-out-max")
    return FanOutTooWideError(
        f"the read touches {count:,} partitions of width {width}, more than {fan_out_max:,}",
        hint=hint,
        cli_hint=option,
        partitions=count,
        fan_out_max=fan_out_max,
        fitting_width=fitting[0].value if fitting else None,
    )


def _days_from_civil(year: int, month: int, day: int) -> int:
    # Howard Hinnant's algorithm: proleptic Gregorian days since 1970-01-01, exact for any year.
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    return era * 146_097 + day_of_era - 719_468


def _civil_from_days(days: int) -> tuple[int, int, int]:
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (
        day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096
    ) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted + 2) // 5 + 1
    month = shifted + (3 if shifted < 10 else -9)
    return year_of_era + era * 400 + (month <= 2), month, day


def _month_of(ts_s: int) -> tuple[int, int]:
    year, month, _ = _civil_from_days(ts_s // DAY_S)
    return year, month


def _month_start_s(year: int, month: int) -> int:
    return _days_from_civil(year, month, 1) * DAY_S


def _iso_week_of(start_s: int) -> tuple[int, int]:
    # A week belongs to the year of its Thursday.
    thursday = start_s // DAY_S + 3
    year, _, _ = _civil_from_days(thursday)
    return year, (thursday - _days_from_civil(year, 1, 1)) // 7 + 1


# Thousands of series share a bucket.
@lru_cache(maxsize=4_096)
def render_bucket(start_s: int, width: BucketWidth) -> str:
    """Return the text of the bucket of ``width`` that starts at ``start_s``."""
    year, month, day = _civil_from_days(start_s // DAY_S)
    hour, minute = divmod(start_s % DAY_S // MINUTE_S, 60)
    date = f"{year:04d}-{month:02d}-{day:02d}"
    match width:
        case BucketWidth.MONTH:
            return f"{year:04d}-{month:02d}"
        case BucketWidth.WEEK:
            iso_year, week = _iso_week_of(start_s)
            return f"{iso_year:04d}-W{week:02d}"
        case BucketWidth.DAY:
            return date
        case BucketWidth.HOUR:
            return f"{date}T{hour:02d}"
        case BucketWidth.HOURS_6:
            return f"{date}T{hour:02d}/{width}"
        case BucketWidth.MINUTE | BucketWidth.MINUTES_5 | BucketWidth.MINUTES_15:
            return f"{date}T{hour:02d}:{minute:02d}/{width}"
        case _:
            assert_never(width)


_TEXT: Final = re.compile(
    r"^(?P<year>\d{4,})-(?:W(?P<week>\d{2})|(?P<month>\d{2})"
    r"(?:-(?P<day>\d{2})(?:T(?P<hour>\d{2})(?::(?P<minute>\d{2}))?(?:/(?P<width>\w+))?)?)?)$"
)


def parse_bucket(text: str) -> Bucket:
    """Return the bucket that a text of :func:`render_bucket` names.

    Raises:
        WidthError: Not the text of a bucket.
    """
    match = _TEXT.match(text)
    if match is not None:
        start_s, width = _start_and_width(match)
        is_start = width is not None and bucket_start_s(start_s, width) == start_s
        if width is not None and is_start and render_bucket(start_s, width) == text:
            return _bucket_from_start(start_s, width)
    raise WidthError(
        f"{text!r} is not the text of a bucket",
        hint="expected a form such as 2025-11-20T13, 2025-11-20, 2025-W47, 2025-11 "
        "or 2025-11-20T13:15/15min",
    )


def _start_and_width(match: re.Match[str]) -> tuple[int, BucketWidth | None]:
    year = int(match["year"])
    if match["week"] is not None:
        january_4 = _days_from_civil(year, 1, 4) * DAY_S
        start_s = bucket_start_s(january_4, BucketWidth.WEEK) + (int(match["week"]) - 1) * WEEK_S
        return start_s, BucketWidth.WEEK
    month, day = int(match["month"]), int(match["day"] or 1)
    hour, minute = int(match["hour"] or 0), int(match["minute"] or 0)
    if not 1 <= month <= 12:
        return 0, None
    start_s = _days_from_civil(year, month, day) * DAY_S + hour * HOUR_S + minute * MINUTE_S
    if match["width"] is not None:
        known = match["width"] in set(BucketWidth)
        return start_s, BucketWidth(match["width"]) if known else None
    if match["hour"] is not None:
        return start_s, BucketWidth.HOUR
    return start_s, BucketWidth.DAY if match["day"] is not None else BucketWidth.MONTH
