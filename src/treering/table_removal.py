"""The verbs of a table that delete readings and series."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

from treering.core.bucket import FAN_OUT_MAX
from treering.core.delete_plan import DeletePlan, PartitionDelete, plan_delete
from treering.core.read_plan import ReadPlan
from treering.core.times import TimeInput
from treering.core.units import parse_duration_s
from treering.errors import TreeringError
from treering.fanout.steps import Steps, verb
from treering.fanout.write import WriteFanOut
from treering.leases import SeriesLease
from treering.table_context import LOOK_BACK_S, ROWS_ANY, TIMEOUT_S
from treering.table_retention import RetentionVerbs

DROP_FAN_OUT_MAX: Final = 1_000_000
"""The most partitions that dropping series touches unless the caller says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteReport:
    """What was deleted.

    Attributes:
        plan: What was planned, all of which is durable.
        dropped: The series that were taken off the list.
    """

    plan: DeletePlan
    dropped: tuple[str, ...] = ()


class RemovalVerbs(RetentionVerbs):
    """Deletes readings and series; a part of :class:`treering.Table`."""

    _lease: SeriesLease
    explain: Callable[..., ReadPlan]
    _run: Callable[..., Steps[None]]

    def plan_delete(
        self,
        series: str | Sequence[str],
        start: TimeInput,
        end: TimeInput | None = None,
        *,
        unit: str | None = None,
        fan_out_max: int = FAN_OUT_MAX,
    ) -> DeletePlan:
        """Return what :meth:`delete` would do, and what that costs; nothing is sent.

        Takes what :meth:`delete` takes. :func:`~treering.render_delete_plan` puts it in words.
        """
        return self._plan_delete(series, start, end, unit=unit, fan_out_max=fan_out_max)

    def _plan_delete(
        self, series: str | Sequence[str], start: TimeInput, end: TimeInput | None, **how: Any
    ) -> DeletePlan:
        self._refresh()
        reads = self.explain(series, start, end, rows_max=ROWS_ANY, **how)
        return plan_delete(
            reads,
            write_us=self._context.write_clock.next_us(),
            leaves_tombstones=self._context.engine.leaves_tombstones,
        )

    @verb
    def delete(
        self,
        series: str | Sequence[str],
        start: TimeInput,
        end: TimeInput | None = None,
        *,
        unit: str | None = None,
        allow_on_twcs: bool = False,
        fan_out_max: int = FAN_OUT_MAX,
        timeout_s: float = TIMEOUT_S,
    ) -> Steps[DeleteReport]:
        """Delete the readings of ``[start, end)`` of one or several series.

        A deletion wins over everything that was written before it, also over what arrives later
        with an earlier write time; what is written after it lives. What the retention has passed
        is out of sight already and leaves by itself.

        Args:
            series: One series id, or several.
            start: First event time deleted, as for :meth:`read`.
            end: First event time kept; by default all that there is after ``start``.
            unit: The unit of integer times.
            allow_on_twcs: Accept tombstones in a table whose files should leave whole; the
                plan's ``costs`` say what they mean.
            fan_out_max: The most partitions to touch.
            timeout_s: How long the call may take.

        Raises:
            UsageError: TWCS and not allowed by name; a reversed interval; nothing was sent.
            FanOutTooWideError: Too many partitions; nothing was sent.
            EngineError: A part failed; ``partitions`` says how many were deleted, and doing it
                again is safe.

        Cost:
            One request a partition: a partition tombstone where a bucket is covered whole, a
            range tombstone at the edges. The embedded engine deletes in place.
        """
        plan = self.plan_delete(series, start, end, unit=unit, fan_out_max=fan_out_max)
        plan.check_allowed(allow_on_twcs=allow_on_twcs)
        yield from self._run_delete(plan, timeout_s)
        return DeleteReport(plan=plan)

    @verb
    def drop_series(
        self,
        series: str | Sequence[str],
        *,
        allow_on_twcs: bool = False,
        look_back: str | dt.timedelta | None = None,
        fan_out_max: int = DROP_FAN_OUT_MAX,
        timeout_s: float = TIMEOUT_S,
    ) -> Steps[DeleteReport]:
        """Delete all readings of series and take them off the list, in that order.

        After a failure or a crash the series is still listed: do it again. Stop its writers
        first: another process that writes to it does not list it again.

        Only buckets that exist are deleted where the index of buckets may be trusted.

        Args:
            series: One series id, or several; one that is not listed costs what one that is does.
            allow_on_twcs: As for :meth:`delete`.
            look_back: How far back readings may lie; by default the retention, or ten years
                where readings are kept for ever.
            fan_out_max: The most partitions to touch.
            timeout_s: How long the call may take.

        Raises:
            UsageError, FanOutTooWideError, EngineError: As :meth:`delete`.
        """
        plan = self.plan_drop_series(series, look_back=look_back, fan_out_max=fan_out_max)
        plan.check_allowed(allow_on_twcs=allow_on_twcs)
        yield from self._run_delete(plan, timeout_s)
        self._context.engine.remove_series(self._spec, plan.series)
        self._lease.forget(plan.series)
        return DeleteReport(plan=plan, dropped=plan.series)

    def plan_drop_series(
        self,
        series: str | Sequence[str],
        *,
        look_back: str | dt.timedelta | None = None,
        fan_out_max: int = DROP_FAN_OUT_MAX,
    ) -> DeletePlan:
        """Return what :meth:`drop_series` would delete, and what that costs; deletes nothing.

        Cost:
            A request a series or more to the index of buckets, where it may be trusted.
        """
        start = self._earliest(look_back)
        # What the index does not list holds no reading, and a tombstone there would help nobody.
        return self._plan_delete(
            series, start, None, unit="s", fan_out_max=fan_out_max, listed=True
        )

    def _earliest(self, look_back: str | dt.timedelta | None) -> int:
        length_s = self._spec.retention_s if look_back is None else parse_duration_s(look_back)
        now_s = self._context.clock() // 1_000_000_000
        # One bucket more, so that the oldest is covered whole.
        back_s = int(LOOK_BACK_S if length_s is None else length_s) + self._spec.width.length_s
        return max(now_s - back_s, self._spec.precision.ts_min // self._spec.precision.per_s)

    def _run_delete(self, plan: DeletePlan, timeout_s: float) -> Steps[None]:
        self._lease.check_durable()
        context = self._context
        groups: Any = ((delete,) for delete in plan.deletes)
        fan_out = WriteFanOut(groups, context.permits)

        def submit(request: Any) -> Future[None]:
            delete: PartitionDelete = request.group[0]
            return context.engine.submit_delete(self._spec, delete)

        error: TreeringError | None = None
        began_s = time.monotonic()
        try:
            with context.call("delete", timeout_s):
                yield from self._run(fan_out, submit, timeout_s, "delete")
        except TreeringError as stopped:
            error = stopped
        if error is None and fan_out.failed:
            error = fan_out.failed[0][1]
        if error is not None:
            raise type(error)(
                f"only {fan_out.rows_acknowledged:,} of {len(plan.deletes):,} partitions of "
                f"{self._spec.name} were deleted in {time.monotonic() - began_s:.1f} s: {error}",
                hint="do it again: what was deleted already is not harmed",
                partitions=fan_out.rows_acknowledged,
            ) from error
