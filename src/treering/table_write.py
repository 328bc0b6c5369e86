"""The verbs of a table that write readings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, Final

from treering.core.units import render_count
from treering.core.widths import History
from treering.core.write_input import WriteInputs, inputs_of_one
from treering.core.write_plan import Duplicates, WritePlan, plan_writes
from treering.errors import CorruptDataError, TreeringError, UsageError
from treering.fanout.steps import Steps, verb
from treering.fanout.write import WriteFanOut, WriteGroup, groups_of
from treering.intake import input_of_series, inputs_of_frame
from treering.leases import SeriesLease
from treering.table_context import TIMEOUT_S
from treering.table_retention import RetentionVerbs
from treering.write_report import WriteReport, refused_error, report_of
from treering.writer import Writer, WriterClocks, open_writer

_WRITE_AGAIN: Final = "write the same readings again: those that are there already are not doubled"


class WriteVerbs(RetentionVerbs):
    """Writes readings; a part of :class:`~treering.Table`."""

    _lease: SeriesLease
    _run: Callable[..., Steps[None]]
    _now_ts: Callable[[], int]

    @verb
    def write(
        self,
        series: str,
        times: Any,
        values: Mapping[str, Any] | None = None,
        /,
        *,
        unit: str | None = None,
        duplicates: Duplicates = "refuse",
        strict: bool = False,
        timeout_s: float = TIMEOUT_S,
        **columns: Any,
    ) -> Steps[WriteReport]:
        """Write readings of one series; returns when they are durable.

        Args:
            series: The series id; a new one is listed first.
            times: One event time or many: ``datetime64`` (UTC), aware datetimes, ISO text with a
                zone, or integers with ``unit``.
            values: Values by column name, for columns whose name is an option of this call.
            unit: The unit of integer times: s, ms, us or ns.
            duplicates: Readings of this call with one event time and other values are refused
                all, or the first or the last is kept. Equal ones count as repeats.
            strict: Refuse the whole call, before anything is sent, if one reading is refused.
            timeout_s: How long the call may take.
            **columns: Values by column name, one a time; None or masked is missing.

        Returns:
            What was accepted, floored and refused; each refused reading with its reason.

        Raises:
            UsageError: Unknown column, lengths that differ, zone-less times, wrong types.
            RefusedReadingsError: ``strict`` and a reading was refused; nothing was sent.
            EngineError: A part was not acknowledged; ``report`` says how many readings were, and
                sending the same call again is safe.

        Cost:
            One request for each partition and each few hundred readings.
        """
        given = {**(values or {}), **columns}
        readings = input_of_series(self._spec, series, times, given, unit=unit)
        with self._context.call("write", timeout_s):
            return (yield from self._write(inputs_of_one(readings), duplicates, strict, timeout_s))

    @verb
    def write_frame(
        self,
        frame: Any,
        *,
        time: str = "ts",
        series: str | None = None,
        series_name: str | None = None,
        columns: Mapping[str, str] | None = None,
        unit: str | None = None,
        tz: str | None = None,
        duplicates: Duplicates = "refuse",
        strict: bool = False,
        timeout_s: float = TIMEOUT_S,
    ) -> Steps[WriteReport]:
        """Write a frame: a mapping of arrays, or anything with the Arrow C stream interface.

        Args:
            frame: pandas, Polars, Arrow or a mapping of arrays.
            time: The frame's column of event times.
            series: The frame's column of series ids.
            series_name: The one series that all rows belong to, where there is no such column.
            columns: Table column by frame column; by default those with one name in both.
            unit: The unit of integer times.
            tz: What zone-less times mean, such as ``Europe/Berlin``; without it they are refused.
            duplicates: As for :meth:`write`.
            strict: As for :meth:`write`.
            timeout_s: As for :meth:`write`.

        Returns:
            As :meth:`write`; places count the rows of the frame.

        Raises:
            UsageError, RefusedReadingsError, EngineError: As :meth:`write`.
            MissingExtraError: A frame that needs pyarrow, and it is not installed.
        """
        inputs = inputs_of_frame(
            self._spec,
            frame,
            time=time,
            series=series,
            series_name=series_name,
            columns=columns,
            unit=unit,
            tz=tz,
        )
        with self._context.call("write", timeout_s):
            return (yield from self._write(inputs, duplicates, strict, timeout_s))

    def writer(self, **options: Any) -> Writer:
        """Return a writer that collects single readings and writes them in batches.

        Args:
            **options: ``linger``, ``max_bytes``, ``max_rows``, ``block_s``, ``on_refused``,
                ``spool`` and what else :class:`~treering.writer.WriterOptions` has.

        Raises:
            UsageError: An option that is not what it should be, or another table's spool.
            StoreBusyError: Another process has the spool; named.
        """
        clocks = WriterClocks(now_ns=self._context.clock, write_clock=self._context.write_clock)
        made = open_writer(self._spec, self._write_batch, clocks, options)
        self._context.writers.add(made)
        return made

    @verb
    def _write_batch(
        self, inputs: WriteInputs, *, write_us: int, timeout_s: float
    ) -> Steps[WriteReport]:
        with self._context.call("write", timeout_s):
            return (yield from self._write(inputs, "last", False, timeout_s, write_us))

    def _write(
        self,
        inputs: WriteInputs,
        duplicates: Duplicates,
        strict: bool,
        timeout_s: float,
        write_us: int | None = None,
    ) -> Steps[WriteReport]:
        self._refresh()
        if duplicates not in ("refuse", "first", "last"):
            raise UsageError(
                f"duplicates={duplicates!r} is not known", hint="use 'refuse', 'first' or 'last'"
            )
        now_ts = self._now_ts()
        if write_us is None:
            write_us = self._context.write_clock.next_us()

        def planned(widths: Mapping[str, History]) -> tuple[WritePlan, ...]:
            return plan_writes(
                self._spec,
                inputs,
                now_ts=now_ts,
                write_us=write_us,
                duplicates=duplicates,
                widths=widths,
            )

        names = inputs.series
        widths = self._lease.widths_to_write(names, now_ts)
        plans = planned(widths)
        report = report_of(plans)
        self._context.stats.on_refused(plans)
        if strict and report.refused_count:
            raise refused_error(report, "nothing was written")
        self._list_series([plan.series for plan in plans if plan.rows], now_ts)
        known = self._lease.widths_to_write(names, now_ts)
        if known != widths:
            # Another client entered a series with a width of its own, or a width changed since.
            plans = planned(known)
            report = report_of(plans)
        rows_max = self._context.engine.write_rows_max
        parts = (part for p in plans for write in p.writes for part in write.split(rows_max))
        groups = groups_of(parts, self._context.engine.group_rows_max)
        retried = yield from self._send(groups, report, timeout_s)
        return replace(report, retried=retried)

    def _list_series(self, names: Sequence[str], now_ts: int) -> None:
        new = tuple(dict.fromkeys(name for name in names if not self._lease.is_known(name)))
        if new:
            self._lease.enter(new, now_ts)

    def _send(
        self, groups: Iterator[WriteGroup], planned: WriteReport, timeout_s: float
    ) -> Steps[int]:
        context = self._context
        fan_out = WriteFanOut(groups, context.permits)

        def submit(request: Any) -> Future[None]:
            if len(request.group) == 1:
                return context.engine.submit_write(self._spec, request.group[0])
            return context.engine.submit_writes(self._spec, request.group)

        error: TreeringError | None = None
        try:
            yield from self._run(fan_out, submit, timeout_s, "write")
        except TreeringError as stopped:
            error = stopped
        context.stats.verb("write").on_end(
            partitions=fan_out.partitions_sent, rows=fan_out.rows_acknowledged
        )
        if error is None and fan_out.failed:
            error = fan_out.failed[0][1]
        if error is not None:
            where = f", first {fan_out.failed[0][0][0].name}" if fan_out.failed else ""
            all_of_them = render_count(planned.accepted, "reading")
            raise type(error)(
                f"only {fan_out.rows_acknowledged:,} of {all_of_them} for {self._spec.name} were "
                f"acknowledged{where}: {error}",
                hint=error.hint if isinstance(error, CorruptDataError) else _WRITE_AGAIN,
                report=report_of(planned.plans, accepted=fan_out.rows_acknowledged),
            ) from error
        return fan_out.rows_retried
