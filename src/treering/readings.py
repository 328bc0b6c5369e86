"""Readings: the columnar result of a read, and its conversions.

Rules of this file: event times stay integers of the table's precision, so that no stored time
can make a result raise; NumPy, pandas, Polars, Arrow and rows are chosen last, by the caller.
"""

from __future__ import annotations

import datetime as dt
import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from treering.core.columns import ColumnData, concat_columns
from treering.core.read_plan import PartitionRead
from treering.core.schema import Column, ColumnType
from treering.core.times import render_ts
from treering.core.units import TIME_END_S, TIME_MIN_S, Precision, render_count
from treering.errors import UsageError, missing_extra

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

Part = tuple[npt.NDArray[np.int64], Mapping[str, ColumnData]]
"""Event times and the columns that go with them."""

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Readings:
    """Readings of one or several series, by column.

    Attributes:
        series: The series that were read, in the order that was asked for.
        series_rows: How many readings each of them has; they follow one another.
        ts: Event times in ticks of ``precision``, int64, shape (n,).
        precision: The unit of ``ts``.
        schema: The columns of values.
        data: Their values, n each.
        missing: Partitions that could not be read; empty unless a partial result was allowed.
    """

    series: tuple[str, ...]
    series_rows: tuple[int, ...]
    ts: npt.NDArray[np.int64]
    precision: Precision
    schema: tuple[Column, ...]
    data: Mapping[str, ColumnData]
    missing: tuple[PartitionRead, ...] = field(default=())

    def __len__(self) -> int:
        return len(self.ts)

    def __repr__(self) -> str:
        # Not the arrays: a prompt would show kilobytes.
        columns = ", ".join(column.name for column in self.schema)
        missing = f", {render_count(len(self.missing), 'partition')} missing"
        return (
            f"<Readings: {render_count(len(self), 'reading')} of "
            f"{render_count(len(self.series), 'series', 'series')}: {columns}"
            f"{missing if self.missing else ''}>"
        )

    @property
    def is_partial(self) -> bool:
        """Whether partitions are missing; ``missing`` names them."""
        return bool(self.missing)

    @property
    def time(self) -> npt.NDArray[np.datetime64]:
        """Event times as ``datetime64`` of the table's precision, UTC; shares memory."""
        return self.ts.view(f"datetime64[{self.precision}]")

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        """Return the values of a column: a masked array where some are missing.

        Raises:
            UsageError: The result has no such column.
        """
        if name not in self.data:
            raise UsageError(
                f"the result has no column {name!r}", hint=f"it has {', '.join(self.data)}"
            )
        return self.data[name].to_masked()

    def series_column(self) -> npt.NDArray[np.object_]:
        """Return the series id of every reading, as an object array."""
        names = np.empty(len(self.series), dtype=object)
        names[:] = self.series
        return np.repeat(names, self.series_rows)

    def split(self) -> Iterator[tuple[str, Readings]]:
        """Yield each series with its own readings; memory is shared."""
        start = 0
        for name, rows in zip(self.series, self.series_rows, strict=True):
            part = slice(start, start + rows)
            start += rows
            yield (
                name,
                Readings(
                    series=(name,),
                    series_rows=(rows,),
                    ts=self.ts[part],
                    precision=self.precision,
                    schema=self.schema,
                    data={key: data.take(part) for key, data in self.data.items()},
                    missing=tuple(read for read in self.missing if read.series == name),
                ),
            )

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield readings as dictionaries: ``series``, ``ts`` as ISO text, then the columns.

        A missing value is None. For people and text formats, not for speed.
        """
        lists = [(column.name, self.data[column.name].to_list()) for column in self.schema]
        for place, (name, ts) in enumerate(
            zip(self.series_column().tolist(), self.ts.tolist(), strict=True)
        ):
            row = {"series": name, "ts": render_ts(ts, self.precision)}
            row.update((key, values[place]) for key, values in lists)
            yield row

    def to_datetimes(self) -> list[dt.datetime | None]:
        """Return event times as aware datetimes; None where a datetime cannot hold the time.

        Nanoseconds are floored to the microseconds that a datetime has.
        """
        return [_datetime_of(ts, self.precision) for ts in self.ts.tolist()]

    def to_arrow(self) -> pa.Table:
        """Return a ``pyarrow.Table``: series, ts, then the columns; nulls where missing.

        Times and numbers share memory with the readings; booleans and text are copied.

        Raises:
            MissingExtraError: pyarrow is not installed.
        """
        pa = _import("pyarrow", "arrow", "Readings.to_arrow")
        arrays = [self._arrow_series(pa), pa.array(self.time, type=self._arrow_time(pa))]
        for column in self.schema:
            data = self.data[column.name]
            mask = None if data.present is None else ~data.present
            arrays.append(pa.array(data.values, type=_arrow_type(pa, column.type), mask=mask))
        return pa.table(arrays, names=["series", "ts", *(column.name for column in self.schema)])

    def _arrow_series(self, pa: Any) -> Any:
        codes = np.repeat(np.arange(len(self.series), dtype=np.int32), self.series_rows)
        names = pa.array(list(self.series), type=pa.string())
        return pa.DictionaryArray.from_arrays(pa.array(codes), names)

    def _arrow_time(self, pa: Any) -> Any:
        return pa.timestamp(str(self.precision), tz="UTC")

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Hand the readings to any library that speaks the Arrow C stream interface."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> pd.DataFrame:
        """Return a ``pandas.DataFrame``: series, ts, then the columns.

        Missing values are NaN in double and float columns, and ``pandas.NA`` in nullable types
        for the others.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        pandas = _import("pandas", "pandas", "Readings.to_pandas")
        frame: dict[str, Any] = {
            "series": pandas.Categorical.from_codes(
                np.repeat(np.arange(len(self.series)), self.series_rows), list(self.series)
            ),
            "ts": pandas.Series(self.time).dt.tz_localize("UTC"),
        }
        for column in self.schema:
            frame[column.name] = _pandas_values(pandas, self.data[column.name], column.type)
        result: pd.DataFrame = pandas.DataFrame(frame)
        return result

    def to_polars(self) -> pl.DataFrame:
        """Return a ``polars.DataFrame``: series, ts, then the columns; nulls where missing.

        Times and numbers share memory with the readings; booleans and text are copied.

        Raises:
            MissingExtraError: Polars or pyarrow is not installed.
        """
        polars = _import("polars", "polars", "Readings.to_polars")
        result: pl.DataFrame = polars.DataFrame(polars.from_arrow(self.to_arrow()))
        return result


