"""What the doctor says about all tables: ranked, as one value, for people and for programs.

Rules of this file: worst first; nothing is left out of the document that was found; text from
files and servers is shown without its control characters; a number that is no number is null.
"""

from __future__ import annotations

import math
import textwrap
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, assert_never

from treering.core.units import render_bytes, render_count, render_duration
from treering.doctor.finding import (
    CHECK_IDS,
    SEVERITIES,
    Checked,
    CheckId,
    Cost,
    FileVerdict,
    Finding,
    Removable,
    Severity,
    Status,
    TableReport,
    worst_of,
)

FailOn = Literal["notice", "warning", "critical", "never"]

DONE: Final = 0
INCOMPLETE: Final = 3
FINDINGS: Final = 4

_STATUS_ORDER: Final[tuple[Status, ...]] = ("ok", "notice", "unknown", "warning", "critical")
_UNSEEN_SHOWN: Final = 20
_EVIDENCE_SHOWN: Final = 12
_LABEL: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """All that one run of the doctor says.

    Attributes:
        reports: One a table; :func:`rank_reports` has put the worst first.
        unseen: What belongs to no table and could not be seen: targets, nodes, files.
        missing: Facts about all tables that could not be had, with what would bring them.
    """

    reports: tuple[TableReport, ...]
    unseen: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def is_healthy(self) -> bool | None:
        """The worst of all tables; None where something could not be seen and nothing is wrong."""
        states = [report.is_healthy for report in self.reports]
        if False in states:
            return False
        return None if None in states or self.unseen or not states else True

    @property
    def all_unseen(self) -> tuple[str, ...]:
        """What could not be seen, the files of each table included."""
        return (*self.unseen, *(line for report in self.reports for line in report.unseen))

    @property
    def checks(self) -> dict[CheckId, Status]:
        """The worst status of each check over all tables."""
        return {
            check: max(
                (one.status for report in self.reports for one in _of(report, check)),
                key=_STATUS_ORDER.index,
                default="unknown",
            )
            for check in CHECK_IDS
        }

    @property
    def worst(self) -> Severity | None:
        """The worst finding of all; None without any."""
        return worst_of(one.severity for report in self.reports for one in report.findings)


def rank_reports(reports: Iterable[TableReport]) -> tuple[TableReport, ...]:
    """Return reports, the worst table first, then by the disk that hangs on it, then by name."""
    return tuple(sorted(reports, key=_rank))


def _rank(report: TableReport) -> tuple[Any, ...]:
    worst = worst_of(finding.severity for finding in report.findings)
    place = len(SEVERITIES) if worst is None else len(SEVERITIES) - 1 - SEVERITIES.index(worst)
    impact = sum(finding.impact_bytes for finding in report.findings)
    return place, report.is_healthy is True, -impact, -len(report.findings), report.table


def exit_code_of(diagnosis: Diagnosis, fail_on: FailOn) -> int:
    """Return the exit code of a check.

    Args:
        diagnosis: What was found.
        fail_on: The least severity that fails; ``never``: no finding does.

    Returns:
        4 where a finding is at or above ``fail_on``; else 3 where a check is unknown or something
        could not be seen; else 0.
    """
    worst = diagnosis.worst
    if worst is not None and _is_at_least(worst, fail_on):
        return FINDINGS
    return INCOMPLETE if diagnosis.unseen or not _is_all_known(diagnosis) else DONE


def _is_at_least(severity: Severity, fail_on: FailOn) -> bool:
    return fail_on != "never" and SEVERITIES.index(severity) >= SEVERITIES.index(fail_on)


def _is_all_known(diagnosis: Diagnosis) -> bool:
    return bool(diagnosis.reports) and all(
        check.status != "unknown" for report in diagnosis.reports for check in report.checks
    )


def _of(report: TableReport, check: CheckId) -> Iterator[Checked]:
    return (one for one in report.checks if one.check == check)


# --- for programs


