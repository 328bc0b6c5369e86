"""What of a table was seen at all: whatever was not may hide what is wrong, so no check is ok then.

Rules of this file: a fact that is missing is a reason with what would bring it; a file that lies
about and is none of Cassandra's hides nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

from treering.core.units import render_count
from treering.doctor.facts import NodeFacts, SchemaFacts, TableFacts
from treering.sstable.facts import FileProblem
from treering.sstable.names import place_of

BRINGS_SCHEMA: Final = "the cluster's URL, or --schema with what DESCRIBE TABLE prints"
"""What tells keys, columns and options: from the command line, or in the bundle of the script."""

BRINGS_OPTIONS: Final = f"{BRINGS_SCHEMA}, or --ttl, --gc-grace and --window"

_COPIES: Final = ("snapshots", "backups")


def hides_data(problem: FileProblem) -> bool:
    """Return whether what could not be read may be a live SSTable, or say which ones are live."""
    return not is_of_copies(problem) and (problem.kind != "foreign" or bool(problem.id))


def is_of_copies(problem: FileProblem) -> bool:
    """Return whether what could not be read belongs to snapshots or backups."""
    parts = [part for part in PurePath(problem.path).parts if part != "/"]
    return parts[-1:] in [[name] for name in _COPIES] or place_of(parts).kind != "live"


def unread_of(facts: TableFacts) -> tuple[FileProblem, ...]:
    """Return the files of a table that could not be read, on all nodes."""
    return tuple(one for node in facts.nodes for one in node.problems if hides_data(one))


def why_files_hide(facts: TableFacts, harm: str) -> list[str]:
    """Return the reasons why the files that were seen are not all files of their nodes.

    Args:
        facts: The table.
        harm: What an unseen file may do, in words that follow "which" and "the rest".
    """
    reasons = []
    if unread := unread_of(facts):
        reasons.append(f"{render_count(len(unread), 'file')} could not be read, which {harm}")
    if partial := [node for node in facts.nodes if node.is_partial]:
        count = sum(len(node.files or ()) for node in partial)
        seen = render_count(count, "single file was", "single files were")
        reasons.append(f"{seen} looked at, and the rest {harm}: give the table's folder")
    return reasons


def lacking_options(schema: SchemaFacts | None, *names: str) -> list[str]:
    """Return which of some options of a table are not known."""
    if schema is None:
        return list(names)
    return [
        name
        for name in names
        if (schema.compaction if name == "compaction" else schema.integer(name)) is None
    ]


def why_no_table(facts: TableFacts) -> list[str]:
    """Return the reason why nobody can tell that the table is there; none where one can."""
    if facts.schema is not None or any(node.files or node.stats for node in facts.nodes):
        return []
    if any(node.files is None for node in facts.nodes) or unread_of(facts):
        return []
    return [f"its folder is empty, as that of a dropped table is: give {BRINGS_SCHEMA}"]


def listed(names: Sequence[str]) -> str:
    """Return some names: three at most, and how many more."""
    more = len(names) - 3
    return ", ".join(names[:3]) + (f" and {more} more" if more > 0 else "")


def of_nodes(facts: TableFacts, nodes: Sequence[NodeFacts]) -> str:
    """Return of which nodes something is said; empty where it is all of them."""
    if len(nodes) == len(facts.nodes):
        return ""
    return f" on {listed([node.node for node in nodes])}"
