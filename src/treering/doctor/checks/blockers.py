"""Findings on files that keep other files on disk: which, by what, until when, and what helps.

Rules of this file: a blocker is a finding only where some file waits longer for it than any file
does in a healthy table; rows that never expire are one always, since every later file will wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from treering.core.times import render_instant
from treering.core.units import render_bytes, render_count, render_duration
from treering.doctor.checks.commands import FREE, alter_table, nodetool, rewrite_cost
from treering.doctor.checks.known import hint_window_s_of, major_of
from treering.doctor.checks.node_files import NodeFiles
from treering.doctor.checks.release import freed_soon
from treering.doctor.checks.wording import amount, from_now, names, until
from treering.doctor.checks.write_times import Cause, Origin, causes_of, origin_of, read_repair_of
from treering.doctor.facts import TableFacts
from treering.doctor.finding import Finding
from treering.doctor.thresholds import Thresholds

AGGRESSIVE: Final = (
    "Where the disk cannot wait: unsafe_aggressive_sstable_expiration = true drops expired files "
    "whatever they overlap; it needs -Dcassandra.allow_unsafe_aggressive_sstable_expiration=true "
    "on every node, and brings deleted or overwritten rows back if there are any"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What the files of one cause keep on disk.

    Attributes:
        by: The files of the cause that keep others, or all of them where none does.
        delayed: The files that wait for them beyond what is usual.
        now: Those of them that are fully expired now.
        until_s: When the last of them may go; None for never.
    """

    by: tuple[int, ...]
    delayed: tuple[int, ...]
    now: tuple[int, ...]
    until_s: int | None


def held_by(files: NodeFiles, some: Sequence[int]) -> Held:
    """Return what some files keep on disk longer than is usual."""
    held_s = files.lives.held_until_s(files.rules, files.mask(some))
    slack_s = files.slack_s()
    delayed = tuple(
        index
        for index, until_s in enumerate(held_s)
        if (due_s := files.due_s(index)) is not None
        and (until_s is None or until_s > due_s + slack_s)
    )
    if files.rules.ignores_overlaps:
        delayed = ()
    ends = [held_s[index] for index in delayed]
    return Held(
        by=tuple(some),
        delayed=delayed,
        now=tuple(i for i in delayed if files.is_expired[i] and not files.is_removable[i]),
        until_s=None if None in ends else max((end for end in ends if end is not None), default=0),
    )


def find_blockers(facts: TableFacts, files: NodeFiles, thresholds: Thresholds) -> list[Finding]:
    """Return the findings on one node's files that keep others, a finding a cause."""
    causes = causes_of(files, thresholds)
    by_cause: dict[Cause | None, list[int]] = {}
    for index, cause in enumerate(causes):
        by_cause.setdefault(cause, []).append(index)
    found = []
    if some := by_cause.get("no-ttl"):
        found.append(_no_ttl(facts, files, thresholds, held_by(files, some)))
    if some := by_cause.get("merged"):
        found.append(_merged(facts, files, held_by(files, some)))
    if some := by_cause.get("old-write"):
        found.append(_old_write(facts, files, held_by(files, some)))
    return [finding for finding in found if finding is not None]


