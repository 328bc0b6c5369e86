"""Readings of a series summed up by step.

Rules of this file: a missing value and NaN are nothing to every aggregate: neither is counted,
neither is the first or the last, and a step of a column in which nothing else lies is empty.
Infinities are values. Parts are combined in any order and grouping with the same result; memory
grows with steps, never with readings.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

import numpy as np
import numpy.typing as npt

from treering.core.columns import ColumnData
from treering.core.schema import Column, ColumnType, result_column
from treering.core.step_sums import FloatSums, IntegerSums, run_starts
from treering.errors import UsageError

IntArray = npt.NDArray[np.int64]


class Aggregate(enum.StrEnum):
    """What a step's values become."""

    MEAN = "mean"
    MIN = "min"
    MAX = "max"
    SUM = "sum"
    COUNT = "count"
    FIRST = "first"
    LAST = "last"


_OF_TEXT = frozenset({Aggregate.COUNT, Aggregate.FIRST, Aggregate.LAST})
_SUMMED = frozenset({Aggregate.SUM, Aggregate.MEAN})
_ENDS = frozenset({Aggregate.FIRST, Aggregate.LAST})


def parse_aggregates(given: str | Sequence[str]) -> tuple[Aggregate, ...]:
    """Return aggregates by their names, each once: ``"mean,max"`` or ``["mean", "max"]``.

    Raises:
        UsageError: None, or an unknown one.
    """
    names = given.split(",") if isinstance(given, str) else list(given)
    found: dict[Aggregate, None] = {}
    for name in names:
        try:
            found[Aggregate(str(name).strip())] = None
        except ValueError:
            raise UsageError(
                f"{name!r} is not an aggregate", hint=f"use {', '.join(Aggregate)}"
            ) from None
    if not found:
        raise UsageError("no aggregate is named", hint=f"use one or more of {', '.join(Aggregate)}")
    return tuple(found)


def aggregate_columns(
    columns: Sequence[Column], aggregates: Sequence[Aggregate]
) -> tuple[Column, ...]:
    """Return the columns of the result: ``value_mean`` and so on, column by column.

    Raises:
        UsageError: An aggregate that a column does not have.
    """
    return tuple(
        result_column(f"{column.name}_{aggregate}", _type_of(column, aggregate))
        for column in columns
        for aggregate in aggregates
    )


def _type_of(column: Column, aggregate: Aggregate) -> ColumnType:
    if column.type is ColumnType.TEXT and aggregate not in _OF_TEXT:
        raise UsageError(
            f"the text column {column.name!r} has no {aggregate}",
            hint="choose columns that have it with columns=[…]; text has count, first and last",
            cli_hint="choose columns that have it with --column; text has count, first and last",
            column=column.name,
            aggregate=str(aggregate),
        )
    match aggregate:
        case Aggregate.COUNT:
            return ColumnType.BIGINT
        case Aggregate.MEAN:
            return ColumnType.DOUBLE
        case Aggregate.SUM:
            is_float = column.type in (ColumnType.DOUBLE, ColumnType.FLOAT)
            return ColumnType.DOUBLE if is_float else ColumnType.BIGINT
        case Aggregate.MIN | Aggregate.MAX | Aggregate.FIRST | Aggregate.LAST:
            return column.type
        case _:
            assert_never(aggregate)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnPartial:
    """One column of some readings, by step; what was not asked for is None.

    Attributes:
        steps: Places of the steps that have values, ascending, each once.
        counts: How many values each has.
        least: Their least values.
        largest: Their largest.
        sums: Their sums.
        first: Their earliest values.
        first_ts: When those were, or a time that orders them as well among parts.
        last: Their latest values.
        last_ts: The same for those.
    """

    steps: IntArray
    counts: IntArray
    least: npt.NDArray[Any] | None = None
    largest: npt.NDArray[Any] | None = None
    sums: IntegerSums | FloatSums | None = None
    first: npt.NDArray[Any] | None = None
    first_ts: IntArray | None = None
    last: npt.NDArray[Any] | None = None
    last_ts: IntArray | None = None

    def __len__(self) -> int:
        return len(self.steps)


Partial = Mapping[str, ColumnPartial]
"""Some readings of one series, by column."""


def reduce_page(
    steps: IntArray,
    ts: IntArray,
    columns: Mapping[str, ColumnData],
    aggregates: Collection[Aggregate],
) -> Partial:
    """Return readings by step.

    Args:
        steps: The place of the step that each reading lies in, ascending.
        ts: Their event times, ascending.
        columns: Their values.
        aggregates: What will be asked for.
    """
    wanted = frozenset(aggregates)
    return {name: _reduce(steps, ts, data, wanted) for name, data in columns.items()}


