"""What several checks derive from the facts of a table: design, lifetime, server, hint window.

Rules of this file: nothing is assumed where nothing is known; a setting that cannot be read counts
as one that is not there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from treering.core.ddl import parse_comment
from treering.core.design import Design
from treering.core.expiry import HINT_WINDOW_S, refused_from_s
from treering.core.server import ServerVersion, StorageMode
from treering.core.units import MINUTE_S
from treering.doctor.facts import NodeFacts, TableFacts
from treering.errors import SchemaMismatchError, TreeringError
from treering.sstable.facts import SSTableFacts

TWCS: Final = "TimeWindowCompactionStrategy"
UCS: Final = "UnifiedCompactionStrategy"
STCS: Final = "SizeTieredCompactionStrategy"
LCS: Final = "LeveledCompactionStrategy"
DTCS: Final = "DateTieredCompactionStrategy"

_ASSUMED: Final = (ServerVersion(4, 1), StorageMode.CASSANDRA_4)
_UNSIGNED_FORMATS: Final = frozenset({"oa", "da"})
_PATCH: Final = re.compile(r"\d{1,2}\.\d{1,2}(\.\d{1,3})?")
_HINT_SETTING: Final = re.compile(r"\s*(\d{1,12})\s*(ms|s|m|h|d)?\s*")
_UNIT_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_RATE_SETTING: Final = re.compile(r"\s*(\d{1,9}(?:\.\d{1,6})?)\s*(MiB/s|KiB/s|B/s)?\s*")
_RATE_B: Final = {"MiB/s": 1_048_576, "KiB/s": 1_024, "B/s": 1}


def files_of(facts: TableFacts) -> Iterator[tuple[NodeFacts, SSTableFacts]]:
    """Yield every live file that is known, with its node."""
    for node in facts.nodes:
        for file in node.files or ():
            yield node, file


def now_s_of(facts: TableFacts) -> int:
    """Return when the newest facts of a table were collected, epoch seconds."""
    return max((node.collected_at_s for node in facts.nodes), default=0)


def live_bytes_of(facts: TableFacts) -> int:
    """Return the bytes of the live files of all nodes, as far as they are known."""
    return sum(_node_bytes(node) for node in facts.nodes)


def _node_bytes(node: NodeFacts) -> int:
    if node.files is not None:
        return sum(file.data_bytes or 0 for file in node.files)
    return 0 if node.stats is None else node.stats.live_bytes or 0


def design_in_comment(facts: TableFacts) -> Design | None:
    """Return the design in a table's comment; None where there is none that can be read."""
    try:
        return None if facts.schema is None else parse_comment(facts.schema.comment)
    except TreeringError:
        return None


def comment_problem(facts: TableFacts) -> str:
    """Return why the design in a table's comment cannot be read; empty where it can, or is none.

    A comment that a newer treering wrote is no problem of the table.
    """
    try:
        if facts.schema is not None:
            parse_comment(facts.schema.comment)
    except SchemaMismatchError:
        return ""
    except TreeringError as error:
        return str(error)
    return ""


def ttl_s_of(facts: TableFacts) -> int | None:
    """Return how long readings live: the default TTL, or the longest where all files expire.

    None where readings live for ever, or nobody knows.
    """
    default_s = None if facts.schema is None else facts.schema.default_ttl_s
    if default_s is not None and default_s > 0:
        return default_s
    files = [file for _, file in files_of(facts) if file.rows]
    if not files or any(file.max_deletion_s is None for file in files):
        return None
    return max(file.max_ttl_s for file in files) or None


def version_of(node: NodeFacts) -> ServerVersion | None:
    """Return a node's version; None where it is not known, or newer than the known rules."""
    match = _PATCH.match(node.version.strip())
    try:
        return None if match is None else ServerVersion.from_text(match[0])
    except TreeringError:
        return None


def major_of(facts: TableFacts) -> int | None:
    """Return the lowest major version of a table's nodes; None where no node tells."""
    found = (_PATCH.match(node.version.strip()) for node in facts.nodes)
    return min((int(match[0].partition(".")[0]) for match in found if match), default=None)


def refused_from_s_of(facts: TableFacts, ttl_s: int) -> int:
    """Return from when on writes with a TTL pass the expiry cap: on the first node that refuses."""
    servers = [server_of(node) for node in facts.nodes] or [_ASSUMED]
    return min(refused_from_s(ttl_s, version, mode) for version, mode in servers)


def server_of(node: NodeFacts) -> tuple[ServerVersion, StorageMode]:
    """Return version and storage mode; where nobody tells, what the files' format says."""
    match = _PATCH.match(node.version.strip())
    mode = node.settings.get("storage_compatibility_mode", "").strip().upper()
    is_newer = match is not None and version_of(node) is None
    # Files of these formats exist only where the server left the old counters behind.
    if is_newer or any(file.version in _UNSIGNED_FORMATS for file in node.files or ()):
        return ServerVersion(5, 0), StorageMode.NONE
    known = mode in set(StorageMode)
    # The setting is null where it is not set, and that means CASSANDRA_4.
    return version_of(node) or _ASSUMED[0], StorageMode(mode) if known else _ASSUMED[1]


def hint_window_s_of(facts: TableFacts) -> int | None:
    """Return the longest time that a node keeps hints; None where no node keeps any."""
    windows = [_node_hints_s(node) for node in facts.nodes]
    return max((window for window in windows if window is not None), default=None)


def _node_hints_s(node: NodeFacts) -> int | None:
    if node.settings.get("hinted_handoff_enabled", "").strip().lower() == "false":
        return None
    for name in ("max_hint_window", "max_hint_window_in_ms"):
        match = _HINT_SETTING.fullmatch(node.settings.get(name, ""))
        if match is not None:
            return int(int(match[1]) * _UNIT_S[match[2] or "ms"])
    return HINT_WINDOW_S


def throughput_of(facts: TableFacts, default: int) -> int:
    """Return the lowest compaction throughput of the nodes that tell it, in bytes a second."""
    found = (_node_throughput(node) for node in facts.nodes)
    return min((rate for rate in found if rate), default=default)


def _node_throughput(node: NodeFacts) -> int | None:
    for name in ("compaction_throughput", "compaction_throughput_mb_per_sec"):
        match = _RATE_SETTING.fullmatch(node.settings.get(name, ""))
        if match is not None:
            return int(float(match[1]) * _RATE_B[match[2] or "MiB/s"])
    return None


def has_deletes(facts: TableFacts) -> bool:
    """Return whether a file of a table holds deletes of partitions or rows, as far as files tell.

    Files before those of format ``oa`` do not say it. There a drop time that is earlier than any
    row can expire is that of a delete.
    """
    return any(_holds_deletes(file) for _, file in files_of(facts))


def _holds_deletes(file: SSTableFacts) -> bool:
    if file.has_partition_deletions is not None:
        return file.has_partition_deletions
    if file.min_deletion_s is None or file.min_write_us is None or not file.min_ttl_s:
        return False
    # Where the coordinator's clock is behind the writer's, rows expire a little early.
    first_s = file.min_write_us // 1_000_000 + file.min_ttl_s
    return file.min_deletion_s + MINUTE_S < first_s
