"""The four checks joined: one report, ranked, one finding a cause."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.doctor.checks.tables import (
    DAY_S,
    NOW_S,
    STCS_PATH,
    changed,
    days,
    node,
    ours,
    planned,
    schema,
    sstable,
    table,
    twcs,
)
from tests.doctor.checks.test_healthy import HEALTHY
from tests.doctor.checks.test_sick import SICK
from treering.doctor.checks import check_table, rank
from treering.doctor.facts import Missing, TableFacts
from treering.doctor.finding import CHECK_IDS, SEVERITIES, Cost, Finding
from treering.doctor.thresholds import Thresholds

LIMITS = Thresholds()


@pytest.mark.parametrize("facts", HEALTHY.values(), ids=HEALTHY)
def test_a_healthy_table_gets_four_oks_where_all_is_known(facts: TableFacts) -> None:
    report = check_table(facts, LIMITS)
    assert report.findings == ()
    assert [check.check for check in report.checks] == list(CHECK_IDS)
    is_known = facts.schema is not None and facts.schema.options is not None
    assert report.is_healthy is (True if is_known else None)
    if is_known:
        assert [check.status for check in report.checks] == ["ok"] * 4
        assert all(check.summary for check in report.checks)


@pytest.mark.parametrize(("facts", "wanted"), SICK.values(), ids=SICK)
def test_each_finding_is_the_only_one_of_all_checks(
    facts: TableFacts, wanted: list[tuple[str, str]]
) -> None:
    report = check_table(facts, LIMITS)
    told = {(one.id, one.severity) for one in report.findings}
    # Rows that never expire are told by what they block, default or not.
    if told != set(wanted):
        assert wanted == [("no-default-ttl", "warning")]
        assert told == {("no-ttl-blocks", "warning")}
    assert report.is_healthy is False


def test_findings_stand_in_their_check_and_ranked_in_the_report() -> None:
    files = days(sizes=((250_000_000, 2),))
    facts = table(schema(gc_grace_seconds=0, read_repair="BLOCKING"), node(files))
    report = check_table(facts, LIMITS)
    assert [one.id for one in report.findings] == [
        "large-partition",
        "zero-grace",
        "read-repair-on-twcs",
    ]
    by_check = {check.check: [one.id for one in check.findings] for check in report.checks}
    assert by_check == {
        "partitions": ["large-partition"],
        "sstables": [],
        "drops": ["zero-grace", "read-repair-on-twcs"],
        "disk": [],
    }
    statuses = {check.check: check.status for check in report.checks}
    assert statuses == {"partitions": "warning", "sstables": "ok", "drops": "warning", "disk": "ok"}


def test_every_file_has_a_verdict() -> None:
    assert len(check_table(table(), LIMITS).files) == 30


def test_what_could_not_be_seen_is_said() -> None:
    missing = (
        Missing(node="10.0.0.2", what="tablehistograms", why="nodetool did not answer in 30s"),
        Missing(node="", what="schema", why="no permission"),
    )
    report = check_table(replace(table(), missing=missing), LIMITS)
    assert report.missing == (
        "10.0.0.2: tablehistograms: nodetool did not answer in 30s",
        "schema: no permission",
    )


def test_read_repair_that_has_done_harm_is_told_once() -> None:
    old = sstable(id="90", start_s=NOW_S - 20 * DAY_S, end_s=NOW_S - 3_600)
    facts = table(schema(read_repair="BLOCKING"), node((*days(35), old), is_memtable_known=False))
    told = [one.id for one in check_table(facts, LIMITS).findings]
    assert "old-write-blocks" in told
    assert "read-repair-on-twcs" not in told


def test_a_unit_that_only_the_option_gets_wrong_is_told_once() -> None:
    facts = table(schema(twcs(timestamp_resolution="MILLISECONDS")), node(days(3)))
    assert [one.id for one in check_table(facts, LIMITS).findings] == ["timestamp-resolution"]


def test_two_oks_and_two_unknowns_are_not_healthy() -> None:
    report = check_table(table(schema(), node(None)), LIMITS)
    assert report.is_healthy is None
    assert {check.status for check in report.checks} == {"unknown"}


def test_a_mixture_of_sicknesses_is_found_whole() -> None:
    files = changed(days(40, sizes=((250_000_000, 2),)), 5, max_deletion_s=None, min_ttl_s=0)
    facts = table(schema(gc_grace_seconds=10 * DAY_S, read_repair="BLOCKING"), node(files))
    told = {one.id for one in check_table(facts, LIMITS).findings}
    assert {"large-partition", "no-ttl-blocks", "read-repair-on-twcs"} <= told


def test_a_table_of_ours_on_another_strategy_is_contradicted() -> None:
    design = planned()
    facts = ours(design)
    assert facts.schema is not None
    assert facts.schema.options is not None
    options = {**facts.schema.options, "compaction": {"class": STCS_PATH}}
    sick = replace(facts, schema=replace(facts.schema, options=options))
    (one,) = (f for f in check_table(sick, LIMITS).findings if f.id == "comment-contradicts")
    assert "SizeTieredCompactionStrategy" in one.evidence
    assert one.commands[0].startswith("ALTER TABLE plant.readings WITH default_time_to_live")


FINDINGS = st.builds(
    lambda id, severity, size: Finding(
        id=id,
        check="drops",
        severity=severity,
        table="a.b",
        evidence="1",
        cause="c",
        consequence="d",
        cure="e",
        cost=Cost(text="f"),
        impact_bytes=size,
    ),
    st.sampled_from(["one", "two", "three"]),
    st.sampled_from(SEVERITIES),
    st.integers(0, 10),
)


@given(st.lists(FINDINGS, max_size=8))
def test_rank_is_worst_first_and_loses_nothing(findings: list[Finding]) -> None:
    ranked = rank(findings)
    keys = [(SEVERITIES.index(one.severity), one.impact_bytes) for one in ranked]
    assert keys == sorted(keys, reverse=True)
    assert len(ranked) == len(findings)
    assert rank(reversed(findings)) == ranked
