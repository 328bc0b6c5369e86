"""``treering import``: what is taken, what is refused, and what is said about it."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import NOW, Run, document, run_process

BAD = """series,ts,value
a,2026-11-30T12:00:00Z,1
a,2026-11-30T12:00:01Z,abc
a,2026-11-30T12:00:02Z,2,3
a,2026-01-01T12:00:00Z,4
a,2026-11-30T13:00:00Z,5
a,2026-11-30T13:00:00Z,6
a,2026-12-30T13:00:00Z,7
"""


def test_refused_lines_are_counted_written_down_and_exit_with_3(run: Run, table: str) -> None:
    Path("bad.csv").write_text(BAD)
    result = run(
        *("import", table, "bad.csv", "--refused", "no.csv", "--json", "--now", NOW), exit_code=3
    )
    report = document(result)
    assert (report["lines"], report["accepted"], report["refused"]) == (7, 1, 6)
    assert report["reasons"] == {
        "not a double in the column 'value'": 1,
        "a wrong number of fields": 1,
        "older than the retention": 1,
        "the same event time as another reading of this call, with other values": 2,
        "too far ahead of now": 1,
    }
    with Path("no.csv").open(newline="") as stream:
        rows = list(csv.reader(stream))
    assert rows[0] == ["line", "reason", "series", "ts", "value"]
    assert [row[0] for row in rows[1:]] == ["3", "4", "5", "6", "7", "8"]
    assert rows[1][2:] == ["a", "2026-11-30T12:00:01Z", "abc"]
    assert rows[2][2:] == ["a", "2026-11-30T12:00:02Z", "2", "3"]


def test_corrected_refused_lines_can_be_imported_as_they_are(run: Run, table: str) -> None:
    Path("bad.csv").write_text(BAD)
    run("import", table, "bad.csv", "--refused", "no.csv", "--now", NOW, exit_code=3)
    lines = Path("no.csv").read_text().splitlines()
    Path("fixed.csv").write_text("\n".join([lines[0], lines[1].replace(",abc", ",9")]) + "\n")
    report = document(run("import", table, "fixed.csv", "--json", "--now", NOW))
    assert report["accepted"] == 1


@pytest.mark.parametrize(
    ("line", "place"), [("a,2026-11-30T12:00:01Z,abc", 3), ("a,2026-01-01T12:00:01Z,2", 3)]
)
def test_strict_stops_and_names_the_line(run: Run, table: str, line: str, place: int) -> None:
    Path("bad.csv").write_text(f"series,ts,value\na,2026-11-30T12:00:00Z,1\n{line}\n")
    result = run("import", table, "bad.csv", "--strict", "--now", NOW, exit_code=1)
    assert f"bad.csv, line {place}: " in result.stderr
    assert "what is there already is not doubled" in result.stderr
    assert run("series", table).stdout == "", "a part of the chunk was written"


@pytest.mark.parametrize(("keep", "value"), [("first", 5.0), ("last", 6.0)])
def test_of_two_readings_with_one_time_one_can_be_kept(
    run: Run, table: str, keep: str, value: float
) -> None:
    Path("a.csv").write_text(
        "series,ts,value\na,2026-11-30T13:00:00Z,5\na,2026-11-30T13:00:00Z,6\n"
    )
    report = document(run("import", table, "a.csv", "--duplicates", keep, "--json", "--now", NOW))
    assert (report["accepted"], report["repeats"]) == (1, 1)
    rows = document(run("latest", table, "a", "--json", "--now", NOW))["readings"]
    assert [row["value"] for row in rows] == [value]


def test_importing_again_changes_nothing(run: Run, table: str) -> None:
    Path("a.csv").write_text("series,ts,value\na,2026-11-30T12:00:00.5Z,1\na,2026-11-30,2\n")
    read = ("read", table, "a", "--start", "-2d", "--format", "csv", "--now", NOW)
    run("import", table, "a.csv", "--now", NOW)
    first = run(*read).stdout
    run("import", table, "a.csv", "--now", NOW)
    assert run(*read).stdout == first
    assert first.count("\n") == 3


def test_columns_are_mapped_and_local_times_moved(run: Run, table: str) -> None:
    Path("seattle.csv").write_text("date,temp\n2026/11/29 23:00,39.4\n2026/11/30 00:00,39.2\n")
    run(
        *("import", table, "seattle.csv", "--series-name", "seattle", "--time", "date"),
        *("--column", "temp=value", "--time-format", "%Y/%m/%d %H:%M"),
        *("--tz", "America/Los_Angeles", "--now", NOW),
    )
    text = run("read", table, "seattle", "--start", "-3d", "--format", "csv", "--now", NOW).stdout
    assert text.splitlines()[1:] == [
        "seattle,2026-11-30T07:00:00.000Z,39.4",
        "seattle,2026-11-30T08:00:00.000Z,39.2",
    ]


def test_standard_input_is_a_file_too(run: Run, table: str) -> None:
    text = '{"series": "a", "ts": "2026-11-30T12:00:00Z", "value": 1}\n'
    run("import", table, "-", "--format", "jsonl", "--now", NOW, stdin=text)
    assert run("series", table).stdout == "a\n"
    assert "--format" in run("import", table, "-", exit_code=2, stdin=text).stderr


def test_of_several_files_the_refused_lines_name_theirs(run: Run, table: str) -> None:
    Path("one.csv").write_text("series,ts,value\na,never,1\n")
    Path("two.jsonl").write_text("oops\n")
    run("import", table, "one.csv", "two.jsonl", "--refused", "no.csv", exit_code=3)
    assert Path("no.csv").read_text().splitlines() == [
        "line,reason,series,ts,value",
        "one.csv:2,'never' is not a time,a,never,1",
        "line,reason,original",
        "two.jsonl:1,not a line of JSON: Expecting value: line 1 column 1 (char 0),oops",
    ]


@pytest.mark.parametrize(
    ("arguments", "exit_code", "error", "hint"),
    [
        (("a.csv", "--column", "nope=value"), 2, "no column 'nope'", "--column"),
        (("a.csv", "--column", "value=nope"), 2, "has no column 'nope'", "its columns are value"),
        (("a.csv", "--column", "value"), 2, "not a pair of names", "--column temp=value"),
        (("a.csv", "--time", "when"), 2, "no column 'when'", "--time"),
        (("a.csv", "--tz", "Mars/Base"), 2, "'Mars/Base' is not a time zone", "Europe/Berlin"),
        (("a.csv", "--duplicates", "both"), 2, "duplicates='both'", "refuse"),
        (("a.csv", "--chunk", "0"), 2, "at least 1 line", ""),
        (("a.csv", "--format", "xml"), 2, "'xml' is not a format", "csv"),
        (("a.dat",), 2, "does not say what format", "--format"),
        (("local.csv",), 2, "'ts' of local.csv have no zone", "--tz"),
        (("unix.csv",), 2, "'ts' of unix.csv are numbers without a unit", "--time-unit"),
        (("a.csv", "missing.csv"), 2, "there is no file missing.csv", "check the name"),
        (("broken.parquet",), 2, "broken.parquet is not a Parquet file", "--format"),
    ],
)
def test_bad_input_writes_nothing_and_says_what_to_do(
    run: Run, table: str, arguments: tuple[str, ...], exit_code: int, error: str, hint: str
) -> None:
    for name in ("a.csv", "a.dat", "broken.parquet"):
        Path(name).write_text("series,ts,value\na,2026-11-30T12:00:00Z,1\n")
    Path("local.csv").write_text("series,ts,value\na,2026-11-30T12:00:00,1\n")
    Path("unix.csv").write_text("series,ts,value\na,1764504000,1\n")
    result = run("import", table, *arguments, "--now", NOW, exit_code=exit_code)
    lines = result.stderr.splitlines()
    assert error in lines[0]
    assert hint in "".join(lines[1:])
    assert run("series", table).stdout == ""


def test_parquet_from_a_pipe_is_refused(run: Run, table: str) -> None:
    done = run_process("import", table, "-", "--format", "parquet", stdin=subprocess.PIPE)
    assert done.returncode == 2
    assert "save it as a file first" in done.stderr


def test_an_unknown_table_is_named(run: Run, table: str) -> None:
    Path("a.csv").write_text("series,ts,value\n")
    result = run("import", "reading", "a.csv", exit_code=2)
    assert "the store has no table 'reading'" in result.stderr
    assert "it has readings" in result.stderr


def test_a_large_file_takes_little_memory(run: Run, table: str) -> None:
    with Path("big.csv").open("w") as stream:
        stream.write("series,ts,value\n")
        for minute in range(200):
            stream.writelines(
                f"pump-7,2026-11-{1 + minute // 60:02}T12:{minute % 60:02}:{ms // 1000:02}."
                f"{ms % 1000:03}Z,{ms / 100:.2f}\n"
                for ms in range(0, 60_000, 60)
            )
    code = (
        "import resource, sys; from treering.cli.main import app;"
        "import pyarrow, pyarrow.csv, pyarrow.compute, treering.engine.sqlite, treering.importing;"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss;"
        "app(sys.argv[1:], standalone_mode=False);"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "import", table, "big.csv", "--now", NOW, "--chunk", "5000"],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    said, used = done.stdout.splitlines()
    assert said == "200,000 readings of 200,000 lines are in readings"
    page_bytes = 1 if sys.platform == "darwin" else 1_024
    # The whole file as arrays, text and pages would be several times this.
    assert int(used) * page_bytes < 60_000_000


def rows_of(run: Run, table: str, *series: str) -> list[Any]:
    """Return all readings of a table."""
    result = run("read", table, *series, "--start", "-80d", "--json", "--now", NOW)
    rows: list[Any] = document(result)["readings"]
    return rows


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_what_was_read_into_a_file_comes_back(run: Run, form: str) -> None:
    columns = "value:double,level:int,ok:boolean,note:text"
    for name in ("one", "two"):
        run(
            *("create", name, "--rate", "1/s", "--retention", "90d", "--columns", columns),
            *("--precision", "us", "--now", NOW),
        )
    Path("in.jsonl").write_text(
        '{"series": "a, b", "ts": "2026-11-30T12:00:00.661001Z", "value": "NaN", "ok": true}\n'
        '{"series": "ü", "ts": "2026-11-30T12:00:00.662Z", "value": 0.1, "note": "\\"y\\",\\nz"}\n'
        '{"series": "ü", "ts": "2026-11-30T12:00:00.663Z", "value": -0.0, "level": -7}\n'
    )
    run("import", "one", "in.jsonl", "--now", NOW)
    run(
        *("read", "one", "a, b", "ü", "--start", "-1d", "--format", form, "--out", f"out.{form}"),
        *("--now", NOW),
    )
    run("import", "two", f"out.{form}", "--now", NOW)
    rows = rows_of(run, "two", "a, b", "ü")
    assert rows == rows_of(run, "one", "a, b", "ü")
    assert len(rows) == 3
    assert rows[0]["ts"] == "2026-11-30T12:00:00.661001Z"


GOOD = "series,ts,value\na,2026-11-30T12:00:00Z,1\n"


def test_refused_lines_never_overwrite_what_is_imported(run: Run, table: str) -> None:
    Path("bad.csv").write_text(BAD)
    Path("link.csv").symlink_to("bad.csv")
    Path("hard.csv").hardlink_to("bad.csv")
    for target in ("bad.csv", "./bad.csv", "link.csv", "hard.csv", str(Path("bad.csv").resolve())):
        for more in ((), ("--force",)):
            result = run("import", table, "bad.csv", "--refused", target, *more, exit_code=2)
            assert "would overwrite bad.csv" in result.stderr
    result = run("import", table, "link.csv", "--refused", "bad.csv", exit_code=2)
    assert "would overwrite link.csv" in result.stderr
    assert Path("bad.csv").read_text() == BAD
    assert run("series", table).stdout == ""


def test_refused_lines_replace_earlier_ones_and_nothing_else_without_force(
    run: Run, table: str
) -> None:
    Path("bad.csv").write_text(BAD)
    Path("mine.csv").write_text(GOOD)
    import_ = ("import", table, "bad.csv", "--now", NOW, "--refused")
    assert "--force" in run(*import_, "mine.csv", exit_code=2).stderr
    assert Path("mine.csv").read_text() == GOOD
    run(*import_, "new.csv", exit_code=3)
    first = Path("new.csv").read_text()
    run(*import_, "new.csv", exit_code=3)
    assert Path("new.csv").read_text() == first
    run(*import_, "mine.csv", "--force", exit_code=3)
    assert Path("mine.csv").read_text() == first


def test_an_import_that_stops_leaves_the_earlier_refused_lines(run: Run, table: str) -> None:
    Path("bad.csv").write_text(BAD)
    run("import", table, "bad.csv", "--refused", "no.csv", "--now", NOW, exit_code=3)
    first = Path("no.csv").read_text()
    Path("worse.csv").write_text("nothing,here\n1,2\n")
    run("import", table, "worse.csv", "--refused", "no.csv", exit_code=2)
    assert Path("no.csv").read_text() == first
    assert sorted(path.name for path in Path().iterdir() if path.name.startswith(".")) == []


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_columns_that_went_nowhere_are_named_on_one_line(run: Run, form: str) -> None:
    run("create", "air", "--rate", "1/s", "--retention", "9d", "--columns", "temp:double,hum:int")
    Path("a.csv").write_text("series,ts,temp,humm\na,2026-11-30T12:00:00Z,1,2\n")
    Path("a.jsonl").write_text(
        '{"series": "a", "ts": "2026-11-30T12:00:00Z", "temp": 1, "humm": 2}\n'
    )
    import_ = ("import", "air", f"a.{form}", "--now", NOW)
    said = run(*import_).stderr.splitlines()
    assert said == [
        "columns of the file that were left out: humm; columns of air that were not filled: hum"
    ]
    report = document(run(*import_, "--json"))
    assert (report["ignored_columns"], report["unfilled_columns"]) == (["humm"], ["hum"])
    whole = run(*import_, "--column", "temp=temp", "--column", "humm=hum")
    assert whole.stderr == ""


def test_strict_names_the_first_refused_line_whatever_refuses_it(run: Run, table: str) -> None:
    lines = ["a,2026-11-30T12:00:00Z,1"] * 3 + ["a,2026-11-30T12:00:00Z,2", "a,soon,3"]
    Path("bad.csv").write_text("series,ts,value\n" + "\n".join(lines) + "\n")
    result = run("import", table, "bad.csv", "--strict", "--now", NOW, exit_code=1)
    assert "bad.csv, line 2: the same event time" in result.stderr
    assert run("series", table).stdout == ""


def test_what_is_in_already_is_said_where_an_import_stops(run: Run, table: str) -> None:
    Path("good.csv").write_text(GOOD)
    Path("empty.csv").write_text("")
    files = ("good.csv", "empty.csv")
    said = run("import", table, *files, "--now", NOW, exit_code=2).stderr
    assert f"1 reading of this import is in {table} so far" in said
    Path("good.csv").write_text(f"{GOOD}a,2026-11-30T12:00:01Z,1\n")
    said = run("import", table, *files, "--now", NOW, exit_code=2).stderr
    assert f"2 readings of this import are in {table} so far" in said
    said = run("import", table, *reversed(files), "--now", NOW, exit_code=2).stderr
    assert f"nothing of this import is in {table} so far" in said


def test_a_folder_and_a_missing_file_are_wrong_usage(run: Run, table: str) -> None:
    assert ". is a folder" in run("import", table, ".", exit_code=2).stderr
    assert "no file gone.csv" in run("import", table, "gone.csv", exit_code=2).stderr


def test_why_a_number_is_none_is_said_where_it_shows(run: Run, table: str) -> None:
    Path("a.csv").write_text(
        "series;ts;value\na;2026-11-30T12:00:00Z;3,5\na;2026-11-30T12:00:01Z;NA\n"
    )
    said = run("import", table, "a.csv", "--delimiter", ";", "--now", NOW, exit_code=3).stdout
    assert "decimals take a point, not a comma" in said
    assert "a missing value is an empty field" in said


def test_an_id_with_blanks_around_it_makes_no_second_series(run: Run, table: str) -> None:
    Path("a.csv").write_text("series,ts,value\na ,2026-11-30T12:00:00Z,1\n")
    said = run("import", table, "a.csv", "--now", NOW, exit_code=3).stdout
    assert "starts or ends with a blank" in said
    assert run("series", table).stdout == ""
