"""What a check says: a finding has a stable id, evidence, cause, consequence, cure and cost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

from treering.doctor.facts import SchemaSource

Severity = Literal["notice", "warning", "critical"]
"""How bad: worth knowing, costs or will cost, loses data or fills disks."""

Status = Literal["ok", "notice", "warning", "critical", "unknown"]
"""Of a check: its worst finding, ok without any, unknown without facts."""

CheckId = Literal["partitions", "sstables", "drops", "disk"]
"""Bounded partitions; few SSTables a read; whole files really go; disk comes back in time."""

SEVERITIES: Final[tuple[Severity, ...]] = get_args(Severity)
CHECK_IDS: Final[tuple[CheckId, ...]] = get_args(CheckId)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a cure costs.

    Attributes:
        text: In words.
        rewritten_bytes: Bytes that compaction reads and writes again; 0 for none.
        duration_s: At the node's compaction throughput; None where it is not known.
        headroom_bytes: Free disk that it needs meanwhile.
    """

    text: str
    rewritten_bytes: int = 0
    duration_s: float | None = None
    headroom_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong, or worth knowing.

    Attributes:
        id: Stable, in kebab case; ``docs/findings/<id>.md`` explains it.
        check: Which of the four checks it belongs to.
        severity: How bad it is.
        table: Keyspace and table.
        node: The node it was seen on; empty where it is the table's.
        evidence: One line with the numbers that were seen.
        cause: Why it is so.
        consequence: What follows if nothing is done.
        cure: What to do, in words, its risk included.
        commands: The exact CQL or nodetool commands of the cure, in order.
        cost: What the cure costs.
        facts: The numbers, for programs.
        impact_bytes: How much disk hangs on it, for ranking.
    """

    id: str
    check: CheckId
    severity: Severity
    table: str
    node: str = ""
    evidence: str
    cause: str
    consequence: str
    cure: str
    commands: tuple[str, ...] = ()
    cost: Cost
    facts: dict[str, Any] = field(default_factory=dict)
    impact_bytes: int = 0


Removable = Literal["yes", "no", "unless the memtable holds older writes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileVerdict:
    """What becomes of one file.

    Attributes:
        node: Where it is.
        path: Its Data.db.
        window_start_s: Start of its TWCS window, epoch seconds; None without TWCS.
        window: The window, for people; empty without TWCS.
        min_write_us: Oldest write time inside.
        max_write_us: Newest write time inside.
        max_deletion_s: When its last cell expires, epoch seconds; None for never.
        data_bytes: Its size; None where it is not known.
        is_fully_expired: Whether every cell expired before gc_before.
        removable: Whether the server may drop it whole now.
        blocked_by: Paths of the files that keep it.
        removable_at_s: When the server may drop it if nothing changes; None for never.
    """

    node: str
    path: str
    window_start_s: int | None
    window: str
    min_write_us: int | None
    max_write_us: int | None
    max_deletion_s: int | None
    data_bytes: int | None
    is_fully_expired: bool
    removable: Removable
    blocked_by: tuple[str, ...]
    removable_at_s: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What one check says about one table.

    Attributes:
        check: Which one.
        is_known: Whether there were facts to judge by.
        findings: What it found.
        summary: One line with the number that it stands on.
        unknown: Why it is not known; empty where it is.
    """

    check: CheckId
    is_known: bool
    findings: tuple[Finding, ...]
    summary: str
    unknown: str = ""

    @property
    def status(self) -> Status:
        """The worst finding, ok without any; without facts unknown, but for a graver finding."""
        worst = worst_of(finding.severity for finding in self.findings)
        if not self.is_known and worst in (None, "notice"):
            return "unknown"
        return worst or "ok"


def worst_of(severities: Iterable[Severity]) -> Severity | None:
    """Return the worst of some severities; None for none."""
    return max(severities, key=SEVERITIES.index, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReport:
    """What the doctor says about one table.

    Attributes:
        table: Keyspace and table.
        checks: All four, in their order.
        findings: All findings, worst first.
        files: What becomes of each file, by node and window.
        missing: What could not be seen, in words.
        unseen: Of that, the files that may be the table's and could not be read.
        schema_from: The snapshot that its options are from; None where they are of now.
    """

    table: str
    checks: tuple[Checked, ...]
    findings: tuple[Finding, ...]
    files: tuple[FileVerdict, ...]
    missing: tuple[str, ...]
    unseen: tuple[str, ...] = ()
    schema_from: SchemaSource | None = None

    @property
    def is_healthy(self) -> bool | None:
        """True with four oks; False where anything was found; None: nothing was, not all known."""
        if any(check.findings for check in self.checks):
            return False
        return None if any(not check.is_known for check in self.checks) else True
