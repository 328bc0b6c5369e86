"""The four checks: pure rules from the facts of a table to findings.

Rules of this package: a check looks at facts and returns what it found; it reads no clock, no file
and no server. A healthy table gets no finding, not even a notice; one cause is one finding, so
where a finding explains another, the other is left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from typing import Final

from treering.doctor.checks.disk import check_disk
from treering.doctor.checks.drops import check_drops, verdicts_of
from treering.doctor.checks.lint_lifetime import lint_lifetime
from treering.doctor.checks.lint_options import lint_options
from treering.doctor.checks.lint_repair import RepairAdvice, lint_repair, repair_advice
from treering.doctor.checks.lint_schema import lint_schema
from treering.doctor.checks.partitions import check_partitions
from treering.doctor.checks.seen import hides_data, is_of_copies
from treering.doctor.checks.sstables import check_sstables
from treering.doctor.facts import NodeFacts, TableFacts
from treering.doctor.finding import SEVERITIES, Checked, Finding, TableReport
from treering.doctor.thresholds import Thresholds
from treering.sstable.facts import FileProblem

__all__ = [
    "RepairAdvice",
    "check_disk",
    "check_drops",
    "check_partitions",
    "check_sstables",
    "check_table",
    "lint_table",
    "rank",
    "repair_advice",
    "verdicts_of",
]

_EXPLAINED_BY: Final = {
    # Files seem to hold another unit where the table reads them in one.
    "write-time-unit": ("timestamp-resolution", ""),
    # Rows without a TTL are what a missing default leads to; its cure sets the default as well.
    "no-default-ttl": ("no-ttl-blocks", "default_time_to_live"),
    # Old writes that read repair brought: its cure switches read repair off as well.
    "read-repair-on-twcs": ("old-write-blocks", "read_repair"),
}
"""By a finding's id: the finding that says it better, and the word that its commands must hold."""


def lint_table(facts: TableFacts, thresholds: Thresholds) -> tuple[Finding, ...]:
    """Return what is wrong with a table's options and schema."""
    lints = (lint_options, lint_lifetime, lint_repair, lint_schema)
    return tuple(chain.from_iterable(lint(facts, thresholds) for lint in lints))


def check_table(facts: TableFacts, thresholds: Thresholds) -> TableReport:
    """Return what the doctor says about a table: four checks, findings ranked, files judged."""
    checks = (
        check_partitions(facts, thresholds),
        check_sstables(facts, thresholds),
        check_drops(facts, thresholds),
        check_disk(facts, thresholds),
    )
    lints = lint_table(facts, thresholds)
    findings = _unexplained([*chain.from_iterable(check.findings for check in checks), *lints])
    return TableReport(
        table=facts.name,
        checks=tuple(_with_findings(check, findings) for check in checks),
        findings=findings,
        files=verdicts_of(facts, thresholds),
        missing=tuple(_missing_text(facts)),
        unseen=tuple(
            _problem_text(node, problem)
            for node in facts.nodes
            for problem in node.problems
            if hides_data(problem) or is_of_copies(problem)
        ),
        schema_from=None if facts.schema is None else facts.schema.source,
    )


def _unexplained(findings: list[Finding]) -> tuple[Finding, ...]:
    """Return findings ranked, without those that another one explains."""
    said = {one.id: " ".join(one.commands) for one in findings}

    def is_explained(one: Finding) -> bool:
        by, word = _EXPLAINED_BY.get(one.id, ("", ""))
        return by in said and word in said[by]

    return rank(one for one in findings if not is_explained(one))


def _with_findings(check: Checked, findings: tuple[Finding, ...]) -> Checked:
    return replace(check, findings=tuple(one for one in findings if one.check == check.check))


def rank(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings worst first: by severity, then by the disk that hangs on them, then id."""
    return tuple(
        sorted(
            findings,
            key=lambda one: (-SEVERITIES.index(one.severity), -one.impact_bytes, one.id, one.node),
        )
    )


def _missing_text(facts: TableFacts) -> list[str]:
    return [
        f"{missing.node}: {missing.what}: {missing.why}"
        if missing.node
        else f"{missing.what}: {missing.why}"
        for missing in facts.missing
    ] + [_problem_text(node, problem) for node in facts.nodes for problem in node.problems]


def _problem_text(node: NodeFacts, problem: FileProblem) -> str:
    return f"{node.node}: {problem.path}: {problem.message}"
