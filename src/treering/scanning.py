"""How a table is scanned: a few series at a time, in batches, at the consumer's pace.

Rules of this file: neither series nor partitions are held but for a bounded number of each; what
was asked for and not handed out is bounded by the fan-out; while the consumer has a batch, nothing
new is sent.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from treering.core.listing import is_worth_listing
from treering.core.read_plan import Order, PartitionRead, ReadPlan, plan_read
from treering.core.schema import Column, check_series
from treering.core.table import TableSpec
from treering.core.units import Interval
from treering.core.widths import History, count_slices
from treering.engine.deadline import deadline_in
from treering.engine.protocol import Page
from treering.errors import SeriesNotFoundError
from treering.fanout.read import ReadFanOut
from treering.fanout.steps import Pause, Stream
from treering.leases import SeriesLease
from treering.reading import reading_of
from treering.readings import Part, Readings, readings_from_parts
from treering.table_context import ROWS_ANY, TableContext

BATCH_ROWS: Final = 100_000
"""The most readings of a batch unless the caller says otherwise: two pages."""

SERIES_AT_ONCE: Final = 1_000
"""How many series are planned at once at most."""

PARTITIONS_AT_ONCE: Final = 4_096
"""How many partitions are planned at once at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRequest:
    """What a scan wants.

    Attributes:
        interval: The event time asked for.
        order: By event time within each series.
        columns: Names of the columns wanted; all where None.
        partial: Whether partitions that stay unreadable are named in the batches instead of
            ending the scan.
        missing_ok: Whether a series that the table does not have counts as an empty one.
        batch_rows: The most readings of a batch.
        timeout_s: How long may pass without a page.
    """

    interval: Interval
    order: Order
    columns: Sequence[str] | None
    partial: bool
    missing_ok: bool
    batch_rows: int
    timeout_s: float


@dataclass(slots=True)
class _Batch:
    """Pages on their way to the consumer, whole and in order.

    Attributes:
        pages: What the next batch will have.
        rows: How many readings that is.
        missing: Partitions that could not be read, and were not told yet.
    """

    pages: list[tuple[str, Page]] = field(default_factory=list)
    rows: int = 0
    missing: list[PartitionRead] = field(default_factory=list)


