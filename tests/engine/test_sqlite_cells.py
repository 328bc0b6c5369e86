"""What SQLite keeps is exactly what was written."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.core.columns import ColumnData, column_from_list
from treering.core.merge import serialized
from treering.core.schema import Column, ColumnType
from treering.engine.sqlite.cells import decode_column, encode_column, is_newer_on_tie
from treering.engine.sqlite.sql import readings_table
from treering.errors import CorruptDataError

HERE = Path("some.db")

bits_64 = st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=20)
bits_32 = st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=20)
SOME_NAN_64 = st.sampled_from([0x7FF0000000000001, 0x7FF8DEADBEEF0000, 0xFFFFFFFFFFFFFFFF])


def through_sqlite(data: ColumnData, column_type: ColumnType) -> ColumnData:
    """Return what comes back from a column declared as a segment declares it."""
    connection = sqlite3.connect(":memory:")
    connection.execute(readings_table((Column("value", column_type),)))
    connection.executemany(
        "INSERT INTO readings VALUES(1, ?, ?, 0)", enumerate(encode_column(data, column_type))
    )
    rows = connection.execute("SELECT value FROM readings ORDER BY ts").fetchall()
    connection.close()
    return decode_column([value for (value,) in rows], column_type, HERE)


@given(patterns=bits_64, nan=SOME_NAN_64)
def test_every_bit_pattern_of_a_double_comes_back(patterns: list[int], nan: int) -> None:
    kept = np.array([*patterns, nan], dtype=np.uint64)
    back = through_sqlite(ColumnData(kept.view(np.float64)), ColumnType.DOUBLE)
    assert back.values.view(np.uint64).tolist() == kept.tolist()


@given(patterns=bits_32)
def test_every_bit_pattern_of_a_float_comes_back(patterns: list[int]) -> None:
    kept = np.array([*patterns, 0x7FC00001, 0x80000000], dtype=np.uint32)
    back = through_sqlite(ColumnData(kept.view(np.float32)), ColumnType.FLOAT)
    assert back.values.dtype == np.float32
    assert back.values.view(np.uint32).tolist() == kept.tolist()


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_every_bigint_comes_back_and_missing_stays_missing(values: list[int | None]) -> None:
    data = column_from_list(values, ColumnType.BIGINT)
    assert through_sqlite(data, ColumnType.BIGINT).to_list() == values


@given(st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"])), min_size=1))
def test_any_text_comes_back(values: list[str | None]) -> None:
    values = [*values, "a\0b", "\0", "", "1e3", "\U0010ffff"]
    data = column_from_list(values, ColumnType.TEXT)
    assert through_sqlite(data, ColumnType.TEXT).to_list() == values


def test_missing_and_nan_stay_apart() -> None:
    data = column_from_list([None, float("nan"), 1.0], ColumnType.DOUBLE)
    back = through_sqlite(data, ColumnType.DOUBLE)
    assert back.mask().tolist() == [False, True, True]
    assert np.isnan(back.values[1])


@given(one=st.floats(), other=st.floats())
def test_ties_are_decided_by_the_serialized_bytes(one: float, other: float) -> None:
    kept = encode_column(ColumnData(np.array([one, other])), ColumnType.DOUBLE)
    wire = [serialized(value, ColumnType.DOUBLE) for value in (one, other)]
    assert is_newer_on_tie(ColumnType.DOUBLE, *kept) == (wire[0] > wire[1])


@pytest.mark.parametrize(
    ("column_type", "values"),
    [
        (ColumnType.DOUBLE, [1.0, "text"]),
        (ColumnType.DOUBLE, [1.0, b"four"]),
        (ColumnType.INT, [1, 2**40]),
        (ColumnType.BIGINT, [1, b"\x7f\xf8\0\0\0\0\0\0"]),
    ],
)
def test_value_of_another_type_is_damage(column_type: ColumnType, values: list[Any]) -> None:
    with pytest.raises(CorruptDataError, match=r"some\.db") as caught:
        decode_column(values, column_type, HERE)
    assert str(column_type) in caught.value.expected
