"""When the days of a time zone start, across daylight saving and dates that a zone skipped.

Rules of this file: a day starts at the first instant that the zone's clock shows its date, or
would have: midnight, or where the clock skips midnight, the instant of the jump. So days tile time,
and one that a zone skipped is of no length. Where the clock shows midnight twice, the first counts.
"""

from __future__ import annotations

import datetime as dt
from typing import Final

from treering.core.units import DAY_S
from treering.errors import UsageError

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
EPOCH_DAY: Final = dt.date(1970, 1, 1).toordinal()


def local_day(at_s: int, zone: dt.tzinfo) -> int:
    """Return the day that holds an instant, as a date's ordinal.

    Raises:
        UsageError: The zone's clock is outside the years 1 to 9999.
    """
    try:
        day = _wall(at_s, zone).toordinal()
        # Where the clock went back over midnight, it shows yesterday after today has begun.
        return day + 1 if day_start_s(day + 1, zone) <= at_s else day
    except (OverflowError, ValueError) as error:
        raise _beyond_years(zone) from error


def day_start_s(day: int, zone: dt.tzinfo) -> int:
    """Return when a day starts, in epoch seconds.

    Args:
        day: A date's ordinal.
        zone: The zone.

    Raises:
        UsageError: Outside the years 1 to 9999.
    """
    try:
        return _day_start_s(dt.datetime.fromordinal(day), zone)
    except (OverflowError, ValueError) as error:
        raise _beyond_years(zone) from error


def _day_start_s(midnight: dt.datetime, zone: dt.tzinfo) -> int:
    at_s = _unzoned_s(midnight) - _offset_s(midnight.replace(tzinfo=zone, fold=0))
    if _wall(at_s, zone) == midnight:
        return at_s
    # The clock skips midnight: the jump lies between these two.
    before_s = _unzoned_s(midnight) - _offset_s(midnight.replace(tzinfo=zone, fold=1)) - 1
    while at_s - before_s > 1:
        middle_s = (at_s + before_s) // 2
        if _wall(middle_s, zone) >= midnight:
            at_s = middle_s
        else:
            before_s = middle_s
    return at_s


def _wall(at_s: int, zone: dt.tzinfo) -> dt.datetime:
    moment = _EPOCH + dt.timedelta(days=at_s // DAY_S, seconds=at_s % DAY_S)
    return moment.astimezone(zone).replace(tzinfo=None, fold=0)


def _unzoned_s(wall: dt.datetime) -> int:
    return (wall.toordinal() - EPOCH_DAY) * DAY_S


def _offset_s(local: dt.datetime) -> int:
    offset = local.utcoffset()
    return 0 if offset is None else int(offset.total_seconds())


def _beyond_years(zone: dt.tzinfo) -> UsageError:
    return UsageError(
        f"the days of the zone {zone} are known for the years 1 to 9999",
        hint="read a shorter interval, or leave the zone out",
    )
