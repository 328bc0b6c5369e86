"""Do reads touch few files? What nodes measured, and how many files each window holds.

Rules of this file: one file a window and state of repair is the aim; what compaction may still be
about to merge is left alone, and so are files that only wait to be dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from treering.core.expiry import gc_before_s
from treering.core.units import render_bytes, render_count
from treering.doctor.checks.budget import node_name
from treering.doctor.checks.commands import nodetool, rewrite_cost
from treering.doctor.checks.known import STCS, TWCS, live_bytes_of, ttl_s_of
from treering.doctor.checks.seen import (
    BRINGS_OPTIONS,
    lacking_options,
    of_nodes,
    why_files_hide,
    why_no_table,
)
from treering.doctor.checks.windows import NodeWindows, window_of, windows_of
from treering.doctor.facts import NodeFacts, TableFacts
from treering.doctor.finding import Checked, Cost, Finding
from treering.doctor.thresholds import Thresholds
from treering.sstable.facts import SSTableFacts

UNMERGED_MANY: Final = 3
"""So many windows are not a backlog of the moment."""


def check_sstables(facts: TableFacts, thresholds: Thresholds) -> Checked:
    """Return whether reads of a table touch few files."""
    windows = [
        found
        for node in facts.nodes
        if (found := windows_of(node, facts.schema, gc_before_s=_gc_before_s(facts, node)))
    ]
    is_stopped = ((None if facts.schema is None else facts.schema.compaction) or {}).get(
        "enabled", "true"
    ).strip().lower() == "false"
    findings = _many_per_read(facts, thresholds)
    # Where compaction is off, that is the finding, not what follows from it.
    if not is_stopped:
        findings += _not_merged(facts, thresholds, windows)
        findings += _too_many(facts, thresholds, windows)
    unknown = "; ".join(_why_unknown(facts))
    return Checked(
        check="sstables",
        is_known=not unknown,
        findings=tuple(findings),
        summary=_summary(facts, windows),
        unknown=unknown,
    )


def _why_unknown(facts: TableFacts) -> Iterator[str]:
    unmeasured = [node for node in facts.nodes if _reads_of(node) is None]
    if untold := [node for node in unmeasured if node.files is None]:
        where = of_nodes(facts, untold)
        if all(node.histograms is not None for node in untold):
            counted = f"no node has counted a read of it{where} since it started"
            yield f"{counted}: give the data folders"
        else:
            counted = f"nobody says how many files reads touch{where}"
            yield f"{counted}: give the data folders, or nodetool"
    lacking = lacking_options(facts.schema, "default_time_to_live", "compaction")
    if unmeasured and lacking:
        yield (
            "how many files there will be, and whether some wait to be merged, cannot be told: "
            f"the table's options ({', '.join(lacking)}) are not known: give {BRINGS_OPTIONS}"
        )
    yield from why_files_hide(facts, "may be more than one file of a window")
    yield from why_no_table(facts)


def _gc_before_s(facts: TableFacts, node: NodeFacts) -> int | None:
    grace_s = None if facts.schema is None else facts.schema.gc_grace_s
    return None if grace_s is None else gc_before_s(node.collected_at_s, grace_s)


# What nodes measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """How many files reads touched on one node."""

    node: NodeFacts
    p50: float | None
    p99: float
    max: float | None

    @property
    def text(self) -> str:
        """The numbers in words."""
        half = "" if self.p50 is None else f"half of the reads touch at most {self.p50:g}, "
        most = "" if self.max is None else f", the worst {self.max:g}"
        return f"{half}99 % at most {self.p99:g} files{most}"


def _reads_of(node: NodeFacts) -> Reads | None:
    if node.histograms is None:
        return None
    found = node.histograms.sstables_per_read
    # Without reads nodetool prints zeros; a read from the memtable alone touches none either.
    if found.p99 is None or not found.max:
        return None
    return Reads(node=node, p50=found.p50, p99=found.p99, max=found.max)


def _many_per_read(facts: TableFacts, thresholds: Thresholds) -> list[Finding]:
    reads = [found for node in facts.nodes if (found := _reads_of(node))]
    worst = max(reads, key=lambda found: found.p99, default=None)
    if worst is None or worst.p99 <= thresholds.sstables_per_read_max:
        return []
    return [
        Finding(
            id="many-sstables-per-read",
            check="sstables",
            severity="warning",
            table=facts.name,
            node=node_name(facts, worst.node),
            evidence=f"{worst.text}: more than {thresholds.sstables_per_read_max:,}",
            cause="the partition that is read lies in many files: it spans many windows, arrives "
            "late and in pieces, or compaction does not keep up",
            consequence="each file costs an index look-up and a seek, so slow reads get slower "
            "with every further file",
            cure="look at the findings on windows and partitions first; then keep a bucket no "
            "wider than a few windows, and let compaction keep up (nodetool compactionstats)",
            commands=("nodetool compactionstats", nodetool("tablehistograms", facts)),
            cost=Cost(text="looking costs nothing"),
            facts={
                "sstables_per_read_p50": worst.p50,
                "sstables_per_read_p99": worst.p99,
                "sstables_per_read_max": worst.max,
            },
        )
    ]


# Files of windows


def _not_merged(
    facts: TableFacts, thresholds: Thresholds, windows: list[NodeWindows]
) -> list[Finding]:
    worst = max(windows, key=lambda one: len(one.unmerged()), default=None)
    left = {} if worst is None else worst.unmerged()
    if worst is None or not left:
        return []
    (start_s, state), files = max(left.items(), key=lambda item: len(item[1]))
    size = sum(file.data_bytes or 0 for group in left.values() for file in group)
    late = sum(_holds_older(file, start_s) for group in left.values() for file in group)
    return [
        Finding(
            id="windows-not-merged",
            check="sstables",
            severity="warning" if len(left) >= UNMERGED_MANY else "notice",
            table=facts.name,
            node=node_name(facts, worst.node),
            evidence=f"{render_count(len(left), 'past window has', 'past windows have')} more "
            f"than one file in one state of repair, for over an hour; the worst, "
            f"{_start_text(start_s)}, has {len(files):,} {state.partition(' in ')[0]} files",
            cause=_why_not_merged(late),
            consequence="a partition of that time is read from every one of these files, and each "
            "keeps its own index and bloom filter in memory",
            cure="see whether compactions wait (nodetool compactionstats) or are switched off "
            "(nodetool statusautocompaction), and let them run; do not compact the whole table, "
            "which would merge all windows into one file",
            commands=(
                "nodetool compactionstats",
                nodetool("statusautocompaction", facts),
                nodetool("enableautocompaction", facts),
            ),
            cost=rewrite_cost(
                facts, thresholds, what="what these windows hold", rewritten_bytes=size or None
            ),
            facts={"windows": len(left), "files_max": len(files), "window_start_s": start_s},
            impact_bytes=size,
        )
    ]


def _holds_older(file: SSTableFacts, start_s: int) -> bool:
    return file.min_write_us is not None and file.min_write_us < start_s * 1_000_000


def _why_not_merged(late: int) -> str:
    cause = "compaction has not merged them: it waits behind others, is throttled or switched off"
    if late:
        cause += (
            f"; {render_count(late, 'of the files holds', 'of the files hold')} writes from before "
            "its window, which repair, hints or read repair bring"
        )
    return cause


def _start_text(start_s: int) -> str:
    if -2 * 10**11 < start_s < 2 * 10**11:
        return f"that from {np.datetime64(start_s, 's')}Z"
    return f"that from second {start_s:,}"


def _too_many(
    facts: TableFacts, thresholds: Thresholds, windows: list[NodeWindows]
) -> list[Finding]:
    found = max(
        (
            one
            for node in facts.nodes
            if (one := _excess_of(facts, node, windows, thresholds)) is not None
        ),
        key=lambda one: one.files,
        default=None,
    )
    if found is None:
        return []
    return [
        Finding(
            id="too-many-files",
            check="sstables",
            severity="warning",
            table=facts.name,
            node=node_name(facts, found.node),
            evidence=f"{found.files:,} files {found.where}, where up to {found.expected:,} are "
            f"usual; the table has {render_bytes(live_bytes_of(facts))}",
            cause="more files arrive than compaction merges: flushes are small (memory, the "
            "commit log's limit or a flush period), or compaction is throttled or stuck",
            consequence="reads touch more files every day, and the backlog takes the longer the "
            "later it is worked off",
            cure="raise the compaction throughput while the disks bear it, look for what makes "
            "flushes small, and watch pending compactions go down",
            commands=(
                "nodetool compactionstats",
                "nodetool getcompactionthroughput",
                nodetool("statusautocompaction", facts),
            ),
            cost=rewrite_cost(facts, thresholds, what="the backlog, at most the table"),
            facts={"files": found.files, "files_expected": found.expected},
            impact_bytes=live_bytes_of(facts),
        )
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """More files than a strategy has by design."""

    node: NodeFacts
    files: int
    expected: int
    where: str


def _excess_of(
    facts: TableFacts, node: NodeFacts, windows: list[NodeWindows], thresholds: Thresholds
) -> Excess | None:
    strategy = None if facts.schema is None else facts.schema.strategy
    if strategy == TWCS:
        found = next((one for one in windows if one.node is node), None)
        return _excess_of_windows(facts, node, found, thresholds.files_per_window_max)
    # LCS and UCS cut their output to a size: their number of files says nothing.
    if strategy != STCS:
        return None
    count, most = _count_of(node), thresholds.files_in_tiers_max
    if count is None or count <= most:
        return None
    return Excess(node=node, files=count, expected=most, where="in tiers of size")


def _excess_of_windows(
    facts: TableFacts, node: NodeFacts, found: NodeWindows | None, most: int
) -> Excess | None:
    if found is not None:
        # Past windows are the matter of another finding.
        current = [files for (start, _), files in found.groups.items() if start == found.current_s]
        count = max((len(files) for files in current), default=0)
        if count <= most:
            return None
        return Excess(node=node, files=count, expected=most, where="in the current window")
    total = _count_of(node)
    expected = _expected_files(facts, most)
    if total is None or expected is None or total <= expected:
        return None
    return Excess(node=node, files=total, expected=expected, where="on the node")


def _expected_files(facts: TableFacts, most: int) -> int | None:
    """Return how many files a TWCS table may have: one a window in two states, and the newest."""
    ttl_s = ttl_s_of(facts)
    if ttl_s is None or facts.schema is None:
        return None
    window = window_of(facts.schema, ttl_s + (facts.schema.gc_grace_s or 0))
    return None if window is None else 2 * (window.count + 1) + most


def _count_of(node: NodeFacts) -> int | None:
    if node.files is not None:
        return len(node.files)
    return None if node.stats is None else node.stats.sstable_count


def _summary(facts: TableFacts, windows: list[NodeWindows]) -> str:
    parts = []
    reads = [found for node in facts.nodes if (found := _reads_of(node))]
    if reads:
        parts.append(max(reads, key=lambda found: found.p99).text)
    counts = [count for node in facts.nodes if (count := _count_of(node)) is not None]
    if counts:
        files = render_count(max(counts), "file")
        spread = max((len(one.starts) for one in windows), default=0)
        live = max((sum(map(len, one.groups.values())) for one in windows), default=0)
        windowed = f" in {render_count(spread, 'window')}" if spread else ""
        if windowed and live < max(counts):
            windowed = f", {live:,} of them not fully expired,{windowed}"
        parts.append(files + windowed + (" on the fullest node" if len(counts) > 1 else ""))
    return "; ".join(parts) or "files are not known"
