"""Names that look alike."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from treering.core.similar import LOOKED_AT_MAX, hints_for_series, similar_names

NAMES = tuple(f"s{number:02}" for number in range(40))


def test_a_name_is_found_whatever_its_case_and_with_another_end() -> None:
    assert similar_names("S00", NAMES)[0] == "s00"
    assert "s09" in similar_names("s99", NAMES)
    assert similar_names("pump", NAMES) == ()


@given(st.lists(st.text(max_size=6), unique=True, max_size=30), st.text(max_size=6))
def test_suggestions_are_names_that_are_there_at_most_five(names: list[str], name: str) -> None:
    similar = similar_names(name, names)
    assert set(similar) <= set(names)
    assert len(similar) <= 5


def test_no_more_names_are_looked_at_than_the_bound() -> None:
    names = (f"n{number}" for number in itertools.count())
    similar_names("zzz", names)
    assert next(names) == f"n{LOOKED_AT_MAX}"


def test_a_name_that_resembles_none_is_told_how_to_list_them() -> None:
    hints = hints_for_series("zzz", "air", lambda prefix: [n for n in NAMES if prefix in n[:2]])
    assert "series()" in hints["hint"]
    assert hints["cli_hint"] == "list them with treering series air"
