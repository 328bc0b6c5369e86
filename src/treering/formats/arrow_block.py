"""Blocks of text to arrays by Arrow: the quick way, which takes a block whole or not at all.

Rules of this file: whatever is accepted here, the exact way accepts with the same value; anything
doubtful returns None, and the exact way decides. Without pyarrow there is no quick way.
"""

from __future__ import annotations

import importlib
import json
import re
from dataclasses import replace
from typing import Any, Final

import numpy as np

from treering.core.schema import ColumnType, check_series
from treering.errors import UsageError
from treering.formats.chunk import Chunk, Original
from treering.formats.layout import SERIES_NAME, TIME_NAME, FileLayout, TimeRule
from treering.formats.lines import LineBlock

_ISO_DAY: Final = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?"
_ISO_ZONED: Final = _ISO_DAY + r"(Z|[+-]\d\d(:?\d\d)?)$"
_ISO_LOCAL: Final = _ISO_DAY + "$"

# What a strptime form may consist of to be rewritten as ISO text; each part once.
_PARTS: Final = {
    "Y": r"(?P<Y>\d{4})",
    "m": r"(?P<m>\d\d)",
    "d": r"(?P<d>\d\d)",
    "H": r"(?P<H>\d\d)",
    "M": r"(?P<M>\d\d)",
    "S": r"(?P<S>\d\d)",
}
_JSON_TYPES: Final[dict[str, frozenset[type]]] = {
    "double": frozenset({float, int, type(None)}),
    "int64": frozenset({int, type(None)}),
    "bool": frozenset({bool, type(None)}),
    "string": frozenset({str, type(None)}),
}
_LITERALS: Final = frozenset("/-.:T_,")


def arrow_blocks(layout: FileLayout) -> ArrowBlocks | None:
    """Return the quick way for a file, or None where pyarrow is not installed."""
    try:
        return ArrowBlocks(layout)
    except ImportError:
        return None


class ArrowBlocks:
    """Turns blocks of one file into chunks.

    Args:
        layout: The columns of the file.

    Raises:
        ImportError: pyarrow is not installed.
    """

    def __init__(self, layout: FileLayout) -> None:
        self._pa: Any = importlib.import_module("pyarrow")
        self._pc: Any = importlib.import_module("pyarrow.compute")
        self._csv: Any = importlib.import_module("pyarrow.csv")
        self._layout = layout
        self._form = None if layout.rule.form is None else iso_rewrite(layout.rule.form)

    @property
    def _is_able(self) -> bool:
        rule = self._layout.rule
        return rule.form is None or (self._form is not None and rule.zone is not None)

    def chunk_of_csv(self, block: LineBlock, original: Original, bytes_read: int) -> Chunk | None:
        """Return the readings of a block of CSV lines, or None if the exact way must decide."""
        lines = _without_blank_end(block.lines)
        data = b"".join(lines)
        is_plain = data.count(b'"') % 2 == 0 and data.count(b"\r") == data.count(b"\r\n")
        if not lines or not self._is_able or block.overlong or not is_plain:
            return None
        try:
            table = self._read_csv(data)
            return self._chunk(table, block, len(lines), original, bytes_read)
        except (self._pa.ArrowException, UsageError):
            return None

    def _read_csv(self, data: bytes) -> Any:
        layout, names = self._layout, self._layout.names
        keys = [f"f{place}" for place in range(len(names))]
        types = self._types()
        wanted = {name: keys[names.index(name)] for name in types}
        table = self._csv.read_csv(
            self._pa.BufferReader(data),
            read_options=self._csv.ReadOptions(
                column_names=keys, use_threads=False, block_size=len(data) + 1
            ),
            parse_options=self._csv.ParseOptions(
                delimiter=layout.delimiter, newlines_in_values=b'"' in data
            ),
            convert_options=self._csv.ConvertOptions(
                column_types={wanted[name]: kind for name, kind in types.items()},
                include_columns=list(wanted.values()),
                null_values=[""],
                strings_can_be_null=True,
                true_values=["1", "true", "True", "TRUE"],
                false_values=["0", "false", "False", "FALSE"],
            ),
        )
        return table.rename_columns(list(wanted))

    def chunk_of_json(self, block: LineBlock, original: Original, bytes_read: int) -> Chunk | None:
        """Return the readings of a block of JSON lines, or None if the exact way must decide.

        The lines go through Python's own parser: Arrow's brings the whole process down on some
        lines that are not objects.
        """
        lines = _without_blank_end(block.lines)
        if not lines or not self._is_able or block.overlong:
            return None
        try:
            records = [json.loads(line.decode()) for line in lines]
            if not all(type(record) is dict for record in records):
                return None
            columns = {
                name: self._exact_array([record.get(name) for record in records], kind)
                for name, kind in self._types().items()
            }
            table = self._pa.table(columns)
            chunk = self._chunk(table, block, len(lines), original, bytes_read)
            return None if chunk is None else replace(chunk, keys=frozenset().union(*records))
        except (self._pa.ArrowException, ValueError, OverflowError, RecursionError):
            return None

    def _exact_array(self, values: list[Any], kind: Any) -> Any:
        # Arrow would cut 1.5 to the integer 1 without a word.
        allowed = _JSON_TYPES[str(kind)]
        if not set(map(type, values)) <= allowed:
            raise self._pa.ArrowInvalid("values of more than one type")
        return self._pa.array(values, type=kind)

    def _types(self) -> dict[str, Any]:
        pa, layout = self._pa, self._layout
        types = {layout.time: pa.string() if layout.rule.unit is None else pa.int64()}
        if layout.series is not None:
            types[layout.series] = pa.string()
        kinds = {
            ColumnType.DOUBLE: pa.float64(),
            ColumnType.FLOAT: pa.float64(),
            ColumnType.INT: pa.int64(),
            ColumnType.BIGINT: pa.int64(),
            ColumnType.BOOLEAN: pa.bool_(),
            ColumnType.TEXT: pa.string(),
        }
        for name, column in layout.values:
            if types.setdefault(name, kinds[column.type]) != kinds[column.type]:
                # One column of the file in two roles with two types: nothing for the quick way.
                raise UsageError(f"the column {name!r} is used as two types")
        return types

    def _chunk(
        self, table: Any, block: LineBlock, count: int, original: Original, bytes_read: int
    ) -> Chunk | None:
        layout = self._layout
        if table.num_rows != count:
            return None
        frame: dict[str, Any] = {}
        frame[TIME_NAME] = self.times(table.column(layout.time).combine_chunks())
        if layout.series is not None:
            frame[SERIES_NAME] = self.series(table.column(layout.series).combine_chunks())
        for name, column in layout.values:
            values = array_of(self._pa, table.column(name).combine_chunks())
            if values.dtype.kind == "f" and bool(np.isinf(values).any()):
                # Written as such, or digits too large for a double: Arrow does not tell.
                return None
            frame[column.name] = values
        lines = np.arange(block.first_line, block.first_line + count, dtype=np.int64)
        return Chunk(
            frame=frame,
            lines=lines,
            refused=(),
            names=layout.names,
            original=original,
            bytes_read=bytes_read,
        )

    def times(self, array: Any) -> Any:
        """Return the times of a column as ``datetime64``, NaT where missing.

        Raises:
            ArrowInvalid: Not all of them are plain; the exact way decides.
        """
        pa, rule = self._pa, self._layout.rule
        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
        if rule.unit is not None:
            filled = array.fill_null(np.iinfo(np.int64).min)
            return filled.to_numpy(zero_copy_only=False).view(f"datetime64[{rule.unit}]")
        if self._form is not None:
            array = self._rewritten(array, *self._form)
        pattern = _ISO_LOCAL if rule.zone is not None else _ISO_ZONED
        self._check_all(array, pattern)
        if rule.zone is None:
            moments = array.cast(pa.timestamp("ns", tz="UTC"))
        else:
            moments = self._in_zone(array.cast(pa.timestamp("ns")), rule)
        return moments.to_numpy(zero_copy_only=False)

    def _in_zone(self, wall: Any, rule: TimeRule) -> Any:
        return self._pc.assume_timezone(
            wall, rule.zone_name, ambiguous="earliest", nonexistent="raise"
        )

    def _rewritten(self, array: Any, pattern: str, replacement: str) -> Any:
        self._check_all(array, pattern)
        return self._pc.replace_substring_regex(array, pattern=pattern, replacement=replacement)

    def _check_all(self, array: Any, pattern: str) -> None:
        matches = self._pc.match_substring_regex(array, pattern=pattern)
        if not self._pc.all(matches, min_count=0).as_py():
            raise self._pa.ArrowInvalid("not all times are of one plain form")

    def series(self, array: Any) -> Any:
        """Return the series ids of a column as an object array.

        Raises:
            ArrowInvalid: One is missing.
            UsageError: One is none that every engine keeps.
        """
        if array.null_count:
            raise self._pa.ArrowInvalid("a line has no series id")
        coded = array.dictionary_encode()
        names = np.empty(len(coded.dictionary), dtype=object)
        names[:] = [check_series(name) for name in coded.dictionary.to_pylist()]
        return names[coded.indices.to_numpy(zero_copy_only=False)]


