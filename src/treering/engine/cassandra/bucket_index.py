"""The index of buckets that exist, in the keyspace's ``treering_buckets``.

Rules of this file: one partition a series, and more where its buckets are narrow, so that none
grows without bound; a mark is written at the catalog's consistency and with its expiry as write
time, so that of two marks the one that lives longer stays; a page stays bytes until somebody asks
for what it says.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from itertools import islice
from typing import Any, Final

from treering.core.bucket import Bucket, BucketWidth, bucket_end_s
from treering.core.listing import BucketListing, ListedBuckets, era_of, eras_of, mark_life
from treering.core.table import TableSpec
from treering.engine.cassandra.driver import BoundStatement, RawPage
from treering.engine.cassandra.faults import engine_error_of
from treering.engine.cassandra.link import Link
from treering.engine.cassandra.statements import BUCKETS, CatalogStatements
from treering.errors import SchemaMismatchError, TreeringError

_INT: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")
_MS: Final = 1_000
_AT_ONCE: Final = 64


class ListingFuture(Future[ListedBuckets]):
    """An answer of the index that is decoded where it is asked for, not on the event loop."""

    def __init__(self, listing: BucketListing) -> None:
        super().__init__()
        self.listing = listing
        self.rows = 0
        self._pages: list[RawPage] = []

    def add(self, page: RawPage) -> None:
        """Keep a page; decoded later."""
        self._pages.append(page)
        self.rows += page.count

    def result(self, timeout: float | None = None) -> ListedBuckets:
        """Return the buckets; raises as any future does, and where the answer is not readable."""
        super().result(timeout)
        return _decode(self.listing, self._pages)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return why there is no answer."""
        error = super().exception(timeout)
        if error is None:
            try:
                self.result(0)
            except TreeringError as undecodable:
                return undecodable
        return error


def _decode(listing: BucketListing, pages: list[RawPage]) -> ListedBuckets:
    found: list[Bucket] = []
    edges: list[int] = []
    for page in pages:
        try:
            rows = list(_rows_of(page))
        except (ValueError, struct.error) as error:
            what = f"listing the buckets of {listing.series}"
            raise engine_error_of(error, what) from error
        found += rows
        if page.count >= listing.limit:
            edges.append(rows[-1].start_s)
    return listing.answer(found, edges)


def _rows_of(page: RawPage) -> Iterator[Bucket]:
    if page.error is not None:
        raise ValueError(f"a result could not be read: {page.error}") from page.error
    position = 0
    for _ in range(page.count):
        (start_ms,) = _LONG.unpack_from(page.body, position + _INT.size)
        position += _INT.size + _LONG.size
        (size,) = _INT.unpack_from(page.body, position)
        position += _INT.size
        width = BucketWidth(bytes(page.body[position : position + size]).decode())
        position += size
        yield Bucket(start_ms // _MS, bucket_end_s(start_ms // _MS, width), width)


class BucketIndex:
    """The statements of the index, bound.

    Args:
        link: The connection.
        statements: The catalog's CQL.
    """

    def __init__(self, link: Link, statements: CatalogStatements) -> None:
        self._link = link
        self._cql = statements

    def mark(self, spec: TableSpec, series: str, bucket: Bucket, *, now_s: int) -> Any:
        """Return the write that marks a bucket."""
        life = mark_life(spec, bucket.width, now_s)
        cql = self._cql.mark_bucket if life.ttl_s is None else self._cql.mark_bucket_for
        values = [
            *_partition(spec, series, era_of(bucket.start_s, bucket.width)),
            _LONG.pack(bucket.start_s * _MS),
            bucket.width.encode(),
            _LONG.pack(life.write_us),
        ]
        if life.ttl_s is not None:
            values.append(_INT.pack(life.ttl_s))
        return self._bound(cql, values)

    def lists(self, spec: TableSpec, listing: BucketListing) -> list[Any]:
        """Return the reads that a listing takes, one a partition, in the listing's order."""
        cql = self._cql.list_buckets[listing.is_newest_first]
        edges = (_LONG.pack(listing.start_s * _MS), _LONG.pack(listing.end_s * _MS))
        return [
            self._bound(
                cql,
                [*_partition(spec, listing.series, era), *edges, _INT.pack(listing.limit)],
                # All in one page: the limit is the bound.
                fetch_size=listing.limit + 1,
            )
            for era in eras_of(listing)
        ]

    def drop(self, spec: TableSpec, names: Iterable[str]) -> None:
        """Remove the marks of a table that is kept for ever; those of others die by themselves.

        Marks of buckets under 15 minutes stay: what lists them is not known.
        """
        if not spec.index_trusted or spec.retention_s is not None:
            return
        what = f"removing the marks of {spec.name}"
        left = iter(names)
        try:
            while some := list(islice(left, _AT_ONCE)):
                deletes = (
                    self._bound(self._cql.drop_buckets, _partition(spec, n, "")) for n in some
                )
                for sent in [self._link.send(delete) for delete in deletes]:
                    sent.result()
        except Exception as error:
            raise engine_error_of(error, what, is_write=True) from error

    def _bound(self, cql: str, values: list[bytes], **options: Any) -> Any:
        bound = BoundStatement(
            self._link.prepare(cql), consistency_level=self._link.catalog_consistency, **options
        )
        bound.values = values
        return bound


def _partition(spec: TableSpec, series: str, era: str) -> list[bytes]:
    return [spec.name.encode(), _INT.pack(spec.incarnation), series.encode(), era.encode()]


def index_missing(keyspace: str) -> SchemaMismatchError:
    """Return the error for a keyspace whose index is gone."""
    return SchemaMismatchError(
        f"the catalog's index {keyspace}.{BUCKETS} is missing, so it is not known which buckets "
        "hold readings",
        hint="restore it from a backup",
    )
