"""Whether a table's partitions end: is there event time in the clustering, and a bucket in the key?

Rules of this file: a bucket is told by its type, by what stands in the keys of the files, and last
by its name; where none of these can tell, the answer is that nobody knows, never that there is no
bucket.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from treering.core.units import DAY_S, HOUR_S, MINUTE_S, MONTH_S, WEEK_S, YEAR_S
from treering.doctor.checks.known import design_in_comment, files_of
from treering.doctor.facts import ColumnFacts, TableFacts
from treering.sstable.facts import SSTableFacts

Shape = Literal["bucketed", "unbucketed", "unknown", "not a series"]

_TIME_TYPES: Final = frozenset({"timestamp", "timeuuid"})
_NUMBER_TYPES: Final = frozenset({"bigint", "int", "varint"})
_TEXT_TYPES: Final = frozenset({"text", "ascii", "varchar"})
_TIME_NAMES: Final = """
    ts time timestamp datetime epoch when at millis ms us ns nanos micros seconds
"""
_BUCKET_NAMES: Final = """
    bin bucket date day days dt epoch era hour hours hr interval minute mon month months partition
    period quarter segment slice slot time ts week weeks window year years yr
"""
_TIME_WORDS: Final = frozenset(_TIME_NAMES.split())
_BUCKET_WORDS: Final = frozenset(_BUCKET_NAMES.split())
_WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_DATE: Final = re.compile(rb"(?:19|20)\d\d(?:[-/._]?(?:0[1-9]|1[0-2])|[-_]?W[0-5]\d)")
_Y: Final = rb"(?:19|20)\d\d"
_TEXT_WIDTHS: Final = (
    (re.compile(_Y + rb"[-/._]?\d\d[-/._]?\d\d[-T_ ]?[0-2]\d[-:]?[0-5]\d"), MINUTE_S),
    (re.compile(_Y + rb"[-/._]?\d\d[-/._]?\d\d[-T_ ]?[0-2]\d"), HOUR_S),
    (re.compile(_Y + rb"[-/._]?[01]\d[-/._]?[0-3]\d"), DAY_S),
    (re.compile(_Y + rb"[-_]?W[0-5]\d"), WEEK_S),
    (re.compile(_Y + rb"[-/._]?[01]\d"), MONTH_S),
)
_WORD_WIDTHS: Final = {
    "minute": MINUTE_S,
    "hour": HOUR_S,
    "day": DAY_S,
    "date": DAY_S,
    "week": WEEK_S,
    "month": MONTH_S,
    "year": YEAR_S,
}
_SAME_ENDS_S: Final = 62 * DAY_S
_SAMPLES_MAX: Final = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyShape:
    """What a table's key says.

    Attributes:
        shape: Whether partitions end.
        time: The clustering column of event time; None where there is none or nobody knows.
        why: What tells, in words.
        width_s: How long a bucket is, at the least; None where nobody knows.
    """

    shape: Shape
    time: ColumnFacts | None
    why: str
    width_s: int | None = None


def key_shape_of(facts: TableFacts) -> KeyShape:
    """Return whether the partitions of a table end, and what tells."""
    schema = facts.schema
    if schema is None or not schema.partition_key:
        return KeyShape(shape="unknown", time=None, why="the schema is not known")
    time = next((column for column in schema.clustering if _is_time(column)), None)
    if time is None and any(_may_be_time(column) for column in schema.clustering):
        why = "the name of the clustering column, a number, is not known"
        return KeyShape(shape="unknown", time=None, why=why)
    if time is None:
        return KeyShape(shape="not a series", time=None, why="no clustering column is a time")
    design = design_in_comment(facts)
    if design is not None:
        why = "the design in its comment has a bucket"
        return KeyShape(shape="bucketed", time=time, why=why, width_s=design.bucket.length_s)
    # Files do not name the columns of their key.
    has_names = all(column.name for column in schema.partition_key)
    are_names_known = schema.options is not None and has_names
    found = _bucket_of(facts, are_names_known=are_names_known)
    if found is not None:
        column, why = found
        return KeyShape(shape="bucketed", time=time, why=why, width_s=_width_s(facts, column))
    shape, why = _shape_of(facts, are_names_known=are_names_known)
    return KeyShape(shape=shape, time=time, why=why)


def _bucket_of(facts: TableFacts, *, are_names_known: bool) -> tuple[ColumnFacts, str] | None:
    assert facts.schema is not None
    for column in facts.schema.partition_key:
        if column.type in ("date", "timestamp"):
            return column, f"{column.label} is a {column.type}"
        if are_names_known and _is_bucket_name(column.name):
            return column, f"{column.name} is named like a bucket"
    dated = _dated_column(facts)
    return None if dated is None else (dated, f"{dated.label} holds times near to the write times")


def _shape_of(facts: TableFacts, *, are_names_known: bool) -> tuple[Shape, str]:
    assert facts.schema is not None
    key = facts.schema.partition_key
    if any(not _is_readable(column) for column in key):
        return "unknown", "the key may hold a bucket in a form that cannot be read"
    if are_names_known or any(True for _ in _keys_of(facts)):
        names = ", ".join(column.label for column in key)
        return "unbucketed", f"the key is {names}, and none of it is a time"
    if _has_same_ends(facts):
        return "unbucketed", "files months apart begin and end with the same partitions"
    return "unknown", "the names and values of the key are not known"


def _is_time(column: ColumnFacts) -> bool:
    if column.type in _TIME_TYPES:
        return True
    return column.type in _NUMBER_TYPES and bool(_words_of(column.name) & _TIME_WORDS)


def _may_be_time(column: ColumnFacts) -> bool:
    # Files do not name the columns of their key.
    return column.type in _NUMBER_TYPES and not column.name


def _is_bucket_name(name: str) -> bool:
    lower = name.lower()
    return bool(_words_of(name) & _BUCKET_WORDS) or "bucket" in lower or lower.startswith("yyyy")


def _is_readable(column: ColumnFacts) -> bool:
    # A blob may hold anything, and so may a tuple or a type of the user's.
    return column.type != "blob" and "<" not in column.type and column.type.isalnum()


def _words_of(name: str) -> set[str]:
    return {word.lower() for word in _WORDS.findall(name[:200])}


# What stands in the keys of the files


def _keys_of(facts: TableFacts) -> Iterator[tuple[SSTableFacts, tuple[bytes, ...]]]:
    """Yield the parts of the first and last keys of some files."""
    assert facts.schema is not None
    parts = len(facts.schema.partition_key)
    seen = 0
    for _, file in files_of(facts):
        for key in (file.first_key, file.last_key):
            values = None if key is None else split_key(key, parts)
            if values is not None and seen < _SAMPLES_MAX:
                seen += 1
                yield file, values


def split_key(key: bytes, parts: int) -> tuple[bytes, ...] | None:
    """Return the values of a serialized partition key; None where it has not that many.

    Mirrors ``CompositeType``: two bytes of length, the value, a zero byte.
    """
    if parts == 1:
        return (key,)
    values, at = [], 0
    for _ in range(parts):
        size = int.from_bytes(key[at : at + 2], "big")
        value = key[at + 2 : at + 2 + size]
        if len(key) < at + 3 + size:
            return None
        values.append(value)
        at += 3 + size
    return tuple(values) if at == len(key) else None


def _width_s(facts: TableFacts, column: ColumnFacts) -> int | None:
    """Return how long a bucket is by its type, its texts, or its name; None where none tells."""
    if column.type == "date":
        return DAY_S
    assert facts.schema is not None
    index = facts.schema.partition_key.index(column)
    if column.type in _TEXT_TYPES:
        for _, values in _keys_of(facts):
            for pattern, width_s in _TEXT_WIDTHS:
                if pattern.search(values[index][:2_000]):
                    return width_s
    return next((_WORD_WIDTHS[word] for word in _words_of(column.name) & _WORD_WIDTHS.keys()), None)


def _dated_column(facts: TableFacts) -> ColumnFacts | None:
    """Return the column of the key that holds times near to the write times in all keys seen."""
    assert facts.schema is not None
    sampled = list(_keys_of(facts))
    for index, column in enumerate(facts.schema.partition_key):
        if sampled and all(_is_dated(values[index], column, file) for file, values in sampled):
            return column
    return None


def _is_dated(value: bytes, column: ColumnFacts, file: SSTableFacts) -> bool:
    if column.type in _TEXT_TYPES:
        return _DATE.search(value[:2_000]) is not None
    if column.type not in _NUMBER_TYPES or file.max_write_us is None or len(value) > 16:
        return False
    number = int.from_bytes(value, "big", signed=True)
    write_s = file.max_write_us // 1_000_000
    near = range(write_s - 5 * YEAR_S, write_s + YEAR_S)
    return any(number * unit in near for unit in (1, 60, 3_600, DAY_S)) or (
        any(number // per_s in near for per_s in (10**3, 10**6, 10**9)) or _is_calendar(number)
    )


def _is_calendar(number: int) -> bool:
    """Return whether an integer reads as 202511, 20251120 or 2025112013."""
    text = str(number)
    return len(text) in (6, 8, 10) and _DATE.match(text.encode()) is not None


def _has_same_ends(facts: TableFacts) -> bool:
    """Return whether files written months apart begin and end with the same partitions."""
    spans: dict[tuple[str, int, int], tuple[int, int]] = {}
    for node, file in files_of(facts):
        if file.first_token is None or file.last_token is None:
            continue
        if file.min_write_us is None or file.max_write_us is None:
            continue
        ends = (node.node, file.first_token, file.last_token)
        low, high = spans.get(ends, (file.max_write_us, file.min_write_us))
        # The gap between files counts, not how long one file was written.
        spans[ends] = (min(low, file.max_write_us), max(high, file.min_write_us))
    return any(high - low > _SAME_ENDS_S * 1_000_000 for low, high in spans.values())
