"""What the names of files and folders in a data directory say.

Rules of this file: names only, nothing is opened. A table's folder is ``<table>-<32 hex>`` in its
keyspace's; below it ``.<index>`` is another table, ``snapshots/<name>`` and ``backups`` are copies.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

DATA: Final = "Data.db"
STATISTICS: Final = "Statistics.db"
COMPRESSION: Final = "CompressionInfo.db"
CRC: Final = "CRC.db"
SUMMARY: Final = "Summary.db"
TOC: Final = "TOC.txt"

SCHEMA_FILE: Final = "schema.cql"
"""What Cassandra writes into each snapshot of a table: its CREATE TABLE."""

MANIFEST_FILE: Final = "manifest.json"
"""Beside it: the files of the snapshot, and from 4.1 on when it was taken."""

NAME_CHARS_MAX: Final = 255

_FILE = re.compile(
    r"(?P<version>[a-z]{2})-(?P<id>\d{1,19}|[0-9a-z]{4}_[0-9a-z]{4}_[0-9a-z]{18})"
    r"-(?P<format>[a-z]{2,8})-(?P<component>[\w.+-]+)",
    re.ASCII,
)
# Before 2.2 a name began with keyspace and table and did not have the format.
_OLD_FILE = re.compile(
    r"\w+-[\w.]+-(?:tmp(?:link)?-)?(?P<version>[a-z]{2})-(?P<id>\d{1,19})-(?P<component>[\w.]+)",
    re.ASCII,
)
_TABLE_FOLDER = re.compile(r"(?P<table>\w{1,222})-(?P<id>[0-9a-f]{32})", re.ASCII)
_TRANSACTION = re.compile(
    r"(?:(?:[a-z]+-)?[a-z]{2}_)?txn_(?P<operation>[a-z_]+)_(?P<id>[0-9a-f-]{36})\.log", re.ASCII
)
_SET_PREFIX = re.compile(rf"{_FILE.pattern.partition('-(?P<component>')[0]}(?:-|$)", re.ASCII)

PlaceKind = Literal["live", "snapshot", "backup"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptor:
    """What the name of each component of an SSTable has in common.

    Attributes:
        version: Two letters.
        format: ``big``, ``bti``, or whatever the name says.
        id: A number or a time-based id.
    """

    version: str
    format: str
    id: str

    @property
    def stem(self) -> str:
        """What the components' names begin with, without the last dash."""
        return f"{self.version}-{self.id}-{self.format}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where in a data directory a folder lies.

    Attributes:
        keyspace: Empty where the path does not say.
        table: ``table.index`` for the files of a secondary index.
        table_id: 32 hexadecimal digits, or empty.
        kind: Whether files there are in use, or copies.
        snapshot: The snapshot's name; empty elsewhere.
    """

    keyspace: str
    table: str
    table_id: str
    kind: PlaceKind = "live"
    snapshot: str = ""


def parse_file_name(name: str) -> tuple[Descriptor, str] | None:
    """Return descriptor and component of a file's name; None for a name of another kind.

    >>> parse_file_name("nb-12-big-Data.db")
    (Descriptor(version='nb', format='big', id='12'), 'Data.db')
    """
    if len(name) > NAME_CHARS_MAX:
        return None
    if (found := _FILE.fullmatch(name)) is not None:
        version, id, format, component = found.groups()
        return Descriptor(version=version, format=format, id=id), component
    if (found := _OLD_FILE.fullmatch(name)) is not None:
        version, id, component = found.groups()
        return Descriptor(version=version, format="big", id=id), component
    return None


def stem_of_prefix(path: str) -> str | None:
    """Return the stem of a path that a transaction log names, such as ``/data/…/nb-3-big-``."""
    found = _SET_PREFIX.match(path.replace("\\", "/").rpartition("/")[2])
    return found[0].removesuffix("-") if found is not None else None


def is_transaction_log(name: str) -> bool:
    """Return whether a file's name is that of a transaction log."""
    return len(name) <= NAME_CHARS_MAX and _TRANSACTION.fullmatch(name) is not None


def table_of_folder(name: str) -> tuple[str, str] | None:
    """Return table and id that a folder's name says; None for another kind of folder."""
    found = _TABLE_FOLDER.fullmatch(name)
    return (found["table"], found["id"]) if found is not None else None


def place_of(folders: Sequence[str]) -> Place:
    """Return where a folder lies.

    Args:
        folders: The parts of its path, outermost first, as many as are known.
    """
    for depth in range(len(folders) - 1, -1, -1):
        if (named := table_of_folder(folders[depth])) is not None:
            keyspace = folders[depth - 1] if depth else ""
            return _below(keyspace, named, tuple(folders[depth + 1 :]))
    return Place(keyspace="", table=folders[-1] if folders else "", table_id="")


def _below(keyspace: str, named: tuple[str, str], below: tuple[str, ...]) -> Place:
    table, table_id = named
    kind: PlaceKind = "live"
    snapshot = ""
    if below[:1] == ("snapshots",) and len(below) > 1:
        kind, snapshot, below = "snapshot", below[1], below[2:]
    elif below[:1] == ("backups",):
        kind, below = "backup", below[1:]
    if below and below[0].startswith("."):
        table = f"{table}{below[0]}"
    return Place(keyspace=keyspace, table=table, table_id=table_id, kind=kind, snapshot=snapshot)


def parse_toc(text: str) -> frozenset[str]:
    """Return the components that a TOC.txt lists."""
    return frozenset(line.strip() for line in text.splitlines() if line.strip())
