"""One reading as it is passed to an append: its event time and its values, checked at once.

The usual forms (a Python number of the column's own kind, an aware datetime, an integer of a known
unit) take a short way; everything else goes through the rules for arrays, so both agree.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, Final

from treering.core.batch import FINER, ROW_BYTES, UNFIT, UNTIMED, Cell
from treering.core.columns import parse_column
from treering.core.schema import ColumnType
from treering.core.table import TableSpec
from treering.core.times import ticks_from_array, ts_from_datetime
from treering.core.units import Precision
from treering.errors import UsageError

_TEXT_BYTES: Final = 60
"""A text beside its UTF-8 bytes: Python's object and the reference to it."""


class ReadingParser:
    """Turns what is passed for one reading of a table into what a batch takes."""

    def __init__(self, spec: TableSpec) -> None:
        self._spec = spec
        self._precision = spec.precision
        self._unit = str(spec.precision)
        self._ts_min, self._ts_end = spec.precision.ts_min, spec.precision.ts_end
        self._columns = {column.name: column for column in spec.columns}
        self._kinds = {column.name: _KINDS.get(column.type) for column in spec.columns}
        self._bytes = {c.name: (c.type.fixed_bytes or 0) + 1 for c in spec.columns}

    def cells(self, values: Mapping[str, Any]) -> tuple[list[Cell], int, int]:
        """Return the cells of a reading, its flags, and the bytes that it counts for.

        Raises:
            UsageError: No column, an unknown one, or a value of a wrong kind.
        """
        if not values:
            raise UsageError(
                f"an append to {self._spec.name!r} names no column",
                hint=f"pass for instance {self._spec.columns[0].name}=98.6",
            )
        cells: list[Cell] = []
        flags, size_bytes = 0, ROW_BYTES
        for name, value in values.items():
            kind = self._kinds.get(name)
            is_float = kind is float and type(value) is float
            if not is_float and (type(value) is not kind or not _is_plain(value)):
                value, is_unfit = self._parse(name, value)
                flags |= UNFIT if is_unfit else 0
            cell_bytes = self._bytes[name]
            if type(value) is str:
                cell_bytes += _TEXT_BYTES + len(value.encode())
            size_bytes += cell_bytes
            cells.append((name, value, cell_bytes))
        return cells, flags, size_bytes

    def _parse(self, name: str, value: Any) -> tuple[Any, bool]:
        column = self._columns.get(name)
        if column is None:
            raise UsageError(
                f"the table {self._spec.name!r} has no column {name!r}",
                hint=f"its columns are {', '.join(self._columns)}",
            )
        data, refused = parse_column([value], column)
        if refused[0]:
            return None, True
        return data.to_list()[0], False

    def time(self, ts: Any, unit: str | None) -> tuple[int, int]:
        """Return an event time in ticks of the table's precision, and its flags.

        Raises:
            UsageError: Not a time, an integer without a unit, or a time without a zone.
        """
        if type(ts) is int and unit == self._unit and self._ts_min <= ts < self._ts_end:
            return ts, 0
        precision = self._precision
        # A subclass may know of nanoseconds, and the last year may be beyond a precision.
        if type(ts) is dt.datetime and 1900 < ts.year < 2200:
            # A datetime counts microseconds, so only milliseconds are coarser.
            is_finer = precision is Precision.MS and ts.microsecond % 1_000
            return ts_from_datetime(ts, precision), FINER if is_finer else 0
        ticks, valid, floored = ticks_from_array([ts], precision=precision, unit=unit)
        flags = (0 if valid[0] else UNTIMED) | (FINER if floored[0] else 0)
        return int(ticks[0]), flags


def _is_plain(value: Any) -> bool:
    """Return whether a value of its column's own kind needs no further look."""
    if type(value) is str:
        try:
            value.encode()
        except UnicodeEncodeError:
            return False
    return type(value) is not int or -(2**31) <= value < 2**31


# A float column is left out: what becomes infinite in it is refused.
_KINDS: Final[dict[ColumnType, type]] = {
    ColumnType.DOUBLE: float,
    ColumnType.INT: int,
    ColumnType.BIGINT: int,
    ColumnType.BOOLEAN: bool,
    ColumnType.TEXT: str,
}
