"""Readings: the columnar result and its conversions, none of which may raise for a stored time."""

from __future__ import annotations

import datetime as dt
import math
import sys
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from treering.core.columns import ColumnData, column_from_list
from treering.core.schema import Column, ColumnType, parse_columns
from treering.core.units import Precision
from treering.errors import MissingExtraError, UsageError
from treering.readings import Readings, readings_from_parts

SCHEMA = parse_columns("d:double,f:float,i:int,b:bigint,o:boolean,t:text")
FULL: dict[str, list[Any]] = {
    "d": [1.5, math.inf, -0.0],
    "f": [0.5, -1.0, 2.0],
    "i": [1, -(2**31), 2**31 - 1],
    "b": [1, -(2**63), 2**63 - 1],
    "o": [True, False, True],
    "t": ["a", "", "ä😀"],
}
HOLES: dict[str, list[Any]] = {name: [items[0], None, items[2]] for name, items in FULL.items()}
OUT_OF_RANGE = [0, 253_402_300_800_000, 2**63 - 1]


def readings(
    values: dict[str, list[Any]],
    *,
    ts: list[int] | None = None,
    precision: Precision = Precision.MS,
    rows: tuple[int, ...] = (2, 1),
) -> Readings:
    count = sum(rows)
    return Readings(
        series=tuple("xyz"[: len(rows)]),
        series_rows=rows,
        ts=np.array([0, 1, -1][:count] if ts is None else ts, dtype=np.int64),
        precision=precision,
        schema=SCHEMA,
        data={c.name: column_from_list(values[c.name][:count], c.type) for c in SCHEMA},
    )


EMPTY = readings(FULL, rows=(0,))


# NumPy


@pytest.mark.parametrize("precision", list(Precision))
def test_time_is_datetime64_of_the_precision_and_shares_memory(precision: Precision) -> None:
    found = readings(FULL, precision=precision)
    assert found.time.dtype == np.dtype(f"datetime64[{precision}]")
    assert np.shares_memory(found.time, found.ts)
    assert found.time.astype(np.int64).tolist() == found.ts.tolist()


def test_column_is_plain_where_all_is_there_and_masked_where_not() -> None:
    full, holes = readings(FULL), readings(HOLES)
    for column in SCHEMA:
        assert full[column.name].dtype == holes[column.name].dtype == column.type.dtype
        assert not np.ma.isMaskedArray(full[column.name])
        assert np.shares_memory(full[column.name], full.data[column.name].values)
        assert full[column.name].tolist() == FULL[column.name]
        assert np.ma.getmaskarray(holes[column.name]).tolist() == [False, True, False]
        assert holes[column.name].tolist() == HOLES[column.name]


def test_unknown_column_is_named_with_those_there_are() -> None:
    with pytest.raises(UsageError, match="no column 'nope'") as caught:
        readings(FULL)["nope"]
    assert "d, f, i, b, o, t" in caught.value.hint


def test_empty_result_keeps_its_types_in_every_form() -> None:
    assert len(EMPTY) == 0
    assert EMPTY.time.dtype == np.dtype("datetime64[ms]")
    for column in SCHEMA:
        assert EMPTY[column.name].dtype == column.type.dtype
    assert EMPTY.to_arrow().schema == readings(FULL).to_arrow().schema
    assert EMPTY.to_polars().schema == readings(FULL).to_polars().schema
    assert EMPTY.to_pandas()[["d", "f", "i", "b", "o"]].dtypes.tolist() == [
        np.dtype(name) for name in ("float64", "float32", "int32", "int64", "bool")
    ]
    assert str(EMPTY.to_pandas()["ts"].dtype) == "datetime64[ms, UTC]"
    assert list(EMPTY.rows()) == EMPTY.to_datetimes() == []
    assert [(name, len(part)) for name, part in EMPTY.split()] == [("x", 0)]


def test_split_gives_each_series_its_own_readings_and_shares_memory() -> None:
    found = readings(HOLES)
    parts = dict(found.split())
    assert {name: part.ts.tolist() for name, part in parts.items()} == {"x": [0, 1], "y": [-1]}
    assert parts["x"].series == ("x",)
    assert parts["x"]["i"].tolist() == [1, None]
    assert parts["y"].data["i"].present is None
    assert np.shares_memory(parts["x"].ts, found.ts)
    assert np.shares_memory(parts["y"]["d"], found.data["d"].values)
    assert found.series_column().tolist() == ["x", "x", "y"]


