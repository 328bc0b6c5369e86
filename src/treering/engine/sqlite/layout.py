"""Where things lie in a store's folder: names only, no I/O.

::

    <folder>/catalog.db                          tables and their series
    <folder>/<table>/2025-11-20T000000Z.db       one segment of event time, by its start in UTC
    <folder>/<table>.2/…                         the second table of that name, after a drop
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np

from treering.core.table import TableSpec

CATALOG_NAME: Final = "catalog.db"
SUFFIX: Final = ".db"
SIDECARS: Final = ("-wal", "-shm")
"""What SQLite keeps beside a database file that is in use."""

_SEGMENT: Final = re.compile(r"^(\d{4}-\d\d-\d\d)T(\d\d)(\d\d)(\d\d)Z\.db$")
_FOLDER: Final = re.compile(r"^([a-z][a-z0-9_]{0,47})(?:\.([1-9]\d*))?$")
_ASIDE: Final = ".dropped."
_UNFINISHED: Final = ".new."


def segment_name(start_s: int) -> str:
    """Return the file name of the segment that starts at ``start_s``, epoch seconds.

    >>> segment_name(1_763_596_800)
    '2025-11-20T000000Z.db'
    """
    return str(np.datetime64(start_s, "s")).replace(":", "") + "Z" + SUFFIX


def parse_segment_name(name: str) -> int | None:
    """Return the start of the segment of that file name, in epoch seconds; None for others."""
    match = _SEGMENT.fullmatch(name)
    if match is None:
        return None
    date, hour, minute, second = match.groups()
    try:
        start = np.datetime64(f"{date}T{hour}:{minute}:{second}", "s")
    except ValueError:
        return None
    return int(start.astype(np.int64))


def table_folder(folder: Path, spec: TableSpec) -> Path:
    """Return the folder of a table's segments; each incarnation has its own."""
    return _table_folder(folder, spec.name, spec.incarnation)


def segment_path(folder: Path, spec: TableSpec, start_s: int) -> Path:
    """Return the file of the table's segment that starts at ``start_s``, epoch seconds."""
    return _segment_path(table_folder(folder, spec), start_s)


# To put paths together is a fifth of a small read.
@lru_cache(maxsize=1_024)
def _table_folder(folder: Path, name: str, incarnation: int) -> Path:
    return folder / (name if incarnation <= 1 else f"{name}.{incarnation}")


@lru_cache(maxsize=4_096)
def _segment_path(folder: Path, start_s: int) -> Path:
    return folder / segment_name(start_s)


def parse_table_folder(name: str) -> tuple[str, int] | None:
    """Return the table and the incarnation that a folder's name stands for; None for others."""
    match = _FOLDER.fullmatch(name)
    return None if match is None else (match[1], int(match[2] or 1))


def aside_name(name: str, token: str) -> str:
    """Return the name under which a dropped folder waits to be deleted."""
    return f"{_ASIDE}{name}.{token}"


def is_aside(name: str) -> bool:
    """Return whether a folder of that name waits to be deleted."""
    return name.startswith(_ASIDE)


def unfinished_name(name: str, token: str) -> str:
    """Return the name of a file that is being made and becomes ``name`` when it is whole."""
    return f"{_UNFINISHED}{name}.{token}"


def is_unfinished(name: str) -> bool:
    """Return whether a file of that name was being made, or belongs to one that was."""
    return name.startswith(_UNFINISHED)


def sidecars(path: Path) -> tuple[Path, ...]:
    """Return the paths of what SQLite may keep beside ``path``."""
    return tuple(path.with_name(path.name + suffix) for suffix in SIDECARS)
