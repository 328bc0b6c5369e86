"""The files of one node as the rule of whole-file drops sees them: who is due, who may go, when.

Rules of this file: what the memtable holds is left out of the rule and said beside it; a grace
that nobody knows is taken for Cassandra's default and told; without TWCS there is no window.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from treering.core.choices import GRACE_DEFAULT_S
from treering.core.expiry import EXPIRED_CHECK_S, gc_before_s, is_fully_expired
from treering.core.removable import TOKEN_MAX, TOKEN_MIN, Bools, FileLife, FileSet, RemovalRules
from treering.core.times import render_instant
from treering.core.twcs import TwcsOptions
from treering.doctor.checks.known import TWCS, UCS
from treering.doctor.checks.windows import state_of, twcs_of
from treering.doctor.facts import NodeFacts, SchemaFacts, TableFacts
from treering.doctor.finding import FileVerdict, Removable
from treering.sstable.facts import SSTableFacts

BLOCKED_BY_MAX: Final = 16
"""The most blockers that are named for one file; those that hold it longest."""

_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1
_DEFAULTS: Final = TwcsOptions()
_SECONDS: Final = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFiles:
    """The files of one table on one node, judged at the moment they were collected.

    Attributes:
        node: Where they are.
        files: The live files.
        lives: The same for the rule of removal.
        rules: The table's part in that rule.
        twcs: The table's windows; None without TWCS.
        check_s: How often the server looks for expired files.
        has_look: Whether it does; without, they leave when a compaction takes them.
        ttl_s: How long its rows live; None where none expires.
        is_expired: Which files are fully expired.
        is_removable: Which of them nothing blocks.
        removable_at_s: When each file is removable if nothing changes; None for never.
        overdue_max_s: How long past its due time a file may stay; None where that is derived.
    """

    node: NodeFacts
    files: tuple[SSTableFacts, ...]
    lives: FileSet
    rules: RemovalRules
    twcs: TwcsOptions | None
    check_s: int
    has_look: bool
    ttl_s: int | None
    is_expired: tuple[bool, ...]
    is_removable: tuple[bool, ...]
    removable_at_s: tuple[int | None, ...]
    overdue_max_s: int | None = None

    @property
    def now_s(self) -> int:
        """When the files were looked at, epoch seconds."""
        return self.node.collected_at_s

    @property
    def gc_before_s(self) -> int:
        """What expired before that second may be purged."""
        return gc_before_s(self.now_s, self.rules.gc_grace_s)

    @property
    def window_s(self) -> int:
        """Length of a window; 0 without TWCS."""
        return 0 if self.twcs is None else self.twcs.window_s

    @property
    def window(self) -> str:
        """A window as the options spell it; empty without TWCS."""
        return "" if self.twcs is None else self.twcs.text

    @property
    def data_bytes(self) -> int:
        """Bytes of all files, as far as they are known."""
        return sum(file.data_bytes or 0 for file in self.files)

    def seconds_of(self, write_time: int) -> int:
        """Return a write time as epoch seconds, in the unit that the table declares."""
        return (self.twcs or _DEFAULTS).seconds_of(write_time)

    def span_s(self, file: SSTableFacts) -> int:
        """Return from its oldest to its newest write time, no later than now."""
        if file.min_write_us is None or file.max_write_us is None:
            return 0
        newest_s = min(self.seconds_of(file.max_write_us), self.now_s)
        return max(newest_s - self.seconds_of(file.min_write_us), 0)

    def due_s(self, index: int) -> int | None:
        """Return when a file could go if it had no blocker: its last expiry and grace.

        Rows with a shorter TTL than the others' do not make a file due before its window is. None
        where a cell never expires.
        """
        file = self.files[index]
        if file.max_deletion_s is None:
            return None
        last_s = file.max_deletion_s
        if self.ttl_s is not None and file.max_write_us is not None:
            newest_s = self.seconds_of(file.max_write_us)
            if newest_s <= self.now_s:
                last_s = max(last_s, newest_s + self.ttl_s)
        return last_s + self.rules.gc_grace_s + 1

    def slack_s(self) -> int:
        """Return the delay past its due time that a file has in a healthy table.

        Its own window has to end and so has the next, whose first file may hold its last writes;
        then comes the next look for expired files. A twentieth of the TTL is no harm either.
        """
        if self.overdue_max_s is not None:
            return self.overdue_max_s
        return max(2 * self.window_s, (self.ttl_s or 0) // 20) + self.check_s

    def bytes_of(self, indices: Sequence[int]) -> int:
        """Return the bytes of some files."""
        return sum(self.files[index].data_bytes or 0 for index in indices)

    def mask(self, indices: Sequence[int]) -> Bools:
        """Return some files as the rule of removal takes them."""
        mask = np.zeros(len(self.files), dtype=np.bool_)
        mask[list(indices)] = True
        return mask


def lives_of(files: Sequence[SSTableFacts]) -> FileSet:
    """Return files as the rule of removal takes them.

    A file whose tokens are not known covers the ring; one without data blocks nothing.
    """
    return FileSet([life_of(file) for file in files])


def life_of(file: SSTableFacts) -> FileLife:
    """Return one file as the rule of removal takes it."""
    has_data = file.min_write_us is not None and file.max_write_us is not None
    has_tokens = file.first_token is not None and file.last_token is not None
    first = file.first_token if has_tokens and file.first_token is not None else TOKEN_MIN
    last = file.last_token if has_tokens and file.last_token is not None else TOKEN_MAX
    oldest = file.min_write_us if has_data and file.min_write_us is not None else _LONG_MAX
    newest = file.max_write_us if has_data and file.max_write_us is not None else _LONG_MAX
    return FileLife(
        # Damaged metadata may have them the wrong way round.
        min_write_us=min(oldest, newest),
        max_write_us=max(oldest, newest) if has_data else _LONG_MAX,
        max_deletion_s=file.max_deletion_s,
        first_token=min(first, last),
        last_token=max(first, last),
        instance=state_of(file),
        is_repaired=file.repaired_at_ms is not None and file.pending_repair is None,
    )


def ttl_s_of(facts: TableFacts) -> int | None:
    """Return how long rows live: the table's default TTL, or the longest of any file.

    None where nothing expires.
    """
    default_s = None if facts.schema is None else facts.schema.default_ttl_s
    if default_s:
        return default_s
    ttls_s = [file.max_ttl_s for node in facts.nodes for file in node.files or ()]
    return max(ttls_s, default=0) or None


def rules_of(schema: SchemaFacts | None) -> RemovalRules:
    """Return what a table's options say to the rule of removal."""
    compaction = (None if schema is None else schema.compaction) or {}
    grace_s = None if schema is None else schema.gc_grace_s
    options = twcs_of(schema)
    return RemovalRules(
        gc_grace_s=GRACE_DEFAULT_S if grace_s is None else max(grace_s, 0),
        only_purge_repaired=is_true(compaction.get("only_purge_repaired_tombstones")),
        ignores_overlaps=options is not None and options.ignores_overlaps,
    )