def _reduce(
    steps: IntArray, ts: IntArray, data: ColumnData, wanted: frozenset[Aggregate]
) -> ColumnPartial:
    values, there = data.values, data.present
    if values.dtype.kind == "f" and (is_nan := np.isnan(values)).any():
        there = ~is_nan if there is None else there & ~is_nan
    if there is not None:
        steps, values = steps[there], values[there]
        ts = ts[there] if wanted & _ENDS else ts
    starts = run_starts(steps)
    ends = np.append(starts[1:], len(steps))[: len(starts)]
    heads = steps[starts]
    return ColumnPartial(
        steps=heads,
        counts=(ends - starts).astype(np.int64),
        least=_extremes(values, starts, np.minimum) if Aggregate.MIN in wanted else None,
        largest=_extremes(values, starts, np.maximum) if Aggregate.MAX in wanted else None,
        sums=_sums_of(values, steps, starts) if wanted & _SUMMED else None,
        first=values[starts] if wanted & _ENDS else None,
        first_ts=ts[starts] if wanted & _ENDS else None,
        last=values[ends - 1] if wanted & _ENDS else None,
        last_ts=ts[ends - 1] if wanted & _ENDS else None,
    )


def _extremes(
    values: npt.NDArray[Any], starts: npt.NDArray[np.intp], ufunc: np.ufunc
) -> npt.NDArray[Any]:
    """Return the least or largest of each run; of zeros -0.0 is the lesser one, as in blocks."""
    found: npt.NDArray[Any] = ufunc.reduceat(values, starts)
    if values.dtype.kind != "f" or not len(found) or (found != 0).all():
        return found
    # To NumPy 0.0 and -0.0 are equal, and which one it returns depends on their order.
    is_positive = ~np.signbit(values)
    among = (values == 0) & (is_positive if ufunc is np.maximum else ~is_positive)
    has_wanted = np.logical_or.reduceat(among, starts)
    zeros = np.where(has_wanted == (ufunc is np.maximum), 0.0, -0.0).astype(values.dtype)
    return np.where(found == 0, zeros, found)


def _sums_of(
    values: npt.NDArray[Any], steps: IntArray, starts: npt.NDArray[np.intp]
) -> IntegerSums | FloatSums:
    if values.dtype.kind == "f":
        return FloatSums.of(steps, values)
    return IntegerSums.of(values, starts)


def combine(parts: Sequence[Partial]) -> Partial:
    """Return the readings of several parts as one, whatever their order.

    Args:
        parts: One or more, with the same columns and aggregates.
    """
    if len(parts) == 1:
        return parts[0]
    return {name: combine_columns([part[name] for part in parts]) for name in parts[0]}


def combine_columns(parts: Sequence[ColumnPartial]) -> ColumnPartial:
    """Return the parts of one column as one; steps may stand in a part more than once."""
    joined = {
        field: _joined([getattr(part, field) for part in parts])
        for field in ("first_ts", "first", "last_ts", "last", "least", "largest")
    }
    steps = np.concatenate([part.steps for part in parts])
    order = _ordered(steps, joined["first_ts"])
    starts = run_starts(steps[order])
    heads = order[starts]
    lasts = order[starts]
    if joined["last_ts"] is not None:
        by_last = _ordered(steps, joined["last_ts"])
        lasts = by_last[np.append(starts[1:], len(steps))[: len(starts)] - 1]
    counts = np.concatenate([part.counts for part in parts])[order]
    return ColumnPartial(
        steps=steps[heads],
        counts=np.add.reduceat(counts, starts),
        least=_reduced(joined["least"], np.minimum, order, starts),
        largest=_reduced(joined["largest"], np.maximum, order, starts),
        sums=_combined_sums([part.sums for part in parts], order, starts),
        first=_taken(joined["first"], heads),
        first_ts=_taken(joined["first_ts"], heads),
        last=_taken(joined["last"], lasts),
        last_ts=_taken(joined["last_ts"], lasts),
    )


def _ordered(steps: IntArray, ts: IntArray | None) -> npt.NDArray[np.intp]:
    return np.lexsort((steps,) if ts is None else (ts, steps))


def _taken(
    values: npt.NDArray[Any] | None, places: npt.NDArray[np.intp]
) -> npt.NDArray[Any] | None:
    return None if values is None else values[places]


def _reduced(
    values: npt.NDArray[Any] | None,
    ufunc: np.ufunc,
    order: npt.NDArray[np.intp],
    starts: npt.NDArray[np.intp],
) -> npt.NDArray[Any] | None:
    return None if values is None else _extremes(values[order], starts, ufunc)


def _joined(arrays: Sequence[npt.NDArray[Any] | None]) -> npt.NDArray[Any] | None:
    there = [array for array in arrays if array is not None]
    return np.concatenate(there) if there else None


def _combined_sums(
    sums: Sequence[IntegerSums | FloatSums | None],
    order: npt.NDArray[np.intp],
    starts: npt.NDArray[np.intp],
) -> IntegerSums | FloatSums | None:
    floats = [part for part in sums if isinstance(part, FloatSums)]
    if floats:
        return FloatSums.combined(floats)
    integers = [part for part in sums if isinstance(part, IntegerSums)]
    return IntegerSums.combined(integers, order, starts) if integers else None
