"""A table: the verbs that write and read its readings."""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from treering.aggregating import Empty, StepRequest
from treering.core.bucket import FAN_OUT_MAX, BucketWidth
from treering.core.listing import is_worth_listing
from treering.core.read_plan import ROWS_MAX, Order, ReadPlan, plan_read
from treering.core.schema import Column
from treering.core.table import TableSpec
from treering.core.times import TimeInput, parse_time
from treering.core.units import Interval, Precision, parse_duration_s
from treering.core.widths import CLOCK_BOUND_S
from treering.engine.deadline import deadline_in
from treering.engine.protocol import ExpireReport, SealingEngine, SealReport, TableInfo
from treering.errors import UsageError
from treering.fanout.run import run_fan_out
from treering.fanout.steps import Steps, verb
from treering.intake import parse_zone
from treering.leases import LeaseTerms, SeriesLease
from treering.newest import STEP_BUCKETS, NewestSearch
from treering.reading import reading_of
from treering.readings import Readings, readings_from_parts
from treering.table_adopted import AdoptedVerbs
from treering.table_context import LOOK_BACK_S, ROWS_ANY, TIMEOUT_S, TableContext
from treering.table_count import CountVerbs
from treering.table_removal import RemovalVerbs
from treering.table_scan import ScanVerbs
from treering.table_series import SeriesVerbs, series_names
from treering.table_write import WriteVerbs


