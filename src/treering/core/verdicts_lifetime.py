"""Verdicts on how readings leave: TTL, windows, grace, repair, late data, strategy.

Rules of this file: as in :mod:`treering.core.verdicts`; every rule about expiry that is named
here is computed in :mod:`treering.core.expiry`.
"""

from __future__ import annotations

from typing import Final

from treering.core.choices import Choices
from treering.core.expiry import HINT_WINDOW_S, TTL_MAX_S, refused_from_s, render_day
from treering.core.units import YEAR_S, render_bytes, render_duration
from treering.core.verdicts import Check, Severity, Verdict
from treering.core.window import WINDOWS_MAX, WINDOWS_MIN
from treering.core.workload import Strategy

LATE_FRACTION_MAX: Final = 0.05
"""The share of readings later than one window that a table bears without more files a read."""


def check_lifetime(choices: Choices) -> tuple[Verdict, ...]:
    """Return the verdicts on TTL, windows, grace, repair, late data and strategy."""
    checks: tuple[Check, ...] = (
        _check_ttl,
        _check_retention_for_ever,
        _check_windows,
        _check_grace,
        _check_repair,
        _check_late,
        _check_deletes,
        _check_overwrites,
        _check_strategy,
        _check_ucs,
        _check_unsafe_expiration,
    )
    return tuple(verdict for check in checks if (verdict := check(choices)) is not None)


def _check_ttl(choices: Choices) -> Verdict | None:
    load, ttl_s = choices.workload, choices.ttl_s
    if ttl_s is None or load.retention_s is None:
        return None
    refused_s = refused_from_s(ttl_s, load.version, load.mode)
    why = (
        f"{render_duration(ttl_s)} of at most {TTL_MAX_S:,} s; writes would be refused from "
        f"{render_day(refused_s)} on, when they would expire past what Cassandra {load.version} "
        "can store"
    )
    if ttl_s < load.retention_s:
        return Verdict(
            id="ttl",
            severity="error",
            why=f"readings vanish {render_duration(load.retention_s - ttl_s)} before the retention "
            f"of {render_duration(load.retention_s)} ends; {why}",
        )
    if ttl_s > load.retention_s:
        extra = render_duration(ttl_s - load.retention_s)
        why = f"readings stay {extra} longer than the retention asks, on disk too; {why}"
        return Verdict(id="ttl", severity="notice", why=why)
    severity: Severity = "notice" if refused_s - choices.now_s < 3 * YEAR_S else "ok"
    return Verdict(id="ttl", severity=severity, why=why)


def _check_retention_for_ever(choices: Choices) -> Verdict | None:
    if choices.ttl_s is not None:
        return None
    load = choices.workload
    year = YEAR_S * load.rate_hz * choices.row_bytes * load.compression_ratio
    year *= load.series_count * load.replica_count
    return Verdict(
        id="retention-forever",
        severity="notice",
        why=f"nothing ever leaves: the table grows by {render_bytes(year)} a year; windows would "
        "never drop a file, so TWCS has nothing to offer here; keep aggregates for ever and the "
        "readings for a retention, if that serves",
    )


def _check_windows(choices: Choices) -> Verdict | None:
    window, ttl_s = choices.window, choices.ttl_s
    if window is None or ttl_s is None or choices.strategy is not Strategy.TWCS:
        return None
    count = window.count
    why = f"{window.text}: {count} windows over {render_duration(ttl_s)}"
    if count > 365:
        why += "; a file a window and node at least, and every read of a partition asks them all"
        return Verdict(id="window", severity="error", why=why)
    if count > 120:
        why += f"; many files; {WINDOWS_MIN} to {WINDOWS_MAX} serve as well"
        return Verdict(id="window", severity="warning", why=why)
    if count > WINDOWS_MAX:
        why += f"; more files than need be, yet bearable; {WINDOWS_MIN} to {WINDOWS_MAX} is usual"
        return Verdict(id="window", severity="notice", why=why)
    share = f"each drop frees 1/{count} of the table, and a whole window waits for its last row"
    if count < 10:
        return Verdict(id="window", severity="warning", why=f"{why}; few: {share}")
    if count < WINDOWS_MIN:
        return Verdict(id="window", severity="notice", why=f"{why}; rather few: {share}")
    return Verdict(id="window", severity="ok", why=f"{why}, within {WINDOWS_MIN} to {WINDOWS_MAX}")


