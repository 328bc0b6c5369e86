"""Sick and healthy tables of a real node: each illness is found by its cause, and nothing else."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from cassandra.cluster import Session
from typer.testing import CliRunner, Result

from tests.doctor.sick_tables import OURS, TABLES, SickTables
from treering.cli.doctor import collected_of
from treering.cli.main import app
from treering.doctor.check import diagnose
from treering.doctor.collect import Wanted
from treering.doctor.thresholds import Thresholds
from treering.testing import LocalCassandra

MAYBE: Final = "unless the memtable holds older writes"
LIMITS: Final = Thresholds()
FILE_KEYS: Final = (
    *("path", "window", "min_write_us", "max_write_us", "max_deletion_s"),
    *("removable", "blocked_by"),
)
FINDING_KEYS: Final = ("id", "severity", "table", "evidence", "cause", "cure", "cost")

# What files, folders and schema together say of each table that is sick: warnings and worse.
FOUND: Final = {
    "unbounded": (
        "unbounded-partition",
        "warning",
        r"in 1 file, written over 19m5\ds: at that rate",
    ),
    "over_partitioned": ("over-partitioned", "warning", "half of 12,600 partitions"),
    "no_ttl": ("no-ttl-blocks", "critical", "1 file has rows without a TTL .* keep 2 files"),
    "back_dated": ("old-write-blocks", "warning", "3d18h before the file; it keeps 1 file"),
    "long_grace": ("long-grace", "warning", "is 10d on a TTL of 1d: .* 90 % have expired"),
    "stcs": ("stcs-with-ttl", "warning", r"\((79|80) %\) have expired past grace"),
    "merged": ("major-compaction", "warning", "spans 5 windows of 1 DAYS"),
    "windows_720": ("too-many-windows", "warning", "1 HOURS over 30d: 720 windows"),
    "snapshots": ("snapshots-hold-files", "warning", "1 snapshot holds .*: before$"),
    "millis": ("write-time-unit", "warning", "2 files .* of 5 hold write times in milliseconds"),
}
CAUSES: Final = {
    "back_dated": "most likely a back-dated write",
    "no_ttl": "USING TTL 0",
    "merged": "a major compaction",
    "millis": "in milliseconds; the server takes them for microseconds",
}
HEALTHY: Final = ("well", "well_ucs", "well_ucs_ttl", "well_stcs", OURS)
# What is found twelve hours later, when the day that rows live has passed for most of them.
LATER: Final = {
    "ucs_mixed": ("expired-not-reached", r"\((79|80) %\) expired more than 2h34m past grace"),
    "ucs_kept": ("expired-not-reached", r"3 files \(\d+ B\) have fully expired and are kept by "),
}
# A grace of a second is what lets rows pass it within a test.
SHORT_GRACE: Final = {name for name, made in TABLES.items() if made.grace_s == 1}


def doctor(*arguments: object, exit_code: int) -> Result:
    result = CliRunner().invoke(app, ["doctor", "check", *map(str, arguments)])
    assert result.exit_code == exit_code, f"{result.stdout}\n{result.stderr}"
    return result


def checked(*arguments: object, exit_code: int = 4) -> dict[str, Any]:
    """Return a report by table, without the keyspace."""
    document: dict[str, Any] = json.loads(doctor(*arguments, "--json", exit_code=exit_code).stdout)
    assert {"healthy", "checks", "findings", "files", "tables"} <= document.keys()
    return document | {
        "by_name": {one["table"].partition(".")[2]: one for one in document["tables"]}
    }


def warned(table: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the findings of a table that are more than notices."""
    return {one["id"]: one for one in table["findings"] if one["severity"] != "notice"}


def noticed(table: dict[str, Any]) -> set[str]:
    return {one["id"] for one in table["findings"] if one["severity"] == "notice"}


@pytest.fixture(scope="module")
def sick(cassandra_node: LocalCassandra, cassandra_session: Session) -> Iterator[SickTables]:
    keyspace = f"sick_{time.time_ns():x}"
    cassandra_node.create_keyspace(keyspace)
    try:
        tables = SickTables(cassandra_node, cassandra_session, keyspace)
        tables.make()
        yield tables
    finally:
        cassandra_session.execute(f"DROP KEYSPACE {keyspace}")


@pytest.fixture(scope="module")
def folder(sick: SickTables) -> Path:
    (found,) = sick.node.data_folders()
    return found


