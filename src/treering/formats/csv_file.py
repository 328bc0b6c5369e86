"""CSV in: blocks of lines to chunks, by Arrow where it can, else line by line with equal results.

Rules of this file: the quick way either takes a block whole and exactly, or leaves it to the exact
way; only the exact way refuses lines, so a reason and a line number never depend on Arrow.
"""

from __future__ import annotations

import csv
import functools
from collections.abc import Iterator, Sequence
from typing import Final

from treering.core.table import TableSpec
from treering.core.units import render_count
from treering.errors import UsageError
from treering.formats.arrow_block import ArrowBlocks, arrow_blocks
from treering.formats.chunk import Chunk, Original, RowCollector
from treering.formats.layout import FileLayout, FileMapping, plan_layout
from treering.formats.lines import LINE_BYTES_MAX, LineBlock, LineReader
from treering.formats.values import check_first_moment, parse_field

# Below the bound of the csv module on a field, so that splitting is what it would do.
_PLAIN_BYTES_MAX: Final = 100_000

OVERLONG: Final = f"the line is longer than {LINE_BYTES_MAX:,} bytes"
NOT_UTF8: Final = "the line is not UTF-8 text"
_OPEN_QUOTE: Final = "a quote is opened and never closed"
_RUN_ON_QUOTE: Final = "a quote is opened and not closed in the line"


def read_csv(
    reader: LineReader, mapping: FileMapping, spec: TableSpec, *, path: str, lines_max: int
) -> Iterator[Chunk]:
    """Yield the readings of CSV text with a header line.

    Args:
        reader: The lines of the file.
        mapping: What the caller says about its columns.
        spec: The table.
        path: The file, for messages.
        lines_max: Lines a chunk.

    Raises:
        UsageError: No header, a column that is not there, or times whose zone was not stated.
    """
    layout = plan_layout(mapping, spec, _header(reader, mapping.delimiter, path), path=path)
    arrow = arrow_blocks(layout)
    is_first = True
    for block in reader.blocks(lines_max, quoted=True):
        if is_first:
            is_first = not _check_first(block, layout)
        yield from _chunks(block, layout, arrow, reader.bytes_read)


def _header(reader: LineReader, delimiter: str, path: str) -> list[str]:
    block = next(reader.blocks(1, quoted=True), None)
    if block is None:
        raise UsageError(f"{path} is empty", hint="a CSV file starts with the names of its columns")
    try:
        text = b"".join(block.lines).decode()
        names = next(csv.reader([text], delimiter=delimiter, strict=True), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise UsageError(
            f"{path} has no header in line 1 that can be read: {error}",
            hint="a CSV file is UTF-8 text and starts with the names of its columns",
        ) from error
    if not any(name.strip() for name in names):
        raise UsageError(
            f"{path} has no header in line 1: the line is blank",
            hint="a CSV file starts with the names of its columns",
        )
    return [name.strip() for name in names]


def _check_first(block: LineBlock, layout: FileLayout) -> bool:
    place = layout.names.index(layout.time)
    for _, record in records_of(block, layout.delimiter, len(layout.names)):
        if isinstance(record, list) and len(record) == len(layout.names) and record[place]:
            check_first_moment(record[place], layout.time, layout.path, layout.rule)
            return True
    return False


def _chunks(
    block: LineBlock, layout: FileLayout, arrow: ArrowBlocks | None, bytes_read: int
) -> Iterator[Chunk]:
    original = original_of(block, layout.delimiter, len(layout.names))
    if arrow is not None:
        chunk = arrow.chunk_of_csv(block, original, bytes_read)
        if chunk is not None:
            yield chunk
            return
    collector = RowCollector(layout, original)
    time = layout.names.index(layout.time)
    series = None if layout.series is None else layout.names.index(layout.series)
    places = [(layout.names.index(name), name, column) for name, column in layout.values]
    for line, record in records_of(block, layout.delimiter, len(layout.names)):
        if isinstance(record, str):
            collector.refuse(line, record)
        elif len(record) != len(layout.names):
            collector.refuse(
                line, _count_reason(len(record), len(layout.names)), "a wrong number of fields"
            )
        else:
            collector.add(
                line,
                record[time].strip(),
                None if series is None else record[series],
                [functools.partial(parse_field, record[at], n, c) for at, n, c in places],
            )
    yield from collector.chunks(bytes_read)


def _count_reason(found: int, expected: int) -> str:
    return f"{render_count(found, 'field')} where the header has {expected:,}"


def records_of(
    block: LineBlock, delimiter: str, field_count: int | None = None
) -> Iterator[tuple[int, list[str] | str]]:
    """Yield each record of a block with its line number: its fields, or what is wrong with it.

    A quote that opens in a line and is not closed as CSV has it spoils its own line and no other:
    reading goes on with the next line. Blank lines are left out.

    Args:
        block: The lines.
        delimiter: What stands between fields.
        field_count: How many fields a record that goes over several lines must have, to be one.
    """
    place = 0
    while place < len(block.lines):
        for start, end, record in _records_from(block.lines, place, delimiter, field_count):
            # After a spoiled line the reader of CSV is past it: another one begins behind it.
            place = end
            line = block.first_line + start
            if start in block.overlong:
                yield line, OVERLONG
            elif isinstance(record, str):
                yield line, record
            elif record and (len(record) > 1 or record[0].strip()):
                is_utf8 = all(map(_is_utf8, block.lines[start:end]))
                yield line, record if is_utf8 else NOT_UTF8


def _text(line: bytes) -> str:
    return line.decode(errors="replace")


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _records_from(
    lines: Sequence[bytes], place: int, delimiter: str, field_count: int | None
) -> Iterator[tuple[int, int, list[str] | str]]:
    """Yield (first line, line after, record); after one that is only a text, nothing more comes.

    Lines are decoded as they are needed: looking one record up costs no more than that record.
    """
    texts = (_text(lines[at]) for at in range(place, len(lines)))
    reader = csv.reader(texts, delimiter=delimiter)
    start = place
    try:
        for record in reader:
            end = place + reader.line_num
            is_long = end - start > 1 or end == len(lines)
            wrong = _spoiled(lines[start:end], record, delimiter, field_count) if is_long else None
            if wrong is not None:
                yield start, start + 1, wrong
                return
            yield start, end, record
            start = end
    except csv.Error as error:
        yield start, start + 1, f"not a line of CSV: {error}"


def _spoiled(
    lines: Sequence[bytes], record: list[str], delimiter: str, field_count: int | None
) -> str | None:
    """Return what is wrong with a record of several lines, or of the last one; None where fine."""
    try:
        for _ in csv.reader(map(_text, lines), delimiter=delimiter, strict=True):
            pass
    except csv.Error as error:
        if "unexpected end of data" in str(error):
            return _OPEN_QUOTE
        return _RUN_ON_QUOTE if len(lines) > 1 else None
    is_odd = field_count is not None and len(record) != field_count
    return _RUN_ON_QUOTE if len(lines) > 1 and is_odd else None


def original_of(block: LineBlock, delimiter: str, field_count: int | None = None) -> Original:
    """Return a function that gives the fields of the record that starts at a line."""

    def original(line: int) -> tuple[str, ...]:
        place = line - block.first_line
        text = block.lines[place]
        if b'"' not in text and b"\r" not in text[:-2] and len(text) < _PLAIN_BYTES_MAX:
            return tuple(_text(text).rstrip("\r\n").split(delimiter))
        for _, _, record in _records_from(block.lines, place, delimiter, field_count):
            if isinstance(record, list):
                return tuple(record)
            break
        return (_text(block.lines[place]).rstrip("\r\n"),)

    return original