def report_to_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return a document of everything that was found.

    ``healthy``, ``checks``, ``findings`` and ``files`` are over all tables; ``tables`` has the
    same keys for each, the worst first.
    """
    tables = [_table_to_json(report) for report in diagnosis.reports]
    return {
        "healthy": diagnosis.is_healthy,
        "checks": dict(diagnosis.checks),
        "findings": sorted(
            (finding for table in tables for finding in table["findings"]),
            key=lambda finding: -SEVERITIES.index(finding["severity"]),
        ),
        "files": [file for table in tables for file in table["files"]],
        "tables": tables,
        "unseen": list(diagnosis.all_unseen),
        "missing": list(diagnosis.missing),
    }


def _table_to_json(report: TableReport) -> dict[str, Any]:
    return {
        "table": report.table,
        "healthy": report.is_healthy,
        "checks": {check.check: check.status for check in report.checks},
        "summaries": {check.check: check.summary for check in report.checks},
        "unknown": {check.check: check.unknown for check in report.checks if check.unknown},
        "findings": [_finding_to_json(finding) for finding in report.findings],
        "files": [_file_to_json(report.table, file) for file in report.files],
        "missing": list(report.missing),
        "schema_from": None
        if report.schema_from is None
        else {"snapshot": report.schema_from.snapshot, "at_s": report.schema_from.at_s},
    }


def _finding_to_json(finding: Finding) -> dict[str, Any]:
    return {
        "id": finding.id,
        "severity": finding.severity,
        "check": finding.check,
        "table": finding.table,
        "node": finding.node,
        "evidence": finding.evidence,
        "cause": finding.cause,
        "consequence": finding.consequence,
        "cure": finding.cure,
        "commands": list(finding.commands),
        "cost": {
            "text": finding.cost.text,
            "rewritten_bytes": finding.cost.rewritten_bytes,
            "duration_s": jsonable(finding.cost.duration_s),
            "headroom_bytes": finding.cost.headroom_bytes,
        },
        "impact_bytes": finding.impact_bytes,
        "facts": jsonable(finding.facts),
    }


def _file_to_json(table: str, file: FileVerdict) -> dict[str, Any]:
    return {
        "path": file.path,
        "table": table,
        "node": file.node,
        "window": file.window or None,
        "window_start_s": file.window_start_s,
        "min_write_us": file.min_write_us,
        "max_write_us": file.max_write_us,
        "max_deletion_s": file.max_deletion_s,
        "data_bytes": file.data_bytes,
        "fully_expired": file.is_fully_expired,
        "removable": _removable_to_json(file.removable),
        "removable_at_s": file.removable_at_s,
        "blocked_by": list(file.blocked_by),
    }


def _removable_to_json(removable: Removable) -> bool | str:
    match removable:
        case "yes":
            return True
        case "no":
            return False
        case "unless the memtable holds older writes":
            return removable
        case _:
            assert_never(removable)


def jsonable(value: object) -> Any:
    """Return a value as JSON has it: no NaN, text keys, lists; anything else as text."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        # A lone surrogate of an odd file name cannot be written as UTF-8.
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): jsonable(one) for key, one in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [jsonable(one) for one in value]
    as_number = getattr(value, "item", None)  # A number of NumPy.
    return jsonable(as_number()) if callable(as_number) else str(value)


# --- for people


def render_text(diagnosis: Diagnosis, *, width: int = 80) -> str:
    """Return the report for a terminal, the worst table first.

    Args:
        diagnosis: What was found.
        width: In characters; commands and paths are never broken.
    """
    blocks = ["\n".join(_table_lines(report, width)) for report in diagnosis.reports]
    if len(diagnosis.reports) > 1:
        blocks.insert(0, "\n".join(_wrapped(_headline(diagnosis), width)))
    if not diagnosis.reports:
        blocks.append("no table was found")
    if diagnosis.unseen:
        blocks.append("\n".join(_unseen_lines("not seen", diagnosis.unseen, width)))
    if diagnosis.missing and diagnosis.is_healthy is not True:
        blocks.append("\n".join(_unseen_lines("not known", diagnosis.missing, width)))
    return "\n\n".join(blocks)


def printable(text: str) -> str:
    """Return text on one line, without control characters and marks that turn it around."""
    return "".join(
        " " if char in "\n\t\r" else "\ufffd" if unicodedata.category(char)[0] == "C" else char
        for char in text
    )


def _headline(diagnosis: Diagnosis) -> str:
    states = [report.is_healthy for report in diagnosis.reports]
    counts = [
        f"{states.count(state)} {word}"
        for state, word in ((False, "with findings"), (None, "not fully known"), (True, "healthy"))
        if state in states
    ]
    return f"{render_count(len(states), 'table')}: {', '.join(counts)}"


