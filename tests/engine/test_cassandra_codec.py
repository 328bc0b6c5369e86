"""What comes over the wire: bytes of pages."""

from __future__ import annotations

import math
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pages import column_of
from treering.core.schema import Column, ColumnType, parse_columns
from treering.engine.protocol import Page
from treering.errors import CorruptDataError, SchemaMismatchError

pytest.importorskip("cassandra", reason="cassandra-driver is not installed")

from cassandra import cqltypes

from treering.engine.cassandra.codec import decode_page
from treering.engine.cassandra.driver import RawPage

COLUMNS = parse_columns("d:double,f:float,i:int,b:bigint,o:boolean,t:text")
NUMBERS = COLUMNS[:5]
TYPES = {
    ColumnType.DOUBLE: cqltypes.DoubleType,
    ColumnType.FLOAT: cqltypes.FloatType,
    ColumnType.INT: cqltypes.Int32Type,
    ColumnType.BIGINT: cqltypes.LongType,
    ColumnType.BOOLEAN: cqltypes.BooleanType,
    ColumnType.TEXT: cqltypes.UTF8Type,
}
VALUES = st.fixed_dictionaries(
    {
        "d": st.none() | st.floats(),
        "f": st.none() | st.floats(width=32),
        "i": st.none() | st.integers(-(2**31), 2**31 - 1),
        "b": st.none() | st.integers(-(2**63), 2**63 - 1),
        "o": st.none() | st.booleans(),
        "t": st.none() | st.text(st.characters(codec="utf-8"), max_size=10),
    }
)
ROWS = st.dictionaries(st.integers(-(2**63), 2**63 - 1), VALUES, max_size=20)


def page_of(rows: list[list[bytes | None]], columns: tuple[Column, ...]) -> RawPage:
    """Return a page with these cells, event time first."""
    body = b"".join(
        struct.pack(">i", -1) if cell is None else struct.pack(">i", len(cell)) + cell
        for row in rows
        for cell in row
    )
    described = [("ks", "t", "ts", cqltypes.DateType)]
    described += [("ks", "t", column.name, TYPES[column.type]) for column in columns]
    return RawPage(memoryview(body), len(rows), described, b"next")


def serialize(value: Any, column: Column) -> bytes | None:
    """Return a value as the driver itself serializes it."""
    return None if value is None else bytes(TYPES[column.type].serialize(value, 5))


def shown(page: Page) -> list[tuple[str, ...]]:
    """Return rows so that NaN equals NaN and -0.0 differs from 0.0."""
    ((ts, columns),) = page.parts
    lists = [ts.tolist(), *(data.to_list() for data in columns.values())]
    return [tuple(map(repr, row)) for row in zip(*lists, strict=True)]


@given(rows=ROWS, text=st.booleans())
def test_page_is_decoded_as_it_was_encoded(rows: dict[int, dict[str, Any]], text: bool) -> None:
    columns = COLUMNS if text else NUMBERS
    cells = [
        [struct.pack(">q", ts), *(serialize(values[c.name], c) for c in columns)]
        for ts, values in rows.items()
    ]
    page = decode_page(page_of(cells, columns), columns)
    assert page.cursor == b"next"
    assert shown(page) == [
        (repr(ts), *(repr(_as_stored(values[c.name], c)) for c in columns))
        for ts, values in rows.items()
    ]
    for column in columns:
        data = column_of(page, column)
        assert data.values.dtype == column.type.dtype
        assert len(data) == len(rows)


def _as_stored(value: Any, column: Column) -> Any:
    return value if value is None or column.type is not ColumnType.FLOAT else float(value)


def test_fixed_stride_and_walking_give_the_same_page() -> None:
    columns = parse_columns("d:double")
    values = [0.0, -0.0, math.nan, math.inf, 1e-310]
    rows: list[list[bytes | None]] = [
        [struct.pack(">q", ts), struct.pack(">d", value)] for ts, value in enumerate(values)
    ]
    fixed = decode_page(page_of(rows, columns), columns)
    # One more row without its value forces the other way.
    walked = decode_page(page_of([*rows, [struct.pack(">q", 9), None]], columns), columns)
    assert shown(fixed) == shown(walked)[:-1]
    assert shown(walked)[-1] == ("9", "None")
    assert column_of(fixed, columns[0]).present is None


def test_value_of_a_wrong_length_is_refused_although_the_page_has_the_right_one() -> None:
    columns = parse_columns("i:int")
    rows: list[list[bytes | None]] = [
        [struct.pack(">q", 0), b"abc"],
        [struct.pack(">q", 1), b"abcde"],
    ]
    with pytest.raises(CorruptDataError, match="'i'"):
        decode_page(page_of(rows, columns), columns)


def test_empty_value_of_a_number_is_missing() -> None:
    columns = parse_columns("d:double")
    page = decode_page(page_of([[struct.pack(">q", 0), b""]], columns), columns)
    assert shown(page) == [("0", "None")]


@pytest.mark.parametrize("columns", ["d:float", "e:double", "d:double,e:double"])
def test_page_with_other_columns_is_refused(columns: str) -> None:
    raw = page_of([], parse_columns("d:double"))
    with pytest.raises(SchemaMismatchError, match="columns"):
        decode_page(raw, parse_columns(columns))


def test_page_that_could_not_be_taken_in_is_an_error_for_the_reader() -> None:
    raw = RawPage(memoryview(b""), 0, (), None, ValueError("cut short"))
    with pytest.raises(SchemaMismatchError, match="cut short"):
        decode_page(raw, NUMBERS)
