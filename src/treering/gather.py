"""Gathers readings into batches and puts them into an outbox.

Rules of this file: everything but ``Outbox.put`` happens under ``changed``; readings reach the
outbox in the order in which they were added; a batch is closed for ever once it ended, so that
sending it again sends the same readings with the same write time.

An *epoch* is a batch while it grows: its write time is taken with its first reading. A *fragment*
is what goes into the outbox at once: the whole epoch in memory, parts of it in a spool.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from treering.clock import WriteClock
from treering.core.batch import SERIES_BYTES, Batch, BatchBuffer, Cell
from treering.core.schema import check_series
from treering.core.table import TableSpec
from treering.errors import StoreClosedError, TreeringError, UsageError, WriterFullError
from treering.outbox import Outbox
from treering.writer_options import WriterOptions
from treering.writer_report import Tally


@dataclass(slots=True)
class _Epoch:
    """A batch that grows."""

    write_us: int
    due_s: float
    writes: int
    rows: int = 0
    bytes: int = 0
    fragments_unsaved: int = 0
    rows_saved: int = 0
    is_ended: bool = False


class Fragment:
    """Readings that go into the outbox together."""

    def __init__(self, epoch: _Epoch, buffer: BatchBuffer) -> None:
        self.epoch = epoch
        self.buffer = buffer
        self.batch: Batch | None = None
        self.is_done = False
        self.error: TreeringError | None = None


class Gathering:
    """Readings on their way into an outbox.

    Attributes:
        changed: Guards everything here; told whenever something changes.
        ready: How many batches in the outbox have ended and may be sent.
        ended_us: The write time of the last of them.
        error: Why nothing is taken any more, until somebody has tried again; None: all is well.
        is_closed: Whether nothing is taken any more for good.
    """

    def __init__(
        self,
        spec: TableSpec,
        options: WriterOptions,
        outbox: Outbox,
        write_clock: WriteClock,
        tally: Tally,
    ) -> None:
        self.changed = threading.Condition()
        self.ready = 0
        self.ended_us = 0
        self.error: TreeringError | None = None
        self.is_closed = False
        self._spec = spec
        self._outbox = outbox
        self._write_clock = write_clock
        self._tally = tally
        self._is_saved_by_appends = outbox.is_durable and options.spool_sync == "append"
        self._linger_s = options.linger_s
        self._memory_bytes_max = options.memory_bytes_max
        self._rows_max = options.max_rows
        self._batch_rows_max = options.batch_rows_max
        self._batch_bytes_max = options.batch_bytes_max
        self._block_s = options.block_s
        self._last_us = outbox.last_us
        self._epoch: _Epoch | None = None
        self._fragment: Fragment | None = None
        self._unsaved: deque[Fragment] = deque()
        self._is_saving = False
        self._memory_bytes = 0
        self._index = 0
        self._stamps: dict[str, int] = {}
        self._stamps_pruned_s = 0.0

    @property
    def bytes(self) -> int:
        """Bytes of what is held, the outbox included."""
        return self._memory_bytes + self._outbox.bytes

    @property
    def is_open(self) -> bool:
        """Whether a batch is growing, or was not put into the outbox yet."""
        return self._epoch is not None or bool(self._unsaved)

    def due_s(self) -> float | None:
        """Return when the growing batch must go, on the monotonic clock; None: there is none."""
        return None if self._epoch is None else self._epoch.due_s

    def add(
        self, series: str, ts: int, flags: int, cells: Sequence[Cell], size_bytes: int
    ) -> Fragment:
        """Take one reading; waits while there is no room.

        Raises:
            WriterFullError: No room within the time that an append waits.
            UsageError: Not a series id, or a reading that never fits.
        """
        self._make_room(series, size_bytes)
        fragment = self._open_fragment()
        before = fragment.buffer.bytes
        fragment.buffer.add(series, ts, flags, cells, size_bytes)
        self._count(fragment, 1, fragment.buffer.bytes - before)
        return fragment

    def stamp(self, series: str, now_ts: int) -> int:
        """Return an event time for a reading of now: later than the last one of its series.

        Raises:
            UsageError: The series has got more readings than its precision has ticks.
        """
        last = self._stamps.get(series)
        ts = now_ts if last is None or last < now_ts else last + 1
        if ts - now_ts > self._spec.precision.per_s:
            raise UsageError(
                f"{series} gets more than {self._spec.precision.per_s:,} readings a second that "
                f"are stamped now, and the table counts {self._spec.precision}",
                hint="pass ts=, or use a table of a finer precision",
            )
        self._stamps[series] = ts
        return ts

    def _count(self, fragment: Fragment, rows: int, size_bytes: int) -> None:
        epoch = fragment.epoch
        epoch.rows += rows
        epoch.bytes += size_bytes
        self._index += rows
        self._memory_bytes += size_bytes
        if not self._is_saved_by_appends:
            self._tally.take(rows)

    def _open_fragment(self) -> Fragment:
        epoch = self._epoch
        # A write that went out at once since then must not win over what is added from now on.
        if epoch is not None and epoch.writes != self._write_clock.writes:
            self.end_epoch()
            epoch = self._epoch
        if epoch is None:
            epoch = self._epoch = self._new_epoch()
        if self._fragment is None:
            buffer = BatchBuffer(self._spec, write_us=epoch.write_us, first_index=self._index)
            self._fragment = Fragment(epoch, buffer)
        return self._fragment

    def _new_epoch(self) -> _Epoch:
        now_s = time.monotonic()
        writes = self._write_clock.writes
        write_us = self._write_clock.next_us(is_buffered=True)
        # A machine's clock may have gone back since the spool was last used.
        self._last_us = max(write_us, self._last_us + 1)
        self.changed.notify_all()
        return _Epoch(self._last_us, now_s + self._linger_s, writes)

    def prune_stamps(self, now_ts: int) -> None:
        """Forget stamps that no later one can meet; about once a second."""
        now_s = time.monotonic()
        if now_s - self._stamps_pruned_s > 1:
            self._stamps_pruned_s = now_s
            self._stamps = {name: ts for name, ts in self._stamps.items() if ts >= now_ts}

    # Room

    def _make_room(self, series: str, size_bytes: int) -> None:
        need = size_bytes
        fragment = self._fragment
        if fragment is None or not fragment.buffer.has(series):
            check_series(series)
            need += SERIES_BYTES + len(series)
        if self._has_room(need):
            return
        most = min(self._memory_bytes_max, self._outbox.bytes_max)
        if need > most:
            raise UsageError(
                f"a reading of {series} takes {need:,} bytes, and the writer holds {most:,} at "
                "most",
                hint="write it with Table.write, or allow more with max_bytes",
            )
        # What holds the room must go, whatever its linger is.
        self.end_epoch()
        if not self.changed.wait_for(
            lambda: self._has_room(need) or self.error or self.is_closed, self._block_s
        ):
            raise self._full()
        self.check_open()
        # It may have been taken by somebody else meanwhile.
        self._make_room(series, size_bytes)

    def _has_room(self, need: int) -> bool:
        outbox, held = self._outbox, self._memory_bytes
        if outbox.is_durable:
            in_spool = held + outbox.bytes + outbox.overhead + need <= outbox.bytes_max
            return in_spool and held + need <= self._memory_bytes_max
        in_memory = held + outbox.bytes + need <= self._memory_bytes_max
        return in_memory and self._tally.pending < self._rows_max

    def _full(self) -> WriterFullError:
        report = self._tally.report(self.bytes)
        return WriterFullError(
            f"the reading was not taken: {report.pending:,} readings for {self._spec.name} "
            f"({self.bytes:,} bytes) wait in {self._outbox.name}, and none left within "
            f"{self._block_s:g} s",
            hint="append again later; what is held is not lost. If the store answers, append "
            "slower, or allow more with max_bytes or spool_bytes",
            report=report,
        )

    def check_open(self) -> None:
        """Raise if nothing is taken any more.

        Raises:
            StoreClosedError: The writer was closed.
            TreeringError: Of the kind that stopped it.
        """
        if self.is_closed:
            raise StoreClosedError(
                f"the writer of {self._spec.name} is closed", hint="make a new one with writer()"
            )
        self.check_error()

    def check_error(self) -> None:
        """Raise what stopped the writer.

        Raises:
            TreeringError: Of the kind that stopped it.
        """
        if self.error is not None:
            raise type(self.error)(
                f"the writer of {self._spec.name} stopped: {self.error}",
                hint="flush tries again; nothing that was taken is lost until the writer closes",
                report=self._tally.report(self.bytes),
            ) from self.error

    # Into the outbox

    def end_epoch_if_full(self) -> None:
        """Let the growing batch go if it has grown enough."""
        epoch = self._epoch
        if epoch is not None and (
            epoch.rows >= self._batch_rows_max or epoch.bytes >= self._batch_bytes_max
        ):
            self.end_epoch()

    def end_epoch(self) -> None:
        """Let the growing batch go; gives ``changed`` up while it is put into the outbox."""
        epoch, self._epoch = self._epoch, None
        self._seal()
        if epoch is not None:
            epoch.is_ended = True
            self._end_if_saved(epoch)
        self.save()

    def _seal(self) -> None:
        fragment, self._fragment = self._fragment, None
        if fragment is not None:
            fragment.batch = fragment.buffer.sealed()
            fragment.epoch.fragments_unsaved += 1
            self._unsaved.append(fragment)

    def _end_if_saved(self, epoch: _Epoch) -> None:
        if epoch.is_ended and not epoch.fragments_unsaved and epoch.rows_saved:
            self.ready += 1
            self.ended_us = epoch.write_us
            self.changed.notify_all()

    def save(self) -> None:
        """Put into the outbox what is sealed by now; gives ``changed`` up meanwhile."""
        # Not what others seal meanwhile: under steady appends that would never end.
        last = self._unsaved[-1] if self._unsaved else None
        while last is not None and not last.is_done and self.error is None:
            if self._is_saving:
                self.changed.wait()
            else:
                self._save_one()

    def save_until(self, fragment: Fragment) -> None:
        """Return when a fragment is in the outbox, durably.

        Raises:
            EngineError: It could not be put there; its readings were not taken.
        """
        while not fragment.is_done:
            if self._is_saving:
                # Others add to the fragment meanwhile: all of them share one write to disk.
                self.changed.wait()
                continue
            if fragment is self._fragment:
                self._seal()
            self._save_one()
        if fragment.error is not None:
            raise type(fragment.error)(
                f"the reading was not taken: {fragment.error}", hint=fragment.error.hint
            ) from fragment.error

    def _save_one(self) -> None:
        fragment = self._unsaved[0]
        batch, epoch = fragment.batch, fragment.epoch
        assert batch is not None, "only sealed fragments wait to be saved"
        self._is_saving = True
        error: BaseException | None = None
        self.changed.release()
        try:
            self._outbox.put(batch)
        except BaseException as raised:  # noqa: BLE001  # kept below, or raised
            error = raised
        finally:
            self.changed.acquire()
            self._is_saving = False
            self.changed.notify_all()
        if error is not None and not self._is_saved_by_appends:
            # It stays first in line: flush tries again.
            self.error = known_error(error)
        else:
            self._unsaved.popleft()
            self._memory_bytes -= batch.bytes
            fragment.is_done = True
            fragment.error = None if error is None else known_error(error)
            epoch.fragments_unsaved -= 1
            if error is None:
                epoch.rows_saved += len(batch)
                self._tally.take(len(batch) if self._is_saved_by_appends else 0)
            self._end_if_saved(epoch)
        if error is not None and not isinstance(error, Exception):
            raise error


def known_error(error: BaseException) -> TreeringError:
    """Return an error as one of treering's, whatever it was."""
    if isinstance(error, TreeringError):
        return error
    unknown = TreeringError(f"{type(error).__name__}: {error}")
    unknown.__cause__ = error
    return unknown
