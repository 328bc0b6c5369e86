"""The verb that streams readings in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from treering.core.read_plan import Order, plan_read
from treering.core.times import TimeInput
from treering.core.units import Interval
from treering.errors import UsageError
from treering.fanout.steps import Stream, stream
from treering.readings import Readings
from treering.scanning import BATCH_ROWS, Scan, ScanRequest
from treering.table_context import ROWS_ANY, TIMEOUT_S
from treering.table_retention import RetentionVerbs


class ScanVerbs(RetentionVerbs):
    """What streams readings; a part of :class:`~treering.Table`."""

    _interval: Callable[..., Interval]

    @stream
    def scan(
        self,
        series: str | Iterable[str],
        start: TimeInput,
        end: TimeInput | None = None,
        *,
        order: Order = "asc",
        columns: Sequence[str] | None = None,
        unit: str | None = None,
        partial: bool = False,
        missing_ok: bool = False,
        batch_rows: int = BATCH_ROWS,
        timeout_s: float = TIMEOUT_S,
    ) -> Stream[Readings]:
        """Stream the readings of ``[start, end)`` in batches, in constant memory.

        The batches, one after the other, are what :meth:`read` would return: series by series in
        the order given, each in order of time. A batch is of one or of several series, and names
        only those that it has readings of. There is no limit of partitions or readings. The
        consumer sets the pace: what is asked for ahead of it is bounded, and while it has a batch
        nothing new is sent. To leave the iterator early ends what is under way.

        Args:
            series: One series id, or any number, such as ``t.series()``: taken from the iterator
                as the scan goes on. One that an iterator yields twice may be scanned twice.
            start: First event time wanted, as for :meth:`read`.
            end: First event time not wanted; by default all that there is after ``start``.
            order: By event time within each series.
            columns: Names of the columns wanted; all by default.
            unit: The unit of integer times.
            partial: Go on where a partition stays unreadable; the next batch names it in
                ``missing``. The last batch may have nothing but that.
            missing_ok: Take a series that the table does not have as an empty one.
            batch_rows: The most readings of a batch.
            timeout_s: How long may pass without an answer while the next batch is waited for.

        Yields:
            Batches; none where there are no readings.

        Raises:
            UsageError: A reversed interval, a zone-less time, an unknown column; at once.
            SeriesNotFoundError: The table has no such series; when the scan comes to it.
            PartialReadError: A partition stayed unreadable; batches before it were handed out.
            EngineTimeoutError: Nothing came for ``timeout_s``.
            StoreClosedError: The store was closed meanwhile.

        Cost:
            One request or more for each partition, side by side. As for a read, the index of
            buckets is asked first where many partitions are planned.
        """
        self._refresh()
        if type(batch_rows) is not int or batch_rows < 1:
            raise UsageError(
                f"a batch has a whole number of readings of at least 1, not {batch_rows!r}",
                hint=f"leave batch_rows out for {BATCH_ROWS:,}",
            )
        if not isinstance(series, Iterable):
            raise UsageError(
                f"a series id is text, not {series!r}",
                hint="pass one id, or anything that yields ids, such as t.series()",
            )
        names = (series,) if isinstance(series, str) else series
        interval = self._interval(start, end, unit, self._now_ts())
        self._check_scan(interval, order, columns)
        request = ScanRequest(
            interval=interval,
            order=order,
            columns=columns,
            partial=partial,
            missing_ok=missing_ok,
            batch_rows=batch_rows,
            timeout_s=timeout_s,
        )
        if isinstance(names, (list, tuple)):
            names = dict.fromkeys(names)
        return Scan(self._spec, self._context, self._lease, request).run(names)

    def _check_scan(self, interval: Interval, order: Order, columns: Sequence[str] | None) -> None:
        """Refuse at once what any plan of it would refuse: one of no series costs nothing."""
        plan_read(
            self._spec,
            (),
            interval,
            now_ts=self._now_ts(),
            order=order,
            columns=columns,
            rows_max=ROWS_ANY,
        )

    def _now_ts(self) -> int:
        raise NotImplementedError
