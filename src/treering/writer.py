"""A writer: single readings in, batches out, on a thread of its own, bounded and never silent.

Rules of this file: what was taken is written, or an error says that it was not; a batch is sent
again until it is acknowledged, always as the same write; batches are sent in order, one at a time.
"""

from __future__ import annotations

import atexit
import importlib
import logging
import os
import threading
import time
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Protocol, Self

from treering.clock import Clock, WriteClock
from treering.core.batch import Batch, inputs_of_batch
from treering.core.reading import ReadingParser
from treering.core.table import TableSpec
from treering.core.units import render_count
from treering.core.write_input import WriteInputs
from treering.core.write_plan import Refusal
from treering.errors import (
    EngineTimeoutError,
    TreeringError,
    UsageError,
)
from treering.gather import Gathering, known_error
from treering.outbox import MemoryOutbox, Outbox
from treering.turn import take_turn
from treering.write_report import WriteReport
from treering.writer_options import WriterOptions
from treering.writer_report import Tally, WriterReport

_log = logging.getLogger(__name__)

FLUSH_TIMEOUT_S: Final = 300.0
"""How long a flush waits unless the caller says otherwise."""

SEND_TIMEOUT_S: Final = 60.0
"""How long one attempt to write one batch may take."""

_BACKOFF_S: Final = 0.1
_BACKOFF_MAX_S: Final = 2.0


