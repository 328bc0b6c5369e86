"""Lifetimes and windows: default TTL, the cap of 2038, mixed TTLs, grace, how many windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from treering.core.expiry import HINT_WINDOW_S, render_day
from treering.core.units import MINUTE_S, render_bytes, render_count, render_duration
from treering.core.window import WINDOWS_MAX, WINDOWS_MIN, plan_window
from treering.doctor.checks.commands import (
    FREE,
    alter_compaction,
    alter_table,
    rewrite_cost,
)
from treering.doctor.checks.known import (
    TWCS,
    files_of,
    hint_window_s_of,
    live_bytes_of,
    now_s_of,
    refused_from_s_of,
    ttl_s_of,
)
from treering.doctor.checks.windows import window_of
from treering.doctor.facts import TableFacts
from treering.doctor.finding import Cost, Finding
from treering.doctor.thresholds import Thresholds
from treering.sstable.facts import SSTableFacts

SKEW_S: Final = MINUTE_S
"""How far the coordinator's clock, which sets the expiry, may be ahead of the writer's."""

Lint = Callable[[TableFacts, Thresholds], "Finding | None"]


def lint_lifetime(facts: TableFacts, thresholds: Thresholds) -> tuple[Finding, ...]:
    """Return what is wrong with TTL, windows and grace; nothing where no option is known."""
    if facts.schema is None or facts.schema.options is None:
        return ()
    lints: tuple[Lint, ...] = (
        _no_default_ttl,
        _expiry_cap,
        _mixed_ttl,
        _windows,
        _grace,
    )
    return tuple(found for lint in lints if (found := lint(facts, thresholds)) is not None)


def _is_twcs(facts: TableFacts) -> bool:
    return facts.schema is not None and facts.schema.strategy == TWCS


def _default_ttl_s(facts: TableFacts) -> int | None:
    return None if facts.schema is None else facts.schema.default_ttl_s


def _no_default_ttl(facts: TableFacts, thresholds: Thresholds) -> Finding | None:
    if not _is_twcs(facts) or _default_ttl_s(facts) != 0:
        return None
    with_data = [file for _, file in files_of(facts) if file.rows]
    never = [file for file in with_data if file.max_deletion_s is None]
    ttl_s = ttl_s_of(facts)
    if never:
        seen = f"{render_count(len(never), 'file holds', 'files hold')} readings that never expire"
    elif ttl_s is not None:
        seen = f"writers send TTLs of their own, up to {render_duration(ttl_s)}"
    else:
        seen = "whether writers send TTLs of their own was not seen"
    return Finding(
        id="no-default-ttl",
        check="drops",
        severity="warning" if never else "notice",
        table=facts.name,
        evidence=f"{TWCS} with default_time_to_live = 0; {seen}",
        cause="the table leaves the lifetime to each writer",
        consequence="one write without a TTL never expires, and its file keeps every newer "
        "expired file on disk; Cassandra 5 warns about such tables (zero_ttl_on_twcs_warned)",
        cure="set the retention as the table's default; it holds for new writes only, and writes "
        "with a TTL of their own keep it. If nothing shall ever expire, "
        "UnifiedCompactionStrategy fits better than windows",
        commands=(
            alter_table(
                facts,
                default_time_to_live="SECONDS_OF_THE_RETENTION" if ttl_s is None else str(ttl_s),
            ),
        ),
        cost=FREE,
        facts={"files_without_expiry": len(never), "ttl_s": ttl_s},
        impact_bytes=sum(file.data_bytes or 0 for file in never),
    )


def _expiry_cap(facts: TableFacts, thresholds: Thresholds) -> Finding | None:
    ttl_s = _default_ttl_s(facts)
    if ttl_s is None or ttl_s <= 0:
        return None
    now_s, refused_s = now_s_of(facts), refused_from_s_of(facts, ttl_s)
    if refused_s - now_s > thresholds.horizon_s:
        return None
    is_refused = refused_s <= now_s
    when = f"since {render_day(refused_s)}" if is_refused else f"from {render_day(refused_s)} on"
    longest_s = max(refused_s + ttl_s - 1 - now_s - thresholds.horizon_s, 1)
    return Finding(
        id="expiry-cap",
        check="drops",
        severity="critical" if is_refused else "warning",
        table=facts.name,
        evidence=f"the default TTL of {render_duration(ttl_s)} ends after "
        f"{render_day(refused_s + ttl_s - 1)} {when}",
        cause="Cassandra stores an expiry as a second that ends there; only 5.0 in storage mode "
        "NONE can store later ones, up to 2106",
        consequence="writes with the default TTL are refused; 3.0 before 3.0.16 and 3.11 before "
        "3.11.2 take them and lose the reading",
        cure="lower the default TTL, or move to Cassandra 5 in storage mode NONE; readings that "
        "are there keep the expiry that they have",
        commands=(alter_table(facts, default_time_to_live=str(longest_s)),),
        cost=FREE,
        facts={"ttl_s": ttl_s, "refused_from_s": refused_s},
    )


# Mixed TTLs


def _exceeds_s(file: SSTableFacts, ttl_s: int) -> int:
    """Return by how much a file outlives its newest write and the table's TTL; 0 for not at all."""
    if file.max_deletion_s is None or file.max_write_us is None or file.max_ttl_s <= ttl_s:
        return 0
    return max(file.max_deletion_s - file.max_write_us // 1_000_000 - ttl_s - SKEW_S, 0)


def _mixed_ttl(facts: TableFacts, thresholds: Thresholds) -> Finding | None:
    ttl_s = _default_ttl_s(facts)
    if not _is_twcs(facts) or ttl_s is None or ttl_s <= 0:
        return None
    longer: list[SSTableFacts] = []
    for node in facts.nodes:
        longer += _mixed_files([file for file in node.files or () if file.rows], ttl_s)
    if not longer:
        return None
    worst = max(longer, key=lambda file: _exceeds_s(file, ttl_s))
    size = sum(file.data_bytes or 0 for file in longer)
    return Finding(
        id="mixed-ttl",
        check="drops",
        severity="warning",
        table=facts.name,
        evidence=f"{render_count(len(longer), 'file expires', 'files expire')} later than "
        f"their newest write and the default TTL of {render_duration(ttl_s)}: by up to "
        f"{render_duration(_exceeds_s(worst, ttl_s) + SKEW_S)}, with a TTL of "
        f"{render_duration(worst.max_ttl_s)} ({worst.path})",
        cause="some writers send a longer TTL than the table's default",
        consequence="the file of a window waits for its longest TTL, and keeps every expired "
        "file that was written after its oldest write",
        cure="keep readings of one lifetime in one table, and move the longer ones to a table of "
        "their own; what is there leaves when its longest TTL ends",
        commands=(),
        cost=Cost(text="a change in the writers; nothing is rewritten"),
        facts={
            "ttl_s": ttl_s,
            "ttl_s_max": worst.max_ttl_s,
            "files": [file.path for file in longer],
        },
        impact_bytes=size,
    )


def _mixed_files(files: list[SSTableFacts], ttl_s: int) -> list[SSTableFacts]:
    """Return the files that outlive the default TTL though files before them do not.

    A retention that was shortened leaves the same trace in files that are older than all others:
    those are no mix. So does one that writers have always overridden with one longer TTL.
    """
    ordered = sorted(files, key=lambda file: file.max_write_us or 0)
    first = next((i for i, file in enumerate(ordered) if not _exceeds_s(file, ttl_s)), len(ordered))
    later = [file for file in ordered[first:] if _exceeds_s(file, ttl_s)]
    mixed = [file for file in ordered[:first] if 0 < file.min_ttl_s < file.max_ttl_s]
    # One file at the edge may have taken writes before and after the change.
    is_edge = len(mixed) == 1 and mixed[0] is ordered[first - 1] and len(ordered) > 1
    return later + ([] if is_edge else mixed)


# Windows


def _windows(facts: TableFacts, thresholds: Thresholds) -> Finding | None:
    ttl_s = ttl_s_of(facts)
    if ttl_s is None:
        return None
    window = window_of(facts.schema, ttl_s)
    if window is None:
        return None
    best = plan_window(ttl_s)
    alter = alter_compaction(
        facts, compaction_window_unit=best.unit, compaction_window_size=str(best.size)
    )
    seen = f"{window.text} over {render_duration(ttl_s)}: {render_count(window.count, 'window')}"
    numbers = {"windows": window.count, "window_s": window.length_s, "ttl_s": ttl_s}
    if window.count > thresholds.windows_max:
        is_far = window.count > 2 * thresholds.windows_max
        return Finding(
            id="too-many-windows",
            check="sstables",
            severity="warning" if is_far else "notice",
            table=facts.name,
            evidence=f"{seen}, more than {thresholds.windows_max}",
            cause="the window is short for the TTL",
            consequence="every window is one file at least on every node and in every state of "
            "repair, so a partition that spans windows is read from as many files, and the node "
            "holds as many indexes and bloom filters open",
            cure=f"lengthen the window: {best.text} gives {best.count} ({WINDOWS_MIN} to "
            f"{WINDOWS_MAX} serve well); files of old windows that then are one are merged once",
            commands=alter,
            cost=rewrite_cost(facts, thresholds, what="the table"),
            facts=numbers,
            impact_bytes=live_bytes_of(facts),
        )
    # There is no window under a minute.
    if window.count >= thresholds.windows_min or window.length_s <= MINUTE_S:
        return None
    share = live_bytes_of(facts) // window.count
    return Finding(
        id="too-few-windows",
        check="disk",
        severity="notice",
        table=facts.name,
        evidence=f"{seen}, fewer than {thresholds.windows_min}",
        cause="the window is long for the TTL",
        consequence=f"the disk frees in steps of 1/{window.count} of the table"
        + (f", about {render_bytes(share)}" if share else "")
        + ", and a window's first reading waits for its last; compacting one needs as much room",
        cure=f"shorten the window: {best.text} gives {best.count}; files that are there keep "
        "their length and leave at the end of it",
        commands=alter,
        cost=FREE,
        facts=numbers,
        impact_bytes=share,
    )


# Grace


def _grace(facts: TableFacts, thresholds: Thresholds) -> Finding | None:
    assert facts.schema is not None
    grace_s, hints_s = facts.schema.gc_grace_s, hint_window_s_of(facts)
    if grace_s is None or (grace_s > 0 and (hints_s is None or grace_s >= hints_s)):
        return None
    aim_s = hints_s or HINT_WINDOW_S
    alter = (alter_table(facts, gc_grace_seconds=str(aim_s)),)
    numbers = {"gc_grace_s": grace_s, "hint_window_s": hints_s}
    cost = Cost(
        text=f"nothing is rewritten; expired files stay "
        f"{render_duration(max(aim_s - grace_s, 0))} longer"
    )
    if grace_s == 0:
        return Finding(
            id="zero-grace",
            check="drops",
            severity="warning",
            table=facts.name,
            evidence="gc_grace_seconds = 0",
            cause="grace was set to 0 to free the disk sooner",
            consequence="hints are thrown away, so a node that was down misses what was written "
            "meanwhile until a repair, and a delete may be purged before every replica has it: "
            "what was deleted comes back. Only with one replica nothing is lost",
            cure=f"set it to the hint window, {render_duration(aim_s)}; with deletes, to more than "
            "the time between repairs",
            commands=alter,
            cost=cost,
            facts=numbers,
        )
    return Finding(
        id="short-grace",
        check="drops",
        severity="notice",
        table=facts.name,
        evidence=f"gc_grace_seconds = {grace_s:,} ({render_duration(grace_s)}), less than the hint "
        f"window of {render_duration(aim_s)}",
        cause="a hint is replayed only while it is younger than the grace",
        consequence=f"a node that was down for longer than {render_duration(grace_s)} misses what "
        "was written meanwhile until a repair",
        cure=f"set it to the hint window, {render_duration(aim_s)}",
        commands=alter,
        cost=cost,
        facts=numbers,
    )
