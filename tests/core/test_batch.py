"""A batch gives what its appends would have given one after the other; as bytes it stays exact."""

from __future__ import annotations

import datetime as dt
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.contract import ALL_TYPES, NOW_MS, spec_of
from treering.core.batch import (
    FINER,
    UNFIT,
    UNTIMED,
    Batch,
    BatchBuffer,
    inputs_of_batch,
    merge_batches,
)
from treering.core.batch_codec import decode_batch, encode_batch
from treering.core.reading import ReadingParser
from treering.core.table import TableSpec
from treering.core.units import Precision
from treering.core.write_input import WriteInput
from treering.core.write_plan import plan_write
from treering.errors import UsageError

SPEC = spec_of("readings", columns="a:double,b:int,t:text")

Append = tuple[str, int, dict[str, Any]]

APPENDS = st.lists(
    st.tuples(
        st.sampled_from(["pump-7", "Pumpe ü", "s"]),
        st.integers(0, 4).map(lambda n: NOW_MS - n),
        st.fixed_dictionaries(
            {},
            optional={
                "a": st.none() | st.floats(allow_nan=True),
                "b": st.none() | st.integers(-(2**31), 2**31 - 1),
                "t": st.none() | st.text(st.characters(codec="utf-8"), max_size=5),
            },
        ).filter(bool),
    ),
    max_size=40,
)


def batch_of(appends: list[Append], spec: TableSpec = SPEC, *, first_index: int = 0) -> Batch:
    """Return a batch of appends."""
    parser = ReadingParser(spec)
    buffer = BatchBuffer(spec, write_us=7, first_index=first_index)
    for series, ts, values in appends:
        cells, flags, size_bytes = parser.cells(values)
        buffer.add(series, ts, flags, cells, size_bytes)
    return buffer.sealed()


def written(inputs: list[WriteInput], spec: TableSpec = SPEC) -> dict[tuple[str, int, str], Any]:
    """Return every cell that planning and writing would leave, NaN as its bits."""
    cells = {}
    for readings in inputs:
        plan = plan_write(spec, readings, now_ts=NOW_MS, write_us=7, duplicates="last")
        for write in plan.writes:
            for name, data in write.columns.items():
                for ts, value in zip(write.ts.tolist(), data.to_list(), strict=True):
                    if value is not None:
                        cells[write.series, ts, name] = exact(value)
    return cells


def exact(value: Any) -> Any:
    """Return a value that equals itself: a double by its bits."""
    return struct.pack("<d", value) if isinstance(value, float) else value


@given(APPENDS)
def test_later_append_wins_column_by_column(appends: list[Append]) -> None:
    wanted = {
        (series, ts, name): exact(value)
        for series, ts, values in appends
        for name, value in values.items()
        if value is not None
    }
    assert written(list(inputs_of_batch(batch_of(appends), SPEC))) == wanted


@given(APPENDS, st.integers(0, 40))
def test_parts_of_a_batch_are_together_what_the_whole_is(appends: list[Append], cut: int) -> None:
    parts = [batch_of(appends[:cut]), batch_of(appends[cut:], first_index=cut)]
    merged = merge_batches(parts, SPEC)
    assert len(merged) == len(appends)
    whole = inputs_of_batch(batch_of(appends), SPEC)
    assert written(list(inputs_of_batch(merged, SPEC))) == written(list(whole))


@given(APPENDS)
def test_bytes_of_a_batch_give_it_back(appends: list[Append]) -> None:
    batch = batch_of(appends, first_index=3)
    again = decode_batch(encode_batch(batch), SPEC)
    assert (again.write_us, again.first_index, again.series, again.bytes) == (
        *(7, 3, batch.series),
        batch.bytes,
    )
    for name in ("codes", "ts", "flags"):
        one, other = getattr(batch, name), getattr(again, name)
        assert one.dtype == other.dtype
        assert np.array_equal(one, other)
    assert list(batch.columns) == list(again.columns)
    for name, data in batch.columns.items():
        assert list(map(exact, again.columns[name].to_list())) == list(map(exact, data.to_list()))


