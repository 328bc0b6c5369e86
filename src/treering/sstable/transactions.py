"""Transaction logs: which of the SSTables in a folder are live.

Mirrors ``db/lifecycle/LogRecord`` and ``LogFile``, Cassandra 3.11 to 5.0: until a transaction is
committed what it adds does not count; from then on what it removes does not.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from treering.sstable.names import stem_of_prefix

LOG_BYTES_MAX: Final = 16 << 20

_RECORD = re.compile(
    r"(?P<kind>ADD|REMOVE|COMMIT|ABORT):\[(?P<path>[^,]*),?(?P<time>-?\d*),?(?P<files>-?\d*)\]"
    r"\[(?P<crc>\d{1,10})\]",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionLog:
    """What a transaction log says.

    Attributes:
        added: Stems of the SSTables that the transaction writes.
        removed: Stems of those that it replaces.
        is_committed: Whether it was committed.
        broken_lines: How many lines before the last could not be read.
    """

    added: frozenset[str]
    removed: frozenset[str]
    is_committed: bool
    broken_lines: int = 0

    @property
    def dead(self) -> frozenset[str]:
        """Stems of the SSTables that are not live because of this transaction."""
        return self.removed if self.is_committed else self.added


def parse_transaction_log(data: bytes) -> TransactionLog:
    """Return what a transaction log says.

    A line whose checksum is wrong counts as not written; the last one often is cut off, since the
    log is looked at while it is written.
    """
    added: set[str] = set()
    removed: set[str] = set()
    is_committed = False
    lines = data.decode("utf-8", "replace").split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    broken = 0
    for number, line in enumerate(lines, 1):
        record = _parse_record(line.strip())
        if record is None:
            broken += number < len(lines)
            continue
        kind, stem = record
        if kind == "COMMIT":
            is_committed = True
        elif stem is not None:
            (added if kind == "ADD" else removed).add(stem)
    return TransactionLog(
        added=frozenset(added),
        removed=frozenset(removed),
        is_committed=is_committed,
        broken_lines=broken,
    )


def dead_stems(logs: Iterable[TransactionLog]) -> frozenset[str]:
    """Return the stems of all SSTables that are not live because of a transaction."""
    return frozenset().union(*(log.dead for log in logs))


def record_checksum(kind: str, path: str, time_ms: int, files: int) -> int:
    """Return the checksum of a record: of path, kind, both halves of the time, and the count."""
    crc = zlib.crc32(kind.encode(), zlib.crc32(path.encode()))
    for part in (time_ms, time_ms >> 32, files):
        crc = zlib.crc32((part & 0xFFFFFFFF).to_bytes(4, "big"), crc)
    return crc


def _parse_record(line: str) -> tuple[str, str | None] | None:
    found = _RECORD.fullmatch(line)
    if found is None:
        return None
    kind = found["kind"].upper()
    time_ms, files = (int(text) if text.lstrip("-") else 0 for text in found.group("time", "files"))
    if record_checksum(kind, found["path"], time_ms, files) != int(found["crc"]):
        return None
    return kind, stem_of_prefix(found["path"])
