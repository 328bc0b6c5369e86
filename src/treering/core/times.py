"""Instants: what people and files write for a time, as ticks of a table's precision.

Rules of this file: nothing here reads a clock (``now_ts`` is an argument); a time without a zone
is refused, never guessed; finer input is floored, never rounded; arithmetic that could leave 64
bits is done in Python integers.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

from treering.core.units import (
    DAY_S,
    HOUR_S,
    MINUTE_S,
    PER_S,
    TIME_END_S,
    TIME_MIN_S,
    Precision,
    parse_duration_s,
)
from treering.errors import UsageError

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

_NANOSECOND_HINT = (
    "give the integer in the unit it is in (unit='ns'), or a datetime64, or text such as "
    "2025-11-20T13:00Z"
)


def ts_from_int(value: int, *, unit: str, precision: Precision) -> int:
    """Return an integer time of a stated unit in ticks of ``precision``, floored.

    Raises:
        UsageError: An unknown unit, or a time outside the years 1 to 9999.
    """
    if unit not in PER_S:
        raise UsageError(f"{unit!r} is not a unit of time", hint="use s, ms, us or ns")
    ts = value * precision.per_s // PER_S[unit]
    return _checked_ts(ts, precision, f"{value} {unit}")


def _checked_ts(ts: int, precision: Precision, shown: str) -> int:
    if not precision.ts_min <= ts <= precision.ts_end:
        raise UsageError(
            f"the time {shown} is outside what a table of precision {precision} takes "
            f"({render_ts(precision.ts_min, precision)} to "
            f"{render_ts(precision.ts_end - 1, precision)})",
            hint=_NANOSECOND_HINT,
            is_outside=True,
        )
    return ts


def ts_from_datetime(value: dt.datetime, precision: Precision) -> int:
    """Return an aware datetime in ticks of ``precision``, floored.

    Raises:
        UsageError: A naive datetime: treering never guesses a zone.
    """
    if value.tzinfo is None or value.utcoffset() is None:
        raise UsageError(
            f"the datetime {value.isoformat()} has no time zone",
            hint="use an aware datetime, such as datetime(…, tzinfo=timezone.utc)",
        )
    delta = value - _EPOCH
    us = (delta.days * DAY_S + delta.seconds) * 1_000_000 + delta.microseconds
    # The datetimes of pandas have nanoseconds beside.
    ns = us * 1_000 + getattr(value, "nanosecond", 0)
    return _checked_ts(ns * precision.per_s // 1_000_000_000, precision, value.isoformat())


_RELATIVE = re.compile(r"^(?P<base>now)?\s*(?:(?P<sign>[+-])\s*(?P<length>\d.*))?$", re.IGNORECASE)
_DATE = re.compile(r"^(\d{4})-(\d{2})-(\d{2})$")
_ISO = re.compile(
    r"^(\d{4})-(\d{2})-(\d{2})[T ](\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?"
    r"\s*(Z|[+-]\d{2}(?::?\d{2})?)?$",
    re.IGNORECASE,
)

_FINER_PER_S: Final = {"ps": 10**12, "fs": 10**15, "as": 10**18}

TimeInput = str | int | np.integer[Any] | dt.datetime | dt.date | np.datetime64


def parse_time(
    value: TimeInput,
    *,
    now_ts: int,
    precision: Precision,
    unit: str | None = None,
    zone: dt.tzinfo | None = None,
) -> int:
    """Return an instant in ticks of ``precision``, floored.

    Args:
        value: ISO text with a zone (a bare date is the start of that UTC day), ``now``,
            ``-6h``, ``now-90d``, an aware datetime, a ``datetime64`` (UTC), or an integer
            together with ``unit``.
        now_ts: What ``now`` means, in ticks of ``precision``.
        precision: The table's precision.
        unit: The unit of an integer: s, ms, us or ns.
        zone: What a datetime, a date or text without a zone means; absent, a bare date is a UTC
            day and the others are refused.

    Raises:
        UsageError: Not a time, no zone, or outside the years that the table takes.
    """
    if isinstance(value, np.integer):
        value = int(value)
    match value:
        case bool():
            raise UsageError(f"{value!r} is not a time")
        case int():
            if unit is None:
                raise UsageError(
                    f"the integer time {value} has no unit",
                    hint="say unit='s', 'ms', 'us' or 'ns', or use text such as 2025-11-20T13:00Z",
                )
            return ts_from_int(int(value), unit=unit, precision=precision)
        case np.datetime64():
            return _ts_from_datetime64(value, precision)
        case dt.datetime():
            return ts_from_datetime(_zoned(value, zone), precision)
        case dt.date():
            midnight = dt.datetime(value.year, value.month, value.day)  # noqa: DTZ001
            return ts_from_datetime(_zoned(midnight, zone or dt.UTC), precision)
        case str():
            return _ts_from_text(value.strip(), now_ts, precision, zone)
    raise UsageError(
        f"{value!r} ({type(value).__name__}) is not a time",
        hint="use text with a zone, an aware datetime, a datetime64, or an integer with unit=",
    )


def _zoned(value: dt.datetime, zone: dt.tzinfo | None) -> dt.datetime:
    if zone is None or value.tzinfo is not None:
        return value
    try:
        return value.replace(tzinfo=dt.UTC) - dt.timedelta(seconds=zone_offset_s(value, zone))
    except OverflowError as error:
        raise _beyond_datetime(value, zone) from error


def _beyond_datetime(value: dt.datetime, zone: dt.tzinfo) -> UsageError:
    return UsageError(
        f"the time {value.isoformat()} of the zone {zone} is outside the years 1 to 9999",
        is_outside=True,
    )


def _ts_from_datetime64(value: np.datetime64, precision: Precision) -> int:
    if np.isnat(value):
        raise UsageError("NaT is not a time")
    # Through days and a remainder, in Python integers: datetime64 arithmetic wraps silently.
    unit, count = np.datetime_data(value.dtype)
    ticks = int(value.astype(np.int64)) * count
    if unit in PER_S:
        return ts_from_int(ticks, unit=unit, precision=precision)
    if unit in _FINER_PER_S:
        return _checked_ts(ticks * precision.per_s // _FINER_PER_S[unit], precision, str(value))
    if unit == "generic":
        raise UsageError(f"the datetime64 {value!r} has no unit", hint="give it one, such as ms")
    if not -2_000_000 < int(value.astype("datetime64[Y]").astype(np.int64)) < 2_000_000:
        raise UsageError(
            f"the time {value} is outside what a table takes",
            hint=_NANOSECOND_HINT,
            is_outside=True,
        )
    seconds = int(value.astype("datetime64[s]").astype(np.int64))
    return ts_from_int(seconds, unit="s", precision=precision)


def _ts_from_text(text: str, now_ts: int, precision: Precision, zone: dt.tzinfo | None) -> int:
    relative = _RELATIVE.match(text)
    if relative is not None and (relative["base"] or relative["sign"]):
        if relative["sign"] is None:
            return now_ts
        length_s = parse_duration_s(relative["length"])
        ticks = round(length_s * 1_000) * precision.per_s // 1_000
        moved = now_ts + (ticks if relative["sign"] == "+" else -ticks)
        return _checked_ts(moved, precision, text)
    return ts_from_iso(text, precision, zone=zone)


def ts_from_iso(text: str, precision: Precision, *, zone: dt.tzinfo | None = None) -> int:
    """Return an ISO 8601 instant in ticks of ``precision``, floored to it.

    Args:
        text: A date (a UTC day), or date and time with ``Z`` or an offset; up to nine decimals.
        precision: The table's precision.
        zone: What a text without a zone means; absent, such a text is refused. A bare date is
            then the start of the day in that zone.

    Raises:
        UsageError: Not a time, or no zone.
    """
    if (date := _DATE.match(text)) is not None:
        parts = [int(part) for part in date.groups()] + [0, 0, 0]
        fraction, offset = "", None if zone is not None else "Z"
    elif (iso := _ISO.match(text)) is not None:
        parts = [int(part or 0) for part in iso.groups()[:6]]
        fraction, offset = iso[7] or "", iso[8]
    else:
        raise UsageError(
            f"{text!r} is not a time",
            hint="use 2025-11-20, 2025-11-20T13:00Z, 2025-11-20T13:00:00.250+01:00, now or -6h",
        )
    if offset is None and zone is None:
        raise UsageError(
            f"the time {text!r} has no zone",
            hint="end it with Z for UTC or with an offset such as +01:00; for files, say --tz",
        )
    try:
        moment = dt.datetime(*parts, tzinfo=dt.UTC)  # type: ignore[misc,arg-type]
        seconds = _seconds(moment) - (
            _offset_s(offset)
            if offset is not None
            else (zone_offset_s(moment, zone) if zone is not None else 0)
        )
    except UsageError:
        raise
    except (ValueError, OverflowError) as error:
        raise UsageError(f"{text!r} is not a time: {error}") from error
    nanoseconds = int(fraction.ljust(9, "0")) if fraction else 0
    ts = seconds * precision.per_s + nanoseconds * precision.per_s // 1_000_000_000
    return _checked_ts(ts, precision, text)


def _seconds(moment: dt.datetime) -> int:
    delta = moment - _EPOCH
    return delta.days * DAY_S + delta.seconds


def _offset_s(text: str) -> int:
    if text in "Zz":
        return 0
    hours, minutes = int(text[1:3]), int(text[3:].lstrip(":") or 0)
    if hours > 23 or minutes > 59:
        raise ValueError(f"the offset {text} is not one")
    return (-1 if text[0] == "-" else 1) * (hours * HOUR_S + minutes * MINUTE_S)


def zone_offset_s(wall: dt.datetime, zone: dt.tzinfo) -> int:
    """Return how far a zone is ahead of UTC at a wall-clock time, in seconds.

    A time that the clock shows twice means the first.

    Args:
        wall: The wall-clock time; its own zone is ignored.
        zone: The zone of the clock.

    Raises:
        UsageError: The clock skips this time, so that it names no instant.
    """
    local = wall.replace(tzinfo=zone, fold=0)
    offset = local.utcoffset()
    # A time that daylight saving skips does not survive the way to UTC and back.
    try:
        back = local.astimezone(dt.UTC).astimezone(zone)
    except OverflowError as error:
        raise _beyond_datetime(wall.replace(tzinfo=None), zone) from error
    if offset is None or back.replace(tzinfo=None) != local.replace(tzinfo=None):
        raise UsageError(
            f"the clock of {zone} skips {wall.replace(tzinfo=None).isoformat()}",
            hint="correct the time, or state the zone that the times are really in",
        )
    return int(offset.total_seconds())


_DIGITS: Final = {Precision.MS: 3, Precision.US: 6, Precision.NS: 9}


def render_ts(ts: int, precision: Precision) -> str:
    """Return an event time as ISO text in UTC with all digits of its precision.

    Times outside the years 1 to 9999 come out as ``@<integer><unit>``, so that nothing raises.

    >>> render_ts(1_000, Precision.MS)
    '1970-01-01T00:00:01.000Z'
    """
    seconds, ticks = divmod(ts, precision.per_s)
    if not TIME_MIN_S <= seconds < TIME_END_S:
        return f"@{ts}{precision}"
    moment = _EPOCH + dt.timedelta(days=seconds // DAY_S, seconds=seconds % DAY_S)
    # strftime does not pad years below 1000 on every platform; isoformat does.
    return f"{moment.replace(tzinfo=None).isoformat()}.{ticks:0{_DIGITS[precision]}d}Z"


def render_instant(seconds: int) -> str:
    """Return a whole second as short ISO text in UTC: the day alone where it starts one."""
    text = render_ts(seconds * 1_000, Precision.MS)
    if text.endswith("T00:00:00.000Z"):
        return text[:-14]
    return text[:-5] + "Z" if not text.startswith("@") else text


def ticks_from_array(
    times: npt.ArrayLike,
    *,
    precision: Precision,
    unit: str | None = None,
    zone: dt.tzinfo | None = None,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Turn an array of times into ticks of ``precision``.

    Args:
        times: ``datetime64`` of any unit (UTC), integers with ``unit``, aware datetimes or text.
        precision: The table's precision.
        unit: The unit of integers.
        zone: What datetimes and text without a zone mean; absent, they are refused.

    Returns:
        Three arrays of one length: ticks (0 where invalid), whether the time is one that the
        table takes (None, NaT, masked and out-of-range ones are not), and whether it was floored
        because it was finer.

    Raises:
        UsageError: Integers without a unit, naive datetimes, or something that is no time.
    """
    if isinstance(times, np.ma.MaskedArray):
        return _ticks_from_masked(times, precision, unit, zone)
    array = times if isinstance(times, np.ndarray) else _as_array(times)
    if array.ndim != 1:
        raise UsageError(f"times must be one-dimensional, not of shape {array.shape}")
    if array.dtype.kind == "M":
        return _ticks_from_datetime64(array, precision)
    if array.dtype.kind in "iu" and array.dtype != np.bool_:
        if unit is None:
            raise UsageError(
                "integer times have no unit",
                hint="say unit='s', 'ms', 'us' or 'ns', or pass datetime64",
            )
        return _ticks_from_int(array, unit, precision)
    if array.dtype.kind in "OUT" or array.size == 0:
        return _ticks_from_objects(array, precision, unit, zone)
    raise UsageError(
        f"an array of {array.dtype} is not an array of times",
        hint="pass datetime64, aware datetimes, ISO text with a zone, or integers with unit=",
    )


