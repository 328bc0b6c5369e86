"""The verb of a table that counts its readings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from treering.core.bucket import FAN_OUT_MAX
from treering.core.listing import is_worth_listing
from treering.engine.deadline import deadline_in
from treering.fanout.steps import Steps, verb
from treering.reading import reading_of
from treering.table_context import ROWS_ANY, TIMEOUT_S
from treering.table_retention import RetentionVerbs

if TYPE_CHECKING:
    from treering.core.read_plan import ReadPlan
    from treering.core.times import TimeInput


class CountVerbs(RetentionVerbs):
    """What counts readings; a part of :class:`~treering.Table`."""

    _plan: Callable[..., ReadPlan]
    _check_listed_rows: Callable[[Mapping[str, int]], None]

    @verb
    def count(
        self,
        series: str | Iterable[str],
        start: TimeInput,
        end: TimeInput | None = None,
        *,
        unit: str | None = None,
        missing_ok: bool = False,
        fan_out_max: int = FAN_OUT_MAX,
        timeout_s: float = TIMEOUT_S,
    ) -> Steps[dict[str, int]]:
        """Count the readings of ``[start, end)`` of one or several series, exactly.

        Partition by partition, side by side, in pages: no query is of more than one page, so that
        none times out however much there is. Nothing is kept but the count.

        Args:
            series: One series id, or several, such as ``t.series(tags=…)``.
            start: First event time counted, as for :meth:`read`.
            end: First event time not counted; by default all that there is after ``start``.
            unit: The unit of integer times.
            missing_ok: Take a series that the table does not have as an empty one.
            fan_out_max: The most partitions to touch.
            timeout_s: How long the call may take.

        Returns:
            How many readings each series has there.

        Raises:
            PartialReadError: A partition stayed unreadable; there is no partial count.
            UsageError, FanOutTooWideError, SeriesNotFoundError, EngineError: As :meth:`read`.

        Cost:
            One request or more for each partition: the event times and the narrowest column.
        """
        self._refresh()
        with deadline_in(timeout_s):
            plan = self._plan(
                series,
                start,
                end,
                unit=unit,
                fan_out_max=fan_out_max,
                rows_max=ROWS_ANY,
                columns=(self._narrowest(),),
            )
        reading = reading_of(self._spec, self._context, "count", timeout_s, plan.widths)
        with self._context.call("count", timeout_s):
            if is_worth_listing(plan, self._context.engine.joined_max):
                plan = yield from reading.without_unlisted(plan)
            rows = yield from reading.count(plan)
            if not missing_ok:
                self._check_listed_rows(rows)
        return rows

    def _narrowest(self) -> str:
        # A text may be long; it comes last, whatever NumPy takes for a reference to it.
        column = min(
            self._spec.columns, key=lambda c: (c.type.fixed_bytes is None, c.type.fixed_bytes or 0)
        )
        return column.name