@pytest.fixture(scope="module")
def report(sick: SickTables, folder: Path) -> dict[str, Any]:
    """What the doctor says from the node's address and its data folder together."""
    return checked(sick.url, folder)


def test_each_illness_is_found_with_its_cause_and_nothing_else(report: dict[str, Any]) -> None:
    by_name = report["by_name"]
    assert by_name.keys() == TABLES.keys() | {OURS}
    assert {name: list(warned(by_name[name])) for name in by_name} == {
        name: [FOUND[name][0]] if name in FOUND else [] for name in by_name
    }
    for name, (finding_id, severity, evidence) in FOUND.items():
        finding = warned(by_name[name])[finding_id]
        assert finding["severity"] == severity, name
        assert re.search(evidence, finding["evidence"]), finding["evidence"]
        assert CAUSES.get(name, "") in finding["cause"]
    assert {name: noticed(by_name[name]) for name in by_name} == {
        name: {"short-grace"} if name in SHORT_GRACE else set() for name in by_name
    }
    assert (report["healthy"], report["unseen"]) == (False, [])


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_table_has_four_oks_and_no_finding(report: dict[str, Any], name: str) -> None:
    table = report["by_name"][name]
    assert (table["healthy"], table["findings"]) == (True, [])
    assert set(table["checks"].values()) == {"ok"}
    assert table["missing"] == []


def test_expired_rows_that_no_compaction_reaches_are_found_without_windows(
    sick: SickTables, folder: Path
) -> None:
    later = Wanted(now_s=int(time.time()) + 43_200, keyspace=sick.keyspace)
    collected = collected_of([sick.url, str(folder)], later, nodetool=None, timeout="30s")
    reports = {one.table.partition(".")[2]: one for one in diagnose(collected, LIMITS).reports}
    for name in ("well_ucs", "well_ucs_ttl", "well_stcs"):
        assert reports[name].findings == (), name
    for name, (finding_id, evidence) in LATER.items():
        (finding,) = [one for one in reports[name].findings if one.severity != "notice"]
        assert (finding.id, finding.severity) == (finding_id, "warning")
        assert re.search(evidence, finding.evidence), finding.evidence
    patient = replace(LIMITS, overdue_max_s=86_400)
    again = {one.table: one for one in diagnose(collected, patient).reports}
    assert again[f"{sick.keyspace}.ucs_mixed"].findings[0].severity == "notice"


def test_the_keys_of_the_report_are_those_that_are_promised(report: dict[str, Any]) -> None:
    assert report["checks"].keys() == {"partitions", "sstables", "drops", "disk"}
    assert all(set(FINDING_KEYS) <= finding.keys() for finding in report["findings"])
    assert all(set(FILE_KEYS) <= file.keys() for file in report["files"])
    assert {file["removable"] for file in report["files"]} == {False, MAYBE}


def test_the_file_that_keeps_the_others_is_named_with_its_times(
    sick: SickTables, report: dict[str, Any]
) -> None:
    files = report["by_name"]["no_ttl"]["files"]
    (never,) = [file for file in files if file["max_deletion_s"] is None]
    assert Path(never["path"]).is_file()
    assert never["window"].startswith(time.strftime("%Y-%m-%d", time.gmtime(sick.now_s - 345_600)))
    assert [file["blocked_by"] for file in files] == [[], [never["path"]], [never["path"]], [], []]
    assert never["min_write_us"] == (sick.now_s - 4 * 86_400 - 20) * 1_000_000
    assert never["max_write_us"] == (sick.now_s - 4 * 86_400) * 1_000_000


def test_of_the_address_alone_what_only_files_tell_is_unknown_and_never_ok(
    sick: SickTables,
) -> None:
    by_name = checked(sick.url)["by_name"]
    seen = {name: set(warned(table)) for name, table in by_name.items()}
    schema_alone = ("unbounded", "long_grace", "windows_720")
    assert seen == {name: {FOUND[name][0]} if name in schema_alone else set() for name in by_name}
    for name, table in by_name.items():
        assert table["healthy"] is (False if seen[name] or noticed(table) else None), name
        assert "ok" not in table["checks"].values(), name
        assert table["files"] == []
    well = by_name["well"]
    assert set(well["checks"].values()) == {"unknown"}
    assert "data folders" in well["unknown"]["drops"]
    doctor(sick.url, "--table", "well", exit_code=3)