def _datetime_of(ts: int, precision: Precision) -> dt.datetime | None:
    seconds, ticks = divmod(ts, precision.per_s)
    if not TIME_MIN_S <= seconds < TIME_END_S:
        return None
    return _EPOCH + dt.timedelta(seconds=seconds, microseconds=ticks * 1_000_000 // precision.per_s)


def _import(module: str, extra: str, what: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise missing_extra(what, extra) from error


def _arrow_type(pa: Any, column_type: ColumnType) -> Any:
    return {
        ColumnType.DOUBLE: pa.float64(),
        ColumnType.FLOAT: pa.float32(),
        ColumnType.INT: pa.int32(),
        ColumnType.BIGINT: pa.int64(),
        ColumnType.BOOLEAN: pa.bool_(),
        ColumnType.TEXT: pa.string(),
    }[column_type]


def _pandas_values(pd: Any, data: ColumnData, column_type: ColumnType) -> Any:
    if data.present is None:
        return data.values
    absent = ~data.present
    match column_type:
        case ColumnType.DOUBLE | ColumnType.FLOAT:
            return np.where(absent, np.nan, data.values).astype(column_type.dtype)
        case ColumnType.INT | ColumnType.BIGINT:
            return pd.arrays.IntegerArray(data.values.copy(), absent)
        case ColumnType.BOOLEAN:
            return pd.arrays.BooleanArray(data.values.copy(), absent)
        case ColumnType.TEXT:
            return pd.array(data.to_list(), dtype=object)


def _joined(parts: Sequence[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)


def readings_from_parts(
    parts: Mapping[str, Sequence[Part]],
    *,
    series: tuple[str, ...],
    precision: Precision,
    schema: tuple[Column, ...],
    missing: tuple[PartitionRead, ...] = (),
) -> Readings:
    """Join the pages of each series, in order, into one result."""
    pages = [(name, page) for name in series for page in parts.get(name, ())]
    ts = [page[0] for _, page in pages]
    rows = dict.fromkeys(series, 0)
    for name, page in pages:
        rows[name] += len(page[0])
    return Readings(
        series=series,
        series_rows=tuple(rows.values()),
        ts=_joined(ts),
        precision=precision,
        schema=schema,
        data={
            column.name: concat_columns([page[1][column.name] for _, page in pages], column.type)
            for column in schema
        },
        missing=missing,
    )
