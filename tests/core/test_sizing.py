"""Row and partition sizes by the on-disk rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.core.bucket import BucketWidth, bucket_of
from treering.core.schema import parse_columns
from treering.core.server import ServerVersion, StorageMode
from treering.core.sizing import (
    partition_overhead_bytes,
    row_bytes_of,
    row_parts,
    vint_bytes,
)

HOUR_S, DAY_S = 3_600, 86_400
VALUE = parse_columns("value:double")


@pytest.mark.parametrize("bits", [7, 14, 21, 28, 35, 42, 49, 56])
def test_a_vint_grows_by_a_byte_every_seven_bits(bits: int) -> None:
    assert vint_bytes(2**bits - 1) == bits // 7
    assert vint_bytes(2**bits) == bits // 7 + 1


def test_a_vint_stops_at_nine_bytes() -> None:
    assert vint_bytes(0) == 1
    assert vint_bytes(2**64 - 1) == 9


@pytest.mark.parametrize(
    ("span_s", "size"),
    [
        (2, 26),  # measured on nodes: 26 and 27
        (100, 27),
        (HOUR_S, 29),
        (DAY_S, 31),
        (7 * DAY_S, 31),
        (60 * DAY_S, 33),
    ],
)
def test_one_double_with_a_ttl(span_s: float, size: int) -> None:
    assert row_bytes_of(VALUE, has_ttl=True, span_s=span_s) == size


def test_one_double_without_a_ttl_costs_21_bytes_and_its_write_time() -> None:
    assert row_bytes_of(VALUE, has_ttl=False, span_s=DAY_S) == 21 + 6
    assert row_bytes_of(VALUE, has_ttl=False, span_s=None) == 21 + 7


def test_each_further_eight_byte_column_costs_nine() -> None:
    two = parse_columns("a:double,b:bigint")
    assert row_bytes_of(two, has_ttl=True, span_s=DAY_S) == 31 + 9


@pytest.mark.parametrize(
    ("columns", "size"),
    [
        ("v:float", 31 - 4),
        ("v:int", 31 - 4),
        ("v:boolean", 31 - 7),
        ("v:text", 31 - 9 + 1 + 1 + 24),
    ],
)
def test_other_types_cost_their_length(columns: str, size: int) -> None:
    assert row_bytes_of(parse_columns(columns), has_ttl=True, span_s=DAY_S) == size


def test_a_row_over_127_bytes_pays_for_its_longer_sizes() -> None:
    many = parse_columns({f"c{i}": "double" for i in range(20)})
    # 31 B for the first column, 19 more of 9 B, and both sizes now take two bytes.
    assert row_bytes_of(many, has_ttl=True, span_s=DAY_S) == 31 + 19 * 9 + 2


def test_the_sizes_count_themselves_at_the_edge() -> None:
    # 126 B and 1-byte sizes; one byte of text more and the row is 128 B + 1 for its own length.
    base = row_bytes_of(parse_columns("t:text"), has_ttl=True, span_s=DAY_S, text_bytes=0)
    at = [
        row_bytes_of(parse_columns("t:text"), has_ttl=True, span_s=DAY_S, text_bytes=n)
        for n in (127 - base, 128 - base)
    ]
    assert at == [127, 129]


@given(
    st.integers(1, 64), st.booleans(), st.floats(0.001, 400 * DAY_S), st.sampled_from([0, 24, 999])
)
def test_parts_add_up_and_sizes_are_what_they_say(
    count: int, has_ttl: bool, span_s: float, text_bytes: int
) -> None:
    kinds = ["double", "int", "boolean", "text"]
    columns = parse_columns({f"c{i}": kinds[i % 4] for i in range(count)})
    parts = row_parts(columns, has_ttl=has_ttl, span_s=span_s, text_bytes=text_bytes)
    total = sum(part.size_bytes for part in parts)
    sizes = next(part.size_bytes for part in parts if part.what == "row sizes")
    previous = vint_bytes(total)
    own = sizes - previous
    # The body counts everything but flags, clustering and its own size.
    assert vint_bytes(total - 10 - own) == own


@given(st.floats(0.001, 400 * DAY_S), st.floats(0.001, 400 * DAY_S))
def test_a_longer_window_never_makes_smaller_rows(one_s: float, other_s: float) -> None:
    short, long = sorted((one_s, other_s))
    assert row_bytes_of(VALUE, has_ttl=True, span_s=short) <= row_bytes_of(
        VALUE, has_ttl=True, span_s=long
    )


@pytest.mark.parametrize("width", list(BucketWidth))
def test_partition_overhead_follows_the_key_and_the_format(width: BucketWidth) -> None:
    key = (2 + 6 + 1) + (2 + len(bucket_of(1_763_643_600_000, width).text) + 1)
    version = ServerVersion.from_text("5.0")
    sizes = [
        partition_overhead_bytes(width, version=version, mode=mode, series_bytes=6)
        for mode in (StorageMode.CASSANDRA_4, StorageMode.NONE)
    ]
    assert sizes == [2 + key + 12 + 1, 2 + key + 1 + 1]