def _check_grace(choices: Choices) -> Verdict:
    load, grace_s = choices.workload, choices.gc_grace_s
    text = render_duration(grace_s)
    if grace_s == 0:
        return _zero_grace(choices)
    repair_s = load.repair_every_s
    if not load.is_append_only and repair_s is not None and grace_s <= repair_s:
        return Verdict(
            id="gc-grace",
            severity="warning",
            why=f"{text} is not longer than the repair interval of {render_duration(repair_s)}: a "
            "delete can be purged before it reached every replica, and the reading comes back",
        )
    if grace_s < HINT_WINDOW_S and not load.is_single_replica:
        return Verdict(
            id="gc-grace",
            severity="warning",
            why=f"{text} is below the hint window of {render_duration(HINT_WINDOW_S)}: hints "
            "older than the grace are thrown away, so a node that was down for longer misses "
            "writes until a repair",
        )
    if load.is_append_only and choices.ttl_s is not None:
        why = f"{text}; nothing is deleted, so no tombstone has to reach a replica: the grace only "
        why += "has to cover the hint window; more would hold expired files for longer"
    else:
        why = f"{text}; a delete has to reach every replica, by repair, within this time"
    return Verdict(id="gc-grace", severity="ok", why=why)


def _zero_grace(choices: Choices) -> Verdict:
    load = choices.workload
    if load.is_single_replica:
        return Verdict(
            id="gc-grace",
            severity="ok" if load.is_append_only else "notice",
            why="0: with one replica there is no other to catch up with",
        )
    why = "0 gives up hints altogether: a node that was down for a minute misses that minute's "
    why += "writes until a repair"
    if load.is_append_only:
        return Verdict(id="gc-grace", severity="warning", why=why)
    why += "; deletes are purged before they reached every replica, and readings come back"
    return Verdict(id="gc-grace", severity="error", why=why)


def _check_repair(choices: Choices) -> Verdict | None:
    load, every_s = choices.workload, choices.workload.repair_every_s
    if not load.is_append_only and every_s is None:
        return Verdict(
            id="repair",
            severity="notice",
            why="the repair interval is not stated: with deletes or overwrites a repair has to "
            f"complete within every {render_duration(choices.gc_grace_s)} of grace",
        )
    if every_s is None or every_s < choices.gc_grace_s:
        return None
    text = f"a repair every {render_duration(every_s)} is outside the grace of "
    text += render_duration(choices.gc_grace_s)
    if load.is_append_only:
        return Verdict(
            id="repair",
            severity="notice",
            why=f"{text}; harmless here: every replica expires a reading by itself at the same "
            "second, so none can bring it back; the repair only restores what a replica missed",
        )
    return Verdict(id="repair", severity="warning", why=f"{text}: deleted readings can come back")


