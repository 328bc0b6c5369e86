"""Are partitions bounded? Their sizes against the budget, their growth, and what reads meet.

Rules of this file: a partition is over a limit only where the lower bound of its size is; what the
design in the table's comment asks for goes before the thresholds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from treering.core.bucket import BucketWidth
from treering.core.design import Design
from treering.core.expiry import render_day
from treering.core.units import render_bytes, render_count, render_duration
from treering.doctor.checks.commands import FREE, rewrite_cost
from treering.doctor.checks.key_shape import KeyShape, key_shape_of
from treering.doctor.checks.known import design_in_comment, live_bytes_of, now_s_of, ttl_s_of
from treering.doctor.checks.sizes import PartitionSizes, Size, bound_of, sizes_of, write_span_s
from treering.doctor.facts import NodeFacts, TableFacts
from treering.doctor.finding import Checked, Cost, Finding, Severity
from treering.doctor.thresholds import Thresholds
from treering.sstable.histogram import merge_histograms

HUGE: Final = 10
"""So many times over the ceiling a partition endangers the node that reads or compacts it."""

DESIGN_MARGIN: Final = 1.25
"""A design's own partition may be exceeded by that much before it counts as exceeded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a partition may weigh.

    Attributes:
        bytes_max: The ceiling.
        cells_max: The ceiling in cells.
        design: The design that says so; None for the thresholds.
    """

    bytes_max: int
    cells_max: int
    design: Design | None

    @property
    def target(self) -> float | None:
        """What the design expects at most, with a margin; None without a design."""
        if self.design is None:
            return None
        expected = self.design.bucket_bytes * DESIGN_MARGIN
        return max(float(self.design.workload.partition_bytes_target), expected)


def check_partitions(facts: TableFacts, thresholds: Thresholds) -> Checked:
    """Return whether the partitions of a table are bounded, neither too large nor too small."""
    sizes = [found for node in facts.nodes if (found := sizes_of(node)) is not None]
    shape = key_shape_of(facts)
    budget = _budget_of(facts, thresholds)
    findings = [
        *_unbounded(facts, thresholds, budget, shape, sizes),
        *_slices(facts, thresholds),
    ]
    if sizes:
        if not findings or findings[0].id != "unbounded-partition":
            findings = [*_large(facts, thresholds, budget, sizes), *findings]
        findings += _small(facts, thresholds, budget, shape, sizes)
    is_empty = all(node.files is not None for node in facts.nodes)
    is_known = bool(sizes) or is_empty
    return Checked(
        check="partitions",
        is_known=is_known,
        findings=tuple(findings),
        summary=_summary(sizes, budget, is_empty=is_empty),
        unknown=""
        if is_known
        else "nobody says how large partitions are: give the data folders, or nodetool",
    )


def _budget_of(facts: TableFacts, thresholds: Thresholds) -> Budget:
    design = design_in_comment(facts)
    if design is None:
        return Budget(
            bytes_max=thresholds.partition_bytes_max,
            cells_max=thresholds.partition_cells_max,
            design=None,
        )
    load = design.workload
    return Budget(
        bytes_max=load.partition_bytes_max, cells_max=load.partition_cells_max, design=design
    )


def _largest(sizes: list[PartitionSizes]) -> PartitionSizes:
    return max(sizes, key=lambda one: (one.bytes_max.at_most is None, one.bytes_max.shown))


def _summary(sizes: list[PartitionSizes], budget: Budget, *, is_empty: bool) -> str:
    if not sizes:
        return "no partition on disk yet" if is_empty else "sizes are not known"
    return f"{_size_text(_largest(sizes))}; ceiling {render_bytes(budget.bytes_max)}"


def _size_text(found: PartitionSizes) -> str:
    text = f"largest partition {_shown(found.bytes_max)}"
    if found.bytes_p99 is not None:
        text += f", p99 {_shown(found.bytes_p99)}"
    if found.cells_max is not None:
        cells = found.cells_max
        text += f", {'at least ' if cells.at_most is None else ''}{cells.shown:,} cells"
    if found.source == "files" and found.files > 1:
        text += " (in one file; others may hold more of it)"
    return text


def _shown(size: Size) -> str:
    return f"{'at least ' if size.at_most is None else ''}{render_bytes(size.shown)}"


def _node_name(facts: TableFacts, node: NodeFacts) -> str:
    return node.node if len(facts.nodes) > 1 else ""


# Too large


def _over(size: Size | None, limit: float) -> bool:
    return size is not None and size.at_least > limit


def _large(
    facts: TableFacts, thresholds: Thresholds, budget: Budget, sizes: list[PartitionSizes]
) -> list[Finding]:
    worst = _largest(sizes)
    in_bytes, in_cells = worst.bytes_max, worst.cells_max
    is_over = _over(in_bytes, budget.bytes_max) or _over(in_cells, budget.cells_max)
    severity: Severity
    if is_over:
        is_huge = in_bytes.at_most is None or _over(in_bytes, HUGE * budget.bytes_max)
        severity = "critical" if is_huge else "warning"
        limit = f"{render_bytes(budget.bytes_max)} and {budget.cells_max:,} cells"
        evidence = f"{_size_text(worst)}: over the ceiling of {limit}"
    elif budget.target is not None and _over(in_bytes, budget.target):
        severity = "notice"
        evidence = (
            f"{_size_text(worst)}: under the ceiling, yet over the "
            f"{render_bytes(budget.target)} that its design allows for"
        )
    else:
        return []
    return [
        Finding(
            id="large-partition",
            check="partitions",
            severity=severity,
            table=facts.name,
            node=_node_name(facts, worst.node),
            evidence=evidence,
            cause="a bucket holds more than it was cut for: a series that is written faster than "
            "the bucket's width was chosen for, or rows that are larger",
            consequence="reads of one partition build a large index and garbage on the node, "
            "compaction and repair handle it in one piece, and one replica set carries it all",
            cure=_narrower_text(budget)
            + "; the partitions that are there stay as large as they are until they expire",
            commands=_narrower_commands(facts, budget),
            cost=_narrower_cost(facts, thresholds, budget),
            facts=_facts_of(worst, budget),
            impact_bytes=live_bytes_of(facts),
        )
    ]


def _narrower_text(budget: Budget) -> str:
    if budget.design is None:
        return "copy the table to one with a narrower bucket, or split the series by a shard number"
    return "give the series that are this fast a narrower bucket of their own"


def _narrower_commands(facts: TableFacts, budget: Budget) -> tuple[str, ...]:
    if budget.design is None:
        return (f"treering design --table cassandra://HOST/{facts.keyspace}/{facts.table}",)
    widths = list(BucketWidth)
    narrower = widths[max(widths.index(budget.design.bucket) - 1, 0)]
    store = f"cassandra://HOST/{facts.keyspace}"
    return (f"treering set-bucket {facts.table} SERIES {narrower} --store {store}",)


def _narrower_cost(facts: TableFacts, thresholds: Thresholds, budget: Budget) -> Cost:
    if budget.design is not None:
        return FREE
    return rewrite_cost(facts, thresholds, what="the table, copied,")


def _facts_of(found: PartitionSizes, budget: Budget) -> dict[str, Any]:
    values: dict[str, Any] = {
        "partition_bytes_max": found.bytes_max.shown,
        "partition_bytes_ceiling": budget.bytes_max,
        "partition_cells_ceiling": budget.cells_max,
        "source": found.source,
    }
    if found.bytes_p99 is not None:
        values["partition_bytes_p99"] = found.bytes_p99.shown
    if found.cells_max is not None:
        values["partition_cells_max"] = found.cells_max.shown
    if found.source == "files" and budget.design is not None:
        together = bound_of(found.node.files or (), budget.design.bucket.length_s)
        values["partition_bytes_bound"] = together.bytes
    return values


# Without an end


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
    rate = size / span_s if span_s > 0 else None
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


def _unbounded(
    facts: TableFacts,
    thresholds: Thresholds,
    budget: Budget,
    shape: KeyShape,
    sizes: list[PartitionSizes],
) -> list[Finding]:
    if shape.shape != "unbucketed":
        return []
    worst = _largest(sizes) if sizes else None
    growth, ttl_s, now_s = None, _held_s(facts), now_s_of(facts)
    if worst is not None:
        growth = growth_of(
            worst.node,
            ceiling=budget.bytes_max,
            ttl_s=ttl_s,
            now_s=now_s,
            bytes_max=worst.bytes_max.shown,
        )
    is_over = worst is not None and (
        _over(worst.bytes_max, budget.bytes_max) or _over(worst.cells_max, budget.cells_max)
    )
    assert facts.schema is not None
    key = ", ".join(column.name for column in facts.schema.partition_key)
    return [
        Finding(
            id="unbounded-partition",
            check="partitions",
            severity=_unbounded_severity(growth, now_s, thresholds, is_over=is_over),
            table=facts.name,
            node="" if worst is None else _node_name(facts, worst.node),
            evidence=f"{shape.why}; {_growth_text(worst, growth, budget, now_s)}",
            cause=f"the partition key ({key}) has no bucket of event time, so all readings of a "
            "series go to one partition for as long as it is written",
            consequence="reads, compaction and repair of that partition get slower with every "
            "reading, every file of every window holds a part of it, and it is never finished",
            cure="put a bucket of event time into the key, as the design says: a key cannot be "
            "altered, so that needs a new table, writes to both, and the history copied",
            commands=(f"treering design --table cassandra://HOST/{facts.keyspace}/{facts.table}",),
            cost=rewrite_cost(facts, thresholds, what="the table, copied,"),
            facts=_growth_facts(worst, growth, budget),
            impact_bytes=live_bytes_of(facts),
        )
    ]


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
    ceiling = render_bytes(budget.bytes_max)
    if _over(worst.bytes_max, budget.bytes_max) or _over(worst.cells_max, budget.cells_max):
        return f"{_size_text(worst)}: over the ceiling of {ceiling} or {budget.cells_max:,} cells"
    if growth.rate_bytes_per_s is None:
        return f"{_size_text(worst)}; when it passes {ceiling} cannot be told without write times"
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
    if left_s < 100 * 365 * 86_400:
        when += f", on {render_day(growth.crosses_at_s)}"
    return f"{text}: at that rate it passes {ceiling} in {when}"


def _growth_facts(
    worst: PartitionSizes | None, growth: Growth | None, budget: Budget
) -> dict[str, Any]:
    if worst is None or growth is None:
        return {}
    return _facts_of(worst, budget) | {
        "partition_bytes_bound": growth.bytes_now,
        "bytes_per_s": growth.rate_bytes_per_s,
        "bytes_end": growth.bytes_end,
        "crosses_at_s": growth.crosses_at_s,
    }


# Too small


def _small(
    facts: TableFacts,
    thresholds: Thresholds,
    budget: Budget,
    shape: KeyShape,
    sizes: list[PartitionSizes],
) -> list[Finding]:
    if shape.shape != "bucketed":
        return []
    small = [one for one in sizes if _is_small(one, facts, thresholds, shape)]
    if not small:
        return []
    worst = max(small, key=lambda one: one.partitions or 0)
    assert worst.bytes_p50 is not None
    return [
        Finding(
            id="over-partitioned",
            check="partitions",
            severity="warning",
            table=facts.name,
            node=_node_name(facts, worst.node),
            evidence=f"half of {worst.partitions:,} partitions hold at most "
            f"{render_bytes(worst.bytes_p50.shown)}, less than "
            f"{render_bytes(thresholds.partition_bytes_min)}",
            cause="the bucket is narrower than the rate of the series asks for",
            consequence="keys, index entries and bloom filters weigh more than readings, and a "
            "read of a long range sends many small requests",
            cure="use a wider bucket: for the partitions that are there that needs a copy; new "
            "ones can begin at once where readers know both widths",
            commands=_wider_commands(facts, budget),
            cost=_narrower_cost(facts, thresholds, budget),
            facts={
                "partitions": worst.partitions,
                "partition_bytes_p50": worst.bytes_p50.shown,
                "partition_bytes_min": thresholds.partition_bytes_min,
            },
            impact_bytes=live_bytes_of(facts),
        )
    ]


def _is_small(
    found: PartitionSizes, facts: TableFacts, thresholds: Thresholds, shape: KeyShape
) -> bool:
    many = found.partitions or 0
    if found.bytes_p50 is None or many < thresholds.partitions_many:
        return False
    if found.bytes_p50.shown >= thresholds.partition_bytes_min:
        return False
    # No bucket is wider: a design said so when it was made.
    if shape.width_s is not None and shape.width_s >= BucketWidth.MONTH.length_s:
        return False
    if found.source != "files" or shape.width_s is None:
        return not _are_slices(found, thresholds)
    # A bucket that is still being written is small at first, and so are its parts in files that
    # are not merged yet.
    finished_us = (now_s_of(facts) - shape.width_s) * 1_000_000
    finished = merge_histograms(
        file.partition_bytes
        for file in found.node.files or ()
        if file.max_write_us is not None and file.max_write_us < finished_us
    )
    half = finished.quantile(0.5)
    is_small = half is not None and half < thresholds.partition_bytes_min
    return is_small and finished.count * 2 >= many and not _are_slices(found, thresholds)


def _are_slices(found: PartitionSizes, thresholds: Thresholds) -> bool:
    """Return whether parts are small only because each file holds a slice of the same keys."""
    files = found.node.files or ()
    ends = {(file.first_token, file.last_token) for file in files}
    is_same = len(files) > 1 and len(ends) == 1 and (None, None) not in ends
    assert found.bytes_p50 is not None
    return is_same and found.bytes_p50.shown * len(files) >= thresholds.partition_bytes_min


def _wider_commands(facts: TableFacts, budget: Budget) -> tuple[str, ...]:
    if budget.design is None:
        return (f"treering design --table cassandra://HOST/{facts.keyspace}/{facts.table}",)
    widths = list(BucketWidth)
    wider = widths[min(widths.index(budget.design.bucket) + 1, len(widths) - 1)]
    store = f"cassandra://HOST/{facts.keyspace}"
    return (f"treering set-bucket {facts.table} SERIES {wider} --store {store}",)


# What reads meet


def _slices(facts: TableFacts, thresholds: Thresholds) -> list[Finding]:
    findings = []
    live = _worst_node(facts, "live_cells_per_slice_max")
    if live is not None and live[1] > thresholds.live_cells_per_slice_max:
        findings.append(_live_cells(facts, *live, thresholds=thresholds))
    dead = _worst_node(facts, "tombstones_per_slice_max")
    if dead is not None and dead[1] > thresholds.tombstones_per_slice_max:
        findings.append(_tombstones(facts, *dead, thresholds=thresholds))
    return findings


def _worst_node(facts: TableFacts, name: str) -> tuple[NodeFacts, float] | None:
    found = [
        (node, value)
        for node in facts.nodes
        if node.stats is not None and (value := getattr(node.stats, name)) is not None
    ]
    return max(found, key=lambda pair: pair[1], default=None)


def _live_cells(
    facts: TableFacts, node: NodeFacts, cells: float, *, thresholds: Thresholds
) -> Finding:
    return Finding(
        id="many-live-cells",
        check="partitions",
        severity="warning",
        table=facts.name,
        node=_node_name(facts, node),
        evidence=f"a read of one partition met {cells:,.0f} live cells within the last five "
        f"minutes, more than {thresholds.live_cells_per_slice_max:,}",
        cause="reads take long ranges in one page, or without a limit",
        consequence="each such read holds its whole page in the node's memory; several at once "
        "push the node into long garbage collections",
        cure="read with smaller pages (driver fetch size, 5,000 rows or so), with a limit, or "
        "from a table of aggregates; reads take more round trips then",
        cost=Cost(text="a change in the clients; nothing is rewritten"),
        facts={"live_cells_per_slice_max": cells},
    )


def _tombstones(
    facts: TableFacts, node: NodeFacts, cells: float, *, thresholds: Thresholds
) -> Finding:
    is_over = cells >= 100_000
    return Finding(
        id="many-tombstones",
        check="partitions",
        severity="critical" if is_over else "warning",
        table=facts.name,
        node=_node_name(facts, node),
        evidence=f"a read of one partition passed {cells:,.0f} tombstones within the last five "
        f"minutes, more than {thresholds.tombstones_per_slice_max:,}",
        cause="the read covers readings that have expired or were deleted, or columns that were "
        "written as null, and that no compaction has purged yet",
        consequence="reads slow down, and Cassandra refuses those that pass 100,000 "
        "(tombstone_failure_threshold)",
        cure="read no further back than the retention; write what is missing as unset, not null; "
        "look at the findings on expired files",
        cost=Cost(text="a change in the clients; nothing is rewritten"),
        facts={"tombstones_per_slice_max": cells},
    )
