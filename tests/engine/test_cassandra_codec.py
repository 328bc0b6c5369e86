"""What comes over the wire: bytes of pages."""

from __future__ import annotations

import math
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pages import column_of
from treering.core.bucket import bucket_of
from treering.core.layout import own_layout
from treering.core.read_plan import PartitionRead
from treering.core.schema import Column, ColumnType, parse_columns
from treering.core.units import Precision
from treering.engine.protocol import Page, PageRead
from treering.errors import CorruptDataError, SchemaMismatchError

pytest.importorskip("cassandra", reason="cassandra-driver is not installed")

from cassandra import cqltypes

from treering.engine.cassandra.codec import decode_page
from treering.engine.cassandra.driver import RawPage
from treering.engine.cassandra.engine import _PageFuture

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


TEXTS = parse_columns("i:int,t:text")
TEXT_ROWS: list[list[bytes | None]] = [
    [struct.pack(">q", row), struct.pack(">i", row), b"hello"] for row in range(3)
]


def test_page_cut_short_anywhere_is_refused_and_no_text_is_shortened() -> None:
    raw = page_of(TEXT_ROWS, TEXTS)
    for length in range(len(raw.body)):
        with pytest.raises(CorruptDataError, match="fewer bytes"):
            decode_page(RawPage(raw.body[:length], raw.count, raw.columns, None), TEXTS)


def test_page_with_more_than_its_rows_is_refused() -> None:
    for width in (3, 2):
        columns = TEXTS[: width - 1]
        raw = page_of([row[:width] for row in TEXT_ROWS], columns)
        with pytest.raises(CorruptDataError, match="more bytes"):
            decode_page(RawPage(raw.body, raw.count - 1, raw.columns, None), columns)


@pytest.mark.parametrize(
    "cells",
    [
        pytest.param([[b"1234", b"1234", b"x"]], id="an event time too short"),
        pytest.param([[None, b"1234", b"x"]], id="no event time"),
        pytest.param([[b"", b"1234", b"x"]], id="an empty event time"),
        pytest.param([[bytes(16), b"1234", b"x"], [b"", b"1234", b"x"]], id="two that make up"),
        pytest.param([[bytes(8), b"1234", b"\xff"]], id="text that is no UTF-8"),
    ],
)
def test_page_with_impossible_cells_is_refused(cells: list[list[bytes | None]]) -> None:
    with pytest.raises(CorruptDataError):
        decode_page(page_of(cells, TEXTS), TEXTS)


@pytest.mark.parametrize(
    ("columns", "error"),
    [("i:double,t:text", SchemaMismatchError), ("i:int,t:text", CorruptDataError)],
)
def test_page_that_cannot_be_decoded_is_named_by_table_series_and_bucket(
    columns: str, error: type[Exception]
) -> None:
    raw = page_of(TEXT_ROWS, TEXTS)
    bucket = bucket_of(0, "day")
    read = PageRead(
        partition=PartitionRead("pump-7", bucket, 0, 9),
        order="asc",
        columns=parse_columns(columns),
        rows_max=9,
    )
    future = _PageFuture(read, own_layout("readings", Precision.MS))
    future.settle(RawPage(raw.body[:-1], raw.count, raw.columns, None))
    with pytest.raises(error, match=r"^pump-7/1970-01-01 in readings could not be read: "):
        future.result()
    assert isinstance(future.exception(), error)


def test_page_that_could_not_be_taken_in_is_an_error_for_the_reader() -> None:
    raw = RawPage(memoryview(b""), 0, (), None, ValueError("cut short"))
    with pytest.raises(SchemaMismatchError, match="cut short"):
        decode_page(raw, NUMBERS)
