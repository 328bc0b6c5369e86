"""What became of the readings that a writer was given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from treering.core.units import render_count
from treering.core.write_plan import Refusal
from treering.write_report import WriteReport

REFUSED_KEPT_MAX: Final = 1_000
"""How many refused readings a report names; all are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterReport:
    """What became of the readings of a writer so far.

    ``appended + recovered`` equals ``accepted + repeats + refused_count + pending``.

    Attributes:
        appended: Readings that the writer took.
        recovered: Readings that were in the spool when it was opened.
        accepted: Readings that are durable in the table.
        repeats: Readings whose series and event time were appended again before they were sent:
            the later one counts, column by column.
        floored: Accepted ones that were finer than the table's precision.
        retried: Readings that were sent again; one that was sent three times counts twice.
        refused_count: Readings that were refused.
        reasons: How many for each reason.
        refused: The first 1,000 of them, each with its reason; ``index`` counts appends from 0.
        pending: Readings that are not in the table yet.
        pending_bytes: What they are counted with: memory, or bytes in the spool.
    """

    appended: int
    recovered: int
    accepted: int
    repeats: int
    floored: int
    retried: int
    refused_count: int
    reasons: dict[str, int]
    refused: tuple[Refusal, ...]
    pending: int
    pending_bytes: int

    def __str__(self) -> str:
        parts = [f"{render_count(self.accepted, 'reading')} written"]
        for count, what in (
            (self.recovered, "found in the spool"),
            (self.floored, "floored to the table's precision"),
            (self.repeats, "replaced by later ones"),
            (self.retried, "sent again"),
        ):
            if count:
                parts.append(f"{count:,} {what}")
        if self.refused_count:
            why = "; ".join(f"{count:,}: {reason}" for reason, count in self.reasons.items())
            parts.append(f"{self.refused_count:,} refused ({why})")
        if self.pending:
            parts.append(f"{self.pending:,} not written yet")
        return ", ".join(parts)


class Tally:
    """Counts what became of readings; not safe to use from two threads at once."""

    def __init__(self, on_refused: Callable[[Refusal], object] | None) -> None:
        self.appended = 0
        self.recovered = 0
        self.retried = 0
        self.pending = 0
        self._accepted = 0
        self._repeats = 0
        self._floored = 0
        self._reasons: Counter[str] = Counter()
        self._refused: list[Refusal] = []
        self._has_callback = on_refused is not None

    def take(self, rows: int) -> None:
        """Count readings that the writer took."""
        self.appended += rows
        self.pending += rows

    def recover(self, rows: int) -> None:
        """Count readings that were there before."""
        self.recovered += rows
        self.pending += rows

    def add(self, report: WriteReport) -> list[Refusal]:
        """Count what became of one batch; returns what is to be told to the callback."""
        self.pending -= report.accepted + report.repeats + report.refused_count
        self._accepted += report.accepted
        self._repeats += report.repeats
        self._floored += report.floored
        self.retried += report.retried
        refused = list(report.refused)
        self._reasons.update(str(refusal.reason) for refusal in refused)
        self._refused += refused[: REFUSED_KEPT_MAX - len(self._refused)]
        return refused if self._has_callback else []

    def report(self, pending_bytes: int) -> WriterReport:
        """Return the counts as they stand."""
        return WriterReport(
            appended=self.appended,
            recovered=self.recovered,
            accepted=self._accepted,
            repeats=self._repeats,
            floored=self._floored,
            retried=self.retried,
            refused_count=self._reasons.total(),
            reasons=dict(self._reasons),
            refused=tuple(self._refused),
            pending=self.pending,
            pending_bytes=pending_bytes,
        )