class Table(WriteVerbs, SeriesVerbs, ScanVerbs, CountVerbs, RemovalVerbs, AdoptedVerbs):
    """A set of series with the same columns and one retention. Safe to use from any thread."""

    def __init__(
        self, spec: TableSpec, context: TableContext, lease: SeriesLease | None = None
    ) -> None:
        self._spec = spec
        self._context = context
        self._lock = threading.Lock()
        self._lease = lease or SeriesLease(spec, context.engine, LeaseTerms())
        self._refresh()

    def __repr__(self) -> str:
        return f"<treering table {self.name!r}, {self._spec.width} buckets>"

    @property
    def name(self) -> str:
        """The table's name."""
        return self._spec.name

    @property
    def spec(self) -> TableSpec:
        """The table as the catalog has it, its design included."""
        return self._spec

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of values."""
        return self._spec.columns

    @property
    def precision(self) -> Precision:
        """The precision of event time."""
        return self._spec.precision

    @property
    def bucket(self) -> BucketWidth:
        """How series of this table cut event time, unless they have a width of their own."""
        return self._spec.width

    # Reading

    @verb
    def read(
        self,
        series: str | Iterable[str],
        start: TimeInput,
        end: TimeInput | None = None,
        *,
        order: Order = "asc",
        limit: int | None = None,
        columns: Sequence[str] | None = None,
        every: str | dt.timedelta | None = None,
        agg: str | Sequence[str] | None = None,
        tz: str | None = None,
        origin: TimeInput | None = None,
        empty: Empty = "absent",
        unit: str | None = None,
        partial: bool = False,
        skip_damaged: bool = False,
        missing_ok: bool = False,
        fan_out_max: int = FAN_OUT_MAX,
        rows_max: int = ROWS_MAX,
        timeout_s: float = TIMEOUT_S,
    ) -> Steps[Readings]:
        """Read the readings of ``[start, end)`` of one or several series, or aggregates by step.

        With ``every`` the result has a row a step, at the time at which the step starts, and the
        columns ``<column>_<aggregate>``. Only readings in ``[start, end)`` count, so the first and
        the last step may be made of less than they span, and the first may start before
        ``start``. Missing values and NaN are nothing to every aggregate. Sums are exact before
        they are rounded once; a mean of floats is the rounded sum over the count.

        Args:
            series: One series id, or several, such as ``t.series(tags=…)``; each is read once,
                in the order given.
            start: First event time wanted: ISO text, ``-6h``, a datetime, ``datetime64``, or an
                integer with ``unit``.
            end: First event time not wanted; by default all that there is after ``start``.
            order: By event time within each series.
            limit: The most readings a series, from the start of the order.
            columns: Names of the columns wanted; all by default.
            every: The length of a step, such as ``5m``, ``1h`` or ``1d``.
            agg: What becomes of the values of a step: one or more of ``mean``, ``min``, ``max``,
                ``sum``, ``count``, ``first`` and ``last``, for text of the last three.
            tz: The name of a time zone. Steps of whole days are then its days, shorter ones start
                anew at each midnight, and times without a zone are of it.
            origin: An instant at which a step starts; by default 1970-01-01, in UTC or in ``tz``.
            empty: ``absent`` leaves out steps without values, ``null`` gives every step.
            unit: The unit of integer times.
            partial: Return what could be read, with the partitions that could not in
                ``missing``, instead of raising.
            skip_damaged: Leave out stored blocks and files that are damaged, and name in
                ``missing`` which event times that takes away, instead of raising.
            missing_ok: Take a series that the table does not have as an empty one.
            fan_out_max: The most partitions to touch.
            rows_max: The most readings to expect; with ``every`` they bound nothing, since none
                is kept.
            timeout_s: How long the call may take.

        Raises:
            UsageError: A reversed interval, a zone-less time, an unknown column or aggregate; a
                sum of integers that no bigint holds.
            FanOutTooWideError: The plan is over a limit, or the interval has more than 10 million
                steps; nothing was sent.
            SeriesNotFoundError: The table has no such series.
            PartialReadError: A partition stayed unreadable; nothing partial is returned.
            CorruptDataError: What is stored is damaged; names the file, or series, span and file.
            EngineTimeoutError: The call took longer than ``timeout_s``.
            StoreClosedError: The store was closed meanwhile.

        Cost:
            One request or more for each partition, side by side.
        """
        self._refresh()
        request = StepRequest(every=every, agg=agg, tz=tz, origin=origin, empty=empty)
        request.check(limit=limit)
        with deadline_in(timeout_s):
            plan = self._plan(
                series,
                start,
                end,
                order=order,
                limit=limit,
                columns=columns,
                unit=unit,
                zone=request.zone(),
                fan_out_max=fan_out_max,
                rows_max=ROWS_ANY if request.is_given else rows_max,
            )
        aggregation = None
        if request.is_given:
            aggregation = request.aggregation(plan, now_ts=self._now_ts(), unit=unit)
        reading = reading_of(self._spec, self._context, "read", timeout_s, plan.widths)
        with self._context.call("read", timeout_s):
            if is_worth_listing(plan, self._context.engine.joined_max):
                plan = yield from reading.without_unlisted(plan, partial=partial or skip_damaged)
            if aggregation is None:
                result = yield from reading.run(plan, partial=partial, skip_damaged=skip_damaged)
                rows = dict(zip(result.series, result.series_rows, strict=True))
            else:
                result, rows = yield from reading.aggregate(
                    plan, aggregation, partial=partial, skip_damaged=skip_damaged
                )
            if not missing_ok:
                self._check_listed_rows(rows)
        self._context.stats.verb("read").on_end(partitions=0, rows=len(result))
        return result

    @verb
    def explain(
        self,
        series: str | Iterable[str],
        start: TimeInput,
        end: TimeInput | None = None,
        *,
        order: Order = "asc",
        limit: int | None = None,
        columns: Sequence[str] | None = None,
        unit: str | None = None,
        tz: str | None = None,
        fan_out_max: int = FAN_OUT_MAX,
        rows_max: int = ROWS_MAX,
        listed: bool = False,
        timeout_s: float = TIMEOUT_S,
    ) -> Steps[ReadPlan]:
        """Return the plan of a read; no reading is asked for, only the catalog.

        :func:`~treering.render_read_plan` puts it in words. Takes what :meth:`read` takes but
        for steps, and refuses what it refuses.

        Args:
            tz: The name of the time zone of times without one.
            listed: Ask the index which of the buckets exist and leave out the others, as a long
                read does; where the index may not be trusted, nothing is asked or left out.

        Cost:
            Nothing is sent; with ``listed`` one request a series or more.
        """
        zone = None if tz is None else parse_zone(tz)
        with deadline_in(timeout_s):
            plan = self._plan(
                series,
                start,
                end,
                order=order,
                limit=limit,
                columns=columns,
                unit=unit,
                zone=zone,
                fan_out_max=fan_out_max,
                rows_max=rows_max,
            )
        if listed and self._spec.index_trusted:
            reading = reading_of(self._spec, self._context, "explain", timeout_s, plan.widths)
            with self._context.call("explain", timeout_s):
                plan = yield from reading.without_unlisted(plan)
        return plan

    def _plan(
        self,
        series: str | Iterable[str],
        start: TimeInput,
        end: TimeInput | None,
        *,
        unit: str | None,
        fan_out_max: int,
        zone: dt.tzinfo | None = None,
        **choices: Any,
    ) -> ReadPlan:
        names = series_names(series, fan_out_max=fan_out_max)
        now_ts = self._now_ts()
        return plan_read(
            self._spec,
            names,
            self._interval(start, end, unit, now_ts, zone),
            now_ts=now_ts,
            fan_out_max=fan_out_max,
            widths=self._lease.widths_to_read(names, now_ts),
            **choices,
        )

    @verb
    def latest(
        self,
        series: str | Iterable[str],
        count: int = 1,
        *,
        columns: Sequence[str] | None = None,
        look_back: str | dt.timedelta | None = None,
        missing_ok: bool = False,
        timeout_s: float = TIMEOUT_S,
    ) -> Steps[Readings]:
        """Read the newest readings of each series, newest first.

        Steps back over the buckets that the index lists until there are enough, at most over the
        retention; bucket by bucket in a table whose index may not be trusted.

        Args:
            series: One series id, or several.
            count: How many readings of each.
            columns: Names of the columns wanted; all by default.
            look_back: How far to step back at most, such as ``7d``; by default the retention, or
                ten years where readings are kept for ever.
            missing_ok: Take a series that the table does not have as an empty one.
            timeout_s: How long the call may take.

        Raises:
            SeriesNotFoundError: The table has no such series.
            UsageError, EngineError: As :meth:`read`.

        Cost:
            Two requests a series, index and partition, where the newest bucket holds enough; one
            for each listed bucket stepped back. One where nothing is listed, and one more to tell
            a series that never was, unless ``missing_ok``.
        """
        self._refresh()
        names = series_names(series)
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise UsageError(
                f"the newest readings are counted from 1 on, not {count!r}",
                hint="leave the count out for the newest one",
            )
        oldest = self._oldest_looked_at(look_back)
        with self._context.call("latest", timeout_s):
            pages = yield from self._newest(names, count, columns, oldest, timeout_s).run()
            schema = self._spec.selected(columns)
            result = readings_from_parts(
                pages, series=names, precision=self.precision, schema=schema
            )
            self._check_listed(result, missing_ok)
        self._context.stats.verb("latest").on_end(partitions=0, rows=len(result))
        return result

    def _newest(
        self,
        names: tuple[str, ...],
        count: int,
        columns: Sequence[str] | None,
        oldest: int,
        timeout_s: float,
    ) -> NewestSearch:
        now_ts = self._now_ts()
        widths = self._lease.widths_to_read(names, now_ts)
        if not self._spec.index_trusted:
            # A series that never was costs one look into the catalog, not a walk.
            known = (n for n in names if self._spec.is_adopted or self._lease.is_known(n))
            names = tuple(known)

        def plan_of(series: Sequence[str], interval: Interval, limit: int) -> ReadPlan:
            return plan_read(
                self._spec,
                series,
                interval,
                now_ts=now_ts,
                order="desc",
                limit=limit,
                columns=columns,
                # Months are shorter than the 31 days that a step counts for each.
                fan_out_max=2 * STEP_BUCKETS * len(series),
                widths=widths,
            )

        return NewestSearch(
            names=names,
            count=count,
            interval=Interval(oldest, self._end_of_time(now_ts), self.precision),
            reading=reading_of(self._spec, self._context, "latest", timeout_s, widths),
            plan_of=plan_of,
        )

    def _oldest_looked_at(self, look_back: str | dt.timedelta | None) -> int:
        now_ts = self._now_ts()
        length_s = None if look_back is None else parse_duration_s(look_back)
        if length_s is None:
            length_s = self._spec.layout.look_back_s
        if length_s is None and self._spec.retention_s is None:
            length_s = LOOK_BACK_S
        if length_s is None:
            return self._spec.oldest_ts(now_ts)
        ticks = round(length_s * 1_000) * self.precision.per_s // 1_000
        return max(now_ts - ticks, self._spec.oldest_ts(now_ts))

    def _run(
        self,
        fan_out: Any,
        submit: Callable[[Any], Future[Any]],
        timeout_s: float,
        name: str,
        on_step: Callable[[], None] = lambda: None,
    ) -> Steps[None]:
        return run_fan_out(
            fan_out,
            submit,
            self._context.permits,
            deadline_s=time.monotonic() + timeout_s,
            is_cancelled=self._context.is_closed,
            watch=self._context.stats.verb(name),
            on_step=on_step,
        )

    def _check_listed(self, result: Readings, missing_ok: bool) -> None:
        if not missing_ok:
            self._check_listed_rows(dict(zip(result.series, result.series_rows, strict=True)))

    def _check_listed_rows(self, rows_by_series: Mapping[str, int]) -> None:
        # Others write series that nobody lists: one that is not listed may well have readings.
        if self._spec.is_adopted:
            return
        for name, rows in rows_by_series.items():
            if rows == 0 and not self._lease.is_known(name):
                raise self._not_found(name)

    # Upkeep

    def info(self) -> TableInfo:
        """Return what the engine knows about the table now."""
        return self._context.engine.info(self._spec)

    def expire(self, *, dry_run: bool = False) -> ExpireReport:
        """Remove what is past the retention as a whole, or with ``dry_run`` say what would go.

        On Cassandra nothing is removed here: the server drops whole files by itself, and the
        report says what it can drop now.
        """
        now_s = self._context.clock() // 1_000_000_000
        return self._context.engine.expire(self._spec, now_s=now_s, dry_run=dry_run)

    def seal(
        self, *, on_progress: Callable[[SealReport], None] = lambda report: None
    ) -> SealReport:
        """Pack the live readings of every span that is over, now.

        The embedded engine keeps live readings as rows and packs them by itself, a little after
        each write and when the store is closed; this does all that is left, for instance after a
        crash. It changes no result of any read. On Cassandra readings stay rows.

        Args:
            on_progress: Is called after each file with what was done so far.

        Raises:
            StoreBusyError: A writer held a file for longer than the bounded wait.

        Cost:
            Reads every file once; packs about a million readings a second.
        """
        engine = self._context.engine
        if not isinstance(engine, SealingEngine):
            return SealReport(note=f"the {engine.name} engine keeps readings as they are")
        now_s = self._context.clock() // 1_000_000_000
        return engine.seal(self._spec, now_s=now_s, on_segment=on_progress)

    # Times

    def _now_ts(self) -> int:
        return self._context.clock() * self.precision.per_s // 1_000_000_000

    def _time(
        self, value: TimeInput, unit: str | None, now_ts: int, zone: dt.tzinfo | None = None
    ) -> int:
        return parse_time(value, now_ts=now_ts, precision=self.precision, unit=unit, zone=zone)

    def _end_of_time(self, now_ts: int) -> int:
        # A writer whose clock is ahead by the bound may have written this far.
        ahead_s = self._spec.future_limit_s + CLOCK_BOUND_S
        return now_ts + round(ahead_s * self.precision.per_s) + 1

    def _interval(
        self,
        start: TimeInput,
        end: TimeInput | None,
        unit: str | None,
        now_ts: int,
        zone: dt.tzinfo | None = None,
    ) -> Interval:
        start_ts = self._time(start, unit, now_ts, zone)
        if end is None:
            end_ts = max(start_ts, self._end_of_time(now_ts))
        else:
            end_ts = self._time(end, unit, now_ts, zone)
        return Interval(start_ts, end_ts, self.precision)
