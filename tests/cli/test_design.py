"""``treering design``: what it prints, and how it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from treering.cli.main import app
from treering.core.ddl import parse_comment
from treering.core.design import Design

BASE = ("--rate", "1/s", "--columns", "value:double", "--retention", "90d")
AT = ("--now", "2026-11-30")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["design", *arguments, *AT], terminal_width=80)


def run_json(*arguments: str) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    values = json.loads(result.stdout)
    assert isinstance(values, dict)
    return values


def test_json_has_every_key_that_scripts_read() -> None:
    values = run_json(*BASE)
    assert {
        "bucket",
        "layout",
        "row_bytes",
        "rows_per_bucket",
        "bucket_bytes",
        "ttl_s",
        "window",
        "gc_grace_s",
        "disk_bytes",
        "read_partitions",
        "candidates",
        "verdicts",
        "cql",
    } <= set(values)
    assert values["bucket"] == "day"
    assert values["window"] == {"unit": "DAYS", "size": 3, "count": 30}


def test_json_is_a_design_and_its_cql_keeps_the_same_design() -> None:
    values = run_json(*BASE, "--late", "2h:3%", "--replication", "dc1:3,dc2:3")
    plan = Design.from_json(values)
    comment = values["cql"].partition("comment = '")[2].removesuffix("';").replace("''", "'")
    assert parse_comment(comment) == plan
    assert plan.workload.late_s == 7_200
    assert plan.workload.late_fraction == 0.03
    assert plan.workload.replication == (("dc1", 3), ("dc2", 3))


@pytest.mark.parametrize(
    ("rate", "row_bytes", "bucket"),
    [
        ("1/min", "100", "month"),
        ("1/s", "100", "day"),
        ("10/s", "200", "hour"),
        ("1/10s", "200", "day"),
        ("1/h", "200", "month"),
        ("300/s", "31", "15min"),
    ],
)
def test_rates_in_words_give_the_designed_bucket(rate: str, row_bytes: str, bucket: str) -> None:
    values = run_json("--rate", rate, "--row-bytes", row_bytes, "--retention", "90d")
    assert values["bucket"] == bucket


def test_text_shows_every_step_of_the_arithmetic() -> None:
    result = run(*BASE)
    assert result.exit_code == 0
    text = " ".join(result.stdout.split())
    for step in (
        "1/s x 86,400 s = 86,400 rows",
        "86,400 rows x 31 B = 2.68 MB uncompressed",
        "90d = 7,776,000 s",
        "90d / 3d = 30: 30 windows",
        "90d / 7 = 12d20h, at least 3h (hints), at most 1d: 1d",
        "= 8,381,400 s of readings",
        "x 1/s x 31 B x 0.5 compressed = 130 MB",
        "writes with it would be refused from 2037-10-21 on",
    ):
        assert step in text


def test_piped_text_stays_within_eighty_columns_and_without_colour() -> None:
    result = run(*BASE, "--deletes", "--repair-every", "7d", "--late", "5d:10%")
    lines = result.stdout.splitlines()
    assert len(lines) > 40
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in result.stdout


def test_text_marks_what_was_asked_for() -> None:
    result = run(*BASE, "--bucket", "hour", "--gc-grace", "0s", "--window", "1d", "--ttl", "91d")
    for heading in (
        "Bucket  hour (asked for)",
        "Grace  0 s (asked for)",
        "Window  1 DAYS (asked for)",
        "TTL  7,862,400 s (asked for)",
    ):
        assert heading in result.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("--rate", "1/s", "--retention", "forever"),
        (*BASE, "--overwrites", "--cassandra", "4.1"),
        (*BASE, "--peak-rate", "10/s", "--row-bytes", "200"),
    ],
)
def test_every_kind_of_design_has_a_text(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert result.exit_code == 0
    assert "Verdicts" in result.stdout


def test_cql_is_statements_alone() -> None:
    result = run(*BASE, "--cql", "--keyspace", "plant", "--table", "pumps")
    assert result.stdout.startswith("CREATE TABLE plant.pumps (\n")
    assert result.stdout.endswith("';\n")


def test_cql_creates_the_keyspace_where_replication_is_stated() -> None:
    result = run(*BASE, "--cql", "--replication", "dc1:3")
    assert result.stdout.startswith("CREATE KEYSPACE IF NOT EXISTS metrics\n")
    assert "'dc1': '3'" in result.stdout
    assert result.stdout.count(";\n") == 2


def test_limits_and_assumptions_are_options() -> None:
    values = run_json(
        *BASE,
        "--partition-target",
        "1MB",
        "--partition-max",
        "5MB",
        "--compression-ratio",
        "0.25",
        "--series",
        "10",
        "--precision",
        "us",
        "--storage-mode",
        "none",
        "--read-span",
        "7d",
    )
    # 6 h of 31 B rows are 670 kB; a read of seven days touches 28 of them and the edge.
    assert values["bucket"] == "6h"
    assert values["read_partitions"] == 29
    assert values["disk_bytes"] == round(8_381_400 * 31 * 0.25 * 10)
    assert "ts bigint" in values["cql"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--rate", "fast", "--retention", "90d"), "'fast' is not a rate"),
        (("--rate", "1/s", "--retention", "long"), "'long' is not a length of time"),
        (("--rate", "1/s", "--retention", "1.5s"), "whole number of seconds"),
        ((*BASE, "--columns", "v:decimal"), "unknown type 'decimal'"),
        ((*BASE, "--bucket", "year"), "'year' is not a bucket width"),
        ((*BASE, "--window", "90s"), "not a whole number of minutes"),
        ((*BASE, "--late", "2h:many"), "not a share"),
        ((*BASE, "--late", "2h:300%"), "not a share"),
        ((*BASE, "--replication", "dc1"), "not a replication"),
        ((*BASE, "--replication", "dc1:0"), "not a replication"),
        ((*BASE, "--replication", "dc1:3,dc1:3"), "not a replication"),
        ((*BASE, "--strategy", "LCS"), "not a compaction strategy"),
        ((*BASE, "--precision", "ps"), "not a precision"),
        ((*BASE, "--cassandra", "3.6"), "no TimeWindowCompactionStrategy"),
        ((*BASE, "--storage-mode", "odd"), "not a storage mode"),
        ((*BASE, "--table", "Bad Name"), "not a name for a table"),
        ((*BASE, "--row-bytes", "-1"), "not a size"),
        (("--rate", "1/s", "--retention", "25y"), "630,720,000"),
        (("--rate", "1/10s", "--retention", "1y", "--bucket", "none"), "without a bucket"),
        ((*BASE, "--timestamp-resolution", "MILLISECONDS"), "microseconds"),
    ],
)
def test_wrong_usage_and_refused_designs_exit_with_2_and_say_why(
    arguments: tuple[str, ...], message: str
) -> None:
    plain = run(*arguments)
    assert plain.exit_code == 2
    assert plain.stderr.startswith("error: ")
    assert message in plain.stderr
    assert plain.stdout == ""
    as_json = run(*arguments, "--json")
    assert as_json.exit_code == 2
    values = json.loads(as_json.stderr)
    assert set(values) >= {"error", "hint"}
    assert message in values["error"]
    assert as_json.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "missing"),
    [(("--retention", "90d"), "rate"), (("--rate", "1/s"), "retention")],
)
def test_what_has_to_be_stated_is_asked_for(arguments: tuple[str, ...], missing: str) -> None:
    result = run(*arguments, "--json")
    assert result.exit_code == 2
    assert missing in json.loads(result.stderr)["error"]


def test_a_refusal_says_what_would_fit() -> None:
    result = run("--rate", "1/10s", "--row-bytes", "200", "--retention", "1y", "--bucket", "none")
    assert "3,153,600 rows, 631 MB" in result.stderr
    assert "hint: the widest within the target is day" in result.stderr


def test_the_command_loads_its_parts_only_when_it_runs() -> None:
    # Help has to be quick, so importing the command must load nothing of the core or of Rich's
    # console beyond what the package and Typer load by themselves.
    check = (
        "import sys, treering, typer\n"
        "before = set(sys.modules)\n"
        "import treering.cli.design\n"
        "new = {name for name in sys.modules if name not in before}\n"
        "print(*sorted(n for n in new if n.partition('.')[0] in ('treering', 'numpy', 'rich')))"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == [
        "treering.cli",
        "treering.cli.design",
        "treering.cli.options",
        "treering.cli.output",
    ], done.stderr
