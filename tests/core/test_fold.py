"""Folding cells is the merge rule on arrays, in any order and grouping."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from treering.core.columns import column_from_list
from treering.core.fold import CellColumn, Cells, cut, fold, newest_us, without_dead
from treering.core.merge import is_newer
from treering.core.schema import Column, parse_columns

COLUMNS = parse_columns("d:double,o:boolean,t:text")
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "d": st.sampled_from([0.0, -0.0, 1.0, -1.0, float("inf")]),
    "o": st.booleans(),
    "t": st.sampled_from(["", "a", "ä", "\U0001f600"]),
}
Model = dict[int, dict[str, tuple[int, Any]]]

MODELS = st.dictionaries(
    st.integers(-5, 5),
    st.fixed_dictionaries(
        {}, optional={name: st.tuples(st.integers(1, 3), value) for name, value in VALUES.items()}
    ).filter(bool),
    max_size=6,
)


def cells_of(model: Model) -> Cells:
    """Return a model's readings as arrays."""
    ts = sorted(model)

    def column(one: Column) -> CellColumn:
        found = [model[t].get(one.name, (0, None)) for t in ts]
        data = column_from_list([value for _, value in found], one.type)
        return CellColumn(data, np.array([us for us, _ in found], dtype=np.int64))

    return Cells(np.array(ts, dtype=np.int64), {one.name: column(one) for one in COLUMNS})


def model_of(cells: Cells) -> Model:
    """Return readings as a model."""
    rows: Model = {int(ts): {} for ts in cells.ts}
    for name, column in cells.columns.items():
        values = column.data.to_list()
        for ts, value, us in zip(cells.ts.tolist(), values, column.write_us.tolist(), strict=True):
            if value is not None:
                rows[ts][name] = (us, value)
    return rows


def merged(*models: Model) -> Model:
    """Return what is left of models, cell by cell."""
    result: Model = {}
    types = {column.name: column.type for column in COLUMNS}
    for model in models:
        for ts, row in model.items():
            for name, (us, value) in row.items():
                cells = result.setdefault(ts, {})
                if name not in cells or is_newer(us, value, *cells[name], types[name]):
                    cells[name] = (us, value)
    return result


@given(MODELS, MODELS, MODELS)
def test_fold_is_the_merge_of_cells_in_any_order_and_grouping(a: Model, b: Model, c: Model) -> None:
    one, two, three = cells_of(a), cells_of(b), cells_of(c)
    wanted = repr(sorted(merged(a, b, c).items()))
    left = fold(fold(one, two, COLUMNS), three, COLUMNS)
    right = fold(three, fold(two, one, COLUMNS), COLUMNS)
    for found in (left, right):
        rows = {ts: dict(sorted(row.items())) for ts, row in model_of(found).items()}
        exact = {ts: dict(sorted(row.items())) for ts, row in merged(a, b, c).items()}
        assert repr(sorted(rows.items())) == repr(sorted(exact.items())), wanted
        assert np.all(np.diff(found.ts) > 0)


@given(MODELS)
def test_folding_again_changes_nothing(a: Model) -> None:
    cells = cells_of(a)
    assert repr(model_of(fold(cells, cells, COLUMNS))) == repr(model_of(cells))


@given(MODELS, st.integers(-6, 6), st.integers(0, 6), st.integers(0, 4))
def test_deletion_takes_cells_of_its_range_by_their_write_time(
    a: Model, start: int, length: int, write_us: int
) -> None:
    left = without_dead(cells_of(a), start=start, end=start + length, write_us=write_us)
    wanted: Model = {}
    for ts, row in a.items():
        is_inside = start <= ts < start + length
        kept = {n: cell for n, cell in row.items() if not is_inside or cell[0] > write_us}
        if kept:
            wanted[ts] = kept
    found = model_of(left)
    assert {ts: repr(sorted(row.items())) for ts, row in found.items()} == {
        ts: repr(sorted(row.items())) for ts, row in wanted.items()
    }


@given(MODELS, st.integers(1, 4))
def test_parts_hold_every_reading_once_and_none_is_too_large(a: Model, rows_max: int) -> None:
    cells = cells_of(a)
    parts = list(cut(cells, rows_max))
    assert [ts for part in parts for ts in part.ts.tolist()] == cells.ts.tolist()
    assert all(0 < len(part) <= rows_max for part in parts)


def test_newest_write_time_is_that_of_cells_that_are_there() -> None:
    cells = cells_of({1: {"d": (3, 1.0), "t": (7, "a")}, 2: {"o": (5, True)}})
    assert newest_us(cells).tolist() == [7, 5]