def test_nodetool_brings_sizes_and_files_per_read(sick: SickTables) -> None:
    command = shlex.join(sick.node.nodetool_command())
    by_name = checked(sick.url, "--nodetool", command)["by_name"]
    assert by_name["well"]["checks"] == {
        "partitions": "ok",
        "sstables": "ok",
        "drops": "unknown",
        "disk": "unknown",
    }
    assert "99 % at most" in by_name["well"]["summaries"]["sstables"]
    assert list(warned(by_name["over_partitioned"])) == ["over-partitioned"]
    assert all(table["healthy"] is not True for table in by_name.values())
    assert by_name["well"]["findings"] == []


def test_exit_codes_page_and_metrics_of_the_same_tables(
    sick: SickTables, folder: Path, tmp_path: Path
) -> None:
    both = (sick.url, folder)
    text = doctor(*both, "--html", tmp_path / "r.html", exit_code=4).stdout
    assert text.index(f"{sick.keyspace}.no_ttl: critical") < text.index("well: healthy")
    assert (tmp_path / "r.html").read_text().count("<svg") >= 3
    for name in HEALTHY:
        doctor(*both, "--table", name, exit_code=0)
    doctor(*both, "--table", "millis", "--fail-on", "critical", exit_code=0)
    doctor(*both, "--table", "back_dated", "--threshold", "span-windows-max=9", exit_code=0)
    doctor(*both, "--table", "no_ttl", "--fail-on", "critical", exit_code=4)
    doctor(*both, "--table", "no_ttl", "--fail-on", "never", exit_code=0)
    metrics = doctor(*both, "--format", "prometheus", exit_code=4).stdout
    sample = f'treering_doctor_healthy{{keyspace="{sick.keyspace}",table="%s"}} %d'
    lines = metrics.splitlines()
    for name in report_names():
        assert sample % (name, name in HEALTHY) in lines
    assert all(
        line.startswith("#") or re.fullmatch(r"[a-z_]+(\{.*\})? \S+", line) for line in lines
    )


def report_names() -> list[str]:
    return [*TABLES, OURS]


# Bad input: a clear line, and the rest of the report stands.


@contextmanager
def without_rights() -> Iterator[None]:
    """Be a user whom permissions bind, for a while."""
    if os.geteuid() != 0:
        yield
        return
    try:
        os.seteuid(65_534)
    except PermissionError:
        pytest.skip("root may not become another user here")
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def copied(sick: SickTables, folder: Path) -> Iterator[Path]:
    """Yield a copy of the keyspace that every user may read."""
    with tempfile.TemporaryDirectory() as place:
        shutil.copytree(folder / sick.keyspace, Path(place, "data", sick.keyspace))
        for path in (Path(place), *Path(place).rglob("*")):
            path.chmod(0o755)
        yield Path(place, "data")


def test_a_table_that_may_not_be_read_is_named_and_the_others_stand(
    sick: SickTables, copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(copied))  # The superuser's own may be closed to others.
    (closed,) = (copied / sick.keyspace).glob("millis-*")
    closed.chmod(0)
    try:
        with without_rights():
            found = checked(sick.url, copied)
    finally:
        closed.chmod(0o755)
    assert list(warned(found["by_name"]["no_ttl"])) == ["no-ttl-blocks"]
    assert found["by_name"]["well"]["healthy"] is True
    millis = found["by_name"]["millis"]
    assert millis["healthy"] is not True
    assert millis["checks"]["drops"] == "unknown"
    said = [*found["unseen"], *millis["missing"]]
    assert any("ermission denied" in line and closed.name in line for line in said), said


def test_a_damaged_file_a_wrong_folder_and_a_node_that_is_down_are_lines_of_a_report(
    sick: SickTables, copied: Path, tmp_path: Path
) -> None:
    (file, *_) = (copied / sick.keyspace).glob("millis-*/*-Statistics.db")
    file.write_bytes(b"zz-9-")
    gone = f"cassandra://127.0.0.1:1/{sick.keyspace}?local_dc=datacenter1"
    found = checked(sick.url, copied, tmp_path, gone)
    assert list(warned(found["by_name"]["no_ttl"])) == ["no-ttl-blocks"]
    assert found["by_name"]["well"]["healthy"] is True
    assert any(str(tmp_path) in line for line in found["unseen"])
    assert any("127.0.0.1:1" in line for line in found["unseen"])
    millis = found["by_name"]["millis"]
    (line,) = millis["missing"]
    assert re.search(rf"{file.parent.name}.*Statistics.db is corrupt at byte", line), line
    assert millis["checks"]["disk"] == "unknown"
