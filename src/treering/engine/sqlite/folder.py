"""The store's folder: opening it, and making, listing and removing the folders of tables.

Rules of this file: what treering did not make is never touched; a folder is deleted only after it
was renamed out of the way, and only when the catalog has no table for it.
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from treering.core.table import TableSpec
from treering.engine.sqlite.catalog import Catalog, create_catalog
from treering.engine.sqlite.database import sync_folder
from treering.engine.sqlite.failures import translated
from treering.engine.sqlite.layout import (
    CATALOG_NAME,
    SIDECARS,
    aside_name,
    is_aside,
    is_unfinished,
    parse_segment_name,
    parse_table_folder,
    table_folder,
)
from treering.errors import UsageError

# Making a file takes milliseconds: what is unfinished after an hour was left by a crash.
_LITTER_AGE_S: Final = 3_600


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
        file = next(path for path in (folder, *folder.parents) if path.is_file() or path.exists())
        raise UsageError(
            f"{file} is a file, not a folder",
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
        for name in _names_in(folder):
            known = parse_table_folder(name)
            if known is None or not (folder / name).is_dir() or there.get(known[0]) == known[1]:
                continue
            # Only what some table of this store was: a stranger's folder stays.
            if catalog.was_there(*known):
                put_aside(folder / name)
    for name in _names_in(folder):
        if is_aside(name):
            shutil.rmtree(folder / name, ignore_errors=True)
    remove_litter(folder, catalog)


def _names_in(folder: Path) -> set[str]:
    with translated(folder, "listing"):
        try:
            return set(os.listdir(folder))
        except FileNotFoundError:
            return set()


def segments_in(table: Path) -> list[int]:
    """Return the starts, in epoch seconds, of all segment files of a table, ascending."""
    starts_s = (parse_segment_name(name) for name in _names_in(table))
    return sorted(start_s for start_s in starts_s if start_s is not None)


def remove_litter(folder: Path, catalog: Catalog) -> None:
    """Delete what crashes left long ago: unfinished files, and logs without their file."""
    if not _litter_in(folder):
        return
    oldest_s = time.time() - _LITTER_AGE_S
    # Under the lock no file is being named, so a log without its file has none to come.
    with catalog.locked():
        for path in _litter_in(folder):
            with translated(path, "removing"), suppress(FileNotFoundError):
                if path.stat().st_mtime < oldest_s:
                    path.unlink()


def _litter_in(folder: Path) -> list[Path]:
    names = _names_in(folder)
    return [
        folder / name
        for name in sorted(names)
        if is_unfinished(name) or (_is_sidecar(name) and name[:-4] not in names)
    ]


def _is_sidecar(name: str) -> bool:
    return name[-4:] in SIDECARS and parse_segment_name(name[:-4]) is not None


def strangers_in(table: Path) -> list[str]:
    """Return the names in a table's folder that treering did not give."""
    return [
        name
        for name in sorted(_names_in(table))
        if not is_unfinished(name) and parse_segment_name(name) is None and not _is_sidecar(name)
    ]
