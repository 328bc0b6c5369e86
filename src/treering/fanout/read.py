"""Reading many partitions side by side: which page to ask for next."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from itertools import groupby, islice
from typing import Any, Final

from treering.core.read_plan import PartitionRead, ReadPlan
from treering.engine.protocol import Page, PageRead
from treering.errors import PartialReadError, TreeringError
from treering.fanout.permits import ATTEMPTS_MAX, Permits, backoff_s

PAGE_BYTES_MAX: Final = 2_000_000
ROWS_IN_FLIGHT_MAX: Final = 400_000
ROWS_ASKED_MIN: Final = 1_000
"""What a page is asked to have at least, however few readings the pages before it had."""

LOOK_AHEAD_MAX: Final = 256
LANES_MAX: Final = 64
"""How many series are read side by side."""


@dataclass(slots=True)
class _Partition:
    """Where the reading of one partition stands, or of adjacent ones that are read as one."""

    reads: tuple[PartitionRead, ...]
    lane: _Lane
    place: int
    cursor: Any = None
    pages: deque[Page] = field(default_factory=deque)
    rows: int = 0
    attempts: int = 0
    due_s: float = 0.0
    is_complete: bool = False
    # Whether the page after the one that is being decoded was asked for already.
    is_ahead: bool = False
    error: TreeringError | None = None

    @property
    def read(self) -> PartitionRead:
        """What to ask for."""
        first, last = self.reads[0], self.reads[-1]
        if first is last:
            return first
        start, end = min(first.start, last.start), max(first.end, last.end)
        return replace(first, start=start, end=end)


class _Lane:
    """The partitions of one series, read in order.

    Attributes:
        ready: Pages that are next in order, waiting to be handed out.
        rows: Readings handed to ``ready`` so far.
        is_done: Whether nothing more is wanted of this series.
        is_idle: Whether nothing can be sent before an answer or a failure of it comes.
    """

    def __init__(
        self, series: str, reads: Sequence[tuple[PartitionRead, ...]], limit: int | None
    ) -> None:
        self.series = series
        self.partitions = [_Partition(some, self, place) for place, some in enumerate(reads)]
        self.ready: deque[Page] = deque()
        self.rows = 0
        self.is_done = not reads
        self.is_idle = False
        self._limit = limit
        self._head = 0
        self._next = 0
        # Started before, and to be asked again: for the next page, or after a failure.
        self._again: deque[_Partition] = deque()
        self._look_ahead = LOOK_AHEAD_MAX if limit is None else 1

    @property
    def head(self) -> _Partition:
        """The first partition whose pages have not all been handed out."""
        return self.partitions[self._head]

    @property
    def started(self) -> int:
        """How many partitions were asked for their first page."""
        return sum(len(partition.reads) for partition in self.partitions[: self._next])

    def startable(self, now_s: float) -> _Partition | None:
        """Return the next partition to send a request for, if there is one now."""
        end = min(self._head + self._look_ahead, len(self.partitions))
        for partition in self._again:
            if partition.due_s <= now_s and partition.place < end:
                return partition
        if self._next < end:
            return self.partitions[self._next]
        # A retry that is due later, or out of reach for now, must be looked for again.
        self.is_idle = not self._again
        return None

    def start(self, partition: _Partition) -> None:
        """Take note that a request for the partition is on its way."""
        if self._next < len(self.partitions) and partition is self.partitions[self._next]:
            self._next += 1
        else:
            self._again.remove(partition)

    def ask_again(self, partition: _Partition) -> None:
        """Have the partition asked once more; the one nearest to the head goes first."""
        self.is_idle = False
        if partition is self.head:
            self._again.appendleft(partition)
        else:
            self._again.append(partition)

    def give_up(self, partition: _Partition, error: TreeringError) -> None:
        """Want nothing more of a partition; what is on its way of it counts no more."""
        partition.error, partition.is_complete, partition.is_ahead = error, True, False
        self.is_idle = False
        if partition in self._again:
            self._again.remove(partition)

    def wake_s(self) -> float | None:
        """Return when the next delayed retry of this series is due."""
        end = self._head + self._look_ahead
        return min((p.due_s for p in self._again if p.due_s > 0 and p.place < end), default=None)

    def rows_wanted(self, partition: _Partition, page_rows: int) -> int:
        """Return how many readings the next page of a partition should have at most."""
        if self._limit is None:
            return page_rows
        waiting = sum(map(len, partition.pages))
        return max(1, min(page_rows, self._limit - self.rows - waiting))

    def take_in(self, partition: _Partition, page: Page) -> None:
        """Keep a page of a partition; where it has readings, nothing need run ahead of it."""
        partition.attempts, partition.due_s = 0, 0.0
        self.is_idle = False
        was_asked, partition.is_ahead = partition.is_ahead, False
        partition.cursor = page.cursor
        partition.is_complete = page.cursor is None
        partition.rows += len(page)
        if len(page) or page.stats:
            partition.pages.append(page)
            if self._limit is not None:
                self._look_ahead = 1
        if not partition.is_complete and not was_asked:
            self.ask_again(partition)

    def harvest(self) -> int:
        """Move pages that are next in order to ``ready``.

        Returns:
            Readings that the limit made superfluous.
        """
        dropped = 0
        while not self.is_done:
            partition = self.head
            while partition.pages:
                dropped += self._make_ready(partition.pages.popleft())
            if not partition.is_complete or self.is_done:
                break
            self._head += 1
            self.is_done = self._head == len(self.partitions)
            if partition.rows == 0 and self._limit is not None:
                self._look_ahead = min(2 * self._look_ahead, LOOK_AHEAD_MAX)
        if self.is_done:
            for partition in self.partitions[self._head : self._next]:
                dropped += sum(map(len, partition.pages))
                partition.pages.clear()
        return dropped

    def _make_ready(self, page: Page) -> int:
        if self._limit is None:
            self.ready.append(page)
            return 0
        room = self._limit - self.rows
        dropped = max(len(page) - room, 0)
        if dropped:
            page = page.head(room)
        if len(page):
            self.ready.append(page)
        self.rows += len(page)
        self.is_done = self.rows >= self._limit
        return dropped


PageRequest = tuple[_Partition, PageRead]


class ReadFanOut:
    """Reads partitions side by side and hands their pages out in the plan's order.

    Each series is a lane. The first unfinished partition of the first unfinished lane may always
    send; others run ahead of it within the bounds of requests and of readings in flight and
    waiting. With a limit, nothing runs ahead within a series until partitions come back empty;
    then the look-ahead doubles, so that a sparse series costs few round trips and a dense one no
    wasted read.
    """

    def __init__(
        self,
        plan: ReadPlan,
        permits: Permits,
        *,
        partial: bool = False,
        attempts_max: int = ATTEMPTS_MAX,
        page_rows_max: int,
        joined_max: int = 1,
    ) -> None:
        self._plan = plan
        self._permits = permits
        self._partial = partial
        self._attempts_max = attempts_max
        # What is read as one fails as one: whoever wants the rest of it reads one by one.
        joined_max = 1 if partial else joined_max
        by_series = {name: list(reads) for name, reads in groupby(plan.reads, _series_of)}
        self._lanes = [
            _Lane(name, _joined(reads, joined_max), plan.limit) for name, reads in by_series.items()
        ]
        self._first = 0
        self._active: list[_Lane] = []
        self._waiting = iter(self._lanes)
        self._rows_held = 0
        self._pages_received = 0
        self._failed: list[_Partition] = []
        self.retries = 0
        row_bytes = max(1, plan.bytes_estimate // max(plan.rows_estimate, 1))
        self._page_rows = max(1, min(page_rows_max, PAGE_BYTES_MAX // row_bytes))
        # Less than a page may have where partitions turn out to be small: what is asked for counts
        # as held until it comes, and thousands of small ones would wait for nothing.
        self._rows_asked = self._page_rows
        self._is_cramped = False

    @property
    def is_done(self) -> bool:
        """Whether every page has been handed out."""
        return self._first >= len(self._lanes)

    @property
    def partitions_asked(self) -> int:
        """How many partitions were asked for a page."""
        return sum(lane.started for lane in self._lanes)

    @property
    def missing(self) -> tuple[PartitionRead, ...]:
        """The partitions that stayed failed."""
        return tuple(read for partition in self._failed for read in partition.reads)

    @property
    def causes(self) -> tuple[TreeringError, ...]:
        """Why, for each of :attr:`missing`."""
        return tuple(p.error for p in self._failed if p.error is not None)

    def start(self, now_s: float) -> list[PageRequest]:
        """Return the page requests to send now."""
        requests: list[PageRequest] = []
        self._active = [lane for lane in self._active if not lane.is_done]
        self._active += islice(self._waiting, LANES_MAX - len(self._active))
        for lane in self._active:
            if lane.is_idle:
                continue
            while (partition := lane.startable(now_s)) is not None:
                if not self._has_room_for(partition) or not self._permits.try_acquire():
                    return requests
                lane.start(partition)
                rows_max = lane.rows_wanted(partition, self._rows_asked)
                self._rows_held += rows_max
                requests.append((partition, self._request(partition, rows_max)))
        return requests

    def _has_room_for(self, partition: _Partition) -> bool:
        first = self._lanes[self._first]
        if partition.lane is first and partition is first.head:
            return True
        has_room = self._rows_held + self._rows_asked <= ROWS_IN_FLIGHT_MAX
        self._is_cramped = self._is_cramped or not has_room
        return has_room

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
        # Without a failure nothing is delayed, and many lanes need not be asked.
        lanes = self._active if self.retries else ()
        due = (lane.wake_s() for lane in lanes if not lane.is_done)
        return min((due_s for due_s in due if due_s is not None), default=None)

    def on_arrival(self, request: PageRequest, future: Future[Page]) -> None:
        """Want the page after one that came, where the engine knows it before decoding that one.

        A page of a read with a limit may be the last one that is wanted: nothing is asked ahead.
        """
        partition, _ = request
        cursor = getattr(future, "next_cursor", None)
        if cursor is None or self._plan.limit is not None or partition.is_complete:
            return
        partition.cursor, partition.is_ahead = cursor, True
        partition.lane.ask_again(partition)

    def on_result(self, request: PageRequest, page: Page) -> None:
        """Take a page."""
        partition, read = request
        self._rows_held -= read.rows_max
        self._pages_received += 1
        self._learn_size(page)
        if partition.lane.is_done or partition.error is not None:
            return
        self._rows_held += len(page)
        partition.lane.take_in(partition, page)
        self._rows_held -= partition.lane.harvest()

    def _learn_size(self, page: Page) -> None:
        if page.cursor is not None:
            # There is more than was asked for: pages to come may well be full.
            self._rows_asked = self._page_rows
        elif self._is_cramped:
            least = max(2 * len(page), ROWS_ASKED_MIN, self._rows_asked * 7 // 8)
            self._rows_asked = min(least, self._rows_asked)

    def on_error(self, request: PageRequest, error: TreeringError, now_s: float) -> None:
        """Take a failure: retry the page later, or give the partition up.

        Raises:
            PartialReadError: A partition stayed failed and the caller wants all or nothing.
            TreeringError: The same, where the read is of one partition or nothing came at all.
        """
        partition, read = request
        self._rows_held -= read.rows_max
        if partition.lane.is_done or partition.error is not None:
            return
        partition.attempts += 1
        # A page that came and cannot be decoded would come again as it is.
        is_undecodable = partition.is_ahead
        if error.retryable and not is_undecodable and partition.attempts < self._attempts_max:
            partition.due_s = now_s + backoff_s(partition.attempts)
            partition.lane.ask_again(partition)
            self.retries += 1
            return
        partition.lane.give_up(partition, error)
        self._failed.append(partition)
        if not self._partial:
            if len(self._plan.reads) == len(partition.reads) or self._pages_received == 0:
                raise error
            raise partial_read_error(self._plan, self.missing, self.causes)
        self._rows_held -= partition.lane.harvest()

    def take(self) -> Iterator[tuple[str, Page]]:
        """Yield the pages that are next in order, with their series, and let them go."""
        while (taken := self.take_next()) is not None:
            yield taken

    def take_next(self) -> tuple[str, Page] | None:
        """Return the page that is next in order, with its series, and let it go; None: not yet."""
        while self._first < len(self._lanes):
            lane = self._lanes[self._first]
            if lane.ready:
                page = lane.ready.popleft()
                self._rows_held -= len(page)
                return lane.series, page
            if not lane.is_done:
                return None
            self._first += 1
        return None


def _joined(reads: Sequence[PartitionRead], most: int) -> list[tuple[PartitionRead, ...]]:
    """Return reads with those that follow one another without a gap together, so many at most."""
    groups: list[list[PartitionRead]] = []
    for read in reads:
        before = groups[-1] if groups else []
        if before and len(before) < most and _is_adjacent(before[-1], read):
            before.append(read)
        else:
            groups.append([read])
    return [tuple(group) for group in groups]


def _is_adjacent(one: PartitionRead, next_one: PartitionRead) -> bool:
    return one.end == next_one.start or next_one.end == one.start


def _series_of(read: PartitionRead) -> str:
    return read.series


def partial_read_error(
    plan: ReadPlan, missing: tuple[PartitionRead, ...], causes: tuple[TreeringError, ...]
) -> PartialReadError:
    """Return the error of a read that misses partitions, naming them."""
    names = ", ".join(read.name for read in missing[:5]) + (" …" if len(missing) > 5 else "")
    error = PartialReadError(
        f"{len(missing)} of {plan.fan_out} partitions of {plan.spec.name} could not be read: "
        f"{names}; the first because: {causes[0]}",
        hint="try again, or read with partial=True to get the rest with these named",
        cli_hint="try again, or read with --partial to get the rest with these named",
        missing=missing,
        causes=causes,
    )
    error.__cause__ = causes[0]
    return error