@given(APPENDS, st.data())
def test_damage_to_the_bytes_of_a_batch_is_found(
    appends: list[Append], data: st.DataObject
) -> None:
    payload = bytearray(encode_batch(batch_of(appends)))
    place = data.draw(st.integers(0, len(payload) - 1))
    payload[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(ValueError):
        decode_batch(bytes(payload), SPEC)
    with pytest.raises(ValueError):
        decode_batch(bytes(payload[:-1]), SPEC)


def test_refused_reading_gives_no_value_to_a_later_one() -> None:
    parser = ReadingParser(SPEC)
    buffer = BatchBuffer(SPEC, write_us=7, first_index=0)
    for values in ({"a": 1.0, "b": 1.5}, {"t": "kept"}):
        cells, flags, size_bytes = parser.cells(values)
        buffer.add("s", NOW_MS, flags, cells, size_bytes)
    (readings,) = inputs_of_batch(buffer.sealed(), SPEC)
    assert written([readings]) == {("s", NOW_MS, "t"): "kept"}
    assert readings.unfit.tolist() == [True, False]


def test_every_type_of_column_goes_through_a_batch() -> None:
    spec = spec_of("all", columns=ALL_TYPES)
    values = {"d": 0.1, "f": 0.5, "i": -1, "b": 2**62, "o": True, "t": "é"}
    (readings,) = inputs_of_batch(batch_of([("s", NOW_MS, values)], spec), spec)
    assert {n: d.to_list() for n, d in readings.columns.items()} == {
        name: [value] for name, value in values.items()
    }


PARSED: list[tuple[str, Any, Any, int]] = [
    ("a", 1, 1.0, 0),
    ("a", np.float32(0.5), 0.5, 0),
    ("a", None, None, 0),
    ("a", 2**53 + 1, None, UNFIT),
    ("b", 1.0, 1, 0),
    ("b", 1.5, None, UNFIT),
    ("b", 2**31, None, UNFIT),
    ("t", "x", "x", 0),
    ("t", "\ud800", None, UNFIT),
]


@pytest.mark.parametrize(("name", "given", "kept", "flags"), PARSED, ids=repr)
def test_value_is_kept_exactly_or_marked(name: str, given: Any, kept: Any, flags: int) -> None:
    cells, found, size_bytes = ReadingParser(SPEC).cells({name: given})
    assert (cells[0][:2], found) == ((name, kept), flags)
    assert size_bytes > 0


@pytest.mark.parametrize(
    "values", [{}, {"nope": 1.0}, {"a": "warm"}, {"t": 1}, {"b": True}], ids=repr
)
def test_what_is_no_value_of_its_column_is_refused_at_once(values: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        ReadingParser(SPEC).cells(values)


UTC = dt.UTC
TIMES: list[tuple[Precision, Any, str | None, tuple[int, int]]] = [
    (Precision.MS, 5, "ms", (5, 0)),
    (Precision.MS, 5, "s", (5_000, 0)),
    (Precision.MS, 5, "us", (0, FINER)),
    (Precision.MS, dt.datetime(1970, 1, 1, 0, 0, 1, 500, UTC), None, (1_000, FINER)),
    (Precision.MS, dt.datetime(1970, 1, 1, 0, 0, 1, 5_000, UTC), None, (1_005, 0)),
    (Precision.US, dt.datetime(1970, 1, 1, 0, 0, 1, 500, UTC), None, (1_000_500, 0)),
    (Precision.NS, np.datetime64(7, "ns"), None, (7, 0)),
    (Precision.MS, np.datetime64("NaT"), None, (0, UNTIMED)),
    (Precision.MS, 10**18, "ms", (0, UNTIMED)),
    (Precision.MS, "1970-01-01T00:00:01Z", None, (1_000, 0)),
]


@pytest.mark.parametrize(("precision", "ts", "unit", "wanted"), TIMES, ids=repr)
def test_time_of_a_reading_follows_the_rules_for_arrays(
    precision: Precision, ts: Any, unit: str | None, wanted: tuple[int, int]
) -> None:
    spec = spec_of("times", precision=precision)
    assert ReadingParser(spec).time(ts, unit) == wanted


@pytest.mark.parametrize("ts", [5, 1.5, "now", dt.datetime(2025, 1, 1)], ids=repr)  # noqa: DTZ001
def test_what_is_no_time_of_a_reading_is_refused_at_once(ts: Any) -> None:
    with pytest.raises(UsageError):
        ReadingParser(SPEC).time(ts, None)
