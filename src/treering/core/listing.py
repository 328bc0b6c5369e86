"""Which buckets of a series exist: what is asked of the index, how long its marks live, and how a
read keeps to what it lists.

Rules of this file: a mark says "may hold readings" and never less, so one too many costs a query
and one too few would hide a reading; what the index did not say completely cuts nothing; a bucket
is known by its start and its width, because a series may change its width.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from treering.core.bucket import Bucket, BucketWidth, bucket_start_s
from treering.core.expiry import index_ttl_s, ttl_max_at_s
from treering.core.read_plan import PartitionRead, ReadPlan
from treering.core.table import TableSpec
from treering.core.units import MINUTE_S, TIME_MIN_S, Interval
from treering.errors import UsageError

ERA_BUCKETS: Final = 1_000_000
"""The most buckets of one width that one partition of the index lists: about 30 MB on disk."""

LISTED_FIRST: Final = 64
"""How many buckets a search for the newest readings asks for at first."""

LISTED_MAX: Final = 4_096
"""The most buckets that it asks for at once later."""

LIMIT_MIN: Final = 16
"""The least a listing may ask for: more than there are widths that could share one start."""

PRUNE_FROM: Final = 32
"""From how many partitions of a series on a read asks the index which of them exist."""

# 15-minute buckets take 28 years to fill an era, so wider ones need none.
_WIDE_S: Final = 15 * MINUTE_S
_NEVER_US: Final = 253_402_300_800_000_000  # The end of the year 9999.


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketListing:
    """A question to the index: which buckets of a series exist.

    Attributes:
        series: The series id.
        start_s: The first bucket start wanted, epoch seconds.
        end_s: The first bucket start not wanted.
        widths: How the series cut time anywhere in the interval.
        is_newest_first: Whether buckets come by descending start.
        limit: The most buckets wanted, at least 16.
    """

    series: str
    start_s: int
    end_s: int
    widths: tuple[BucketWidth, ...]
    is_newest_first: bool = True
    limit: int = LISTED_FIRST

    def __post_init__(self) -> None:
        if self.limit < LIMIT_MIN:
            raise UsageError(f"a listing asks for {LIMIT_MIN} buckets or more, not {self.limit}")
        if not self.widths:
            raise UsageError(f"a listing of {self.series!r} names no width")

    def after(self, next_s: int) -> BucketListing:
        """Return the question for the rest, from what :class:`ListedBuckets` said to go on at."""
        if self.is_newest_first:
            return replace(self, end_s=next_s)
        return replace(self, start_s=next_s)

    def answer(self, found: Collection[Bucket], edges: Collection[int] = ()) -> ListedBuckets:
        """Return the answer made of buckets that were found, in any order.

        Args:
            found: Buckets; others than were asked for are left out.
            edges: The last start of every list that was cut off there; none where all is found.
        """
        is_newest_first = self.is_newest_first
        kept = sorted((b for b in set(found) if self._asks_for(b)), reverse=is_newest_first)
        edge_s: int | None = None
        if edges:
            edge_s = max(edges) if is_newest_first else min(edges)
            kept = [
                b for b in kept if (b.start_s >= edge_s) is is_newest_first or b.start_s == edge_s
            ]
        if len(kept) > self.limit:
            kept = kept[: self.limit]
            edge_s = kept[-1].start_s
        if edge_s is None:
            return ListedBuckets(tuple(kept), None)
        # Buckets of other widths may share the last start: unless it is done with, it is asked
        # for again.
        is_done = len(self.widths) == 1 and bool(kept) and kept[-1].start_s == edge_s
        return ListedBuckets(tuple(kept), edge_s + (is_done is not is_newest_first))

    def _asks_for(self, bucket: Bucket) -> bool:
        return self.start_s <= bucket.start_s < self.end_s and bucket.width in self.widths


@dataclass(frozen=True, slots=True)
class ListedBuckets:
    """Buckets that exist, in the order that was asked for.

    Attributes:
        buckets: At most as many as were asked for.
        next_s: Where to go on, as :meth:`BucketListing.after` takes it; None where these are all.
    """

    buckets: tuple[Bucket, ...]
    next_s: int | None


@dataclass(frozen=True, slots=True)
class MarkLife:
    """How long a mark lives.

    Attributes:
        ttl_s: Its lifetime; None for ever.
        write_us: Its write time: when it expires, so that of two marks of one bucket the one that
            lives longer stays, whichever comes later.
    """

    ttl_s: int | None
    write_us: int


def mark_life(spec: TableSpec, width: BucketWidth, now_s: int) -> MarkLife:
    """Return the life of a mark that is made now: longer than that of any reading of its bucket."""
    load = spec.design.workload
    ttl_s = index_ttl_s(
        spec.retention_s,
        bucket_s=width.length_s,
        window_s=spec.window_s or 0,
        future_s=spec.future_limit_s,
        ttl_max_s=ttl_max_at_s(now_s, load.version, load.storage_mode),
    )
    if ttl_s is None:
        return MarkLife(None, _NEVER_US)
    return MarkLife(ttl_s, (now_s + ttl_s) * 1_000_000)


def era_of(start_s: int, width: BucketWidth) -> str:
    """Return the part of the index that lists a bucket, so that no part grows without bound.

    >>> era_of(1_763_596_800, BucketWidth.DAY), era_of(1_763_596_800, BucketWidth.MINUTE)
    ('', '1min/1064')
    """
    if width.length_s >= _WIDE_S:
        return ""
    return f"{width}/{(start_s - TIME_MIN_S) // (ERA_BUCKETS * width.length_s)}"


def eras_of(listing: BucketListing) -> tuple[str, ...]:
    """Return every part of the index that a listing has to ask, in the listing's order."""
    eras: dict[str, None] = {}
    for width in listing.widths:
        if width.length_s >= _WIDE_S:
            eras[""] = None
            continue
        starts = range(listing.start_s, listing.end_s, ERA_BUCKETS * width.length_s)
        ordered = dict.fromkeys(era_of(s, width) for s in (*starts, listing.end_s - 1))
        eras.update(reversed(ordered.items()) if listing.is_newest_first else ordered)
    return tuple(eras)


