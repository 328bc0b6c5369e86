"""What a deletion does, decided before anything is sent.

Rules of this file: a partition that is covered whole is deleted as a whole, an edge as a range; a
deletion carries a write time like a write does: it wins over every cell written then or before,
whenever that cell arrives, and over none written later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from treering.core.bucket import Bucket
from treering.core.expiry import HINT_WINDOW_S
from treering.core.read_plan import ReadPlan
from treering.core.table import TableSpec
from treering.core.times import render_ts
from treering.core.units import Interval, render_bytes, render_count, render_duration
from treering.core.workload import Strategy
from treering.errors import UsageError

ALLOW: Final = "allow_on_twcs=True (--allow-on-twcs)"


@dataclass(frozen=True, slots=True)
class PartitionDelete:
    """The deletion of a part of one partition, or of all of it.

    Attributes:
        series: The series id.
        bucket: The bucket of the partition.
        start: First event time deleted, in ticks of the table's precision.
        end: First event time not deleted.
        write_us: Cells written at this time or before are gone.
        is_whole: Whether the whole bucket is meant.
    """

    series: str
    bucket: Bucket
    start: int
    end: int
    write_us: int
    is_whole: bool

    def __len__(self) -> int:
        return 1

    @property
    def columns(self) -> Mapping[str, Any]:
        """No values: a deletion weighs next to nothing while it is in flight."""
        return {}

    @property
    def name(self) -> str:
        """The partition as people say it: ``pump-7/2025-11-20``."""
        return f"{self.series}/{self.bucket.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletePlan:
    """A deletion, planned.

    Attributes:
        spec: The table.
        series: The series concerned.
        interval: The event time to be deleted, after clipping to the retention.
        deletes: What is sent, one a partition.
        rows_estimate: Readings that may be there, by the design's rate.
        is_on_twcs: Whether tombstones would come into a table whose files should leave whole.
        costs: What it costs, each in one sentence.
    """

    spec: TableSpec
    series: tuple[str, ...]
    interval: Interval
    deletes: tuple[PartitionDelete, ...]
    rows_estimate: int
    is_on_twcs: bool
    costs: tuple[str, ...]

    @property
    def wholes(self) -> int:
        """Partitions that are deleted as a whole."""
        return sum(delete.is_whole for delete in self.deletes)

    @property
    def ranges(self) -> int:
        """Partitions of which a part is deleted."""
        return len(self.deletes) - self.wholes

    def check_allowed(self, *, allow_on_twcs: bool) -> None:
        """Refuse tombstones in a TWCS table, unless they are allowed by name.

        Raises:
            UsageError: They are not; the hint says what they would cost.
        """
        if self.is_on_twcs and not allow_on_twcs and self.deletes:
            raise UsageError(
                f"{self.spec.name} is compacted by TWCS, whose files leave whole when their "
                f"readings expire; deleting would put {len(self.deletes):,} tombstones into it",
                hint=f"allow it with {ALLOW} if you accept: "
                + " ".join(self.costs)
                + " A table made with workload={'deletes': True} is designed for deletions.",
                costs=self.costs,
            )


def plan_delete(reads: ReadPlan, *, write_us: int, leaves_tombstones: bool) -> DeletePlan:
    """Plan the deletion of what a read would return.

    Args:
        reads: The partitions and the parts of them that are meant.
        write_us: Cells written at this time or before are gone.
        leaves_tombstones: Whether the engine writes tombstones; the embedded ones delete in place.
    """
    deletes = tuple(_partition_delete(reads, index, write_us) for index in range(len(reads.reads)))
    is_on_twcs = leaves_tombstones and reads.spec.design.strategy is Strategy.TWCS
    costs = _costs(reads, deletes) if leaves_tombstones else _embedded_costs()
    return DeletePlan(
        spec=reads.spec,
        series=reads.series,
        interval=reads.interval,
        deletes=deletes,
        rows_estimate=reads.rows_estimate,
        is_on_twcs=is_on_twcs,
        costs=costs if deletes else (),
    )


def _partition_delete(reads: ReadPlan, index: int, write_us: int) -> PartitionDelete:
    read = reads.reads[index]
    whole = read.bucket.interval(reads.spec.precision)
    # What the retention has cut off is out of sight already, and may go with the rest.
    start = whole.start if reads.is_clipped and reads.asked.start <= whole.start else read.start
    is_whole = start <= whole.start and read.end >= whole.end
    return PartitionDelete(read.series, read.bucket, start, read.end, write_us, is_whole)


def _embedded_costs() -> tuple[str, ...]:
    return (
        "Readings are deleted in place; the room in their files is used again, and the files "
        "shrink only when they expire.",
    )


def _costs(reads: ReadPlan, deletes: tuple[PartitionDelete, ...]) -> tuple[str, ...]:
    spec = reads.spec
    grace_s = spec.design.gc_grace_s
    costs = [
        f"Every later read of these times passes {len(deletes):,} tombstones, and up to "
        f"{reads.rows_estimate:,} readings that are dead but on disk."
    ]
    if spec.design.strategy is Strategy.TWCS:
        size = reads.rows_estimate * spec.design.row_bytes * spec.design.workload.compression_ratio
        costs.append(
            f"No disk is freed before these readings would have expired anyway (up to "
            f"{render_bytes(size)} a replica): a tombstone stands in the file of its own window, "
            "and TWCS never compacts it together with the older files that it covers."
        )
    if not spec.design.workload.is_single_replica:
        costs.append(
            f"A replica that misses the deletion and is not repaired within gc grace "
            f"({render_duration(grace_s)}) keeps the readings, and they come back"
            + (
                "; a grace of ten days with a weekly repair is usual where things are deleted."
                if grace_s < 24 * HINT_WINDOW_S
                else "."
            )
        )
    return tuple(costs)


def render_delete_plan(plan: DeletePlan) -> str:
    """Return a plan in words."""
    names = ", ".join(plan.series[:5]) + (" …" if len(plan.series) > 5 else "")
    if not plan.deletes:
        return f"nothing of {names} lies in that time"
    precision = plan.spec.precision
    lines = [
        f"delete {names} of {plan.spec.name} from {render_ts(plan.interval.start, precision)} to "
        f"{render_ts(plan.interval.end, precision)}: about "
        f"{render_count(plan.rows_estimate, 'reading')} at most",
        f"{render_count(plan.wholes, 'whole partition')}, "
        f"{render_count(plan.ranges, 'part of a partition', 'parts of partitions')}",
        *plan.costs,
    ]
    return "\n".join(lines)
