"""Are partitions bounded, neither too large for their budget nor too small for their key?

Rules of this file: a partition is over a limit only where the lower bound of its size is; what the
design in the table's comment asks for goes before the thresholds; partitions are fine where their
sizes are and nothing says that they have no end, which a key that cannot be read does not say.
"""

from __future__ import annotations

from typing import Final

from treering.core.bucket import BucketWidth
from treering.core.units import render_bytes
from treering.doctor.checks.budget import (
    Budget,
    budget_of,
    is_over,
    is_over_ceiling,
    largest_of,
    node_name,
    numbers_of,
    size_text,
)
from treering.doctor.checks.commands import FREE, copy_cost, design_commands, store_address
from treering.doctor.checks.growth import check_growth
from treering.doctor.checks.key_shape import KeyShape, key_shape_of
from treering.doctor.checks.known import live_bytes_of, now_s_of
from treering.doctor.checks.seen import (
    BRINGS_SCHEMA,
    of_nodes,
    unread_of,
    why_files_hide,
    why_no_table,
)
from treering.doctor.checks.sizes import PartitionSizes, sizes_of
from treering.doctor.checks.slices import check_slices
from treering.doctor.facts import NodeFacts, TableFacts
from treering.doctor.finding import Checked, Cost, Finding, Severity
from treering.doctor.thresholds import Thresholds
from treering.sstable.histogram import merge_histograms

HUGE: Final = 10
"""So many times over the ceiling a partition endangers the node that reads or compacts it."""


def check_partitions(facts: TableFacts, thresholds: Thresholds) -> Checked:
    """Return whether the partitions of a table are bounded, neither too large nor too small."""
    sizes = [found for node in facts.nodes if (found := sizes_of(node)) is not None]
    shape = key_shape_of(facts)
    budget = budget_of(facts, thresholds)
    findings = [
        *check_growth(facts, thresholds, budget, shape, sizes),
        *check_slices(facts, thresholds),
    ]
    if sizes:
        if not findings or findings[0].id != "unbounded-partition":
            findings = [*_large(facts, thresholds, budget, sizes), *findings]
        findings += _small(facts, thresholds, budget, shape, sizes)
    is_empty = all(node.files is not None for node in facts.nodes) and not unread_of(facts)
    unknown = "; ".join(_why_unknown(facts, shape))
    return Checked(
        check="partitions",
        is_known=not unknown,
        findings=tuple(findings),
        summary=_summary(sizes, budget, is_empty=is_empty),
        unknown=unknown,
    )


def _why_unknown(facts: TableFacts, shape: KeyShape) -> list[str]:
    reasons = []
    if untold := [node for node in facts.nodes if not _are_sizes_told(node)]:
        reasons.append(
            f"nobody says how large most partitions are{of_nodes(facts, untold)}: give the data "
            "folders, or nodetool"
        )
    reasons += why_files_hide(facts, "may hold larger partitions")
    if no_table := why_no_table(facts):
        return reasons + no_table
    if shape.shape == "unknown":
        reasons.append(
            f"whether partitions end cannot be told, since {shape.why}: give {BRINGS_SCHEMA}, or "
            "a bundle made --with-keys"
        )
    return reasons


def _are_sizes_told(node: NodeFacts) -> bool:
    if node.files is not None:
        return True
    found = sizes_of(node)
    # The largest alone does not tell whether most are too small.
    if found is not None:
        return found.bytes_p50 is not None
    return node.stats is not None and node.stats.sstable_count == 0


def _summary(sizes: list[PartitionSizes], budget: Budget, *, is_empty: bool) -> str:
    if not sizes:
        return "no partition on disk yet" if is_empty else "sizes are not known"
    return (
        f"{size_text(largest_of(sizes, budget), budget)}; ceiling {render_bytes(budget.bytes_max)}"
    )


# Too large


def _large(
    facts: TableFacts, thresholds: Thresholds, budget: Budget, sizes: list[PartitionSizes]
) -> list[Finding]:
    worst = largest_of(sizes, budget)
    in_bytes = worst.bytes_max
    over = is_over_ceiling(worst, budget)
    severity: Severity
    if over:
        is_huge = in_bytes.at_most is None or is_over(in_bytes, HUGE * budget.bytes_max)
        severity = "critical" if is_huge else "warning"
        limit = f"{render_bytes(budget.bytes_max)} and {budget.cells_max:,} cells"
        evidence = f"{size_text(worst, budget)}: over the ceiling of {limit}"
    elif budget.target is not None and is_over(in_bytes, budget.target):
        severity = "notice"
        evidence = (
            f"{size_text(worst, budget)}: under the ceiling, yet over the "
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
            node=node_name(facts, worst.node),
            evidence=evidence,
            cause="a bucket holds more than it was cut for: a series that is written faster than "
            "the bucket's width was chosen for, or rows that are larger",
            consequence="reads of one partition build a large index and garbage on the node, "
            "compaction and repair handle it in one piece, and one replica set carries it all",
            cure=_narrower_text(budget)
            + "; the partitions that are there stay as large as they are until they expire",
            commands=_narrower_commands(facts, budget),
            cost=_narrower_cost(facts, budget),
            facts=numbers_of(worst, budget),
            impact_bytes=live_bytes_of(facts),
        )
    ]


def _narrower_text(budget: Budget) -> str:
    if budget.design is None:
        return "copy the table to one with a narrower bucket, or split the series by a shard number"
    return "give the series that are this fast a narrower bucket of their own"


def _narrower_commands(facts: TableFacts, budget: Budget) -> tuple[str, ...]:
    if budget.design is None:
        return design_commands(facts)
    widths = list(BucketWidth)
    narrower = widths[max(widths.index(budget.design.bucket) - 1, 0)]
    return (f"treering set-bucket {facts.table} SERIES {narrower} --store {store_address(facts)}",)


def _narrower_cost(facts: TableFacts, budget: Budget) -> Cost:
    if budget.design is not None:
        return FREE
    return copy_cost(facts)


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
            node=node_name(facts, worst.node),
            evidence=f"half of {worst.partitions:,} partitions hold at most "
            f"{render_bytes(worst.bytes_p50.shown)}, less than "
            f"{render_bytes(thresholds.partition_bytes_min)}",
            cause="the bucket is narrower than the rate of the series asks for",
            consequence="keys, index entries and bloom filters weigh more than readings, and a "
            "read of a long range sends many small requests",
            cure="use a wider bucket: for the partitions that are there that needs a copy; new "
            "ones can begin at once where readers know both widths",
            commands=_wider_commands(facts, budget),
            cost=_narrower_cost(facts, budget),
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
        return design_commands(facts)
    widths = list(BucketWidth)
    wider = widths[min(widths.index(budget.design.bucket) + 1, len(widths) - 1)]
    return (f"treering set-bucket {facts.table} SERIES {wider} --store {store_address(facts)}",)