def _check_late(choices: Choices) -> Verdict | None:
    load, window = choices.workload, choices.window
    if window is None or (load.late_s is None and load.late_fraction is None):
        return None
    share = load.late_fraction
    late = "" if load.late_s is None else f"up to {render_duration(load.late_s)} late, "
    if (load.late_s is not None and load.late_s <= window.length_s) or share == 0:
        why = f"{late}within a window of {window.text}: fine"
        return Verdict(id="late", severity="ok", why=why)
    files = 2 if load.late_s is None else 1 + int(-(-load.late_s // window.length_s))
    spread = (
        f"a late reading lands in the window of its arrival, so a partition lies in up to {files} "
        "windows and a read asks as many files; it does not keep expired files on disk, because "
        "its write time is the arrival"
    )
    if share is None:
        why = f"{late}beyond a window of {window.text}, by a share that is not stated; {spread}"
        why += f"; survivable up to {LATE_FRACTION_MAX:.0%} of the readings"
        return Verdict(id="late", severity="notice", why=why)
    why = f"{late}{share * 100:.3g}% of the readings beyond a window of {window.text}; {spread}"
    if share <= LATE_FRACTION_MAX:
        why += f"; survivable: at most {LATE_FRACTION_MAX:.0%}"
        return Verdict(id="late", severity="notice", why=why)
    why += "; too many: put the time of arrival into the partition key, or accept that reads and "
    why += "compactions touch several windows"
    return Verdict(id="late", severity="warning", why=why)


_WRONG: Final = "TWCS is the wrong strategy with {what}: {why}"


def _check_deletes(choices: Choices) -> Verdict | None:
    if not choices.workload.deletes:
        return None
    return _against_twcs(
        choices,
        "deletes",
        "a tombstone is written into the window of today and never meets the older file with the "
        "reading, so the reading stays on disk and every read skips over the tombstone until both "
        "expire",
    )


def _check_overwrites(choices: Choices) -> Verdict | None:
    if not choices.workload.overwrites:
        return None
    return _against_twcs(
        choices,
        "overwrites",
        "the new value lies in a later window than the old, both stay on disk, and a read merges "
        "one file a window; only overwrites within one window are merged away",
    )


def _against_twcs(choices: Choices, what: str, why: str) -> Verdict:
    text = _WRONG.format(what=what, why=why)
    if choices.strategy is Strategy.TWCS:
        return Verdict(id=what, severity="error", why=text)
    return Verdict(
        id=what, severity="warning", why=f"{text}; {choices.strategy} is designed instead"
    )


def _check_strategy(choices: Choices) -> Verdict:
    name = choices.strategy.class_name
    is_right_for_twcs = choices.ttl_s is not None and choices.workload.is_append_only
    if choices.strategy is Strategy.TWCS:
        severity: Severity = "ok" if is_right_for_twcs else "error"
        why = f"{name}: readings that are only added and expire in order leave as whole files"
        if not is_right_for_twcs:
            why = f"{name} was asked for, but readings do not leave in the order they came"
    elif is_right_for_twcs:
        severity = "warning"
        why = f"{name} was asked for, but it has no windows: expired readings are rewritten away "
        why += "by compactions instead of leaving as whole files"
    else:
        severity = "ok"
        why = f"{name}: readings do not leave as whole files here, so windows would not help"
    return Verdict(id="strategy", severity=severity, why=why)


def _check_ucs(choices: Choices) -> Verdict | None:
    if not choices.workload.version.has_ucs:
        return None
    why = (
        "UnifiedCompactionStrategy serves on Cassandra 5 where data never expires, is deleted or "
        "is written again; it cuts files by token and density, not by time, so one live row keeps "
        "a file with expired rows, and for readings that expire in order TWCS stays the rule"
    )
    return Verdict(id="ucs", severity="ok", why=why)


def _check_unsafe_expiration(choices: Choices) -> Verdict | None:
    if not choices.unsafe_aggressive_expiration:
        return None
    why = (
        "unsafe_aggressive_sstable_expiration drops expired files without looking at what they "
        "overlap; it needs the server flag "
        "-Dcassandra.allow_unsafe_aggressive_sstable_expiration=true on every node: without it the "
        "statement is refused, and a table that has the option silently loses it at a restart"
    )
    if choices.workload.deletes or choices.workload.overwrites:
        why += "; with deletes or overwrites it brings old readings back"
        return Verdict(id="aggressive-expiry", severity="error", why=why)
    return Verdict(id="aggressive-expiry", severity="warning", why=why)
