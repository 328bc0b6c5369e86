"""The embedded engine: a folder with one SQLite file a segment, so that expiry deletes files.

Rules of this file: everything runs in the caller's thread, and a future is complete when it is
returned; a segment is decided by event time alone; a damaged file costs what is in it and nothing
else; a fork carries no open connection into the child.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from treering.core.bucket import Bucket, BucketWidth
from treering.core.delete_plan import PartitionDelete
from treering.core.listing import BucketListing, ListedBuckets
from treering.core.read_plan import PartitionRead
from treering.core.segment import Segment, segment_length_s, segment_of
from treering.core.series import SeriesRecord, check_tags, records_of
from treering.core.table import TableSpec
from treering.core.widths import LEASE_S
from treering.core.write_plan import PartitionWrite
from treering.engine.deletions import Deletion
from treering.engine.futures import completed
from treering.engine.protocol import (
    ExpireReport,
    Page,
    PagePart,
    PageRead,
    SealReport,
    TableInfo,
    WidthNews,
    rows_in,
)
from treering.engine.sqlite.batches import Batch, batches_of, page_of
from treering.engine.sqlite.block_table import SealRules, StoredBlock
from treering.engine.sqlite.catalog import Catalog, dropped
from treering.engine.sqlite.database import size_on_disk
from treering.engine.sqlite.folder import (
    make_table_folder,
    open_folder,
    put_aside,
    segments_in,
    sweep,
)
from treering.engine.sqlite.forks import keep_out_of_forks
from treering.engine.sqlite.layout import CATALOG_NAME, segment_path, table_folder
from treering.engine.sqlite.listing import list_buckets
from treering.engine.sqlite.merged import Ask
from treering.engine.sqlite.pool import SegmentPool
from treering.engine.sqlite.sealer import Sealer, seal_segment
from treering.engine.sqlite.sealing import Sealed
from treering.engine.sqlite.segment_file import DEFAULT_RULES, SegmentFile
from treering.engine.sqlite.segment_identity import SegmentIdentity, create_segment
from treering.engine.sqlite.upkeep import inspect_table, run_expire
from treering.errors import (
    CorruptDataError,
    EngineError,
    SchemaMismatchError,
    StoreClosedError,
    TreeringError,
)

if TYPE_CHECKING:
    from treering.core.block import BlockStats

T = TypeVar("T")

BUSY_TIMEOUT_S: Final = 10.0

# From here on one listing of the folder is cheaper than asking for each file.
_PROBES_MAX: Final = 32
_WRITE_ATTEMPTS: Final = 5

# A crash may have left rows of spans that are closed; older segments wait for treering seal.
_SEGMENTS_BEFORE: Final = 2


@dataclass(slots=True)
class _Opened:
    """What one process has open."""

    catalog: Catalog
    pool: SegmentPool
    sealer: Sealer


class SqliteEngine:
    """Keeps tables in a folder, durably; several processes may use it at once."""

    name = "sqlite"
    write_rows_max = 100_000
    page_rows_max = 200_000
    joined_max = 32
    group_rows_max = 20_000
    in_flight_max = 1
    leaves_tombstones = False

    def __init__(
        self,
        folder: Path,
        *,
        create: bool = True,
        busy_timeout_s: float = BUSY_TIMEOUT_S,
        rules: SealRules = DEFAULT_RULES,
    ) -> None:
        """Open a store's folder, or make one of an empty or missing folder.

        Args:
            folder: Where the store lives, or shall live.
            create: Whether to make a store where there is none.
            busy_timeout_s: How long, in seconds, to wait for another writer.
            rules: When readings become blocks.

        Raises:
            UsageError: Something else is there, or nothing and ``create`` is False.
            EngineError: The folder is not usable.
            CorruptDataError: The catalog is damaged.
        """
        self.folder = Path(folder).absolute()
        self.busy_timeout_s = busy_timeout_s
        self.rules = rules
        open_folder(self.folder, create=create)
        self._closed = False
        self._opened = self._open_all()
        self._paused: _Opened | None = None
        keep_out_of_forks(self)

    def _open_all(self) -> _Opened:
        return _Opened(
            Catalog(self.folder / CATALOG_NAME, busy_timeout_s=self.busy_timeout_s),
            SegmentPool(busy_timeout_s=self.busy_timeout_s),
            Sealer(self._held, self.rules),
        )

    def _here(self) -> _Opened:
        if self._closed:
            raise StoreClosedError("the store is closed", hint="open it again")
        return self._opened

    def before_fork(self) -> None:
        """Close all files, so that a forked child inherits no connection.

        SQLite's locks are the parent's alone, yet its bookkeeping of them would be copied: a child
        would take locks for granted that it does not hold, and lose what it commits.
        """
        opened = self._opened
        if self._closed or not opened.pool.pause():
            return
        if opened.catalog.pause():
            self._paused = opened
        else:
            opened.pool.resume()

    def after_fork(self, *, in_child: bool) -> None:
        """Go on; files are opened again when they are needed."""
        paused, self._paused = self._paused, None
        if in_child and not self._closed:
            if paused is None:
                # A thread that the child does not have was in the middle of something.
                self._closed = True
            else:
                self._opened = _Opened(
                    paused.catalog,
                    SegmentPool(busy_timeout_s=self.busy_timeout_s),
                    Sealer(self._held, self.rules),
                )
                paused.catalog.resume()
        elif paused is not None:
            paused.catalog.resume()
            paused.pool.resume()

    def workload_defaults(self) -> Mapping[str, Any]:
        """Return the mode whose expiry cap is the latest: nothing here expires by a server."""
        return {"storage_mode": "NONE"}

    def plan_create(self, spec: TableSpec) -> tuple[str, ...]:
        """Return what creating the table does, for people."""
        days = segment_length_s(spec) / 86_400
        return (
            f"enter the table {spec.name} into {self.folder / CATALOG_NAME}",
            f"make the folder {self.folder / spec.name}, for one SQLite file per "
            f"{days:g} days of event time",
        )

    def create_table(self, spec: TableSpec) -> TableSpec:
        """Make the table, or return the equal one that is there."""
        here = self._here()
        made = here.catalog.create(spec, lambda table: make_table_folder(self.folder, table))
        sweep(self.folder, here.catalog)
        return made

    def load_table(self, name: str) -> TableSpec | None:
        """Return the table of that name, once its folder is seen."""
        spec = self._here().catalog.load(name)
        if spec is not None and not table_folder(self.folder, spec).is_dir():
            raise SchemaMismatchError(
                f"the catalog has the table {name!r}, but its folder "
                f"{table_folder(self.folder, spec)} is missing",
                hint="restore the folder from a backup, or drop the table",
            )
        return spec

    def plan_alter(self, before: TableSpec, after: TableSpec) -> tuple[str, ...]:
        """Return what altering the table does, for people."""
        if before == after:
            return ()
        return (f"change the entry of the table {after.name} in {self.folder / CATALOG_NAME}",)

    def alter_table(self, before: TableSpec, after: TableSpec) -> TableSpec:
        """Give the table another retention: one transaction in the catalog."""
        self._here().catalog.alter(before, after)
        return after

    def table_names(self) -> tuple[str, ...]:
        """Return the names of all tables, sorted."""
        return self._here().catalog.names()

    def drop_table(self, spec: TableSpec) -> None:
        """Remove the table's entry, then its folder; a crash in between leaves no table."""
        here = self._here()
        here.catalog.drop(spec)
        folder = table_folder(self.folder, spec)
        put_aside(folder)
        here.pool.forget(folder)
        sweep(self.folder, here.catalog)

    def add_series(
        self, spec: TableSpec, series: Iterable[str | SeriesRecord]
    ) -> tuple[SeriesRecord, ...]:
        """List series durably in one transaction; return what is listed of each."""
        if not table_folder(self.folder, spec).is_dir():
            raise dropped(spec)
        return self._here().catalog.series.add(spec, records_of(series))

    def load_series(
        self, spec: TableSpec, names: tuple[str, ...], *, lease_s: float = LEASE_S
    ) -> dict[str, SeriesRecord]:
        """Return the records of those that are listed."""
        return self._here().catalog.series.load(spec, names)

    def series(
        self, spec: TableSpec, *, prefix: str = "", tags: Mapping[str, str] | None = None
    ) -> Iterator[str]:
        """Yield the listed series that start with ``prefix`` and have all ``tags``, sorted."""
        return self._here().catalog.series.names(spec, prefix, check_tags(tags))

    def has_series(self, spec: TableSpec, name: str) -> bool:
        """Return whether the series is listed."""
        return bool(self._here().catalog.series.load(spec, (name,)))

    def set_tags(self, spec: TableSpec, name: str, tags: Mapping[str, str]) -> SeriesRecord:
        """Replace the tags of a listed series."""
        return self._here().catalog.series.set_tags(spec, name, check_tags(tags))

    def set_width(
        self,
        spec: TableSpec,
        name: str,
        width: BucketWidth,
        *,
        now_s: float,
        lease_s: float = LEASE_S,
    ) -> SeriesRecord:
        """Change the width of a listed series from a date on, in one transaction."""
        return self._here().catalog.series.set_width(
            spec, name, width, now_s=now_s, lease_s=lease_s
        )

    def read_widths(
        self, spec: TableSpec, seen: Any = None, *, lease_s: float = LEASE_S
    ) -> WidthNews:
        """Return the histories that changed."""
        return self._here().catalog.series.read_widths(spec, seen or 0)

    def check_durable(self, spec: TableSpec) -> None:
        """Accept every table: every acknowledged write is on the disk."""

    def server_time_s(self) -> float | None:
        """Return None: the clock is this machine's."""
        return None

    def submit_write(self, spec: TableSpec, write: PartitionWrite) -> Future[None]:
        """Write now; the future has completed. Each segment that is touched is one commit."""
        return completed(lambda: self._write(spec, (write,)))

    def submit_writes(self, spec: TableSpec, writes: tuple[PartitionWrite, ...]) -> Future[None]:
        """Write several partitions now, with one commit for each segment that they touch.

        A commit waits for the disk, so many small writes together take the time of one. Where one
        fails, those of other segments may have been written; repeating all is safe.
        """
        return completed(lambda: self._write(spec, writes))

    def submit_delete(self, spec: TableSpec, delete: PartitionDelete) -> Future[None]:
        """Delete now, with one commit for each segment touched; the future has completed.

        Where a segment has no file yet one is made, so that a late write stays dead.
        """
        return completed(lambda: self._delete(spec, delete))

    def _delete(self, spec: TableSpec, delete: PartitionDelete) -> None:
        length_s, per_s = segment_length_s(spec), spec.precision.per_s
        last_s = segment_of((delete.end - 1) // per_s, length_s).start_s
        segment = segment_of(delete.start // per_s, length_s)
        while segment.start_s <= last_s:
            deletion = Deletion(
                max(delete.start, segment.start_s * per_s),
                min(delete.end, segment.end_s * per_s),
                delete.write_us,
            )
            change = partial(_delete_from, series=delete.series, deletion=deletion)
            self._in_segment(spec, segment, change)
            segment = Segment(segment.end_s, segment.end_s + length_s)

    def remove_series(self, spec: TableSpec, series: tuple[str, ...]) -> None:
        """Take series off the list, durably."""
        self._here().catalog.series.remove(spec, series)

    def submit_read(self, spec: TableSpec, read: PageRead) -> Future[Page]:
        """Read now; the future has completed. A page may span segments."""
        return completed(lambda: self._read(spec, read))

    def mark_buckets(self, spec: TableSpec, marks: tuple[tuple[str, Bucket], ...]) -> Future[None]:
        """Do nothing: which buckets exist is found in the segments."""
        return completed(lambda: self._here().catalog.check_there(spec))

    def submit_listing(self, spec: TableSpec, listing: BucketListing) -> Future[ListedBuckets]:
        """Return the buckets that hold readings; the future has completed."""
        return completed(lambda: self._list(spec, listing))

    def _list(self, spec: TableSpec, listing: BucketListing) -> ListedBuckets:
        length_s = segment_length_s(spec)
        starts_s = segments_in(table_folder(self.folder, spec))

        def edge_of(segment: Segment, start: int, end: int) -> int | None:
            with self._here().pool.lease(self._path(spec, segment)) as slot:
                file = slot.current(partial(self._open, spec, segment))
                if file is None:
                    return None
                return file.edge_ts(
                    listing.series, start=start, end=end, is_newest=listing.is_newest_first
                )

        segments = [Segment(start_s, start_s + length_s) for start_s in starts_s]
        found = list_buckets(spec, listing, segments, edge_of)
        if not table_folder(self.folder, spec).is_dir():
            raise dropped(spec)
        return found

    def expire(self, spec: TableSpec, *, now_s: int, dry_run: bool = False) -> ExpireReport:
        """Unlink the segments that the retention has passed, or only list them."""
        here = self._here()
        here.catalog.check_there(spec)
        return run_expire(
            table_folder(self.folder, spec),
            spec,
            now_s=now_s,
            dry_run=dry_run,
            catalog=here.catalog,
            pool=here.pool,
            open_segment=self._open,
        )

    def info(self, spec: TableSpec, *, is_thorough: bool = False) -> TableInfo:
        """Return what is on disk, and what is wrong with it.

        Args:
            spec: The table.
            is_thorough: Whether to have SQLite check every page of every file.

        Cost:
            Opens every segment; reads all of them where ``is_thorough``.
        """
        here = self._here()
        return inspect_table(
            table_folder(self.folder, spec),
            spec,
            series_count=here.catalog.series.count(spec),
            open_segment=self._open,
            is_thorough=is_thorough,
        )

    def seal(
        self,
        spec: TableSpec,
        *,
        now_s: int,
        on_segment: Callable[[SealReport], None] = lambda report: None,
    ) -> SealReport:
        """Fold the rows of every span that is closed at ``now_s`` into blocks."""
        self._here().catalog.check_there(spec)
        folder, done = table_folder(self.folder, spec), SealReport()
        length_s, per_s = segment_length_s(spec), spec.precision.per_s
        starts_s = segments_in(folder)
        for number, start_s in enumerate(starts_s, start=1):
            segment = Segment(start_s, start_s + length_s)
            before = size_on_disk(self._path(spec, segment))
            closed_before = (now_s - self.rules.late_s) * per_s
            sealed = self._seal_segment(spec, segment, closed_before)
            done = SealReport(
                readings=done.readings + sealed.readings,
                blocks=done.blocks + sealed.blocks,
                bytes_before=done.bytes_before + before,
                bytes_after=done.bytes_after + size_on_disk(self._path(spec, segment)),
                segments=number,
                segments_total=len(starts_s),
                problems=(*done.problems, *sealed.problems),
            )
            on_segment(done)
        return done

    def _seal_segment(self, spec: TableSpec, segment: Segment, closed_before: int) -> Sealed:
        try:
            return seal_segment(self._held, spec, segment, closed_before=closed_before)
        except CorruptDataError as error:
            # A damaged file costs what is in it; the others are sealed.
            return Sealed(problems=[error.message])

    @contextmanager
    def _held(self, spec: TableSpec, segment: Segment) -> Iterator[SegmentFile | None]:
        """Hold a segment's open file; None where there is none."""
        with self._here().pool.lease(self._path(spec, segment)) as slot:
            yield slot.current(partial(self._open, spec, segment))

    def close(self) -> None:
        """Seal what is closed, for a bounded time, and close all files.

        What was acknowledged is safe without it.
        """
        if not self._closed:
            self._opened.sealer.finish()
        self._closed = True
        self._opened.pool.close()
        self._opened.catalog.close()

    def _open(self, spec: TableSpec, segment: Segment) -> SegmentFile | None:
        identity = SegmentIdentity(
            store=str(self._here().catalog.store_id), spec=spec, segment=segment
        )
        return SegmentFile.open(
            self._path(spec, segment),
            identity,
            busy_timeout_s=self.busy_timeout_s,
            rules=self.rules,
        )

    def _open_or_create(self, spec: TableSpec, segment: Segment) -> SegmentFile | None:
        found = self._open(spec, segment)
        if found is not None:
            return found
        catalog = self._here().catalog
        identity = SegmentIdentity(store=str(catalog.store_id), spec=spec, segment=segment)
        with catalog.locked():
            catalog.check_there(spec)
            create_segment(self._path(spec, segment), identity)
        return self._open(spec, segment)

    def _path(self, spec: TableSpec, segment: Segment) -> Path:
        return segment_path(self.folder, spec, segment.start_s)

    def _write(self, spec: TableSpec, writes: Sequence[PartitionWrite]) -> None:
        batches: dict[Segment, list[Batch]] = {}
        for write in writes:
            for segment, batch in batches_of(spec, write):
                batches.setdefault(segment, []).append(batch)
        for segment in sorted(batches):
            self._write_segment(spec, segment, batches[segment])
        if batches:
            self._seal_a_little(spec, batches)

    def _seal_a_little(self, spec: TableSpec, segments: Iterable[Segment]) -> None:
        sealer = self._here().sealer
        if sealer.is_new(spec):
            length_s = segment_length_s(spec)
            there = segments_in(table_folder(self.folder, spec))
            before = [start_s for start_s in there if start_s < max(segments).start_s]
            sealer.add(spec, (Segment(s, s + length_s) for s in before[-_SEGMENTS_BEFORE:]))
        sealer.add(spec, segments)
        sealer.work()

    def _write_segment(self, spec: TableSpec, segment: Segment, batches: list[Batch]) -> None:
        self._in_segment(spec, segment, lambda file: file.write(batches))

    def _in_segment(
        self, spec: TableSpec, segment: Segment, change: Callable[[SegmentFile], bool]
    ) -> None:
        with self._here().pool.lease(self._path(spec, segment)) as slot:
            for _ in range(_WRITE_ATTEMPTS):
                file = slot.current(partial(self._open_or_create, spec, segment))
                if file is not None and change(file):
                    return
                slot.drop()
        raise EngineError(
            f"{slot.path} was removed {_WRITE_ATTEMPTS} times while it was being written to",
            hint="readings past the retention are written while they expire; check the clock",
        )

    def _read(self, spec: TableSpec, read: PageRead) -> Page:
        part = read.partition
        start, end = part.start, part.end
        if read.cursor is not None:
            start, end = (read.cursor + 1, end) if read.order == "asc" else (start, read.cursor)
        if read.is_count:
            return self._count(spec, part)
        found: list[PagePart] = []
        stats: list[BlockStats] = []
        # One more than wanted tells whether anything is left.
        wanted = read.rows_max + 1
        for segment in self._segments(spec, part, start, end, read.order == "desc"):
            ask = Ask(
                columns=read.columns,
                start=start,
                end=end,
                order=read.order,
                rows_max=wanted,
                on_damage=None if read.on_damage is None else partial(_tell, read),
                answers=read.answers,
            )
            there = self._read_segment(spec, segment, read, ask)
            if there is None:
                continue
            rows, answered = there
            found += rows
            stats += answered
            wanted -= rows_in(rows)
            if not wanted:
                break
        if not table_folder(self.folder, spec).is_dir():
            raise dropped(spec)
        return page_of(found, stats, read)

    def _read_segment(
        self, spec: TableSpec, segment: Segment, read: PageRead, ask: Ask
    ) -> tuple[list[PagePart], list[BlockStats]] | None:
        try:
            with self._held(spec, segment) as file:
                return None if file is None else file.read(read.partition.series, ask)
        except CorruptDataError as error:
            if read.on_damage is None:
                raise
            per_s, part = spec.precision.per_s, read.partition
            inside = max(ask.start, segment.start_s * per_s), min(ask.end, segment.end_s * per_s)
            read.on_damage(PartitionRead(part.series, part.bucket, *inside), error)
            return None

    def _count(self, spec: TableSpec, part: PartitionRead) -> Page:
        count = 0
        for segment in self._segments(spec, part, part.start, part.end, is_descending=False):
            with self._held(spec, segment) as file:
                if file is not None:
                    count += file.count(part.series, start=part.start, end=part.end)
        if not table_folder(self.folder, spec).is_dir():
            raise dropped(spec)
        # As long as it has to be, of one number.
        return Page(((np.broadcast_to(np.int64(0), count), {}),))

    def _segments(
        self, spec: TableSpec, part: PartitionRead, start: int, end: int, is_descending: bool
    ) -> Iterator[Segment]:
        """Yield the segments that may hold event times of ``[start, end)``, in reading order."""
        if end <= start:
            return
        length_s, per_s = segment_length_s(spec), spec.precision.per_s
        first_s = segment_of(start // per_s, length_s).start_s
        last_s = segment_of((end - 1) // per_s, length_s).start_s
        starts_s: list[int] | range = range(first_s, last_s + 1, length_s)
        if len(starts_s) > _PROBES_MAX:
            listed = segments_in(table_folder(self.folder, spec))
            starts_s = [start_s for start_s in listed if first_s <= start_s <= last_s]
        for start_s in reversed(starts_s) if is_descending else starts_s:
            yield Segment(start_s, start_s + length_s)


def _tell(read: PageRead, block: StoredBlock, error: TreeringError) -> None:
    part = read.partition
    start, end = max(part.start, block.first), min(part.end, block.last + 1)
    assert read.on_damage is not None, "asked to tell nobody"
    read.on_damage(PartitionRead(part.series, part.bucket, start, end), error)


def _delete_from(file: SegmentFile, *, series: str, deletion: Deletion) -> bool:
    return file.delete(series, deletion)
