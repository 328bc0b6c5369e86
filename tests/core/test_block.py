"""Blocks give back what was packed, bit for bit, and refuse what they cannot hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.block_cases import (
    HARD_DOUBLES,
    INT64,
    Readings,
    assert_same,
    bits_of,
    readings,
)
from treering.core.block import pack_block, read_stats, unpack_block, unpack_columns
from treering.core.block_columns import Encoding
from treering.core.block_header import BLOCK_COLUMNS_MAX, BLOCK_ROWS_MAX, parse_header
from treering.core.block_setting import Purpose
from treering.core.block_text import TEXT_BYTES_MAX
from treering.core.columns import ColumnData
from treering.core.units import Precision
from treering.errors import SchemaMismatchError, UsageError


def encoding_of(values: Any, **options: Any) -> Encoding:
    """Return how a column of values is packed, having checked that it comes back."""
    data = ColumnData(np.asarray(values))
    block = pack_block(np.arange(len(data), dtype=np.int64), {"value": data}, **options)
    assert_same(unpack_block(block).columns["value"], data)
    header = parse_header(block, place="", is_whole=True)
    return Encoding(header.columns["value"].encoding)


@settings(max_examples=150, deadline=None)
@given(readings(), st.sampled_from(Purpose), st.sampled_from(Precision))
def test_what_is_packed_comes_back_bit_for_bit(
    given_: Readings, purpose: Purpose, precision: Precision
) -> None:
    block = pack_block(given_.ts, given_.columns, precision=precision, purpose=purpose)
    found = unpack_block(block)
    assert found.precision is precision
    assert found.ts.tolist() == given_.ts.tolist()
    assert list(found.columns) == list(given_.columns)
    for name, data in given_.columns.items():
        assert_same(found.columns[name], data)
        # One column alone is the same.
        assert_same(unpack_columns(block, [name])[name], data)
    stats = read_stats(block)
    assert (stats.count, stats.first_ts, stats.last_ts) == (
        len(given_.ts),
        given_.ts[0],
        given_.ts[-1],
    )


@settings(max_examples=30, deadline=None)
@given(readings())
def test_the_same_readings_make_the_same_bytes(given_: Readings) -> None:
    assert pack_block(given_.ts, given_.columns) == pack_block(given_.ts, given_.columns)


def test_both_ends_of_64_bits_are_times_and_values() -> None:
    ts = np.array([INT64.min, -1, 0, INT64.max], dtype=np.int64)
    for values in (ts, ts[::-1].copy()):
        block = pack_block(ts, {"value": ColumnData(values)}, precision=Precision.NS)
        assert unpack_block(block).ts.tolist() == ts.tolist()
        assert unpack_block(block).columns["value"].values.tolist() == values.tolist()


def test_decimals_are_packed_as_integers_and_what_is_none_keeps_its_bits() -> None:
    values = np.random.default_rng(1).normal(20, 3, 3_600).round(2)
    assert encoding_of(values) is Encoding.DECIMAL_32
    values[:: 3_600 // len(HARD_DOUBLES)] = np.resize(HARD_DOUBLES, 12)
    assert encoding_of(values) is Encoding.DECIMAL_32
    with np.errstate(over="ignore", invalid="ignore"):
        assert encoding_of(values.astype(np.float32)) is Encoding.DECIMAL_32
    whole = np.random.default_rng(2).integers(0, 2**40, 3_600)
    assert encoding_of(whole / 8) is Encoding.DECIMAL_64


def test_noise_and_many_exceptions_are_packed_as_doubles() -> None:
    random = np.random.default_rng(1)
    assert encoding_of(random.normal(20, 3, 3_600).cumsum()) is Encoding.PCO
    values = random.normal(20, 3, 3_600).round(2)
    values[::4] = np.nan
    assert encoding_of(values) is Encoding.PCO


def test_digits_that_no_probe_sees_are_found_in_the_whole_block() -> None:
    values = np.arange(3_600.0)
    values[1::2] += 0.125
    assert encoding_of(values) is Encoding.DECIMAL_32


def test_numbers_fall_back_to_their_own_bytes_where_packing_gains_nothing() -> None:
    assert encoding_of([1.5, 1e300]) is Encoding.RAW
    assert encoding_of(np.frombuffer(np.random.default_rng(1).bytes(800), "i8")) is Encoding.RAW


def test_values_that_are_all_equal_take_the_bytes_of_one() -> None:
    assert encoding_of(np.full(100, 7)) is Encoding.CONSTANT
    assert encoding_of(np.ones(100, dtype=bool)) is Encoding.CONSTANT
    nan = np.full(100, HARD_DOUBLES[1:2].view(np.int64)[0]).view(np.float64)
    assert encoding_of(nan) is Encoding.CONSTANT
    assert encoding_of([0.0, -0.0]) is not Encoding.CONSTANT


def test_regular_times_take_no_bytes() -> None:
    short = pack_block(np.arange(0, 20_000, 1_000, dtype=np.int64), {})
    long = pack_block(np.arange(0, 2_000_000, 1_000, dtype=np.int64), {})
    assert len(long) == len(short)


def test_a_missing_value_takes_no_bytes_of_its_own() -> None:
    random = np.random.default_rng(1)
    values, present = random.normal(size=8_000), np.arange(8_000) < 4_000
    ts = np.arange(8_000, dtype=np.int64)
    half = pack_block(ts, {"value": ColumnData(values, present)})
    whole = pack_block(ts, {"value": ColumnData(values)})
    assert len(half) < 0.55 * len(whole)
    assert read_stats(half).columns["value"].missing == 4_000


def test_a_gauge_with_two_decimals_takes_under_a_byte_a_reading() -> None:
    random = np.random.default_rng(1)
    values = (20 + random.normal(0, 0.1, 3_600).cumsum()).round(2)
    block = pack_block(np.arange(3_600, dtype=np.int64) * 1_000, {"value": ColumnData(values)})
    assert len(block) < 0.8 * 3_600


def test_texts_that_repeat_share_memory() -> None:
    values = np.array(["on", "off"] * 50, dtype=object)
    block = pack_block(np.arange(100, dtype=np.int64), {"state": ColumnData(values)})
    found = unpack_block(block).columns["state"].values
    assert found.tolist() == values.tolist()
    assert found[0] is found[2]


def test_unpacked_arrays_can_be_written_to() -> None:
    for values in (np.array([1.5, 1e300]), np.arange(9.0), np.ones(9, dtype=bool)):
        block = pack_block(np.arange(len(values), dtype=np.int64), {"v": ColumnData(values)})
        found = unpack_block(block)
        found.ts[0] = 0
        found.columns["v"].values[0] = 0


def test_arrays_that_are_views_of_others_are_packed_as_they_look() -> None:
    table = np.random.default_rng(1).normal(size=(300, 3)).round(2)
    ts = np.arange(600, dtype=np.int64)[::2]
    columns = {"a": ColumnData(table[:, 1]), "b": ColumnData(table[::-1, 2], ts % 3 == 0)}
    found = unpack_block(pack_block(ts, columns))
    assert found.ts.tolist() == ts.tolist()
    for name, data in columns.items():
        assert_same(found.columns[name], data)


def test_a_column_that_is_not_there_is_named() -> None:
    block = pack_block(np.arange(3, dtype=np.int64), {"value": ColumnData(np.arange(3.0))})
    with pytest.raises(
        SchemaMismatchError, match="series pump-7 has no column other; it has value"
    ):
        unpack_block(block, ["other"], place="series pump-7")


def test_statistics_are_read_from_the_header_alone() -> None:
    values = np.random.default_rng(1).normal(size=1_000)
    block = pack_block(np.arange(1_000, dtype=np.int64), {"value": ColumnData(values)})
    header = parse_header(block, place="", is_whole=True).header_bytes
    assert header < 200
    found = read_stats(block[:header]).columns["value"]
    assert (found.minimum, found.maximum) == (values.min(), values.max())


TS = np.arange(3, dtype=np.int64)


@pytest.mark.parametrize(
    ("ts", "columns"),
    [
        pytest.param(TS[:0], {}, id="no readings"),
        pytest.param(np.arange(BLOCK_ROWS_MAX + 1, dtype=np.int64), {}, id="too many readings"),
        pytest.param(TS[::-1], {}, id="times that descend"),
        pytest.param(np.array([1, 1], dtype=np.int64), {}, id="a time twice"),
        pytest.param(TS.astype(np.int32), {}, id="times of 32 bits"),
        pytest.param(TS, {"v": ColumnData(np.arange(2.0))}, id="a value too few"),
        pytest.param(
            TS, {"v": ColumnData(np.arange(3.0), np.ones(2, dtype=bool))}, id="a mask too short"
        ),
        pytest.param(TS, {"v": ColumnData(np.arange(3, dtype=np.int8))}, id="an unknown type"),
        pytest.param(TS, {"": ColumnData(np.arange(3.0))}, id="no name"),
        pytest.param(TS, {"ü" * 128: ColumnData(np.arange(3.0))}, id="a name too long"),
        pytest.param(TS, {"\ud800": ColumnData(np.arange(3.0))}, id="a name that is not Unicode"),
        pytest.param(
            TS,
            {f"c{n}": ColumnData(np.arange(3.0)) for n in range(BLOCK_COLUMNS_MAX + 1)},
            id="too many columns",
        ),
        pytest.param(
            TS, {"v": ColumnData(np.array(["a", 1, "b"], dtype=object))}, id="a number as text"
        ),
        pytest.param(
            TS, {"v": ColumnData(np.array(["\ud800"] * 3, dtype=object))}, id="a lone surrogate"
        ),
        pytest.param(
            TS[:1],
            {"v": ColumnData(np.array(["x" * (TEXT_BYTES_MAX + 1)], dtype=object))},
            id="too much text",
        ),
    ],
)
def test_what_a_block_cannot_hold_is_refused(ts: Any, columns: dict[str, ColumnData]) -> None:
    with pytest.raises(UsageError) as caught:
        pack_block(ts, columns)
    assert caught.value.hint


def test_the_largest_block_comes_back() -> None:
    random = np.random.default_rng(1)
    ts = np.arange(BLOCK_ROWS_MAX, dtype=np.int64) * 1_000 + random.integers(-5, 6, BLOCK_ROWS_MAX)
    values = random.normal(size=BLOCK_ROWS_MAX)
    for purpose in Purpose:
        found = unpack_block(pack_block(ts, {"v": ColumnData(values)}, purpose=purpose))
        assert (found.ts == ts).all()
        assert (bits_of(found.columns["v"].values) == bits_of(values)).all()
