"""Readings for people: a table of the first and the last, with how many there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from treering.cli.output import render_table
from treering.core.units import render_count

if TYPE_CHECKING:
    from treering.readings import Readings

SHOWN: Final = 20
"""Readings at each end of what is shown; all are shown up to twice as many."""


def render_readings(readings: Readings) -> Any:
    """Return readings as something that Rich prints."""
    from rich.console import Group
    from rich.text import Text

    count = len(readings)
    names = ["series", "ts", *(column.name for column in readings.schema)]
    if count <= 2 * SHOWN:
        rows = _rows(readings, slice(0, count))
    else:
        gap = [f"… {count - 2 * SHOWN:,} more", *["…"] * (len(names) - 1)]
        rows = [
            *_rows(readings, slice(0, SHOWN)),
            gap,
            *_rows(readings, slice(count - SHOWN, count)),
        ]
    ending = f"{render_count(count, 'reading')} of {len(readings.series):,} series"
    if count > 2 * SHOWN:
        ending += "; all of them with --format csv, jsonl or parquet"
    return Group(render_table(names, rows, right=2), Text(ending))


def _rows(readings: Readings, part: slice) -> list[list[str]]:
    from treering.core.times import render_ts
    from treering.formats.export import json_values

    series = readings.series_column()[part].tolist()
    times = [render_ts(ts, readings.precision) for ts in readings.ts[part].tolist()]
    columns = [json_values(readings.data[c.name].take(part), c.type) for c in readings.schema]
    return [
        [name, ts, *(_cell(value) for value in values)]
        for name, ts, *values in zip(series, times, *columns, strict=True)
    ]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)
