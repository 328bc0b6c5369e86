"""The four checks: pure rules from the facts of a table to findings.

Rules of this package: a check looks at facts and returns what it found; it reads no clock, no file
and no server. A healthy table gets no finding, not even a notice.
"""

from __future__ import annotations

from itertools import chain

from treering.doctor.checks.lint_lifetime import lint_lifetime
from treering.doctor.checks.lint_options import lint_options
from treering.doctor.checks.lint_repair import RepairAdvice, lint_repair, repair_advice
from treering.doctor.checks.lint_schema import lint_schema
from treering.doctor.checks.partitions import check_partitions
from treering.doctor.checks.sstables import check_sstables
from treering.doctor.facts import TableFacts
from treering.doctor.finding import SEVERITIES, Finding
from treering.doctor.thresholds import Thresholds

__all__ = [
    "RepairAdvice",
    "check_partitions",
    "check_sstables",
    "lint_table",
    "rank",
    "repair_advice",
]


def lint_table(facts: TableFacts, thresholds: Thresholds) -> tuple[Finding, ...]:
    """Return what is wrong with a table's options and schema."""
    lints = (lint_options, lint_lifetime, lint_repair, lint_schema)
    return tuple(chain.from_iterable(lint(facts, thresholds) for lint in lints))


def rank(findings: chain[Finding] | tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Return findings worst first: by severity, then by the disk that hangs on them, then id."""
    return tuple(
        sorted(
            findings,
            key=lambda one: (-SEVERITIES.index(one.severity), -one.impact_bytes, one.id, one.node),
        )
    )
