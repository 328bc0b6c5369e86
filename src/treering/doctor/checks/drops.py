"""Check "drops": whole files really go, and where one does not, which file keeps it and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from treering.core.units import render_count
from treering.doctor.checks.blockers import find_blockers
from treering.doctor.checks.lifetimes import find_lifetimes
from treering.doctor.checks.misdated import find_misdated
from treering.doctor.checks.node_files import NodeFiles, judge_nodes, ttl_s_of, verdicts_of_node
from treering.doctor.checks.seen import BRINGS_OPTIONS, lacking_options, listed, why_files_hide
from treering.doctor.facts import TableFacts
from treering.doctor.finding import Checked, FileVerdict, Finding
from treering.doctor.thresholds import Thresholds

GRACE: Final = "gc_grace_seconds"


def verdicts_of(facts: TableFacts, thresholds: Thresholds) -> tuple[FileVerdict, ...]:
    """Return what becomes of every file that was seen, by node and then by window.

    Mirrors ``CompactionController.getFullyExpiredSSTables``, 3.11 to 5.0. A grace that nobody
    knows is taken for Cassandra's default of ten days.
    """
    del thresholds  # No verdict depends on one.
    return tuple(verdict for files in judge_nodes(facts) for verdict in verdicts_of_node(files))


def check_drops(facts: TableFacts, thresholds: Thresholds) -> Checked:
    """Return whether expired files leave the disk whole, and what keeps those that do not."""
    nodes = judge_nodes(facts, overdue_max_s=thresholds.overdue_max_s)
    findings: list[Finding] = []
    for files in nodes:
        findings += find_blockers(facts, files, thresholds)
        findings += find_misdated(facts, files, thresholds)
    found = find_lifetimes(facts, nodes, thresholds)
    # Where rows without a TTL keep files, they are the reason why those are still there.
    explained = {finding.node for finding in findings if finding.id == "no-ttl-blocks"}
    findings += [
        finding
        for finding in found
        if finding.id != "expired-not-reached" or finding.node not in explained
    ]
    unknown = why_unknown(facts)
    return Checked(
        check="drops",
        is_known=not unknown,
        findings=tuple(findings),
        summary=_summary(facts, nodes),
        unknown=unknown,
    )


def why_unknown(facts: TableFacts) -> str:
    """Return why drops cannot be told healthy, and what would tell; empty where they can."""
    reasons = []
    if lacking := lacking_options(facts.schema, GRACE, "default_time_to_live", "compaction"):
        judged = ", and files are judged with a grace of ten days" if GRACE in lacking else ""
        reasons.append(
            f"the table's options ({', '.join(lacking)}) are not known{judged}: give "
            f"{BRINGS_OPTIONS}"
        )
    if unseen := [node.node for node in facts.nodes if node.files is None]:
        reasons.append(
            f"the files of {listed(unseen)} were not seen: give the data folders or a bundle"
        )
    return "; ".join([*reasons, *why_files_hide(facts, "may keep others on disk")])


def _summary(facts: TableFacts, nodes: Sequence[NodeFiles]) -> str:
    if not nodes:
        return ""
    files = sum(len(node.files) for node in nodes)
    if not files:
        return "no file on disk yet"
    if ttl_s_of(facts) is None:
        them = "it" if files == 1 else "them"
        return f"{render_count(files, 'file')}, and nothing in {them} expires"
    expired = sum(sum(node.is_expired) for node in nodes)
    if not expired:
        return f"{render_count(files, 'file')}, none of them fully expired"
    removable = sum(sum(node.is_removable) for node in nodes)
    return (
        f"{render_count(files, 'file')}: {expired} fully expired, of which {removable} may go and "
        f"{expired - removable} are kept"
    )
