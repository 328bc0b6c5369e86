"""The verbs of a table that change how long its readings are kept."""

from __future__ import annotations

import datetime as dt
import threading
import time
from dataclasses import replace
from itertools import islice
from typing import Final

from treering.core.retention import SPEC_LEASE_S, RetentionPlan, buckets_to_mark, plan_retention
from treering.core.table import TableSpec
from treering.core.units import parse_retention_s, parse_whole_s
from treering.core.window import Window, parse_window
from treering.errors import DesignError, UsageError
from treering.leases import SeriesLease
from treering.table_context import TableContext

# Times 16 buckets: the most marks in flight.
_SERIES_AT_ONCE: Final = 16


class RetentionVerbs:
    """Changes the retention; a part of :class:`treering.Table`."""

    _spec: TableSpec
    _context: TableContext
    _lock: threading.Lock
    _lease: SeriesLease
    _fresh_until_s: float = 0.0

    def plan_retention(
        self,
        retention: str | dt.timedelta,
        *,
        window: str | Window | None = None,
        gc_grace: str | dt.timedelta | None = None,
    ) -> RetentionPlan:
        """Return what :meth:`set_retention` would do; changes nothing.

        :func:`~treering.render_retention_plan` puts it in words. Takes what it takes.

        Cost:
            Reads the catalog and, on Cassandra, the table's options.
        """
        if self._spec.is_adopted:
            raise UsageError(
                f"the options of {self._spec.name!r} are those of who made it, and stay so",
                hint="drop it here, which leaves it as it is, and adopt it with another retention",
            )
        self._refresh(is_forced=True)
        retention_s = parse_retention_s(retention)
        if isinstance(window, str):
            window = parse_window(window, retention_s or 0)
        plan = plan_retention(
            self._spec,
            retention_s,
            now_s=self._now_s(),
            is_by_ttl=self._context.engine.leaves_tombstones,
            window=window,
            gc_grace_s=None if gc_grace is None else parse_whole_s(gc_grace),
        )
        return replace(plan, steps=self._context.engine.plan_alter(plan.before, plan.after))

    def set_retention(
        self,
        retention: str | dt.timedelta,
        *,
        window: str | Window | None = None,
        gc_grace: str | dt.timedelta | None = None,
        force: bool = False,
    ) -> RetentionPlan:
        """Change how long readings are kept, with the TTL, window and grace that follow from it.

        Readings keep the lifetime that they were written with: the plan says from when the new
        retention holds fully. Doing it again after a crash or a failure completes it.

        Args:
            retention: ``30d``; not from or to ``forever``.
            window: A window instead of the derived one, such as ``6h``.
            gc_grace: A grace instead of the derived one, such as ``3h``.
            force: Do it although a verdict of the new design is an error.

        Raises:
            UsageError: From or to a retention without end.
            DesignError: The design with that retention is refused.
            SchemaMismatchError: The table was changed by another process meanwhile.

        Cost:
            On Cassandra an ALTER, and up to 16 marks a series where the retention grows.
        """
        plan = self.plan_retention(retention, window=window, gc_grace=gc_grace)
        errors = [v for v in plan.after.design.verdicts if v.severity == "error"]
        if errors and not force:
            raise DesignError(
                f"the design of {self._spec.name} with that retention has an error: "
                + "; ".join(verdict.why for verdict in errors),
                hint="choose another retention, or set it with force (--force)",
                verdicts=tuple(errors),
            )
        if plan.grows:
            self._mark_newest(plan.after)
        self._spec = self._context.engine.alter_table(plan.before, plan.after)
        return plan

    def _mark_newest(self, after: TableSpec) -> None:
        """Mark anew, for the longer retention, the buckets that writers may be at."""
        engine = self._context.engine
        if not after.index_trusted:
            return
        now_s = self._now_s()
        now_ts = now_s * after.precision.per_s
        names = iter(engine.series(self._spec))
        while page := tuple(islice(names, _SERIES_AT_ONCE)):
            widths = self._lease.widths_to_write(page, now_ts)
            marks = tuple(
                (name, bucket)
                for name in page
                for bucket in buckets_to_mark(after, now_s, widths.get(name, ()))
            )
            engine.mark_buckets(after, marks).result()

    def _now_s(self) -> int:
        return self._context.clock() // 1_000_000_000

    def _refresh(self, *, is_forced: bool = False) -> None:
        """Read the table anew where it was last read longer ago than its lease."""
        now_s = time.monotonic()
        with self._lock:
            if now_s < self._fresh_until_s and not is_forced:
                return
            # It comes fresh from the catalog when the table is opened.
            is_first = self._fresh_until_s == 0.0
            # Others go on meanwhile; whoever was first reads for all.
            self._fresh_until_s = now_s + SPEC_LEASE_S
        if is_first and not is_forced:
            return
        spec = self._context.engine.load_table(self._spec.name)
        if spec is not None and spec.incarnation == self._spec.incarnation:
            self._spec = spec
