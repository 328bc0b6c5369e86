"""The blocks of a segment's file: finding them, unpacking them, folding cells into them.

Rules of this file: every call runs inside a transaction of the caller's; a span has one block, or
several that cut it at event times: the *territory* of a block goes from its ``span_start`` to that
of the next one, or to the end of the span, so that every event time has one place; what is packed
is packed before anything is changed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from treering.core.block import BlockStats, read_stats
from treering.core.block_header import BLOCK_ROWS_MAX, header_bytes_of
from treering.core.fold import Cells, fold, without_dead
from treering.core.span import span_length_s
from treering.core.times import render_ts
from treering.engine.deletions import Deletion
from treering.engine.sqlite import sql
from treering.engine.sqlite.block_body import BlockBody, corrupt_block, pack_parts
from treering.engine.sqlite.segment_identity import (
    SegmentIdentity,
    add_blocks,
    has_blocks,
    span_s_of,
)
from treering.errors import CorruptDataError, SchemaMismatchError

_WORTH_A_BLOCK: Final = 32
"""How many times more readings a full block may have than those that begin the next one."""

_HEAD_BYTES: Final = 1_024
"""Enough for the header of a block of ten columns."""

_TS_MIN: Final = -(2**63)
_TS_MAX: Final = 2**63 - 1

BULK_ROWS: Final = 500
"""So many readings of a span at once are packed at once.

Measured, one double: 500 readings take 0.37 ms as a block, 0.61 ms as rows and 0.92 ms more to seal
them later; at 250 block and rows take the same, below rows are faster.
"""

LATE_S: Final = 3_600
"""How long after its end a span stays open for late readings, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SealRules:
    """When readings become blocks. The defaults are for use, others for tests and benchmarks.

    Attributes:
        is_on: Whether writing makes blocks at all, at once or later.
        bulk_rows: So many readings of one span in one write become a block at once.
        rows_min: Fewer readings of a span without a block stay rows: a block of them is no smaller.
        late_s: How long after its end a span is left open, in seconds.
        block_rows_max: The most readings of one block.
        block_rows_full: A block of so many readings is not packed again for later event times.
        span_s: The length of spans; None for what follows from the table.
    """

    is_on: bool = True
    bulk_rows: int = BULK_ROWS
    rows_min: int = 32
    late_s: int = LATE_S
    block_rows_max: int = BLOCK_ROWS_MAX
    block_rows_full: int = BLOCK_ROWS_MAX // 2
    span_s: int | None = None


class StoredBlock(NamedTuple):
    """What a file says about one of its blocks.

    Attributes:
        id: Its number in the file.
        span_start: Where its territory begins, in ticks.
        first: The event time of its first reading.
        last: The event time of its last one.
        readings: How many it has; none where what the file says cannot be true.
    """

    id: int
    span_start: int
    first: int
    last: int
    readings: int

    @property
    def is_sound(self) -> bool:
        """Whether what the file says can be true."""
        return self.readings > 0


@dataclass(frozen=True, slots=True)
class Territory:
    """Event time ``[start, end)`` that at most one block holds.

    Attributes:
        start: In ticks.
        end: In ticks.
        block: The block; None where there is none.
    """

    start: int
    end: int
    block: StoredBlock | None


@dataclass(frozen=True, slots=True)
class Owner:
    """A series of a file: its number there, and its name for messages."""

    id: int
    name: str


