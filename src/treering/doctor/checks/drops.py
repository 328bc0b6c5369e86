"""Check "drops": whole files really go, and where one does not, which file keeps it and why."""

from __future__ import annotations

from collections.abc import Sequence

from treering.core.units import render_count
from treering.doctor.checks.blockers import find_blockers
from treering.doctor.checks.lifetimes import find_lifetimes
from treering.doctor.checks.misdated import find_misdated
from treering.doctor.checks.node_files import NodeFiles, judge_nodes, ttl_s_of, verdicts_of_node
from treering.doctor.facts import TableFacts
from treering.doctor.finding import Checked, FileVerdict, Finding
from treering.doctor.thresholds import Thresholds


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
    if facts.schema is None or facts.schema.options is None or facts.schema.gc_grace_s is None:
        reasons.append(
            "the table's options (gc_grace_seconds, compaction) are not known, and files are "
            "judged with a grace of ten days: give the cluster's URL as well"
        )
    if unseen := [node.node for node in facts.nodes if node.files is None]:
        reasons.append(
            f"the files of {_listed(unseen)} were not seen: give the data folders or a bundle"
        )
    if problems := sum(len(node.problems) for node in facts.nodes):
        reasons.append(
            f"{render_count(problems, 'file')} could not be read, and may keep others on disk"
        )
    return "; ".join(reasons)


def _listed(nodes: Sequence[str]) -> str:
    more = len(nodes) - 3
    return ", ".join(nodes[:3]) + (f" and {more} more" if more > 0 else "")


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
