"""What nodetool printed on a node, as a bundle keeps it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from treering.doctor.facts import TableHistograms, TableStats
from treering.doctor.nodetool import TableName, parse_tablehistograms, parse_tablestats
from treering.errors import TreeringError

_VERSION: Final = re.compile(r"ReleaseVersion:\s*([0-9][0-9A-Za-z.+-]{0,30})")


@dataclass(slots=True)
class Told:
    """What nodetool said about a node's tables.

    Attributes:
        version: The server's version; empty where it is not known.
        stats: By keyspace and table.
        histograms: The same.
        problems: What could not be read, with the reason.
    """

    version: str = ""
    stats: dict[TableName, TableStats] = field(default_factory=dict)
    histograms: dict[TableName, TableHistograms] = field(default_factory=dict)
    problems: list[tuple[str, str]] = field(default_factory=list)


def told_by_nodetool(texts: Mapping[str, str]) -> Told:
    """Return what texts say, by the name of their file in a bundle."""
    told = Told()
    for name, text in sorted(texts.items()):
        try:
            if name == "tablestats.json":
                told.stats |= parse_tablestats(text)
            elif name.startswith("tablehistograms."):
                told.histograms |= parse_tablehistograms(text)
            elif name == "version.txt" and (found := _VERSION.search(text)) is not None:
                told.version = found[1]
        except TreeringError as error:
            told.problems.append((f"nodetool {name.partition('.')[0]}", str(error)))
    return told
