"""The joint report: ranks, exit codes, text and JSON."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from tests.doctor.made import finding, report, verdict
from treering.doctor.finding import Cost
from treering.doctor.report import (
    Diagnosis,
    exit_code_of,
    jsonable,
    rank_reports,
    render_text,
    report_to_json,
)


def diagnosis(*reports: Any, unseen: tuple[str, ...] = ()) -> Diagnosis:
    return Diagnosis(reports=rank_reports(reports), unseen=unseen)


HEALTHY = report()
NOTICED = report(finding(severity="notice"), table="plant.noticed")
WARNED = report(finding(severity="warning"), table="plant.warned")
CRITICAL = report(finding(), table="plant.critical")
UNKNOWN = report(unknown=("sstables",), table="plant.unknown")


def test_the_worst_table_comes_first_and_the_healthy_one_last() -> None:
    ranked = rank_reports([HEALTHY, UNKNOWN, NOTICED, CRITICAL, WARNED])
    assert [one.table.partition(".")[2] for one in ranked] == [
        "critical",
        "warned",
        "noticed",
        "unknown",
        "readings",
    ]


def test_of_two_equally_bad_tables_the_one_with_more_disk_on_it_comes_first() -> None:
    small = report(finding(impact_bytes=10), table="a.small")
    large = report(finding(impact_bytes=10_000), table="b.large")
    assert [one.table for one in rank_reports([small, large])] == ["b.large", "a.small"]


@pytest.mark.parametrize(
    ("reports", "unseen", "healthy"),
    [
        ([HEALTHY], (), True),
        ([HEALTHY, UNKNOWN], (), None),
        ([HEALTHY, UNKNOWN, NOTICED], (), False),
        ([HEALTHY], ("node down",), None),
        ([CRITICAL], ("node down",), False),
        ([], (), None),
    ],
)
def test_health_of_all_is_the_worst(reports: Any, unseen: Any, healthy: bool | None) -> None:
    assert diagnosis(*reports, unseen=unseen).is_healthy is healthy


@pytest.mark.parametrize(
    ("reports", "fail_on", "code"),
    [
        ([HEALTHY], "notice", 0),
        ([NOTICED], "warning", 0),
        ([NOTICED], "notice", 4),
        ([WARNED], "warning", 4),
        ([CRITICAL], "warning", 4),
        ([WARNED], "critical", 0),
        ([CRITICAL], "never", 0),
        ([UNKNOWN], "warning", 3),
        ([UNKNOWN, CRITICAL], "warning", 4),
        ([UNKNOWN, CRITICAL], "never", 3),
        ([], "warning", 3),
    ],
)
def test_exit_code(reports: Any, fail_on: Any, code: int) -> None:
    assert exit_code_of(diagnosis(*reports), fail_on) == code


def test_a_target_that_could_not_be_seen_makes_a_healthy_run_incomplete() -> None:
    assert exit_code_of(diagnosis(HEALTHY, unseen=("10.0.0.9: no answer",)), "warning") == 3


def test_json_has_the_documented_keys_over_all_tables_and_for_each() -> None:
    document = report_to_json(diagnosis(HEALTHY, CRITICAL))
    assert document["healthy"] is False
    assert document["checks"] == {
        "partitions": "ok",
        "sstables": "ok",
        "drops": "critical",
        "disk": "ok",
    }
    assert [one["table"] for one in document["tables"]] == ["plant.critical", "plant.readings"]
    for part in (document, *document["tables"]):
        assert {"healthy", "checks", "findings", "files"} <= set(part)
    (found,) = document["findings"]
    assert set(found) >= {"id", "severity", "table", "evidence", "cause", "cure", "cost"}
    file = document["files"][0]
    assert set(file) >= {
        "path",
        "window",
        "min_write_us",
        "max_write_us",
        "max_deletion_s",
        "removable",
        "blocked_by",
    }
    json.dumps(document, allow_nan=False)


@pytest.mark.parametrize(
    ("removable", "shown"),
    [
        ("yes", True),
        ("no", False),
        (
            "unless the memtable holds older writes",
            "unless the memtable holds older writes",
        ),
    ],
)
def test_removable_is_true_false_or_the_condition(removable: Any, shown: object) -> None:
    one = report(files=(verdict(removable=removable),))
    assert report_to_json(diagnosis(one))["files"][0]["removable"] == shown


def test_facts_that_json_cannot_say_are_null_or_text() -> None:
    given = {"a": math.nan, "b": np.int64(3), "c": (1, {2}), "d": np.float64(math.inf), 5: "\ud800"}
    assert jsonable(given) == {"a": None, "b": 3, "c": [1, [2]], "d": None, "5": "?"}


def test_a_healthy_table_is_one_short_block_with_four_numbers() -> None:
    lines = render_text(diagnosis(HEALTHY)).splitlines()
    assert lines[0] == "plant.readings: healthy"
    assert [line.split()[:2] for line in lines[1:]] == [
        ["partitions", "ok"],
        ["sstables", "ok"],
        ["drops", "ok"],
        ["disk", "ok"],
    ]


def test_a_finding_says_what_was_seen_cause_consequence_cure_command_and_cost() -> None:
    text = render_text(diagnosis(CRITICAL))
    assert "CRITICAL  never-expiring-cell" in text
    for part in (
        "127.0.0.1: 1 file without expiry",
        "a row was written without TTL",
        "nothing leaves the disk",
        "delete the row",
        "run      nodetool compact --user-defined nb-1-big-Data.db",
        "one file is rewritten",
    ):
        assert part in text
    assert max(map(len, text.splitlines())) <= 80


def test_one_finding_on_three_nodes_is_said_once_with_three_lines_of_evidence() -> None:
    found = [finding(node=f"10.0.0.{n}", evidence=f"{n} files") for n in (1, 2, 3)]
    text = render_text(diagnosis(report(*found)))
    assert text.count("never-expiring-cell") == 1
    assert all(f"10.0.0.{n}: {n} files" in text for n in (1, 2, 3))


def test_nodes_that_differ_have_a_line_each_the_worst_first() -> None:
    files = [
        verdict(node="10.0.0.1", is_fully_expired=True),
        verdict(node="10.0.0.2"),
    ]
    text = render_text(diagnosis(report(finding(), files=tuple(files))))
    assert text.index("node 10.0.0.1: 1 file") < text.index("node 10.0.0.2: 1 file")


def test_nodes_that_are_alike_have_no_lines() -> None:
    files = (verdict(node="10.0.0.1"), verdict(node="10.0.0.2"))
    assert "node 10.0.0" not in render_text(diagnosis(report(files=files)))


def test_text_of_strangers_cannot_steer_the_terminal() -> None:
    nasty = finding(id="x\x1b[2J", evidence="a\x1b]0;b\x07c\nd", commands=("e\x1b[31m",))
    text = render_text(diagnosis(report(nasty, table="k.t\u202e")), width=80)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "\u202e" not in text


def test_what_is_missing_is_said_where_a_check_is_unknown() -> None:
    one = report(unknown=("drops",), missing=("no options: give --schema",))
    text = render_text(diagnosis(one, unseen=("10.0.0.9 does not answer",)))
    assert "nothing is wrong in what was seen" in text
    assert "no options: give --schema" in text
    assert "10.0.0.9 does not answer" in text


def test_missing_facts_alone_make_no_run_incomplete() -> None:
    one = Diagnosis(reports=(HEALTHY,), missing=("nodetool: no --nodetool",))
    assert one.is_healthy is True
    assert exit_code_of(one, "warning") == 0
    assert "nodetool" not in render_text(one)
    sick = Diagnosis(reports=(CRITICAL,), missing=("nodetool: no --nodetool",))
    assert "not known:\n  - nodetool" in render_text(sick)


def test_a_cure_without_cost_costs_nothing() -> None:
    text = render_text(diagnosis(report(finding(cost=Cost(text="")))))
    assert "nothing" in text.splitlines()[-1]


def test_a_cost_without_words_is_said_in_numbers() -> None:
    cost = Cost(text="", rewritten_bytes=4_000_000, duration_s=12.0, headroom_bytes=8_000_000)
    text = render_text(diagnosis(report(finding(cost=cost))))
    assert "4 MB rewritten; about 12s; 8 MB of free disk meanwhile" in text