def test_parts_are_joined_series_by_series_in_the_order_asked_for() -> None:
    schema = (Column("v", ColumnType.INT),)

    def page(ts: list[int], values: list[Any]) -> tuple[Any, dict[str, ColumnData]]:
        return np.array(ts), {"v": column_from_list(values, ColumnType.INT)}

    joined = readings_from_parts(
        {"a": [page([5], [None])], "b": [page([1, 2], [1, 2]), page([3], [3])]},
        series=("b", "none", "a"),
        precision=Precision.MS,
        schema=schema,
    )
    assert joined.series_rows == (3, 0, 1)
    assert joined.ts.tolist() == [1, 2, 3, 5]
    assert joined["v"].tolist() == [1, 2, 3, None]


# Rows and datetimes


def test_rows_have_iso_times_and_none_where_missing() -> None:
    first, second, third = readings(HOLES).rows()
    assert first == {"series": "x", "ts": "1970-01-01T00:00:00.000Z"} | {
        name: items[0] for name, items in FULL.items()
    }
    assert all(second[name] is None for name in FULL)
    assert (third["series"], third["ts"]) == ("y", "1969-12-31T23:59:59.999Z")
    assert type(first["i"]) is int
    assert type(first["o"]) is bool


def test_times_that_a_datetime_cannot_hold_make_nothing_raise() -> None:
    found = readings(FULL, ts=OUT_OF_RANGE)
    assert found.to_datetimes() == [dt.datetime(1970, 1, 1, tzinfo=dt.UTC), None, None]
    assert [row["ts"] for row in found.rows()] == [
        "1970-01-01T00:00:00.000Z",
        "@253402300800000ms",
        "@9223372036854775807ms",
    ]
    assert found.ts.tolist() == OUT_OF_RANGE
    assert found.time.astype(np.int64).tolist() == OUT_OF_RANGE
    assert found.to_arrow()["ts"].cast(pa.int64()).to_pylist() == OUT_OF_RANGE
    assert found.to_polars()["ts"].to_physical().to_list() == OUT_OF_RANGE
    frame = found.to_pandas()
    assert frame["ts"].dt.tz_localize(None).to_numpy().astype(np.int64).tolist() == OUT_OF_RANGE
    assert frame["d"].tolist() == FULL["d"]


@pytest.mark.parametrize(
    ("precision", "ts", "us"),
    [
        (Precision.MS, 50, 50_000),
        (Precision.MS, 1, 1_000),
        (Precision.MS, 999, 999_000),
        (Precision.US, -1, -1),
        (Precision.NS, 1_999, 1),
        (Precision.NS, -1, -1),
    ],
)
def test_datetimes_have_every_digit_that_they_can_hold(
    precision: Precision, ts: int, us: int
) -> None:
    (found,) = readings(FULL, ts=[ts], precision=precision, rows=(1,)).to_datetimes()
    assert found == dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=us)
    assert found is not None
    assert found.tzinfo is dt.UTC


# Arrow, pandas, Polars


@pytest.mark.parametrize("values", [FULL, HOLES], ids=["full", "with holes"])
@pytest.mark.parametrize("precision", list(Precision))
def test_arrow_has_exact_types_nulls_and_utc(
    values: dict[str, list[Any]], precision: Precision
) -> None:
    table = readings(values, precision=precision).to_arrow()
    assert table.schema.field("ts").type == pa.timestamp(str(precision), tz="UTC")
    types = [pa.float64(), pa.float32(), pa.int32(), pa.int64(), pa.bool_(), pa.string()]
    assert [table.schema.field(name).type for name in values] == types
    assert table["series"].to_pylist() == ["x", "x", "y"]
    assert table["ts"].cast(pa.int64()).to_pylist() == [0, 1, -1]
    assert {name: table[name].to_pylist() for name in values} == values


