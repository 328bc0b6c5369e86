"""Tokens are Cassandra's; real files' tokens are compared in ``test_against_tool``."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.sstable.token import TOKEN_MAX, TOKEN_MIN, token_of

metadata = pytest.importorskip("cassandra.metadata", reason="the driver is the second opinion")


@given(st.binary(max_size=80))
def test_tokens_are_those_of_the_driver(key: bytes) -> None:
    wanted = metadata.Murmur3Token.hash_fn(key) if key else TOKEN_MIN
    assert token_of(key) == wanted
    assert TOKEN_MIN <= token_of(key) <= TOKEN_MAX


def test_bytes_above_127_count_as_signed() -> None:
    assert token_of(b"\xff") == metadata.Murmur3Token.hash_fn(b"\xff")
    assert token_of(b"\xff") != token_of(b"\x7f")
