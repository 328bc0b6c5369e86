"""What sstablemetadata prints, read whatever its version, and compared with facts.

Its versions print a number and its comment in either order; the number is taken wherever it
stands, and a printed date never counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from treering.sstable.facts import EstimatedHistogram, SSTableFacts

NEVER = {(1 << 31) - 1, (1 << 63) - 1, (1 << 32) - 1}
OLD_TOOLS = ("me", "na")
"""Versions whose own tool does not print what every later one does."""

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_DATE = re.compile(r"^\d\d/\d\d/\d{4} \d\d:\d\d:\d\d")
_LEADING = re.compile(r"\s*(-?\d+)(?:\s|$)(?!\s*\(-?\d+\)$)")
_IN_BRACKETS = re.compile(r"\((-?\d+)\)")
_BUCKET = re.compile(r"^\s+(\d+)(?:\s+\(.*?\))?\s*\|\s+(\d+)\s")
_OLD_DROP_TIME = re.compile(r"^(\d+):\s+(\d+)")
_PERCENTILE = re.compile(r"^\s+(\d\d)th\s+(\d+)")
_POSITION = re.compile(r"segmentId=(-?\d+), position=(\d+)")

PRINTED: dict[str, Callable[[bytes], str]] = {
    "LongType": lambda raw: str(int.from_bytes(raw, "big", signed=True)),
    "TimestampType": lambda raw: f"{np.datetime64(int.from_bytes(raw, 'big', signed=True), 'ms')}Z",
    "UTF8Type": lambda raw: raw.decode(),
}


@dataclass
class ToolText:
    """What was printed of one file."""

    path: str
    fields: dict[str, str] = field(default_factory=dict)
    buckets: dict[str, dict[int, int]] = field(default_factory=dict)
    quantiles: dict[str, dict[int, int]] = field(default_factory=dict)


def parse_tool(text: str) -> dict[str, ToolText]:
    """Return what was printed, by the path of each Data.db."""
    found: dict[str, ToolText] = {}
    section = ""
    for line in _COLOURS.sub("", text).splitlines():
        if line.startswith("SSTable: "):
            path = f"{line.removeprefix('SSTable: ').strip()}-Data.db"
            current = found[path] = ToolText(path)
            continue
        if not found:
            continue
        if (bucket := _BUCKET.match(line)) or (bucket := _OLD_DROP_TIME.match(line)):
            current.buckets.setdefault(section, {})[int(bucket[1])] = int(bucket[2])
        elif percentile := _PERCENTILE.match(line):
            current.quantiles.setdefault(section, {})[int(percentile[1])] = int(percentile[2])
        elif line.startswith("Count  "):
            section = "old table"
        elif section == "old table" and len(cells := line.split()) in (2, 3) and cells[0].isdigit():
            _take_old_row(current, line)
        elif not line.startswith(" "):
            label, _, value = line.partition(":")
            section = label
            current.fields[label] = value.strip()
    return found


def _take_old_row(current: ToolText, line: str) -> None:
    """Take a row of the old form: a bound, how many partitions, how many of so many cells."""
    bound, sizes, *cells = (int(cell) for cell in line.split())
    if sizes:
        current.buckets.setdefault("Partition Size", {})[bound] = sizes
    if cells and cells[0]:
        current.buckets.setdefault("Column Count", {})[bound] = cells[0]


def number_in(text: str) -> int:
    """Return the integer of a line that may also have words or a date."""
    found = _LEADING.match(_DATE.sub("", text)) or _IN_BRACKETS.search(text)
    assert found is not None, f"a number in {text!r}"
    return int(found[1])


def deletion_in(text: str) -> int | None:
    """Return a deletion time; None for never."""
    number = number_in(text)
    return None if number in NEVER else number


def filled(histogram: EstimatedHistogram) -> dict[int, int]:
    """Return the bounds of a histogram that have counts."""
    pairs = zip(histogram.offsets.tolist(), histogram.counts.tolist(), strict=True)
    return {bound: count for bound, count in pairs if count}


def check_against_tool(facts: SSTableFacts, tool: ToolText) -> None:
    """Assert that every field is what the tool printed."""
    said = tool.fields
    same = {
        "Partitioner": facts.partitioner,
        "IsTransient": str(facts.is_transient).lower(),
        "KeyType": facts.key_type,
        "ClusteringTypes": f"[{', '.join(facts.clustering_types)}]",
        "Originating host id": facts.host_id or "--",
        "Pending repair": facts.pending_repair or "--",
    }
    for label, value in same.items():
        if label in said or facts.version not in OLD_TOOLS:
            assert said[label] == value, label
    numbers = {
        "Minimum timestamp": facts.min_write_us,
        "Maximum timestamp": facts.max_write_us,
        "TTL min": facts.min_ttl_s,
        "TTL max": facts.max_ttl_s,
        "SSTable Level": facts.level,
        "Repaired at": facts.repaired_at_ms or 0,
        "totalColumnsSet": facts.columns_set,
        "totalRows": facts.rows,
    }
    for label, number in numbers.items():
        assert number_in(said[label]) == number, label
    assert deletion_in(said["SSTable min local deletion time"]) == facts.min_deletion_s
    assert deletion_in(said["SSTable max local deletion time"]) == facts.max_deletion_s
    assert float(said["Bloom Filter FP chance"]) == facts.bloom_fp_chance
    for label, columns in (
        ("StaticColumns", facts.static_columns),
        ("RegularColumns", facts.regular_columns),
    ):
        # The tool prints them in the order of a hash table.
        assert sorted(filter(None, said[label].strip("{}").split(", "))) == sorted(
            map(":".join, columns)
        )
    _check_clustering(facts, said)
    _check_compression(facts, said)
    _check_tokens(facts, said)
    _check_histograms(facts, tool)
    positions = [(int(s), int(p)) for s, p in _POSITION.findall(said["Replay positions covered"])]
    assert positions == [(end.segment, end.position) for pair in facts.commit_log for end in pair]


def _check_clustering(facts: SSTableFacts, said: dict[str, str]) -> None:
    if "Covered clusterings" not in said:
        return
    start, end = facts.clustering_start, facts.clustering_end
    if start is None or end is None:
        assert said["Covered clusterings"] == "ALL"
        return
    names = [
        name.rpartition("(")[2].rpartition(".")[2].strip("()") for name in facts.clustering_types
    ]
    if not set(names) <= PRINTED.keys():
        return
    left, right = (
        ":".join(
            "null" if value is None else PRINTED[name](value)
            for name, value in zip(names, bound.values, strict=False)
        )
        for bound in (start, end)
    )
    opens = "[" if start.kind == "INCL_START_BOUND" else "("
    closes = "]" if end.kind == "INCL_END_BOUND" else ")"
    assert said["Covered clusterings"] == f"{opens}{left}, {right}{closes}"


def _check_compression(facts: SSTableFacts, said: dict[str, str]) -> None:
    if facts.compressor is None:
        assert said["Compressor"] == "-"
        assert float(said.get("Compression ratio", "-1.0")) == -1.0
        assert facts.compression_ratio is None
    else:
        assert said["Compressor"].rpartition(".")[2] == facts.compressor
        assert float(said["Compression ratio"]) == facts.compression_ratio


def _check_tokens(facts: SSTableFacts, said: dict[str, str]) -> None:
    if facts.partitioner.endswith("Murmur3Partitioner"):
        for label, token in (("First token", facts.first_token), ("Last token", facts.last_token)):
            assert said[label].split()[0] == str(token)
    coverage = said.get("Local token space coverage", "NaN")
    if coverage == "NaN":
        assert facts.token_space_coverage is None
    else:
        assert float(coverage) == facts.token_space_coverage


def _check_histograms(facts: SSTableFacts, tool: ToolText) -> None:
    for label, histogram in (
        ("Partition Size", facts.partition_bytes),
        ("Column Count", facts.partition_cells),
    ):
        assert tool.buckets.get(label, {}) == filled(histogram), label
        for percent, value in tool.quantiles.get(label, {}).items():
            assert histogram.quantile(percent / 100) == value, label
    drop_times = zip(
        facts.deletions.points_s.tolist(), facts.deletions.counts.tolist(), strict=True
    )
    printed = tool.buckets.get("Estimated tombstone drop times", {})
    assert printed == {int(point): count for point, count in drop_times}


def check_ratio(facts: SSTableFacts, tool: ToolText, gc_before_s: range) -> None:
    """Assert that the printed ratio is ours, to the last digit, at one of these seconds."""
    printed = float(tool.fields["Estimated droppable tombstones"])
    assert printed in {facts.droppable_ratio(second) for second in gc_before_s}