def array_of(pa: Any, array: Any) -> Any:
    """Return an Arrow array as NumPy has it, masked where values are missing."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        values = np.empty(len(array), dtype=object)
        values[:] = array.to_pylist()
        return values
    if not array.null_count:
        return array.to_numpy(zero_copy_only=False)
    mask = array.is_null().to_numpy(zero_copy_only=False)
    filled = array.fill_null(False if pa.types.is_boolean(array.type) else 0)
    return np.ma.MaskedArray(filled.to_numpy(zero_copy_only=False), mask=mask)


def iso_rewrite(form: str) -> tuple[str, str] | None:
    """Return a pattern and a replacement that turn times of a form into ISO text, or None.

    Only forms of whole, padded numbers are rewritten: those that no locale changes.

    >>> iso_rewrite("%d.%m.%Y") is None
    False
    """
    pattern, seen = "^", []
    rest = form
    while rest:
        part = _PARTS.get(rest[1:2]) if rest[0] == "%" else None
        if part is not None:
            pattern += part.replace(f"?P<{rest[1]}>", "")
            seen.append(rest[1])
            rest = rest[2:]
        elif rest[0] in _LITERALS:
            pattern += re.escape(rest[0])
            rest = rest[1:]
        elif rest[0] == " " and rest[1:2] not in (" ", ""):
            pattern += " "
            rest = rest[1:]
        else:
            return None
    if not {"Y", "m", "d"} <= set(seen) or len(set(seen)) < len(seen):
        return None
    places = {name: rf"\{place}" for place, name in enumerate(seen, start=1)}
    clock = ":".join(places.get(name, "00") for name in "HMS")
    return pattern + "$", f"{places['Y']}-{places['m']}-{places['d']}T{clock}"


def _without_blank_end(lines: list[bytes]) -> list[bytes]:
    end = len(lines)
    while end and not lines[end - 1].strip():
        end -= 1
    return lines[:end]