def _ticks_from_masked(
    times: np.ma.MaskedArray[Any, Any], precision: Precision, unit: str | None, zone: Any
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    there = ~np.ma.getmaskarray(times)
    data = np.asarray(times.data)
    if data.dtype.kind in "OUT":
        # What stands under a mask is nothing, whatever its type.
        data = data.astype(object)
        data[~there] = None
    ticks, valid, floored = ticks_from_array(data, precision=precision, unit=unit, zone=zone)
    return np.where(there, ticks, 0), valid & there, floored & there


def _as_array(times: npt.ArrayLike) -> npt.NDArray[Any]:
    items: list[Any] = list(times)  # type: ignore[arg-type]
    kinds = set(map(type, items))
    whole = all(issubclass(kind, (int, np.integer)) for kind in kinds)
    if items and whole and not kinds & {bool, np.timedelta64}:
        is_small = min(items) >= -(2**63) and max(items) < 2**63
        return np.asarray(items, dtype=np.int64 if is_small else object)
    # Of one unit: to bring several to the finest could overflow, which NumPy does not say.
    if kinds == {np.datetime64} and len({item.dtype for item in items}) == 1:
        return np.asarray(items)
    return np.fromiter(items, dtype=object, count=len(items))


def _ticks_from_int(
    array: npt.NDArray[Any], unit: str, precision: Precision
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    if unit not in PER_S:
        raise UsageError(f"{unit!r} is not a unit of time", hint="use s, ms, us or ns")
    per_s = PER_S[unit]
    fits = array <= np.iinfo(np.int64).max if array.dtype.kind == "u" else np.True_
    raw = array.astype(np.int64)
    if precision.per_s >= per_s:
        factor = precision.per_s // per_s
        low, end = -(-precision.ts_min // factor), -(-precision.ts_end // factor)
        valid = (raw >= low) & (raw < end) & fits
        return np.where(valid, raw, 0) * factor, valid, np.zeros(raw.shape, dtype=np.bool_)
    factor = per_s // precision.per_s
    ticks = raw // factor
    valid = (ticks >= precision.ts_min) & (ticks < precision.ts_end) & fits
    return np.where(valid, ticks, 0), valid, valid & (ticks * factor != raw)


def _ticks_from_datetime64(
    array: npt.NDArray[Any], precision: Precision
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    unit, count = np.datetime_data(array.dtype)
    if unit in PER_S and count == 1:
        present = ~np.isnat(array)
        ticks, valid, floored = _ticks_from_int(
            np.where(present, array.astype(np.int64), 0), unit, precision
        )
        valid &= present
        return np.where(valid, ticks, 0), valid, floored & valid
    # Element by element, in Python integers: datetime64 arithmetic wraps silently.
    return _ticks_from_objects(np.fromiter(array, object, len(array)), precision, None, None)


def _ticks_from_objects(
    array: npt.NDArray[Any], precision: Precision, unit: str | None, zone: dt.tzinfo | None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    ticks = np.zeros(array.shape, dtype=np.int64)
    valid = np.zeros(array.shape, dtype=np.bool_)
    floored = np.zeros(array.shape, dtype=np.bool_)
    for index, item in enumerate(array.tolist()):
        if _is_no_time(item):
            continue
        if isinstance(item, str) and _is_relative(item.strip()):
            raise UsageError(
                f"{item!r} is not the time of a reading", hint="write readings with absolute times"
            )
        try:
            ts = parse_time(item, now_ts=0, precision=precision, unit=unit, zone=zone)
        except UsageError as error:
            if not error.facts.get("is_outside"):
                raise
            continue
        if ts >= precision.ts_end:
            continue
        ticks[index], valid[index] = ts, True
        if precision is not Precision.NS or isinstance(item, np.datetime64):
            exact = parse_time(item, now_ts=0, precision=_EXACT, unit=unit, zone=zone)
            floored[index] = exact * precision.per_s != ts * _EXACT.per_s
    return ticks, valid, floored


def _is_no_time(item: object) -> bool:
    # NaT and NA of pandas without importing pandas; its NaT calls itself a datetime.
    if item is None or type(item).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(item, np.datetime64) and bool(np.isnat(item))


def _is_relative(text: str) -> bool:
    relative = _RELATIVE.match(text)
    return relative is not None and not text[:1].isdigit()


@dataclass(frozen=True, slots=True)
class _Exactly:
    """A precision that floors nothing and takes every year, to tell what another one floors."""

    per_s: int = 10**18
    ts_min: int = -(10**40)
    ts_end: int = 10**40


_EXACT: Final = cast(Precision, _Exactly())
