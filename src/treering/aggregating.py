"""A read that gives aggregates by step: what was asked for, and what becomes of the pages.

Rules of this file: everything that can be refused is refused before anything is sent; a page is
let go as soon as it is reduced.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import numpy.typing as npt

from treering.core.aggregate import aggregate_columns, parse_aggregates
from treering.core.aggregate_blocks import blocks_that_answer, blocks_that_may_answer
from treering.core.aggregate_result import Aggregation, SeriesTotals
from treering.core.read_plan import PartitionRead, ReadPlan
from treering.core.time_steps import (
    TimeSteps,
    plan_even_steps,
    plan_local_steps,
    ticks_of,
)
from treering.core.times import TimeInput, parse_time
from treering.core.units import Precision, has_calendar_unit, parse_duration_s
from treering.engine.protocol import Page
from treering.errors import UsageError
from treering.intake import parse_zone
from treering.readings import Part, Readings, readings_from_parts

if TYPE_CHECKING:
    from treering.core.block import BlockStats

Empty = Literal["absent", "null"]

_EMPTY: Final = ("absent", "null")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRequest:
    """Aggregates by step, as a caller asked for them.

    Attributes:
        every: The length of a step.
        agg: Names of aggregates.
        tz: The name of the zone whose days count.
        origin: From when steps are counted.
        empty: What becomes of a step without values.
    """

    every: str | dt.timedelta | None = None
    agg: str | Sequence[str] | None = None
    tz: str | None = None
    origin: TimeInput | None = None
    empty: str = "absent"

    @property
    def is_given(self) -> bool:
        """Whether aggregates are asked for at all."""
        return self.every is not None

    def zone(self) -> dt.tzinfo | None:
        """Return the zone; None for steps of one length.

        Raises:
            UsageError: No such zone.
        """
        return None if self.tz is None else parse_zone(self.tz)

    def check(self, *, limit: int | None) -> None:
        """Refuse what does not go together.

        Raises:
            UsageError: Options that need ``every``, none named with it, or a limit.
        """
        beside = {"agg": self.agg, "tz": self.tz, "origin": self.origin}
        if not self.is_given:
            given = [name for name, value in beside.items() if value is not None]
            given += ["empty"] if self.empty != "absent" else []
            if given:
                raise UsageError(
                    f"{' and '.join(given)} without every: there are no steps",
                    hint="say how long a step is, such as every='5m'",
                    cli_hint="say how long a step is, such as --every 5m",
                )
            return
        if isinstance(self.every, str) and not has_calendar_unit(self.every):
            parse_duration_s(self.every)  # What is wrong by itself is said first.
        if self.agg is None:
            raise UsageError(
                "every without agg: nothing says what becomes of the readings of a step",
                hint="say for instance agg=['mean', 'max']",
                cli_hint="say for instance --agg mean,max",
            )
        if limit is not None:
            raise UsageError(
                "limit counts readings, and every asks for steps",
                hint="leave limit out, and read the interval whose steps are wanted",
                cli_hint="leave --limit out, and read the interval whose steps are wanted",
            )
        if self.empty not in _EMPTY:
            raise UsageError(f"empty={self.empty!r} is not known", hint="use 'absent' or 'null'")

    def aggregation(self, plan: ReadPlan, *, now_ts: int, unit: str | None) -> Aggregation:
        """Return what becomes of the readings of a plan.

        Raises:
            UsageError: A length, zone, origin or aggregate that cannot be.
            FanOutTooWideError: More steps than there may be.
        """
        aggregates = parse_aggregates(self.agg or ())
        aggregate_columns(plan.columns, aggregates)
        return Aggregation(
            steps=self._steps(plan, now_ts=now_ts, unit=unit),
            aggregates=aggregates,
            columns=plan.columns,
            precision=plan.interval.precision,
            has_empty=self.empty == "null",
        )

    def _steps(self, plan: ReadPlan, *, now_ts: int, unit: str | None) -> TimeSteps:
        precision, zone, origin = plan.interval.precision, self.zone(), None
        length = self._length(precision)
        if self.origin is not None:
            origin = parse_time(
                self.origin, now_ts=now_ts, precision=precision, unit=unit, zone=zone
            )
        many: dict[str, Any] = {"series_count": max(len(plan.series), 1)}
        if zone is None:
            return plan_even_steps(plan.interval, length, origin or 0, **many)
        return plan_local_steps(plan.interval, length, zone, origin=origin, **many)

    def _length(self, precision: Precision) -> int:
        every = self.every
        assert every is not None, "steps were not asked for"
        if isinstance(every, str) and has_calendar_unit(every):
            raise UsageError(
                f"steps of {every!r} are of no fixed length",
                hint="say it in days, such as 30d or 365d",
            )
        length = ticks_of(parse_duration_s(every), precision)
        if length is None:
            raise UsageError(
                f"a step of {every!r} is not a whole number of {precision}, the table's precision",
                hint=f"use a length of at least 1{precision}, such as 5m",
            )
        return length


class StepTotals:
    """Takes the pages of a read and keeps the steps of each series.

    Attributes:
        rows: How many readings each series had.
    """

    def __init__(self, plan: ReadPlan, aggregation: Aggregation) -> None:
        self._plan = plan
        self._what = aggregation
        self._totals: dict[str, SeriesTotals] = {}
        self._latest: str | None = None
        self.rows = dict.fromkeys(plan.series, 0)

    def take(self, series: str, page: Page) -> None:
        """Take a page; series come one after the other."""
        if series != self._latest and self._latest is not None:
            self._totals[self._latest].settle()
        self._latest = series
        if series not in self._totals:
            self._totals[series] = SeriesTotals(self._what)
        totals = self._totals[series]
        before = totals.rows
        for ts, columns in page.parts:
            totals.add(ts, dict(columns))
        totals.add_blocks(page.stats)
        self.rows[series] += totals.rows - before

    def may_answer(
        self, first_ts: npt.NDArray[np.int64], last_ts: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.bool_]:
        """Return which blocks are worth asking, by the times of their first and last readings."""
        what = self._what
        return blocks_that_may_answer(first_ts, last_ts, what.steps, what.columns, what.aggregates)

    def answers(self, blocks: Sequence[BlockStats]) -> npt.NDArray[np.bool_]:
        """Return which blocks tell by their statistics all that is asked of their readings."""
        what = self._what
        return blocks_that_answer(blocks, what.steps, what.columns, what.aggregates)

    def result(self, missing: tuple[PartitionRead, ...]) -> Readings:
        """Return the steps of every series as readings, in the order of the plan."""
        parts: dict[str, list[Part]] = {}
        for name in self._plan.series:
            totals = self._totals.pop(name, None) or SeriesTotals(self._what)
            parts[name] = [self._ordered(*totals.result(name))]
        return readings_from_parts(
            parts,
            series=self._plan.series,
            precision=self._what.precision,
            schema=aggregate_columns(self._what.columns, self._what.aggregates),
            missing=missing,
        )

    def _ordered(self, ts: Any, columns: dict[str, Any]) -> Part:
        if self._plan.order == "asc":
            return ts, columns
        backwards = slice(None, None, -1)
        return ts[backwards], {name: data.take(backwards) for name, data in columns.items()}
