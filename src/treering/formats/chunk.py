"""A part of a file as arrays that a table takes, with the line of each reading."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from treering.core.schema import check_series
from treering.errors import UsageError
from treering.formats.layout import SERIES_NAME, TIME_NAME, FileLayout
from treering.formats.values import FieldError, parse_moment


@dataclass(frozen=True, slots=True)
class RefusedLine:
    """A line that did not become a reading.

    Attributes:
        line: Its number in the file, from 1 (Parquet: the number of the row).
        reason: Why.
        kind: The reason without what is particular to the line, for counting.
        fields: The line as it stands in the file, by column.
    """

    line: int
    reason: str
    kind: str
    fields: tuple[str, ...]

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}"


Original = Callable[[int], tuple[str, ...]]
"""Returns the fields of the line with a number, as they stand in the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Readings of a part of a file.

    Attributes:
        frame: What ``Table.write_frame`` takes: times, series ids and columns of the table.
        lines: The line of each reading, int64, shape (n,).
        refused: Lines that are no readings.
        names: The columns of the file; empty where lines name their own.
        original: Looks a line up.
        bytes_read: How far into the file its end is.
        keys: The names that its lines have, where each line names its own.
    """

    frame: Mapping[str, Any]
    lines: npt.NDArray[np.int64]
    refused: tuple[RefusedLine, ...]
    names: tuple[str, ...]
    original: Original
    bytes_read: int = field(default=0)
    keys: frozenset[str] = field(default=frozenset())

    def __len__(self) -> int:
        return len(self.lines)


class RowCollector:
    """Gathers readings line by line: the exact way, where arrays cannot be had at once.

    Args:
        layout: The columns of the file.
        original: Looks a line up.
    """

    def __init__(self, layout: FileLayout, original: Original) -> None:
        self._layout = layout
        self._original = original
        self._rows: dict[bool, _Rows] = {True: _Rows(layout), False: _Rows(layout)}
        self._refused: list[RefusedLine] = []

    def refuse(self, line: int, reason: str, kind: str | None = None) -> None:
        """Note a line that is no reading."""
        self._refused.append(RefusedLine(line, reason, kind or reason, self._original(line)))

    def add(self, line: int, time: Any, series: Any, values: Sequence[Callable[[], Any]]) -> None:
        """Take a line, or refuse it.

        Args:
            line: Its number.
            time: The field of its event time.
            series: The field of its series id.
            values: One function a column of the layout, that returns its value.
        """
        try:
            ts, is_ns = parse_moment(time, self._layout.rule)
            name = self._layout.series_name or series_text(series)
            taken = [value() for value in values]
        except FieldError as error:
            self.refuse(line, str(error), error.kind)
            return
        self._rows[is_ns].append(line, ts, name, taken)

    def chunks(self, bytes_read: int, keys: frozenset[str] = frozenset()) -> Iterator[Chunk]:
        """Yield what was gathered: one chunk, or two where some times are beyond nanoseconds."""
        refused = tuple(self._refused)
        for is_ns, rows in self._rows.items():
            if rows.lines or (is_ns and refused):
                unit = "ns" if is_ns else str(self._layout.rule.precision)
                yield Chunk(
                    frame=rows.frame(unit),
                    lines=np.array(rows.lines, dtype=np.int64),
                    refused=refused if is_ns else (),
                    names=self._layout.names,
                    original=self._original,
                    bytes_read=bytes_read,
                    keys=keys,
                )


class _Rows:
    def __init__(self, layout: FileLayout) -> None:
        self._layout = layout
        self.lines: list[int] = []
        self._ts: list[int] = []
        self._series: list[str] = []
        self._values: list[list[Any]] = [[] for _ in layout.values]

    def append(self, line: int, ts: int, series: str, values: Sequence[Any]) -> None:
        self.lines.append(line)
        self._ts.append(ts)
        self._series.append(series)
        for column, value in zip(self._values, values, strict=True):
            column.append(value)

    def frame(self, unit: str) -> dict[str, Any]:
        frame: dict[str, Any] = {
            TIME_NAME: np.array(self._ts, dtype=np.int64).view(f"datetime64[{unit}]")
        }
        if self._layout.series is not None:
            frame[SERIES_NAME] = self._series
        for column, values in zip(self._layout.columns, self._values, strict=True):
            frame[column.name] = values
        return frame


def series_text(value: Any) -> str:
    """Return the series id of a field.

    Raises:
        FieldError: None, or not one that every engine keeps.
    """
    if value is None or value == "":
        raise FieldError("no series id", "no series id")
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    try:
        return check_series(value)
    except UsageError as error:
        is_padded = isinstance(value, str) and value != value.strip()
        kind = "a series id that starts or ends with a blank" if is_padded else "not a series id"
        raise FieldError(error.message, kind) from error
