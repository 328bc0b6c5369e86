"""Which buckets of a series exist, found in the segments themselves: nothing that can be stale.

Rules of this file: each step jumps over the rest of a bucket, so that a listing costs one look a
bucket and one a segment, however many readings there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from treering.core.bucket import Bucket, BucketWidth, bucket_end_s, bucket_of, bucket_start_s
from treering.core.listing import BucketListing, ListedBuckets
from treering.core.segment import Segment
from treering.core.table import TableSpec

EdgeOf = Callable[[Segment, int, int], int | None]
"""From a segment and a half-open interval of event times to the first one met there, if any."""


def list_buckets(
    spec: TableSpec, listing: BucketListing, segments: list[Segment], edge_of: EdgeOf
) -> ListedBuckets:
    """Return the buckets that hold readings.

    Args:
        spec: The table.
        listing: What is asked.
        segments: The segments that there are, ascending.
        edge_of: Looks into one of them.
    """
    found: set[Bucket] = set()
    edges: list[int] = []
    for width in listing.widths:
        buckets = _buckets_of(spec, listing, width, segments, edge_of)
        listed = list(islice(buckets, listing.limit + 1))
        found.update(listed)
        if len(listed) > listing.limit:
            edges.append(listed[-1].start_s)
    return listing.answer(found, edges)


def _buckets_of(
    spec: TableSpec,
    listing: BucketListing,
    width: BucketWidth,
    segments: list[Segment],
    edge_of: EdgeOf,
) -> Iterator[Bucket]:
    per_s = spec.precision.per_s
    # The last bucket wanted starts before the end, and may go on after it.
    last_s = max(listing.end_s - 1, listing.start_s)
    end = bucket_end_s(bucket_start_s(last_s, width), width) * per_s
    # A bucket, like a segment, may reach beyond what 64 bits hold; no event time does.
    start, end = (
        max(listing.start_s * per_s, spec.precision.ts_min),
        min(end, spec.precision.ts_end),
    )
    is_newest_first = listing.is_newest_first
    for segment in reversed(segments) if is_newest_first else segments:
        while start < end:
            lower, upper = max(start, segment.start_s * per_s), min(end, segment.end_s * per_s)
            ts = None if lower >= upper else edge_of(segment, lower, upper)
            if ts is None:
                break
            bucket = bucket_of(ts, width, spec.precision)
            yield bucket
            if is_newest_first:
                end = bucket.start_s * per_s
            else:
                start = bucket.end_s * per_s
