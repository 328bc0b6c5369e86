"""JSON lines in: one object a line; by Arrow where it can, else line by line."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from typing import Any, Final

from treering.core.table import TableSpec
from treering.formats.arrow_block import ArrowBlocks, arrow_blocks
from treering.formats.chunk import Chunk, Original, RowCollector
from treering.formats.csv_file import NOT_UTF8, OVERLONG
from treering.formats.layout import FileLayout, FileMapping, plan_layout
from treering.formats.lines import LineBlock, LineReader
from treering.formats.values import check_first_moment, value_from_json

_JSON_NAMES: Final[dict[type, str]] = {
    type(None): "null",
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "a text",
    list: "a list",
}


def read_jsonl(
    reader: LineReader, mapping: FileMapping, spec: TableSpec, *, path: str, lines_max: int
) -> Iterator[Chunk]:
    """Yield the readings of JSON lines; arguments and errors as for CSV.

    A key that a line does not have is a missing value. ``"NaN"``, ``"Infinity"`` and
    ``"-Infinity"`` are the numbers that JSON has no form for.
    """
    layout = plan_layout(mapping, spec, None, path=path)
    arrow = arrow_blocks(layout)
    is_first = True
    for block in reader.blocks(lines_max, quoted=False):
        if is_first:
            is_first = not _check_first(block, layout)
        yield from _chunks(block, layout, arrow, reader.bytes_read)


def _check_first(block: LineBlock, layout: FileLayout) -> bool:
    for _, record in _records_of(block):
        if isinstance(record, dict) and record.get(layout.time) not in (None, ""):
            check_first_moment(record[layout.time], layout.time, layout.path, layout.rule)
            return True
    return False


def _chunks(
    block: LineBlock, layout: FileLayout, arrow: ArrowBlocks | None, bytes_read: int
) -> Iterator[Chunk]:
    original = _original_of(block)
    if arrow is not None:
        chunk = arrow.chunk_of_json(block, original, bytes_read)
        if chunk is not None:
            yield chunk
            return
    collector = RowCollector(layout, original)
    keys: set[str] = set()
    for line, record in _records_of(block):
        if isinstance(record, str):
            collector.refuse(line, record, record.partition(":")[0])
            continue
        keys.update(record)
        collector.add(
            line,
            record.get(layout.time),
            None if layout.series is None else record.get(layout.series),
            [functools.partial(value_from_json, record.get(n), n, c) for n, c in layout.values],
        )
    yield from collector.chunks(bytes_read, frozenset(keys))


def _records_of(block: LineBlock) -> Iterator[tuple[int, dict[str, Any] | str]]:
    for place, line in enumerate(block.lines):
        number = block.first_line + place
        if place in block.overlong:
            yield number, OVERLONG
        elif line.strip():
            yield number, _record(line)


def _record(line: bytes) -> dict[str, Any] | str:
    try:
        record = json.loads(line.decode())
    except UnicodeDecodeError:
        return NOT_UTF8
    except (ValueError, RecursionError) as error:
        return f"not a line of JSON: {error}"
    if not isinstance(record, dict):
        return f"not an object but {_JSON_NAMES[type(record)]}"
    return record


def _original_of(block: LineBlock) -> Original:
    def original(line: int) -> tuple[str, ...]:
        text = block.lines[line - block.first_line].decode(errors="replace")
        return (text.rstrip("\r\n"),)

    return original
