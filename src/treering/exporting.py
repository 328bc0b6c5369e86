"""A table into files: through a scan, so that the size of the table does not matter.

Rules of this file: a file that is there is never replaced unasked; one that has its name is whole.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np

from treering.core.columns import empty_column
from treering.core.read_plan import PartitionRead
from treering.core.times import TimeInput, render_ts
from treering.core.units import DAY_S, Interval
from treering.errors import UsageError
from treering.formats.sinks import (
    ROW_GROUP_ROWS,
    CsvSink,
    ParquetSink,
    Sink,
    parquet,
    read_note,
    whole_file,
)
from treering.readings import Readings
from treering.scanning import BATCH_ROWS
from treering.table import Table

SeriesSource = Callable[[], Iterable[str]]
"""Gives the series anew each time; called once a file."""


class ExportForm(enum.StrEnum):
    """A form of files."""

    PARQUET = "parquet"
    CSV = "csv"


class Existing(enum.StrEnum):
    """What becomes of files that are there already."""

    REFUSE = "refuse"
    OVERWRITE = "overwrite"
    RESUME = "resume"


@dataclass(slots=True, kw_only=True)
class ExportReport:
    """What was exported: grows while the export runs.

    Attributes:
        readings: Readings in files that are complete.
        files: Those files, in order.
        kept: Files of an earlier run that were left as they are.
        missing: Partitions that could not be read.
    """

    readings: int = 0
    files: list[Path] = field(default_factory=list)
    kept: list[Path] = field(default_factory=list)
    missing: list[PartitionRead] = field(default_factory=list)

    @property
    def file_bytes(self) -> int:
        """Bytes of the files that were written."""
        return sum(path.stat().st_size for path in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """How a table is exported.

    Attributes:
        form: The form of the files.
        columns: Names of the columns wanted; all where None.
        row_group_rows: Readings of a row group of Parquet.
        existing: What becomes of files that are there already.
        partial: Whether to go on where a partition stays unreadable.
        note: What the files say of the choice of series, so that another choice does not go on
            with them.
        on_progress: Called after each batch with the readings so far and the series.
    """

    form: ExportForm = ExportForm.PARQUET
    columns: Sequence[str] | None = None
    row_group_rows: int = ROW_GROUP_ROWS
    existing: Existing = Existing.REFUSE
    partial: bool = False
    note: str = ""
    on_progress: Callable[[int, str], None] | None = None

    def __post_init__(self) -> None:
        if self.row_group_rows < 1:
            raise UsageError(
                f"a row group has at least 1 reading, not {self.row_group_rows}",
                hint=f"leave it out for {ROW_GROUP_ROWS:,}",
            )


def interval_of_export(
    table: Table, start: TimeInput | None, end: TimeInput | None, unit: str | None
) -> Interval:
    """Return the event time to export: without a start, all that the retention keeps.

    Raises:
        UsageError: No start, and readings are kept for ever.
    """
    now_ts = table._now_ts()
    if start is None and table.spec.retention_s is None:
        raise UsageError(
            f"the readings of {table.name!r} are kept for ever, so an export needs a start",
            hint="say from when on, such as --start 2020-01-01",
        )
    oldest = table.spec.oldest_ts(now_ts)
    first = oldest if start is None else table._time(start, unit, now_ts)
    last = table._end_of_time(now_ts) if end is None else table._time(end, unit, now_ts)
    # What the retention has passed is not there to be read, so no file is made for it.
    first = max(first, min(oldest, last))
    if last < first:
        precision = table.precision
        raise UsageError(
            f"the interval is reversed: it starts {render_ts(first, precision)} and ends "
            f"{render_ts(last, precision)}",
            hint="give the earlier time first",
            cli_hint="give the earlier time to --start",
        )
    return Interval(first, last, table.precision)


def run_export(
    table: Table,
    target: Path,
    series: SeriesSource,
    interval: Interval,
    options: ExportOptions,
    *,
    report: ExportReport | None = None,
) -> ExportReport:
    """Export a table to a file, or to a folder with a file for each UTC day that has readings.

    Args:
        table: Where from.
        target: A file; a folder where it is one, or does not end in the form's name.
        series: Gives the series wanted.
        interval: The event time wanted.
        options: How.
        report: Counts to add to; up to date when an error is raised, too.

    Raises:
        UsageError: A file is there already, or one is of another export.
        MissingExtraError: pyarrow is not installed, for Parquet.
        EngineError: As a scan raises; of the file that it was in nothing is left.

    Cost:
        One scan, or one a day.
    """
    report = ExportReport() if report is None else report
    if options.form is ExportForm.PARQUET:
        parquet()
    if not is_folder(target, options.form):
        _check_target(target, options)
        _write(table, target, series, interval, options, report)
        return report
    _check_folder(target, table, options)
    target.mkdir(parents=True, exist_ok=True)
    for day in _days(interval):
        path = target / _day_name(table, day, options.form)
        if path.exists() and _is_kept(path, table, day, options):
            report.kept.append(path)
        else:
            _write(table, path, series, day, options, report, is_left_out_if_empty=True)
    return report


def is_folder(target: Path, form: ExportForm) -> bool:
    """Return whether an export to there is one file a day."""
    return target.is_dir() or target.suffix.lower() not in _ENDINGS[form]


_ENDINGS: Final = {ExportForm.PARQUET: (".parquet", ".pq"), ExportForm.CSV: (".csv",)}


def _check_target(target: Path, options: ExportOptions) -> None:
    if options.existing is Existing.RESUME:
        raise UsageError(
            f"{target} is one file, which is written as a whole",
            hint="resume an export to a folder: it has a file for each day",
        )
    if target.exists() and options.existing is not Existing.OVERWRITE:
        raise UsageError(
            f"{target} is there already",
            hint="name another file, or have it replaced with overwrite",
            cli_hint="name another file, or say --overwrite",
        )


def _check_folder(target: Path, table: Table, options: ExportOptions) -> None:
    if target.exists() and not target.is_dir():
        raise UsageError(
            f"{target} is a file whose name does not end in {_ENDINGS[options.form][0]}",
            hint="name a folder, or a file with that ending",
        )
    if options.existing is not Existing.REFUSE:
        return
    there = next(target.glob(f"{table.name}-*{_ENDINGS[options.form][0]}"), None)
    if there is not None:
        raise UsageError(
            f"{target} holds files of an export of {table.name!r} already, such as {there.name}",
            hint="name another folder, or resume or overwrite that export",
            cli_hint="name another folder, go on with --resume, or say --overwrite",
        )


def _days(interval: Interval) -> Iterator[Interval]:
    day = DAY_S * interval.precision.per_s
    for start in range(interval.start // day * day, interval.end, day):
        yield Interval(
            max(start, interval.start), min(start + day, interval.end), interval.precision
        )


def _day_name(table: Table, day: Interval, form: ExportForm) -> str:
    return f"{table.name}-{render_ts(day.start, day.precision)[:10]}{_ENDINGS[form][0]}"


def _note_of(table: Table, options: ExportOptions) -> dict[str, Any]:
    columns = [column.name for column in table.spec.selected(options.columns)]
    return {"table": table.name, "columns": columns, "series": options.note}


def _is_kept(path: Path, table: Table, day: Interval, options: ExportOptions) -> bool:
    if options.existing is not Existing.RESUME:
        return False
    if options.form is ExportForm.PARQUET and read_note(path) != _note_of(table, options):
        raise UsageError(
            f"{path} is of an export of other series or columns, or damaged",
            hint="export to another folder, or overwrite this one",
            cli_hint="export to another folder, or say --overwrite",
            path=str(path),
        )
    # Of a day that is not over, more may have come since.
    return day.end <= table._now_ts()


def _write(
    table: Table,
    path: Path,
    series: SeriesSource,
    interval: Interval,
    options: ExportOptions,
    report: ExportReport,
    *,
    is_left_out_if_empty: bool = False,
) -> None:
    batches = table.scan(
        series(),
        interval.start,
        interval.end,
        unit=str(interval.precision),
        columns=options.columns,
        partial=options.partial,
        batch_rows=min(options.row_group_rows, BATCH_ROWS),
    )
    first = next(batches, None)
    if first is None and is_left_out_if_empty:
        return
    rows = 0
    with whole_file(path) as stream, closing(_sink(stream, table, options)) as sink:
        batch = first
        while batch is not None:
            sink.add(batch)
            rows += len(batch)
            report.missing += batch.missing
            if options.on_progress is not None and batch.series:
                options.on_progress(report.readings + rows, batch.series[-1])
            batch = next(batches, None)
        sink.finish()
    report.readings += rows
    report.files.append(path)


def _sink(stream: BinaryIO, table: Table, options: ExportOptions) -> Sink:
    schema = table.spec.selected(options.columns)
    empty = Readings(
        series=(),
        series_rows=(),
        ts=np.empty(0, dtype=np.int64),
        precision=table.precision,
        schema=schema,
        data={column.name: empty_column(column.type) for column in schema},
    )
    match options.form:
        case ExportForm.PARQUET:
            return ParquetSink(stream, empty, options.row_group_rows, _note_of(table, options))
        case ExportForm.CSV:
            return CsvSink(stream, empty)
