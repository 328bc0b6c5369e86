"""What a table holds: columns and their types, identifiers, series ids.

Rules of this file: an identifier that reaches CQL, SQL or a file name has passed
:func:`check_identifier`; a series id is text that every engine can keep exactly.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from treering.errors import UsageError

COLUMNS_MAX: Final = 64
SERIES_BYTES_MAX: Final = 1_000

# Names that the key of a treering table takes.
_TAKEN: Final = frozenset({"series", "bucket", "ts"})
# Cassandra 5.0's reserved words (cql3/reserved_keywords.txt), and those of other versions: names
# stand unquoted in CQL, so that any client can type them.
_RESERVED_WORDS: Final = """
    add allow alter and apply asc authorize batch begin by columnfamily create default delete desc
    describe drop entries execute from full grant if in index infinity insert into is keyspace
    limit materialized mbean mbeans modify nan norecursive not null of on or order primary rename
    replace revoke schema select set table to token truncate unlogged unset update use using view
    where with
"""
_RESERVED: Final = frozenset(_RESERVED_WORDS.split())
_IDENTIFIER: Final = re.compile(r"^[a-z][a-z0-9_]{0,47}$")


class ColumnType(enum.StrEnum):
    """The types of values, by their CQL names."""

    DOUBLE = "double"
    FLOAT = "float"
    INT = "int"
    BIGINT = "bigint"
    BOOLEAN = "boolean"
    TEXT = "text"

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The NumPy type that holds values of this column (object for text)."""
        return _DTYPES[self]

    @property
    def fixed_bytes(self) -> int | None:
        """Bytes of a serialized value, or None where the length varies."""
        return _FIXED_BYTES[self]

    @property
    def is_numeric(self) -> bool:
        """Whether values can be compared and averaged."""
        return self not in (ColumnType.TEXT, ColumnType.BOOLEAN)


_DTYPES: Final[dict[ColumnType, np.dtype[np.generic]]] = {
    ColumnType.DOUBLE: np.dtype(np.float64),
    ColumnType.FLOAT: np.dtype(np.float32),
    ColumnType.INT: np.dtype(np.int32),
    ColumnType.BIGINT: np.dtype(np.int64),
    ColumnType.BOOLEAN: np.dtype(np.bool_),
    ColumnType.TEXT: np.dtype(object),
}
_FIXED_BYTES: Final[dict[ColumnType, int | None]] = {
    ColumnType.DOUBLE: 8,
    ColumnType.FLOAT: 4,
    ColumnType.INT: 4,
    ColumnType.BIGINT: 8,
    ColumnType.BOOLEAN: 1,
    ColumnType.TEXT: None,
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of values: its name and type."""

    name: str
    type: ColumnType

    def __post_init__(self) -> None:
        check_identifier(self.name, "column")
        if self.name in _TAKEN:
            raise UsageError(
                f"a column cannot be named {self.name!r}: the table's key uses that name",
                hint="choose another name, such as value",
            )


def result_column(name: str, column_type: ColumnType) -> Column:
    """Return a column of a result, whose name may be longer than one of a table can be."""
    column = object.__new__(Column)
    object.__setattr__(column, "name", name)
    object.__setattr__(column, "type", column_type)
    return column


def check_identifier(name: str, what: str) -> str:
    """Return ``name`` if it is safe, unquoted, in CQL, SQL and file names.

    Raises:
        UsageError: Anything but a lower-case letter, then letters, digits and underscores,
            48 at most (Cassandra's own bound for table names); or a reserved word of CQL.
    """
    if not isinstance(name, str) or _IDENTIFIER.fullmatch(name) is None:
        raise UsageError(
            f"{name!r} is not a name for a {what}",
            hint="use a lower-case letter, then lower-case letters, digits and _, at most 48",
        )
    if name in _RESERVED:
        raise UsageError(
            f"{name!r} is a reserved word of CQL and cannot name a {what}",
            hint=f"choose another name, such as {name}_1",
        )
    return name


def is_reserved(name: str) -> bool:
    """Return whether CQL takes the name in quotes only."""
    return name in _RESERVED


def check_series(series: str) -> str:
    """Return a series id that every engine keeps exactly.

    Raises:
        UsageError: Not text, empty, over 1,000 bytes of UTF-8, with a control character, or not
            encodable.
    """
    if not isinstance(series, str):
        raise UsageError(
            f"a series id is text, not {type(series).__name__}: {series!r}",
            hint="make text of it, such as str(7)",
        )
    try:
        size = len(series.encode())
    except UnicodeEncodeError:
        size = 0
    if not 1 <= size <= SERIES_BYTES_MAX or any(ord(c) < 32 or ord(c) == 127 for c in series):
        shown = series if len(series) <= 40 else series[:40] + "…"
        raise UsageError(
            f"{shown!r} is not a series id",
            hint=f"use 1 to {SERIES_BYTES_MAX:,} bytes of text without control characters",
        )
    if series != series.strip(" "):
        raise UsageError(
            f"the series id {series!r} starts or ends with a blank",
            hint="strip it: two ids that look the same would be two series",
        )
    return series


def parse_columns(columns: str | Mapping[str, str] | tuple[Column, ...]) -> tuple[Column, ...]:
    """Return columns from ``value:double,quality:int``, a mapping of name to type, or columns.

    Raises:
        UsageError: No column, too many, a name twice, or an unknown type.
    """
    if isinstance(columns, tuple) and all(isinstance(column, Column) for column in columns):
        parsed = columns
    elif not isinstance(columns, (str, Mapping)):
        raise UsageError(
            f"{columns!r} does not name columns",
            hint="write 'value:double,quality:int', or a mapping of name to type",
        )
    else:
        pairs = list(columns.items()) if isinstance(columns, Mapping) else _pairs_of(columns)
        parsed = tuple(Column(name, _column_type(name, kind)) for name, kind in pairs)
    names = [column.name for column in parsed]
    if not 1 <= len(parsed) <= COLUMNS_MAX:
        raise UsageError(
            f"a table has 1 to {COLUMNS_MAX} columns of values, not {len(parsed)}",
            hint="write name:type, more after commas, such as value:double,quality:int",
        )
    if len(set(names)) != len(names):
        raise UsageError(
            f"a column is named twice: {', '.join(names)}", hint="give each its own name"
        )
    return parsed


def _pairs_of(text: str) -> list[tuple[str, str]]:
    pairs = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, colon, kind = part.partition(":")
        if not colon:
            raise UsageError(
                f"the column {part!r} has no type", hint="write name:type, such as value:double"
            )
        pairs.append((name.strip(), kind.strip()))
    return pairs


def _column_type(name: str, kind: str | ColumnType) -> ColumnType:
    try:
        return ColumnType(str(kind).lower())
    except ValueError:
        raise UsageError(
            f"the column {name!r} has the unknown type {kind!r}",
            hint=f"use one of {', '.join(ColumnType)}",
        ) from None
