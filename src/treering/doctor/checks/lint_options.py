"""Compaction options: unknown, without effect, unsafe, or in the wrong unit.

Rules of this file: options are those of Cassandra 3.11 to 5.0 (the ``validateOptions`` of each
strategy and of ``AbstractCompactionStrategy``); a strategy that is not Cassandra's own is named,
not judged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from treering.core.twcs import RESOLUTION_PER_S
from treering.doctor.checks.commands import (
    FREE,
    alter_compaction,
    design_commands,
    nodetool,
    rewrite_cost,
)
from treering.doctor.checks.known import (
    DTCS,
    LCS,
    STCS,
    TWCS,
    UCS,
    design_in_comment,
    files_of,
    has_deletes,
    live_bytes_of,
)
from treering.doctor.checks.windows import twcs_of
from treering.doctor.facts import TableFacts
from treering.doctor.finding import Finding, Severity
from treering.doctor.thresholds import Thresholds

AGGRESSIVE: Final = "unsafe_aggressive_sstable_expiration"
AGGRESSIVE_FLAG: Final = "cassandra.allow_unsafe_aggressive_sstable_expiration"
"""The system property that a node needs for the option; some pages leave out ``allow_``."""

_TOMBSTONES: Final = (
    "tombstone_threshold",
    "tombstone_compaction_interval",
    "unchecked_tombstone_compaction",
)
_COMMON: Final = {
    "class",
    "enabled",
    "min_threshold",
    "max_threshold",
    "only_purge_repaired_tombstones",
    "provide_overlapping_tombstones",
    "log_all",
    *_TOMBSTONES,
}
_TIERS: Final = {"min_sstable_size", "bucket_low", "bucket_high"}
_EXPIRY: Final = {"expired_sstable_check_frequency_seconds", AGGRESSIVE}
_OPTIONS: Final[dict[str, set[str]]] = {
    STCS: _COMMON | _TIERS,
    LCS: _COMMON | _TIERS | {"sstable_size_in_mb", "fanout_size", "single_sstable_uplevel"},
    TWCS: _COMMON
    | _TIERS
    | _EXPIRY
    | {"compaction_window_unit", "compaction_window_size", "timestamp_resolution"},
    UCS: _COMMON
    | _EXPIRY
    | {
        "scaling_parameters",
        "static_scaling_parameters",
        "target_sstable_size",
        "min_sstable_size",
        "base_shard_count",
        "num_shards",
        "sstable_growth",
        "flush_size_override",
        "max_sstables_to_compact",
        "overlap_inclusion_method",
        "parallelize_output_shards",
        "survival_factors",
    },
}

Lint = Callable[[TableFacts, Thresholds], "Finding | None"]


def lint_options(facts: TableFacts, thresholds: Thresholds) -> tuple[Finding, ...]:
    """Return what is wrong with a table's compaction options; nothing where they are not known."""
    if facts.schema is None or facts.schema.compaction is None:
        return ()
    lints: tuple[Lint, ...] = (
        _disabled,
        _date_tiered,
        _unknown,
        _inert,
        _aggressive,
        _resolution,
    )
    return tuple(found for lint in lints if (found := lint(facts, thresholds)) is not None)


def _compaction(facts: TableFacts) -> dict[str, str]:
    assert facts.schema is not None
    return dict(facts.schema.compaction or {})


def _strategy(facts: TableFacts) -> str:
    assert facts.schema is not None
    return facts.schema.strategy or ""


def _disabled(facts: TableFacts, thresholds: Thresholds) -> Finding | None:
    if _compaction(facts).get("enabled", "true").strip().lower() != "false":
        return None
    return Finding(
        id="compaction-disabled",
        check="drops",
        severity="critical",
        table=facts.name,
        evidence="the compaction options say 'enabled': 'false'",
        cause="compaction was switched off for this table, perhaps for a bulk load, and not on "
        "again",
        consequence="expired files are never dropped and flushed files never merged: the disk "
        "fills and reads touch more files with every flush",
        cure="switch compaction on again; the backlog is then worked off in the background",
        commands=(
            *alter_compaction(facts, enabled="true"),
            nodetool("enableautocompaction", facts),
        ),
        cost=rewrite_cost(facts, thresholds, what="the backlog, at most the table"),
        impact_bytes=live_bytes_of(facts),
    )


def _date_tiered(facts: TableFacts, thresholds: Thresholds) -> Finding | None:
    if _strategy(facts) != DTCS:
        return None
    return Finding(
        id="date-tiered-strategy",
        check="drops",
        severity="warning",
        table=facts.name,
        evidence=f"the compaction class is {DTCS}",
        cause="the table was made before TimeWindowCompactionStrategy replaced it (3.0.8, 3.8)",
        consequence="late writes and repairs leave small files behind that are never merged, and "
        "Cassandra 5.0 does not have the class any more: the table stops an upgrade",
        cure="change to TimeWindowCompactionStrategy with 20 to 40 windows over the TTL; files "
        "that span several windows stay until their newest reading expires",
        commands=design_commands(facts),
        cost=rewrite_cost(facts, thresholds, what="what falls into one window"),
        impact_bytes=live_bytes_of(facts),
    )


