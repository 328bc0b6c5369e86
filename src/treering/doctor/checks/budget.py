"""What a partition may weigh, and how sizes are told: by a table's own design, else thresholds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from treering.core.design import Design
from treering.core.units import render_bytes, render_count
from treering.doctor.checks.known import design_in_comment
from treering.doctor.checks.sizes import PartitionSizes, Size, Sum, bound_of
from treering.doctor.facts import NodeFacts, TableFacts
from treering.doctor.thresholds import Thresholds

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


def budget_of(facts: TableFacts, thresholds: Thresholds) -> Budget:
    """Return what a partition of a table may weigh."""
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


def largest_of(sizes: list[PartitionSizes], budget: Budget) -> PartitionSizes:
    """Return the sizes of the node that is over the ceiling, else has the largest partition."""
    return max(
        sizes,
        key=lambda one: (
            is_over_ceiling(one, budget),
            one.bytes_max.at_most is None,
            one.bytes_max.shown,
        ),
    )


def is_over_ceiling(found: PartitionSizes, budget: Budget) -> bool:
    """Return whether a partition of a node is over the ceiling for certain, in bytes or cells."""
    return is_over(found.bytes_max, budget.bytes_max) or is_over(found.cells_max, budget.cells_max)


def is_over(size: Size | None, limit: float) -> bool:
    """Return whether a size is above a limit for certain."""
    return size is not None and size.at_least > limit


def size_text(found: PartitionSizes, budget: Budget) -> str:
    """Return sizes in words; from files also what a partition comes to at the most."""
    limit = min(float(budget.bytes_max), budget.target or float("inf"))
    text = f"largest partition {_shown(found.bytes_max, limit)}"
    if found.bytes_p99 is not None:
        text += f", p99 {_shown(found.bytes_p99, limit)}"
    if found.cells_max is not None:
        word, cells = _bound(found.cells_max, budget.cells_max)
        text += f", {word}{render_count(cells, 'cell')}"
    if found.files < 2:
        return text
    together = _together(found, budget)
    if together is None:
        return f"{text} (in one file; others may hold more of it)"
    if together.files < 2:
        return text
    return (
        f"{text} (in one file; at most {render_bytes(together.bytes)} in the {together.files:,} "
        "that may share it)"
    )


def _together(found: PartitionSizes, budget: Budget) -> Sum | None:
    """Return what the parts of one partition add up to; None where the width is not known."""
    if found.source != "files" or budget.design is None:
        return None
    return bound_of(found.node.files or (), budget.design.bucket.length_s)


def _shown(size: Size, limit: float) -> str:
    word, value = _bound(size, limit)
    return f"{word}{render_bytes(value)}"


def _bound(size: Size, limit: float) -> tuple[str, int]:
    """Return the edge of a histogram's step that tells, with its word: seldom the very size.

    Over a limit it is the lower one, which is what makes it certain.
    """
    if size.at_least == size.at_most:
        return "", size.at_least
    if size.at_most is None or size.at_least > limit:
        return "at least ", size.at_least
    return "at most ", size.at_most


def node_name(facts: TableFacts, node: NodeFacts) -> str:
    """Return the node of a finding; empty where the table has only one."""
    return node.node if len(facts.nodes) > 1 else ""


def numbers_of(found: PartitionSizes, budget: Budget) -> dict[str, Any]:
    """Return sizes and budget for programs."""
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
    together = _together(found, budget)
    if together is not None:
        values["partition_bytes_bound"] = together.bytes
    return values
