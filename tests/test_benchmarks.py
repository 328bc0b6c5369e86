"""The benchmarks run, on little work and untimed, so that they cannot rot."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import benchmarks
from benchmarks import (
    aggregates,
    block_codec,
    catalog,
    density,
    embedded,
    growth_cassandra,
    index_cassandra,
    memory_embedded,
    rows_cassandra,
    rows_embedded,
    sstable_metadata,
    writer,
)
from benchmarks.__main__ import NAMES, keep, main, run_all
from benchmarks.measure import Result, render_results, write_results


def test_embedded_benchmark_runs() -> None:
    results = rows_embedded.run(series=2, rows=200)
    assert {result.name for result in results} == {"embedded: write rows", "embedded: read rows"}
    assert all(result.ours > 0 and result.peer > 0 for result in results)


# A peer uses what another peer will take away.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_embedded_history_benchmark_runs() -> None:
    results = embedded.run(series=2, rows=3_000, rounds=1)
    assert {result.name for result in results} == {
        f"embedded: {what} of {data}"
        for what in ("ingest", "scan", "size")
        for data in ("a gauge", "a pulse sensor")
    }
    assert all(result.ours > 0 and result.peer > 0 for result in results)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_density_benchmark_runs() -> None:
    results = density.run(series=1, rows=3_000)
    assert {result.name for result in results} == {
        f"density: {kind}" for kind in ("gauge", "counter", "jitter", "noise")
    }
    named = " ".join(result.peer_name for result in results)
    assert "VictoriaMetrics" in named
    assert "Prometheus" in named
    assert all(result.ours > 0 and result.peer > 0 for result in results)


def test_block_benchmark_runs() -> None:
    results = block_codec.run(series=1, rows=500)
    assert len(results) == 4 * 3 * 4
    assert all(result.ours > 0 and result.peer > 0 for result in results)


def test_writer_benchmark_runs() -> None:
    results = writer.run(rows=400, spooled_rows=8, rounds=1)
    assert len(results) == 5 + 2
    assert all(result.ours > 0 and result.peer > 0 for result in results)


def test_aggregates_benchmark_runs() -> None:
    results = aggregates.run(days=1, daily_days=2)
    assert [result.unit for result in results] == [
        *("readings/s", "readings/MB"),
        *("readings/s", "readings/s"),
    ]
    assert all(result.ours > 0 and result.peer > 0 for result in results)


@pytest.mark.usefixtures("cassandra_programs")
def test_cassandra_benchmark_runs() -> None:
    results = rows_cassandra.run(days=2, rows_a_day=500, single_rows=300, batched_rows=500)
    assert [result.unit for result in results] == [*["rows/s"] * 3, "rows/CPU s", "rows/s"]


@pytest.mark.usefixtures("cassandra_programs")
def test_growth_benchmark_runs() -> None:
    results = growth_cassandra.run(rows=400, peer_rows=50, partitions=(1, 2), series=(1, 20))
    assert [result.name for result in results] == [
        *("write 1 partitions", "read 1 day partitions"),
        *("write 2 partitions", "read 2 day partitions"),
        *("write 1 series", "read 1 series"),
        *("write 20 series", "read 20 series"),
    ]


def test_memory_benchmark_runs() -> None:
    read, scan, export = memory_embedded.run(days=3, step_s=60)
    assert read.peer == scan.peer == export.peer == 62_500


def test_a_benchmark_that_fails_does_not_stop_the_others() -> None:
    result = Result(name="n", ours=10, peer=4, peer_name="p", unit="rows/s")

    def load(name: str) -> Callable[[], list[Result]]:
        def run() -> list[Result]:
            assert name != "bad", "a wrong result"
            return [result]

        return run

    assert run_all(["a", "bad", "b"], load) == ([result, result], ["bad"])


def test_an_unknown_benchmark_is_told_with_those_that_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["nothing"]) == 2
    assert "rows_embedded" in capsys.readouterr().err


def test_every_benchmark_is_run_and_described() -> None:
    folder = Path(benchmarks.__file__).parent
    supports = {"__init__", "__main__", "measure", "nodes", "picture", "pulse"}
    modules = {path.stem for path in folder.glob("*.py")} - supports
    assert modules == set(NAMES)
    text = (folder / "README.md").read_text()
    assert [name for name in NAMES if f"`{name}`" not in text] == []


def test_results_are_kept_as_rows_and_as_a_picture(tmp_path: Path) -> None:
    rows = [
        Result(name="met", ours=10, peer=4, peer_name="p", unit="rows/s", budget=2),
        Result(name="missed", ours=1, peer=4, peer_name="p", unit="rows/s", budget=0.5),
        Result(name="free", ours=9_000, peer=4, peer_name="p", unit="rows/s"),
    ]
    assert [row.is_met for row in rows] == [True, False, True]
    keep(rows, tmp_path)
    assert [row["name"] for row in json.loads((tmp_path / "results.json").read_text())] == [
        *("met", "missed", "free"),
    ]
    assert (tmp_path / "results.png").read_bytes().startswith(b"\x89PNG")


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