def _table_lines(report: TableReport, width: int) -> Iterator[str]:
    yield from _wrapped(f"{printable(report.table)}: {_state(report)}", width)
    for check in report.checks:
        text = check.summary or check.unknown
        if check.summary and check.unknown:
            text = f"{check.summary}; {check.unknown}"
        yield from _labelled(f"{check.check:<{_LABEL}} {check.status:<8} ", text, width)
    if report.schema_from is not None:
        said = f"{report.schema_from.text}; what was altered since is not seen"
        yield from _labelled(f"{'options':<{_LABEL}} ", said, width)
    nodes = list(_node_lines(report.files))
    if nodes:
        yield ""
        yield from nodes
    for group in _grouped(report.findings):
        yield ""
        yield from _finding_lines(group, width)
    if report.missing and report.is_healthy is not True:
        yield ""
        yield from _unseen_lines("not seen", report.missing, width, indent="  ")


def _state(report: TableReport) -> str:
    if report.is_healthy:
        return "healthy"
    worst = worst_of(finding.severity for finding in report.findings)
    if worst is None:
        return "not fully known; nothing is wrong in what was seen"
    return f"{worst}, {render_count(len(report.findings), 'finding')}"


def _grouped(findings: Sequence[Finding]) -> list[list[Finding]]:
    """Return findings that differ by node and evidence alone together, in their order."""
    groups: dict[tuple[Any, ...], list[Finding]] = {}
    for one in findings:
        key = (one.id, one.severity, one.cause, one.consequence, one.cure, one.commands, one.cost)
        groups.setdefault(key, []).append(one)
    return list(groups.values())


def _finding_lines(group: list[Finding], width: int) -> Iterator[str]:
    first = group[0]
    yield f"  {first.severity.upper()}  {printable(first.id)}"
    for one in group[:_EVIDENCE_SHOWN]:
        where = f"{one.node}: " if one.node else ""
        yield from _labelled("  seen   ", f"{where}{one.evidence}", width)
    if len(group) > _EVIDENCE_SHOWN:
        yield f"             and on {len(group) - _EVIDENCE_SHOWN} more nodes"
    yield from _labelled("  cause  ", first.cause, width)
    yield from _labelled("  then   ", first.consequence, width)
    yield from _labelled("  cure   ", first.cure, width)
    for command in first.commands:
        yield f"    run      {printable(command)}"
    yield from _labelled("  cost   ", render_cost(first.cost), width)


def render_cost(cost: Cost) -> str:
    """Return what a cure costs, in its own words, or else in numbers."""
    if cost.text:
        return cost.text
    parts = []
    if cost.rewritten_bytes:
        parts.append(f"{render_bytes(cost.rewritten_bytes)} rewritten")
    if cost.duration_s is not None and math.isfinite(cost.duration_s) and cost.duration_s >= 1:
        parts.append(f"about {render_duration(cost.duration_s)}")
    if cost.headroom_bytes:
        parts.append(f"{render_bytes(cost.headroom_bytes)} of free disk meanwhile")
    return "; ".join(parts) or "nothing"


def _node_lines(files: Sequence[FileVerdict]) -> Iterator[str]:
    """Yield one line a node where they differ in what is expired."""
    by_node: dict[str, list[FileVerdict]] = {}
    for file in files:
        by_node.setdefault(file.node, []).append(file)
    states = {node: _expired_of(some) for node, some in by_node.items()}
    if len(set(states.values())) < 2:
        return
    for node, (expired, kept) in sorted(states.items(), key=lambda item: (-item[1][1], item[0])):
        size = sum(file.data_bytes or 0 for file in by_node[node])
        yield (
            f"  node {printable(node)}: {render_count(len(by_node[node]), 'file')}, "
            f"{render_bytes(size)}; {expired:,} fully expired, {kept:,} of them kept by others"
        )


def _expired_of(files: Sequence[FileVerdict]) -> tuple[int, int]:
    expired = [file for file in files if file.is_fully_expired]
    return len(expired), sum(file.removable == "no" for file in expired)


def _unseen_lines(
    head: str, unseen: Sequence[str], width: int, *, indent: str = ""
) -> Iterator[str]:
    yield f"{indent}{head}:"
    for text in unseen[:_UNSEEN_SHOWN]:
        lead = f"{indent}  - "
        yield from textwrap.wrap(
            printable(text), width, initial_indent=lead, subsequent_indent=" " * len(lead)
        )
    if len(unseen) > _UNSEEN_SHOWN:
        yield f"{indent}  and {len(unseen) - _UNSEEN_SHOWN:,} more; --json has all"


def _labelled(label: str, text: str, width: int) -> list[str]:
    if not text:
        return []
    return textwrap.wrap(
        printable(text),
        max(width, 40),
        initial_indent=f"  {label}  ",
        subsequent_indent=" " * (len(label) + 4),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, max(width, 40), break_long_words=False, break_on_hyphens=False)
