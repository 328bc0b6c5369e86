"""From what people pass to a write to arrays: times and columns of one series, or a frame."""

from __future__ import annotations

import datetime as dt
import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from treering.core.columns import ColumnData, parse_column
from treering.core.schema import check_series
from treering.core.table import TableSpec
from treering.core.times import ticks_from_array, zone_offset_s
from treering.core.write_input import WriteInput, WriteInputs, edges_of_codes, order_of_codes
from treering.core.write_plan import unselected
from treering.errors import UsageError, missing_extra

BoolArray = npt.NDArray[np.bool_]

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def _is_scalar(value: Any) -> bool:
    return isinstance(value, (str, int, float, bool, dt.date, np.generic)) or value is None


def input_of_series(
    spec: TableSpec, series: str, times: Any, values: Mapping[str, Any], *, unit: str | None
) -> WriteInput:
    """Return the readings of one series as arrays.

    Args:
        spec: The table.
        series: The series id.
        times: Times in any form that a write takes; one time and one value each is fine too.
        values: Values by column name.
        unit: The unit of integer times.

    Raises:
        UsageError: An unknown column, lengths that differ, no column, or wrong types.
    """
    check_series(series)
    _check_names(spec, values)
    if _is_scalar(times):
        times = [times]
        values = {name: [value] for name, value in values.items()}
    ts, timed, finer = ticks_from_array(times, precision=spec.precision, unit=unit)
    columns, unfit = _columns_of(spec, values, len(ts))
    return WriteInput(series=series, ts=ts, timed=timed, finer=finer, columns=columns, unfit=unfit)


def _check_names(spec: TableSpec, values: Mapping[str, Any]) -> None:
    unknown = unselected(spec.columns, values)
    if unknown:
        raise UsageError(
            f"the table {spec.name!r} has no column {', '.join(map(repr, unknown))}",
            hint=f"its columns are {', '.join(column.name for column in spec.columns)}",
        )
    if not values:
        raise UsageError(
            f"a write to {spec.name!r} names no column",
            hint=f"pass for instance {spec.columns[0].name}=values",
        )


def _columns_of(
    spec: TableSpec, values: Mapping[str, Any], count: int
) -> tuple[dict[str, ColumnData], BoolArray]:
    columns: dict[str, ColumnData] = {}
    unfit = np.zeros(count, dtype=np.bool_)
    for name, given in values.items():
        data, refused = parse_column(given, spec.column(name))
        if len(data) != count:
            raise UsageError(
                f"the column {name!r} has {len(data):,} values for {count:,} times",
                hint="pass one value a time; a missing value is None",
            )
        columns[name] = data
        unfit |= refused
    return columns, unfit


def inputs_of_frame(
    spec: TableSpec,
    frame: Any,
    *,
    time: str,
    series: str | None,
    series_name: str | None,
    columns: Mapping[str, str] | None,
    unit: str | None,
    tz: str | None,
) -> WriteInputs:
    """Return the readings of each series of a frame, in order of first appearance.

    Args:
        spec: The table.
        frame: A mapping of arrays, or anything with the Arrow C stream interface.
        time: The frame's column of times.
        series: The frame's column of series ids; None where ``series_name`` says it.
        series_name: The one series that all rows belong to.
        columns: Table column by frame column; by default those that have one name in both.
        unit: The unit of integer times.
        tz: What zone-less times mean, such as ``Europe/Berlin``.

    Raises:
        UsageError: A column that the frame or the table does not have, or zone-less times.
    """
    arrays = _arrays_of(frame)
    if (series is None) == (series_name is None):
        both = "both" if series is not None else "neither"
        raise UsageError(
            f"a frame is of series that a column names, or of one series; {both} was said",
            hint="say either series= (a column) or series_name= (one series for all)",
        )
    for needed in [time, *([series] if series is not None else [])]:
        _check_has(arrays, needed)
    mapping = _column_mapping(spec, arrays, columns, {time, series})
    zone = None if tz is None else parse_zone(tz)
    ts, timed, finer = ticks_from_array(
        _zoned(arrays[time], zone, time), precision=spec.precision, unit=unit, zone=zone
    )
    data, unfit = _columns_of(
        spec, {to: arrays[name].values for name, to in mapping.items()}, len(ts)
    )
    names, codes = _series_of(arrays, series, series_name, len(ts))
    order = order_of_codes(codes)
    if order is not None:
        codes = codes[order]
    inputs = WriteInputs(
        series=names,
        edges=edges_of_codes(codes, len(names)),
        ts=ts,
        timed=timed,
        finer=finer,
        columns=data,
        unfit=unfit,
    )
    return inputs if order is None else inputs.take(order)


class _FrameColumn:
    """A column of a frame: values as NumPy or Python has them, and its time zone if it has one."""

    def __init__(self, values: Any, *, is_zoned: bool = False) -> None:
        self.values = values
        self.is_zoned = is_zoned


def _arrays_of(frame: Any) -> dict[str, _FrameColumn]:
    if isinstance(frame, Mapping):
        # An array of datetime64 is UTC, as NumPy defines it; only frames have zone-less times.
        return {str(name): _FrameColumn(values, is_zoned=True) for name, values in frame.items()}
    if not hasattr(frame, "__arrow_c_stream__") and not hasattr(frame, "__arrow_c_array__"):
        raise UsageError(
            f"{type(frame).__name__} is not a frame",
            hint="pass a mapping of arrays, or a pandas, Polars or Arrow frame",
        )
    try:
        pa = importlib.import_module("pyarrow")
    except ImportError as error:
        raise missing_extra("write_frame with a frame", "arrow") from error
    table = pa.table(frame)
    return {
        name: _from_arrow(pa, table.column(name).combine_chunks()) for name in table.column_names
    }


