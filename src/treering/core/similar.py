"""Names that look like one that is not there."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from itertools import chain, islice
from typing import Final

LOOKED_AT_MAX: Final = 2_000
"""The most names that are compared: a suggestion must not cost more than the question."""

_SHOWN: Final = 5


def similar_names(name: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return up to five of the first 2,000 names that look like ``name``, the nearest first.

    Upper and lower case count as alike.

    >>> similar_names("S00", ["s00", "s01", "pump"])
    ('s00', 's01')
    """
    by_folded: dict[str, list[str]] = {}
    for known in islice(names, LOOKED_AT_MAX):
        by_folded.setdefault(known.casefold(), []).append(known)
    near = difflib.get_close_matches(name.casefold(), by_folded, n=_SHOWN)
    return tuple(known for folded in near for known in by_folded[folded])[:_SHOWN]


def hints_for_series(
    name: str, table: str, series: Callable[[str], Iterable[str]]
) -> dict[str, str]:
    """Return what to do about a series that a table does not have, as facts of an error.

    Args:
        name: The series that was asked for.
        table: The table's name.
        series: Lists the ids that start with a prefix.
    """
    alike = islice(series(name[:2]), LOOKED_AT_MAX // 2)
    similar = similar_names(name, chain(alike, series("")))
    if similar:
        return {"hint": f"series that look alike: {', '.join(similar)}"}
    return {
        "hint": "list them with series(); pass missing_ok=True to take it as empty",
        "cli_hint": f"list them with treering series {table}",
    }
