"""What a store asks of an engine.

Rules of this file: an engine keeps and returns readings, it decides nothing: plans come from
``core``, fan-out and retries from ``fanout``. A write future that completes means durable. Every
promise here is stated once as a test, which every engine passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from treering.core.bucket import Bucket, BucketWidth
from treering.core.columns import ColumnData
from treering.core.delete_plan import PartitionDelete
from treering.core.foreign import ForeignTable, Sample
from treering.core.listing import BucketListing, ListedBuckets
from treering.core.read_plan import Order, PartitionRead
from treering.core.schema import Column
from treering.core.series import SeriesRecord
from treering.core.table import TableSpec
from treering.core.widths import LEASE_S, History
from treering.core.write_plan import PartitionWrite
from treering.errors import SeriesNotFoundError, TreeringError

if TYPE_CHECKING:
    from treering.core.block import BlockStats


class Answers(Protocol):
    """Says which blocks do by their statistics alone; both are asked of blocks wholly wanted."""

    def may_answer(
        self, first_ts: npt.NDArray[np.int64], last_ts: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.bool_]:
        """Return which may, by the times of their first and last readings."""
        ...

    def answers(self, blocks: Sequence[BlockStats]) -> npt.NDArray[np.bool_]:
        """Return which of those that may do so, by what they say."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRead:
    """A request for the next readings of one partition.

    Attributes:
        partition: What is wanted of which partition.
        order: By event time.
        columns: The columns wanted.
        rows_max: The most readings to return.
        cursor: What the previous page said to go on from; None for the first page.
        is_count: Whether only the number of readings is wanted: an engine that knows it may return
            a page of that length, however long, whose times mean nothing and which has no columns.
        on_damage: Is told of what is stored and cannot be read, which an engine then leaves out
            where it can; None: the read fails.
        answers: Which blocks need not be unpacked, where only aggregates are wanted: an engine that
            keeps blocks may give the statistics of those in place of their readings; None: readings
            are wanted.
    """

    partition: PartitionRead
    order: Order
    columns: tuple[Column, ...]
    rows_max: int
    cursor: Any = None
    is_count: bool = False
    on_damage: Callable[[PartitionRead, TreeringError], None] | None = None
    answers: Answers | None = None


PagePart = tuple[npt.NDArray[np.int64], Mapping[str, ColumnData]]
"""Event times in ticks of the table's precision, int64, and the columns, as many values each."""


@dataclass(frozen=True, slots=True)
class Page:
    """Consecutive readings of one partition, in the order that was asked for.

    Each reading of the stretch of event time that a page covers is either in its parts or in one
    of its blocks.

    Attributes:
        parts: The readings, in as many pieces as the engine has them in: whoever needs them in
            one joins them, once. Nobody else has their memory.
        cursor: Where to go on; None where the partition has no more. A page may be empty and
            still have a cursor.
        stats: Blocks that answer by their statistics, where that was asked for; they lie between
            the readings of ``parts``, and count neither in the page's length nor towards
            ``rows_max``.
    """

    parts: tuple[PagePart, ...]
    cursor: Any = None
    stats: tuple[BlockStats, ...] = ()

    def __len__(self) -> int:
        return rows_in(self.parts)

    def head(self, rows: int) -> Page:
        """Return the first readings of the page."""
        return Page(head_of(self.parts, rows), self.cursor, self.stats)


def rows_in(parts: Iterable[PagePart]) -> int:
    """Return how many readings some parts have together."""
    return sum(len(ts) for ts, _ in parts)


