"""Findings on options that keep expired rows: grace, repaired-only purging, other strategies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from treering.core.choices import appended_grace_s
from treering.core.times import render_instant
from treering.core.units import HOUR_S, render_bytes, render_count, render_duration
from treering.core.window import plan_window
from treering.doctor.checks.commands import (
    FREE,
    alter_compaction,
    alter_table,
    nodetool,
    rewrite_cost,
)
from treering.doctor.checks.expired import expired_share, grace_of, overdue_bytes
from treering.doctor.checks.key_shape import key_shape_of
from treering.doctor.checks.known import (
    STCS,
    TWCS,
    design_in_comment,
    has_deletes,
    hint_window_s_of,
)
from treering.doctor.checks.lint_repair import read_repair_off
from treering.doctor.checks.node_files import NodeFiles, is_true, rules_of, ttl_s_of
from treering.doctor.checks.release import freed_soon
from treering.doctor.checks.wording import amount, names
from treering.doctor.facts import TableFacts
from treering.doctor.finding import Cost, Finding
from treering.doctor.thresholds import Thresholds

RATIO_SAYS: Final = (
    "the tombstone ratio counts row markers and cells above the line and cells alone below, so it "
    "reaches 2 and is no share of the disk"
)

OFF_TOO: Final = "; read repair, which would write old rows into new windows, goes off with it"


def find_lifetimes(
    facts: TableFacts, nodes: Sequence[NodeFiles], thresholds: Thresholds
) -> list[Finding]:
    """Return the findings on a table's options that keep expired rows on disk."""
    if ttl_s_of(facts) is None or facts.schema is None or facts.schema.options is None:
        return []
    found = [_long_grace(facts, nodes, thresholds), _only_repaired(facts, nodes, thresholds)]
    if facts.schema.strategy == STCS and design_in_comment(facts) is None:
        found.append(_size_tiered(facts, nodes, thresholds))
    elif facts.schema.strategy == TWCS:
        found += [_left_behind(facts, files) for files in nodes]
    else:
        found += [_not_reached(facts, files, thresholds) for files in nodes]
        found += [_left_behind(facts, files) for files in nodes if files.has_look]
    return [finding for finding in found if finding is not None]


def _long_grace(
    facts: TableFacts, nodes: Sequence[NodeFiles], thresholds: Thresholds
) -> Finding | None:
    assert facts.schema is not None
    ttl_s, grace_s = ttl_s_of(facts), facts.schema.gc_grace_s
    design = design_in_comment(facts)
    is_append_only = not has_deletes(facts) and (design is None or design.workload.is_append_only)
    if ttl_s is None or grace_s is None or not is_append_only:
        return None
    enough_s = max(appended_grace_s(ttl_s), hint_window_s_of(facts) or 0)
    window_s = max((files.window_s for files in nodes), default=0)
    held_s = ttl_s + grace_s + window_s
    if grace_s - enough_s <= thresholds.expired_bytes_ratio_max * held_s:
        return None
    size = sum(_waiting_bytes(files) for files in nodes)
    cured = replace(rules_of(facts.schema), gc_grace_s=enough_s)
    freed = sum(freed_soon(files, rules=cured) for files in nodes)
    now = f"; {render_bytes(size)} are expired and wait for it now" if size else ""
    return Finding(
        id="long-grace",
        check="drops",
        severity="warning",
        table=facts.name,
        evidence=f"gc_grace_seconds is {render_duration(grace_s)} on a TTL of "
        f"{render_duration(ttl_s)}: of {render_duration(held_s)} of rows on disk "
        f"{100 * grace_s / held_s:.0f} % have expired{now}",
        cause="a grace is made for deletes, which must reach every replica by repair before they "
        "are purged. Rows that only expire do so on every replica by themselves",
        consequence=f"every row stays {render_duration(grace_s)} on disk after it has expired",
        cure=f"a table that is only appended to needs a grace above the hint window: "
        f"{render_duration(enough_s)}. Risk: if rows are deleted or written again, a delete that "
        "did not reach a replica within the grace comes undone; keep it above the repair interval "
        "then",
        commands=(alter_table(facts, gc_grace_seconds=str(enough_s)),),
        cost=replace(
            FREE,
            text=f"nothing is rewritten; about {render_bytes(freed)} leave at the "
            "next looks for expired files",
        )
        if freed
        else FREE,
        facts={"gc_grace_s": grace_s, "ttl_s": ttl_s, "enough_s": enough_s, "freed_bytes": freed},
        impact_bytes=size,
    )


def _waiting_bytes(files: NodeFiles) -> int:
    """Return about how many bytes have expired and wait for their grace."""
    return sum(
        int(
            (file.data_bytes or 0)
            * (expired_share(file, files.now_s) - expired_share(file, files.gc_before_s))
        )
        for file in files.files
    )


