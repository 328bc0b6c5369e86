"""``treering read --every``: aggregates by step on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import NOW, Run, document


@pytest.fixture
def filled(run: Run, table: str) -> str:
    """Return a table with a reading an hour over three days around a change of the clock."""
    lines = [
        f"pump-7,2026-10-{day:02}T{hour:02}:00:00Z,{day}.5"
        for day in (24, 25, 26)
        for hour in range(24)
    ]
    Path("hours.csv").write_text("\n".join(["series,ts,value", *lines]) + "\n")
    run("import", table, "hours.csv", "--now", NOW)
    return table


def read(run: Run, table: str, *options: str, exit_code: int = 0) -> str:
    """Return what reading the series prints on either stream."""
    result = run(
        *("read", table, "pump-7", "--now", NOW, "--format", "csv"), *options, exit_code=exit_code
    )
    return result.stderr if exit_code else result.stdout


def test_steps_come_as_rows_with_a_column_for_each_aggregate(run: Run, filled: str) -> None:
    text = read(run, filled, "--start", "2026-10-24", "--every", "1d", "--agg", "mean,max,count")
    assert text.splitlines() == [
        "series,ts,value_mean,value_max,value_count",
        "pump-7,2026-10-24T00:00:00.000Z,24.5,24.5,24",
        "pump-7,2026-10-25T00:00:00.000Z,25.5,25.5,24",
        "pump-7,2026-10-26T00:00:00.000Z,26.5,26.5,24",
    ]


def test_days_of_a_zone_have_its_hours(run: Run, filled: str) -> None:
    zoned = ("--every", "1d", "--agg", "count", "--tz", "Europe/Berlin")
    text = read(run, filled, "--start", "2026-10-25", "--end", "2026-10-26T00:00", *zoned)
    assert text.splitlines()[1:] == ["pump-7,2026-10-24T22:00:00.000Z,25"]


def test_empty_steps_come_where_they_are_asked_for(run: Run, filled: str) -> None:
    hours = ("--start", "2026-10-26T22:00Z", "--end", "2026-10-27T01:00Z", "--every", "1h")
    asked = ("--agg", "last,count", "--empty", "null", "--origin", "2026-10-01T00:30Z")
    assert read(run, filled, *hours, *asked).splitlines()[1:] == [
        "pump-7,2026-10-26T21:30:00.000Z,26.5,1",
        "pump-7,2026-10-26T22:30:00.000Z,26.5,1",
        "pump-7,2026-10-26T23:30:00.000Z,,0",
        "pump-7,2026-10-27T00:30:00.000Z,,0",
    ]
    nothing = ("--start", "2026-01-01", "--end", "2026-01-02", "--every", "1h", "--agg", "mean")
    result = run("read", filled, "pump-7", "--now", NOW, *nothing, "--tz", "Europe/Berlin")
    assert "older than the retention" in result.stderr


def test_json_has_a_row_a_step(run: Run, filled: str) -> None:
    asked = ("--start", "2026-10-26", "--every", "1d", "--agg", "sum", "--json")
    found = document(run("read", filled, "pump-7", "--now", NOW, *asked))
    assert found["count"] == 1
    assert found["readings"][0]["value_sum"] == 24 * 26.5


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--agg", "mean"), "--every 5m"),
        (("--every", "5m"), "--agg mean,max"),
        (("--every", "5m", "--agg", "mean", "--limit", "3"), "leave --limit out"),
        (("--every", "300", "--agg", "mean"), "no unit"),
        (("--every", "1h", "--agg", "middle"), "mean, min, max, sum, count, first, last"),
    ],
)
def test_what_does_not_go_together_is_wrong_usage(
    run: Run, filled: str, options: tuple[str, ...], said: str
) -> None:
    assert said in read(run, filled, "--start", "2026-10-26", *options, exit_code=2)
