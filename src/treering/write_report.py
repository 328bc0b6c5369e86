"""What became of a write: how many readings are durable, and which were refused and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from treering.core.units import render_count
from treering.core.write_plan import Refusal, WritePlan
from treering.errors import RefusedReadingsError


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class WriteReport:
    """What became of a write.

    Attributes:
        accepted: Readings that are durable now.
        floored: How many of them were finer than the table's precision.
        repeats: Readings that equal another of the same call, and are covered by it.
        plans: What was planned; :attr:`refused` lists what they refused.
        retried: How many readings were in requests that were sent again.
    """

    accepted: int
    floored: int
    repeats: int
    plans: tuple[WritePlan, ...]
    retried: int = 0

    @property
    def refused_count(self) -> int:
        """How many readings were refused."""
        return sum(len(plan.refused_index) for plan in self.plans)

    @property
    def refused(self) -> Iterator[Refusal]:
        """Every refused reading with its place in the input and the reason."""
        for plan in self.plans:
            yield from plan.refusals()

    @property
    def reasons(self) -> dict[str, int]:
        """How many readings were refused for each reason."""
        return dict(Counter(str(refusal.reason) for refusal in self.refused))

    def __repr__(self) -> str:
        # The plans hold every reading: nothing to show on a prompt.
        return f"<WriteReport: {self}>"

    def __str__(self) -> str:
        parts = [f"{render_count(self.accepted, 'reading')} written"]
        if self.floored:
            parts.append(f"{self.floored:,} of them floored to the table's precision")
        if self.repeats:
            parts.append(f"{render_count(self.repeats, 'repeat')} left out")
        if self.refused_count:
            why = "; ".join(f"{count:,}: {reason}" for reason, count in self.reasons.items())
            parts.append(f"{self.refused_count:,} refused ({why})")
        return ", ".join(parts)

    def raise_if_refused(self) -> WriteReport:
        """Return this report if every reading was accepted.

        Raises:
            RefusedReadingsError: Some were refused; the others were written.
        """
        if self.refused_count:
            raise refused_error(self, "the other readings were written")
        return self


def report_of(plans: Sequence[WritePlan], *, accepted: int | None = None) -> WriteReport:
    """Return the report of plans of which ``accepted`` readings are durable; all by default."""
    return WriteReport(
        accepted=sum(plan.rows for plan in plans) if accepted is None else accepted,
        floored=sum(plan.floored for plan in plans),
        repeats=sum(plan.repeats for plan in plans),
        plans=tuple(plans),
    )


def refused_error(report: WriteReport, outcome: str) -> RefusedReadingsError:
    """Return the error that names what was refused."""
    first = next(report.refused)
    verb = "was" if report.refused_count == 1 else "were"
    return RefusedReadingsError(
        f"{render_count(report.refused_count, 'reading')} {verb} refused, first {first}; {outcome}",
        hint="look at error.report.refused for each reading and its reason",
        report=report,
    )