def _no_ttl(
    facts: TableFacts, files: NodeFiles, thresholds: Thresholds, held: Held
) -> Finding | None:
    """Return the finding on rows that never expire in a table whose rows do."""
    if files.twcs is None and not held.now:
        return None  # No window waits for them, and compactions purge what lies around them.
    later = sum(
        file.min_write_us is not None and _oldest(files, held.by) <= (file.max_write_us or 0)
        for index, file in enumerate(files.files)
        if index not in held.by
    )
    if held.now:
        seen = f"they keep {amount(files, held.now)} of fully expired data on disk"
    else:
        seen = f"nothing has expired yet; they will keep {render_count(later, 'other file')} and "
        seen += "all files to come"
    never_had = all(files.files[index].max_ttl_s == 0 for index in held.by)
    default_s = None if facts.schema is None else facts.schema.default_ttl_s
    has_none = render_count(len(held.by), "file has", "files have")
    commands = [nodetool("flush", facts), nodetool("garbagecollect", facts, "-g", "CELL")]
    if default_s == 0 and files.ttl_s is not None:
        commands.insert(0, alter_table(facts, default_time_to_live=str(files.ttl_s)))
    return Finding(
        id="no-ttl-blocks",
        check="drops",
        severity="critical" if held.now else "warning",
        table=facts.name,
        node=files.node.node,
        evidence=f"{has_none} rows without a TTL ({names(files, held.by)}); {seen}",
        cause=_why_no_ttl(default_s, never_had=never_had),
        consequence="a file with a row that never expires never goes, and keeps every file with "
        "write times as new as its oldest on disk for ever: the table grows without end",
        cure="stop the writer that sends no TTL; find its rows (sstabledump FILE shows cells "
        "without a ttl), delete them or write them again with a TTL, then flush and garbagecollect "
        "so that the files are written again without them. Risk: what is deleted is gone; the "
        "rewriting competes with reads and writes",
        commands=tuple(commands),
        cost=rewrite_cost(
            facts,
            thresholds,
            what="the table on this node",
            rewritten_bytes=files.data_bytes,
        ),
        facts=_facts(files, held) | {"freed_bytes": freed_soon(files, cured=held.by)},
        impact_bytes=files.bytes_of(tuple({*held.now, *held.by})),
    )


def _why_no_ttl(default_s: int | None, *, never_had: bool) -> str:
    if default_s == 0:
        return "the table has no default TTL, and some rows were written without one of their own"
    if never_had:
        return (
            "no row in these files has a TTL: they were written before the table had a default "
            "TTL (ALTER TABLE does not reach rows that are there), or by a writer that sends "
            "USING TTL 0 or a null TTL, which both mean never"
        )
    return (
        "a writer sends USING TTL 0 or a null TTL, which both mean never and override the table's "
        "default; or rows are older than that default"
    )


def _merged(facts: TableFacts, files: NodeFiles, held: Held) -> Finding:
    widest = max(held.by, key=lambda index: files.span_s(files.files[index]))
    file = files.files[widest]
    windows = files.span_s(file) // files.window_s + 1
    size = files.bytes_of(held.by)
    at_s = files.removable_at_s[widest]
    leaves = "never leaves" if at_s is None else f"leaves in {from_now(files, at_s)}"
    one = len(held.by) == 1
    spans, it = ("spans", "it") if one else ("span up to", "the widest")
    hints_s = hint_window_s_of(facts) or 0
    # Where a window is a few minutes, an outage may bring as many of them at once.
    hinted = ", or the hints of an outage" if files.span_s(file) <= hints_s else ""
    also = f"; it keeps {amount(files, held.delayed)} waiting" if held.delayed else ""
    return Finding(
        id="major-compaction",
        check="drops",
        severity="warning",
        table=facts.name,
        node=files.node.node,
        evidence=f"{names(files, held.by)} ({render_bytes(size)}) {spans} {windows} windows of "
        f"{files.window}, {render_duration(files.span_s(file))}; {it} {leaves}{also}",
        cause="a major compaction (nodetool compact), a table that had another strategy before "
        f"TWCS, a memtable that was flushed as rarely{hinted}: all these windows are in one file, "
        "which counts as one of the newest",
        consequence="its oldest rows stay until its newest have expired, nearly twice as long as "
        "they should; disk is freed in one step then, and at the most holds two retentions",
        cure="wait; do not run nodetool compact on TWCS, and leave the table out of jobs that do. "
        f"No compaction splits the file again. {AGGRESSIVE}",
        commands=(),
        cost=replace(FREE, text=f"{render_bytes(size)} of disk until then; nothing is rewritten"),
        facts=_facts(files, held) | {"windows": windows},
        impact_bytes=size,
    )


