"""What write times say: units, and who brought an old one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.doctor.checks.tables import sstable
from treering.doctor.checks.write_times import is_older, unit_of

UNITS = {"SECONDS": 1, "MILLISECONDS": 10**3, "MICROSECONDS": 10**6, "NANOSECONDS": 10**9}


@pytest.mark.parametrize("unit", UNITS)
@given(second=st.integers(500_000_000, 9_200_000_000))
def test_a_time_between_1985_and_2261_tells_its_unit(unit: str, second: int) -> None:
    assert unit_of(second * UNITS[unit]) == unit


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("9", "10"),
        ("10", "3gb1_0tj4_46w3k2cpidnirvjy7k"),
        ("3gb1_0tj4_46w3k2cpidnirvjy7k", "3gb1_0tj5_06w3k2cpidnirvjy7k"),
    ],
)
def test_ids_of_files_say_which_is_older(older: str, newer: str) -> None:
    first, second = sstable(id=older), sstable(id=newer)
    assert is_older(first, second)
    assert not is_older(second, first)
    assert not is_older(first, first)


@pytest.mark.parametrize("number", [-1, 0, 1, 42, 10**10, 10**13, 10**16])
def test_a_number_that_is_no_time_in_any_unit_tells_nothing(number: int) -> None:
    assert unit_of(number) is None
