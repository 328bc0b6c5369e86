"""``treering export``: choices of series, files that are there, and what is said."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import NOW, Run, document


@pytest.fixture
def filled(run: Run, table: str) -> str:
    """Return a table with a reading a day of late November for two series, one with a tag."""
    run("add-series", table, "pump-7", "--tag", "site=north")
    lines = [
        f"{s},2026-11-{day:02}T12:00:00.{day:03}Z,{day}.5"
        for s in ("pump-7", "tank")
        for day in range(21, 31)
    ]
    Path("days.csv").write_text("\n".join(["series,ts,value", *lines]) + "\n")
    run("import", table, "days.csv", "--now", NOW)
    return table


def test_all_series_go_into_one_file_and_come_back(run: Run, filled: str) -> None:
    said = document(run("export", filled, "--parquet", "all.parquet", "--now", NOW, "--json"))
    assert (said["readings"], said["files"], said["missing"]) == (20, ["all.parquet"], [])
    assert said["bytes"] == Path("all.parquet").stat().st_size
    run("create", "copy", "--rate", "1/s", "--retention", "90d", "--now", NOW)
    run("import", "copy", "all.parquet", "--now", NOW)
    wanted = run("read", filled, "--prefix", "", "--start", "-20d", "--format", "csv", "--now", NOW)
    found = run("read", "copy", "--prefix", "", "--start", "-20d", "--format", "csv", "--now", NOW)
    assert wanted.stdout == found.stdout
    assert wanted.stdout.count("\n") == 21
    run("export", filled, "--csv", "all.csv", "--now", NOW)
    assert Path("all.csv").read_text() == wanted.stdout


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        (["tank"], ["tank"]),
        (["--tag", "site=north"], ["pump-7"]),
        (["--prefix", "p"], ["pump-7"]),
        ([], ["pump-7", "tank"]),
    ],
)
def test_series_are_named_or_chosen(
    run: Run, filled: str, choice: list[str], names: list[str]
) -> None:
    run("export", filled, *choice, "--parquet", "some.parquet", "--now", NOW)
    assert pq.read_table("some.parquet")["series"].unique().to_pylist() == names


def test_a_folder_is_gone_on_with_and_not_replaced_unasked(run: Run, filled: str) -> None:
    export = ("export", filled, "--parquet", "archive", "--now", NOW)
    assert "20 readings of readings in 10 files of archive" in run(*export).stdout
    refused = run(*export, exit_code=2)
    assert "--resume" in refused.stderr
    Path("archive/readings-2026-11-25.parquet").unlink()
    again = run(*export, "--resume").stdout
    assert "4 readings of readings in 2 files of archive" in again
    assert "8 files of an earlier run kept" in again
    assert len(document(run(*export, "--overwrite", "--json"))["files"]) == 10


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing says where"),
        (["--parquet", "a.parquet", "--csv", "a.csv"], "exclude each other"),
        (["--parquet", "a", "--resume", "--overwrite"], "exclude each other"),
        (["tank", "--prefix", "p", "--csv", "a.csv"], "series were named"),
        (["--prefix", "q", "--csv", "a.csv"], "start with 'q'"),
        (["--csv", "a.csv", "--start", "-1d", "--end", "-2d"], "reversed"),
        (["--csv", "days.csv"], "is there already"),
        (["nobody", "--csv", "a.csv"], "no series 'nobody'"),
    ],
)
def test_what_cannot_be_exported_is_refused(
    run: Run, filled: str, arguments: list[str], message: str
) -> None:
    result = run("export", filled, *arguments, "--now", NOW, exit_code=2)
    assert message in result.stderr
    assert not Path("a.csv").exists()
    assert not Path("a").exists()


def test_a_partition_that_cannot_be_read_is_said_and_exits_3(
    run: Run, filled: str, store: str
) -> None:
    segment = sorted(Path(store).rglob("*.db"))[-1]
    assert segment.parent != Path(store)
    segment.write_bytes(b"not a database" * 1_000)
    failed = run("export", filled, "--parquet", "a.parquet", "--now", NOW, exit_code=1)
    assert segment.name in failed.stderr
    assert not Path("a.parquet").exists()
    result = run("export", filled, "--parquet", "a.parquet", "--partial", "--now", NOW, exit_code=3)
    assert "incomplete" in result.stderr
    assert Path("a.parquet").exists()
