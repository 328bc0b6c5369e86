"""From data folders, keyspaces' and tables' folders or single files to facts of all SSTables.

Rules of this file: never leaves a target, follows no link in it and goes at most four folders
deep; the problems of one table leave the others alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from treering.sstable.facts import FileProblem, ProblemKind, SnapshotFacts, SSTableFacts
from treering.sstable.names import Place, parse_file_name, place_of
from treering.sstable_files import FolderFacts, Listing, list_folder, read_folder

DEPTH_MAX: Final = 3
"""A folder of data folders, data folders, keyspaces, tables."""

FOLDERS_MAX: Final = 100_000

Live = set[tuple[str, str]]  # An index's folder, or "", with a file's stem.


@dataclass(frozen=True, slots=True, kw_only=True)
class SSTableScan:
    """What was found in some folders.

    Attributes:
        facts: Of all live SSTables, in the order of their paths.
        problems: What could not be taken as what it should be.
        snapshots: Snapshots and incremental backups, each of one table.
        tables: Every table whose folder was seen, those without files too.
    """

    facts: tuple[SSTableFacts, ...]
    problems: tuple[FileProblem, ...]
    snapshots: tuple[SnapshotFacts, ...]
    tables: tuple[Place, ...]


def scan_sstables(
    targets: Iterable[Path | str],
    *,
    keyspace: str | None = None,
    table: str | None = None,
    needs_data: bool = True,
) -> SSTableScan:
    """Return the facts of all live SSTables below some folders.

    Args:
        targets: Data folders, keyspaces' or tables' folders, or components of single SSTables.
        keyspace: Only this keyspace.
        table: Only this table, with its secondary indexes.
        needs_data: Whether an SSTable without Data.db is incomplete; collected metadata has none.

    Cost:
        A listing of every folder, and two to four small reads for each SSTable.
    """
    scan = _Scan(keyspace=keyspace, table=table, needs_data=needs_data)
    for target in targets:
        scan.add_target(os.fspath(target))
    return SSTableScan(
        facts=tuple(scan.facts[path] for path in sorted(scan.facts)),
        problems=tuple(dict.fromkeys(scan.problems)),
        snapshots=tuple(scan.snapshots[path] for path in sorted(scan.snapshots)),
        tables=tuple(dict.fromkeys(scan.tables)),
    )


@dataclass(slots=True)
class _Scan:
    keyspace: str | None
    table: str | None
    needs_data: bool
    facts: dict[str, SSTableFacts] = field(default_factory=dict)
    problems: list[FileProblem] = field(default_factory=list)
    snapshots: dict[str, SnapshotFacts] = field(default_factory=dict)
    tables: list[Place] = field(default_factory=list)
    folders_seen: int = 0
    tables_seen: int = 0

    def add_target(self, target: str) -> None:
        path = os.path.realpath(target)
        before = self.tables_seen
        if os.path.isfile(path):
            self._add_file(path)
        elif os.path.isdir(path):
            problems_before = len(self.problems)
            self._walk(path, depth=0)
            if self.tables_seen == before and len(self.problems) == problems_before:
                self._note(path, "holds no SSTable and no table's folder: is it a data folder?")
        else:
            self._note(path, "does not exist, or may not be looked at", kind="unreadable")

    def _add_file(self, path: str) -> None:
        folder, name = os.path.split(path)
        parsed = parse_file_name(name)
        if parsed is None:
            self._note(path, "is no component of an SSTable")
            return
        found = read_folder(
            folder, _place(folder), only=(parsed[0].stem,), needs_data=self.needs_data
        )
        self._take(found)

    def _walk(self, folder: str, *, depth: int) -> None:
        self.folders_seen += 1
        if self.folders_seen > FOLDERS_MAX:
            if self.folders_seen == FOLDERS_MAX + 1:
                self._note(folder, f"and what follows: more than {FOLDERS_MAX:,} folders are there")
            return
        place = _place(folder)
        if place.table_id:
            self._add_table(folder, place)
            return
        try:
            listing = list_folder(folder)
        except FileNotFoundError:
            return
        except OSError as refused:
            reason = refused.strerror or str(refused)
            self._note(folder, f"cannot be listed: {reason}", kind="unreadable")
            return
        if listing.sets:  # A table's folder with another name, or files that were copied.
            self._add_table(folder, place)
        else:
            self._walk_below(folder, listing, depth)

    def _walk_below(self, folder: str, listing: Listing, depth: int) -> None:
        for name, message in listing.foreign:
            # Other files lie about in any folder; a link may be a table on another disk.
            if message.endswith("not followed"):
                self._note(os.path.join(folder, name), "is a symbolic link, which is not followed")
        if depth < DEPTH_MAX:
            for name in listing.folders:
                self._walk(os.path.join(folder, name), depth=depth + 1)

    def _add_table(self, folder: str, place: Place) -> None:
        self.tables_seen += 1
        if self.keyspace not in (None, place.keyspace):
            return
        if self.table is not None and place.table.partition(".")[0] != self.table:
            return
        self.tables.append(place)
        found = read_folder(folder, place, needs_data=self.needs_data)
        self._take(found)
        if place.kind != "live":
            return
        live: Live = {("", stem) for stem in found.live}
        for name in found.folders:
            if name.startswith("."):
                below = os.path.join(folder, name)
                index = read_folder(below, _place(below), needs_data=self.needs_data)
                self._take(index)
                live |= {(name, stem) for stem in index.live}
        self._add_copies(folder, found.folders, live)

    def _add_copies(self, folder: str, names: Iterable[str], live: Live) -> None:
        if "backups" in names:
            self._add_copy(os.path.join(folder, "backups"), live)
        if "snapshots" in names:
            snapshots = os.path.join(folder, "snapshots")
            for name in self._folders_of(snapshots):
                self._add_copy(os.path.join(snapshots, name), live)

    def _add_copy(self, folder: str, live: Live) -> None:
        place = _place(folder)
        sizes: dict[tuple[str, str], int] = {}
        other_bytes = 0
        for index in ("", *(name for name in self._folders_of(folder) if name.startswith("."))):
            try:
                listing = list_folder(os.path.join(folder, index) if index else folder)
            except OSError:
                continue  # The listing before has told it, or it is gone.
            other_bytes += listing.other_bytes
            for stem, files in listing.sets.items():
                sizes[index, stem] = files.bytes
        if place.kind == "backup" and not sizes:
            return  # An empty folder is made with every table.
        dropped = {key: count for key, count in sizes.items() if key not in live}
        self.snapshots[folder] = SnapshotFacts(
            name=place.snapshot or "backups",
            keyspace=place.keyspace,
            table=place.table,
            table_id=place.table_id,
            path=folder,
            bytes=sum(sizes.values()) + other_bytes,
            dropped_bytes=sum(dropped.values()),
            files=sum(not index for index, _ in sizes),
            dropped_ids=tuple(sorted(stem.split("-")[1] for index, stem in dropped if not index)),
            is_backup=place.kind == "backup",
        )

    def _folders_of(self, folder: str) -> list[str]:
        try:
            return list_folder(folder).folders
        except FileNotFoundError:
            return []
        except OSError as refused:
            self._note(
                folder, f"cannot be listed: {refused.strerror or refused}", kind="unreadable"
            )
            return []

    def _take(self, found: FolderFacts) -> None:
        self.facts.update((facts.path, facts) for facts in found.facts)
        self.problems += found.problems

    def _note(self, path: str, message: str, *, kind: ProblemKind = "foreign") -> None:
        name = os.path.basename(path) or path
        self.problems.append(FileProblem(path=path, id="", message=f"{name} {message}", kind=kind))


def _place(folder: str) -> Place:
    return place_of([part for part in folder.split(os.sep) if part])