def head_of(parts: Sequence[PagePart], rows: int) -> tuple[PagePart, ...]:
    """Return the first readings of some parts; they share memory."""
    kept: list[PagePart] = []
    for ts, columns in parts:
        if rows <= 0:
            break
        if len(ts) > rows:
            columns = {name: data.take(slice(rows)) for name, data in columns.items()}
        kept.append((ts[:rows], columns))
        rows -= len(ts)
    return tuple(kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """One thing that leaves the disk as a whole: a segment's file, or a window's.

    Attributes:
        name: What people see: a file, or a window.
        start_s: First second of event time inside (write time for a window).
        end_s: First second after.
        bytes: Size on disk; None where the engine cannot know.
    """

    name: str
    start_s: int
    end_s: int
    bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireReport:
    """What expiry removed, or would remove.

    Attributes:
        removals: What is past the retention, oldest first.
        is_removed: Whether it is gone now.
        note: What the engine has to say about it.
    """

    removals: tuple[Removal, ...]
    is_removed: bool
    note: str = ""

    @property
    def bytes(self) -> int:
        """Bytes of all removals whose size is known."""
        return sum(removal.bytes or 0 for removal in self.removals)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableInfo:
    """What an engine knows about a table now.

    Attributes:
        series_count: How many series are listed.
        disk_bytes: Bytes on disk; None where the engine cannot know.
        parts: Named facts for people, such as a row for each segment.
        problems: What is wrong, each in one sentence; empty when nothing is.
    """

    series_count: int
    disk_bytes: int | None
    parts: tuple[Mapping[str, Any], ...] = ()
    problems: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class SealReport:
    """What sealing did, or has done so far.

    Attributes:
        readings: How many readings became part of a block.
        blocks: How many blocks were made, or made anew.
        bytes_before: Bytes on disk before, of the files looked at.
        bytes_after: Bytes on disk afterwards.
        segments: How many files were looked at.
        segments_total: How many there are.
        problems: What could not be sealed, each in one sentence.
        note: What the engine has to say about it.
    """

    readings: int = 0
    blocks: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    segments: int = 0
    segments_total: int = 0
    problems: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WidthNews:
    """What changed in the widths of a table's series since they were read last.

    Attributes:
        histories: The whole history of each series that changed, void changes left out.
        seen: What was seen, to be handed to the next read; opaque to the caller.
    """

    histories: Mapping[str, History]
    seen: Any


def listed_record(record: SeriesRecord | None, spec: TableSpec, name: str) -> SeriesRecord:
    """Return a record that was found in the catalog.

    Raises:
        SeriesNotFoundError: None was.
    """
    if record is None:
        raise SeriesNotFoundError(
            f"the table {spec.name!r} has no series {name!r}",
            hint="add it with add_series, or write a reading of it",
            series=name,
        )
    return record


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesScan:
    """Series that were found by going through the partitions of a table.

    Attributes:
        series: The series found, each once.
        partitions: How many partitions were looked at.
        unnamed: Partitions whose key gives no series id that treering takes.
        next_token: Where to go on; None where the table's end was reached.
    """

    series: tuple[str, ...]
    partitions: int
    unnamed: int
    next_token: int | None


class Adopter(Protocol):
    """What an engine does for tables that others made, where it can have such."""

    @property
    def keyspace(self) -> str:
        """Where a table is looked for whose keyspace is not said."""
        ...

    def read_foreign(self, keyspace: str, table: str) -> ForeignTable:
        """Return the schema and options of a table.

        Raises:
            UsageError: There is none.
            SchemaMismatchError: It cannot hold readings.
        """
        ...

    def read_sample(self, foreign: ForeignTable) -> Sample:
        """Return a bounded sample of a table's rows."""
        ...

    def plan_adopt(self, spec: TableSpec) -> tuple[str, ...]:
        """Return the steps that :meth:`adopt_table` would take, for people."""
        ...

    def adopt_table(self, spec: TableSpec) -> TableSpec:
        """Enter a table of others into the catalog; changes nothing of the table itself.

        Raises:
            SchemaMismatchError: The name is taken by a table that is another or read otherwise.
        """
        ...

    def scan_series(self, spec: TableSpec, *, token: int | None, partitions_max: int) -> SeriesScan:
        """Go through partitions from a token on and return the series found."""
        ...


@runtime_checkable
class AdoptingEngine(Protocol):
    """An engine beside whose tables others have theirs."""

    adopter: Adopter


@runtime_checkable
class SealingEngine(Protocol):
    """An engine that keeps live readings as rows, and packs them later."""

    def seal(
        self,
        spec: TableSpec,
        *,
        now_s: int,
        on_segment: Callable[[SealReport], None] = lambda report: None,
    ) -> SealReport:
        """Pack all readings whose time is over, now.

        Sealing changes no result of any read, and may be done at any moment, by any process.

        Args:
            spec: The table.
            now_s: The present, in epoch seconds.
            on_segment: Is told after each part how far it came.

        Raises:
            StoreBusyError: A writer held a file for longer than the bounded wait; what was sealed
                before stays sealed.
        """
        ...


class Engine(Protocol):
    """Keeps tables and readings. All methods may be called from several threads at once."""

    name: str
    """``memory``, ``sqlite`` or ``cassandra``."""
    write_rows_max: int
    """The most readings of one :meth:`submit_write`."""
    page_rows_max: int
    """The most readings of a page."""
    joined_max: int
    """How many adjacent buckets of a series are worth reading as one; 1: none are."""
    group_rows_max: int
    """The most readings of several partitions that are worth writing as one; 0: none are."""
    in_flight_max: int
    """The most requests that are worth having in flight at once."""
    leaves_tombstones: bool
    """Whether what is deleted stays on disk, covered, until compaction or expiry removes it."""

    def workload_defaults(self) -> Mapping[str, Any]:
        """Return fields of a workload that follow from the engine, such as the server's version."""
        ...

    def plan_create(self, spec: TableSpec) -> tuple[str, ...]:
        """Return the statements or steps that :meth:`create_table` would run, for people."""
        ...

    def create_table(self, spec: TableSpec) -> TableSpec:
        """Make the table and its catalog entry, durably; racing creators make one table.

        Returns:
            The table as the catalog has it (its incarnation is the engine's to choose).

        Raises:
            SchemaMismatchError: A table of that name with another design, or one that treering
                did not make, is there already. An equal one is returned, not made again.
        """
        ...

    def load_table(self, name: str) -> TableSpec | None:
        """Return the table of that name as the catalog has it, verified against what is there.

        Raises:
            SchemaMismatchError: The real schema differs from the catalog, or a newer format.
        """
        ...

    def plan_alter(self, before: TableSpec, after: TableSpec) -> tuple[str, ...]:
        """Return the statements or steps that :meth:`alter_table` would run; none: all is done."""
        ...

    def alter_table(self, before: TableSpec, after: TableSpec) -> TableSpec:
        """Give a table another retention, with all that follows from it, durably.

        While it is under way, and if it is cut short, readings are kept at least as long as the
        catalog says; doing it again completes it.

        Raises:
            SchemaMismatchError: The catalog has neither ``before`` nor ``after``.
        """
        ...

    def table_names(self) -> tuple[str, ...]:
        """Return the names of all tables, sorted."""
        ...

    def drop_table(self, spec: TableSpec) -> None:
        """Remove the table, its readings and its catalog entry."""
        ...

    def add_series(
        self, spec: TableSpec, series: Iterable[str | SeriesRecord]
    ) -> tuple[SeriesRecord, ...]:
        """List series durably, before a reading of theirs is acknowledged; repeating is cheap.

        Each is entered once: of racing callers one enters it, and the others find it there.

        Returns:
            What the catalog has of each, in order; where a series was there before, that and not
            what was passed.
        """
        ...

    def load_series(
        self, spec: TableSpec, names: tuple[str, ...], *, lease_s: float = LEASE_S
    ) -> dict[str, SeriesRecord]:
        """Return the records of those that are listed, by name, void changes left out."""
        ...

    def series(
        self, spec: TableSpec, *, prefix: str = "", tags: Mapping[str, str] | None = None
    ) -> Iterator[str]:
        """Yield the listed series that start with ``prefix`` and have all ``tags``, sorted.

        The order is that of code points. Names are read as they are needed.
        """
        ...

    def has_series(self, spec: TableSpec, name: str) -> bool:
        """Return whether the series is listed."""
        ...

    def set_tags(self, spec: TableSpec, name: str, tags: Mapping[str, str]) -> SeriesRecord:
        """Replace the tags of a listed series.

        Raises:
            SeriesNotFoundError: It is not listed.
        """
        ...

    def set_width(
        self,
        spec: TableSpec,
        name: str,
        width: BucketWidth,
        *,
        now_s: float,
        lease_s: float = LEASE_S,
    ) -> SeriesRecord:
        """Change the bucket width of a listed series from a date on that the engine chooses.

        The date is at least the table's future limit and two leases after ``now_s`` and the
        server's clock. Setting the width that is the last one already changes nothing.

        Raises:
            SeriesNotFoundError: It is not listed.
            WidthError: Another change is pending.
            EngineTimeoutError: The outcome is unknown; doing it again is safe.
        """
        ...

    def read_widths(
        self, spec: TableSpec, seen: Any = None, *, lease_s: float = LEASE_S
    ) -> WidthNews:
        """Return what changed since ``seen``, the result of a read before; all where None."""
        ...

    def check_durable(self, spec: TableSpec) -> None:
        """Refuse a table whose acknowledged writes would not outlive a crash of the server.

        Raises:
            UsageError: Says what to change.
        """
        ...

    def server_time_s(self) -> float | None:
        """Return the server's clock in epoch seconds; None where it is this machine's."""
        ...

    def submit_write(self, spec: TableSpec, write: PartitionWrite) -> Future[None]:
        """Start one write of one partition; the future completes when it is durable.

        Cells merge column by column: a larger ``write_us`` wins, on a tie the larger serialized
        value (as unsigned bytes, big-endian) does; a missing value changes nothing. So the same
        write sent twice is one write. (On Cassandra a later expiry wins a tie before the bytes
        do: cells of one lifetime follow the rule as it stands here.)

        In a table whose index may be trusted, the bucket is marked when the future completes.

        The future fails with an ``EngineError``; ``retryable`` says whether sending the same
        write again is worth it.
        """
        ...

    def submit_writes(self, spec: TableSpec, writes: tuple[PartitionWrite, ...]) -> Future[None]:
        """Start writes of several partitions; the future completes when all are durable.

        What :meth:`submit_write` promises holds for each. After a failure some may have been
        written; sending all again is safe.
        """
        ...

    def submit_delete(self, spec: TableSpec, delete: PartitionDelete) -> Future[None]:
        """Start one deletion in one partition; the future completes when it is durable.

        Cells of its event times that were written at ``write_us`` or before are gone, also those
        that arrive later; cells written later live. A reading without cells is no reading.
        Repeating is safe.
        """
        ...

    def remove_series(self, spec: TableSpec, series: tuple[str, ...]) -> None:
        """Take series off the list, durably; repeating is free. Their readings are not touched."""
        ...

    def submit_read(self, spec: TableSpec, read: PageRead) -> Future[Page]:
        """Start reading one page.

        A reading is there whatever columns are asked for: one that has no value in them comes
        with missing values. ``cursor`` is opaque to the caller and may be used once or again.
        """
        ...

    def mark_buckets(self, spec: TableSpec, marks: tuple[tuple[str, Bucket], ...]) -> Future[None]:
        """Start marking buckets of series as existing; repeating is safe.

        The future completes when all marks are durable. A mark outlives every reading that its
        bucket can hold, and no later mark shortens its life.
        """
        ...

    def submit_listing(self, spec: TableSpec, listing: BucketListing) -> Future[ListedBuckets]:
        """Start asking which buckets of a series exist.

        Every bucket that holds an acknowledged reading is listed, where the table's index may be
        trusted; one that holds none may be.
        """
        ...

    def expire(self, spec: TableSpec, *, now_s: int, dry_run: bool = False) -> ExpireReport:
        """Remove what the retention has passed as a whole, or only say what would go."""
        ...

    def info(self, spec: TableSpec) -> TableInfo:
        """Return what is known about the table now."""
        ...

    def close(self) -> None:
        """Release everything; what was acknowledged is safe without it."""
        ...