def _from_arrow(pa: Any, array: Any) -> _FrameColumn:
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks else pa.array([], type=array.type)
    # A dictionary of text goes the way of text below: Arrow cannot decode one of string views,
    # which is what categoricals of Polars are.
    if pa.types.is_dictionary(array.type) and pa.types.is_primitive(array.type.value_type):
        array = array.dictionary_decode()
    if pa.types.is_timestamp(array.type):
        values = array.cast(pa.timestamp(array.type.unit)).to_numpy(zero_copy_only=False)
        return _FrameColumn(values, is_zoned=array.type.tz is not None)
    if pa.types.is_date(array.type):
        return _FrameColumn(array.to_numpy(zero_copy_only=False), is_zoned=True)
    numeric = pa.types.is_integer(array.type) or pa.types.is_floating(array.type)
    if numeric or pa.types.is_boolean(array.type):
        if not array.null_count:
            return _FrameColumn(array.to_numpy(zero_copy_only=False))
        mask = array.is_null().to_numpy(zero_copy_only=False)
        filled = array.fill_null(False if pa.types.is_boolean(array.type) else 0)
        return _FrameColumn(np.ma.MaskedArray(filled.to_numpy(zero_copy_only=False), mask=mask))
    values = np.empty(len(array), dtype=object)
    values[:] = array.to_pylist()
    return _FrameColumn(values)


def _check_has(arrays: Mapping[str, _FrameColumn], name: str) -> None:
    if name not in arrays:
        raise UsageError(f"the frame has no column {name!r}", hint=f"it has {', '.join(arrays)}")


def _column_mapping(
    spec: TableSpec,
    arrays: Mapping[str, _FrameColumn],
    columns: Mapping[str, str] | None,
    taken: set[str | None],
) -> dict[str, str]:
    if columns is None:
        mapping = {c.name: c.name for c in spec.columns if c.name in arrays.keys() - taken}
    else:
        mapping = dict(columns)
    for name in mapping:
        _check_has(arrays, name)
    if len(set(mapping.values())) != len(mapping):
        raise UsageError(
            f"two columns of the frame go to one of the table: {mapping}",
            hint="map each column of the table once",
        )
    _check_names(spec, dict.fromkeys(mapping.values()))
    return mapping


def _zoned(column: _FrameColumn, zone: dt.tzinfo | None, name: str) -> Any:
    values = column.values
    is_naive_frame_time = (
        isinstance(values, np.ndarray) and values.dtype.kind == "M" and not column.is_zoned
    )
    if not is_naive_frame_time:
        return values
    if zone is None:
        raise UsageError(
            f"the times of the column {name!r} have no zone",
            hint="say tz='UTC', or the zone that they are in, such as tz='Europe/Berlin'",
        )
    return values if zone is dt.UTC else _from_zone(values, zone)


def _from_zone(values: npt.NDArray[Any], zone: dt.tzinfo) -> npt.NDArray[Any]:
    # In their own unit: years that nanoseconds do not reach would wrap silently.
    moved = values.copy()
    # One offset a distinct hour: zones change their offset on whole quarters of an hour at most.
    quarters = moved.astype("datetime64[m]").astype(np.int64) // 15
    for quarter in np.unique(quarters[~np.isnat(moved)]).tolist():
        try:
            start = _EPOCH + dt.timedelta(minutes=15 * quarter)
        except OverflowError:
            continue  # Outside the years that a table takes: refused later, reading by reading.
        moved[quarters == quarter] -= np.timedelta64(zone_offset_s(start, zone), "s")
    return moved


def parse_zone(tz: str) -> dt.tzinfo:
    """Return a time zone by its name.

    Raises:
        UsageError: No such zone.
    """
    if tz.upper() == "UTC":
        return dt.UTC
    zoneinfo = importlib.import_module("zoneinfo")
    try:
        zone: dt.tzinfo = zoneinfo.ZoneInfo(tz)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UsageError(
            f"{tz!r} is not a time zone", hint="use a name such as UTC or Europe/Berlin"
        ) from error
    return zone


def _series_of(
    arrays: Mapping[str, _FrameColumn], series: str | None, series_name: str | None, count: int
) -> tuple[tuple[str, ...], npt.NDArray[np.int64]]:
    """Return the series ids of a frame, each once, and the place of each row's among them."""
    if series is None:
        return (check_series(str(series_name)),), np.zeros(count, dtype=np.int64)
    names = _as_list(arrays[series])
    if set(map(type, names)) - {str}:
        names = [_series_text(value, place) for place, value in enumerate(names)]
    if len(names) != count:
        raise UsageError(f"the column {series!r} has {len(names):,} values for {count:,} times")
    places = {name: place for place, name in enumerate(dict.fromkeys(names))}
    for name in places:
        check_series(name)
    return tuple(places), np.fromiter(map(places.__getitem__, names), np.int64, count)


def _as_list(column: _FrameColumn) -> list[Any]:
    values = column.values
    return values.tolist() if isinstance(values, np.ndarray) else list(values)


def _series_text(value: Any, place: int) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise UsageError(
            f"row {place} of the frame has no series id but {value!r}",
            hint="fill the column, or leave such rows out",
        )
    return check_series(value)
