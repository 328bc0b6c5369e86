"""How the columns of a file become readings of a table.

Rules of this file: a column that was asked for and is not there is an error that lists what is
there; a file's other columns are ignored; nothing is guessed about zones and units.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from treering.core.schema import Column, check_series
from treering.core.table import TableSpec
from treering.core.units import PER_S, Precision
from treering.errors import UsageError
from treering.intake import parse_zone

TIME_NAME: Final = "ts"
SERIES_NAME: Final = "series"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMapping:
    """What the caller says about the columns of a file.

    Attributes:
        time: The column of event times; ``ts`` by default.
        series: The column of series ids; ``series`` by default, unless ``series_name`` is given.
        series_name: The one series that all readings belong to.
        columns: Table column by file column; by default those that have one name in both.
        time_unit: The unit of times that are numbers: s, ms, us or ns.
        time_format: The ``strptime`` form of times that are not ISO text.
        tz: What times without a zone mean, such as ``Europe/Berlin``.
        delimiter: What stands between the fields of CSV.
    """

    time: str | None = None
    series: str | None = None
    series_name: str | None = None
    columns: Mapping[str, str] | None = None
    time_unit: str | None = None
    time_format: str | None = None
    tz: str | None = None
    delimiter: str = ","

    def __post_init__(self) -> None:
        if self.series is not None and self.series_name is not None:
            raise UsageError(
                "a series column and a series name were both given",
                hint="give the column if the file has one, else the name",
            )
        if self.series_name is not None:
            check_series(self.series_name)
        if self.time_unit is not None and self.time_unit not in PER_S:
            raise UsageError(
                f"{self.time_unit!r} is not a unit of time", hint="use s, ms, us or ns"
            )
        if self.time_unit is not None and self.time_format is not None:
            raise UsageError(
                "a unit and a form of times were both given",
                hint="give the unit for numbers, the form for text",
            )
        if len(self.delimiter) != 1 or self.delimiter in '"\r\n':
            raise UsageError(
                f"{self.delimiter!r} cannot stand between fields",
                hint="use one character, such as ; or a tab",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRule:
    """What the times of a file mean.

    Attributes:
        precision: The precision of the table.
        unit: The unit of numbers; None where times are text.
        form: The ``strptime`` form; None for ISO text.
        zone: What a time without a zone means; None where each has one.
        zone_name: The name of ``zone``.
    """

    precision: Precision
    unit: str | None = None
    form: str | None = None
    zone: dt.tzinfo | None = None
    zone_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLayout:
    """The columns of one file, matched with those of one table.

    Attributes:
        path: The file, as people know it.
        names: All columns of the file, in order; empty where lines name their own.
        time: The column of event times.
        series: The column of series ids; None where ``series_name`` says it.
        series_name: The one series of the file.
        values: Column of the file and column of the table, in pairs.
        rule: What times mean.
        delimiter: What stands between fields.
    """

    path: str
    names: tuple[str, ...]
    time: str
    series: str | None
    series_name: str | None
    values: tuple[tuple[str, Column], ...]
    rule: TimeRule
    delimiter: str = ","

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the table that the file fills."""
        return tuple(column for _, column in self.values)


def plan_layout(
    mapping: FileMapping, spec: TableSpec, names: Sequence[str] | None, *, path: str
) -> FileLayout:
    """Match the columns of a file with those of a table.

    Args:
        mapping: What the caller says.
        spec: The table.
        names: The columns of the file; None where each line names its own (JSON lines).
        path: The file, for messages.

    Raises:
        UsageError: A column that the file or the table does not have, or a name that stands
            twice in the file.
    """
    if names is not None:
        _check_delimiter(names, mapping.delimiter, path)
    time = mapping.time or TIME_NAME
    series = None if mapping.series_name is not None else (mapping.series or SERIES_NAME)
    values = _values(mapping, spec, names, {time, series}, path)
    if names is not None:
        _check_column(names, time, path, "--time", "event times")
        if series is not None:
            _check_column(names, series, path, "--series", "series ids")
        for name, _ in values:
            _check_column(names, name, path, "--column", "values")
    return FileLayout(
        path=path,
        names=tuple(names or ()),
        time=time,
        series=series,
        series_name=mapping.series_name,
        values=values,
        rule=TimeRule(
            precision=spec.precision,
            unit=mapping.time_unit,
            form=mapping.time_format,
            zone=None if mapping.tz is None else parse_zone(mapping.tz),
            zone_name=mapping.tz,
        ),
        delimiter=mapping.delimiter,
    )


_DELIMITERS: Final = (";", "\t", ",", "|")


def _check_delimiter(names: Sequence[str], delimiter: str, path: str) -> None:
    """Refuse a header of one column that holds another usual delimiter."""
    if len(names) != 1:
        return
    (name,) = names
    others = [one for one in _DELIMITERS if one != delimiter and one in name]
    if others:
        best = max(others, key=name.count)
        shown = "\\t" if best == "\t" else best
        raise UsageError(
            f"the header of {path} is one column, {name!r}: it is not separated by {delimiter!r}",
            hint=f"say what stands between its fields: --delimiter '{shown}'",
            delimiter=best,
        )


def _values(
    mapping: FileMapping,
    spec: TableSpec,
    names: Sequence[str] | None,
    taken: set[str | None],
    path: str,
) -> tuple[tuple[str, Column], ...]:
    if mapping.columns is not None:
        pairs = tuple((name, spec.column(to)) for name, to in mapping.columns.items())
        targets = [column.name for _, column in pairs]
        if len(set(targets)) < len(targets):
            raise UsageError(f"two columns of {path} go to one column of {spec.name!r}")
        return pairs
    pairs = tuple(
        (c.name, c)
        for c in spec.columns
        if c.name not in taken and (names is None or c.name in names)
    )
    if not pairs:
        listed = ", ".join(map(repr, names or ()))
        raise UsageError(
            f"{path} has none of the columns of {spec.name!r} "
            f"({', '.join(column.name for column in spec.columns)}); it has {listed}",
            hint="say which column goes where: --column FILE_COLUMN=TABLE_COLUMN",
        )
    return pairs


def _check_column(names: Sequence[str], name: str, path: str, option: str, what: str) -> None:
    count = list(names).count(name)
    if count == 1:
        return
    if count > 1:
        raise UsageError(
            f"{path} has {count} columns named {name!r}", hint="give them different names"
        )
    extra = ", or --series-name NAME if the file is one series" if option == "--series" else ""
    raise UsageError(
        f"{path} has no column {name!r} for the {what}; it has {', '.join(map(repr, names))}",
        hint=f"say which it is with {option}{extra}",
        column=name,
    )
