"""CSV in: blocks of lines to chunks, by Arrow where it can, else line by line with equal results.

Rules of this file: the quick way either takes a block whole and exactly, or leaves it to the exact
way; only the exact way refuses lines, so a reason and a line number never depend on Arrow.
"""

from __future__ import annotations

import csv
import functools
from collections.abc import Iterator
from typing import Final

from treering.core.table import TableSpec
from treering.errors import UsageError
from treering.formats.arrow_block import ArrowBlocks, arrow_blocks
from treering.formats.chunk import Chunk, Original, RowCollector
from treering.formats.layout import FileLayout, FileMapping, plan_layout
from treering.formats.lines import LINE_BYTES_MAX, LineBlock, LineReader
from treering.formats.values import check_first_moment, parse_field

OVERLONG: Final = f"the line is longer than {LINE_BYTES_MAX:,} bytes"
NOT_UTF8: Final = "the line is not UTF-8 text"
_OPEN_QUOTE: Final = "a quote is opened and never closed"


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
    for _, record in records_of(block, layout.delimiter):
        if isinstance(record, list) and len(record) == len(layout.names) and record[place]:
            check_first_moment(record[place], layout.time, layout.path, layout.rule)
            return True
    return False


def _chunks(
    block: LineBlock, layout: FileLayout, arrow: ArrowBlocks | None, bytes_read: int
) -> Iterator[Chunk]:
    original = original_of(block, layout.delimiter)
    if arrow is not None:
        chunk = arrow.chunk_of_csv(block, original, bytes_read)
        if chunk is not None:
            yield chunk
            return
    collector = RowCollector(layout, original)
    time = layout.names.index(layout.time)
    series = None if layout.series is None else layout.names.index(layout.series)
    places = [(layout.names.index(name), name, column) for name, column in layout.values]
    for line, record in records_of(block, layout.delimiter):
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
    return f"{found} fields where the header has {expected}"


def records_of(block: LineBlock, delimiter: str) -> Iterator[tuple[int, list[str] | str]]:
    """Yield each record of a block with its line number: its fields, or what is wrong with it.

    A quote that is never closed spoils its own line and no other. Blank lines are left out.
    """
    texts = [_text(line) for line in block.lines]
    place = 0
    while place < len(texts):
        for start, record in _records_from(texts, place, delimiter):
            line = block.first_line + start
            if start in block.overlong:
                yield line, OVERLONG
            elif isinstance(record, str):
                yield line, record
                place = start + 1
                break
            elif record and (len(record) > 1 or record[0].strip()):
                is_utf8 = _is_utf8(block.lines[start])
                yield line, record if is_utf8 else NOT_UTF8
        else:
            return


def _text(line: bytes) -> str:
    return line.decode(errors="replace")


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _records_from(
    texts: list[str], place: int, delimiter: str
) -> Iterator[tuple[int, list[str] | str]]:
    """Yield records from a place on; after one that is only a text, nothing more comes."""
    reader = csv.reader((texts[at] for at in range(place, len(texts))), delimiter=delimiter)
    start = place
    try:
        for record in reader:
            end = place + reader.line_num
            if end == len(texts) and _is_open(texts[start:end], delimiter):
                yield start, _OPEN_QUOTE
                return
            yield start, record
            start = end
    except csv.Error as error:
        yield start, f"not a line of CSV: {error}"


def _is_open(lines: list[str], delimiter: str) -> bool:
    try:
        for _ in csv.reader(lines, delimiter=delimiter, strict=True):
            pass
    except csv.Error as error:
        return "unexpected end of data" in str(error)
    return False


def original_of(block: LineBlock, delimiter: str) -> Original:
    """Return a function that gives the fields of the record that starts at a line."""

    def original(line: int) -> tuple[str, ...]:
        place = line - block.first_line
        for _, record in _records_from([_text(t) for t in block.lines[place:][:64]], 0, delimiter):
            if isinstance(record, list):
                return tuple(record)
            break
        return (_text(block.lines[place]).rstrip("\r\n"),)

    return original
