"""What ``nodetool`` prints, as facts: histograms, statistics and snapshots of tables.

Rules of this file: pure; columns are found by the words of the header, because releases order them
differently; NaN is None and never zero; lines that belong to nothing, such as notices and banners,
are passed over, but a text in which nothing is understood is refused.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from treering.doctor.facts import Percentiles, TableHistograms, TableStats
from treering.errors import CorruptDataError
from treering.sstable.facts import SnapshotFacts

TableName = tuple[str, str]
"""Keyspace and table."""

# What the histograms of the oldest release reach: where they overflowed, values lie above that.
PARTITION_BYTES_REACH: Final = 1_697_806_495_183
PARTITION_CELLS_REACH: Final = 2_395_318_855

_JSON_TRIES: Final = 20
_SHOWN: Final = 120
_TITLE: Final = re.compile(r"\s*(\w+)[/.](\w+) histograms\s*")
_COLUMNS: Final = {
    "percentile": "Percentile",
    "sstables_per_read": "SSTables",
    "read_latency_us": "Read Latency",
    "write_latency_us": "Write Latency",
    "partition_bytes": "Partition Size",
    "partition_cells": "Cell Count",
}
_COLUMN: Final = re.compile("|".join(f"(?P<{name}>{text})" for name, text in _COLUMNS.items()))
_ROWS: Final = {
    "50%": "p50",
    "75%": "p75",
    "95%": "p95",
    "98%": "p98",
    "99%": "p99",
    "min": "min",
    "max": "max",
}
_UNIT: Final = re.compile(r"\(([^)]*)\)")
_UNITS: Final = frozenset({"micros", "bytes", ""})
_OVERFLOW: Final = re.compile(
    r"(Row sizes|Partition sizes|Column counts|Cell counts) are larger .*"
)
_NUMBER: Final = re.compile(r"-?\d+")
# What Java prints for the largest long as a double. It is longer than its column is wide, so that
# nothing stands between it and the one before.
_LONG_MAX_TEXT: Final = re.compile(r"922337203685477\d{4}(?:[.,]0+)?")
_LONG_MAX: Final = 2**63 - 1
_SIZE: Final = re.compile(r"(\d+(?:[.,]\d+)?)\s*(bytes|[KMGTP]iB|[KMGTP]B)")
_SIZE_UNITS: Final = {
    "bytes": 1,
    **{f"{letter}iB": 1024**power for power, letter in enumerate("KMGTP", start=1)},
    **{f"{letter}B": 1024**power for power, letter in enumerate("KMGTP", start=1)},
}
_SNAPSHOT_COLUMNS: Final = (
    "Snapshot name",
    "Keyspace name",
    "Column family name",
    "True size",
    "Size on disk",
    "Creation time",
    "Expiration time",
    "Ephemeral",
)


def parse_tablehistograms(text: str) -> dict[TableName, TableHistograms]:
    """Return the histograms of each table in the output of ``nodetool tablehistograms``.

    Mirrors ``TableHistograms`` of 3.11 (SSTables, write and read latency first) and of 4.0 to 5.0
    (read and write latency first). Where a histogram overflowed, its percentiles are None and
    ``max`` is what the values are above.

    Args:
        text: What was printed, with the notices of the error stream or without.

    Raises:
        CorruptDataError: No table's histograms, or a header or row that is not understood.
    """
    found: dict[TableName, TableHistograms] = {}
    notices: list[str] = []
    lines = iter(text.splitlines())
    for line in lines:
        title = _TITLE.fullmatch(line)
        if title is None:
            notices.append(line)
            continue
        columns = _columns_of(next(lines, ""), name="/".join(title.groups()))
        values = _values_of(lines, columns)
        found[title[1], title[2]] = _histograms_of(values, reach=_reach_of(notices))
        notices = []
    if not found:
        raise _unreadable("tablehistograms", text)
    return found


def _columns_of(header: str, *, name: str) -> list[str]:
    """Return the columns in the order of a header; everything in it must be known."""
    columns = [match.lastgroup or "" for match in _COLUMN.finditer(header)]
    rest = _UNIT.sub("", _COLUMN.sub("", header)).strip()
    if rest or sorted(columns) != sorted(_COLUMNS) or columns[0] != "percentile":
        raise CorruptDataError(
            f"the histograms of {name} have the columns {_shown(header)!r}, which are not known",
            hint=f"known are {', '.join(_COLUMNS.values())}, in any order",
        )
    _check_units(header)
    return columns


def _check_units(line: str) -> None:
    unknown = set(_UNIT.findall(line)) - _UNITS
    if unknown:
        raise CorruptDataError(
            f"histograms in {_shown(', '.join(sorted(unknown)))}, which are not known",
            hint="known are micros and bytes",
        )


def _values_of(lines: Iterator[str], columns: list[str]) -> dict[str, dict[str, float | None]]:
    """Read rows until one of each kind was there; return the values by column and row."""
    values: dict[str, dict[str, float | None]] = {column: {} for column in columns[1:]}
    missing = set(_ROWS)
    for line in lines:
        words = _LONG_MAX_TEXT.sub(r" \g<0> ", line).split()
        if words and words[0].lower() in missing:
            if len(words) != len(columns):
                raise CorruptDataError(
                    f"a row of histograms has {len(words)} columns, not {len(columns)}: "
                    f"{_shown(line)!r}"
                )
            missing.discard(words[0].lower())
            for column, word in zip(columns[1:], words[1:], strict=True):
                values[column][_ROWS[words[0].lower()]] = _float_of(word)
        else:
            _check_units(line)
        if not missing:
            return values
        if _TITLE.fullmatch(line):
            break
    raise CorruptDataError(f"histograms without the rows {', '.join(sorted(missing))}")


def _float_of(word: str) -> float | None:
    # The decimal point is the server's locale's.
    try:
        value = float(word.replace(",", "."))
    except ValueError as error:
        raise CorruptDataError(f"{_shown(word)!r} in a histogram is not a number") from error
    return value if math.isfinite(value) else None


def _reach_of(notices: list[str]) -> dict[str, float]:
    """Return what the notices say that values of an overflowed histogram are larger than."""
    reach: dict[str, float] = {}
    for notice in notices:
        match = _OVERFLOW.search(notice)
        number = None if match is None else _NUMBER.search(match[0])
        if match is not None and number is not None:
            is_size = match[1] in ("Row sizes", "Partition sizes")
            reach["partition_bytes" if is_size else "partition_cells"] = float(number[0])
    return reach


def _histograms_of(
    values: Mapping[str, Mapping[str, float | None]], *, reach: Mapping[str, float]
) -> TableHistograms:
    least = {"partition_bytes": PARTITION_BYTES_REACH, "partition_cells": PARTITION_CELLS_REACH}
    columns: dict[str, Percentiles] = {}
    for column, rows in values.items():
        largest = rows["max"]
        is_over = largest is not None and largest >= _LONG_MAX
        if column in least and (is_over or column in reach):
            largest = float(reach.get(column, least[column]))
            rows = {name: None if name.startswith("p") else rows[name] for name in rows}
        columns[column] = Percentiles(**{**rows, "max": largest})
    return TableHistograms(**columns)


def parse_tablestats(text: str) -> dict[TableName, TableStats]:
    """Return the statistics of each table in the output of ``nodetool tablestats -F json``.

    Args:
        text: What was printed; lines before the JSON are passed over.

    Raises:
        CorruptDataError: There is no such JSON.
    """
    found: dict[TableName, TableStats] = {}
    facts = _json_in(text)
    for keyspace, part in facts.items():
        tables = part.get("tables") if isinstance(part, dict) else None
        for table, values in tables.items() if isinstance(tables, dict) else ():
            if isinstance(values, dict):
                found[keyspace, table] = _stats_of(values)
    if not found and "total_number_of_tables" not in facts:
        raise _unreadable("tablestats -F json", text)
    return found


def _json_in(text: str) -> dict[str, Any]:
    start, decoder = -1, json.JSONDecoder()
    for _ in range(_JSON_TRIES):
        start = text.find("{", start + 1)
        if start < 0:
            break
        try:
            value, _ = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            return value
    raise _unreadable("tablestats -F json", text)


def _stats_of(values: Mapping[str, Any]) -> TableStats:
    def whole(name: str) -> int | None:
        value = _number_of(values.get(name))
        return None if value is None else int(value)

    def real(name: str) -> float | None:
        value = _number_of(values.get(name))
        return None if value is None else float(value)

    largest = whole("compacted_partition_maximum_bytes")
    return TableStats(
        sstable_count=whole("sstable_count"),
        live_bytes=whole("space_used_live"),
        total_bytes=whole("space_used_total"),
        snapshot_bytes=whole("space_used_by_snapshots_total"),
        partition_bytes_max=None if largest is None else capped_partition_bytes(largest),
        partition_bytes_mean=whole("compacted_partition_mean_bytes"),
        partitions=whole("number_of_partitions_estimate"),
        live_cells_per_slice_max=real("maximum_live_cells_per_slice_last_five_minutes"),
        tombstones_per_slice_max=real("maximum_tombstones_per_slice_last_five_minutes"),
        live_cells_per_slice_mean=real("average_live_cells_per_slice_last_five_minutes"),
        tombstones_per_slice_mean=real("average_tombstones_per_slice_last_five_minutes"),
        droppable_ratio=real("droppable_tombstone_ratio"),
        repaired_percent=real("percent_repaired"),
        reads=whole("local_read_count"),
        writes=whole("local_write_count"),
        memtable_cells=whole("memtable_cell_count"),
    )


def capped_partition_bytes(value: int) -> int:
    """Return a largest partition, or what it is above where the server's histogram overflowed."""
    return min(value, PARTITION_BYTES_REACH)


