"""The other verbs: create, read, latest, explain, series, info, expire, drop."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import treering
from tests.cli.conftest import NOW, Run, document


@pytest.fixture
def filled(run: Run, table: str) -> str:
    """Return a table with a reading a day of November for two series."""
    lines = [
        f"{s},2026-11-{day:02}T12:00:00Z,{day}.5"
        for s in ("pump-7", "tank")
        for day in range(1, 31)
    ]
    Path("days.csv").write_text("\n".join(["series,ts,value", *lines]) + "\n")
    run("import", table, "days.csv", "--now", NOW)
    return table


def test_create_says_what_is_there_and_can_be_repeated(run: Run, store: str) -> None:
    create = ("create", "readings", "--rate", "1/s", "--retention", "90d")
    assert "table readings is made: day buckets" in run(*create).stdout
    assert "table readings was there already, and is equal: day buckets" in run(*create).stdout
    again = document(run(*create, "--json"))
    assert (again["created"], again["existed"], again["design"]["bucket"]) == (False, True, "day")


def test_create_with_another_design_names_the_difference(run: Run, table: str) -> None:
    result = run("create", table, "--rate", "1/s", "--retention", "30d", exit_code=1)
    assert "retention: 90d, not 30d" in result.stderr


def test_a_dry_run_shows_steps_and_verdicts_and_makes_nothing(run: Run, store: str) -> None:
    create = ("create", "readings", "--rate", "1/s", "--retention", "90d", "--dry-run")
    text = run(*create).stdout
    assert "would be made" in text
    assert "make the table readings" in text
    assert "3 DAYS: 30 windows over 90d" in text
    assert not Path(store).exists()
    run(*create[:-1])
    assert document(run(*create, "--json"))["created"] is False


def test_choices_of_ones_own_are_taken(run: Run) -> None:
    made = document(
        run(
            *("create", "r", "--rate", "1/s", "--retention", "90d", "--bucket", "hour"),
            *("--window", "1d", "--gc-grace", "3h", "--precision", "ns", "--finer", "refuse"),
            *("--future-limit", "1h", "--columns", "a:double,b:int", "--json"),
        )
    )
    assert made["design"]["bucket"] == "hour"
    assert made["design"]["gc_grace_s"] == 10_800
    facts = document(run("info", "r", "--json"))
    assert (facts["precision"], facts["finer"], facts["future_limit_s"]) == ("ns", "refuse", 3_600)
    assert facts["columns"] == {"a": "double", "b": "int"}


def test_read_prints_a_table_of_both_ends(run: Run, filled: str) -> None:
    text = run("read", filled, "pump-7", "tank", "--start", "2026-11-01", "--now", NOW).stdout
    lines = [line.split() for line in text.splitlines()]
    assert lines[2] == ["pump-7", "2026-11-01T12:00:00.000Z", "1.5"]
    assert lines[22][:3] == ["…", "20", "more"]
    assert lines[42] == ["tank", "2026-11-30T12:00:00.000Z", "30.5"]
    assert "60 readings of 2 series" in text


def test_read_takes_order_limit_and_columns(run: Run, filled: str) -> None:
    text = run(
        *(
            "read",
            filled,
            "tank",
            "--start",
            "2026-11-01",
            "--end",
            "2026-11-20",
            "--order",
            "desc",
        ),
        *("--limit", "2", "--column", "value", "--format", "jsonl", "--now", NOW),
    ).stdout
    assert [json.loads(line) for line in text.splitlines()] == [
        {"series": "tank", "ts": "2026-11-19T12:00:00.000Z", "value": 19.5},
        {"series": "tank", "ts": "2026-11-18T12:00:00.000Z", "value": 18.5},
    ]


def test_read_as_json_is_one_document(run: Run, filled: str) -> None:
    read = ("read", filled, "tank", "--start", "2026-11-29", "--now", NOW, "--json")
    assert document(run(*read)) == {
        "table": filled,
        "series": {"tank": 2},
        "count": 2,
        "readings": [
            {"series": "tank", "ts": "2026-11-29T12:00:00.000Z", "value": 29.5},
            {"series": "tank", "ts": "2026-11-30T12:00:00.000Z", "value": 30.5},
        ],
        "missing": [],
    }


def test_read_draws(run: Run, filled: str) -> None:
    read = ("read", filled, "tank", "--start", "2026-11-01", "--now", NOW)
    result = run(*read, "--plot", "--png", "tank.png")
    assert "30.5 |" in result.stdout
    assert "26-11-01" in result.stdout
    assert "drew 30 readings in tank.png" in result.stderr
    assert Path("tank.png").read_bytes().startswith(b"\x89PNG")


def test_integer_bounds_have_a_unit(run: Run, filled: str) -> None:
    read = ("read", filled, "tank", "--format", "csv", "--now", NOW, "--start", "1796000000")
    text = run(*read, "--end", "2026-12-01", "--time-unit", "s").stdout
    assert text.splitlines()[1:] == ["tank,2026-11-30T12:00:00.000Z,30.5"]


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (("pump-8", "--start", "-1d"), "no series 'pump-8'", "pump-7"),
        (("tank", "--start", "soon"), "'soon' is not a time", "now or -6h"),
        (("tank", "--start", "2026-11-30T12:00"), "has no zone", "Z for UTC"),
        (("tank", "--start", "1764504000"), "has no unit", "--time-unit"),
        (("tank", "--start", "-1d", "--end", "-2d"), "the interval is reversed", "--order desc"),
        (("tank", "--start", "-1d", "--column", "x"), "no column 'x'", "columns are value"),
        (("tank", "--start", "-1d", "--order", "up"), "order='up'", "asc"),
        (
            ("tank", "--start", "-1d", "--limit", "0"),
            "a limit is a whole number of at least 1",
            "leave",
        ),
        (("tank", "--start", "-1d", "--format", "xml"), "'xml' is not a format", "csv"),
        (
            ("tank", "--start", "0", "--end", "1796000000000000000", "--time-unit", "ms"),
            "outside what a table of precision ms takes",
            "ns",
        ),
        (("tank", "--start", "-1d", "--end", "9999-01-01"), "partitions", "shorter"),
        (("tank", "--start", "-9d", "--fan-out-max", "2"), "more than 2", "raise --fan-out-max"),
        (("tank", "--start", "-9d", "--rows-max", "9"), "expected to return", "raise --rows-max"),
    ],
)
def test_a_read_that_cannot_be_is_refused_from_the_plan(
    run: Run, filled: str, arguments: tuple[str, ...], error: str, hint: str
) -> None:
    # A plan knows neither forms nor the list of series.
    only_read = "--format" in arguments or "pump-8" in arguments
    for verb in ("read",) if only_read else ("read", "explain"):
        lines = run(verb, filled, *arguments, "--now", NOW, exit_code=2).stderr.splitlines()
        assert error in lines[0]
        assert hint in "".join(lines[1:])


def test_latest_shows_the_newest_first(run: Run, filled: str) -> None:
    text = run("latest", filled, "tank", "-n", "2", "--format", "csv", "--now", NOW).stdout
    assert text.splitlines()[1:] == [
        "tank,2026-11-30T12:00:00.000Z,30.5",
        "tank,2026-11-29T12:00:00.000Z,29.5",
    ]
    assert document(run("latest", filled, "tank", "--json", "--now", NOW))["count"] == 1


def test_explain_names_partitions(run: Run, filled: str) -> None:
    explain = ("explain", filled, "tank", "--start", "2026-11-29", "--end", "2026-11-30T06:00Z")
    text = run(*explain, "--now", NOW).stdout
    assert "tank/2026-11-29  [2026-11-29T00:00:00.000Z, 2026-11-30T00:00:00.000Z)" in text
    plan = document(run(*explain, "--now", NOW, "--json"))
    assert [part["name"] for part in plan["partitions"]] == ["tank/2026-11-29", "tank/2026-11-30"]
    assert plan["rows_estimate"] == 108_000


def test_series_are_listed_by_prefix(run: Run, filled: str) -> None:
    assert run("series", filled).stdout == "pump-7\ntank\n"
    assert run("series", filled, "--prefix", "pu").stdout == "pump-7\n"
    assert document(run("series", filled, "--json")) == {
        "table": filled,
        "series": ["pump-7", "tank"],
    }


def test_info_shows_the_store_and_a_table(run: Run, filled: str) -> None:
    assert "a store of the sqlite engine" in run("info").stdout
    text = run("info", filled).stdout
    assert "series      2" in text
    assert "2026-11-27T000000Z.db" in text
    assert document(run("info", "--json"))["tables"][0]["series_count"] == 2


def test_info_of_an_empty_store_says_what_to_do(run: Run, table: str) -> None:
    run("drop", table, "--yes")
    assert "treering create" in run("info").stdout


def test_expire_lists_and_then_removes_whole_files(run: Run, filled: str, store: str) -> None:
    later = ("--now", "2027-02-15")
    files = set(Path(store).rglob("2026-*.db"))
    dry = document(run("expire", filled, "--dry-run", "--json", *later))
    assert dry["removed"] is False
    assert dry["bytes"] > 0
    assert set(Path(store).rglob("2026-*.db")) == files
    text = run("expire", filled, *later).stdout
    assert f"{len(dry['removals'])} parts left" in text
    gone = {path.name for path in files - set(Path(store).rglob("2026-*.db"))}
    assert gone == {removal["name"] for removal in dry["removals"]}
    assert 0 < len(gone) < len(files)
    assert "nothing is past the retention" in run("expire", filled, *later).stdout


def test_drop_needs_a_yes(run: Run, filled: str) -> None:
    assert "--yes" in run("drop", filled, exit_code=2).stderr
    assert run("series", filled).stdout
    assert document(run("drop", filled, "--yes", "--json")) == {"table": filled, "dropped": True}
    assert "has no table" in run("series", filled, exit_code=2).stderr


def test_a_damaged_segment_is_named_and_the_rest_is_read_in_part(
    run: Run, filled: str, store: str
) -> None:
    damaged = sorted(Path(store).rglob("2026-*.db"))[2]
    damaged.write_bytes(b"not a database" * 1_000)
    read = ("read", filled, "tank", "--start", "2026-11-01", "--format", "csv", "--now", NOW)
    assert damaged.name in run(*read, exit_code=1).stderr
    result = run(*read, "--partial", exit_code=3)
    assert 20 < result.stdout.count("\n") < 31
    assert "partitions could not be read: tank/2026-11-" in result.stderr


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("file.csv", "series,ts,value"),
        ("file.jsonl", '{"series": "tank"'),
        ("FILE.CSV", "series,ts,value"),
        ("file.parquet", "PAR1"),
        ("file.txt", "series  "),
    ],
)
def test_out_writes_the_form_that_the_ending_names_and_says_so(
    run: Run, filled: str, name: str, first: str
) -> None:
    said = run("read", filled, "tank", "--start", "-2d", "--out", name, "--now", NOW).stderr
    assert f"wrote 2 readings to {name} as " in said
    assert Path(name).read_bytes().startswith(first.encode())
    stated = ("--out", name, "--format", "jsonl")
    run("read", filled, "tank", "--start", "-2d", *stated, "--now", NOW)
    assert Path(name).read_bytes().startswith(b'{"series": "tank"')


def test_a_picture_has_a_name_that_says_so(run: Run, filled: str) -> None:
    said = run("read", filled, "tank", "--start", "-2d", "--png", "x.jpg", exit_code=2).stderr
    assert "name it x.png" in said
    assert not Path("x.jpg").exists()


def test_a_range_older_than_the_retention_is_said_and_not_shown_reversed(
    run: Run, filled: str
) -> None:
    old = (filled, "tank", "--start", "2020-01-01", "--end", "2020-02-01", "--now", NOW)
    said = run("read", *old)
    assert "all of it is older than the retention of 90d" in said.stderr
    text = run("explain", *old).stdout
    assert "all of it is older than the retention of 90d" in text
    assert "[2020-01-01T00:00:00.000Z, 2020-02-01T00:00:00.000Z)" in text
    plan = document(run("explain", *old, "--json"))
    assert plan["start"] == plan["end"]
    assert plan["partitions"] == []
    new = (filled, "tank", "--start", "2026-11-30T13:00Z", "--now", NOW)
    assert run("read", *new).stderr == ""


def test_a_series_that_is_not_there_is_answered_with_those_that_look_alike(
    run: Run, filled: str
) -> None:
    for name in ("TANK", "tamk", "Pump-8"):
        said = run("read", filled, name, "--start", "-1d", "--now", NOW, exit_code=2).stderr
        assert "series that look alike: " + ("pump-7" if name == "Pump-8" else "tank") in said
    said = run("read", filled, "xyzzy", "--start", "-1d", "--now", NOW, exit_code=2).stderr
    assert f"list them with treering series {filled}" in said
    assert "missing_ok" not in said


@pytest.mark.parametrize(
    "arguments",
    [
        ("info",),
        ("info", "readings"),
        ("expire", "readings", "--dry-run", "--now", "2027-02-15"),
        ("read", "readings", "tank", "--start", "2026-11-01", "--now", NOW),
        ("create", "x", "--rate", "1/s", "--retention", "90d", "--dry-run"),
        ("design", "--rate", "1/s", "--retention", "90d"),
    ],
)
def test_what_is_piped_is_at_most_80_columns_wide(
    run: Run, filled: str, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    lines = run(*arguments).stdout.splitlines()
    statements = ("make ", "enter ")
    too_wide = [s for s in lines if len(s.rstrip()) > 80 and not s.startswith(statements)]
    assert [line for line in too_wide if not line.startswith("table ")] == []


def test_info_of_a_table_shows_its_design(run: Run, filled: str) -> None:
    text = run("info", filled).stdout
    for line in ("rate        1/s", "TTL         7,776,000 s", "window      3 DAYS"):
        assert line in text


def test_a_folder_says_its_own_bytes_and_nothing_of_what_cassandra_can_store(
    run: Run, store: str
) -> None:
    text = run("create", "r", "--rate", "5/s", "--retention", "180d", "--dry-run").stdout
    assert "refused from" not in text
    assert "a reading takes about 37 B in a folder as a row, at most about 8 B packed" in text
    assert "a file holds" not in text


def test_what_a_reading_takes_in_a_folder_is_what_it_takes(run: Run, store: str) -> None:
    text = run("create", "hourly", "--rate", "1/h", "--retention", "365d").stdout
    (least,) = re.findall(r"a file holds 12d and has at least 36.9 kB: (\d+) B a reading", text)
    run("create", "fast", "--rate", "1/s", "--retention", "365d")
    now = np.datetime64("now", "ms")
    values = np.random.default_rng(1).normal(size=100_000)
    with treering.open(store) as place:
        hours, seconds = np.timedelta64(1, "h"), np.timedelta64(1, "s")
        place.table("hourly").write("s", now - np.arange(8_000) * hours, value=np.ones(8_000))
        place.table("fast").write("s", now - np.arange(100_000) * seconds, value=values)
    held = {
        name: json.loads(run("info", name, "--json").stdout)["disk_bytes"] / count
        for name, count in (("hourly", 8_000), ("fast", 100_000))
    }
    assert held["hourly"] == pytest.approx(int(least), rel=0.15)
    # Noise, which does not repeat, is the most that a packed double takes.
    assert 6 < held["fast"] <= 8


def test_a_store_below_a_file_names_that_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in ("file", "file/x", "file/x/y"):
        create = ("create", "r", "--rate", "1/s", "--retention", "9d", "--store")
        said = run(*create, str(tmp_path / place), exit_code=2).stderr
        assert f"{tmp_path / 'file'} is a file, not a folder" in said


def test_a_damaged_segment_is_not_answered_with_writing_again(
    run: Run, filled: str, store: str
) -> None:
    for path in Path(store).rglob("2026-11-*.db"):
        path.write_bytes(b"not a database" * 1_000)
    said = run("import", filled, "days.csv", "--now", NOW, exit_code=1).stderr
    assert "restore the file from a backup" in said
    assert "write the same readings again" not in said


def test_a_damaged_catalog_is_not_something_to_move_away(run: Run, filled: str, store: str) -> None:
    (Path(store) / "catalog.db").write_bytes(b"not a database" * 1_000)
    said = run("info", exit_code=1).stderr
    assert "without it nothing in the store can be used" in said
    assert "goes on" not in said


def test_seal_says_nothing_beside_its_result(run: Run, filled: str) -> None:
    sealed = run("seal", filled)
    assert sealed.stderr == ""
    assert sealed.stdout
    assert document(run("seal", filled, "--json"))["files"] > 0
