"""Files into a table: in chunks, in bounded memory, with every refused line accounted for.

Importing a file again is harmless: the same readings have the same keys and the same values.
"""

from __future__ import annotations

import csv
import enum
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import IO, Any, BinaryIO, Final

import numpy as np

from treering.core.table import TableSpec
from treering.core.units import render_count
from treering.core.write_plan import REASONS, Duplicates, plan_writes
from treering.errors import CorruptDataError, RefusedReadingsError, TreeringError, UsageError
from treering.formats.chunk import Chunk, RefusedLine
from treering.formats.csv_file import read_csv
from treering.formats.jsonl_file import read_jsonl
from treering.formats.layout import SERIES_NAME, TIME_NAME, FileMapping
from treering.formats.lines import LineReader
from treering.formats.parquet_file import read_parquet
from treering.intake import inputs_of_frame
from treering.table import Table
from treering.write_report import WriteReport, report_of

CHUNK_LINES: Final = 100_000
"""Lines a chunk unless the caller says otherwise: some tens of megabytes of memory."""

_ORIGINAL: Final = "original"

REFUSED_HEADER: Final = b"line,reason,"
"""How a file of refused lines starts."""

_NAMES_MAX: Final = 1_000


class FileFormat(enum.StrEnum):
    """A form of files of readings."""

    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"


_ENDINGS: Final = {
    ".csv": FileFormat.CSV,
    ".txt": FileFormat.CSV,
    ".tsv": FileFormat.CSV,
    ".jsonl": FileFormat.JSONL,
    ".ndjson": FileFormat.JSONL,
    ".parquet": FileFormat.PARQUET,
    ".pq": FileFormat.PARQUET,
}


def format_of(path: str, stated: str | None = None) -> FileFormat:
    """Return the form of a file: as stated, else by the ending of its name.

    Raises:
        UsageError: An unknown form, or an ending that says nothing.
    """
    if stated is not None:
        try:
            return FileFormat(stated)
        except ValueError:
            raise UsageError(
                f"{stated!r} is not a format of files", hint=f"use {', '.join(FileFormat)}"
            ) from None
    ending = PurePath(path).suffix.lower()
    if ending not in _ENDINGS:
        shown = "standard input" if path == "-" else path
        raise UsageError(
            f"the name of {shown} does not say what format it has",
            hint=f"say --format {', '.join(FileFormat)}",
        )
    return _ENDINGS[ending]


@dataclass(slots=True, kw_only=True)
class ImportReport:
    """What became of a file, or of several: counts grow while the import runs.

    Attributes:
        lines: Lines (rows) that held something, the header not counted.
        accepted: Readings that are durable now.
        floored: How many of them were finer than the table's precision.
        repeats: Readings that equal another of the same chunk.
        reasons: How many lines were refused for each reason.
        ignored: Columns of the file that nothing asked for.
        filled: Columns of the table that the file has.
    """

    lines: int = 0
    accepted: int = 0
    floored: int = 0
    repeats: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    ignored: set[str] = field(default_factory=set)
    filled: set[str] = field(default_factory=set)

    @property
    def refused(self) -> int:
        """How many lines were refused."""
        return self.reasons.total()


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """How a file is imported.

    Attributes:
        mapping: What is known about its columns.
        duplicates: Of readings of one chunk with one event time and other values: refuse all, or
            keep the first or the last.
        strict: Stop at the first line that is refused; of its chunk nothing is written.
        chunk_lines: Lines a chunk.
        on_refused: Called with each refused line, and the names of the file's columns.
        on_progress: Called after each chunk with the bytes read so far.
    """

    mapping: FileMapping = field(default_factory=FileMapping)
    duplicates: Duplicates = "refuse"
    strict: bool = False
    chunk_lines: int = CHUNK_LINES
    on_refused: Callable[[RefusedLine, tuple[str, ...]], None] | None = None
    on_progress: Callable[[int], None] | None = None

    def __post_init__(self) -> None:
        if self.chunk_lines < 1:
            raise UsageError(
                f"a chunk has at least 1 line, not {self.chunk_lines}",
                hint="leave --chunk out for 100,000 lines",
            )
        if self.duplicates not in ("refuse", "first", "last"):
            raise UsageError(
                f"duplicates={self.duplicates!r} is not known",
                hint="use 'refuse', 'first' or 'last'",
            )


def run_import(
    table: Table,
    stream: BinaryIO,
    file_format: FileFormat,
    options: ImportOptions,
    *,
    path: str,
    report: ImportReport | None = None,
) -> ImportReport:
    """Import a file into a table.

    Args:
        table: Where to.
        stream: The file, binary; Parquet must be seekable.
        file_format: Its form.
        options: How.
        path: What people call the file.
        report: Counts to add to; a new report by default.

    Returns:
        What became of it. It is up to date when an error is raised, too.

    Raises:
        UsageError: A column that is not there, times without a zone or unit, not such a file.
        CorruptDataError: ``strict`` and a line was refused: names the line.
        EngineError: The store failed; chunks before are written.

    Cost:
        One write a chunk.
    """
    report = ImportReport() if report is None else report
    for chunk in read_chunks(stream, file_format, options, table.spec, path=path):
        _import_chunk(table, chunk, options, report, path)
        if options.on_progress is not None:
            options.on_progress(chunk.bytes_read)
    return report


