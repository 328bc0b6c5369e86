"""Repair and read repair on tables whose files go by windows."""

from __future__ import annotations

import shlex
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from treering.core.timeuuid import times_of_timeuuids
from treering.core.units import DAY_S, render_count, render_duration
from treering.doctor.checks.commands import FREE, alter_table, nodetool, rewrite_cost
from treering.doctor.checks.known import TWCS, design_in_comment, files_of, major_of, now_s_of
from treering.doctor.facts import TableFacts
from treering.doctor.finding import Finding
from treering.doctor.thresholds import Thresholds

FAILS_AFTER_S: Final = DAY_S
"""How long a server waits for a silent session (``LocalSessions.AUTO_FAIL_TIMEOUT``, 4.0-5.0)."""

_NAMED: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairAdvice:
    """How a table is repaired without harm to its drops.

    Attributes:
        text: What to do, and why.
        commands: The commands, for each node in turn.
    """

    text: str
    commands: tuple[str, ...]


def repair_advice(facts: TableFacts) -> RepairAdvice:
    """Return whether repair is safe for a table, and the commands that are.

    On TWCS an incremental repair splits windows into repaired and unrepaired files that never
    merge. On 3.11 a full repair of whole ranges does so too (``RepairRunnable``); a subrange
    repair does not.
    """
    if facts.schema is None or facts.schema.strategy != TWCS:
        return RepairAdvice(
            text="any repair is safe for the files of this table",
            commands=(nodetool("repair", facts, "-pr"),),
        )
    subrange = nodetool("repair", facts, "-full", "-st", "START_TOKEN", "-et", "END_TOKEN")
    if major_of(facts) == 3:
        return RepairAdvice(
            text="repair by subranges only: on 3.11 incremental repair and full repair of whole "
            "ranges split every window in two",
            commands=(subrange,),
        )
    return RepairAdvice(
        text="repair in full, never incrementally: files that stream in keep their old write "
        "times, fall into old windows and are merged there once",
        commands=(nodetool("repair", facts, "-full", "-pr"), subrange),
    )


def lint_repair(facts: TableFacts, thresholds: Thresholds) -> tuple[Finding, ...]:
    """Return what repair does to the windows of a table; nothing without TWCS."""
    if facts.schema is None or facts.schema.strategy != TWCS:
        return ()
    found = (_read_repair(facts), _repair(facts, thresholds))
    return tuple(finding for finding in found if finding is not None)


def _read_repair(facts: TableFacts) -> Finding | None:
    assert facts.schema is not None
    options = facts.schema.options or {}
    design = design_in_comment(facts)
    # Where readings are deleted or written again, read repair is what brings replicas together.
    if design is not None and not design.workload.is_append_only:
        return None
    off = read_repair_off(facts)
    if not off:
        return None
    if "read_repair" in options:
        evidence = f"read_repair = '{str(options['read_repair']).strip().upper()}' with {TWCS}"
    else:
        chances = _chances(options)
        evidence = f"{' and '.join(f'{k} = {v:g}' for k, v in chances.items() if v)} with {TWCS}"
    return Finding(
        id="read-repair-on-twcs",
        check="drops",
        severity="notice",
        table=facts.name,
        evidence=evidence,
        cause="it is Cassandra's default; with one replica it does nothing",
        consequence="after an outage, reads write what replicas missed into today's file with its "
        "old write time; that file then keeps every expired file since on disk, for a whole TTL",
        cure="switch it off where readings are only appended: reads still answer with the newest "
        "value of the replicas that they ask; repair brings replicas together instead",
        commands=(alter_table(facts, **off),),
        cost=FREE,
    )


def read_repair_off(facts: TableFacts) -> dict[str, str]:
    """Return the options, as CQL, that switch read repair off; none where it is off already."""
    options = {} if facts.schema is None else facts.schema.options or {}
    if "read_repair" in options:
        is_off = str(options["read_repair"]).strip().upper() == "NONE"
        return {} if is_off else {"read_repair": "'NONE'"}
    chances = _chances(options)
    return dict.fromkeys(chances, "0.0") if any(chances.values()) else {}


def _chances(options: Mapping[str, Any]) -> dict[str, float]:
    """Return the chances of 3.11, by name; later versions have none."""
    chances = {}
    for name in ("read_repair_chance", "dclocal_read_repair_chance"):
        value = options.get(name)
        if isinstance(value, (int, float)):
            chances[name] = float(value)
    return chances


def _repair(facts: TableFacts, thresholds: Thresholds) -> Finding | None:
    pending = [file for _, file in files_of(facts) if file.pending_repair is not None]
    if not pending:
        return None
    advice = repair_advice(facts)
    sessions = sorted({str(file.pending_repair) for file in pending})
    begun_s = min((at_s for at_s in map(_begun_s, sessions) if at_s is not None), default=None)
    age_s = None if begun_s is None else max(now_s_of(facts) - begun_s, 0)
    size = sum(file.data_bytes or 0 for file in pending)
    return Finding(
        id="repair-unsafe",
        check="drops",
        severity="notice" if age_s is None or age_s <= FAILS_AFTER_S else "warning",
        table=facts.name,
        evidence=f"{render_count(len(pending), 'file is', 'files are')} held by "
        f"{render_count(len(sessions), 'session')} of incremental repair"
        + ("" if age_s is None else f", begun {render_duration(age_s)} ago"),
        cause=_why_pending(age_s),
        consequence="while a session holds files they merge with no others, and its end leaves "
        "each window in repaired and unrepaired files that never merge: up to twice the files",
        cure="let the session end if it runs (repair_admin list); cancel it if it does not, with "
        "--force where its coordinator is gone; where it is FINALIZED, switch compaction on. After "
        f"that, {advice.text}. Risk: what a cancelled session compared is compared again",
        commands=(
            "nodetool repair_admin list --all",
            nodetool("statusautocompaction", facts),
            *(
                f"nodetool repair_admin cancel --session {shlex.quote(one)}"
                for one in sessions[:_NAMED]
            ),
            *advice.commands,
        ),
        cost=rewrite_cost(
            facts, thresholds, what="what the session holds", rewritten_bytes=size or None
        ),
        facts={"files": len(pending), "sessions": sessions, "begun_s": begun_s},
        impact_bytes=size,
    )


def _why_pending(age_s: int | None) -> str:
    if age_s is not None and age_s > FAILS_AFTER_S:
        return (
            "an incremental repair, the default of nodetool repair, was left unfinished (a server "
            f"that runs gives it up {render_duration(FAILS_AFTER_S)} after its last news), runs "
            "very long, or has ended while compaction, which marks its files, is switched off"
        )
    return (
        "an incremental repair, the default of nodetool repair, runs or was left unfinished; or it "
        "has ended and no compaction has come by to mark its files (switched off, or behind)"
    )


def _begun_s(session: str) -> int | None:
    """Return when a session began, as its id says, a time-based UUID; None for another."""
    try:
        found = uuid.UUID(session)
    except ValueError:
        return None
    if found.version != 1:
        return None
    raw = np.frombuffer(found.bytes, np.dtype("V16"))
    return int(times_of_timeuuids(raw)[0]) // 1_000_000