def _old_write(facts: TableFacts, files: NodeFiles, held: Held) -> Finding | None:
    if not held.delayed:
        return None  # It goes with its neighbours, or before any file that it could keep.
    worst = max(held.by, key=lambda index: files.span_s(files.files[index]))
    file = files.files[worst]
    holds = "holds" if len(held.by) == 1 else "hold"
    origin, why = origin_of(facts, files, file)
    assert file.min_write_us is not None
    return Finding(
        id="old-write-blocks",
        check="drops",
        severity="warning",
        table=facts.name,
        node=files.node.node,
        evidence=f"{names(files, held.by)} {holds} a write time of "
        f"{render_instant(files.seconds_of(file.min_write_us))}, "
        f"{render_duration(_age_s(files, worst))} before the file; {_waiting(files, held)}",
        cause=f"most likely {_ORIGINS[origin]}: {why}",
        consequence="a file may only go when nothing that lives holds a write time as old as its "
        f"newest: what was written since then waits until {until(held.until_s)}",
        cure=f"{_prevention(facts, origin)}. What is held goes by itself when the blocker has "
        f"expired. {AGGRESSIVE}",
        commands=_against_read_repair(facts) if origin in ("read repair", "hint") else (),
        cost=replace(FREE, text="nothing is rewritten; disk stays held until then"),
        facts=_facts(files, held) | {"origin": origin},
        impact_bytes=files.bytes_of(held.delayed),
    )


_ORIGINS: Final[dict[Origin, str]] = {
    "back-dated": "a back-dated write",
    "repair": "a repair or another stream",
    "read repair": "read repair",
    "hint": "a hint, delivered after a node was away",
    "unknown": "a back-dated write",
}
_PREVENTION: Final[dict[Origin, str]] = {
    "back-dated": "write with ordinary write times and the TTL that remains; keep imports with "
    "old write times in a table that takes no other writes",
    "repair": "flush the table on all replicas before a repair, so that none streams a file of "
    "many windows, and leave whole-file drops a while after it",
    "read repair": "switch read repair off on this append-only table (risk: of two quorum reads "
    "in a row the second may miss a write that one replica alone has)",
    "hint": "nothing needs to be done where it happens rarely",
    "unknown": "look for writers that send a time of their own (USING TIMESTAMP, or a driver's "
    "timestamp generator on a machine whose clock is wrong)",
}


_READS_AS_WELL: Final = (
    "; switching read repair off keeps reads from doing the same (risk: of two quorum reads in a "
    "row the second may miss a write that one replica alone has)"
)


def _prevention(facts: TableFacts, origin: Origin) -> str:
    reads, _ = read_repair_of(facts)
    return _PREVENTION[origin] + (_READS_AS_WELL if origin == "hint" and reads else "")


def _against_read_repair(facts: TableFacts) -> tuple[str, ...]:
    options = (None if facts.schema is None else facts.schema.options) or {}
    if "read_repair" in options:
        is_off = str(options["read_repair"]).upper() == "NONE"
        return () if is_off else (alter_table(facts, read_repair="'NONE'"),)
    if (major_of(facts) or 4) < 4 or "read_repair_chance" in options:
        if not options.get("read_repair_chance") and not options.get("dclocal_read_repair_chance"):
            return ()
        off = {"read_repair_chance": "0.0", "dclocal_read_repair_chance": "0.0"}
        return (alter_table(facts, **off),)
    return (alter_table(facts, read_repair="'NONE'"),)


def _waiting(files: NodeFiles, held: Held) -> str:
    keeps = "it keeps" if len(held.by) == 1 else "they keep"
    text = f"{keeps} {amount(files, held.delayed)} beyond their time"
    if held.now:
        text += f", {amount(files, held.now)} of them fully expired now"
    return text


def _oldest(files: NodeFiles, some: Sequence[int]) -> int:
    times = [files.files[index].min_write_us for index in some]
    return min(time for time in times if time is not None)


def _age_s(files: NodeFiles, index: int) -> int:
    """Return how long before the file's own time its oldest write time is."""
    file = files.files[index]
    oldest_s = files.seconds_of(file.min_write_us or 0)
    written_s = files.now_s if file.mtime_s is None else min(file.mtime_s, files.now_s)
    return max(files.span_s(file), written_s - oldest_s)


def _facts(files: NodeFiles, held: Held) -> dict[str, Any]:
    return {
        "blockers": [files.files[index].path for index in held.by],
        "delayed_files": len(held.delayed),
        "delayed_bytes": files.bytes_of(held.delayed),
        "blocked_files": len(held.now),
        "blocked_bytes": files.bytes_of(held.now),
        "until_s": held.until_s,
    }