def test_nan_stays_nan_beside_nulls_in_arrow() -> None:
    column = readings({**HOLES, "d": [math.nan, None, 1.0]}).to_arrow()["d"]
    assert column.null_count == 1
    assert math.isnan(column[0].as_py())


def test_any_library_of_the_arrow_stream_takes_readings() -> None:
    found = readings(HOLES)
    assert pa.table(found).equals(found.to_arrow())
    assert pl.DataFrame(found)["b"].to_list() == HOLES["b"]


def test_pandas_has_nan_or_na_where_missing_and_keeps_integers() -> None:
    frame = readings(HOLES).to_pandas()
    assert frame.columns.tolist() == ["series", "ts", *HOLES]
    assert [str(frame[name].dtype) for name in "dfibo"] == [
        "float64",
        "float32",
        "Int32",
        "Int64",
        "boolean",
    ]
    assert frame["b"].tolist() == [1, pd.NA, 2**63 - 1]
    assert frame["o"].tolist() == [True, pd.NA, True]
    assert np.isnan(frame["d"][1])
    assert frame["t"].isna().tolist() == [False, True, False]
    assert frame["series"].tolist() == ["x", "x", "y"]
    assert frame["ts"][2] == pd.Timestamp("1969-12-31T23:59:59.999Z")
    full = readings(FULL).to_pandas()
    assert {name: full[name].tolist() for name in FULL} == FULL


def test_polars_has_exact_types_and_nulls() -> None:
    frame = readings(HOLES).to_polars()
    assert frame["ts"].dtype == pl.Datetime("ms", "UTC")
    kinds = [pl.Float64, pl.Float32, pl.Int32, pl.Int64, pl.Boolean, pl.String]
    assert [frame[name].dtype for name in HOLES] == kinds
    assert {name: frame[name].to_list() for name in HOLES} == HOLES
    assert frame["series"].cast(pl.String).to_list() == ["x", "x", "y"]


def test_conversion_does_not_change_the_readings() -> None:
    found = readings(HOLES)
    before = found.data["i"].values.copy()
    frame = found.to_pandas()
    frame.loc[:, "i"] = 9
    assert found.data["i"].values.tolist() == before.tolist()
    assert found["i"].tolist() == HOLES["i"]


@pytest.mark.parametrize(
    ("method", "module", "extra"),
    [
        ("to_arrow", "pyarrow", "arrow"),
        ("to_pandas", "pandas", "pandas"),
        ("to_polars", "polars", "polars"),
        ("__arrow_c_stream__", "pyarrow", "arrow"),
    ],
)
def test_library_that_cannot_be_imported_is_named_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, method: str, module: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=f"needs the extra '{extra}'") as caught:
        getattr(readings(FULL), method)()
    assert caught.value.hint == f"pip install 'treering[{extra}]'"
    assert len(list(readings(FULL).rows())) == 3


# Memory


def address_of(array: np.ndarray[Any, Any]) -> int:
    """Return where an array's values begin."""
    address: int = array.__array_interface__["data"][0]
    return address


@pytest.mark.parametrize("values", [FULL, HOLES], ids=["all there", "some missing"])
@pytest.mark.parametrize("precision", list(Precision))
def test_arrow_and_polars_share_the_memory_of_times_and_numbers(
    values: dict[str, list[Any]], precision: Precision
) -> None:
    found = readings(values, precision=precision)
    table = found.to_arrow()
    frame = found.to_polars()
    arrays = {"ts": found.ts, **{name: found.data[name].values for name in "dfib"}}
    for name, array in arrays.items():
        assert table[name].num_chunks == 1
        assert table[name].chunk(0).buffers()[1].address == address_of(array)
        assert frame[name].to_arrow().buffers()[1].address == address_of(array)


def test_numpy_views_and_parts_share_memory() -> None:
    found = readings(FULL)
    assert address_of(found.time) == address_of(found.ts)
    for name in FULL:
        assert address_of(found[name]) == address_of(found.data[name].values)
    masked = readings(HOLES)
    assert address_of(masked["d"]) == address_of(masked.data["d"].values)
    second = list(found.split())[1][1]
    assert np.shares_memory(second["d"], found["d"])
    assert second.to_arrow()["d"].chunk(0).buffers()[1].address == address_of(second["d"])
