"""``treering doctor``: options, formats, exit codes and errors over real files."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.cli.conftest import run_process
from tests.sstable.record import recording
from treering.cli.main import app

DDL = (
    "CREATE TABLE samples.ttl (series text, bucket text, ts timestamp, value double, note text, "
    "PRIMARY KEY ((series, bucket), ts)) WITH CLUSTERING ORDER BY (ts DESC) "
    "AND default_time_to_live = 31536000 AND gc_grace_seconds = 864000 AND read_repair = 'NONE' "
    "AND compaction = {'class': 'TimeWindowCompactionStrategy', 'compaction_window_unit': 'DAYS', "
    "'compaction_window_size': '12'};"
)


@pytest.fixture(scope="module")
def data() -> Iterator[Path]:
    """Yield the data folder of a real node."""
    with recording("nb") as (root, _):
        yield root


def doctor(*arguments: object, exit_code: int | None = None) -> Result:
    result = CliRunner().invoke(app, ["doctor", *map(str, arguments)])
    assert "Traceback" not in result.stderr
    if exit_code is not None:
        assert result.exit_code == exit_code, f"{result.stdout}\n{result.stderr}"
    return result


def test_a_folder_alone_leaves_checks_unknown_and_exits_with_three(data: Path) -> None:
    result = doctor("check", data, "--table", "samples.ttl", exit_code=3)
    assert "samples.ttl: not fully known" in result.stdout
    assert "unknown" in result.stdout


def test_with_the_schema_a_healthy_table_is_healthy_in_five_lines(
    data: Path, tmp_path: Path
) -> None:
    (tmp_path / "schema.cql").write_text(DDL)
    result = doctor(
        "check", data, "--table", "samples.ttl", "--schema", tmp_path / "schema.cql", exit_code=0
    )
    assert result.stdout.startswith("samples.ttl: healthy\n")
    assert len([line for line in result.stdout.splitlines() if " ok " in line]) == 4


def test_findings_exit_with_four_from_the_severity_asked_for(data: Path) -> None:
    known = ("--table", "samples.ttl", "--ttl", "365d", "--gc-grace", "10d", "--window", "1h")
    result = doctor("check", data, *known, exit_code=4)
    assert "too-many-windows" in result.stdout
    doctor("check", data, *known, "--fail-on", "never", exit_code=0)


def test_json_has_healthy_checks_findings_and_files(data: Path) -> None:
    result = doctor("check", data, "--keyspace", "samples", "--json")
    document = json.loads(result.stdout)
    assert set(document["checks"]) == {"partitions", "sstables", "drops", "disk"}
    assert len(document["tables"]) >= 10
    assert len(document["files"]) >= 10
    assert {type(file["removable"]) for file in document["files"]} <= {bool, str}


def test_prometheus_and_page_come_from_the_same_run(data: Path, tmp_path: Path) -> None:
    page = tmp_path / "r.html"
    result = doctor("check", data, "--format", "prometheus", "--html", page)
    assert 'treering_doctor_files{keyspace="samples",table="ttl"' in result.stdout
    text = page.read_text()
    assert text.count("<svg") >= 10
    assert "http:" not in text
    assert "https:" not in text


def test_a_threshold_makes_a_finding(data: Path) -> None:
    healthy = doctor("check", data, "--table", "samples.ttl", exit_code=3)
    assert "largest partition" in healthy.stdout
    limited = doctor(
        "check", data, "--table", "samples.ttl", "--threshold", "partition-bytes-max=100B"
    )
    assert limited.exit_code == 4


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("check", "nowhere"), "there is no folder or file nowhere"),
        (("check", "jdbc://x"), "no address of a cluster"),
        (("check", ".", "--format", "xml"), "'xml' is not a format"),
        (("check", ".", "--fail-on", "bad"), "'bad' is not a severity"),
        (("check", ".", "--threshold", "x=1"), "sets no threshold"),
        (("check", ".", "--threshold", "windows_max=-1"), "no value of windows-max"),
        (("check", ".", "--keyspace", "a", "--table", "b.c"), "not in the keyspace"),
        (("check", "."), "has no table"),
        (("check", ".", "--ttl", "5"), "it has no unit"),
        (("collect", "."), "needs a target and --out"),
        (("collect", "--script", "."), "goes with no target"),
        (("watch",), "watch needs --store or --csv"),
        (("watch", ".", "--csv", "x"), "goes with no target"),
    ],
)
def test_wrong_usage_is_one_line_with_a_hint(
    arguments: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = doctor(*arguments, exit_code=2)
    assert said in result.stderr
    assert "hint: " in result.stderr
    assert result.stdout == ""


def test_one_wrong_target_among_good_ones_is_told_and_the_report_stands(data: Path) -> None:
    result = doctor("check", data, "nowhere", "--table", "ttl", exit_code=3)
    assert "samples.ttl" in result.stdout
    assert "there is no folder or file nowhere" in result.stdout


def test_a_bundle_of_a_folder_gives_the_report_of_the_folder(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "n.tar.gz"
    doctor("collect", f"n1={data}", "-o", out, "--now", "2026-12-01T00:00Z", exit_code=0)
    now = ("--now", "2026-12-01T00:00Z", "--json")
    direct: Any = json.loads(doctor("check", f"n1={data}", *now).stdout)
    bundled: Any = json.loads(doctor("check", out, *now).stdout)
    for document in (direct, bundled):
        for file in document["files"]:
            file["blocked_by"].sort()
        document["files"].sort(key=lambda file: file["path"])
    assert bundled["files"] == direct["files"]
    again = doctor("collect", data, "-o", out, exit_code=2)
    assert f"{out} is there already" in again.stderr
    assert "--overwrite" in again.stderr
    told = doctor("collect", data, "-o", out, "--overwrite", "--json", exit_code=0)
    document = json.loads(told.stdout)
    assert (document["file"], document["bytes"]) == (str(out), out.stat().st_size)
    assert "samples.ttl" in document["tables"]


def test_folders_of_a_bundle_are_of_the_node_where_it_is_made(data: Path, tmp_path: Path) -> None:
    for name in ("10.0.0.1", "10.0.0.2"):
        doctor("collect", data, "--node", name, "-o", tmp_path / f"{name}.tar.gz", exit_code=0)
    document = json.loads(
        doctor(
            "check", *sorted(tmp_path.glob("*.tar.gz")), "--table", "samples.ttl", "--json"
        ).stdout
    )
    assert {file["node"] for file in document["files"]} == {"10.0.0.1", "10.0.0.2"}


def test_the_printed_script_makes_a_bundle_that_can_be_checked(data: Path, tmp_path: Path) -> None:
    script = tmp_path / "collect.sh"
    script.write_text(doctor("collect", "--script", exit_code=0).stdout)
    out = tmp_path / "b.tar.gz"
    table = next((data / "samples").glob("ttl-*"))
    subprocess.run(
        ["sh", str(script), "-o", str(out), str(table)],
        check=True,
        capture_output=True,
        timeout=120,
        env={**os.environ, "NODETOOL": ""},
    )
    result = doctor("check", out, exit_code=3)
    assert "samples.ttl: not fully known" in result.stdout


@pytest.fixture
def unread(data: Path, tmp_path: Path) -> Path:
    """Return a data folder with a table whose only file cannot be read."""
    shutil.copytree(data, tmp_path / "data")
    (statistics,) = (tmp_path / "data" / "samples").glob("ttl-*/*-Statistics.db")
    os.truncate(statistics, 100)
    return tmp_path / "data"


KNOWN = ("--ttl", "365d", "--gc-grace", "10d", "--window", "12d")


def test_a_file_that_cannot_be_read_makes_no_check_ok_and_is_unseen(unread: Path) -> None:
    wanted = ("--table", "samples.ttl", *KNOWN)
    found = json.loads(doctor("check", unread, *wanted, "--json", exit_code=3).stdout)
    assert found["checks"] == dict.fromkeys(found["checks"], "unknown")
    assert found["healthy"] is None
    (line,) = found["unseen"]
    assert "nb-" in line
    assert "Statistics.db" in line
    assert not any("options" in why for why in found["tables"][0]["unknown"].values())
    text = doctor("check", unread, *wanted, "--format", "prometheus", exit_code=3).stdout
    assert "treering_doctor_unseen 1\n" in text


def test_one_component_of_a_table_does_not_tell_for_the_others(data: Path) -> None:
    (file,) = (data / "samples").glob("ttl-*/*-Data.db")
    result = doctor("check", file, *KNOWN, "--fail-on", "never", exit_code=3)
    assert "1 single file was looked at" in " ".join(result.stdout.split())


def test_a_bundle_without_keys_does_not_say_that_partitions_end(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "n.tar.gz"
    doctor("collect", data, "-o", out, exit_code=0)
    found = json.loads(doctor("check", out, "--table", "samples.ttl", "--json").stdout)
    assert found["checks"]["partitions"] == "unknown"
    assert "--with-keys" in found["tables"][0]["unknown"]["partitions"]


@pytest.mark.parametrize("wanted", [("--keyspace", "nope"), ("--table", "nope")])
def test_what_no_target_has_is_named_as_what_it_is(
    wanted: tuple[str, str], data: Path, tmp_path: Path
) -> None:
    noun = wanted[0].removeprefix("--")
    alone = doctor("check", data, *wanted, exit_code=2)
    assert f"has no {noun} nope" in alone.stderr
    both = doctor("check", data, f"other={data}", *wanted, exit_code=2)
    assert both.stderr.count(f"has no {noun} nope") == 2
    out = tmp_path / "n.tar.gz"
    doctor("collect", data, "-o", out, exit_code=0)
    assert f"has the {noun} nope" in doctor("check", out, *wanted, exit_code=2).stderr


def test_a_table_without_a_clustering_column_is_refused_by_name(data: Path, tmp_path: Path) -> None:
    plain = "CREATE TABLE samples.ttl (series text PRIMARY KEY, value double);"
    (tmp_path / "s.cql").write_text(plain)
    result = doctor(
        "check", data, "--table", "samples.ttl", "--schema", tmp_path / "s.cql", exit_code=2
    )
    assert "samples.ttl has no clustering column" in result.stderr


def test_watch_takes_a_sample_and_shows_what_is_kept(data: Path, tmp_path: Path) -> None:
    place = tmp_path / "disk"
    first = doctor("watch", data, "--store", place, "--once", "--table", "ttl", exit_code=0)
    assert "1 sample" in first.stdout
    assert "leave by themselves" in first.stdout
    again = doctor("watch", "--store", place, "--json", exit_code=0)
    (found,) = json.loads(again.stdout)["tables"]
    assert (found["table"], found["samples"]) == ("samples.ttl", 1)


def test_watch_tells_a_sawtooth_from_csv_and_draws_it(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows = [f"{hour * 3_600},{240 + hour % 24}MB" for hour in range(24 * 20)]
    path = tmp_path / "sizes.csv"
    path.write_text("\n".join(["time,bytes", *rows]))
    result = doctor(
        "watch",
        "--csv",
        path,
        "--due-after",
        "5d",
        "--png",
        tmp_path / "a.png",
        "--html",
        tmp_path / "a.html",
        exit_code=0,
    )
    assert result.stdout.startswith("sizes.csv: sawtooth")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "a.html").read_text()


def test_as_a_process_no_warning_and_the_right_exit_code(data: Path) -> None:
    done = run_process("doctor", "check", str(data), "--table", "samples.ttl")
    assert done.returncode == 3
    assert done.stderr == ""


def test_watch_keeps_no_sample_of_a_table_with_a_file_that_cannot_be_read(
    unread: Path, tmp_path: Path
) -> None:
    place = tmp_path / "disk"
    result = doctor("watch", unread, "--store", place, "--once", "--table", "ttl", exit_code=3)
    assert "no size of samples.ttl is kept: 1 file could not be read" in result.stderr
    assert "Statistics.db is corrupt" in result.stderr
    assert "kept 0 samples" in result.stderr
    assert "nothing on disk" not in result.stdout
    doctor("watch", "--store", place, exit_code=2)


def test_watch_says_which_grace_it_takes_where_nobody_knows_it(data: Path, tmp_path: Path) -> None:
    wanted = ("watch", data, "--store", tmp_path / "disk", "--once", "--table", "ttl")
    assumed = " ".join(doctor(*wanted, exit_code=0).stdout.split())
    assert "with a grace of 10d, Cassandra's default, since the table's is not known" in assumed
    known = doctor(*wanted, "--gc-grace", "1d", exit_code=0).stdout
    assert "with a grace" not in known
    due = doctor(*wanted, "--due-after", "366d", exit_code=0).stdout
    assert "with a grace of 1d, as --due-after leaves for it" in due

    def within(text: str) -> str:
        return text.partition("all within ")[2].partition("\n")[0].partition(",")[0]

    assert within(known) == within(due) != within(assumed)


def test_watch_says_its_verdict_after_every_sample_and_ctrl_c_ends_it(
    data: Path, tmp_path: Path
) -> None:
    arguments = ("doctor", "watch", str(data), "--store", str(tmp_path / "disk"), "--every", "1s")
    with subprocess.Popen(
        [sys.executable, "-m", "treering", *arguments, "--table", "ttl"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as watching:
        assert watching.stdout is not None
        try:
            for line in watching.stdout:
                if "2 samples" in line:
                    break
            watching.send_signal(signal.SIGINT)
            _, said = watching.communicate(timeout=60)
        finally:
            watching.kill()
    assert watching.returncode == 0
    assert "stopped; what is kept: treering doctor watch --store" in said
    assert "error" not in said
