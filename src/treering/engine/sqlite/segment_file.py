"""One segment's file: readings of one slice of event time, in a SQLite file that stands alone.

Rules of this file: a file is used only after it has said whose it is; what is acknowledged was
committed into the file that the name still means: expiry of another process may have unlinked
it, so the name is compared with the open file under the write lock, before anything is written.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from treering.engine.deletions import Deletion, dead_mask, with_deletion
from treering.engine.protocol import PagePart
from treering.engine.sqlite import sql
from treering.engine.sqlite.answered import find_answered
from treering.engine.sqlite.batches import Batch
from treering.engine.sqlite.block_table import BlockTable, Owner, SealRules, Territory
from treering.engine.sqlite.database import (
    connect,
    immediate,
    inode_of,
    make_durable,
    snapshot,
    unlink_database,
)
from treering.engine.sqlite.failures import corrupt, translated
from treering.engine.sqlite.merged import Ask, read_merged
from treering.engine.sqlite.row_table import RowRange, RowTable
from treering.engine.sqlite.sealing import Place, Sealed, SealStep
from treering.engine.sqlite.segment_identity import (
    SegmentIdentity,
    add_deletions,
    add_functions,
    check_identity,
)
from treering.errors import (
    CorruptDataError,
    EngineError,
    SchemaMismatchError,
    TreeringError,
    UsageError,
)

if TYPE_CHECKING:
    from treering.core.block import BlockStats

DEFAULT_RULES: Final = SealRules()

_OPEN_ATTEMPTS: Final = 5
_SERIES_CACHED_MAX: Final = 100_000
_REPACK_MAX: Final = 16
"""How many times larger a block may be than what a write folds into it at once."""

_ROWS_COUNTED_MAX: Final = 1_000_000
"""How many rows are counted: more take seconds."""

_VACUUM_PAGES: Final = 2_000
"""How many free pages are given back in one transaction: 8 MB."""


class SegmentFile:
    """An open segment. One thread at a time; the pool sees to that."""

    def __init__(
        self,
        path: Path,
        identity: SegmentIdentity,
        connection: sqlite3.Connection,
        *,
        inode: int,
        busy_timeout_s: float,
        rules: SealRules,
    ) -> None:
        self.path = path
        self.identity = identity
        self._connection = connection
        self._inode = inode
        self._busy_timeout_s = busy_timeout_s
        self._columns = identity.spec.columns
        self._rules = rules
        self._rows = RowTable(connection, path, self._columns)
        self._blocks = BlockTable(connection, path, identity, rules)
        self._ids: dict[str, int] = {}

    @classmethod
    def open(
        cls,
        path: Path,
        identity: SegmentIdentity,
        *,
        busy_timeout_s: float,
        rules: SealRules = DEFAULT_RULES,
    ) -> SegmentFile | None:
        """Open a segment's file and check what it says; None where there is none.

        Raises:
            CorruptDataError: Damaged, foreign, or another segment's file.
            SchemaMismatchError: Written by a newer release.
        """
        for _ in range(_OPEN_ATTEMPTS):
            inode = inode_of(path)
            if inode is None:
                return None
            connection: sqlite3.Connection | None = None
            try:
                with translated(path, "opening", waited_s=busy_timeout_s):
                    connection = connect(path, busy_timeout_s=busy_timeout_s)
                    check_identity(connection, path, identity)
                    make_durable(connection, path)
                    add_deletions(connection)
                    add_functions(connection)
            except BaseException as error:
                _close(connection)
                # While a file is being unlinked, SQLite stumbles over whatever is gone first.
                if isinstance(error, TreeringError) and inode_of(path) != inode:
                    continue
                raise
            # SQLite opens by name: only what had one inode before and after is surely this file.
            if inode_of(path) == inode:
                return cls(
                    path,
                    identity,
                    connection,
                    inode=inode,
                    busy_timeout_s=busy_timeout_s,
                    rules=rules,
                )
            connection.close()
        raise EngineError(f"{path} was replaced {_OPEN_ATTEMPTS} times while it was being opened")

    def is_current(self) -> bool:
        """Return whether the name still means this file."""
        return inode_of(self.path) == self._inode

    @contextmanager
    def _writing(self, doing: str) -> Iterator[bool]:
        """Hold the write lock; yields whether the name still means this file."""
        with (
            translated(self.path, doing, waited_s=self._busy_timeout_s),
            immediate(self._connection),
        ):
            self._blocks.begin()
            yield self.is_current()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """See rows and blocks as they are at one moment, whatever others seal meanwhile."""
        with (
            translated(self.path, "reading", waited_s=self._busy_timeout_s),
            snapshot(self._connection),
        ):
            self._blocks.begin()
            yield

    def write(self, batches: Sequence[Batch]) -> bool:
        """Merge readings in, durably, in one commit; many of one span as a block at once.

        Returns:
            False, with nothing written, where the file has been removed meanwhile.

        Raises:
            StoreBusyError: Another process wrote for longer than the bounded wait.
            CorruptDataError: The file is damaged.
            EngineError: The disk is full, or not writable.
        """
        added: dict[str, int] = {}
        with self._writing("writing to") as is_current:
            if not is_current:
                return False
            for batch in batches:
                series_id = added.get(batch.series) or self._listed(batch.series)
                added[batch.series] = series_id
                batch = self._living(series_id, batch)
                batch = self._without_packed(Owner(series_id, batch.series), batch)
                if len(batch):
                    self._rows.merge(series_id, batch)
        # Only now: a rolled-back id must not be remembered.
        for series, series_id in added.items():
            self._remember(series, series_id)
        return True

    def _without_packed(self, owner: Owner, batch: Batch) -> Batch:
        """Pack what is worth a block at once; return the rest."""
        least = self._rules.bulk_rows
        if not self._rules.is_on or len(batch) < least:
            return batch
        left = np.ones(len(batch), dtype=np.bool_)
        first = 0
        while first < len(batch):
            territory = self._blocks.territory(owner, int(batch.ts[first]))
            after = int(np.searchsorted(batch.ts, territory.end))
            part = slice(first, after)
            if after - first >= least and self._packs(owner, territory, batch.take(part)):
                left[part] = False
            first = after
        return batch.take(np.flatnonzero(left)) if not left.all() else batch

    def _packs(self, owner: Owner, territory: Territory, batch: Batch) -> bool:
        """Fold a part of a batch into a block; False where it has to be rows."""
        block = territory.block
        is_large = block is not None and block.readings > _REPACK_MAX * len(batch)
        if is_large and not self._blocks.begins_anew(block, int(batch.ts[0]), len(batch)):
            return False
        try:
            self._blocks.put(owner, territory, batch.cells(self._columns))
        except (CorruptDataError, SchemaMismatchError, UsageError):
            # Over a block that cannot be read, or too long a text for one, rows are safe.
            return False
        return True

    def delete(self, series: str, deletion: Deletion) -> bool:
        """Take cells out, durably, and remember that they are dead; as :meth:`write` otherwise.

        Raises:
            CorruptDataError, SchemaMismatchError: A block that it touches cannot be read; nothing
                was deleted.
        """
        with self._writing("deleting from") as is_current:
            if not is_current:
                return False
            series_id = self._listed(series)
            self._rows.delete(series_id, deletion)
            self._blocks.delete(Owner(series_id, series), deletion)
            there = [
                Deletion(*row) for row in self._connection.execute(sql.DELETIONS_OF, (series_id,))
            ]
            self._connection.execute(sql.FORGET_DELETIONS, (series_id,))
            self._connection.executemany(
                sql.REMEMBER_DELETION,
                [(series_id, d.start, d.end, d.write_us) for d in with_deletion(there, deletion)],
            )
        return True

    def _living(self, series_id: int, batch: Batch) -> Batch:
        """Return the batch without readings that were deleted at its write time or later."""
        found = self._connection.execute(
            sql.DELETIONS, (series_id, int(batch.ts[-1]), int(batch.ts[0]), batch.write_us)
        ).fetchall()
        if not found:
            return batch
        dead = dead_mask([Deletion(*row) for row in found], batch.ts, batch.write_us)
        return batch.take(np.flatnonzero(~dead))

    def _listed(self, series: str) -> int:
        found = self._id_of(series)
        if found is not None:
            return found
        added = self._connection.execute("INSERT INTO series(name) VALUES(?)", (series,))
        return int(added.lastrowid or 0)

    def _id_of(self, series: str) -> int | None:
        found = self._ids.get(series)
        if found is not None:
            return found
        row = self._connection.execute("SELECT id FROM series WHERE name = ?", (series,)).fetchone()
        if row is None:
            return None
        if self._name_of(row[0]) != series:
            # SQLite's index says so, and its table does not: these would be another's readings.
            raise corrupt(
                self.path,
                found=f"{series} as number {row[0]}, which is {self._name_of(row[0])}",
                expected="one number a series",
            )
        return int(row[0])

    def _name_of(self, series_id: int) -> str:
        row = self._connection.execute(
            "SELECT name FROM series WHERE id = ?", (series_id,)
        ).fetchone()
        return f"series {series_id}" if row is None else str(row[0])

    def _remember(self, series: str, series_id: int) -> None:
        if len(self._ids) >= _SERIES_CACHED_MAX:
            self._ids.clear()
        self._ids[series] = series_id

    def read(self, series: str, ask: Ask) -> tuple[list[PagePart], list[BlockStats]]:
        """Return up to ``rows_max`` event times in ``[start, end)``, in order, and their values.

        Where it is asked for, blocks that answer by their statistics come as those instead, also
        such as lie behind the last of the readings. Both are of one moment.

        Raises:
            CorruptDataError: The file, or a block, is damaged where the read touches it.
            SchemaMismatchError: A block of a newer version.
        """
        with self._reading():
            series_id = self._id_of(series)
            if series_id is None:
                return [], []
            self._remember(series, series_id)
            owner = Owner(series_id, series)
            blocks = self._blocks.between(owner, ask.start, ask.end)
            wanted = RowRange(start=ask.start, end=ask.end, order=ask.order, limit=ask.rows_max)
            answered = find_answered(
                self._blocks,
                blocks,
                ask,
                lambda first, last: self._rows.has_any(series_id, first, last),
            )
            left = [block for block in blocks if block not in answered]
            stats = list(answered.values())
            if not left:
                rows = self._rows.read(series_id, ask.columns, wanted)
                return ([rows] if len(rows[0]) else []), stats
            cells = self._rows.cells(series_id, ask.columns, wanted)
            return read_merged(self._blocks, owner, left, cells, ask), stats

    def count(self, series: str, *, start: int, end: int) -> int:
        """Return how many readings there are in ``[start, end)``.

        A block that lies inside and has no rows over it answers by its header.
        """
        with self._reading():
            series_id = self._id_of(series)
            if series_id is None:
                return 0
            owner = Owner(series_id, series)
            count = self._rows.count(series_id, start, end)
            for block in self._blocks.between(owner, start, end):
                body = self._blocks.body(owner, block)
                inside = max(start, block.first), min(end, block.last + 1)
                over = self._rows.times(series_id, *inside)
                if not len(over) and inside == (block.first, block.last + 1):
                    count += body.checked_count()
                    continue
                ts = body.ts[slice(*np.searchsorted(body.ts, inside).tolist())]
                count += len(ts) - int(np.isin(over, ts).sum())
        return count

    def edge_ts(self, series: str, *, start: int, end: int, is_newest: bool) -> int | None:
        """Return the newest or the oldest event time of ``[start, end)``; None where none is."""
        with self._reading():
            series_id = self._id_of(series)
            if series_id is None:
                return None
            row = self._rows.edge_ts(series_id, start, end, is_newest=is_newest)
            block = self._blocks.edge_ts(Owner(series_id, series), start, end, is_newest=is_newest)
        found = [ts for ts in (row, block) if ts is not None]
        if not found:
            return None
        return max(found) if is_newest else min(found)

    def seal(self, place: Place, *, closed_before: int) -> tuple[Place | None, Sealed]:
        """Fold rows of closed spans into blocks, durably: one step of bounded work.

        Args:
            place: Where to begin.
            closed_before: Spans that end then or before are closed, in ticks.

        Returns:
            Where to go on, None at the end of the file or where it is gone; and what was done.
        """
        step = SealStep(
            self._rows,
            self._blocks,
            self._columns,
            closed_before=closed_before,
            name_of=self._name_of,
        )
        # Where there is nothing to do, no one need wait for it.
        with self._reading():
            at, is_work = step.find(place)
        if at is None or not is_work:
            return at, step.sealed
        with self._writing("sealing") as is_current:
            after = step.run(at) if is_current else None
        return after, step.sealed

    def give_back(self) -> bool:
        """Give free pages, and the log, back to the file system.

        Returns:
            Whether there may be more.
        """
        with translated(self.path, "shrinking", waited_s=self._busy_timeout_s):
            (free,) = self._connection.execute("PRAGMA freelist_count").fetchone()
            (mode,) = self._connection.execute("PRAGMA auto_vacuum").fetchone()
            if not self.is_current():
                return False
            if free and mode:
                # SQLite frees a page a step; only a script takes all of them.
                self._connection.executescript(f"PRAGMA incremental_vacuum({_VACUUM_PAGES})")
            has_more = bool(mode and free > _VACUUM_PAGES)
            if not has_more:
                self._empty_log()
        return has_more

    def _empty_log(self) -> None:
        # Where a reader stands in the log, it is emptied another time: no one is waited for.
        self._connection.execute("PRAGMA busy_timeout=0")
        try:
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.OperationalError:
            pass
        finally:
            milliseconds = round(self._busy_timeout_s * 1_000)
            self._connection.execute(f"PRAGMA busy_timeout={milliseconds}")

    def remove(self, name_lock: Callable[[], AbstractContextManager[object]]) -> bool:
        """Unlink the file under its write lock, so that no write is under way in it.

        Args:
            name_lock: Gives the lock under which names are given and taken (the catalog's). It is
                asked for second: no one waits for a segment while holding it.

        Returns:
            False where another process has removed it already.
        """
        with self._writing("removing") as is_current:
            if not is_current:
                return False
            with name_lock():
                unlink_database(self.path)
        return True

    def facts(self) -> dict[str, int | None]:
        """Return how many series, rows, blocks and readings in blocks there are here."""
        with self._reading():
            (series,) = self._connection.execute("SELECT count(*) FROM series").fetchone()
            rows = self._rows.count_all(limit=_ROWS_COUNTED_MAX + 1)
            blocks, readings, _ = self._blocks.facts()
        counted = None if rows > _ROWS_COUNTED_MAX else rows
        return {
            "series": int(series),
            "rows": counted,
            "blocks": blocks,
            "readings": None if counted is None else counted + readings,
        }

    def integrity_check(self) -> str:
        """Return what SQLite finds wrong, in words; empty where nothing is.

        Cost: reads the whole file.
        """
        try:
            found = self._connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
        except sqlite3.DatabaseError as error:
            return str(error)
        return "" if found == "ok" else str(found)

    def damaged_blocks(self) -> list[str]:
        """Return what is wrong with each block that cannot be read, in one sentence.

        Cost: unpacks all blocks.
        """
        with self._reading():
            names = dict(self._connection.execute("SELECT id, name FROM series"))
            found: list[str] = []
            for series_id, name in names.items():
                found += self._blocks.damages(Owner(series_id, name))
        return found

    def close(self) -> None:
        """Close the file; what was committed is safe without it."""
        _close(self._connection)


def _close(connection: sqlite3.Connection | None) -> None:
    if connection is not None:
        with suppress(sqlite3.Error):
            connection.close()
