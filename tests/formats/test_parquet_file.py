"""Parquet in: types of other writers, zones, and rows that are refused."""

from __future__ import annotations

import datetime as dt
import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.formats.test_csv_file import imported, lines_of
from treering.errors import UsageError
from treering.formats.layout import FileMapping
from treering.importing import FileFormat

NOON = dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)


def parquet(columns: dict[str, Any]) -> bytes:
    """Return a Parquet file of columns."""
    stream = io.BytesIO()
    pq.write_table(pa.table(columns), stream)
    return stream.getvalue()


def taken(columns: dict[str, Any], **mapping: Any) -> tuple[list[dict[str, Any]], list[Any]]:
    """Import a Parquet file and return its readings and refused rows."""
    rows, refused = imported(
        parquet(columns),
        columns="value:double",
        form=FileFormat.PARQUET,
        mapping=FileMapping(**mapping),
    )
    return rows, lines_of(refused)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_zoned_timestamps_of_any_unit_are_taken(unit: str) -> None:
    times = pa.array([NOON]).cast(pa.timestamp(unit, tz="UTC"))
    rows, refused = taken({"series": ["a"], "ts": times, "value": [1.5]})
    assert rows == [{"series": "a", "ts": "2026-11-30T12:00:00.000Z", "value": 1.5}]
    assert refused == []


def test_zone_less_timestamps_need_a_zone() -> None:
    times = pa.array([NOON.replace(tzinfo=None)])
    with pytest.raises(UsageError, match=r"'ts' of f\.csv have no zone") as caught:
        taken({"series": ["a"], "ts": times, "value": [1.5]})
    assert "--tz" in caught.value.hint
    rows, _ = taken({"series": ["a"], "ts": times, "value": [1.5]}, tz="Europe/Berlin")
    assert rows[0]["ts"] == "2026-11-30T11:00:00.000Z"


def test_a_skipped_hour_is_refused_alone() -> None:
    times = pa.array([dt.datetime(2010, 3, 14, 2), dt.datetime(2010, 3, 14, 3)])  # noqa: DTZ001
    rows, refused = taken(
        {"series": ["a", "a"], "ts": times, "value": [1.0, 2.0]}, tz="America/Los_Angeles"
    )
    assert [row["ts"] for row in rows] == ["2010-03-14T10:00:00.000Z"]
    assert [row for row, _ in refused] == [1]
    assert "skips" in refused[0][1]


@pytest.mark.parametrize(
    "values", [pa.array([1.5], pa.float32()), pa.array([3], pa.int16()), pa.array([3], pa.uint64())]
)
def test_other_numeric_types_are_taken_exactly(values: Any) -> None:
    rows, _ = taken({"series": pa.array(["a"]).dictionary_encode(), "ts": [NOON], "value": values})
    assert rows[0]["value"] == values[0].as_py()


def test_missing_values_and_series_are_told_apart() -> None:
    rows, refused = taken(
        {"series": ["a", "a", None], "ts": [NOON, NOON, NOON], "value": [1.0, None, 2.0]}
    )
    assert [row["value"] for row in rows] == [1.0]
    assert refused == [(2, "no value in any column"), (3, "no series id")]


def test_integer_times_have_the_stated_unit() -> None:
    columns = {"series": ["a"], "ts": pa.array([1764504000], pa.int32()), "value": [1.0]}
    with pytest.raises(UsageError, match="integers without a unit"):
        taken(columns)
    rows, _ = taken(columns, time_unit="s")
    assert rows[0]["ts"] == "2025-11-30T12:00:00.000Z"


def test_a_file_that_is_none_is_named() -> None:
    with pytest.raises(UsageError, match=r"f\.csv is not a Parquet file"):
        imported(b"series,ts,value\n", columns="value:double", form=FileFormat.PARQUET)


def test_a_column_that_is_not_there_is_named() -> None:
    with pytest.raises(UsageError, match="no column 'ts'"):
        taken({"series": ["a"], "when": [NOON], "value": [1.0]})