def check_s_of(schema: SchemaFacts | None) -> int:
    """Return how often a server looks for expired files; Cassandra's default where none says.

    TWCS and, in 5.0, UCS take the option of the same name.
    """
    options = twcs_of(schema)
    if options is not None:
        return options.expired_check_s
    compaction = (None if schema is None else schema.compaction) or {}
    text = compaction.get("expired_sstable_check_frequency_seconds", "").strip()
    return int(text) if _SECONDS.fullmatch(text) else EXPIRED_CHECK_S


def is_true(option: str | None) -> bool:
    """Return whether a compaction option is switched on."""
    return (option or "").strip().lower() == "true"


def judge_nodes(facts: TableFacts, *, overdue_max_s: int | None = None) -> tuple[NodeFiles, ...]:
    """Return every node whose files are known, judged."""
    rules, ttl_s = rules_of(facts.schema), ttl_s_of(facts)
    twcs = twcs_of(facts.schema)
    strategy = None if facts.schema is None else facts.schema.strategy
    found = []
    for node in facts.nodes:
        if node.files is None:
            continue
        lives = lives_of(node.files)
        before_s = gc_before_s(node.collected_at_s, rules.gc_grace_s)
        found.append(
            NodeFiles(
                node=node,
                files=node.files,
                lives=lives,
                rules=rules,
                twcs=twcs,
                check_s=check_s_of(facts.schema),
                has_look=strategy is None or strategy in (TWCS, UCS),
                ttl_s=ttl_s,
                is_expired=tuple(is_fully_expired(f.max_deletion_s, before_s) for f in node.files),
                is_removable=tuple(lives.removable(rules, node.collected_at_s).tolist()),
                removable_at_s=lives.removable_at_s(rules),
                overdue_max_s=overdue_max_s,
            )
        )
    return tuple(found)


def verdicts_of_node(files: NodeFiles) -> tuple[FileVerdict, ...]:
    """Return what becomes of each file, by window and then by age."""
    verdicts = [_verdict_of(files, index) for index in range(len(files.files))]
    return tuple(
        sorted(
            verdicts,
            key=lambda verdict: (
                verdict.window_start_s is not None,
                verdict.window_start_s or 0,
                verdict.max_write_us or 0,
                verdict.path,
            ),
        )
    )


def _verdict_of(files: NodeFiles, index: int) -> FileVerdict:
    file = files.files[index]
    start_s = None
    if files.twcs is not None and file.max_write_us is not None:
        start_s = files.twcs.window_start_s(file.max_write_us)
    blockers = files.lives.blockers_of(index, files.rules, files.now_s, limit=BLOCKED_BY_MAX)
    return FileVerdict(
        node=files.node.node,
        path=file.path,
        window_start_s=start_s,
        window="" if start_s is None else _window_text(start_s, files.window_s),
        min_write_us=file.min_write_us,
        max_write_us=file.max_write_us,
        max_deletion_s=file.max_deletion_s,
        data_bytes=file.data_bytes,
        is_fully_expired=files.is_expired[index],
        removable=_removable(files, index),
        blocked_by=tuple(files.files[blocker].path for blocker in blockers),
        removable_at_s=files.removable_at_s[index],
    )


def _removable(files: NodeFiles, index: int) -> Removable:
    if not files.is_removable[index]:
        return "no"
    if files.node.is_memtable_known or files.rules.ignores_overlaps:
        return "yes"
    return "unless the memtable holds older writes"


def _window_text(start_s: int, window_s: int) -> str:
    return f"{render_instant(start_s)} to {render_instant(start_s + window_s)}"
