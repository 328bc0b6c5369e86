"""The engine that keeps readings on Cassandra, one row a reading.

Rules of this file: every request touches one partition, and goes to a replica of it; no IN; what
runs on the driver's event loop settles a future and does nothing else; what is in flight is known,
so that closing fails it instead of leaving its callers waiting.
"""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, Final

from treering.core.bucket import Bucket
from treering.core.delete_plan import PartitionDelete
from treering.core.expiry import gc_before_s
from treering.core.layout import Layout
from treering.core.listing import BucketListing, ListedBuckets
from treering.core.table import TableSpec
from treering.core.times import render_ts
from treering.core.write_plan import PartitionWrite
from treering.engine.cassandra.adopter import CassandraAdopter
from treering.engine.cassandra.batch_body import batch_bodies
from treering.engine.cassandra.bucket_index import ListingFuture, index_missing
from treering.engine.cassandra.catalog import Catalog, dropped_error
from treering.engine.cassandra.codec import decode_page, encode_bound
from treering.engine.cassandra.connect import link_of_session, open_link
from treering.engine.cassandra.driver import (
    BoundStatement,
    RawPage,
    Session,
    batch_of_body,
)
from treering.engine.cassandra.faults import is_table_missing
from treering.engine.cassandra.futures import all_of, settle, settle_error
from treering.engine.cassandra.keys import encode_key
from treering.engine.cassandra.link import Link
from treering.engine.cassandra.prepared import PreparedReadings
from treering.engine.cassandra.series_part import SeriesPart
from treering.engine.cassandra.server_clock import read_clock_offset, warn_of_clock
from treering.engine.cassandra.server_facts import read_disk_usage, read_workload_defaults
from treering.engine.cassandra.settings import read_settings
from treering.engine.cassandra.statements import (
    TABLES,
    catalog_name,
    delete_cql,
)
from treering.engine.cassandra.url import (
    CONSISTENCY_DEFAULT,
    TIMEOUT_DEFAULT_S,
    CassandraUrl,
    render_url,
)
from treering.engine.marks import Marks
from treering.engine.protocol import (
    ExpireReport,
    Page,
    PageRead,
    Removal,
    TableInfo,
)
from treering.errors import (
    CorruptDataError,
    EngineError,
    SchemaMismatchError,
    StoreClosedError,
    TreeringError,
)

WRITE_ROWS_MAX: Final = 800


class _PageFuture(Future[Page]):
    """A page that is decoded where it is asked for, not on the driver's event loop."""

    def __init__(self, read: PageRead, layout: Layout) -> None:
        super().__init__()
        self._read = read
        self._layout = layout
        self._raw: RawPage | None = None
        self._page: Page | None = None

    @property
    def next_cursor(self) -> bytes | None:
        """Where the next page starts, before this one is decoded; None where there is none."""
        raw = self._raw
        return None if raw is None else raw.cursor

    def settle(self, raw: RawPage) -> None:
        self._raw = raw
        settle(self, None)

    def result(self, timeout: float | None = None) -> Page:
        super().result(timeout)
        # Two threads may both decode, with the same result; the page is there before the bytes go.
        raw = self._raw
        if self._page is None and raw is not None:
            try:
                self._page = decode_page(raw, self._read.columns, self._layout)
            except (CorruptDataError, SchemaMismatchError) as error:
                where = f"{self._read.partition.name} in {self._layout.table}"
                raise type(error)(
                    f"{where} could not be read: {error.message}", hint=error.hint, **error.facts
                ) from error
            self._raw = None
        assert self._page is not None
        return self._page

    def exception(self, timeout: float | None = None) -> BaseException | None:
        error = super().exception(timeout)
        if error is None:
            try:
                self.result(0)
            except TreeringError as undecodable:
                return undecodable
        return error


