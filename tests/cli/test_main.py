"""The command line as a whole: help, exit codes, errors on two lines, pipes and interrupts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import NOW, Run, run_process
from treering.cli.main import app

COMMANDS = [command.name for command in app.registered_commands]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(run: Run, name: str) -> None:
    text = run(name, "--help").stdout
    assert "Usage:" in text
    assert f"treering {name}" in text, "no example"


def test_help_needs_neither_arrow_nor_a_driver_nor_a_picture() -> None:
    code = (
        "import sys; from treering.cli.main import app;"
        "print(sorted({'pyarrow', 'cassandra', 'matplotlib', 'pandas', 'sqlite3'}"
        " & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_module_is_the_command() -> None:
    done = run_process("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("treering 0.")


@pytest.mark.parametrize(
    ("arguments", "exit_code", "error", "hint"),
    [
        (("info",), 2, "there is no treering store in", "creating a table makes the store"),
        (("info", "--store", "redis://x"), 2, "'redis' is not a kind of store", "use a folder"),
        (("info", "--store", "cassandra://127.0.0.1"), 2, "keyspace", "cassandra://"),
        (
            ("info", "--store", "cassandra://127.0.0.1:1/plant?local_dc=dc1"),
            1,
            "127.0.0.1:1",
            "is Cassandra up",
        ),
        (("create", "x", "--rate", "fast", "--retention", "9d"), 2, "'fast' is not a rate", "1/s"),
        (
            ("create", "x", "--rate", "1/s", "--retention", "9d", "--replication", "dc1:3"),
            2,
            "not on Cassandra",
            "leave --replication out",
        ),
        (("create", "X", "--rate", "1/s", "--retention", "9d"), 2, "'X' is not a name", "lower"),
        (("create", "x", "--rate", "1/s", "--retention", "9"), 2, "'9' is not a length", "90d"),
    ],
)
def test_an_error_is_one_line_and_a_hint(
    run: Run, arguments: tuple[str, ...], exit_code: int, error: str, hint: str
) -> None:
    lines = run(*arguments, exit_code=exit_code).stderr.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("error: ")
    assert error in lines[0]
    assert lines[1].startswith("hint: ")
    assert hint in lines[1]
    as_json = json.loads(run(*arguments, "--json", exit_code=exit_code).stderr)
    assert set(as_json) == {"error", "hint", "kind"}
    assert error in as_json["error"]


def test_no_store_at_all_is_said(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TREERING_URL")
    assert "no store was named" in run("info", exit_code=2).stderr


def test_an_unknown_option_is_wrong_usage(run: Run) -> None:
    for arguments, said in (
        (("info", "--bogus"), "No such option"),
        (("--bogus",), "No such option"),
        (("bogus",), "No such command"),
        (("create", "x"), "Missing option"),
        (("read", "x", "a", "--start", "-1d", "--limit", "few"), "--limit"),
    ):
        lines = run(*arguments, exit_code=2).stderr.splitlines()
        assert len(lines) == 2
        assert lines[0].startswith("error: ")
        assert said in lines[0]
        assert "--help" in lines[1]
        assert run(*arguments, "--json", exit_code=2).stderr.count("{") == 1
    kind = json.loads(run("info", "--bogus", "--json", exit_code=2).stderr)["kind"]
    assert kind == "usage"


@pytest.mark.parametrize(
    "arguments",
    [
        ("info",),
        ("read", "readings", "a", "--start", "-1d"),
        ("import", "readings", "x.csv"),
        ("create", "readings", "--rate", "1/s", "--retention", "90d", "--dry-run"),
    ],
)
def test_only_creating_makes_a_store(run: Run, store: str, arguments: tuple[str, ...]) -> None:
    Path("x.csv").write_text("series,ts,value\n")
    run(*arguments, exit_code=0 if "--dry-run" in arguments else 2)
    assert not Path(store).exists()


def test_a_folder_of_other_things_is_left_alone(run: Run, store: str) -> None:
    Path(store).mkdir()
    (Path(store) / "notes.txt").write_text("mine")
    run("create", "readings", "--rate", "1/s", "--retention", "90d", exit_code=2)
    assert [path.name for path in Path(store).iterdir()] == ["notes.txt"]


def test_a_password_is_refused_and_not_repeated(run: Run) -> None:
    result = run("info", "--store", "cassandra://me:hunter2@127.0.0.1/plant", exit_code=2)
    assert "TREERING_PASSWORD" in result.stderr
    assert "hunter2" not in result.stdout + result.stderr


def test_debug_shows_where(store: str) -> None:
    assert "Traceback" not in run_process("info").stderr
    assert "Traceback" in run_process("info", "--debug").stderr


@pytest.mark.parametrize("how", [("--format", "csv"), ("--format", "jsonl"), ("--json",)])
@pytest.mark.parametrize("is_unbuffered", [False, True])
def test_a_reader_that_goes_away_is_no_error(
    run: Run, table: str, how: tuple[str, ...], is_unbuffered: bool
) -> None:
    lines = [
        f"a,2026-11-30T{h:02}:{m:02}:{s:02}Z,1"
        for h in range(6)
        for m in range(60)
        for s in range(0, 60, 2)
    ]
    Path("a.csv").write_text("\n".join(["series,ts,value", *lines]) + "\n")
    run("import", table, "a.csv", "--now", NOW)
    command = [sys.executable, "-m", "treering", "read", table, "a", "--start", "2026-11-30"]
    with subprocess.Popen(
        [*command, *how, "--now", NOW],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1" if is_unbuffered else ""},
    ) as reader:
        assert reader.stdout is not None
        assert reader.stderr is not None
        assert reader.stdout.read(1)
        reader.stdout.close()
        assert reader.stderr.read() == b""
        assert reader.wait(timeout=60) == 128 + signal.SIGPIPE


def test_an_interrupt_ends_with_130_and_a_message(run: Run, table: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "treering", "import", table, "-", "--format", "csv", "--chunk", "1"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(os.environ),
    ) as importer:
        assert importer.stdin is not None
        assert importer.stderr is not None
        importer.stdin.write(b"series,ts,value\na,2026-11-30T12:00:00Z,1\n")
        importer.stdin.flush()
        wait_for_reading(run, table)
        importer.send_signal(signal.SIGINT)
        assert b"interrupted" in importer.stderr.read()
        importer.stdin.close()
        assert importer.wait(timeout=60) == 130


def wait_for_reading(run: Run, table: str) -> None:
    """Wait until the other process has written, with a generous bound."""
    import time

    deadline_s = time.monotonic() + 60
    while time.monotonic() < deadline_s:
        if "a" in run("series", table).stdout.split():
            return
        time.sleep(0.05)
    pytest.fail("nothing was written")


def test_output_is_utf8_whatever_the_locale(run: Run, table: str) -> None:
    Path("a.csv").write_text("series,ts,value\nkühl,2026-11-30T12:00:00Z,1\n", encoding="utf-8")
    run("import", table, "a.csv", "--now", NOW)
    command = [sys.executable, "-m", "treering", "read", table, "kühl", "--start", "-1d"]
    done = subprocess.run(
        [*command, "--format", "csv", "--now", NOW],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "TZ": "Asia/Kolkata"},
    )
    assert done.stdout.splitlines()[1] == "kühl,2026-11-30T12:00:00.000Z,1.0".encode()


@pytest.mark.parametrize(
    "arguments",
    [
        ("read", "readings", "a", "--start", "-1d", "--json", "--format", "csv"),
        ("read", "readings", "a", "--start", "-1d", "--json", "--plot"),
        ("read", "readings", "a", "--start", "-1d", "--plot", "--out", "x.csv"),
        ("read", "readings", "a", "--start", "-1d", "--json", "--out", "x.csv"),
        ("latest", "readings", "a", "--json", "--format", "csv"),
        ("design", "--rate", "1/s", "--retention", "90d", "--json", "--cql"),
    ],
)
def test_options_that_exclude_each_other_are_refused(
    run: Run, table: str, arguments: tuple[str, ...]
) -> None:
    assert "exclude each other" in run(*arguments, exit_code=2).stderr
    assert not Path("x.csv").exists()


@pytest.mark.parametrize("length", ["180", "180.5", "6M"])
@pytest.mark.parametrize(
    "arguments",
    [
        ("create", "x", "--rate", "1/s", "--retention"),
        ("create", "x", "--rate", "1/s", "--retention", "9d", "--gc-grace"),
        ("create", "x", "--rate", "1/s", "--retention", "9d", "--window"),
        ("create", "x", "--rate", "1/s", "--retention", "9d", "--future-limit"),
        ("design", "--rate", "1/s", "--retention"),
        ("design", "--rate", "1/s", "--retention", "9d", "--late"),
        ("design", "--rate", "1/s", "--retention", "9d", "--ttl"),
        ("design", "--rate", "1/s", "--retention", "9d", "--gc-grace"),
        ("design", "--rate", "1/s", "--retention", "9d", "--read-span"),
        ("design", "--rate", "1/s", "--retention", "9d", "--repair-every"),
        ("latest", "readings", "a", "--look-back"),
    ],
)
def test_a_length_of_time_without_a_clear_unit_is_refused_everywhere(
    run: Run, table: str, arguments: tuple[str, ...], length: str
) -> None:
    said = run(*arguments, length, exit_code=2).stderr
    assert f"'{length}' is not a length of time" in said
    assert "90d" in said
    assert run("info", "--json").stdout.count('"table":') == 1
