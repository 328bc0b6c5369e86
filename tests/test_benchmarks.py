"""The benchmarks run, on little work and untimed, so that they cannot rot."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import (
    aggregates,
    block_codec,
    catalog,
    index_cassandra,
    rows_cassandra,
    rows_embedded,
    sstable_metadata,
    writer,
)
from benchmarks.measure import Result, render_results, write_results


def test_embedded_benchmark_runs() -> None:
    results = rows_embedded.run(series=2, rows=200)
    assert {result.name for result in results} == {"embedded: write rows", "embedded: read rows"}
    assert all(result.ours > 0 and result.peer > 0 for result in results)


def test_block_benchmark_runs() -> None:
    results = block_codec.run(series=1, rows=500)
    assert len(results) == 4 * 3 * 4
    assert all(result.ours > 0 and result.peer > 0 for result in results)


def test_writer_benchmark_runs() -> None:
    results = writer.run(rows=400, spooled_rows=8)
    assert len(results) == 5
    assert all(result.ours > 0 and result.peer > 0 for result in results)


def test_aggregates_benchmark_runs() -> None:
    results = aggregates.run(days=1)
    assert [result.unit for result in results] == ["readings/s", "readings/MB"]
    assert all(result.ours > 0 and result.peer > 0 for result in results)


@pytest.mark.usefixtures("cassandra_programs")
def test_cassandra_benchmark_runs() -> None:
    results = rows_cassandra.run(days=2, rows_a_day=500, peer_rows=300)
    assert [result.unit for result in results] == ["rows/s"] * 3


@pytest.mark.usefixtures("cassandra_programs")
def test_index_benchmark_runs() -> None:
    results = index_cassandra.run(days=40, series=20, rows=2)
    assert [result.unit for result in results] == ["calls/s", "readings/s", "readings/s"]


@pytest.mark.usefixtures("cassandra_programs")
def test_catalog_benchmark_runs() -> None:
    results = catalog.run(series=200, single=2)
    assert [result.unit for result in results] == ["series/s", "times/s", "times/s"]


@pytest.mark.usefixtures("cassandra_programs")
def test_sstable_benchmark_runs() -> None:
    (result,) = sstable_metadata.run(files=5)
    assert result.ours > result.peer > 0


def test_results_are_rows_of_json(tmp_path: Path) -> None:
    result = Result(name="n", ours=10, peer=4, peer_name="p", unit="rows/s", budget=2)
    write_results([result], tmp_path / "results.json")
    assert '"ratio": 2.5' in (tmp_path / "results.json").read_text()
    assert render_results([result]).row_count == 1