def listing_of(
    series: str,
    interval: Interval,
    widths: tuple[BucketWidth, ...],
    *,
    is_newest_first: bool = True,
    limit: int = LISTED_FIRST,
) -> BucketListing:
    """Return the question for every bucket that may hold event times of ``interval``."""
    per_s = interval.precision.per_s
    first_s = min(bucket_start_s(interval.start // per_s, width) for width in widths)
    return BucketListing(
        series=series,
        start_s=first_s,
        end_s=max(-(-interval.end // per_s), first_s),
        widths=widths,
        is_newest_first=is_newest_first,
        limit=max(limit, LIMIT_MIN),
    )


def is_worth_listing(plan: ReadPlan, joined_max: int) -> bool:
    """Return whether a read should ask the index first: it may be trusted, and much is planned.

    Args:
        plan: The read.
        joined_max: How many adjacent buckets the engine reads as one.
    """
    return plan.spec.index_trusted and plan.fan_out > PRUNE_FROM * joined_max * len(plan.series)


def keep_listed(plan: ReadPlan, listed: Mapping[str, Collection[Bucket]]) -> ReadPlan:
    """Return the plan without the partitions that the index does not list.

    Args:
        plan: A read.
        listed: All listed buckets of the plan's interval, by series; a series that is missing here
            keeps all of its reads.
    """
    there = {name: {(b.start_s, b.width) for b in buckets} for name, buckets in listed.items()}
    reads = tuple(
        read
        for read in plan.reads
        if read.series not in there
        or (read.bucket.start_s, read.bucket.width) in there[read.series]
    )
    return replace(plan, reads=reads, unlisted=plan.fan_out - len(reads))


@dataclass(slots=True)
class _Search:
    """How far the search in one series has come; ticks of the table's precision."""

    listing: BucketListing | None
    upto: int
    found: set[Bucket] = field(default_factory=set)


class ListedSearch:
    """Steps back from the newest listed bucket of several series, listed buckets only.

    Args:
        series: Where to search.
        interval: The event time to search, from its end backwards.
        widths: How each of the series cut time anywhere in the interval.
        reads_of: Gives the planned reads of a series in an interval.
    """

    def __init__(
        self,
        series: Sequence[str],
        interval: Interval,
        widths: Mapping[str, tuple[BucketWidth, ...]],
        reads_of: Callable[[str, Interval], Sequence[PartitionRead]],
    ) -> None:
        self._interval = interval
        self._reads_of = reads_of
        self._searches = {
            name: _Search(
                None if interval.is_empty else listing_of(name, interval, widths[name]),
                interval.end,
            )
            for name in series
        }

    def listings(self, lacking: Collection[str]) -> list[BucketListing]:
        """Return what to ask the index now, for those series that still lack readings."""
        asked = (search.listing for n, search in self._searches.items() if n in lacking)
        return [listing for listing in asked if listing is not None]

    def reads(self, answers: Mapping[str, ListedBuckets]) -> tuple[PartitionRead, ...]:
        """Take answers of the index and return what to read next, newest first in each series.

        Only event times are read below which nothing that is still unlisted can lie above.
        """
        return tuple(read for name in answers for read in self._step(name, answers[name]))

    def _step(self, name: str, answer: ListedBuckets) -> list[PartitionRead]:
        search = self._searches[name]
        asked = search.listing
        assert asked is not None, "an answer that nobody asked for"
        search.found.update(answer.buckets)
        start = self._interval.start
        if answer.next_s is None:
            search.listing = None
        else:
            more = min(asked.limit * 8, LISTED_MAX)
            search.listing = replace(asked.after(answer.next_s), limit=more)
            # A wide bucket that is not listed yet starts earlier and may reach in until here.
            overlap_s = 0 if len(asked.widths) == 1 else max(w.length_s for w in asked.widths)
            start = max(start, (answer.next_s + overlap_s) * self._interval.precision.per_s)
        if start >= search.upto:
            return []
        wanted = Interval(start, search.upto, self._interval.precision)
        reads = [read for bucket in search.found for read in self._reads_in(name, bucket, wanted)]
        search.upto = start
        search.found = {
            b for b in search.found if b.start_s * self._interval.precision.per_s < start
        }
        return sorted(reads, key=lambda read: read.start, reverse=True)

    def _reads_in(self, name: str, bucket: Bucket, wanted: Interval) -> list[PartitionRead]:
        inside = bucket.interval(wanted.precision).clipped(wanted.start, wanted.end)
        if inside.is_empty:
            return []
        return [read for read in self._reads_of(name, inside) if read.bucket == bucket]
