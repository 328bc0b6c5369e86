"""``add-series``, ``set-bucket``, ``series --tag`` and ``design --rates``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import NOW, Run


def test_series_is_entered_found_by_tag_and_changed(run: Run, table: str) -> None:
    entered = run("add-series", table, "fan-1", "--rate", "10/s", "--tag", "site=north", "--json")
    (series,) = json.loads(entered.stdout)["series"]
    assert series["tags"] == {"site": "north"}
    assert series["widths"] == [{"bucket": "6h", "since": None}]
    assert run("series", table, "--tag", "site=north").stdout == "fan-1\n"
    assert run("series", table, "--tag", "site=south").stdout == ""
    changed = run("set-bucket", table, "fan-1", "hour", "--now", NOW, "--json")
    assert json.loads(changed.stdout)["widths"][1] == {
        "bucket": "hour",
        "since": "2026-11-30T15:00:00.000Z",
    }
    pending = run("set-bucket", table, "fan-1", "day", "--now", NOW, exit_code=2)
    assert "pending" in pending.stderr


def test_wrong_use_is_named(run: Run, table: str) -> None:
    for arguments, words in (
        ((table,), "either a series"),
        ((table, "a", "--tag", "north"), "not a tag"),
        ((table, "a", "--tag", "x=1", "--tag", "x=2"), "twice"),
        ((table, "a", "--rate", "1/s", "--bucket", "day"), "both a rate"),
        ((table, "--rates", "nowhere.csv"), "nowhere.csv"),
    ):
        assert words in run("add-series", *arguments, exit_code=2).stderr
    assert "never" in run("set-bucket", table, "never", "day", exit_code=2).stderr
    assert run("series", table).stdout == ""


@pytest.fixture
def fans(run: Run, table: str) -> str:
    """Return a table with a reading each of three tagged series."""
    for number, site in ((1, "north"), (2, "south"), (3, "north")):
        tags = ("--tag", f"site={site}", "--tag", "kind=fan")
        run("add-series", table, f"fan-{number}", *tags)
    lines = [f"fan-{number},2026-11-30T13:00:00Z,{number}" for number in (1, 2, 3)]
    csv = "\n".join(["series,ts,value", *lines, "pump-1,2026-11-30T13:00:00Z,4"])
    run("import", table, "-", "--format", "csv", "--now", NOW, stdin=csv)
    return table


READS = {
    "read": ("--start", "-2h", "--now", NOW),
    "latest": ("--now", NOW),
    "count": ("--start", "-2h", "--now", NOW),
    "explain": ("--start", "-2h", "--now", NOW),
}


@pytest.mark.parametrize("verb", READS)
def test_series_of_a_read_are_chosen_by_tags_and_prefix(run: Run, fans: str, verb: str) -> None:
    def chosen(*arguments: str) -> list[str]:
        return list(
            json.loads(run(verb, fans, *arguments, *READS[verb], "--json").stdout)["series"]
        )

    assert chosen("--tag", "kind=fan") == ["fan-1", "fan-2", "fan-3"]
    assert chosen("--tag", "kind=fan", "--tag", "site=north") == ["fan-1", "fan-3"]
    assert chosen("--tag", "site=north", "--prefix", "fan-3") == ["fan-3"]
    assert chosen("--prefix", "pump") == ["pump-1"]
    assert chosen("--prefix", "") == ["fan-1", "fan-2", "fan-3", "pump-1"]
    assert chosen("--prefix", "fan", "--series-max", "3") == chosen("fan-1", "fan-2", "fan-3")


@pytest.mark.parametrize("verb", READS)
def test_choice_of_series_is_bounded_and_clear(run: Run, fans: str, verb: str) -> None:
    for arguments, said, hint in (
        (
            ("--tag", "kind=fan", "--series-max", "2"),
            "more than 2 series of 'readings' have kind=fan",
            "raise --series-max",
        ),
        (
            ("--prefix", "", "--series-max", "3"),
            "more than 3 series of 'readings' are",
            "--prefix",
        ),
        (("fan-1", "--tag", "kind=fan"), "series were named, and --prefix", "name the series"),
        (("fan-1", "--series-max", "2"), "series were named, and --prefix", "name the series"),
        ((), "no series was named", "--tag"),
        (
            ("--tag", "site=east", "--prefix", "fan"),
            "none of the series of 'readings' start with 'fan' and have site=east",
            "treering series readings",
        ),
        (("--tag", "north"), "not a tag", "site=north"),
    ):
        stderr = run(verb, fans, *arguments, *READS[verb], exit_code=2).stderr
        # Rich wraps long lines.
        assert said in " ".join(stderr.split())
        assert hint in " ".join(stderr.split())


def test_rates_design_a_table_and_enter_its_series(run: Run, table: str, tmp_path: Path) -> None:
    rates = tmp_path / "rates.csv"
    rates.write_text("series,rate\na,1/s\nb,1/s\nc,10/s\n")
    designed = run("design", "--rates", str(rates), "--retention", "90d", "--json")
    document = json.loads(designed.stdout)
    assert document["bucket"] == "day"
    assert document["series_widths"] == {"day": 2, "6h": 1}
    assert document["workload"]["rate_hz"] == 1
    entered = run("add-series", table, "--rates", str(rates))
    assert entered.stdout == "3 series entered, 1 with a width of their own\n"
    assert "no rate" in run("design", "--retention", "90d", exit_code=2).stderr
