"""Reading many partitions side by side: which page to ask for next."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from treering.core.read_plan import PartitionRead, ReadPlan
from treering.engine.protocol import Page, PageRead
from treering.errors import PartialReadError, TreeringError
from treering.fanout.permits import ATTEMPTS_MAX, Permits, backoff_s

PAGE_ROWS_MAX: Final = 50_000
PAGE_BYTES_MAX: Final = 2_000_000
ROWS_IN_FLIGHT_MAX: Final = 400_000
LOOK_AHEAD_MAX: Final = 256


@dataclass(slots=True)
class _Partition:
    """Where the reading of one partition stands."""

    read: PartitionRead
    cursor: Any = None
    pages: deque[Page] = field(default_factory=deque)
    in_flight_rows: int = 0
    attempts: int = 0
    due_s: float = 0.0
    rows: int = 0
    is_complete: bool = False
    error: TreeringError | None = None

    @property
    def is_idle(self) -> bool:
        return not self.is_complete and self.in_flight_rows == 0


class ReadFanOut:
    """Reads partitions side by side and hands their pages out in the plan's order.

    The first unfinished partition, the head, may always send. Others run ahead of it within the
    bounds of requests and of rows in flight and waiting. With a limit, nothing runs ahead until
    partitions come back empty; then the look-ahead doubles, so that a sparse series costs few
    round trips and a dense one no wasted read.
    """

    def __init__(
        self,
        plan: ReadPlan,
        permits: Permits,
        *,
        partial: bool = False,
        attempts_max: int = ATTEMPTS_MAX,
    ) -> None:
        self._plan = plan
        self._permits = permits
        self._partial = partial
        self._attempts_max = attempts_max
        self._partitions = [_Partition(read) for read in plan.reads]
        self._head = 0
        self._look_ahead = LOOK_AHEAD_MAX if plan.limit is None else 1
        self._series_rows = 0
        self._pages_received = 0
        row_bytes = max(1, plan.bytes_estimate // max(plan.rows_estimate, 1))
        self._page_rows = max(1, min(PAGE_ROWS_MAX, PAGE_BYTES_MAX // row_bytes))

    @property
    def is_done(self) -> bool:
        """Whether every page has been handed out."""
        return self._head >= len(self._partitions)

    @property
    def missing(self) -> tuple[PartitionRead, ...]:
        """The partitions that stayed failed, in the plan's order."""
        return tuple(p.read for p in self._partitions if p.error is not None)

    @property
    def causes(self) -> tuple[TreeringError, ...]:
        """Why, for each of :attr:`missing`."""
        return tuple(p.error for p in self._partitions if p.error is not None)

    def start(self, now_s: float) -> list[tuple[int, PageRead]]:
        """Return the page requests to send now, each with the place of its partition."""
        requests: list[tuple[int, PageRead]] = []
        last = min(self._head + self._look_ahead, len(self._partitions))
        rows = sum(
            p.in_flight_rows + sum(len(page) for page in p.pages)
            for p in self._partitions[self._head : last]
        )
        for place in range(self._head, last):
            partition = self._partitions[place]
            if place != self._head and rows + self._page_rows > ROWS_IN_FLIGHT_MAX:
                break
            if not partition.is_idle or partition.due_s > now_s:
                continue
            if not self._permits.try_acquire():
                break
            rows_max = self._rows_wanted(partition)
            partition.in_flight_rows = rows_max
            rows += rows_max
            requests.append((place, self._request(partition, rows_max)))
        return requests

    def _rows_wanted(self, partition: _Partition) -> int:
        if self._plan.limit is None:
            return self._page_rows
        taken = partition.rows
        if partition.read.series == self._partitions[self._head].read.series:
            taken += self._series_rows
        return max(1, min(self._page_rows, self._plan.limit - taken))

    def _request(self, partition: _Partition, rows_max: int) -> PageRead:
        return PageRead(
            partition=partition.read,
            order=self._plan.order,
            columns=self._plan.columns,
            rows_max=rows_max,
            cursor=partition.cursor,
        )

    def wake_s(self) -> float | None:
        """Return when the next delayed retry is due."""
        ahead = self._partitions[self._head : self._head + self._look_ahead]
        due = [p.due_s for p in ahead if p.is_idle and p.due_s > 0]
        return min(due, default=None)

    def on_result(self, request: tuple[int, PageRead], page: Page) -> None:
        """Take a page."""
        partition = self._settled(request)
        self._pages_received += 1
        partition.attempts, partition.due_s = 0, 0.0
        partition.cursor = page.cursor
        partition.is_complete = page.cursor is None
        partition.rows += len(page)
        if len(page):
            partition.pages.append(page)
        elif partition.is_complete and partition.rows == 0 and self._plan.limit is not None:
            self._look_ahead = min(2 * self._look_ahead, LOOK_AHEAD_MAX)

    def on_error(self, request: tuple[int, PageRead], error: TreeringError, now_s: float) -> None:
        """Take a failure: retry the page later, or give the partition up.

        Raises:
            PartialReadError: A partition stayed failed and the caller wants all or nothing.
            TreeringError: The same, where the read is of one partition or nothing came at all.
        """
        partition = self._settled(request)
        partition.attempts += 1
        if error.retryable and partition.attempts < self._attempts_max:
            partition.due_s = now_s + backoff_s(partition.attempts)
            return
        partition.error = error
        partition.is_complete = True
        if not self._partial:
            if len(self._partitions) == 1 or self._pages_received == 0:
                raise error
            raise partial_read_error(self._plan, self.missing, self.causes)

    def _settled(self, request: tuple[int, PageRead]) -> _Partition:
        partition = self._partitions[request[0]]
        partition.in_flight_rows = 0
        return partition

    def take(self) -> Iterator[tuple[str, Page]]:
        """Yield the pages that are next in order, with their series, and let them go."""
        while self._head < len(self._partitions):
            partition = self._partitions[self._head]
            while partition.pages:
                page = self._limited(partition, partition.pages.popleft())
                if page is not None:
                    yield partition.read.series, page
            if not partition.is_complete:
                return
            self._advance(partition)

    def _limited(self, partition: _Partition, page: Page) -> Page | None:
        limit = self._plan.limit
        if limit is None:
            return page
        room = limit - self._series_rows
        if room <= 0:
            return None
        if len(page) > room:
            columns = {name: data.take(slice(room)) for name, data in page.columns.items()}
            page = Page(page.ts[:room], columns, page.cursor)
        self._series_rows += len(page)
        if self._series_rows >= limit:
            self._skip_rest_of(partition.read.series)
        return page

    def _skip_rest_of(self, series: str) -> None:
        for partition in self._partitions[self._head :]:
            if partition.read.series != series:
                break
            # What is in flight is waited for but not asked for again.
            partition.is_complete = True

    def _advance(self, partition: _Partition) -> None:
        self._head += 1
        following = self._partitions[self._head :][:1]
        if following and following[0].read.series != partition.read.series:
            self._series_rows = 0
            if self._plan.limit is not None:
                self._look_ahead = 1


def partial_read_error(
    plan: ReadPlan, missing: tuple[PartitionRead, ...], causes: tuple[TreeringError, ...]
) -> PartialReadError:
    """Return the error of a read that misses partitions, naming them."""
    names = ", ".join(read.name for read in missing[:5]) + (" …" if len(missing) > 5 else "")
    error = PartialReadError(
        f"{len(missing)} of {plan.fan_out} partitions of {plan.spec.name} could not be read: "
        f"{names}; the first because: {causes[0]}",
        hint="try again, or read with partial=True to get the rest with these named",
        missing=missing,
        causes=causes,
    )
    error.__cause__ = causes[0]
    return error