def read_chunks(
    stream: BinaryIO,
    file_format: FileFormat,
    options: ImportOptions,
    spec: TableSpec,
    *,
    path: str,
) -> Iterator[Chunk]:
    """Yield the readings of a file for a table, chunk by chunk, without writing any."""
    lines_max = options.chunk_lines
    match file_format:
        case FileFormat.CSV:
            reader = LineReader(stream, path)
            yield from read_csv(reader, options.mapping, spec, path=path, lines_max=lines_max)
        case FileFormat.JSONL:
            reader = LineReader(stream, path)
            yield from read_jsonl(reader, options.mapping, spec, path=path, lines_max=lines_max)
        case FileFormat.PARQUET:
            yield from read_parquet(stream, options.mapping, spec, path=path, lines_max=lines_max)


def _import_chunk(
    table: Table, chunk: Chunk, options: ImportOptions, report: ImportReport, path: str
) -> None:
    report.lines += len(chunk) + len(chunk.refused)
    _note_columns(table.spec, chunk, options.mapping, report)
    refused = list(chunk.refused)
    if options.strict and refused:
        refused += _refused_by_table(table, chunk, options)
        raise _stopped(path, min(refused, key=lambda refusal: refusal.line), report)
    if len(chunk):
        refused += _write_chunk(table, chunk, options, report, path)
    for line in sorted(refused, key=lambda refusal: refusal.line):
        report.reasons[line.kind] += 1
        if options.on_refused is not None:
            options.on_refused(line, chunk.names)


def _note_columns(
    spec: TableSpec, chunk: Chunk, mapping: FileMapping, report: ImportReport
) -> None:
    names = chunk.keys or frozenset(chunk.names)
    if chunk.names[:2] == ("line", "reason"):
        # A file of refused lines that was corrected.
        names -= {"line", "reason"}
    places = {column.name: column.name for column in spec.columns}
    if mapping.columns is not None:
        places = dict(mapping.columns)
    taken = {mapping.time or TIME_NAME, *places}
    if mapping.series_name is None:
        taken.add(mapping.series or SERIES_NAME)
    report.filled.update(to for name, to in places.items() if name in names)
    if len(report.ignored) < _NAMES_MAX:
        report.ignored.update(names - taken)


def _refused_by_table(table: Table, chunk: Chunk, options: ImportOptions) -> list[RefusedLine]:
    """Return the lines of a chunk that the table would refuse, without writing any."""
    if not len(chunk):
        return []
    inputs = inputs_of_frame(
        table.spec, chunk.frame, columns=None, unit=None, tz=None, **_who(options)
    )
    # Nothing of this is sent, so that neither write time nor widths matter.
    now_ts = table._now_ts()
    plans = plan_writes(
        table.spec, inputs, now_ts=now_ts, write_us=0, duplicates=options.duplicates
    )
    return _refused_lines(report_of(plans), chunk)


def _who(options: ImportOptions) -> dict[str, Any]:
    name = options.mapping.series_name
    series = SERIES_NAME if name is None else None
    return {"time": TIME_NAME, "series": series, "series_name": name}


def _refused_lines(report: WriteReport, chunk: Chunk) -> list[RefusedLine]:
    lines = []
    for plan in report.plans:
        numbers = chunk.lines[plan.refused_index].tolist()
        for line, code in zip(numbers, plan.refused_reason.tolist(), strict=True):
            reason = str(REASONS[code])
            lines.append(RefusedLine(line, reason, reason, chunk.original(line)))
    return lines


def _write_chunk(
    table: Table, chunk: Chunk, options: ImportOptions, report: ImportReport, path: str
) -> list[RefusedLine]:
    try:
        written = table.write_frame(
            chunk.frame,
            duplicates=options.duplicates,
            strict=options.strict,
            **_who(options),
        )
    except RefusedReadingsError as error:
        refused = _refused_lines(error.report, chunk)
        raise _stopped(path, min(refused, key=lambda refusal: refusal.line), report) from error
    except TreeringError as error:
        if error.facts.get("report") is not None:
            report.accepted += error.report.accepted
        raise
    report.accepted += written.accepted
    report.floored += written.floored
    report.repeats += written.repeats
    if options.on_refused is not None:
        return _refused_lines(written, chunk)
    # Nobody asks for the lines: counting them is enough.
    for plan in written.plans:
        counts = np.bincount(plan.refused_reason, minlength=len(REASONS)).tolist()
        report.reasons.update({str(r): n for r, n in zip(REASONS, counts, strict=True) if n})
    return []


def _stopped(path: str, refusal: RefusedLine, report: ImportReport) -> CorruptDataError:
    verb = "is" if report.accepted == 1 else "are"
    return CorruptDataError(
        f"{path}, {refusal}; the import stopped there, "
        f"{render_count(report.accepted, 'reading')} of the lines before {verb} written",
        hint="correct the line and import the file again: what is there already is not doubled",
        path=path,
        line=refusal.line,
        reason=refusal.reason,
    )


class RefusedFile:
    """Writes refused lines as CSV: ``line``, ``reason``, then the columns of the file.

    Args:
        stream: Where to; text.
    """

    def __init__(self, stream: IO[str]) -> None:
        self._writer = csv.writer(stream, lineterminator="\n")
        self._names: tuple[str, ...] | None = None

    def add(self, refusal: RefusedLine, names: tuple[str, ...], *, path: str | None = None) -> None:
        """Write one line.

        Args:
            refusal: The line.
            names: The columns of its file; a new header is written where they change.
            path: The file, where there are several.
        """
        if names != self._names:
            self._names = names
            self._writer.writerow(["line", "reason", *(names or (_ORIGINAL,))])
        line = str(refusal.line) if path is None else f"{path}:{refusal.line}"
        self._writer.writerow([line, refusal.reason, *refusal.fields])
