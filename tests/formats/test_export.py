"""Readings out and in again: the same readings, whatever the form, the locale and the zone."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treering
from treering.formats.export import render_csv, render_jsonl, write_parquet
from treering.importing import FileFormat, ImportOptions, run_import
from treering.readings import Readings
from treering.table import Table

NOW = "2026-11-30T14:00Z"
COLUMNS = "value:double,small:float,level:int,total:bigint,ok:boolean,note:text"
START_NS = 1_796_000_000_000_000_000
TEXTS = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=8
).filter(lambda text: "\x00" not in text)
ROWS = st.lists(
    st.tuples(
        st.integers(0, 3_600 * 10**9),
        st.one_of(st.none(), st.floats()),
        st.one_of(st.none(), st.floats(width=32)),
        st.one_of(st.none(), st.integers(-(2**31), 2**31 - 1)),
        st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
        st.one_of(st.none(), st.booleans()),
        st.one_of(st.none(), TEXTS),
    ).filter(lambda row: any(value is not None for value in row[1:])),
    min_size=1,
    max_size=20,
    unique_by=lambda row: row[0],
)


def made(store: treering.Store, name: str, precision: str = "ns") -> Table:
    """Make a table of every type."""
    return store.create(name, rate="1/s", retention="7d", columns=COLUMNS, precision=precision)


def exported(readings: Readings, form: FileFormat) -> bytes:
    """Return readings as a file."""
    match form:
        case FileFormat.CSV:
            return "".join(render_csv(readings)).encode()
        case FileFormat.JSONL:
            return "".join(render_jsonl(readings)).encode()
        case FileFormat.PARQUET:
            stream = io.BytesIO()
            write_parquet(readings, stream)
            return stream.getvalue()


def same(one: Readings, other: Readings) -> bool:
    """Return whether two results are equal bit for bit."""
    equal = one.series == other.series and np.array_equal(one.ts, other.ts)
    for column in one.schema:
        a, b = one.data[column.name], other.data[column.name]
        there = a.mask()
        equal = equal and np.array_equal(there, b.mask())
        x, y = a.values[there], b.values[there]
        if x.dtype.kind == "f":
            # NaN is NaN in text, whatever its bits.
            equal = equal and np.array_equal(np.isnan(x), np.isnan(y))
            x, y = np.signbit(x[~np.isnan(x)]) * 1 + x[~np.isnan(x)], y[~np.isnan(y)]
            y = np.signbit(y) * 1 + y
        equal = equal and x.tolist() == y.tolist()
    return equal


@pytest.mark.parametrize("form", list(FileFormat))
@settings(max_examples=40)
@given(rows=ROWS)
def test_what_was_exported_comes_back(form: FileFormat, rows: list[Any]) -> None:
    with treering.open("memory://", clock=treering.ManualClock("2026-11-30T20:00Z")) as store:
        source, target = made(store, "one"), made(store, "two")
        names = [column.name for column in source.columns]
        columns = {name: [row[i] for row in rows] for i, name in enumerate(names, start=1)}
        source.write('pump "7", ü', [START_NS + row[0] for row in rows], columns, unit="ns")
        readings = source.read('pump "7", ü', "2026-11-29", "2026-12-01")
        assert len(readings) == len(rows)
        report = run_import(
            target, io.BytesIO(exported(readings, form)), form, ImportOptions(), path="f"
        )
        assert (report.accepted, report.refused) == (len(rows), 0)
        assert same(readings, target.read('pump "7", ü', "2026-11-29", "2026-12-01"))


@pytest.mark.parametrize("form", list(FileFormat))
@pytest.mark.parametrize("precision", ["ms", "us", "ns"])
def test_milliseconds_next_to_each_other_stay_two_readings(
    form: FileFormat, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Exports that dropped milliseconds, or shifted the zone, made two keys one.
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    with treering.open("memory://", clock=treering.ManualClock("2019-12-11T05:00Z")) as store:
        source, target = made(store, "one", precision), made(store, "two", precision)
        times = ["2019-12-11T04:50:11.661Z", "2019-12-11T04:50:11.662Z"]
        source.write("s", times, value=[1.0, 2.0])
        data = exported(source.read("s", "2019-12-11"), form)
        run_import(target, io.BytesIO(data), form, ImportOptions(), path="f")
        back = target.read("s", "2019-12-11")
        assert (back.ts // (target.precision.per_s // 1_000)).tolist() == [
            1576039811661,
            1576039811662,
        ]
        if form is FileFormat.CSV:
            assert b"2019-12-11T04:50:11.661" in data


def test_a_json_line_has_series_ts_and_the_columns() -> None:
    with treering.open("memory://", clock=treering.ManualClock(NOW)) as store:
        table = store.create("r", rate="1/s", retention="7d", columns="value:double,level:int")
        times = ["2026-11-30T13:00:00Z", "2026-11-30T13:00:01Z", "2026-11-30T13:00:02Z"]
        table.write("a", times, value=[1.5, float("nan"), float("-inf")], level=[7, None, 9])
        lines = "".join(render_jsonl(table.read("a", "-2h"))).splitlines()

    def strictly(text: str) -> Any:
        return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))

    assert [strictly(line) for line in lines] == [
        {"series": "a", "ts": "2026-11-30T13:00:00.000Z", "value": 1.5, "level": 7},
        {"series": "a", "ts": "2026-11-30T13:00:01.000Z", "value": "NaN", "level": None},
        {"series": "a", "ts": "2026-11-30T13:00:02.000Z", "value": "-Infinity", "level": 9},
    ]


def test_a_missing_value_is_an_empty_field_of_csv() -> None:
    with treering.open("memory://", clock=treering.ManualClock(NOW)) as store:
        table = store.create("r", rate="1/s", retention="7d", columns="value:double,ok:boolean")
        table.write("a,b", "2026-11-30T13:00:00Z", value=None, ok=True)
        text = "".join(render_csv(table.read("a,b", "-2h")))
    assert text == 'series,ts,value,ok\n"a,b",2026-11-30T13:00:00.000Z,,true\n'


def test_a_float_column_shows_the_digits_it_has(tmp_path: Path) -> None:
    with treering.open("memory://", clock=treering.ManualClock(NOW)) as store:
        table = store.create("r", rate="1/s", retention="7d", columns="value:float")
        table.write("a", "2026-11-30T13:00:00Z", value=98.6)
        text = "".join(render_csv(table.read("a", "-2h")))
    assert text.endswith(",98.6\n")
