"""Check "disk": expired bytes leave on schedule, and nothing else holds them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from treering.core.choices import appended_grace_s
from treering.core.removable import RemovalRules
from treering.core.times import render_instant
from treering.core.units import render_bytes, render_count, render_duration
from treering.doctor.checks.drops import why_unknown
from treering.doctor.checks.expired import grace_of, overdue_bytes
from treering.doctor.checks.node_files import NodeFiles, judge_nodes, ttl_s_of
from treering.doctor.checks.release import Curve, plan_release
from treering.doctor.checks.seen import is_of_copies, listed
from treering.doctor.checks.write_times import causes_of
from treering.doctor.facts import NodeFacts, TableFacts
from treering.doctor.finding import Checked, Cost, Finding
from treering.doctor.thresholds import Thresholds

_NAMED: Final = 3
POINTS_MAX: Final = 200
"""The most points of a predicted curve that a finding carries."""


def check_disk(facts: TableFacts, thresholds: Thresholds) -> Checked:
    """Return whether disk comes back as lifetime, grace and windows say it should."""
    nodes = judge_nodes(facts, overdue_max_s=thresholds.overdue_max_s)
    found = [_held(facts, files, thresholds) for files in nodes]
    found += [_snapshots(facts, node, thresholds) for node in facts.nodes]
    unknown = "; ".join(filter(None, [why_unknown(facts), *_why_unknown(facts)]))
    return Checked(
        check="disk",
        is_known=not unknown,
        findings=tuple(finding for finding in found if finding is not None),
        summary=_summary(facts, nodes),
        unknown=unknown,
    )


def _why_unknown(facts: TableFacts) -> Iterator[str]:
    if sizeless := sum(
        file.data_bytes is None for node in facts.nodes for file in node.files or ()
    ):
        yield f"the size of {render_count(sizeless, 'file')} is not known"
    copies = [one for node in facts.nodes for one in node.problems if is_of_copies(one)]
    if copies:
        paths = listed([one.path for one in copies])
        yield f"{paths} could not be read, and may hold dropped files"


def _held(facts: TableFacts, files: NodeFiles, thresholds: Thresholds) -> Finding | None:
    if files.ttl_s is None or facts.schema is None or facts.schema.gc_grace_s is None:
        return None
    # What may go from a node that does not run goes when it runs again: nothing holds it.
    goes = files.is_removable if files.node.is_memtable_known else (False,) * len(files.files)
    late = sum(overdue_bytes(files, index) for index, leaves in enumerate(goes) if not leaves)
    total = files.data_bytes
    if not total or late <= thresholds.expired_bytes_ratio_max * total:
        return None
    now = plan_release(files)
    allowed_s = files.ttl_s + files.rules.gc_grace_s + grace_of(files)
    return Finding(
        id="expired-bytes-held",
        check="disk",
        # What keeps them is a finding of the check "drops", and no worse for being counted here.
        severity="notice",
        table=facts.name,
        node=files.node.node,
        evidence=f"about {render_bytes(late)} of {render_bytes(total)} "
        f"({100 * late / total:.0f} %) are older than TTL, grace and windows allow, "
        f"{render_duration(allowed_s)}; {_next(files, now)}",
        cause="what the check of whole-file drops found on this table",
        consequence="the disk follows a staircase and no sawtooth: it grows until what keeps the "
        "files is gone",
        cure="see the other findings on this table; --json has the curves of what leaves when, as "
        "things are and after each cure, among this finding's facts",
        cost=Cost(text="that of the cure"),
        facts={
            "expired_bytes": late,
            "total_bytes": total,
            "release": _points(now),
            "release_after": {
                name: _points(curve) for name, curve in cures_of(files, thresholds).items()
            },
        },
        impact_bytes=late,
    )


def cures_of(files: NodeFiles, thresholds: Thresholds) -> dict[str, Curve]:
    """Return the curve after each cure that changes it, by the finding that it cures.

    ``aggressive`` is the curve with ``unsafe_aggressive_sstable_expiration`` in effect.
    """
    now = plan_release(files)
    causes = causes_of(files, thresholds)
    no_ttl = [index for index, cause in enumerate(causes) if cause == "no-ttl"]
    other: dict[str, RemovalRules] = {
        "only-purge-repaired": replace(files.rules, only_purge_repaired=False),
        "aggressive": replace(files.rules, ignores_overlaps=True),
    }
    if files.ttl_s is not None:
        grace_s = min(files.rules.gc_grace_s, appended_grace_s(files.ttl_s))
        other["long-grace"] = replace(files.rules, gc_grace_s=grace_s)
    curves = {name: plan_release(files, rules=rules) for name, rules in other.items()}
    if no_ttl:
        curves["no-ttl-blocks"] = plan_release(files, cured=no_ttl)
    return {name: curve for name, curve in curves.items() if curve != now}


def _points(curve: Curve) -> list[list[int]]:
    """Return a curve for programs, thinned to a bounded number of points; the ends stay."""
    step = max(-(-len(curve) // POINTS_MAX), 1)
    kept = [*curve[:-1][::step], curve[-1]]
    return [[at_s, left] for at_s, left in kept]


def _next(files: NodeFiles, curve: Curve) -> str:
    if not files.has_look:
        return "it leaves when compactions take these files, which nobody can foretell"
    if len(curve) == 1:
        return "nothing of it leaves as things are"
    at_s, left = curve[1]
    text = f"{render_bytes(curve[0][1] - left)} leave by {render_instant(at_s)}"
    if len(curve) > 2:
        text += f", {render_bytes(curve[0][1] - curve[-1][1])} by {render_instant(curve[-1][0])}"
    return text + (f", {render_bytes(curve[-1][1])} never" if curve[-1][1] else "")


def _snapshots(facts: TableFacts, node: NodeFacts, thresholds: Thresholds) -> Finding | None:
    holding = sorted(
        (snapshot for snapshot in node.snapshots or () if snapshot.dropped_bytes),
        key=lambda snapshot: -snapshot.dropped_bytes,
    )
    size = sum(snapshot.dropped_bytes for snapshot in holding)
    if node.snapshots is None:
        size = (node.stats.snapshot_bytes if node.stats is not None else None) or 0
    live = _live_bytes(node)
    share = size / max(size + live, 1)
    # A backup that is taken and cleared in turn always holds a little.
    if share <= thresholds.expired_bytes_ratio_max / 4:
        return None
    # One of several data folders has a part of it in each.
    tags = list(dict.fromkeys(snapshot.name for snapshot in holding))
    more = len(tags) - _NAMED
    listed = ", ".join(tags[:_NAMED]) + (f" and {more} more" if more > 0 else "")
    count = render_count(len(tags), "snapshot") if tags else "snapshots"
    return Finding(
        id="snapshots-hold-files",
        check="disk",
        severity="warning" if share > thresholds.expired_bytes_ratio_max else "notice",
        table=facts.name,
        node=node.node,
        evidence=f"{count} hold{'s' if len(tags) == 1 else ''} {render_bytes(size)} of files "
        f"that the table has dropped, beside {render_bytes(live)} of live ones"
        + (f": {listed}" if listed else ""),
        cause="a snapshot links to the files of its day, and a file leaves the disk with its last "
        "link; DROP and TRUNCATE take one by themselves (auto_snapshot)",
        consequence="the table's own size falls as it should and the disk does not: df says "
        "nothing about expiry here",
        cure="clear the snapshots that no backup needs. Risk: they are gone for good; the name may "
        "be shared by other tables of the keyspace",
        commands=(
            "nodetool listsnapshots",
            *(
                f"nodetool clearsnapshot -t {shlex.quote(tag)} -- {shlex.quote(facts.keyspace)}"
                for tag in tags[:_NAMED]
            ),
        ),
        cost=Cost(text=f"nothing is rewritten; {render_bytes(size)} come back at once"),
        facts={"snapshot_bytes": size, "snapshots": tags},
        impact_bytes=size,
    )


def _live_bytes(node: NodeFacts) -> int:
    """Return the bytes of live files with all their components, as snapshots are counted too."""
    if node.files is not None:
        return sum(file.disk_bytes or file.data_bytes or 0 for file in node.files)
    if node.stats is None:
        return 0
    return node.stats.live_bytes or node.stats.total_bytes or 0


def _summary(facts: TableFacts, nodes: Sequence[NodeFiles]) -> str:
    if not nodes:
        return ""
    total = sum(files.data_bytes for files in nodes)
    if not any(files.files for files in nodes):
        return "nothing on disk yet"
    if ttl_s_of(facts) is None:
        return f"{render_bytes(total)}, and nothing of it expires"
    late = sum(overdue_bytes(files, index) for files in nodes for index in range(len(files.files)))
    text = f"{render_bytes(total)}, {render_bytes(late)} of it older than the schedule allows"
    moments: list[Any] = [
        point[0] for files in nodes if files.has_look for point in plan_release(files)[1:2]
    ]
    if moments:
        text += f"; the next file goes by {render_instant(min(moments))}"
    return text
