"""``add-series``, ``set-bucket``, ``series --tag`` and ``design --rates``."""

from __future__ import annotations

import json
from pathlib import Path

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
