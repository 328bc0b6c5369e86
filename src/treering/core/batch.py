"""Readings of many series on their way to a table, column by column, with one write time.

Rules of this file: a reading that was appended later stands later, and wins where event times are
equal, column by column, as two writes would; no Python object per number is kept; what a batch
holds is counted in bytes while it grows.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from treering.core.columns import ColumnData, concat_columns
from treering.core.schema import ColumnType
from treering.core.table import TableSpec
from treering.core.write_input import WriteInputs, edges_of_codes, order_of_codes

UNTIMED: Final = 1
"""The reading has no event time that the table takes."""

FINER: Final = 2
"""Its event time was finer than the table's precision."""

UNFIT: Final = 4
"""A value of it does not fit its column."""

ROW_BYTES: Final = 4 + 8 + 1
"""The series' number, the event time and the flags of one reading."""

SERIES_BYTES: Final = 160
"""A series that is new in a batch, beside its text: two entries of a dictionary and a list."""

_CODES: Final[dict[ColumnType, str]] = {
    ColumnType.DOUBLE: "d",
    ColumnType.FLOAT: "f",
    ColumnType.INT: "i",
    ColumnType.BIGINT: "q",
    ColumnType.BOOLEAN: "b",
}

Cell = tuple[str, Any, int]
"""A column's name, its value (None: missing) and the bytes that it takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Readings in the order in which they were appended.

    Attributes:
        write_us: The write time of every cell.
        first_index: The place of the first reading among all that were appended.
        series: The series ids that ``codes`` count from 0.
        codes: The series of each reading, uint32, shape (n,).
        ts: Event times in ticks of the table's precision, int64.
        flags: ``UNTIMED``, ``FINER`` and ``UNFIT`` of each, uint8.
        columns: Values by column, n each.
        bytes: What it was counted with.
    """

    write_us: int
    first_index: int
    series: tuple[str, ...]
    codes: npt.NDArray[np.uint32]
    ts: npt.NDArray[np.int64]
    flags: npt.NDArray[np.uint8]
    columns: Mapping[str, ColumnData]
    bytes: int

    def __len__(self) -> int:
        return len(self.ts)


class _Values:
    """A growing column."""

    def __init__(self, column_type: ColumnType, rows: int) -> None:
        self.type = column_type
        self.items: Any
        if column_type is ColumnType.TEXT:
            self.items = [None] * rows
        else:
            code = _CODES[column_type]
            self.items = array(code, bytes(rows * array(code).itemsize))
        # None while every reading has a value.
        self.present: bytearray | None = bytearray(rows) if rows else None

    def add(self, value: Any) -> None:
        if value is None:
            self.add_missing()
            return
        self.items.append(value)
        if self.present is not None:
            self.present.append(1)

    def add_missing(self) -> None:
        if self.present is None:
            self.present = bytearray(b"\1") * len(self.items)
        self.items.append(None if self.type is ColumnType.TEXT else 0)
        self.present.append(0)

    def sealed(self) -> ColumnData:
        present = None if self.present is None else np.frombuffer(self.present, np.bool_)
        if self.type is ColumnType.TEXT:
            values = np.empty(len(self.items), dtype=object)
            values[:] = self.items
        else:
            values = np.frombuffer(self.items, self.type.dtype)
        return ColumnData(values, present)


class BatchBuffer:
    """A batch that grows; not safe to use from two threads at once."""

    def __init__(self, spec: TableSpec, *, write_us: int, first_index: int) -> None:
        self.write_us = write_us
        self.bytes = 0
        self._first_index = first_index
        self._types = {column.name: column.type for column in spec.columns}
        self._codes = array("I")
        self._ts = array("q")
        self._flags = bytearray()
        self._places: dict[str, int] = {}
        self._columns: dict[str, _Values] = {}

    def __len__(self) -> int:
        return len(self._ts)

    def has(self, series: str) -> bool:
        """Return whether a reading of that series is inside."""
        return series in self._places

    def add(self, series: str, ts: int, flags: int, cells: Sequence[Cell], size_bytes: int) -> None:
        """Append one reading.

        Args:
            series: Its series id.
            ts: Its event time; anything where ``flags`` has ``UNTIMED``.
            flags: What is to be said of it later.
            cells: Its values, of exactly their columns' types.
            size_bytes: What it counts for.
        """
        code = self._places.get(series)
        if code is None:
            code = self._places[series] = len(self._places)
            self.bytes += SERIES_BYTES + len(series)
        for name, value, _ in cells:
            values = self._columns.get(name)
            if values is None:
                values = self._columns[name] = _Values(self._types[name], len(self._ts))
            values.add(value)
        if len(cells) < len(self._columns):
            named = {name for name, _, _ in cells}
            for name, values in self._columns.items():
                if name not in named:
                    values.add_missing()
        self._codes.append(code)
        self._ts.append(ts)
        self._flags.append(flags)
        self.bytes += size_bytes

    def sealed(self) -> Batch:
        """Return what was appended; the buffer must not be used any more."""
        return Batch(
            write_us=self.write_us,
            first_index=self._first_index,
            series=tuple(self._places),
            codes=np.frombuffer(self._codes, np.uint32),
            ts=np.frombuffer(self._ts, np.int64),
            flags=np.frombuffer(self._flags, np.uint8),
            columns={name: values.sealed() for name, values in self._columns.items()},
            bytes=self.bytes,
        )


