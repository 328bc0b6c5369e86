"""Readings on their way to a plan: arrays of one series, or of many, conversions done."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from treering.core.columns import BoolArray, ColumnData


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteInput:
    """Readings of one series as arrays of one length, conversions done.

    Attributes:
        series: The series id.
        ts: Event times in ticks of the table's precision.
        timed: Whether each has an event time that the table takes.
        finer: Whether each was finer than the precision, and floored.
        columns: Values by column.
        unfit: Whether some value of the reading does not fit its column.
        index: The place of each in the whole input; None where they count from 0.
    """

    series: str
    ts: npt.NDArray[np.int64]
    timed: BoolArray
    finer: BoolArray
    columns: Mapping[str, ColumnData]
    unfit: BoolArray
    index: npt.NDArray[np.int64] | None = field(default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteInputs:
    """Readings of many series as arrays of one length, those of one series one after the other.

    Attributes:
        series: The series ids, each once.
        edges: Where the readings of each series start, and where the last ones end: int64, one
            more than there are series.
        ts, timed, finer, columns, unfit: As :class:`WriteInput` has them.
        index: The place of each reading in the whole input; None where they stand as they came.
    """

    series: tuple[str, ...]
    edges: npt.NDArray[np.int64]
    ts: npt.NDArray[np.int64]
    timed: BoolArray
    finer: BoolArray
    columns: Mapping[str, ColumnData]
    unfit: BoolArray
    index: npt.NDArray[np.int64] | None = field(default=None)

    def __len__(self) -> int:
        return len(self.ts)

    def __iter__(self) -> Iterator[WriteInput]:
        """Yield the readings of each series; they share memory with these."""
        edges = self.edges.tolist()
        for name, start, end in zip(self.series, edges, edges[1:], strict=False):
            part = slice(start, end)
            yield WriteInput(
                series=name,
                ts=self.ts[part],
                timed=self.timed[part],
                finer=self.finer[part],
                columns={key: data.take(part) for key, data in self.columns.items()},
                unfit=self.unfit[part],
                index=np.arange(start, end) if self.index is None else self.index[part],
            )

    def codes(self) -> npt.NDArray[np.int64]:
        """Return the place in ``series`` of the series of each reading."""
        if len(self.series) == 1:
            return np.zeros(len(self), dtype=np.int64)
        return np.repeat(np.arange(len(self.series)), np.diff(self.edges))

    def has_value(self) -> BoolArray | np.bool_:
        """Return whether each reading has a value in some column; one answer where it is one."""
        there: BoolArray | np.bool_ = np.False_
        for data in self.columns.values():
            if data.present is None:
                return np.True_
            there = there | data.present
        return there

    def take(self, order: npt.NDArray[np.int64]) -> WriteInputs:
        """Return the readings in another order, in which series must stand together as before."""
        return replace(
            self,
            ts=self.ts[order],
            timed=self.timed[order],
            finer=self.finer[order],
            columns={key: data.take(order) for key, data in self.columns.items()},
            unfit=self.unfit[order],
            index=order if self.index is None else self.index[order],
        )


def inputs_of_one(readings: WriteInput) -> WriteInputs:
    """Return the readings of one series as those of many are."""
    return WriteInputs(
        series=(readings.series,),
        edges=np.array([0, len(readings.ts)], dtype=np.int64),
        ts=readings.ts,
        timed=readings.timed,
        finer=readings.finer,
        columns=readings.columns,
        unfit=readings.unfit,
        index=readings.index,
    )


def edges_of_codes(codes: npt.NDArray[np.integer], count: int) -> npt.NDArray[np.int64]:
    """Return where each of ``count`` codes starts in codes that ascend, and where the last ends."""
    if not len(codes):
        return np.zeros(count + 1, dtype=np.int64)
    return codes.searchsorted(np.arange(count + 1)).astype(np.int64)


def codes_at(edges: npt.NDArray[np.int64], places: npt.NDArray[np.intp]) -> npt.NDArray[np.int64]:
    """Return the code of each place, where codes ascend and start at edges."""
    return edges.searchsorted(places, side="right").astype(np.int64) - 1


def edges_within(
    edges: npt.NDArray[np.int64], places: npt.NDArray[np.intp]
) -> npt.NDArray[np.int64]:
    """Return where each code starts among some places, which ascend."""
    return places.searchsorted(edges).astype(np.int64)


def within_codes(edges: npt.NDArray[np.int64], holds: BoolArray) -> BoolArray:
    """Return for each place whether something holds between it and the one before of its code.

    Args:
        edges: Where each code starts, and where the last one ends.
        holds: Whether it holds between each place but the first and the one before, of any code.
    """
    found = np.zeros(int(edges[-1]) + 1, dtype=np.bool_)
    found[1:-1] = holds
    found[edges] = False
    return found[:-1]


def order_of_codes(codes: npt.NDArray[np.integer]) -> npt.NDArray[np.int64] | None:
    """Return what brings equal codes together in the order they have; None where they stand so."""
    if bool((codes[1:] >= codes[:-1]).all()):
        return None
    return np.argsort(codes, kind="stable").astype(np.int64)
