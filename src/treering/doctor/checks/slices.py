"""What reads meet: live cells and tombstones, as nodes counted them over the last five minutes."""

from __future__ import annotations

from typing import Final

from treering.doctor.checks.budget import node_name
from treering.doctor.facts import NodeFacts, TableFacts
from treering.doctor.finding import Cost, Finding
from treering.doctor.thresholds import Thresholds

TOMBSTONES_FAIL: Final = 100_000
"""Where Cassandra refuses a read (``tombstone_failure_threshold``'s default, 3.11 to 5.0)."""


def check_slices(facts: TableFacts, thresholds: Thresholds) -> list[Finding]:
    """Return what is wrong with the reads of a table, by the cells that they met."""
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
        node=node_name(facts, node),
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
    return Finding(
        id="many-tombstones",
        check="partitions",
        severity="critical" if cells >= TOMBSTONES_FAIL else "warning",
        table=facts.name,
        node=node_name(facts, node),
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