def _only_repaired(
    facts: TableFacts, nodes: Sequence[NodeFiles], thresholds: Thresholds
) -> Finding | None:
    assert facts.schema is not None
    if not is_true((facts.schema.compaction or {}).get("only_purge_repaired_tombstones")):
        return None
    files = sum(len(node.files) for node in nodes)
    unrepaired = {
        id(node): [i for i, file in enumerate(node.files) if file.repaired_at_ms is None]
        for node in nodes
    }
    expired = {
        key: [i for i in some if node.is_expired[i]]
        for node, (key, some) in zip(nodes, unrepaired.items(), strict=True)
    }
    waiting = sum(map(len, unrepaired.values()))
    if not waiting or (not any(expired.values()) and waiting < files):
        return None  # What is expired was repaired in time.
    held = sum(node.bytes_of(expired[id(node)]) for node in nodes)
    count = sum(map(len, expired.values()))
    total = max(sum(node.data_bytes for node in nodes), 1)
    seen = (
        f"{render_count(count, 'of them has', 'of them have')} fully expired ({render_bytes(held)})"
    )
    return Finding(
        id="only-purge-repaired",
        check="drops",
        severity="critical" if held > thresholds.expired_bytes_ratio_max * total else "warning",
        table=facts.name,
        evidence=f"only_purge_repaired_tombstones is true, and {waiting} of "
        f"{render_count(files, 'file')} are not repaired; {seen}",
        cause="with this option nothing expired is purged, and no expired file is dropped, until "
        "an incremental repair has marked the file as repaired",
        consequence="without incremental repairs nothing ever leaves: the table grows without end",
        cure="switch the option off on a table that is only appended to and expires by TTL, where "
        "a purge can bring nothing back; or run incremental repairs within every TTL. Risk: with "
        "deletes the option protects replicas that missed one",
        commands=alter_compaction(facts, without=("only_purge_repaired_tombstones",)),
        cost=replace(FREE, text=f"nothing is rewritten; up to {render_bytes(held)} leave"),
        facts={"unrepaired_files": waiting, "expired_files": count, "expired_bytes": held},
        impact_bytes=held,
    )


def _size_tiered(
    facts: TableFacts, nodes: Sequence[NodeFiles], thresholds: Thresholds
) -> Finding | None:
    assert facts.schema is not None
    total = sum(files.data_bytes for files in nodes)
    expired = sum(
        int((file.data_bytes or 0) * expired_share(file, files.gc_before_s))
        for files in nodes
        for file in files.files
    )
    ratios = [node.stats.droppable_ratio for node in facts.nodes if node.stats is not None]
    ratio = max((ratio for ratio in ratios if ratio is not None), default=None)
    share = expired / total if total else 0.0
    is_much = max(share, ratio or 0.0) > thresholds.expired_bytes_ratio_max
    is_series = key_shape_of(facts).shape != "not a series"
    if not is_much and not (facts.schema.default_ttl_s and is_series):
        return None
    seen = []
    if total:
        seen.append(
            f"{render_bytes(expired)} of {render_bytes(total)} ({100 * share:.0f} %) have expired "
            "past grace"
        )
    if ratio:
        seen.append(f"the droppable tombstone ratio is {ratio:.3g} ({RATIO_SAYS})")
    ttl_s = ttl_s_of(facts) or 0
    window = plan_window(ttl_s)
    off = read_repair_off(facts)
    windows: dict[str, str] = {
        "class": TWCS,
        "compaction_window_unit": window.unit,
        "compaction_window_size": str(window.size),
    }
    return Finding(
        id="stcs-with-ttl",
        check="drops",
        severity="warning" if is_much else "notice",
        table=facts.name,
        evidence=f"SizeTieredCompactionStrategy with a TTL of {render_duration(ttl_s)}: "
        + ("; ".join(seen) or "no file and no statistics were seen"),
        cause="STCS merges files of like size, so old and new rows share a file; expired rows "
        "leave only when a compaction happens to rewrite their file, and a large file waits for "
        "three others of its size",
        consequence="the more a table grows, the longer its largest files wait: expired rows stay "
        "on disk and are read over, and a compaction of the largest needs as much free disk again",
        cure=f"for rows that only expire, TWCS with windows of {window.text}; with deletes or "
        "overwrites, UnifiedCompactionStrategy on Cassandra 5. Risk: a change of strategy rewrites "
        "nothing by itself, so the large files of today count as one window and stay until their "
        "newest row has expired" + (OFF_TOO if off else ""),
        # With windows, read repair would be the next finding.
        commands=alter_compaction(facts, without=(), beside=off, **windows),
        cost=Cost(
            text="nothing is rewritten at once; the disk holds the files of today"
            + (f" ({render_bytes(total)})" if total else "")
            + " beside one more TTL of rows before it falls",
            headroom_bytes=total,
        ),
        facts={"expired_bytes": expired, "share": share, "droppable_ratio": ratio},
        impact_bytes=expired,
    )


