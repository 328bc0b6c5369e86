"""Names of files and folders say what they hold, and sort as time does."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.contract import spec_of
from treering.core.units import MONTH_S, TIME_END_S, TIME_MIN_S
from treering.engine.sqlite.layout import (
    parse_segment_name,
    parse_table_folder,
    segment_name,
    table_folder,
)

# A segment that holds the first instant may start up to its length earlier.
starts = st.integers(TIME_MIN_S - MONTH_S, TIME_END_S - 1)


@given(starts)
def test_segment_name_tells_its_start(start_s: int) -> None:
    assert parse_segment_name(segment_name(start_s)) == start_s


@given(starts, starts)
def test_segment_names_sort_as_time_does(one: int, other: int) -> None:
    assert (segment_name(one) < segment_name(other)) == (one < other)


@pytest.mark.parametrize(
    "name", ["x.db", "2025-11-20T000000Z.db-wal", "2025-13-20T000000Z.db", "catalog.db", ""]
)
def test_other_names_are_no_segments(name: str) -> None:
    assert parse_segment_name(name) is None


@pytest.mark.parametrize("incarnation", [1, 2, 17])
def test_each_incarnation_of_a_table_has_a_folder_of_its_own(incarnation: int) -> None:
    spec = spec_of("readings").with_incarnation(incarnation)
    folder = table_folder(Path("store"), spec)
    assert parse_table_folder(folder.name) == ("readings", incarnation)