class Send(Protocol):
    """Writes the readings of a batch; of those with one event time the last counts."""

    def __call__(self, inputs: WriteInputs, *, write_us: int, timeout_s: float) -> WriteReport:
        """Return when all are durable."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterClocks:
    """Where a writer takes time from.

    Attributes:
        now_ns: The present, in epoch nanoseconds.
        write_clock: Write times.
    """

    now_ns: Clock
    write_clock: WriteClock


class Writer:
    """Takes single readings and writes them in batches. Safe to use from any thread.

    Made by :meth:`Table.writer`. Use it as a context manager, or close it.
    """

    def __init__(
        self,
        spec: TableSpec,
        send: Send,
        clocks: WriterClocks,
        options: WriterOptions,
        outbox: Outbox,
    ) -> None:
        self._spec = spec
        self._send = send
        self._now_ns = clocks.now_ns
        self._options = options
        self._outbox = outbox
        self._parser = ReadingParser(spec)
        self._tally = Tally(options.on_refused)
        self._gathering = Gathering(spec, options, outbox, clocks.write_clock, self._tally)
        self._changed = self._gathering.changed
        self._is_saved_by_appends = outbox.is_durable and options.spool_sync == "append"
        self._per_s = spec.precision.per_s
        self._pid = os.getpid()
        self._delivered_us = 0
        self._last_error: TreeringError | None = None
        self._is_abandoned = False
        self._tally.recover(outbox.rows)
        self._gathering.ready = outbox.batches
        self._gathering.ended_us = outbox.last_us if outbox.batches else 0
        self._thread = threading.Thread(
            target=self._run, name=f"treering writer of {spec.name}", daemon=True
        )
        self._thread.start()
        close_at_exit(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except TreeringError as failure:
            if error is None:
                raise
            # Both are told: what went wrong inside the block, and what that leaves behind.
            raise failure from error

    def __repr__(self) -> str:
        pending = f"{render_count(self._tally.pending, 'reading')} pending"
        state = "closed" if self._gathering.is_closed else pending
        return f"<treering writer of {self._spec.name!r}, {state}>"

    @property
    def is_of_this_process(self) -> bool:
        """Whether it was made here, and not in the process that this one was forked from."""
        return os.getpid() == self._pid

    @property
    def report(self) -> WriterReport:
        """What became of all readings so far."""
        self._check_process()
        with self._changed:
            return self._tally.report(self._gathering.bytes)

    def append(
        self,
        series: str,
        values: Mapping[str, Any] | None = None,
        /,
        *,
        ts: Any = None,
        unit: str | None = None,
        **columns: Any,
    ) -> None:
        """Take one reading; without a spool it is in memory when this returns, with one on disk.

        Args:
            series: The series id.
            values: Values by column name, for columns whose name is an option of this call.
            ts: Its event time, in any form that :meth:`Table.write` takes. By default now; two
                readings of one series that are stamped within one tick are one tick apart.
            unit: The unit of an integer time: s, ms, us or ns.
            **columns: Values by column name; None is missing.

        Raises:
            UsageError: Unknown column, wrong type, zone-less time; nothing was taken.
            WriterFullError: No room within ``block_s``; the reading was not taken.
            EngineError: An earlier reading could not be written; this one was not taken.
        """
        self._check_process()
        cells, flags, size_bytes = self._parser.cells({**values, **columns} if values else columns)
        if ts is None:
            tick = self._now_ns() * self._per_s // 1_000_000_000
        else:
            tick, more = self._parser.time(ts, unit)
            flags |= more
        gathering = self._gathering
        take_turn(self._changed)
        try:
            gathering.check_open()
            if ts is None:
                gathering.prune_stamps(tick)
                tick = gathering.stamp(series, tick)
            fragment = gathering.add(series, tick, flags, cells, size_bytes)
            if self._is_saved_by_appends:
                gathering.save_until(fragment)
            gathering.end_epoch_if_full()
        finally:
            self._changed.release()

    def flush(self, timeout_s: float = FLUSH_TIMEOUT_S) -> WriterReport:
        """Return when everything that was appended before is durable in the table.

        After an error this tries again.

        Raises:
            EngineTimeoutError: Not within ``timeout_s``; what was not written stays in line.
            EngineError: It cannot be written.
        """
        self._check_process()
        with self._changed:
            self._gathering.error = None
            self._gathering.check_open()
        return self._flush(timeout_s)

    def _flush(self, timeout_s: float) -> WriterReport:
        deadline_s = time.monotonic() + timeout_s
        gathering = self._gathering
        with self._changed:
            gathering.error = None
            gathering.end_epoch()
            target_us = gathering.ended_us
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: self._delivered_us >= target_us or gathering.error is not None,
                max(0.0, deadline_s - time.monotonic()),
            )
            gathering.check_error()
            report = self._tally.report(gathering.bytes)
            if self._delivered_us < target_us:
                raise self._late_error(report, timeout_s)
            return report

    def close(self, timeout_s: float | None = None) -> WriterReport:
        """Write what is left and release everything. Twice is fine.

        With a spool, what cannot be written within ``timeout_s`` stays there for the next writer,
        and the report's ``pending`` counts it.

        Args:
            timeout_s: How long to wait; by default the writer's ``close_s``.

        Raises:
            EngineError: Readings were not written; says how many. They are lost, but for a spool.
        """
        self._check_process()
        with self._changed:
            if self._gathering.is_closed:
                return self._tally.report(self._gathering.bytes)
            self._gathering.is_closed = True
            self._changed.notify_all()
        try:
            self._flush(self._options.close_s if timeout_s is None else timeout_s)
        except TreeringError as error:
            is_only_late = isinstance(error, EngineTimeoutError) and self._gathering.error is None
            if not (self._outbox.is_durable and is_only_late):
                raise self._left_error(error) from error
        finally:
            self._end()
        return self.report

    def _left_error(self, error: TreeringError) -> TreeringError:
        report = self.report
        is_one = report.pending == 1
        lost, kept = ("is lost", "stays") if is_one else ("are lost", "stay")
        fate = f"{kept} in the spool" if self._outbox.is_durable else lost
        return type(error)(
            f"the writer of {self._spec.name} closed with "
            f"{render_count(report.pending, 'reading')} not written, which {fate}: {error}",
            hint="a spool keeps readings until they are written; close_s waits longer",
            report=report,
        )

    def _end(self) -> None:
        with self._changed:
            # Either nothing is left, or the caller is told what is.
            self._is_abandoned = True
            self._changed.notify_all()
        self._thread.join(1.0)
        self._outbox.close()

    # Checks

    def _check_process(self) -> None:
        # A fork leaves the thread behind; asking for the process itself is a system call.
        if not self._thread.is_alive() and not self.is_of_this_process:
            raise UsageError(
                f"the writer was made in process {self._pid}, and this is process {os.getpid()}: "
                "a fork does not take its thread along",
                hint="open the store and make a writer after the fork",
            )

    def _late_error(self, report: WriterReport, timeout_s: float) -> EngineTimeoutError:
        why = f": {self._last_error}" if self._last_error is not None else ""
        error = EngineTimeoutError(
            f"within {timeout_s:g} s, {render_count(report.pending, 'reading')} for "
            f"{self._spec.name} could not be written{why}",
            hint="flush again, or close with a longer timeout_s; they stay in line until then",
            report=report,
        )
        error.__cause__ = self._last_error
        return error

    # The thread

    def _run(self) -> None:
        while self._wait_for_batch():
            try:
                self._deliver()
            except Exception as error:  # noqa: BLE001  # told on the next call
                self._stop_for(known_error(error))

    def _wait_for_batch(self) -> bool:
        gathering = self._gathering
        with self._changed:
            while not self._is_abandoned:
                due_s = gathering.due_s()
                now_s = time.monotonic()
                if due_s is not None and due_s <= now_s and gathering.error is None:
                    gathering.end_epoch()
                elif gathering.ready and gathering.error is None:
                    return True
                else:
                    is_stopped = due_s is None or gathering.error is not None
                    self._changed.wait(None if is_stopped or due_s is None else due_s - now_s)
            return False

    def _deliver(self) -> None:
        batch = self._outbox.first()
        report = self._send_until_done(batch)
        if report is None:
            return
        self._outbox.done(batch)
        with self._changed:
            refused = self._tally.add(report)
            self._gathering.ready -= 1
            self._delivered_us = batch.write_us
            self._last_error = None
            self._changed.notify_all()
        self._tell(refused)

    def _send_until_done(self, batch: Batch) -> WriteReport | None:
        """Send a batch until it is acknowledged; None: somebody said to stop."""
        inputs = inputs_of_batch(batch, self._spec)
        backoff_s = _BACKOFF_S
        while not self._is_abandoned:
            try:
                return self._send(inputs, write_us=batch.write_us, timeout_s=SEND_TIMEOUT_S)
            except TreeringError as error:
                if not error.retryable:
                    raise
                with self._changed:
                    self._last_error = error
                    self._tally.retried += len(batch)
                    self._changed.wait_for(lambda: self._is_abandoned, backoff_s)
            backoff_s = min(_BACKOFF_MAX_S, 2 * backoff_s)
        return None

    def _tell(self, refused: Iterable[Refusal]) -> None:
        if self._options.on_refused is not None:
            for refusal in refused:
                self._options.on_refused(refusal)

    def _stop_for(self, error: TreeringError) -> None:
        with self._changed:
            self._gathering.error = error
            self._changed.notify_all()


def open_writer(
    spec: TableSpec, send: Send, clocks: WriterClocks, options: Mapping[str, Any]
) -> Writer:
    """Return a writer; :meth:`Table.writer` says more."""
    chosen = WriterOptions.from_mapping(options)
    if chosen.spool is None:
        outbox: Outbox = MemoryOutbox(chosen.memory_bytes_max)
    else:
        # Without a spool nothing needs SQLite.
        spool = importlib.import_module("treering.spool").Spool
        outbox = spool.open(chosen.spool, spec, bytes_max=chosen.spool_bytes_max)
    return Writer(spec, send, clocks, chosen, outbox)


def close_at_exit(writer: Writer) -> None:
    """Have a writer closed at the end of this process, if it is still open then."""
    # A hook cannot be taken back, so it must not keep a closed writer alive.
    alive = weakref.ref(writer)

    def close() -> None:
        writer = alive()
        # In a forked child the readings are the parent's to write.
        if writer is None or not writer.is_of_this_process:
            return
        try:
            writer.close()
        except TreeringError as error:
            _log.error("at the end of the process: %s", error)

    # The standard library's pools, which a driver may need, end before atexit's hooks run; theirs
    # is a hook of this kind, and the last one registered runs first.
    register = getattr(threading, "_register_atexit", atexit.register)
    register(close)


def close_writers(writers: Iterable[Writer]) -> None:
    """Close those that this process made.

    Raises:
        TreeringError: The first failure, after all were closed.
    """
    failures = []
    for writer in list(writers):
        if writer.is_of_this_process:
            try:
                writer.close()
            except TreeringError as error:
                failures.append(error)
    if failures:
        raise failures[0]
