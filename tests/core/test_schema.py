"""Columns, identifiers and series ids: what every engine can keep exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.core.merge import wire_dtype
from treering.core.schema import (
    COLUMNS_MAX,
    SERIES_BYTES_MAX,
    Column,
    ColumnType,
    check_identifier,
    check_series,
    parse_columns,
)
from treering.errors import UsageError

DOUBLE = ColumnType.DOUBLE


@pytest.mark.parametrize("name", ["a", "value", "value_2", "a" * 48])
def test_identifier_is_returned_as_it_is(name: str) -> None:
    assert check_identifier(name, "table") == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "A",
        "Value",
        "2a",
        "_a",
        "a-b",
        "a b",
        "a;drop",
        'a"',
        "ä",
        "a\n",
        "a" * 49,
        "a.b",
        None,
        5,
    ],
)
def test_what_would_need_quotes_is_no_identifier(name: Any) -> None:
    with pytest.raises(UsageError, match="not a name for a table") as caught:
        check_identifier(name, "table")
    assert "lower-case" in caught.value.hint


@pytest.mark.parametrize(
    "series",
    [
        "a",
        "pump-7",
        "ä'\";%_*/..",
        "a" * SERIES_BYTES_MAX,
        "ä" * (SERIES_BYTES_MAX // 2),
        "😀",
    ],
)
def test_series_id_is_returned_as_it_is(series: str) -> None:
    assert check_series(series) == series


@pytest.mark.parametrize(
    "series",
    ["", "a\nb", "\0", "\x7f", "a\ud800", "a" * (SERIES_BYTES_MAX + 1), "ä" * 501, None, 7, b"a"],
)
def test_what_an_engine_could_not_keep_is_no_series_id(series: Any) -> None:
    with pytest.raises(UsageError, match="series id") as caught:
        check_series(series)
    assert len(str(caught.value)) < 200


@given(st.text(max_size=20))
def test_series_id_is_kept_exactly_or_refused(text: str) -> None:
    try:
        assert check_series(text) == text
    except UsageError:
        return
    assert text.encode().decode() == text != ""


def test_columns_are_understood_as_text_mapping_and_columns() -> None:
    expected = (Column("value", DOUBLE), Column("quality", ColumnType.INT))
    assert parse_columns("value:double, quality : INT,") == expected
    assert parse_columns({"value": "double", "quality": "int"}) == expected
    assert parse_columns({"value": DOUBLE, "quality": ColumnType.INT}) == expected
    assert parse_columns(expected) == expected


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ("", "1 to 64"),
        ({}, "1 to 64"),
        ((), "1 to 64"),
        ({f"c{n}": "int" for n in range(COLUMNS_MAX + 1)}, "not 65"),
        ("value", "has no type"),
        ("value:", "unknown type"),
        ("value:varint", "unknown type 'varint'"),
        ("value:double,value:int", "named twice: value, value"),
        ("Value:double", "not a name for a column"),
        ("ts:double", "key uses that name"),
        ("series:text", "key uses that name"),
        ("bucket:text", "key uses that name"),
    ],
)
def test_wrong_columns_are_named(columns: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_columns(columns)


def test_as_many_columns_as_the_limit_are_fine() -> None:
    assert len(parse_columns({f"c{n}": "int" for n in range(COLUMNS_MAX)})) == COLUMNS_MAX


@pytest.mark.parametrize("column_type", list(ColumnType))
def test_size_of_a_type_is_that_of_its_serialized_value(column_type: ColumnType) -> None:
    if column_type is ColumnType.TEXT:
        assert column_type.fixed_bytes is None
        assert column_type.dtype == np.dtype(object)
        return
    assert column_type.fixed_bytes == wire_dtype(column_type).itemsize
    assert column_type.dtype.itemsize == column_type.fixed_bytes
    assert column_type.is_numeric is (column_type is not ColumnType.BOOLEAN)