def _unknown(facts: TableFacts, thresholds: Thresholds) -> Finding | None:
    strategy, options = _strategy(facts), _compaction(facts)
    if strategy == DTCS:
        return None
    known = _OPTIONS.get(strategy)
    if known is None:
        return _unknown_option(
            facts,
            f"the compaction class {options.get('class', '')!r} is none of Cassandra's own",
            "a class from elsewhere, or a name that was misspelt in a script",
            "its rules are not known here: what is said about windows and drops may not hold, and "
            "a node without the class does not start",
        )
    unknown = sorted(options.keys() - known)
    impossible = strategy == TWCS and twcs_of(facts.schema) is None
    if not unknown and not impossible:
        return None
    evidence = (
        f"{strategy} does not know {', '.join(unknown)}"
        if unknown
        else f"no server takes these values: {options}"
    )
    return _unknown_option(
        facts,
        evidence,
        "misspelt, meant for another strategy, or left over from one",
        "the option does nothing, and a statement that repeats it is refused",
        without=tuple(unknown),
    )


def _unknown_option(
    facts: TableFacts,
    evidence: str,
    cause: str,
    consequence: str,
    *,
    without: tuple[str, ...] = (),
) -> Finding:
    return Finding(
        id="unknown-compaction-option",
        check="drops",
        severity="warning" if without else "notice",
        table=facts.name,
        evidence=evidence,
        cause=cause,
        consequence=consequence,
        cure="set the options anew, without what is not known" if without else "check the class",
        commands=alter_compaction(facts, without=without) if without else (),
        cost=FREE,
        facts={"unknown": list(without)},
    )


def _inert(facts: TableFacts, thresholds: Thresholds) -> Finding | None:
    if _strategy(facts) != UCS:
        return None
    inert = tuple(name for name in _TOMBSTONES if name in _compaction(facts))
    if not inert:
        return None
    return Finding(
        id="inert-option",
        check="drops",
        severity="notice",
        table=facts.name,
        evidence=f"{', '.join(inert)} under {UCS}",
        cause="UnifiedCompactionStrategy accepts the tombstone options, and never looks at them",
        consequence="whoever relies on them waits for compactions of single files that never run: "
        "expired readings go only when their file is compacted for its size, or expires as a whole",
        cure="leave the options out; for readings that expire together use "
        "TimeWindowCompactionStrategy",
        commands=alter_compaction(facts, without=inert),
        cost=FREE,
        facts={"options": list(inert)},
    )


def _aggressive(facts: TableFacts, thresholds: Thresholds) -> Finding | None:
    if _compaction(facts).get(AGGRESSIVE, "").strip().lower() != "true":
        return None
    design, deletes = design_in_comment(facts), has_deletes(facts)
    flags = {node.node: node.settings.get(AGGRESSIVE_FLAG) for node in facts.nodes}
    without = [name for name, flag in flags.items() if flag not in (None, "true")]
    is_chosen = design is not None and design.choices.unsafe_aggressive_expiration
    if is_chosen and not deletes and not without:
        return None
    severity: Severity = "warning" if deletes else "notice"
    evidence = f"{AGGRESSIVE} is true"
    if deletes:
        evidence += ", and files hold deleted partitions"
    if without:
        evidence += f"; the JVM of {', '.join(without)} runs without -D{AGGRESSIVE_FLAG}=true"
    return Finding(
        id="aggressive-expiration",
        check="drops",
        severity="warning" if without else severity,
        table=facts.name,
        evidence=evidence,
        cause=f"the option drops every expired file without looking at what it overlaps; it needs "
        f"the JVM flag -D{AGGRESSIVE_FLAG}=true, and without it the statement is refused, while a "
        "table that has the option already falls back to false at the next restart",
        consequence="with the flag, a delete or an overwrite may go before what it covers, and "
        "old values come back; without it, nothing happens at all and blocked files stay",
        cure="look for what blocks expired files instead, and leave the option out; keep it only "
        "where nothing is ever deleted or written twice, with the flag on every node",
        commands=alter_compaction(facts, without=(AGGRESSIVE,)),
        cost=FREE,
        facts={"nodes_without_flag": without, "has_deletes": deletes},
    )


def _resolution(facts: TableFacts, thresholds: Thresholds) -> Finding | None:
    stated = _compaction(facts).get("timestamp_resolution", "MICROSECONDS")
    if _strategy(facts) != TWCS or stated == "MICROSECONDS" or stated not in RESOLUTION_PER_S:
        return None
    written = {
        resolution for _, file in files_of(facts) if (resolution := _unit(file.max_write_us))
    }
    # Where clients do write in that unit, the windows are right.
    if written == {stated}:
        return None
    factor = next(per_s / 1_000_000 for name, per_s in RESOLUTION_PER_S.items() if name == stated)
    share = f"1/{round(1 / factor):,}" if factor < 1 else f"{factor:,.0f} times"
    seen = "files hold write times in microseconds" if written else "no write times were seen"
    return Finding(
        id="timestamp-resolution",
        check="drops",
        severity="warning",
        table=facts.name,
        evidence=f"timestamp_resolution is {stated}; {seen}, which is what drivers write",
        cause="the option was taken for the precision of the event times; it names the unit of "
        "the write times, which drivers send in microseconds",
        consequence=f"a window holds {share} of the time that it should, so files are not merged "
        "or dropped as the windows promise",
        cure="leave the option out; files of windows that then are one are merged once",
        commands=alter_compaction(facts, without=("timestamp_resolution",)),
        cost=rewrite_cost(facts, thresholds, what="what then falls into one window"),
        facts={"timestamp_resolution": stated},
        impact_bytes=live_bytes_of(facts),
    )


def _unit(write: int | None) -> str | None:
    """Return the unit in which a write time lies between 2001 and 2286."""
    if write is None:
        return None
    names = (name for name, per_s in RESOLUTION_PER_S.items() if 10**9 <= write // per_s < 10**10)
    return next(names, None)
