"""TWCS's windows, as its options and the files say.

Rules of this file: as in ``TimeWindowCompactionStrategy``, 3.11 to 5.0, the newest window that
there is counts as the current one, whatever the clock says, and files merge within one state.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from treering.core.expiry import is_fully_expired
from treering.core.twcs import TwcsOptions, parse_twcs_options
from treering.core.units import HOUR_S
from treering.core.window import Window
from treering.doctor.checks.known import TWCS
from treering.doctor.facts import NodeFacts, SchemaFacts
from treering.errors import UsageError
from treering.sstable.facts import SSTableFacts

SETTLED_S: Final = HOUR_S
"""How long compaction has to merge a window before its files count as left."""

RECENT_WINDOWS: Final = 2
"""Past windows that may still wait for compaction, or for the last flush into them."""

Group = tuple[int, str]
"""A window's start and the files' state: only files of one group are ever merged."""


def twcs_of(schema: SchemaFacts | None) -> TwcsOptions | None:
    """Return a table's TWCS options; None without TWCS, or with options that no server takes."""
    compaction = None if schema is None else schema.compaction
    if schema is None or compaction is None or schema.strategy != TWCS:
        return None
    try:
        return parse_twcs_options(compaction)
    except UsageError:
        return None


def window_of(schema: SchemaFacts | None, over_s: int) -> Window | None:
    """Return a table's window, counted over a length of time; None as :func:`twcs_of`."""
    options = twcs_of(schema)
    if options is None:
        return None
    return Window(unit=options.unit, size=options.size, count=1).over(max(over_s, 1))


def state_of(file: SSTableFacts) -> str:
    """Return what keeps files from being merged: state of repair, and the folder of the data."""
    if file.pending_repair is not None:
        repair = f"pending repair {file.pending_repair}"
    elif file.is_transient:
        repair = "transient"
    else:
        repair = "unrepaired" if file.repaired_at_ms is None else "repaired"
    return f"{repair} in {PurePath(file.path).parent}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeWindows:
    """The files of one node by window and state; those that have fully expired are left out."""

    node: NodeFacts
    groups: dict[Group, tuple[SSTableFacts, ...]]

    @property
    def current_s(self) -> int | None:
        """The start of the newest window; None without files."""
        return max((start for start, _ in self.groups), default=None)

    @property
    def starts(self) -> tuple[int, ...]:
        """The starts of all windows, rising."""
        return tuple(sorted({start for start, _ in self.groups}))

    def unmerged(self) -> dict[Group, tuple[SSTableFacts, ...]]:
        """Return past windows that compaction has had the time to merge, and did not."""
        settled = set(self.starts[: -1 - RECENT_WINDOWS])
        return {
            group: files
            for group, files in self.groups.items()
            if group[0] in settled and len(files) > 1 and self._is_settled(files)
        }

    def _is_settled(self, files: tuple[SSTableFacts, ...]) -> bool:
        newest = max((file.mtime_s for file in files if file.mtime_s is not None), default=None)
        return newest is None or newest <= self.node.collected_at_s - SETTLED_S


def windows_of(
    node: NodeFacts, schema: SchemaFacts | None, *, gc_before_s: int | None
) -> NodeWindows | None:
    """Return a node's files by window; None without TWCS, or where nobody looked for files.

    Args:
        node: The node.
        schema: The table's options.
        gc_before_s: Files whose every cell expired before are left out; None for none.
    """
    options = twcs_of(schema)
    if options is None or node.files is None:
        return None
    groups: dict[Group, list[SSTableFacts]] = defaultdict(list)
    for file in node.files:
        gone = gc_before_s is not None and is_fully_expired(file.max_deletion_s, gc_before_s)
        if file.max_write_us is not None and not gone:
            groups[options.window_start_s(file.max_write_us), state_of(file)].append(file)
    return NodeWindows(node=node, groups={key: tuple(found) for key, found in groups.items()})
