"""A table into files and back: exactly, in constant memory, and never a half file."""

from __future__ import annotations

import io
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treering
from tests.engine.faults import FaultyEngine
from tests.formats.test_export import ROWS, START_NS, made
from treering.engine.protocol import PageRead
from treering.errors import EngineError, UsageError
from treering.exporting import (
    Existing,
    ExportForm,
    ExportOptions,
    ExportReport,
    interval_of_export,
    run_export,
)
from treering.importing import FileFormat, ImportOptions, run_import
from treering.readings import Readings
from treering.store import Store
from treering.table import Table

NOW = "2026-11-30T20:00Z"


def exported(table: Table, target: Path, **choices: Any) -> ExportReport:
    """Export all series of a table."""
    interval = interval_of_export(table, choices.pop("start", None), choices.pop("end", None), None)
    return run_export(table, target, table.series, interval, ExportOptions(**choices))


def imported(table: Table, path: Path) -> None:
    """Import a file, all of it."""
    form = FileFormat(path.suffix.removeprefix("."))
    report = run_import(table, io.BytesIO(path.read_bytes()), form, ImportOptions(), path=path.name)
    assert report.refused == 0


def bits(readings: Readings) -> list[Any]:
    """Return all there is of a result; doubles and floats by their bits."""
    columns = []
    for column in readings.schema:
        data = readings.data[column.name]
        values = data.values
        if values.dtype.kind == "f":
            values = values.view(f"i{values.itemsize}")
        there = data.mask().tolist()
        columns.append([v if is_there else None for v, is_there in zip(values, there, strict=True)])
    return [readings.series, readings.series_rows, readings.ts.tolist(), columns]


@settings(max_examples=30, deadline=None)
@given(rows=ROWS, batch=st.integers(1, 5))
def test_a_table_comes_back_bit_for_bit(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any], batch: int
) -> None:
    folder = tmp_path_factory.mktemp("export")
    with treering.open("memory://", clock=treering.ManualClock(NOW)) as store:
        source, target = made(store, "one"), made(store, "two")
        names = [column.name for column in source.columns]
        columns = {name: [row[i] for row in rows] for i, name in enumerate(names, start=1)}
        for series in ('pump "7", ü', "z"):
            source.write(series, [START_NS + row[0] for row in rows], columns, unit="ns")
        path = folder / "one.parquet"
        report = exported(source, path, row_group_rows=batch)
        assert report.readings == 2 * len(rows)
        imported(target, path)
        wanted = source.read(source.series(), "2026-11-29", "2026-12-01")
        assert bits(target.read(target.series(), "2026-11-29", "2026-12-01")) == bits(wanted)


@pytest.mark.parametrize("form", list(ExportForm))
@pytest.mark.parametrize("place", ["memory://", "folder"])
def test_values_at_the_edges_survive_both_forms(
    tmp_path: Path, form: ExportForm, place: str
) -> None:
    place = str(tmp_path / "plant") if place == "folder" else place
    with treering.open(place, clock=treering.ManualClock(NOW)) as store:
        source, target = made(store, "one"), made(store, "two")
        times = START_NS + np.array([0, 1, 999, 10**6, 10**9])
        source.write(
            "s",
            times,
            unit="ns",
            value=[float("nan"), -0.0, float("inf"), 5e-324, None],
            small=[-0.0, 3.4028234663852886e38, None, float("-inf"), 0.1],
            level=[-(2**31), 2**31 - 1, None, 0, 1],
            total=[-(2**63), 2**63 - 1, 2**53 + 1, None, 0],
            ok=[True, False, None, True, False],
            note=["a,b", 'quote " and\nline', None, "ü€😀", " blank "],
        )
        path = tmp_path / f"one.{form}"
        exported(source, path, form=form)
        imported(target, path)
        assert bits(target.read("s", "2026-11-29")) == bits(source.read("s", "2026-11-29"))


def filled(store: Store, days: int = 3, rows: int = 50) -> Table:
    """Return a table with readings of two series on each of the last days."""
    table = store.create("readings", rate="1/s", retention="30d")
    ends = np.datetime64("2026-11-30T12:00", "ms").astype(np.int64) - 86_400_000 * np.arange(days)
    times = np.sort((ends[:, None] - 1_000 * np.arange(rows)).ravel())
    for name in ("a", "b"):
        table.write(name, times, unit="ms", value=np.arange(len(times), dtype=float))
    return table


@pytest.fixture
def table() -> Any:
    """Return a filled table in memory."""
    with treering.open("memory://", clock=treering.ManualClock(NOW)) as store:
        yield filled(store)


def test_row_groups_have_the_stated_size_whatever_the_batches(table: Table, tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    exported(table, path, row_group_rows=70)
    file = pq.ParquetFile(path)
    assert [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)] == [
        *(70, 70, 70, 70),
        20,
    ]
    assert file.read()["value"].to_pylist() == [*range(150), *range(150)]
    assert str(file.schema_arrow.field("ts").type) == "timestamp[ms, tz=UTC]"