class CassandraEngine(SeriesPart):
    """Keeps tables in a keyspace of a Cassandra cluster."""

    name = "cassandra"
    write_rows_max = WRITE_ROWS_MAX
    page_rows_max = 50_000
    joined_max = 1
    # Each partition is a request of its own: a batch over several would burden one coordinator.
    group_rows_max = 0
    leaves_tombstones = True

    def __init__(
        self,
        link: Link,
        keyspace: str,
        *,
        replication: Mapping[str, int] | None = None,
        address: str = "",
        catalog: str | None = None,
    ) -> None:
        self._link = link
        self._keyspace = keyspace
        self._replication = replication
        self._address = address or f"{keyspace} on {link.where}"
        self._catalog = Catalog(link, keyspace, replication=replication, catalog_keyspace=catalog)
        self._pid = os.getpid()
        self._is_closed = False
        self._in_flight: set[Future[Any]] = set()
        # The newest table of each name that this engine has seen; an older one was dropped.
        self._newest: dict[str, int] = {}
        self._marks = Marks(self._send_mark)
        self._prepared = PreparedReadings(link, keyspace)
        self.adopter = CassandraAdopter(link, self._catalog, self._check_open, self._seen)
        self.in_flight_max = link.in_flight_max

    @classmethod
    def connect(
        cls,
        url: str | CassandraUrl,
        *,
        replication: Mapping[str, int] | None = None,
        ssl_context: ssl.SSLContext | None = None,
        environ: Mapping[str, str] | None = None,
        catalog: str | None = None,
    ) -> CassandraEngine:
        """Connect to the store that an address names.

        What the address does not say comes from the environment (``TREERING_LOCAL_DC`` and so
        on), else from cqlsh's file.

        Args:
            url: ``cassandra://[user@]host[:port][,host…]/keyspace?local_dc=…&consistency=…``.
            replication: Replicas by datacentre; where given, a missing keyspace is created.
            ssl_context: How to talk TLS; by default what the address and its like say.
            environ: The environment; the process's where None.
            catalog: The keyspace of the catalog; what the address and its like say where None.

        Raises:
            UsageError: A wrong address, option, file, credentials or datacentre.
            UnavailableError: No node answers.
            EngineError: The login failed, or the nodes' certificates are not trusted.
        """
        environ = os.environ if environ is None else environ
        settings = read_settings(url, environ)
        if catalog is not None:
            settings = replace(settings, url=replace(settings.url, catalog=catalog))
        found = settings.url
        # A catalog that cannot have that place is refused before anything is sent.
        catalog_name(TABLES, found.keyspace, found.catalog or found.keyspace)
        link = open_link(settings, ssl_context=ssl_context, environ=environ)
        warn_of_clock(link)
        return cls(
            link,
            found.keyspace,
            replication=replication,
            address=render_url(found),
            catalog=found.catalog,
        )

    @classmethod
    def from_session(
        cls,
        session: Session,
        keyspace: str,
        *,
        consistency: str = CONSISTENCY_DEFAULT,
        timeout_s: float = TIMEOUT_DEFAULT_S,
        replication: Mapping[str, int] | None = None,
        catalog: str | None = None,
    ) -> CassandraEngine:
        """Use the cluster of a driver session; that session and its cluster stay the caller's.

        Raises:
            UsageError: The cluster was set up with the driver's legacy parameters.
        """
        checked = CassandraUrl(
            hosts=(("session", 1),),
            keyspace=keyspace,
            consistency=consistency.upper(),
            timeout_s=timeout_s,
            catalog=catalog,
        )
        link = link_of_session(session, consistency=checked.consistency, timeout_s=timeout_s)
        warn_of_clock(link)
        return cls(link, keyspace, replication=replication, catalog=catalog)

    def __repr__(self) -> str:
        return f"<CassandraEngine {self._address}{' closed' if self._is_closed else ''}>"

    # Tables

    def workload_defaults(self) -> Mapping[str, Any]:
        """Return the server's version, its storage mode and the keyspace's replicas."""
        self._check_open()
        return read_workload_defaults(self._link, self._keyspace, self._replication)

    def plan_create(self, spec: TableSpec) -> tuple[str, ...]:
        """Return the CQL that :meth:`create_table` would run."""
        self._check_open()
        return self._catalog.plan_create(spec)

    def create_table(self, spec: TableSpec) -> TableSpec:
        """Make the table, or return the equal one that is there; racing creators make one."""
        self._check_open()
        return self._seen(self._catalog.create(spec))

    def load_table(self, name: str) -> TableSpec | None:
        """Return the table of that name, verified against the server's schema."""
        self._check_open()
        spec = self._catalog.load(name)
        return None if spec is None else self._seen(spec)

    def plan_alter(self, before: TableSpec, after: TableSpec) -> tuple[str, ...]:
        """Return the CQL that :meth:`alter_table` would run."""
        self._check_table(before)
        return self._catalog.plan_alter(before, after)

    def alter_table(self, before: TableSpec, after: TableSpec) -> TableSpec:
        """Give the table another retention: its entry in the catalog, and an ALTER."""
        self._check_table(before)
        self._catalog.alter(before, after)
        return after

    def table_names(self) -> tuple[str, ...]:
        """Return the names of all tables, sorted."""
        self._check_open()
        return self._catalog.names()

    def drop_table(self, spec: TableSpec) -> None:
        """Remove the table, its readings and its series; of others' only the catalog's entry."""
        self._check_open()
        self._catalog.drop(spec)
        self._marks.forget(spec.name)
        self._prepared.forget(spec.name)
        self._newest[spec.name] = max(self._newest.get(spec.name, 0), spec.incarnation + 1)

    def _seen(self, spec: TableSpec) -> TableSpec:
        self._newest[spec.name] = max(self._newest.get(spec.name, 0), spec.incarnation)
        return spec

    # Readings

    def submit_write(self, spec: TableSpec, write: PartitionWrite) -> Future[None]:
        """Start one write of one partition: one UNLOGGED batch, more where it has much text.

        The first write of a bucket goes out with the mark that lists it, side by side, and is
        acknowledged when both are durable.
        """
        mark = self._marks.ensure(spec, write.series, write.bucket) if spec.index_trusted else None
        written = self._submit_rows(spec, write)
        return written if mark is None else all_of([mark, written])

    def _submit_rows(self, spec: TableSpec, write: PartitionWrite) -> Future[None]:
        future: Future[None] = Future()
        self._start(future)
        try:
            self._check_table(spec)
            prepared = self._prepared.insert(spec, has_ttl=write.ttl_s is not None)
            key = encode_key(spec.layout, write.series, write.bucket)
            bodies = batch_bodies(write, spec.columns, prepared.query_id, spec.layout, key=key)
            batches = [batch_of_body(prepared, key, body.rows, body.body) for body in bodies]
        except Exception as error:  # noqa: BLE001
            self._fail_write(future, error, spec, write)
            return future
        self._send_next(future, iter(batches), spec, write)
        return future

    def submit_writes(self, spec: TableSpec, writes: tuple[PartitionWrite, ...]) -> Future[None]:
        """Start each write on its own; the future completes with the last of them."""
        return all_of([self.submit_write(spec, write) for write in writes])

    def _send_next(
        self, future: Future[None], batches: Iterator[Any], spec: TableSpec, write: PartitionWrite
    ) -> None:
        """Send the next batch of a write; the next but one follows when it is durable."""
        batch = next(batches, None)
        if batch is None:
            self._in_flight.discard(future)
            settle(future, None)
            return
        try:
            self._link.send_write(batch).add_callbacks(
                lambda _: self._send_next(future, batches, spec, write),
                lambda error: self._fail_write(future, error, spec, write),
            )
        except Exception as error:  # noqa: BLE001
            self._fail_write(future, error, spec, write)

    def _fail_write(
        self, future: Future[None], error: BaseException, spec: TableSpec, write: PartitionWrite
    ) -> None:
        what = f"the write of {write.name} to {spec.name}"
        self._fail(future, error, spec, what, is_write=True)

    def submit_delete(self, spec: TableSpec, delete: PartitionDelete) -> Future[None]:
        """Start one deletion: a partition tombstone, or a range tombstone."""
        future: Future[None] = Future()
        self._start(future)
        what = f"the deletion of {delete.name} from {spec.name}"

        def succeed(_: Any) -> None:
            self._in_flight.discard(future)
            settle(future, None)

        try:
            self._check_table(spec)
            layout = spec.layout
            # Without a bucket in the key a partition is a whole series, and more than is meant.
            is_whole = delete.is_whole and layout.bucket is not None
            cql = delete_cql(self._keyspace, layout, is_whole=is_whole)
            bound = BoundStatement(self._link.prepare(cql, generation=spec.incarnation))
            bounds = () if is_whole else (delete.start, delete.end)
            bound.values = [
                delete.write_us.to_bytes(8, "big", signed=True),
                *encode_key(layout, delete.series, delete.bucket),
                *(encode_bound(ts, layout.time) for ts in bounds),
            ]
            self._link.send(bound).add_callbacks(
                succeed, lambda error: self._fail(future, error, spec, what, is_write=True)
            )
        except Exception as error:  # noqa: BLE001
            self._fail(future, error, spec, what, is_write=True)
        return future

    def submit_read(self, spec: TableSpec, read: PageRead) -> Future[Page]:
        """Start reading one page of one partition."""
        layout = spec.layout
        future = _PageFuture(read, layout)
        self._start(future)
        part = read.partition

        def succeed(raw: RawPage) -> None:
            self._in_flight.discard(future)
            future.settle(raw)

        def fail(error: BaseException) -> None:
            self._fail(future, error, spec, f"the read of {part.name} from {spec.name}")

        try:
            self._check_table(spec)
            prepared = self._prepared.select(spec, read.columns, read.order)
            bound = BoundStatement(prepared, fetch_size=read.rows_max)
            bound.values = [
                *encode_key(layout, part.series, part.bucket),
                encode_bound(part.start, layout.time),
                encode_bound(part.end, layout.time),
            ]
            self._link.send(bound, cursor=read.cursor).add_callbacks(succeed, fail)
        except Exception as error:  # noqa: BLE001
            fail(error)
        return future

    # The index of buckets

    def mark_buckets(self, spec: TableSpec, marks: tuple[tuple[str, Bucket], ...]) -> Future[None]:
        """Start marking buckets, one request each; what is known to be marked is marked again."""
        return all_of([self._send_mark(spec, series, bucket) for series, bucket in marks])

    def _send_mark(self, spec: TableSpec, series: str, bucket: Bucket) -> Future[None]:
        future: Future[None] = Future()
        self._start(future)
        what = f"marking {series}/{bucket.text} of {spec.name} as existing"

        def succeed(_: Any) -> None:
            self._in_flight.discard(future)
            settle(future, None)

        def fail(error: BaseException) -> None:
            self._fail(future, error, spec, what, is_write=True, is_index=True)

        try:
            self._check_table(spec)
            mark = self._catalog.buckets.mark(spec, series, bucket, now_s=int(time.time()))
            self._link.send_write(mark).add_callbacks(succeed, fail)
        except Exception as error:  # noqa: BLE001
            fail(error)
        return future

    def submit_listing(self, spec: TableSpec, listing: BucketListing) -> Future[ListedBuckets]:
        """Start asking the index: one query, more where buckets are narrow and time is long."""
        future = ListingFuture(listing)
        self._start(future)
        try:
            self._check_table(spec)
            queries = iter(self._catalog.buckets.lists(spec, listing))
        except Exception as error:  # noqa: BLE001
            self._fail_listing(future, error, spec)
            return future
        self._ask_next(future, queries, spec)
        return future

    def _ask_next(self, future: ListingFuture, queries: Iterator[Any], spec: TableSpec) -> None:
        """Ask the next partition of the index, until there is enough or none is left."""
        listing = future.listing
        # Partitions of one width follow each other in time; those of several do not.
        is_enough = future.rows >= listing.limit and len(listing.widths) == 1
        query = None if is_enough else next(queries, None)
        if query is None:
            self._in_flight.discard(future)
            settle(future, None)
            return

        def succeed(page: RawPage) -> None:
            future.add(page)
            self._ask_next(future, queries, spec)

        try:
            self._link.send(query).add_callbacks(
                succeed, lambda error: self._fail_listing(future, error, spec)
            )
        except Exception as error:  # noqa: BLE001
            self._fail_listing(future, error, spec)

    def _fail_listing(self, future: ListingFuture, error: BaseException, spec: TableSpec) -> None:
        what = f"listing the buckets of {future.listing.series} of {spec.name}"
        self._fail(future, error, spec, what, is_index=True)

    # Upkeep

    def expire(self, spec: TableSpec, *, now_s: int, dry_run: bool = False) -> ExpireReport:
        """Say which windows could be gone; Cassandra removes them by itself."""
        self._check_table(spec)
        if spec.default_ttl_s is None or spec.window_s is None:
            return ExpireReport(removals=(), is_removed=False, note="Readings never expire here.")
        if spec.is_adopted:
            note = "Cassandra removes rows of this table as its options and its writers say."
            return ExpireReport(removals=(), is_removed=False, note=note)
        note = (
            "Cassandra drops a window's file by itself once everything in it is past its lifetime "
            "and gc grace, and no older file overlaps it."
        )
        # A file may go once its newest cell, written at the window's end, is past gc_before.
        end_s = gc_before_s(now_s, spec.design.gc_grace_s) - spec.default_ttl_s
        end_s -= end_s % spec.window_s
        created_s = self._catalog.created_s(spec)
        start_s = end_s if created_s is None else created_s - created_s % spec.window_s
        if start_s >= end_s:
            return ExpireReport(removals=(), is_removed=False, note=note)
        per_s = spec.precision.per_s
        name = f"windows written before {render_ts(end_s * per_s, spec.precision)}"
        removal = Removal(name=name, start_s=start_s, end_s=end_s, bytes=None)
        return ExpireReport(removals=(removal,), is_removed=False, note=note)

    def info(self, spec: TableSpec) -> TableInfo:
        """Return the series listed, the disk used on every node, and what differs.

        Cost:
            One request a catalog shard and one a node.
        """
        self._check_table(spec)
        parts = read_disk_usage(self._link, spec, self._keyspace)
        sizes = [part["disk_bytes"] for part in parts]
        known = [size for size in sizes if size is not None]
        return TableInfo(
            series_count=self._catalog.series.count(spec),
            disk_bytes=sum(known) if known and len(known) == len(sizes) else None,
            parts=parts,
            problems=(*self._catalog.problems(spec), *self._clock_problems()),
        )

    def _clock_problems(self) -> Iterator[str]:
        for host in self._link.local_hosts():
            try:
                offset = read_clock_offset(self._link, host=host)
            except EngineError as error:
                yield f"The clock of {host.endpoint} was not read: {error}."
                continue
            if offset.is_warned:
                yield f"{offset.render(str(host.endpoint))}."

    def close(self) -> None:
        """Close the connection; what is in flight fails, and a second call does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        if os.getpid() != self._pid:
            # The connection is the parent's, and what runs it did not come along.
            return
        self._link.close()
        for future in list(self._in_flight):
            self._in_flight.discard(future)
            settle_error(future, _closed_error())

    # Guards and endings

    def _check_open(self) -> None:
        if self._is_closed:
            raise _closed_error()
        if os.getpid() != self._pid:
            raise EngineError(
                "the store was opened before this process was forked, and its connection does not "
                "work in the child",
                hint="open the store in the process that uses it",
            )

    def _check_table(self, spec: TableSpec) -> None:
        self._check_open()
        if spec.incarnation < self._newest.get(spec.name, 0):
            raise dropped_error(spec.name)

    def _start(self, future: Future[Any]) -> None:
        # Running, so that nobody can cancel what was sent: its outcome is what the server says.
        future.set_running_or_notify_cancel()
        self._in_flight.add(future)

    def _fail(
        self,
        future: Future[Any],
        error: BaseException,
        spec: TableSpec,
        what: str,
        *,
        is_write: bool = False,
        is_index: bool = False,
    ) -> None:
        self._in_flight.discard(future)
        if self._is_closed and not isinstance(error, TreeringError):
            settle_error(future, _closed_error())
            return
        raised = self._link.error_of(error, what, is_write=is_write)
        if is_table_missing(raised):
            raised = index_missing(self._keyspace) if is_index else dropped_error(spec.name)
        if raised is not error:
            raised.__cause__ = error
        settle_error(future, raised)


def _closed_error() -> StoreClosedError:
    return StoreClosedError("the store is closed", hint="open it again")
