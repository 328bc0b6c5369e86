"""delete, drop-series and set-retention: a plan first, then the deed."""

from __future__ import annotations

from tests.cli.conftest import NOW, Run, document


def written(run: Run, table: str) -> None:
    """Write a reading a day of November for two series."""
    lines = [
        f"{series},2026-11-{day:02}T12:00:00Z,{day}.5"
        for series in ("pump-7", "tank")
        for day in range(1, 31)
    ]
    run(
        "import",
        table,
        "-",
        "--format",
        "csv",
        "--now",
        NOW,
        stdin="\n".join(["series,ts,value", *lines]) + "\n",
    )


def count(run: Run, table: str, series: str = "pump-7") -> int:
    """Return how many readings a series has."""
    facts = document(run("read", table, series, "--start", "-60d", "--now", NOW, "--json"))
    return int(facts["count"])


def test_delete_shows_its_plan_and_does_it_with_a_yes(run: Run, table: str) -> None:
    written(run, table)
    what = ("delete", table, "pump-7", "--start", "2026-11-10", "--end", "2026-11-20T11:00Z")
    planned = run(*what, "--now", NOW)
    assert "10 whole partitions, 1 part of a partition" in planned.stdout
    assert "nothing was deleted" in planned.stderr
    assert count(run, table) == 30
    facts = document(run(*what, "--now", NOW, "--yes", "--json"))
    assert (facts["whole_partitions"], facts["part_partitions"]) == (10, 1)
    assert facts["deleted"] is True
    assert count(run, table) == 20
    assert count(run, table, "tank") == 30


def test_drop_series_shows_its_plan_and_does_it_with_a_yes(run: Run, table: str) -> None:
    written(run, table)
    assert document(run("drop-series", table, "tank", "--now", NOW, "--json"))["deleted"] is False
    assert count(run, table, "tank") == 30
    assert "deleted" in run("drop-series", table, "tank", "--now", NOW, "--yes").stdout
    assert document(run("series", table, "--json"))["series"] == ["pump-7"]
    run("read", table, "tank", "--start", "-60d", "--now", NOW, exit_code=2)


def test_reversed_interval_is_wrong_usage(run: Run, table: str) -> None:
    result = run("delete", table, "x", "--start", "-1d", "--end", "-2d", "--yes", exit_code=2)
    assert "reversed" in result.stderr


def test_set_retention_shows_its_plan_and_does_it_with_a_yes(run: Run, table: str) -> None:
    written(run, table)
    planned = run("set-retention", table, "10d", "--now", NOW)
    assert "retention: 90d → 10d" in planned.stdout
    assert "what it does not change" in planned.stdout
    assert "nothing was changed" in planned.stderr
    assert "nothing was" in run("set-retention", table, "10d", "--yes", "--dry-run").stderr
    assert count(run, table) == 30
    facts = document(run("set-retention", table, "10d", "--now", NOW, "--yes", "--json"))
    assert (facts["done"], facts["retention_s"]) == (True, 864_000)
    assert count(run, table) == 10
    again = document(run("set-retention", table, "10d", "--now", NOW, "--json"))
    assert (again["steps"], again["changes"]) == ([], [])
    expired = document(run("expire", table, "--now", NOW, "--json"))
    # Files of three days, as the table was made with.
    assert len(expired["removals"]) == 6
    assert count(run, table) == 10
    run("set-retention", table, "forever", exit_code=2)