def merge_batches(batches: Sequence[Batch], spec: TableSpec) -> Batch:
    """Return the parts of one batch, in the order in which they were made, as one.

    All have one write time; the places of readings count on from the first part's.
    """
    if len(batches) == 1:
        return batches[0]
    places: dict[str, int] = {}
    codes = []
    for batch in batches:
        own = [places.setdefault(name, len(places)) for name in batch.series]
        codes.append(np.array(own, dtype=np.uint32)[batch.codes])
    names = dict.fromkeys(name for batch in batches for name in batch.columns)
    return replace(
        batches[0],
        series=tuple(places),
        codes=np.concatenate(codes),
        ts=np.concatenate([batch.ts for batch in batches]),
        flags=np.concatenate([batch.flags for batch in batches]),
        columns={
            name: concat_columns(
                [_column_of(batch, name, spec) for batch in batches], spec.column(name).type
            )
            for name in names
        },
        bytes=sum(batch.bytes for batch in batches),
    )


def _column_of(batch: Batch, name: str, spec: TableSpec) -> ColumnData:
    there = batch.columns.get(name)
    if there is not None:
        return there
    empty = np.zeros(len(batch), dtype=spec.column(name).type.dtype)
    return ColumnData(empty, np.zeros(len(batch), dtype=np.bool_))


def inputs_of_batch(batch: Batch, spec: TableSpec) -> WriteInputs:
    """Return the readings of each series, to be planned with ``duplicates="last"``.

    Of readings with one event time, the last gets from those before it the columns that it has
    no value for: written one after the other they would have given the same.
    """
    order = order_of_codes(batch.codes)
    codes = batch.codes if order is None else batch.codes[order]
    inputs = WriteInputs(
        series=batch.series,
        edges=edges_of_codes(codes, len(batch.series)),
        ts=batch.ts,
        timed=batch.flags & UNTIMED == 0,
        finer=batch.flags & FINER != 0,
        columns=batch.columns,
        unfit=batch.flags & UNFIT != 0,
        index=np.arange(len(batch), dtype=np.int64) + batch.first_index,
    )
    return _with_earlier_columns(inputs if order is None else inputs.take(order), spec)


def _with_earlier_columns(readings: WriteInputs, spec: TableSpec) -> WriteInputs:
    if all(data.present is None for data in readings.columns.values()):
        return readings
    # Only readings that will be written give values, and only such ones take them.
    good = readings.timed & ~readings.unfit & readings.has_value()
    if spec.finer == "refuse":
        good &= ~readings.finer
    codes = readings.codes()
    rows = np.flatnonzero(good)
    rows = rows[np.lexsort((readings.ts[rows], codes[rows]))]
    ts, of = readings.ts[rows], codes[rows]
    is_first = np.ones(len(rows), dtype=np.bool_)
    is_first[1:] = (ts[1:] != ts[:-1]) | (of[1:] != of[:-1])
    if is_first.all():
        return readings
    first = np.maximum.accumulate(np.where(is_first, np.arange(len(rows)), 0))
    filled = {name: _filled(data, rows, first) for name, data in readings.columns.items()}
    return replace(readings, columns=filled)


def _filled(
    data: ColumnData, rows: npt.NDArray[np.intp], first: npt.NDArray[np.intp]
) -> ColumnData:
    """Carry values forward from row to row, but not before the ``first`` row of each."""
    if data.present is None:
        return data
    present = data.present[rows]
    source = np.maximum.accumulate(np.where(present, np.arange(len(rows)), -1))
    takes = (source >= first) & ~present
    values, there = data.values.copy(), data.present.copy()
    values[rows[takes]] = data.values[rows[source[takes]]]
    there[rows[takes]] = True
    return ColumnData(values, None if there.all() else there)