def test_a_file_that_is_there_is_not_replaced_unasked(table: Table, tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    path.write_bytes(b"mine")
    with pytest.raises(UsageError, match="is there already"):
        exported(table, path)
    with pytest.raises(UsageError, match="one file"):
        exported(table, path, existing=Existing.RESUME)
    assert path.read_bytes() == b"mine"
    assert exported(table, path, existing=Existing.OVERWRITE).readings == 300
    with pytest.raises(UsageError, match="no folder"):
        exported(table, tmp_path / "none" / "r.parquet")


def test_a_folder_has_a_file_a_day_and_can_be_gone_on_with(table: Table, tmp_path: Path) -> None:
    folder = tmp_path / "archive"
    report = exported(table, folder, end="2026-11-30")
    names = ["readings-2026-11-28.parquet", "readings-2026-11-29.parquet"]
    assert [path.name for path in report.files] == names
    assert report.readings == 200
    with pytest.raises(UsageError, match=r"already, such as"):
        exported(table, folder)
    (folder / names[0]).unlink()
    report = exported(table, folder, existing=Existing.RESUME)
    assert [path.name for path in report.kept] == [names[1]]
    assert [path.name for path in report.files] == [names[0], "readings-2026-11-30.parquet"]
    # Today is not over: it is written again.
    again = exported(table, folder, existing=Existing.RESUME)
    assert [path.name for path in again.files] == ["readings-2026-11-30.parquet"]
    with pytest.raises(UsageError, match="of other series or columns"):
        exported(table, folder, existing=Existing.RESUME, note="have site=north")
    rows = sum(pq.read_metadata(path).num_rows for path in folder.iterdir())
    assert rows == 300


def test_nothing_is_left_of_an_export_that_failed(tmp_path: Path) -> None:
    bad: list[str] = []

    def fault(number: int, request: Any) -> EngineError | None:
        if isinstance(request, PageRead) and request.partition.bucket.text in bad:
            return EngineError("disk on fire")
        return None

    with Store(FaultyEngine(fault=fault), clock=treering.ManualClock(NOW)) as store:
        table = filled(store)
        bad.append("2026-11-29")
        path = tmp_path / "r.parquet"
        with pytest.raises(EngineError, match="disk on fire"):
            exported(table, path, row_group_rows=10)
        assert list(tmp_path.iterdir()) == []
        report = exported(table, path, partial=True)
        assert {read.name for read in report.missing} == {"a/2026-11-29", "b/2026-11-29"}
        assert (report.readings, pq.read_metadata(path).num_rows) == (200, 200)
        assert [path.name for path in tmp_path.iterdir()] == ["r.parquet"]


def test_an_empty_table_is_a_file_with_columns_and_no_rows(tmp_path: Path) -> None:
    with treering.open("memory://", clock=treering.ManualClock(NOW)) as store:
        table = store.create("t", rate="1/s", retention="30d", columns="a:double,b:text")
        assert exported(table, tmp_path / "t.parquet").readings == 0
        assert pq.read_schema(tmp_path / "t.parquet").names == ["series", "ts", "a", "b"]
        exported(table, tmp_path / "t.csv", form=ExportForm.CSV)
        assert (tmp_path / "t.csv").read_text() == "series,ts,a,b\n"


def test_readings_that_are_kept_for_ever_need_a_start(tmp_path: Path) -> None:
    with treering.open("memory://", clock=treering.ManualClock(NOW)) as store:
        table = store.create("t", rate="1/min", retention="forever")
        table.write("s", ["2016-01-01T00:00Z"], value=[1.0])
        with pytest.raises(UsageError, match="kept for ever"):
            exported(table, tmp_path / "t.parquet")
        assert exported(table, tmp_path / "t.parquet", start="2010-01-01").readings == 1
        with pytest.raises(UsageError, match="reversed"):
            exported(table, tmp_path / "u.parquet", start="2010-01-01", end="2009-01-01")


def test_memory_does_not_grow_with_the_table(tmp_path: Path) -> None:
    with treering.open("memory://", clock=treering.ManualClock(NOW)) as store:
        table = store.create("t", rate="1/s", retention="90d", bucket="hour")
        end_ms = np.datetime64(NOW[:-1], "ms").astype(np.int64)
        times = end_ms - 1_000 * np.arange(200_000)[::-1]
        for name in ("a", "b", "c", "d", "e"):
            table.write(name, times, unit="ms", value=np.random.default_rng(1).random(200_000))

        def peak(start: str) -> int:
            tracemalloc.start()
            exported(
                table,
                tmp_path / "t.parquet",
                start=start,
                row_group_rows=5_000,
                existing=Existing.OVERWRITE,
            )
            top = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            return top

        # Ten times as much: 100,000 readings, and a million.
        few, many = peak("-20000s"), peak("-3d")
    assert many < 2 * few + 20_000_000
