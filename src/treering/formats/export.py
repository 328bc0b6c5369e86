"""Readings out: CSV, JSON lines and Parquet, in the forms that an import takes back unchanged.

Rules of this file: times are ISO text in UTC with all digits of the table's precision, whatever
the locale; a missing value is an empty field of CSV, and null in JSON; text is made in slices, so
that a result is not held twice.
"""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import numpy as np

from treering.core.columns import ColumnData
from treering.core.schema import ColumnType
from treering.core.times import render_ts
from treering.core.units import TIME_END_S, TIME_MIN_S
from treering.errors import missing_extra
from treering.readings import Readings

_SLICE_ROWS: Final = 50_000


def render_csv(readings: Readings) -> Iterator[str]:
    """Yield CSV text: a header, then a line a reading.

    Numbers are written so that they come back bit for bit; NaN is ``NaN``, infinities are
    ``Infinity`` and ``-Infinity``. An empty text is an empty field too, as CSV has no other.
    """
    names = [column.name for column in readings.schema]
    yield ",".join(["series", "ts", *names]) + "\n"
    for name, times, part in _slices(readings):
        columns = [_csv_fields(part.data[c.name], c.type) for c in readings.schema]
        prefix = _quoted(name)
        lines = [",".join((prefix, *fields)) for fields in zip(times, *columns, strict=True)]
        yield "\n".join(lines) + "\n"


def render_jsonl(readings: Readings) -> Iterator[str]:
    """Yield JSON lines: ``series``, ``ts``, then the columns; a line a reading.

    JSON has no NaN and no infinities: they are the texts ``"NaN"``, ``"Infinity"`` and
    ``"-Infinity"``, and an import takes them back as numbers.
    """
    for name, times, part in _slices(readings):
        columns = [json_values(part.data[c.name], c.type) for c in readings.schema]
        keys = [json.dumps(c.name) for c in readings.schema]
        prefix = f'{{"series": {json.dumps(name, ensure_ascii=False)}, "ts": "'
        lines = [
            prefix
            + ts
            + '"'
            + "".join(
                f", {key}: {json.dumps(value, ensure_ascii=False, allow_nan=False)}"
                for key, value in zip(keys, values, strict=True)
            )
            + "}"
            for ts, *values in zip(times, *columns, strict=True)
        ]
        yield "\n".join(lines) + "\n"


def write_parquet(readings: Readings, stream: BinaryIO) -> None:
    """Write readings as a Parquet file.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """
    try:
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise missing_extra("writing Parquet", "arrow") from error
    parquet.write_table(readings.to_arrow(), stream, compression="zstd")


def render_times(readings: Readings) -> list[str]:
    """Return event times as ISO text in UTC, as :func:`~treering.core.times.render_ts` does."""
    per_s = readings.precision.per_s
    low, high = TIME_MIN_S * per_s, TIME_END_S * per_s
    ts = readings.ts
    # Years of nanoseconds never leave the range; where one does, the slow form shows it.
    if len(ts) and (int(ts.min()) < low or int(ts.max()) >= high):
        return [render_ts(value, readings.precision) for value in ts.tolist()]
    unit: Any = str(readings.precision)
    text: list[str] = np.datetime_as_string(readings.time, unit=unit, timezone="UTC").tolist()
    return text


def json_values(data: ColumnData, column_type: ColumnType) -> list[Any]:
    """Return values that JSON can hold: None where missing, text for what is not finite."""
    values = _shortest(data, column_type)
    if column_type not in (ColumnType.DOUBLE, ColumnType.FLOAT):
        return values
    if bool(np.isfinite(data.values).all()):
        return values
    return [v if v is None or math.isfinite(v) else _nonfinite(v) for v in values]


def _nonfinite(value: float) -> str:
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


def _shortest(data: ColumnData, column_type: ColumnType) -> list[Any]:
    if column_type is not ColumnType.FLOAT:
        return data.to_list()
    # A float32 has fewer digits than the double that Python would show for it.
    texts = data.values.astype("U").tolist()
    there = data.mask().tolist()
    return [float(text) if is_there else None for text, is_there in zip(texts, there, strict=True)]


def _csv_fields(data: ColumnData, column_type: ColumnType) -> list[str]:
    values = json_values(data, column_type)
    match column_type:
        case ColumnType.TEXT:
            return ["" if v is None else _quoted(v) for v in values]
        case ColumnType.BOOLEAN:
            return ["" if v is None else ("true" if v else "false") for v in values]
        case _:
            return ["" if v is None else (v if isinstance(v, str) else repr(v)) for v in values]


def _quoted(text: str) -> str:
    if any(c in text for c in ',"\r\n') or text != text.strip():
        return '"' + text.replace('"', '""') + '"'
    return text


def _slices(readings: Readings) -> Iterator[tuple[str, list[str], Readings]]:
    for name, part in readings.split():
        for start in range(0, len(part), _SLICE_ROWS):
            rows = slice(start, start + _SLICE_ROWS)
            ts = part.ts[rows]
            piece = Readings(
                series=(name,),
                series_rows=(len(ts),),
                ts=ts,
                precision=part.precision,
                schema=part.schema,
                data={key: data.take(rows) for key, data in part.data.items()},
            )
            yield name, render_times(piece), piece


def json_rows(readings: Readings) -> Iterator[dict[str, Any]]:
    """Yield each reading as what a JSON line holds."""
    for name, times, part in _slices(readings):
        columns = [json_values(part.data[c.name], c.type) for c in readings.schema]
        names = [c.name for c in readings.schema]
        for ts, *values in zip(times, *columns, strict=True):
            yield {"series": name, "ts": ts, **dict(zip(names, values, strict=True))}