def _not_reached(facts: TableFacts, files: NodeFiles, thresholds: Thresholds) -> Finding | None:
    """Return the finding on expired rows that compaction has not come by, without windows."""
    assert facts.schema is not None
    # What may go whole does not wait for a compaction where the server looks for it.
    goes = files.is_removable if files.has_look else (False,) * len(files.files)
    late = [0 if goes[index] else overdue_bytes(files, index) for index in range(len(goes))]
    size, total = sum(late), files.data_bytes
    if not total or size <= thresholds.expired_bytes_ratio_max * total:
        return None
    some = sorted((i for i, amount in enumerate(late) if amount), key=lambda i: -late[i])
    strategy = facts.schema.strategy or "the compaction strategy"
    return Finding(
        id="expired-not-reached",
        check="drops",
        severity="warning",
        table=facts.name,
        node=files.node.node,
        evidence=f"about {render_bytes(size)} of {render_bytes(total)} "
        f"({100 * size / total:.0f} %) expired more than {render_duration(grace_of(files))} past "
        f"grace, in {render_count(len(some), 'file')}; most in {names(files, some)}"
        f"{_kept(files, some)}",
        cause=f"{strategy} has no windows: expired rows leave when a compaction rewrites their "
        "file, and a file at the top of its level is rewritten when as much again has been written",
        consequence="expired rows stay on disk and are read over until then",
        cure="for rows that only expire, TWCS lets whole files go. To have the space now, "
        "garbagecollect writes each file again without what has expired. Risk: it competes with "
        "reads and writes and needs room for the largest file",
        commands=(nodetool("garbagecollect", facts),),
        cost=rewrite_cost(facts, thresholds, what="the table on this node", rewritten_bytes=total),
        facts={"expired_bytes": size, "files": [files.files[i].path for i in some]},
        impact_bytes=size,
    )


def _kept(files: NodeFiles, some: Sequence[int]) -> str:
    """Return which of some files have fully expired and what keeps them, in words."""
    kept = [index for index in some if files.is_expired[index] and not files.is_removable[index]]
    blockers = {
        blocker
        for index in kept
        for blocker in files.lives.blockers_of(index, files.rules, files.now_s, limit=1)
    }
    if not blockers:
        return ""
    return (
        f"; {amount(files, kept)} have fully expired and are kept by "
        f"{names(files, sorted(blockers))}, where something lives with a write time as old"
    )


def _left_behind(facts: TableFacts, files: NodeFiles) -> Finding | None:
    """Return the finding on files that may go and that no server has dropped for a good while."""
    assert facts.schema is not None
    is_disabled = (facts.schema.compaction or {}).get("enabled", "true").lower() == "false"
    if files.node.is_memtable_known or is_disabled:
        return None  # Nobody runs there, or another finding says it.
    patience_s = 2 * files.check_s + HOUR_S
    if files.overdue_max_s is not None:
        patience_s = files.overdue_max_s
    some = tuple(
        index
        for index, at_s in enumerate(files.removable_at_s)
        if at_s is not None and max(at_s, files.due_s(index) or 0) + patience_s < files.now_s
    )
    if not some:
        return None
    since_s = min(at_s for index in some if (at_s := files.removable_at_s[index]) is not None)
    written_s = max((file.mtime_s or 0 for file in files.files), default=0)
    is_active = written_s > since_s + patience_s
    return Finding(
        id="expired-not-reached",
        check="drops",
        severity="warning" if is_active else "notice",
        table=facts.name,
        node=files.node.node,
        evidence=f"{amount(files, some)} could have gone since {render_instant(since_s)} "
        f"({render_duration(files.now_s - since_s)} ago) and are still there; the server looks "
        f"every {render_duration(files.check_s)}",
        cause="compaction does not come to this table: it is switched off (disableautocompaction), "
        "or behind with its work; or the memtable holds a write as old as these files"
        + ("" if is_active else "; or the node has not run since"),
        consequence="files that nothing keeps stay on disk",
        cure="see whether compaction runs (compactionstats) and switch it on; flush the table, so "
        "that what the memtable holds can be seen in a file. Risk: none",
        commands=(
            "nodetool compactionstats",
            nodetool("enableautocompaction", facts),
            nodetool("flush", facts),
        ),
        cost=FREE,
        facts={"files": [files.files[index].path for index in some], "since_s": since_s},
        impact_bytes=files.bytes_of(some),
    )
