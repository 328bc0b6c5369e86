"""One field of a file to one value: the exact rules, which every quicker path agrees with.

Rules of this file: a field is what its column's type holds, or the line is refused with the
field in the reason; missing and NaN are different; nothing depends on the locale.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from treering.core.schema import Column, ColumnType
from treering.core.times import ts_from_datetime, ts_from_int, ts_from_iso, zone_offset_s
from treering.core.units import PER_S, Precision
from treering.core.write_plan import Reason
from treering.errors import UsageError
from treering.formats.layout import TimeRule

_TRUE: Final = frozenset({"1", "true", "True", "TRUE"})
_FALSE: Final = frozenset({"0", "false", "False", "FALSE"})
_NUMBER: Final = re.compile(
    r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|[+-]?(nan|inf|infinity)", re.IGNORECASE | re.ASCII
)
_HEX: Final = re.compile(r"-?0[xX][0-9a-fA-F]{1,16}")
_SHOWN: Final = 40

_COMMA: Final = re.compile(r"[+-]?[\d.]*,\d+([eE][+-]?\d+)?")
_MISSING_WORDS: Final = frozenset({"na", "n/a", "null", "none", "-", "--", "?", "nil"})

_NONFINITE: Final = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}
"""How JSON lines spell what JSON has no number for."""


class FieldError(ValueError):
    """A field that is not what its column takes; the message is the reason.

    Args:
        reason: What is wrong, with the field in it.
        kind: What is wrong with fields of this kind, for counting.
    """

    def __init__(self, reason: str, kind: str) -> None:
        super().__init__(reason)
        self.kind = kind


def _wrong_type(value: object, name: str, column: Column) -> FieldError:
    why = _why(value) if column.type is not ColumnType.TEXT else ""
    return FieldError(
        f"{_shown(value)} in the column {name!r} is not a {column.type}{why}",
        f"not a {column.type} in the column {name!r}{why}",
    )


def _why(value: object) -> str:
    if not isinstance(value, str):
        return ""
    if _COMMA.fullmatch(value.strip()):
        return ": decimals take a point, not a comma"
    if value.strip().lower() in _MISSING_WORDS:
        return ": a missing value is an empty field"
    return ""


def _shown(text: object) -> str:
    shown = text if isinstance(text, str) else str(text)
    return repr(shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "…")


def parse_field(text: str, name: str, column: Column) -> Any:
    """Return the value of a field of text; None where it is empty: missing.

    Raises:
        FieldError: Not a value of the column's type.
    """
    if text == "":
        return None
    if column.type is ColumnType.TEXT:
        return text
    bare = text.strip()
    if bare == "":
        return None
    value = _parse_bare(bare, column.type)
    if value is None:
        raise _wrong_type(text, name, column)
    return value


def _parse_bare(text: str, column_type: ColumnType) -> Any:
    match column_type:
        case ColumnType.BOOLEAN:
            return True if text in _TRUE else (False if text in _FALSE else None)
        case ColumnType.INT | ColumnType.BIGINT:
            return _integer(text)
        case _:
            return _double(text)


def _double(text: str) -> float | None:
    if _NUMBER.fullmatch(text) is None:
        return None
    value = float(text)
    # Digits that only an infinity could stand for are refused: it would be another value.
    is_beyond = math.isinf(value) and any(digit in text for digit in "0123456789")
    return None if is_beyond else value


def _integer(text: str) -> int | None:
    if _HEX.fullmatch(text):
        return int(text, 16)
    if _NUMBER.fullmatch(text) is None:
        return None
    try:
        number = Decimal(text)
        is_whole = number.is_finite() and number == number.to_integral_value()
    except InvalidOperation:
        return None
    # Far beyond 64 bits there is no need to spell the digits out; the write refuses either.
    return None if not is_whole else int(number) if number.adjusted() < 40 else 10**40


def value_from_json(value: Any, name: str, column: Column) -> Any:
    """Return the value of a column from what a JSON line holds; None where missing.

    Raises:
        FieldError: Not a value of the column's type.
    """
    if value is None:
        return None
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    match column.type:
        case ColumnType.TEXT if isinstance(value, str):
            return value
        case ColumnType.BOOLEAN if isinstance(value, bool):
            return value
        case ColumnType.DOUBLE | ColumnType.FLOAT if isinstance(value, str):
            if value in _NONFINITE:
                return float(_NONFINITE[value])
        case ColumnType.DOUBLE | ColumnType.FLOAT if is_number:
            number = _double_of(value)
            if number is not None:
                return number
        case ColumnType.INT | ColumnType.BIGINT if is_number:
            whole = isinstance(value, int) or (value == value and value % 1 == 0)
            if whole:
                return int(value)
        case _:
            pass
    raise _wrong_type(value, name, column)


def _double_of(value: float) -> float | None:
    # JSON has no infinity: a number that became one was too large for a double.
    try:
        number = float(value)
    except OverflowError:
        return None
    return None if math.isinf(number) else number


def parse_moment(value: Any, rule: TimeRule) -> tuple[int, bool]:
    """Return the event time of a field: ticks, and whether they are nanoseconds.

    Nanoseconds wherever they fit 64 bits, so that a table can tell what it floors; else ticks of
    the table's precision.

    Args:
        value: Text, or a number from JSON.
        rule: What times mean in this file.

    Raises:
        FieldError: Not a time, no zone, or one that the zone's clock skips.
    """
    if value is None or value == "":
        raise FieldError(str(Reason.NO_TIME), str(Reason.NO_TIME))
    try:
        ts = _ticks(value, rule, Precision.NS)
        if ts < Precision.NS.ts_end:
            return ts, True
    except UsageError:
        pass
    try:
        ts = _ticks(value, rule, rule.precision)
    except UsageError as error:
        raise FieldError(error.message, _kind_of_time(error.message)) from error
    if ts >= rule.precision.ts_end:
        raise FieldError(str(Reason.NO_TIME), str(Reason.NO_TIME))
    return ts, False


def _kind_of_time(reason: str) -> str:
    for words, kind in (
        (" skips ", "a time that the clock of its zone skips"),
        ("has no zone", "a time without a zone"),
        ("outside what", str(Reason.NO_TIME)),
    ):
        if words in reason:
            return kind
    return "not a time"


def _ticks(value: Any, rule: TimeRule, precision: Precision) -> int:
    if rule.unit is not None:
        return _ticks_from_number(value, rule.unit, precision)
    if not isinstance(value, str):
        raise UsageError(f"the time {_shown(value)} is a number without a unit")
    if rule.form is not None:
        return _ticks_from_form(value, rule.form, rule.zone, precision)
    return ts_from_iso(value.strip(), precision, zone=rule.zone)


def _ticks_from_number(value: Any, unit: str, precision: Precision) -> int:
    text = str(value).strip()
    try:
        number = Decimal(text) if _NUMBER.fullmatch(text) else Decimal("nan")
    except InvalidOperation:
        number = Decimal("nan")
    if not number.is_finite() or number.adjusted() > 20 or isinstance(value, bool):
        raise UsageError(f"{_shown(value)} is not a number of {unit}")
    # Through exact integers: a float of seconds has no digits left for nanoseconds.
    sign, digits, exponent = number.as_tuple()
    whole = int("".join(map(str, digits))) * (-1 if sign else 1)
    shift = int(exponent)
    if shift >= 0:
        return ts_from_int(whole * 10**shift, unit=unit, precision=precision)
    numerator, denominator = whole * precision.per_s, PER_S[unit] * 10**-shift
    ticks = numerator // denominator
    return ts_from_int(ticks, unit=str(precision), precision=precision)


def _ticks_from_form(text: str, form: str, zone: dt.tzinfo | None, precision: Precision) -> int:
    try:
        # Zone-less forms get the zone that the caller stated, just below.
        moment = dt.datetime.strptime(text, form)  # noqa: DTZ007
    except ValueError as error:
        raise UsageError(f"{_shown(text)} is not a time of the form {form!r}") from error
    if moment.tzinfo is None:
        if zone is None:
            raise UsageError(f"the time {_shown(text)} has no zone")
        offset = dt.timedelta(seconds=zone_offset_s(moment, zone))
        moment = moment.replace(tzinfo=dt.timezone(offset))
    return ts_from_datetime(moment, precision)


def check_first_moment(value: Any, name: str, path: str, rule: TimeRule) -> None:
    """Refuse a whole file whose first time shows that a zone or a unit was not stated.

    Raises:
        UsageError: No zone and none stated, or a number and no unit stated.
    """
    if rule.unit is not None or value is None or value == "":
        return
    text = str(value).strip()
    if rule.form is None and (not isinstance(value, str) or _NUMBER.fullmatch(text)):
        raise UsageError(
            f"the times in the column {name!r} of {path} are numbers without a unit "
            f"(the first is {_shown(value)})",
            hint="say their unit with --time-unit s, ms, us or ns",
            column=name,
        )
    if rule.zone is not None:
        return
    try:
        parse_moment(value, rule)
    except FieldError as error:
        if "has no zone" in str(error):
            raise UsageError(
                f"the times in the column {name!r} of {path} have no zone "
                f"(the first is {_shown(value)})",
                hint="say which zone they are in: --tz UTC, or for instance --tz Europe/Berlin",
                column=name,
            ) from error
