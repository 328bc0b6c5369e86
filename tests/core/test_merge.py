"""Merging: the later write wins, then the larger bytes; associative, commutative, idempotent."""

from __future__ import annotations

import functools
import itertools
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.core.merge import is_newer, newer_mask, serialized
from treering.core.schema import ColumnType

VALUES: dict[ColumnType, st.SearchStrategy[Any]] = {
    ColumnType.DOUBLE: st.floats(),
    ColumnType.FLOAT: st.floats(width=32),
    ColumnType.INT: st.integers(-(2**31), 2**31 - 1),
    ColumnType.BIGINT: st.integers(-(2**63), 2**63 - 1),
    ColumnType.BOOLEAN: st.booleans(),
    # Code points around those where UTF-16 and UTF-8 order differently, too.
    ColumnType.TEXT: st.text(
        st.characters(exclude_categories=["Cs"]) | st.sampled_from("\ufffd\U00010000"), max_size=3
    ),
}
TYPES = st.sampled_from(list(ColumnType))


def cells_of(kind: ColumnType, size: int) -> st.SearchStrategy[list[tuple[int, Any]]]:
    cell = st.tuples(st.integers(0, 2), VALUES[kind])
    return st.lists(cell, min_size=size, max_size=size)


def merged(kind: ColumnType, one: tuple[int, Any], other: tuple[int, Any]) -> tuple[int, Any]:
    return other if is_newer(*other, *one, kind) else one


def key(kind: ColumnType, cell: tuple[int, Any]) -> tuple[int, bytes]:
    return cell[0], serialized(cell[1], kind)


@given(TYPES.flatmap(lambda kind: st.tuples(st.just(kind), cells_of(kind, 3))))
def test_merge_gives_one_winner_in_any_order_and_grouping(
    case: tuple[ColumnType, list[tuple[int, Any]]],
) -> None:
    kind, cells = case
    winners = {
        key(kind, functools.reduce(functools.partial(merged, kind), order))
        for order in itertools.permutations(cells)
    }
    one, other, third = cells
    winners.add(key(kind, merged(kind, one, merged(kind, other, third))))
    assert winners == {max(key(kind, cell) for cell in cells)}
    assert key(kind, merged(kind, one, one)) == key(kind, one)


@given(TYPES.flatmap(lambda k: st.tuples(st.just(k), cells_of(k, 6), cells_of(k, 6))))
def test_mask_says_what_the_scalar_rule_says(
    case: tuple[ColumnType, list[tuple[int, Any]], list[tuple[int, Any]]],
) -> None:
    kind, ones, others = case
    arrays: list[Any] = []
    for cells in (ones, others):
        values = np.empty(len(cells), dtype=kind.dtype)
        values[:] = [value for _, value in cells]
        arrays += [np.array([stamp for stamp, _ in cells], dtype=np.int64), values]
    expected = [is_newer(*one, *other, kind) for one, other in zip(ones, others, strict=True)]
    assert newer_mask(arrays[0], arrays[1], arrays[2], arrays[3], kind).tolist() == expected


@pytest.mark.parametrize(
    ("kind", "value", "wire"),
    [
        (ColumnType.DOUBLE, 45.0, struct.pack(">d", 45.0)),
        (ColumnType.DOUBLE, -0.0, bytes([0x80, 0, 0, 0, 0, 0, 0, 0])),
        (ColumnType.FLOAT, 1.5, struct.pack(">f", 1.5)),
        (ColumnType.INT, -1, b"\xff\xff\xff\xff"),
        (ColumnType.BIGINT, 256, b"\0\0\0\0\0\0\1\0"),
        (ColumnType.BOOLEAN, True, b"\1"),
        (ColumnType.TEXT, "ä", b"\xc3\xa4"),
    ],
)
def test_value_is_serialized_as_cql_does(kind: ColumnType, value: Any, wire: bytes) -> None:
    assert serialized(value, kind) == wire


def test_tie_is_decided_by_unsigned_bytes_so_that_a_negative_number_wins() -> None:
    assert is_newer(1, -1, 1, 1, ColumnType.INT)
    assert is_newer(1, 45.0, 1, 12.0, ColumnType.DOUBLE)
    assert not is_newer(1, 12.0, 1, 45.0, ColumnType.DOUBLE)
    assert is_newer(2, 12.0, 1, 45.0, ColumnType.DOUBLE)
    assert not is_newer(1, 5, 1, 5, ColumnType.INT)