class BlockTable:
    """The blocks of one open file."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: Path,
        identity: SegmentIdentity,
        rules: SealRules,
    ) -> None:
        self.rules = rules
        self._connection = connection
        self._path = path
        self._spec = identity.spec
        self._columns = identity.spec.columns
        self._precision = identity.spec.precision
        self._is_there = False
        self._span: int | None = None
        # A page often ends inside a block, and the next one begins there.
        self._kept: BlockBody | None = None

    def begin(self) -> None:
        """Look at the file anew, at the start of each transaction.

        Another process may have made the first block, or this one's may have been rolled back.
        """
        is_there = has_blocks(self._connection)
        if is_there != self._is_there:
            self._is_there, self._span = is_there, None

    def span(self) -> int:
        """Return the length of a span in ticks: what the file says, else what it will say."""
        if self._span is None:
            self._span = self._span_s() * self._precision.per_s
        return self._span

    def _span_s(self) -> int:
        if self._is_there:
            return span_s_of(self._connection, self._path)
        return self.rules.span_s or span_length_s(self._spec)

    def between(self, owner: Owner, start: int, end: int) -> list[StoredBlock]:
        """Return the blocks that may hold event times of ``[start, end)``, ascending."""
        return list(self._between(owner, start, end))

    def _between(
        self, owner: Owner, start: int, end: int, *, is_descending: bool = False
    ) -> Iterator[StoredBlock]:
        if not self._is_there:
            return
        begin = max(start - start % self.span(), _TS_MIN)
        rows = self._connection.execute(
            sql.BLOCKS_BETWEEN_BACKWARDS if is_descending else sql.BLOCKS_BETWEEN,
            (owner.id, begin, end),
        )
        for row in rows:
            block = self._stored(owner, row, begin, end)
            if block.first < end and block.last >= start:
                yield block

    def territory(self, owner: Owner, ts: int) -> Territory:
        """Return the territory that an event time lies in."""
        start = max(ts - ts % self.span(), _TS_MIN)
        end = min(ts - ts % self.span() + self.span(), _TS_MAX)
        if not self._is_there:
            return Territory(start, end, None)
        there = self._connection.execute(sql.BLOCK_UP_TO, (owner.id, start, ts)).fetchone()
        after = self._connection.execute(sql.BLOCK_AFTER, (owner.id, ts, end)).fetchone()
        block = None if there is None else self._stored(owner, there, start, ts + 1)
        return Territory(
            start if block is None else block.span_start, end if after is None else after[0], block
        )

    def _stored(self, owner: Owner, row: tuple[Any, ...], begin: int, end: int) -> StoredBlock:
        """Return what a row says of a block that begins in ``[begin, end)``.

        SQLite's pages have no checksums: what a damaged row or index says may be anything. A block
        that was left out because of it would be missed by nobody, so one of which it cannot be true
        gets all the time that it may have, and whoever needs it raises.
        """
        block_id, first, last, count, series, span_start = row
        with suppress(TypeError):  # Of a damaged row even the types may be others.
            after = span_start - span_start % self.span() + self.span()
            is_here = series == owner.id and begin <= span_start < end
            if is_here and count > 0 and span_start <= first <= last < after:
                return StoredBlock(block_id, span_start, first, last, count)
        if isinstance(span_start, int) and begin <= span_start < end:
            begin, end = span_start, span_start - span_start % self.span() + self.span()
        return StoredBlock(block_id, begin, begin, min(end, _TS_MAX), 0)

    def body(self, owner: Owner, block: StoredBlock) -> BlockBody:
        """Return a block's body, unpacked as far as it was before where it is the one kept."""
        span = render_ts(block.span_start, self._precision)
        place = f"the block of {owner.name} from {span} in {self._path}"
        if not block.is_sound:
            raise corrupt_block(
                place, "another series, span or count", "those that it was put under"
            )
        (body,) = self._connection.execute(sql.BLOCK_BODY, (block.id,)).fetchone()
        found = BlockBody(
            bytes(body),
            place=place,
            count=block.readings,
            first=block.first,
            last=block.last,
        )
        return self._kept if self._kept is not None and found == self._kept else found

    def stats(self, block: StoredBlock) -> BlockStats | None:
        """Return what a block says about its readings, by its header alone.

        None where that cannot be believed; whoever unpacks the block says why. Looked at are the
        checksum of the header, its version and bounds, and whether count, first and last time are
        those that the file has of the block; not the readings.
        """
        try:
            found = read_stats(self._head(block))
        except (CorruptDataError, SchemaMismatchError, sqlite3.Error):
            return None
        said = (found.count, found.first_ts, found.last_ts, found.precision)
        wanted = (block.readings, block.first, block.last, self._precision)
        return found if said == wanted else None

    def _head(self, block: StoredBlock) -> bytes:
        with self._connection.blobopen("blocks", "body", block.id, readonly=True) as body:
            head = body.read(_HEAD_BYTES)
            return head + body.read(max(header_bytes_of(head) - len(head), 0))

    def keep(self, body: BlockBody | None) -> None:
        """Keep one unpacked block at hand."""
        self._kept = body

    def put(self, owner: Owner, territory: Territory, cells: Cells) -> int:
        """Fold readings of one territory in; return how many blocks were made.

        Raises:
            CorruptDataError, SchemaMismatchError: The block that is there cannot be read; nothing
                was changed.
            UsageError: A reading with more text than a block holds; nothing was changed.
        """
        block, start = territory.block, territory.start
        if block is not None:
            if self.begins_anew(block, int(cells.ts[0]), len(cells)):
                block, start = None, int(cells.ts[0])
            else:
                there = self.body(owner, block).cells(self._columns)
                cells = fold(there, cells, self._columns)
        return self._replace(owner, block, start, cells)

    def begins_anew(self, block: StoredBlock | None, first: int, count: int) -> bool:
        """Return whether readings get a block of their own behind one that is full enough.

        A few of them are not worth one: they are folded in, until the block has to be cut.
        """
        return (
            block is not None
            and first > block.last
            and block.readings >= self.rules.block_rows_full
            and count * _WORTH_A_BLOCK >= block.readings
        )

    def _replace(self, owner: Owner, block: StoredBlock | None, start: int, cells: Cells) -> int:
        packed = pack_parts(cells, self._columns, self._precision, self.rules.block_rows_max)
        if not self._is_there:
            add_blocks(self._connection, self._span_s())
            self._is_there = True
        if block is not None:
            self._connection.execute(sql.FORGET_BLOCK, (block.id,))
        for place, (part, body) in enumerate(packed):
            first, last = int(part.ts[0]), int(part.ts[-1])
            self._connection.execute(
                sql.ADD_BLOCK,
                (owner.id, first if place else start, first, last, len(part), body),
            )
        return len(packed)

    def delete(self, owner: Owner, deletion: Deletion) -> None:
        """Take cells out that a deletion covers.

        Raises:
            CorruptDataError, SchemaMismatchError: A block cannot be read; what was changed before
                is for the caller to roll back.
        """
        for block in self.between(owner, deletion.start, deletion.end):
            body = self.body(owner, block)
            is_inside = deletion.start <= block.first and block.last < deletion.end
            if is_inside and body.newest_us() <= deletion.write_us:
                self._connection.execute(sql.FORGET_BLOCK, (block.id,))
                continue
            cells = body.cells(self._columns)
            kept = without_dead(
                cells, start=deletion.start, end=deletion.end, write_us=deletion.write_us
            )
            if kept is cells:
                continue
            if len(kept):
                self._replace(owner, block, block.span_start, kept)
            else:
                self._connection.execute(sql.FORGET_BLOCK, (block.id,))

    def edge_ts(self, owner: Owner, start: int, end: int, *, is_newest: bool) -> int | None:
        """Return the newest or the oldest event time of ``[start, end)`` in blocks."""
        for block in self._between(owner, start, end, is_descending=is_newest):
            edge = block.last if is_newest else block.first
            if block.is_sound and start <= edge < end:
                return edge
            body = self.body(owner, block)
            inside = body.ts[slice(*body.ts.searchsorted([start, end]).tolist())]
            if len(inside):
                return int(inside[-1 if is_newest else 0])
        return None

    def damages(self, owner: Owner) -> list[str]:
        """Return what is wrong with each block of a series that cannot be read."""
        found = []
        for block in self.between(owner, _TS_MIN, _TS_MAX):
            try:
                self.body(owner, block).cells(self._columns)
            except (CorruptDataError, SchemaMismatchError) as error:
                found.append(error.message)
        return found

    def facts(self) -> tuple[int, int, int]:
        """Return how many blocks there are, with how many readings and bytes."""
        if not self._is_there:
            return 0, 0, 0
        blocks, readings, size = self._connection.execute(sql.COUNT_BLOCKS).fetchone()
        return int(blocks), int(readings), int(size)
