"""The store's folder: opening it, and making, listing and removing the folders of tables.

Rules of this file: what treering did not make is never touched; a folder is deleted only after it
was renamed out of the way, and only when the catalog has no table for it.
"""

from __future__ import annotations

import os
import secrets
import shutil
from contextlib import suppress
from pathlib import Path

from treering.core.table import TableSpec
from treering.engine.sqlite.catalog import Catalog, create_catalog
from treering.engine.sqlite.database import sync_folder
from treering.engine.sqlite.failures import translated
from treering.engine.sqlite.layout import (
    CATALOG_NAME,
    aside_name,
    is_aside,
    is_unfinished,
    parse_segment_name,
    parse_table_folder,
    table_folder,
)
from treering.errors import UsageError


def open_folder(folder: Path, *, create: bool) -> None:
    """Make sure that ``folder`` holds a store; make one in an empty or missing folder.

    Raises:
        UsageError: Something else is there, or nothing and ``create`` is False; nothing was
            touched.
        EngineError: The folder cannot be made.
    """
    names = _listed(folder)
    if names is not None and CATALOG_NAME in names:
        return
    others = sorted(name for name in names or () if not is_unfinished(name))
    # Racing makers: the catalog may have come after the listing.
    if others and not (folder / CATALOG_NAME).exists():
        shown = ", ".join(others[:3]) + (" …" if len(others) > 3 else "")
        raise UsageError(
            f"{folder} is not a treering store: it holds {shown}, and no {CATALOG_NAME}",
            hint="choose an empty folder, or one that treering made",
            path=str(folder),
        )
    if not create:
        raise UsageError(
            f"there is no treering store in {folder}",
            hint="check the path; creating a table makes the store",
            path=str(folder),
        )
    with translated(folder, "making"):
        if names is None:
            folder.mkdir(parents=True, exist_ok=True)
            sync_folder(folder.parent)
        create_catalog(folder / CATALOG_NAME)


def _listed(folder: Path) -> list[str] | None:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return None
    except NotADirectoryError as error:
        raise UsageError(
            f"{folder} is a file, not a folder",
            hint="give the folder that holds the store",
            path=str(folder),
        ) from error
    except PermissionError as error:
        raise UsageError(
            f"the folder {folder} cannot be read: permission denied",
            hint="use a folder that this user may read and write",
            path=str(folder),
        ) from error


def make_table_folder(folder: Path, spec: TableSpec) -> None:
    """Make the empty folder of a new table, durably."""
    path = table_folder(folder, spec)
    with translated(path, "making"):
        if path.exists():
            # Left by something that was never in the catalog under this number.
            put_aside(path)
        path.mkdir()
        sync_folder(folder)


def put_aside(path: Path) -> None:
    """Rename a table's folder, at once and durably, so that nobody uses it any more."""
    with translated(path, "removing"), suppress(FileNotFoundError):
        os.rename(path, path.with_name(aside_name(path.name, secrets.token_hex(4))))
        sync_folder(path.parent)


def sweep(folder: Path, catalog: Catalog) -> None:
    """Delete the folders of tables that were dropped, a crash in an earlier drop included."""
    with catalog.locked():
        there = catalog.incarnations()
        for name in os.listdir(folder):
            known = parse_table_folder(name)
            if known is None or not (folder / name).is_dir() or there.get(known[0]) == known[1]:
                continue
            # Only what some table of this store was: a stranger's folder stays.
            if catalog.was_there(*known):
                put_aside(folder / name)
    for name in os.listdir(folder):
        if is_aside(name):
            shutil.rmtree(folder / name, ignore_errors=True)


def segments_in(table: Path) -> list[int]:
    """Return the starts, in epoch seconds, of all segment files of a table, ascending."""
    try:
        names = os.listdir(table)
    except FileNotFoundError:
        return []
    starts_s = (parse_segment_name(name) for name in names)
    return sorted(start_s for start_s in starts_s if start_s is not None)


def litter_in(table: Path) -> list[Path]:
    """Return what crashes left in a table's folder: unfinished files, logs without their file."""
    try:
        names = set(os.listdir(table))
    except FileNotFoundError:
        return []
    return [
        table / name
        for name in sorted(names)
        if is_unfinished(name) or (name[-4:] in ("-wal", "-shm") and name[:-4] not in names)
    ]


def strangers_in(table: Path) -> list[str]:
    """Return the names in a table's folder that treering did not give."""
    try:
        names = set(os.listdir(table))
    except FileNotFoundError:
        return []
    return [
        name
        for name in sorted(names)
        if not is_unfinished(name)
        and parse_segment_name(name) is None
        and not (name[-4:] in ("-wal", "-shm") and parse_segment_name(name[:-4]) is not None)
    ]