def _number_of(value: object) -> int | float | None:
    """Return a number that is one, written out or not; None for NaN, -1 and what is no number."""
    if isinstance(value, str):
        value = _written_number(value.replace(",", "."))
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _written_number(text: str) -> int | float | None:
    for read in (int, float):
        with contextlib.suppress(ValueError):
            return read(text)
    return None


def parse_listsnapshots(text: str) -> tuple[SnapshotFacts, ...]:
    """Return the snapshots in the output of ``nodetool listsnapshots``.

    Sizes are as exact as they were printed: three digits. ``dropped_bytes`` is the true size, what
    only the snapshot keeps on disk.

    Raises:
        CorruptDataError: No header that is known, nor the sentence that there are none.
    """
    lines = text.splitlines()
    header = next((n for n, line in enumerate(lines) if line.startswith(_SNAPSHOT_COLUMNS[0])), -1)
    if header < 0:
        if "There are no snapshots" in text:
            return ()
        raise _unreadable("listsnapshots", text)
    starts = {name: at for name in _SNAPSHOT_COLUMNS if (at := lines[header].find(name)) >= 0}
    if len(starts.keys() & set(_SNAPSHOT_COLUMNS[:5])) < 5:
        raise _unreadable("listsnapshots", lines[header])
    found = (_snapshot_of(_cells_of(line, starts)) for line in lines[header + 1 :] if line.strip())
    return tuple(snapshot for snapshot in found if snapshot is not None)


