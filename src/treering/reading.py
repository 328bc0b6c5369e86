"""How a table's reads are run: what is asked of the engine, and what becomes of the answers.

Rules of this file: everything is steps, so that a thread or an event loop can run it; a partition
is left out only where the index said that it does not exist.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

from treering.aggregating import StepTotals
from treering.core.aggregate_result import Aggregation
from treering.core.bucket import BucketWidth
from treering.core.listing import (
    LISTED_MAX,
    BucketListing,
    ListedBuckets,
    keep_listed,
    listing_of,
)
from treering.core.read_plan import PartitionRead, ReadPlan
from treering.core.table import TableSpec
from treering.core.widths import History, all_widths
from treering.engine.protocol import Answers, Page
from treering.errors import CorruptDataError, EngineError, EngineTimeoutError, TreeringError
from treering.fanout.listing import ListFanOut
from treering.fanout.read import ReadFanOut
from treering.fanout.run import run_fan_out
from treering.fanout.steps import Steps, Stream
from treering.readings import Readings, readings_from_parts
from treering.table_context import TableContext


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One call that reads.

    Attributes:
        spec: The table.
        context: What the table shares with its store.
        verb: What the call counts as: ``read``, ``latest`` or ``count``.
        deadline_s: When to give up, on the monotonic clock.
        widths: The widths of the series that do not simply have the table's.
    """

    spec: TableSpec
    context: TableContext
    verb: str
    deadline_s: float
    widths: Mapping[str, History] = field(default_factory=dict)

    def widths_of(self, names: Sequence[str]) -> dict[str, tuple[BucketWidth, ...]]:
        """Return how each series cuts time anywhere."""
        default = self.spec.width
        return {name: all_widths(self.widths.get(name, ()), default) for name in names}

    def run(
        self, plan: ReadPlan, *, partial: bool = False, skip_damaged: bool = False
    ) -> Steps[Readings]:
        """Read what is planned."""
        parts: dict[str, list[Any]] = {name: [] for name in plan.series}

        def keep(series: str, page: Page) -> None:
            parts[series] += page.parts

        missing = yield from self._pages(plan, keep, partial=partial, skip_damaged=skip_damaged)
        return readings_from_parts(
            parts,
            series=plan.series,
            precision=self.spec.precision,
            schema=plan.columns,
            missing=missing,
        )

    def aggregate(
        self,
        plan: ReadPlan,
        aggregation: Aggregation,
        *,
        partial: bool = False,
        skip_damaged: bool = False,
    ) -> Steps[tuple[Readings, dict[str, int]]]:
        """Return what is planned by step, and how many readings each series had."""
        totals = StepTotals(plan, aggregation)
        missing = yield from self._pages(
            plan,
            totals.take,
            partial=partial,
            skip_damaged=skip_damaged,
            answers=totals,
        )
        return totals.result(missing), totals.rows

    def count(self, plan: ReadPlan) -> Steps[dict[str, int]]:
        """Count what is planned, and keep nothing of it."""
        rows = dict.fromkeys(plan.series, 0)

        def add(series: str, page: Page) -> None:
            rows[series] += len(page)

        yield from self._pages(plan, add, is_count=True)
        return rows

    def _pages(
        self,
        plan: ReadPlan,
        take: Callable[[str, Page], None],
        *,
        partial: bool = False,
        skip_damaged: bool = False,
        is_count: bool = False,
        answers: Answers | None = None,
    ) -> Steps[tuple[PartitionRead, ...]]:
        """Have every page taken, in order; return what stayed failed, and what was left out."""
        fan_out = ReadFanOut(
            plan,
            self.context.permits,
            partial=partial,
            page_rows_max=self.context.engine.page_rows_max,
            joined_max=self.context.engine.joined_max,
        )
        # A damaged part may be met by two pages.
        damaged: dict[PartitionRead, None] = {}

        def on_damage(part: PartitionRead, _: TreeringError) -> None:
            damaged.update(dict.fromkeys(plan.overlap(part)))

        told = on_damage if skip_damaged else None
        is_plain = not is_count and told is None and answers is None

        def submit(request: Any) -> Future[Any]:
            read = request[1]
            if not is_plain:
                read = replace(read, is_count=is_count, on_damage=told, answers=answers)
            return self.context.engine.submit_read(self.spec, read)

        def on_step() -> None:
            for series, page in fan_out.take():
                take(series, page)

        try:
            yield from self._run(fan_out, submit, on_step)
        finally:
            counted = self.context.stats.verb(self.verb)
            counted.on_end(partitions=fan_out.partitions_asked, rows=0)
        return (*fan_out.missing, *damaged)

    def stream(self, fan_out: ReadFanOut, *, timeout_s: float) -> Stream[tuple[str, Page]]:
        """Yield the pages of a fan-out with their series, in order, one whenever one is asked for.

        Raises:
            EngineTimeoutError: One was waited for longer than ``timeout_s``.
        """
        held: list[tuple[str, Page]] = []

        def on_step() -> bool:
            page = fan_out.take_next()
            if page is not None:
                held.append(page)
            return page is not None

        def submit(request: Any) -> Future[Any]:
            return self.context.engine.submit_read(self.spec, request[1])

        endless = replace(self, deadline_s=math.inf)
        since_s = time.monotonic()
        try:
            with closing(endless._run(fan_out, submit, on_step)) as steps:
                for pause in steps:
                    if held:
                        yield held.pop()
                        # The time that the consumer took is not the engine's.
                        since_s = time.monotonic()
                        continue
                    if time.monotonic() - since_s > timeout_s:
                        raise EngineTimeoutError(
                            f"no page of {self.spec.name} came for {timeout_s:g} s",
                            hint="raise timeout_s, or look at the server's load",
                        )
                    yield pause
        finally:
            counted = self.context.stats.verb(self.verb)
            counted.on_end(partitions=fan_out.partitions_asked, rows=0)

    def list(
        self, listings: Sequence[BucketListing], *, is_whole: bool = False
    ) -> Steps[Mapping[str, ListedBuckets]]:
        """Ask the index, on until the answers are complete where ``is_whole``."""
        fan_out = ListFanOut(listings, self.context.permits, is_whole=is_whole)

        def submit(request: Any) -> Future[Any]:
            return self.context.engine.submit_listing(self.spec, request.listing)

        yield from self._run(fan_out, submit)
        return fan_out.answers

    def without_unlisted(self, plan: ReadPlan, *, partial: bool = False) -> Steps[ReadPlan]:
        """Return the plan without the partitions of buckets that do not exist."""
        if plan.interval.is_empty:
            return plan
        limit = min(plan.fan_out // len(plan.series) + 1, LISTED_MAX)
        widths = self.widths_of(plan.series)
        listings = [listing_of(n, plan.interval, widths[n], limit=limit) for n in plan.series]
        try:
            found = yield from self.list(listings, is_whole=True)
        except (EngineError, CorruptDataError):
            # A partial read does without what cannot be read, the index included.
            if not partial:
                raise
            return plan
        return keep_listed(plan, {name: answer.buckets for name, answer in found.items()})

    def _run(
        self,
        fan_out: Any,
        submit: Callable[[Any], Future[Any]],
        on_step: Callable[[], bool | None] = lambda: None,
    ) -> Steps[None]:
        return run_fan_out(
            fan_out,
            submit,
            self.context.permits,
            deadline_s=self.deadline_s,
            is_cancelled=self.context.is_closed,
            watch=self.context.stats.verb(self.verb),
            on_step=on_step,
        )


def reading_of(
    spec: TableSpec,
    context: TableContext,
    verb: str,
    timeout_s: float,
    widths: Mapping[str, History],
) -> Reading:
    """Return a call that reads and ends within so many seconds."""
    deadline_s = time.monotonic() + timeout_s
    return Reading(spec=spec, context=context, verb=verb, deadline_s=deadline_s, widths=widths)
