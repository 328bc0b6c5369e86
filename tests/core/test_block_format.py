"""The specification is enough: a reader written from it alone reads every block."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core import block_reader
from tests.core.block_cases import Readings, assert_same, bits_of, readings
from treering.core.block import pack_block, unpack_block
from treering.core.block_setting import Purpose
from treering.core.columns import ColumnData
from treering.core.units import Precision


def expected(data: ColumnData) -> list[Any]:
    """Return a column's values, floats as bits, None where missing."""
    return ColumnData(bits_of(data.values), data.present).to_list()


def expected_stats(data: ColumnData) -> dict[str, Any] | None:
    """Return a column's statistics, computed one value after the other."""
    values = data.values[data.mask()]
    if values.dtype.kind not in "if" or not len(values):
        return None
    numbers = [value for value in values.tolist() if not math.isnan(value)]
    # The sign of zero counts: -0.0 is less than 0.0.
    ordered = sorted(numbers, key=lambda value: (value, math.copysign(1, value)))
    exact = Fraction if values.dtype.kind == "f" else int
    finite = [exact(value) for value in numbers if not math.isinf(value)]
    return {
        "least": ordered[0] if numbers else math.nan,
        "largest": ordered[-1] if numbers else math.nan,
        "first": values.tolist()[0],
        "last": values.tolist()[-1],
        "nan": len(values) - len(numbers),
        "sum": sum(finite, exact(0)),
    }


@settings(max_examples=100, deadline=None)
@given(readings(), st.sampled_from(Purpose), st.sampled_from(Precision))
def test_a_reader_of_the_specification_finds_the_same(
    given_: Readings, purpose: Purpose, precision: Precision
) -> None:
    block = pack_block(given_.ts, given_.columns, precision=precision, purpose=purpose)
    found = block_reader.read(block)
    assert found["unit"] == precision
    assert found["times"] == given_.ts.tolist()
    assert list(found["columns"]) == list(given_.columns)
    for name, data in given_.columns.items():
        kind, values, stats = found["columns"][name]
        assert np.dtype(block_reader.FORMATS.get(kind, {"boolean": "?"}.get(kind, "O"))) == (
            data.values.dtype
        )
        assert values == expected(data)
        # As text: NaN equals itself there, and -0.0 differs from 0.0.
        assert repr(stats) == repr(expected_stats(data))


def golden_readings() -> Readings:
    """Return what the kept block holds."""
    number = np.arange(48)
    value = (2_000 + number * 7 % 11) / 100
    value[20] = np.nan
    state = np.array(["on", "off", "on", "fault"], dtype=object)[number // 3 % 4]
    return Readings(
        1_763_596_800_000 + number * 1_000 + number * 5 % 7,
        {
            "value": ColumnData(value),
            "counter": ColumnData(number * number),
            "state": ColumnData(state, number % 5 > 0),
            "ok": ColumnData(number % 3 > 0),
            "rate": ColumnData(np.full(48, 2.5, dtype=np.float32)),
        },
    )


def test_a_block_of_version_1_stays_readable() -> None:
    # Bytes that were kept: whoever changes the format must raise the version and read both.
    block, wanted = bytes.fromhex(GOLDEN), golden_readings()
    found, by_treering = block_reader.read(block), unpack_block(block)
    assert found["times"] == wanted.ts.tolist() == by_treering.ts.tolist()
    assert list(found["columns"]) == list(wanted.columns)
    for name, data in wanted.columns.items():
        assert found["columns"][name][1] == expected(data)
        assert_same(by_treering.columns[name], data)


GOLDEN = (
    "54420101c2a6f1482c01000011020000300000000001050000908f9e9a0100009c47909e9a010000e8030000"
    "000000002a00000089a79b6805000005020030000000000049000000dedf81c076616c756500000000000034"
    "409a9999999919344000000000000034409a9999999919344001000000d2ff080015ae47e17a94eb00070300"
    "0400003000000000002000000059b9c3a5636f756e7465720000000000000000a10800000000000000000000"
    "00000000a108000000000000888b00000000000000000000000000000505010a000000000a00000048000000"
    "fc4d3953737461746502040007000000000000000006000000bb4027ed6f6b04010001000019000000000004"
    "0000002eba1cc2726174650000204000002040000020400000204000000000030001000f70636f210300050c"
    "0401032f000010610200d6ffffff0f900a00000001000000806c9c6c532b8f5300001500000028b52ffd200c"
    "61000014000000000000000000f87f70636f210300050c0401032f0000001000803e0000240070a326598104"
    "376a92154170a326598104376a92154870a30070636f210300050c0401032f00001002010001000040000000"
    "00800100000000de7befbdf7de28b52ffd2040cd0100a402030000000200000003000000050000006f6e6f66"
    "666661756c7400000101000000020201000000000202050020089803c12d611502f504b66ddbb66ddb000020"
    "40"
)