class Scan:
    """One scan of a table.

    Args:
        spec: The table.
        context: What it shares with its store.
        lease: What is known of its series.
        request: What is wanted.
    """

    def __init__(
        self, spec: TableSpec, context: TableContext, lease: SeriesLease, request: ScanRequest
    ) -> None:
        self._spec = spec
        self._context = context
        self._lease = lease
        self._request = request
        self._schema: tuple[Column, ...] = spec.selected(request.columns)
        self._batch = _Batch()

    def run(self, series: Iterable[str]) -> Stream[Readings]:
        """Scan series, in the order in which they come."""
        recorder = self._context.stats.verb("scan")
        began_s = time.perf_counter()
        error: BaseException | None = None
        try:
            yield from self._batches(series)
        except GeneratorExit:
            # To leave early is no failure.
            raise
        except BaseException as raised:
            error = raised
            raise
        finally:
            recorder.on_call(time.perf_counter() - began_s, error)

    def _batches(self, series: Iterable[str]) -> Stream[Readings]:
        for names in self._groups(iter(series)):
            rows = dict.fromkeys(names, 0)
            for plan in self._plans(names):
                with closing(self._read(plan, rows)) as batches:
                    yield from batches
            self._check_listed(rows)
        if self._batch.pages or self._batch.missing:
            yield self._take()

    def _read(self, plan: ReadPlan, rows: dict[str, int]) -> Stream[Readings]:
        request = self._request
        reading = reading_of(self._spec, self._context, "scan", request.timeout_s, plan.widths)
        if is_worth_listing(plan, self._context.engine.joined_max):
            plan = yield from reading.without_unlisted(plan, partial=request.partial)
        fan_out = ReadFanOut(
            plan,
            self._context.permits,
            partial=request.partial,
            page_rows_max=min(request.batch_rows, self._context.engine.page_rows_max),
            joined_max=self._context.engine.joined_max,
        )
        with closing(reading.stream(fan_out, timeout_s=request.timeout_s)) as pages:
            for item in pages:
                if isinstance(item, Pause):
                    yield item
                    continue
                name, page = item
                rows[name] += len(page)
                if self._batch.rows + len(page) > request.batch_rows:
                    yield self._take()
                if len(page):
                    self._batch.pages.append(item)
                    self._batch.rows += len(page)
        self._batch.missing += fan_out.missing

    def _take(self) -> Readings:
        batch, self._batch = self._batch, _Batch()
        parts: dict[str, list[Part]] = {}
        for name, page in batch.pages:
            parts.setdefault(name, []).extend(page.parts)
        self._context.stats.verb("scan").on_end(partitions=0, rows=batch.rows)
        return readings_from_parts(
            parts,
            series=tuple(parts),
            precision=self._spec.precision,
            schema=self._schema,
            missing=tuple(batch.missing),
        )

    # What is planned at once

    def _groups(self, names: Iterator[str]) -> Iterator[tuple[str, ...]]:
        each = max(count_slices(self._clipped(self._now_ts()), (), self._spec.width), 1)
        size = min(max(PARTITIONS_AT_ONCE // each, 1), SERIES_AT_ONCE)
        while group := tuple(dict.fromkeys(map(check_series, islice(names, size)))):
            yield group

    def _plans(self, names: tuple[str, ...]) -> Iterator[ReadPlan]:
        """Yield the plans of some series: all at once, or cut by series, and then by time."""
        now_ts = self._now_ts()
        with deadline_in(self._request.timeout_s):
            widths = self._lease.widths_to_read(names, now_ts)
        waiting = [(names, self._clipped(now_ts))]
        while waiting:
            wanted, interval = waiting.pop()
            if self._partitions(wanted, interval, widths) > PARTITIONS_AT_ONCE:
                waiting += reversed(self._halves(wanted, interval))
                continue
            yield plan_read(
                self._spec,
                wanted,
                interval,
                now_ts=now_ts,
                order=self._request.order,
                columns=self._request.columns,
                rows_max=ROWS_ANY,
                widths=widths,
            )

    def _partitions(
        self, names: tuple[str, ...], interval: Interval, widths: dict[str, History]
    ) -> int:
        own = [widths[name] for name in names if widths.get(name)]
        count = count_slices(interval, (), self._spec.width) * (len(names) - len(own))
        return count + sum(count_slices(interval, h, self._spec.width) for h in own)

    def _halves(
        self, names: tuple[str, ...], interval: Interval
    ) -> list[tuple[tuple[str, ...], Interval]]:
        if len(names) > 1:
            middle = len(names) // 2
            return [(names[:middle], interval), (names[middle:], interval)]
        middle = (interval.start + interval.end) // 2
        halves = [
            (names, Interval(interval.start, middle, interval.precision)),
            (names, Interval(middle, interval.end, interval.precision)),
        ]
        return halves if self._request.order == "asc" else halves[::-1]

    def _clipped(self, now_ts: int) -> Interval:
        spec = self._spec
        return self._request.interval.clipped(spec.oldest_ts(now_ts), spec.precision.ts_end)

    def _now_ts(self) -> int:
        return self._context.clock() * self._spec.precision.per_s // 1_000_000_000

    def _check_listed(self, rows: dict[str, int]) -> None:
        if self._request.missing_ok or self._spec.is_adopted:
            return
        for name, count in rows.items():
            if count == 0 and not self._lease.is_known(name):
                raise SeriesNotFoundError(
                    f"the table {self._spec.name!r} has no series {name!r}",
                    hint="scan the series that t.series() yields, or pass missing_ok=True",
                    series=name,
                )
