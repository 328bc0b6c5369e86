"""The engine that keeps everything in memory: the oracle of the tests, and for short-lived use.

Simple on purpose: one dictionary of cells a series, merged by the rule of ``core/merge.py``.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from treering.core.bucket import Bucket, BucketWidth, bucket_end_s, bucket_starts_s
from treering.core.columns import column_from_list
from treering.core.delete_plan import PartitionDelete
from treering.core.listing import BucketListing, ListedBuckets
from treering.core.merge import is_newer
from treering.core.segment import (
    Segment,
    is_segment_expired,
    segment_length_s,
    segment_of,
)
from treering.core.series import SeriesRecord, records_of
from treering.core.table import TableSpec, check_unchanged
from treering.core.times import render_ts
from treering.core.widths import LEASE_S, plan_width
from treering.core.write_plan import PartitionWrite
from treering.engine.deletions import Deletion, dead_mask, with_deletion
from treering.engine.futures import completed
from treering.engine.protocol import (
    ExpireReport,
    Page,
    PageRead,
    Removal,
    TableInfo,
    WidthNews,
    listed_record,
)
from treering.errors import SchemaMismatchError, StoreClosedError

T = TypeVar("T")

# One reading: column name -> (write time in µs, value).
_Cells = dict[str, tuple[int, Any]]


@dataclass(slots=True)
class _Table:
    spec: TableSpec
    series: dict[str, dict[int, _Cells]] = field(default_factory=dict)
    deletions: dict[str, list[Deletion]] = field(default_factory=dict)
    records: dict[str, SeriesRecord] = field(default_factory=dict)
    # Names whose widths changed, in order.
    changed: list[str] = field(default_factory=list)


class MemoryEngine:
    """Keeps tables in this process; nothing outlives it."""

    name = "memory"
    write_rows_max = 100_000
    page_rows_max = 50_000
    joined_max = 1
    group_rows_max = 0
    in_flight_max = 1
    leaves_tombstones = False

    def __init__(self) -> None:
        self._tables: dict[str, _Table] = {}
        self._incarnations: dict[str, int] = {}
        self._lock = threading.RLock()
        self._closed = False

    def workload_defaults(self) -> Mapping[str, Any]:
        """Return the mode whose expiry cap is the latest: nothing here expires by a server."""
        return {"storage_mode": "NONE"}

    def plan_create(self, spec: TableSpec) -> tuple[str, ...]:
        """Return what creating the table does, for people."""
        return (f"keep the table {spec.name} in the memory of this process",)

    def create_table(self, spec: TableSpec) -> TableSpec:
        """Make the table, or return the equal one that is there."""
        with self._lock:
            self._check_open()
            there = self._tables.get(spec.name)
            if there is None:
                incarnation = self._incarnations.get(spec.name, 0) + 1
                self._incarnations[spec.name] = incarnation
                made = spec.with_incarnation(incarnation)
                self._tables[spec.name] = _Table(made)
                return made
        there.spec.check_same_as(spec)
        return there.spec

    def load_table(self, name: str) -> TableSpec | None:
        """Return the table of that name."""
        with self._lock:
            self._check_open()
            table = self._tables.get(name)
            return None if table is None else table.spec

    def plan_alter(self, before: TableSpec, after: TableSpec) -> tuple[str, ...]:
        """Return what altering the table does, for people."""
        return () if before == after else (f"change the table {after.name} in memory",)

    def alter_table(self, before: TableSpec, after: TableSpec) -> TableSpec:
        """Give the table another retention."""
        with self._lock:
            table = self._table(before)
            check_unchanged(table.spec, before, after)
            table.spec = after
        return after

    def table_names(self) -> tuple[str, ...]:
        """Return the names of all tables, sorted."""
        with self._lock:
            self._check_open()
            return tuple(sorted(self._tables))

    def drop_table(self, spec: TableSpec) -> None:
        """Forget the table."""
        with self._lock:
            self._check_open()
            self._tables.pop(spec.name, None)

    def add_series(
        self, spec: TableSpec, series: Iterable[str | SeriesRecord]
    ) -> tuple[SeriesRecord, ...]:
        """List series; return what is listed of each."""
        with self._lock:
            table = self._table(spec)
            wanted = records_of(series)
            for record in wanted:
                if record.name not in table.records:
                    table.records[record.name] = record
                    table.changed += [record.name] if record.widths else []
            return tuple(table.records[record.name] for record in wanted)

    def load_series(
        self, spec: TableSpec, names: tuple[str, ...], *, lease_s: float = LEASE_S
    ) -> dict[str, SeriesRecord]:
        """Return the records of those that are listed."""
        with self._lock:
            records = self._table(spec).records
            return {name: records[name] for name in names if name in records}

    def series(
        self, spec: TableSpec, *, prefix: str = "", tags: Mapping[str, str] | None = None
    ) -> Iterator[str]:
        """Yield the listed series that start with ``prefix`` and have all ``tags``, sorted."""
        with self._lock:
            names = sorted(
                name
                for name, record in self._table(spec).records.items()
                if name.startswith(prefix) and record.has_tags(tags or {})
            )
        yield from names

    def has_series(self, spec: TableSpec, name: str) -> bool:
        """Return whether the series is listed."""
        with self._lock:
            return name in self._table(spec).records

    def set_tags(self, spec: TableSpec, name: str, tags: Mapping[str, str]) -> SeriesRecord:
        """Replace the tags of a listed series."""
        with self._lock:
            table = self._table(spec)
            record = listed_record(table.records.get(name), spec, name)
            table.records[name] = replace(record, tags=tags)
            return table.records[name]

    def set_width(
        self,
        spec: TableSpec,
        name: str,
        width: BucketWidth,
        *,
        now_s: float,
        lease_s: float = LEASE_S,
    ) -> SeriesRecord:
        """Change the width of a listed series from a date on."""
        with self._lock:
            table = self._table(spec)
            record = listed_record(table.records.get(name), spec, name)
            history = plan_width(
                record.widths,
                width,
                spec.width,
                now_s=now_s,
                future_limit_s=spec.future_limit_s,
                lease_s=lease_s,
            )
            if history != record.widths:
                table.records[name] = replace(record, widths=history)
                table.changed.append(name)
            return table.records[name]

    def read_widths(
        self, spec: TableSpec, seen: Any = None, *, lease_s: float = LEASE_S
    ) -> WidthNews:
        """Return the histories that changed."""
        with self._lock:
            table = self._table(spec)
            ordinary = SeriesRecord(name="ordinary")
            histories = {
                name: table.records.get(name, ordinary).widths
                for name in table.changed[seen or 0 :]
            }
            return WidthNews(histories=histories, seen=len(table.changed))

    def check_durable(self, spec: TableSpec) -> None:
        """Accept every table: memory promises nothing that outlives it."""

    def server_time_s(self) -> float | None:
        """Return None: the clock is this machine's."""
        return None

    def submit_write(self, spec: TableSpec, write: PartitionWrite) -> Future[None]:
        """Merge the readings in; the future has completed."""
        return completed(lambda: self._write(spec, write))

    def submit_writes(self, spec: TableSpec, writes: tuple[PartitionWrite, ...]) -> Future[None]:
        """Merge all of them in; the future has completed."""

        def work() -> None:
            for write in writes:
                self._write(spec, write)

        return completed(work)

    def _write(self, spec: TableSpec, write: PartitionWrite) -> None:
        with self._lock:
            table = self._table(spec)
            readings = table.series.setdefault(write.series, {})
            alive = ~dead_mask(table.deletions.get(write.series, ()), write.ts, write.write_us)
            for name, data in write.columns.items():
                column_type = spec.column(name).type
                values = data.values if data.values.dtype != object else data.values.tolist()
                for ts, value, there in zip(
                    write.ts.tolist(), values, (data.mask() & alive).tolist(), strict=True
                ):
                    if not there:
                        continue
                    cells = readings.setdefault(ts, {})
                    old = cells.get(name)
                    if old is None or is_newer(write.write_us, value, *old, column_type):
                        cells[name] = (write.write_us, value)

    def submit_delete(self, spec: TableSpec, delete: PartitionDelete) -> Future[None]:
        """Take the cells out now; the future has completed."""
        return completed(lambda: self._delete(spec, delete))

    def _delete(self, spec: TableSpec, delete: PartitionDelete) -> None:
        deletion = Deletion(delete.start, delete.end, delete.write_us)
        with self._lock:
            table = self._table(spec)
            there = table.deletions.get(delete.series, [])
            table.deletions[delete.series] = with_deletion(there, deletion)
            readings = table.series.get(delete.series, {})
            for ts in [ts for ts in readings if delete.start <= ts < delete.end]:
                left = {n: cell for n, cell in readings[ts].items() if cell[0] > delete.write_us}
                if left:
                    readings[ts] = left
                else:
                    del readings[ts]

    def remove_series(self, spec: TableSpec, series: tuple[str, ...]) -> None:
        """Forget series; readings that they still have go with them."""
        with self._lock:
            table = self._table(spec)
            for name in series:
                table.series.pop(name, None)
                record = table.records.pop(name, None)
                table.changed += [name] if record is not None and record.widths else []

    def submit_read(self, spec: TableSpec, read: PageRead) -> Future[Page]:
        """Return a page; the future has completed."""
        return completed(lambda: self._read(spec, read))

    def _read(self, spec: TableSpec, read: PageRead) -> Page:
        part = read.partition
        start = part.start if read.cursor is None or read.order == "desc" else read.cursor + 1
        end = part.end if read.cursor is None or read.order == "asc" else read.cursor
        with self._lock:
            readings = self._table(spec).series.get(part.series, {})
            times = sorted(
                (ts for ts in readings if start <= ts < end), reverse=read.order == "desc"
            )
            page = times[: read.rows_max]
            columns = {
                column.name: column_from_list(
                    [readings[ts].get(column.name, (0, None))[1] for ts in page], column.type
                )
                for column in read.columns
            }
        cursor = page[-1] if len(times) > len(page) else None
        return Page(((np.array(page, dtype=np.int64), columns),), cursor)

    def mark_buckets(self, spec: TableSpec, marks: tuple[tuple[str, Bucket], ...]) -> Future[None]:
        """Do nothing: which buckets exist follows from the readings."""

        def work() -> None:
            with self._lock:
                self._table(spec)

        return completed(work)

    def submit_listing(self, spec: TableSpec, listing: BucketListing) -> Future[ListedBuckets]:
        """Return the buckets that hold readings; the future has completed."""
        return completed(lambda: self._list(spec, listing))

    def _list(self, spec: TableSpec, listing: BucketListing) -> ListedBuckets:
        with self._lock:
            readings = self._table(spec).series.get(listing.series, {})
            times = np.fromiter(readings, dtype=np.int64, count=len(readings))
        return listing.answer(
            [
                Bucket(start_s, bucket_end_s(start_s, width), width)
                for width in listing.widths
                for start_s in np.unique(bucket_starts_s(times, width, spec.precision)).tolist()
            ]
        )

    def expire(self, spec: TableSpec, *, now_s: int, dry_run: bool = False) -> ExpireReport:
        """Forget whole segments that the retention has passed."""
        length_s = segment_length_s(spec)
        with self._lock:
            table = self._table(spec)
            gone = self._expired_segments(table, now_s, length_s)
            if not dry_run:
                for readings in table.series.values():
                    for ts in [
                        ts
                        for ts in readings
                        if segment_of(ts // spec.precision.per_s, length_s) in gone
                    ]:
                        del readings[ts]
                self._forget_deletions(table, now_s)
        removals = tuple(
            Removal(
                name=render_ts(segment.start_s * spec.precision.per_s, spec.precision),
                start_s=segment.start_s,
                end_s=segment.end_s,
                bytes=None,
            )
            for segment in sorted(gone)
        )
        return ExpireReport(removals=removals, is_removed=not dry_run)

    def _forget_deletions(self, table: _Table, now_s: int) -> None:
        # A write of those times would be refused as expired, so nothing can come back.
        oldest = table.spec.oldest_ts(now_s * table.spec.precision.per_s)
        for name, deletions in table.deletions.items():
            table.deletions[name] = [each for each in deletions if each.end > oldest]

    def _expired_segments(self, table: _Table, now_s: int, length_s: int) -> set[Segment]:
        per_s = table.spec.precision.per_s
        segments = {
            segment_of(ts // per_s, length_s)
            for readings in table.series.values()
            for ts in readings
        }
        return {
            segment
            for segment in segments
            if is_segment_expired(segment, now_s=now_s, retention_s=table.spec.retention_s)
        }

    def info(self, spec: TableSpec) -> TableInfo:
        """Return how many series there are."""
        with self._lock:
            return TableInfo(series_count=len(self._table(spec).records), disk_bytes=0)

    def close(self) -> None:
        """Forget everything."""
        with self._lock:
            self._closed = True
            self._tables.clear()

    def _table(self, spec: TableSpec) -> _Table:
        self._check_open()
        table = self._tables.get(spec.name)
        if table is None or table.spec.incarnation != spec.incarnation:
            raise SchemaMismatchError(
                f"the table {spec.name!r} was dropped",
                hint="open it again; it may have been created anew with another design",
            )
        return table

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosedError("the store is closed", hint="open it again")
