"""Parquet in: row groups to chunks; what would be a line's number is the row's."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from treering.core.table import TableSpec
from treering.errors import UsageError, missing_extra
from treering.formats.arrow_block import ArrowBlocks, array_of
from treering.formats.chunk import Chunk, Original, RowCollector, series_text
from treering.formats.layout import SERIES_NAME, TIME_NAME, FileLayout, FileMapping, plan_layout
from treering.formats.values import FieldError, check_first_moment, value_from_json


def read_parquet(
    stream: BinaryIO, mapping: FileMapping, spec: TableSpec, *, path: str, lines_max: int
) -> Iterator[Chunk]:
    """Yield the readings of a Parquet file; arguments and errors as for CSV.

    Raises:
        MissingExtraError: pyarrow is not installed.
        UsageError: Not a Parquet file, or columns of types that do not fit.
    """
    try:
        pa = importlib.import_module("pyarrow")
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise missing_extra("reading Parquet", "arrow") from error
    if not stream.seekable():
        raise UsageError(
            f"{path} is a pipe, and Parquet is read from its end",
            hint="save it as a file first",
        )
    try:
        file = parquet.ParquetFile(stream)
    except (pa.ArrowException, OSError) as error:
        raise UsageError(
            f"{path} is not a Parquet file that can be read: {error}",
            hint="say what it is with --format csv or --format jsonl",
        ) from error
    layout = plan_layout(mapping, spec, file.schema_arrow.names, path=path)
    _check_times(pa, file.schema_arrow.field(layout.time).type, layout)
    wanted = {layout.time, *(name for name, _ in layout.values)}
    if layout.series is not None:
        wanted.add(layout.series)
    row = 1
    for batch in _batches(pa, file, sorted(wanted), lines_max, path):
        yield from _chunks(pa, batch, layout, row)
        row += batch.num_rows


def _batches(pa: Any, file: Any, columns: list[str], rows_max: int, path: str) -> Iterator[Any]:
    row = 1
    try:
        for batch in file.iter_batches(batch_size=rows_max, columns=columns, use_threads=False):
            yield batch
            row += batch.num_rows
    except (pa.ArrowException, OSError) as error:
        raise UsageError(
            f"{path} is damaged after row {row - 1:,}: {error}",
            hint="the rows before were imported; write the file again",
        ) from error


def _check_times(pa: Any, kind: Any, layout: FileLayout) -> None:
    rule, is_number = layout.rule, pa.types.is_integer(kind)
    if is_number and rule.unit is None:
        raise UsageError(
            f"the times in the column {layout.time!r} of {layout.path} are integers without a unit",
            hint="say their unit with --time-unit s, ms, us or ns",
            column=layout.time,
        )
    if pa.types.is_timestamp(kind):
        if kind.tz is None and rule.zone is None:
            raise UsageError(
                f"the times in the column {layout.time!r} of {layout.path} have no zone",
                hint="say which zone they are in: --tz UTC, or for instance --tz Europe/Berlin",
                column=layout.time,
            )
    elif not is_number and not pa.types.is_string(kind) and not pa.types.is_large_string(kind):
        raise UsageError(
            f"the column {layout.time!r} of {layout.path} holds {kind}, not times",
            hint="use timestamps, ISO text, or integers with --time-unit",
            column=layout.time,
        )


def _chunks(pa: Any, batch: Any, layout: FileLayout, first_row: int) -> Iterator[Chunk]:
    original = _original_of(batch, layout, first_row)
    if first_row == 1 and batch.num_rows and pa.types.is_string(batch.column(layout.time).type):
        check_first_moment(
            batch.column(layout.time)[0].as_py(), layout.time, layout.path, layout.rule
        )
    try:
        yield _quick_chunk(pa, batch, layout, first_row, original)
    except (pa.ArrowException, UsageError, FieldError):
        yield from _exact_chunks(pa, batch, layout, first_row, original)


def _quick_chunk(
    pa: Any, batch: Any, layout: FileLayout, first_row: int, original: Original
) -> Chunk:
    blocks = ArrowBlocks(layout)
    frame: dict[str, Any] = {TIME_NAME: _times(pa, batch.column(layout.time), layout, blocks)}
    if layout.series is not None:
        names = _plain(pa, batch.column(layout.series))
        frame[SERIES_NAME] = (
            blocks.series(names)
            if pa.types.is_string(names.type)
            else [series_text(name) for name in names.to_pylist()]
        )
    for name, column in layout.values:
        frame[column.name] = array_of(pa, _plain(pa, batch.column(name)))
    return Chunk(
        frame=frame,
        lines=np.arange(first_row, first_row + batch.num_rows, dtype=np.int64),
        refused=(),
        names=layout.names,
        original=original,
    )


def _plain(pa: Any, array: Any) -> Any:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _times(pa: Any, array: Any, layout: FileLayout, blocks: ArrowBlocks) -> Any:
    if not pa.types.is_timestamp(array.type):
        return blocks.times(array.cast(pa.int64()) if layout.rule.unit is not None else array)
    if array.type.tz is None:
        array = importlib.import_module("pyarrow.compute").assume_timezone(
            array, layout.rule.zone_name, ambiguous="earliest", nonexistent="raise"
        )
    return array.cast(pa.timestamp(array.type.unit)).to_numpy(zero_copy_only=False)


def _exact_chunks(
    pa: Any, batch: Any, layout: FileLayout, first_row: int, original: Original
) -> Iterator[Chunk]:
    collector = RowCollector(layout, original)
    times = _texts(pa, batch.column(layout.time))
    series = (
        [None] * batch.num_rows
        if layout.series is None
        else _plain(pa, batch.column(layout.series)).to_pylist()
    )
    values = [(name, c, _plain(pa, batch.column(name)).to_pylist()) for name, c in layout.values]
    for place in range(batch.num_rows):
        collector.add(
            first_row + place,
            times[place],
            series[place],
            [functools.partial(value_from_json, items[place], n, c) for n, c, items in values],
        )
    yield from collector.chunks(0)


def _texts(pa: Any, array: Any) -> list[Any]:
    if not pa.types.is_timestamp(array.type):
        return list(array.to_pylist())
    moments = array.cast(pa.timestamp(array.type.unit)).to_numpy(zero_copy_only=False)
    ending = "" if array.type.tz is None else "Z"
    return [None if np.isnat(m) else f"{m}{ending}" for m in moments]


def _original_of(batch: Any, layout: FileLayout, first_row: int) -> Original:
    def original(row: int) -> tuple[str, ...]:
        there = set(batch.schema.names)
        return tuple(
            _as_text(batch.column(name)[row - first_row].as_py()) if name in there else ""
            for name in layout.names
        )

    return original


def _as_text(value: Any) -> str:
    return "" if value is None else str(value)
