"""Partitions without an end: how large they are, how they grow, when they pass the ceiling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from treering.core.expiry import render_day
from treering.core.units import YEAR_S, render_bytes, render_count, render_duration
from treering.doctor.checks.budget import (
    Budget,
    is_over_ceiling,
    largest_of,
    node_name,
    numbers_of,
    size_text,
)
from treering.doctor.checks.commands import copy_cost, design_commands
from treering.doctor.checks.key_shape import KeyShape, key_shape_of
from treering.doctor.checks.known import live_bytes_of, now_s_of, ttl_s_of
from treering.doctor.checks.sizes import PartitionSizes, bound_of, write_span_s
from treering.doctor.facts import NodeFacts, TableFacts
from treering.doctor.finding import Finding, Severity
from treering.doctor.thresholds import Thresholds

_SPAN_MIN_S: Final = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """How the largest partition of a key without a bucket grows.

    Attributes:
        bytes_now: Its parts in all files of its node, added up.
        files: In how many files.
        span_s: Over how long they were written.
        rate_bytes_per_s: What it grows by; None where nobody can tell.
        bytes_end: What it comes to when as much expires as is written; None without a TTL.
        crosses_at_s: When it passes the ceiling, epoch seconds; None where it never does, or
            nobody can tell.
    """

    bytes_now: int
    files: int
    span_s: float
    rate_bytes_per_s: float | None
    bytes_end: float | None
    crosses_at_s: int | None


def growth_of(
    node: NodeFacts, *, ceiling: int, ttl_s: int | None, now_s: int, bytes_max: int
) -> Growth:
    """Return how the largest partition of a node grows where the key has no bucket.

    Args:
        node: The node with its files.
        ceiling: What a partition may weigh.
        ttl_s: How long a reading stays on disk; None for ever.
        now_s: The clock.
        bytes_max: The largest partition where no file says.
    """
    files = node.files or ()
    together, span_s = bound_of(files, None), write_span_s(files)
    size = max(together.bytes, bytes_max)
    # A burst of a few minutes is no rate to look a year ahead with.
    rate = size / span_s if span_s >= _SPAN_MIN_S else None
    end = rate * ttl_s if rate is not None and ttl_s is not None else None
    crosses_at_s = None
    if size >= ceiling:
        crosses_at_s = now_s
    elif rate is not None and (end is None or end > ceiling):
        crosses_at_s = now_s + int((ceiling - size) / rate)
    return Growth(
        bytes_now=size,
        files=together.files,
        span_s=span_s,
        rate_bytes_per_s=rate,
        bytes_end=end,
        crosses_at_s=crosses_at_s,
    )


def check_growth(
    facts: TableFacts,
    thresholds: Thresholds,
    budget: Budget,
    shape: KeyShape,
    sizes: list[PartitionSizes],
) -> list[Finding]:
    """Return what is wrong with a key that has no bucket; nothing with one."""
    if shape.shape != "unbucketed":
        return []
    worst = largest_of(sizes, budget) if sizes else None
    growth, ttl_s, now_s = None, _held_s(facts), now_s_of(facts)
    if worst is not None:
        growth = growth_of(
            worst.node,
            ceiling=budget.bytes_max,
            ttl_s=ttl_s,
            now_s=now_s,
            bytes_max=worst.bytes_max.shown,
        )
    over = worst is not None and (is_over_ceiling(worst, budget))
    assert facts.schema is not None
    key = ", ".join(column.label for column in facts.schema.partition_key)
    return [
        Finding(
            id="unbounded-partition",
            check="partitions",
            severity=_unbounded_severity(growth, now_s, thresholds, is_over=over),
            table=facts.name,
            node="" if worst is None else node_name(facts, worst.node),
            evidence=f"{shape.why}; {_growth_text(worst, growth, budget, now_s)}",
            cause=f"the partition key ({key}) has no bucket of event time, so all readings of a "
            "series go to one partition for as long as it is written",
            consequence="reads, compaction and repair of that partition get slower with every "
            "reading, every file of every window holds a part of it, and it is never finished",
            cure="put a bucket of event time into the key, as the design says: a key cannot be "
            "altered, so that needs a new table, writes to both, and the history copied"
            + _clustered_text(facts),
            commands=design_commands(facts),
            cost=copy_cost(facts),
            facts=_growth_facts(worst, growth, budget),
            impact_bytes=live_bytes_of(facts),
        )
    ]


def _clustered_text(facts: TableFacts) -> str:
    """Return what becomes of rows that are not one an event time; empty where they are."""
    assert facts.schema is not None
    if len(facts.schema.clustering) < 2:
        return ""
    shape = key_shape_of(facts)
    beside = [column.label for column in facts.schema.clustering if column != shape.time]
    return (
        f". Its rows are not one an event time: {', '.join(beside)} belongs to what names a "
        "series, and goes into the partition key; plan for the rate of one such series"
    )


def _held_s(facts: TableFacts) -> int | None:
    """Return how long a reading stays on disk: its TTL and the grace."""
    ttl_s = ttl_s_of(facts)
    if ttl_s is None:
        return None
    return ttl_s + ((None if facts.schema is None else facts.schema.gc_grace_s) or 0)


def _unbounded_severity(
    growth: Growth | None, now_s: int, thresholds: Thresholds, *, is_over: bool
) -> Severity:
    if is_over:
        return "critical"
    if growth is None or growth.rate_bytes_per_s is None:
        return "warning"
    at_s = growth.crosses_at_s
    return "notice" if at_s is None or at_s - now_s > thresholds.horizon_s else "warning"


def _growth_text(
    worst: PartitionSizes | None, growth: Growth | None, budget: Budget, now_s: int
) -> str:
    if worst is None or growth is None:
        return "nothing is on disk yet"
    ceiling, size = render_bytes(budget.bytes_max), size_text(worst, budget)
    if is_over_ceiling(worst, budget):
        return f"{size}: over the ceiling of {ceiling} or {budget.cells_max:,} cells"
    if growth.rate_bytes_per_s is None:
        why = "without the times of its writes"
        if growth.files:
            why = f"from writes that lie within {render_duration(max(round(growth.span_s), 1))}"
        return f"{size}; when it passes {ceiling} cannot be told {why}"
    text = (
        f"the largest holds up to {render_bytes(growth.bytes_now)} in "
        f"{render_count(growth.files, 'file')}, written over {render_duration(growth.span_s)}"
    )
    if growth.crosses_at_s is None:
        return (
            f"{text}: at that rate the TTL keeps it at about "
            f"{render_bytes(growth.bytes_end or 0)}, under the ceiling of {ceiling}"
        )
    left_s = growth.crosses_at_s - now_s
    if left_s <= 0:
        return f"{text}: it may be over the ceiling of {ceiling} already"
    when = render_duration(left_s)
    if left_s < 100 * YEAR_S:
        when += f", on {render_day(growth.crosses_at_s)}"
    return f"{text}: at that rate it passes {ceiling} in {when}"


def _growth_facts(
    worst: PartitionSizes | None, growth: Growth | None, budget: Budget
) -> dict[str, Any]:
    if worst is None or growth is None:
        return {}
    return numbers_of(worst, budget) | {
        "partition_bytes_bound": growth.bytes_now,
        "bytes_per_s": growth.rate_bytes_per_s,
        "bytes_end": growth.bytes_end,
        "crosses_at_s": growth.crosses_at_s,
    }
