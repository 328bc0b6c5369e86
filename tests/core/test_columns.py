"""Columns: every kind of value into every type, exact or refused, never silently changed."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from treering.core.columns import (
    ColumnData,
    column_from_list,
    concat_columns,
    empty_column,
    parse_column,
)
from treering.core.schema import Column, ColumnType
from treering.errors import UsageError

TYPES = st.sampled_from(list(ColumnType))
NUMERIC = [ColumnType.DOUBLE, ColumnType.FLOAT, ColumnType.INT, ColumnType.BIGINT]
REFUSED = "refused"


def parsed(values: Any, column_type: ColumnType | str) -> list[Any]:
    """Return Python values, None where missing, ``REFUSED`` where refused."""
    kind = ColumnType(column_type)
    data, refused = parse_column(values, Column("v", kind))
    assert data.values.dtype == kind.dtype
    assert data.values.ndim == 1
    assert len(refused) == len(data)
    assert not (refused & ~data.mask()).any(), "a missing value cannot be refused"
    assert data.present is None or not data.present.all()
    return [
        REFUSED if no else value for value, no in zip(data.to_list(), refused.tolist(), strict=True)
    ]


def is_exact(number: float, column_type: ColumnType) -> bool:
    """Return whether a type holds a number (for float: after rounding, if that is finite)."""
    match column_type:
        case ColumnType.INT | ColumnType.BIGINT:
            bits = 31 if column_type is ColumnType.INT else 63
            return -(2**bits) <= number < 2**bits and number == int(number)
        case ColumnType.FLOAT if isinstance(number, int):
            return abs(number) < 2**127 and int(np.float32(number)) == number
        case ColumnType.FLOAT:
            with np.errstate(over="ignore"):
                return bool(np.isfinite(np.float32(number))) or not math.isfinite(number)
        case _:
            return not isinstance(number, int) or (
                abs(number) < 2**1000 and int(float(number)) == number
            )


EDGES = [0, 1, -1, 2**24, 2**24 + 1, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**53, 2**53 + 1]
EDGES += [-(2**53) - 1, 2**60, 2**62 + 1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64, 10**400]
NUMBERS = (
    st.sampled_from(EDGES)
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.floats(-1e6, 1e6).map(round).map(float)
)


@given(st.lists(st.none() | NUMBERS, max_size=12), st.sampled_from(NUMERIC))
@example([2**53 + 1, 0.5], ColumnType.BIGINT)
@example([2**53 + 1, None, 0.5], ColumnType.DOUBLE)
@example([2**63, -(2**53) - 1], ColumnType.BIGINT)
def test_python_numbers_are_exact_or_refused_whatever_stands_beside_them(
    numbers: list[Any], column_type: ColumnType
) -> None:
    for number, found in zip(numbers, parsed(numbers, column_type), strict=True):
        if number is None:
            assert found is None
        elif not is_exact(number, column_type):
            assert found == REFUSED
        elif isinstance(number, float):
            assert repr(float(column_type.dtype.type(number))) == repr(float(found))
        else:
            assert found == number


@given(
    st.lists(NUMBERS.filter(lambda n: not isinstance(n, int) or abs(n) < 2**1000), max_size=8),
    st.sampled_from(
        ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", ">i4", ">f8"]
    ),
    st.sampled_from(NUMERIC),
)
@example([-128], "i1", ColumnType.DOUBLE)
@example([-(2**63)], "i8", ColumnType.DOUBLE)
@example([2**64 - 1, 2**63], "u8", ColumnType.BIGINT)
@example([math.nan, math.inf, 1.5, 7.0], "f2", ColumnType.INT)
def test_numpy_numbers_of_every_dtype_are_exact_or_refused(
    numbers: list[Any], dtype: str, column_type: ColumnType
) -> None:
    kind = np.dtype(dtype)
    if kind.kind != "f":
        bounds = np.iinfo(kind)
        numbers = [n for n in numbers if isinstance(n, int) and bounds.min <= n <= bounds.max]
    with np.errstate(over="ignore"):
        array = np.array(numbers, dtype=kind)
    for number, found in zip(array.tolist(), parsed(array, column_type), strict=True):
        if not is_exact(number, column_type):
            assert found == REFUSED
        elif math.isnan(number):
            assert math.isnan(found)
        else:
            assert found == column_type.dtype.type(number)


def test_double_into_float_is_rounded_and_refused_where_it_becomes_infinite() -> None:
    assert parsed([0.1, 1e39, math.inf, math.nan], "float")[:3] == [
        float(np.float32(0.1)),
        REFUSED,
        math.inf,
    ]
    assert parsed(np.array([3.5e38, -3.5e38, 1e-50]), "float") == [REFUSED, REFUSED, 0.0]


def test_nan_is_a_value_of_floats_and_refused_elsewhere() -> None:
    nan = np.array([math.nan])
    for column_type in (ColumnType.DOUBLE, ColumnType.FLOAT):
        data, refused = parse_column(nan, Column("v", column_type))
        assert np.isnan(data.values).all()
        assert data.present is None
        assert not refused.any()
    for column_type in (ColumnType.INT, ColumnType.BIGINT):
        assert parsed(nan, column_type) == parsed([math.nan], column_type) == [REFUSED]


WRONG: dict[str, Any] = {
    "bool array": np.array([True]),
    "bool": [True],
    "bool among numbers": [1.0, True],
    "numpy bool": [np.True_],
    "text": ["1"],
    "text array": np.array(["1"]),
    "bytes": [b"1"],
    "bytes array": np.array([b"1"]),
    "complex": [1j],
    "complex array": np.array([1j]),
    "decimal": [decimal.Decimal(1)],
    "datetime": [dt.datetime(2025, 1, 1, tzinfo=dt.UTC)],
    "datetime64": np.array(["2025-01-01"], "datetime64[D]"),
    "timedelta64": np.array([1], "timedelta64[s]"),
    "timedelta64 object": [np.timedelta64(1, "s")],
    "list": [[1]],
    "ragged": [[1], [1, 2]],
    "object": [object()],
}


@pytest.mark.parametrize("column_type", list(ColumnType))
@pytest.mark.parametrize("wrong", list(WRONG))
def test_wrong_kind_is_named_and_nothing_is_converted(wrong: str, column_type: ColumnType) -> None:
    is_bool = "bool" in wrong and "among" not in wrong and column_type is ColumnType.BOOLEAN
    if is_bool or (wrong.startswith("text") and column_type is ColumnType.TEXT):
        assert parsed(WRONG[wrong], column_type) in (["1"], [True])
        return
    with pytest.raises(UsageError, match=f"'v' takes {column_type}, not") as caught:
        parsed(WRONG[wrong], column_type)
    assert caught.value.column == "v"


@pytest.mark.parametrize("values", [[1], [0], [1.0], np.array([1]), ["true"], [math.nan]])
def test_boolean_takes_booleans_only(values: Any) -> None:
    with pytest.raises(UsageError, match="takes boolean"):
        parsed(values, "boolean")
    assert parsed([True, None, np.False_], "boolean") == [True, None, False]


@pytest.mark.parametrize("values", [[1], [1.5], [math.nan], [b"a"], np.array([1.5]), [None, 1]])
def test_text_takes_text_only(values: Any) -> None:
    with pytest.raises(UsageError, match="takes text"):
        parsed(values, "text")


@given(st.lists(st.none() | st.text(max_size=5), max_size=10))
@example(["a\ud800", "", None, "\0", "ä😀"])
def test_text_is_kept_or_refused_where_it_has_no_encoding(texts: list[str | None]) -> None:
    expected = [
        REFUSED if text is not None and any("\ud800" <= c <= "\udfff" for c in text) else text
        for text in texts
    ]
    assert parsed(texts, "text") == expected
    assert parsed(np.array([*texts, None], dtype=object), "text") == [*expected, None]


@pytest.mark.parametrize("column_type", list(ColumnType))
def test_no_values_are_an_empty_column_of_the_type(column_type: ColumnType) -> None:
    forms: tuple[Any, ...] = (
        [],
        (),
        np.array([]),
        np.array([], dtype=object),
        np.ma.MaskedArray([]),
        pd.Series([]),
    )
    for empty in forms:
        assert parsed(empty, column_type) == []
    assert parsed([None, None], column_type) == [None, None]


@pytest.mark.parametrize("values", ["text", b"bytes", 1.5, None, iter([1.0]), object()])
def test_what_is_no_list_of_values_is_refused(values: Any) -> None:
    with pytest.raises(UsageError, match="not a list of values") as caught:
        parsed(values, "double")
    assert "one value a reading" in caught.value.hint


@pytest.mark.parametrize("shape", [(), (2, 1), (1, 0)])
def test_values_have_one_dimension(shape: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match="one-dimensional"):
        parsed(np.zeros(shape), "double")


# Missing


@pytest.mark.parametrize("nothing", [None, pd.NA, pd.NaT])
@pytest.mark.parametrize(
    ("column_type", "value"),
    [
        ("double", 1.5),
        ("float", 1.5),
        ("int", 7),
        ("bigint", 2**62 + 1),
        ("boolean", False),
        ("text", "a"),
    ],
)
def test_nothing_in_a_list_is_missing(column_type: str, value: Any, nothing: Any) -> None:
    assert parsed([nothing, value, nothing], column_type) == [None, value, None]


def test_masked_cells_are_missing_whatever_stands_under_the_mask() -> None:
    mask = [True, False, True]
    assert parsed(np.ma.MaskedArray([math.nan, 1.0, math.inf], mask=mask), "int") == [None, 1, None]
    assert parsed(np.ma.MaskedArray([2**40, 1, 5], mask=mask), "int") == [None, 1, None]
    mixed = np.empty(3, dtype=object)
    mixed[:] = ["text", 1, ()]
    assert parsed(np.ma.MaskedArray(mixed, mask=mask), "double") == [None, 1.0, None]
    mixed[1] = "a"
    assert parsed(np.ma.MaskedArray(mixed, mask=mask), "text") == [None, "a", None]
    assert parsed(np.ma.MaskedArray(["\ud800", "a", ""], mask=mask), "text") == [None, "a", None]
    nothing_masked = np.ma.MaskedArray([1.0, 2.0])
    assert parse_column(nothing_masked, Column("v", ColumnType.DOUBLE))[0].present is None


@pytest.mark.parametrize(
    "make",
    [
        lambda values: pd.array(values, dtype="Int64"),
        lambda values: pd.Series(values, dtype="Int64"),
        lambda values: pl.Series(values, dtype=pl.Int64),
        lambda values: pa.array(values, type=pa.int64()),
        lambda values: pa.chunked_array([values[:1], values[1:]], type=pa.int64()),
    ],
    ids=["pandas array", "pandas series", "polars", "arrow", "chunked arrow"],
)
def test_nulls_of_other_libraries_are_missing_and_big_integers_beside_them_keep_their_digits(
    make: Any,
) -> None:
    values = [2**53 + 1, None, -(2**63)]
    assert parsed(make(values), "bigint") == values
    assert parsed(make([1, 2, 3]), "bigint") == [1, 2, 3]
    assert parsed(make(values), "double") == [REFUSED, None, -(2.0**63)]


@pytest.mark.parametrize(
    ("values", "column_type", "expected"),
    [
        (pd.array([1.5, None], dtype="Float64"), "double", [1.5, None]),
        (pd.array([True, None], dtype="boolean"), "boolean", [True, None]),
        (pd.array(["a", None], dtype="string"), "text", ["a", None]),
        (pd.Series(["a", None]), "text", ["a", None]),
        (pd.Series(["a", None], dtype=object), "text", ["a", None]),
        (pd.Categorical(["b", "a", "b"]), "text", ["b", "a", "b"]),
        (pl.Series([1.5, None]), "double", [1.5, None]),
        (pl.Series([True, None]), "boolean", [True, None]),
        (pl.Series(["a", None]), "text", ["a", None]),
        (pa.array([1.5, None]), "double", [1.5, None]),
        (pa.array(["a", None]), "text", ["a", None]),
        (np.array(["a", "b"]), "text", ["a", "b"]),
        (range(3), "int", [0, 1, 2]),
    ],
)
def test_columns_of_other_libraries_are_understood(
    values: Any, column_type: str, expected: list[Any]
) -> None:
    assert parsed(values, column_type) == expected


def test_float_array_of_pandas_has_nan_and_no_nulls() -> None:
    data, refused = parse_column(pd.Series([1.0, math.nan]), Column("v", ColumnType.DOUBLE))
    assert data.present is None
    assert np.isnan(data.values).tolist() == [False, True]
    assert not refused.any()


# The column itself


@given(TYPES, st.data())
def test_list_of_exact_values_comes_back_from_a_column(
    kind: ColumnType, data: st.DataObject
) -> None:
    values = {
        ColumnType.DOUBLE: st.floats(allow_nan=False),
        ColumnType.FLOAT: st.floats(width=32, allow_nan=False),
        ColumnType.INT: st.integers(-(2**31), 2**31 - 1),
        ColumnType.BIGINT: st.integers(-(2**63), 2**63 - 1),
        ColumnType.BOOLEAN: st.booleans(),
        ColumnType.TEXT: st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
    }[kind]
    items = data.draw(st.lists(st.none() | values, max_size=12))
    column = column_from_list(items, kind)
    assert column.values.dtype == kind.dtype
    assert column.to_list() == items
    assert parsed(items, kind) == items
    cut = data.draw(st.integers(0, len(items)))
    parts = [column.take(slice(0, cut)), column.take(slice(cut, None))]
    joined = concat_columns(parts, kind)
    assert joined.to_list() == items
    assert (joined.present is None) is (None not in items)
    masked = column.to_masked()
    assert np.ma.isMaskedArray(masked) is (None in items)
    assert column.mask().tolist() == [item is not None for item in items]


def test_slice_shares_memory_and_an_index_does_not() -> None:
    column = ColumnData(np.arange(5.0))
    assert np.shares_memory(column.take(slice(1, 3)).values, column.values)
    assert not np.shares_memory(column.take(np.array([1, 2])).values, column.values)


@pytest.mark.parametrize("column_type", list(ColumnType))
def test_joining_nothing_keeps_the_type(column_type: ColumnType) -> None:
    assert concat_columns([], column_type).values.dtype == column_type.dtype
    one = empty_column(column_type)
    assert concat_columns([one], column_type) is one


@pytest.mark.parametrize("column_type", list(ColumnType))
def test_what_was_passed_may_change_while_its_values_are_on_their_way(
    column_type: ColumnType,
) -> None:
    given = np.array([1, 0]).astype(column_type.dtype)
    if column_type is ColumnType.TEXT:
        given[:] = ["a", "b"]
    column, _ = parse_column(given, Column("c", column_type))
    assert not np.shares_memory(column.values, given)