def _cells_of(line: str, starts: Mapping[str, int]) -> dict[str, str]:
    ends = [*sorted(starts.values()), None]
    return {name: line[at : ends[ends.index(at) + 1]].strip() for name, at in starts.items()}


def _snapshot_of(cells: Mapping[str, str]) -> SnapshotFacts | None:
    true_size, on_disk = (_size_of(cells[name]) for name in ("True size", "Size on disk"))
    if true_size is None or on_disk is None:
        return None  # The line of the total, or what follows.
    return SnapshotFacts(
        name=cells["Snapshot name"],
        keyspace=cells["Keyspace name"],
        table=cells["Column family name"],
        table_id="",
        path="",
        bytes=on_disk,
        dropped_bytes=true_size,
        files=0,
        dropped_ids=(),
    )


def _size_of(text: str) -> int | None:
    match = _SIZE.fullmatch(text)
    return None if match is None else int(float(match[1].replace(",", ".")) * _SIZE_UNITS[match[2]])


def _unreadable(what: str, text: str) -> CorruptDataError:
    first = next((line for line in text.splitlines() if line.strip()), "")
    return CorruptDataError(
        f"this is not what nodetool {what} prints: {_shown(first)!r}"
        if first
        else f"nodetool {what} printed nothing",
        hint="does the command reach nodetool, and prints it nothing but what nodetool says?",
    )


def _shown(text: str) -> str:
    """Return the start of a text of others, in printable characters."""
    return "".join(char if char.isprintable() else " " for char in text.strip()[:_SHOWN])
