"""One folder of SSTables: lists it, reads the small components, hands their bytes to ``sstable``.

Rules of this file: only looks; follows no symbolic link; opens files by their names in the open
folder, takes bytes of regular ones alone and a bounded part of each; where the folder changes
under way it is read again, and a file that has vanished is no problem.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from treering.errors import CorruptDataError, FormatError
from treering.sstable.assemble import Keys, SSTableParts, facts_of
from treering.sstable.compression import (
    HEAD_BYTES,
    SUMMARY_KEYS_BYTES_MAX,
    CompressionInfo,
    check_data_length,
    parse_compression_info,
    parse_summary_keys,
    summary_keys_at,
)
from treering.sstable.facts import FileProblem, ProblemKind, SSTableFacts
from treering.sstable.names import (
    COMPRESSION,
    CRC,
    DATA,
    MANIFEST_FILE,
    SCHEMA_FILE,
    STATISTICS,
    SUMMARY,
    TOC,
    Descriptor,
    Place,
    is_transaction_log,
    parse_file_name,
    parse_toc,
)
from treering.sstable.statistics import STATISTICS_BYTES_MAX
from treering.sstable.transactions import (
    LOG_BYTES_MAX,
    TransactionLog,
    dead_stems,
    parse_transaction_log,
)
from treering.sstable.version import FormatVersion, version_of

_TRIES: Final = 5
"""How often a folder that changes under way is read; the last reading counts."""

_TOC_BYTES_MAX: Final = 64 << 10
_NEEDED: Final = frozenset({DATA, STATISTICS, COMPRESSION, "Index.db", "Partitions.db", "Rows.db"})
"""Components without which Cassandra does not open a file; it makes the others anew."""

_COMPLETE_BIG: Final = frozenset({DATA, STATISTICS, "Index.db"})
_COMPLETE_BTI: Final = frozenset({DATA, STATISTICS, "Partitions.db", "Rows.db"})

_IGNORED: Final = frozenset({MANIFEST_FILE, SCHEMA_FILE})
_OPEN_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFolder:
    """A folder that is open: what is in it is found by name, without its path's being walked.

    Attributes:
        path: Its path.
        fd: Its descriptor.
    """

    path: str
    fd: int


@dataclass(slots=True)
class FileSet:
    """The components of one SSTable, as a folder lists them."""

    descriptor: Descriptor
    sizes: dict[str, int] = field(default_factory=dict)
    mtime_s: int | None = None
    oddity: str = ""

    @property
    def bytes(self) -> int:
        """The size of all components."""
        return sum(self.sizes.values())

    def add(self, component: str, state: os.stat_result) -> None:
        """Take a component in."""
        self.sizes[component] = state.st_size
        if component == DATA:
            self.mtime_s = int(state.st_mtime)


@dataclass(slots=True)
class Listing:
    """What lies in a folder."""

    names: set[str] = field(default_factory=set)
    sets: dict[str, FileSet] = field(default_factory=dict)
    logs: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    foreign: list[tuple[str, str]] = field(default_factory=list)
    other_bytes: int = 0


@dataclass(slots=True)
class FolderFacts:
    """What was found in a folder.

    Attributes:
        facts: Of the live SSTables.
        problems: One for each file, or set of files, that is not what it should be.
        live: Stems of the SSTables that no transaction log calls dead.
        folders: Names of the folders in it.
    """

    facts: list[SSTableFacts] = field(default_factory=list)
    problems: list[FileProblem] = field(default_factory=list)
    live: set[str] = field(default_factory=set)
    folders: list[str] = field(default_factory=list)


@contextmanager
def open_folder(path: str) -> Iterator[OpenFolder]:
    """Open a folder, which must not be a link.

    Raises:
        OSError: It is none, or may not be opened.
    """
    fd = os.open(path, _FOLDER_FLAGS)
    try:
        yield OpenFolder(path=path, fd=fd)
    finally:
        os.close(fd)


def list_folder(path: str) -> Listing:
    """List a folder without following links.

    Raises:
        OSError: It cannot be listed.
    """
    with open_folder(path) as folder:
        return _listing_of(folder)


def _listing_of(folder: OpenFolder) -> Listing:
    found = Listing()
    with os.scandir(folder.fd) as entries:
        for entry in entries:
            name = entry.name
            found.names.add(name)
            try:
                state = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            stem, _, component = name.rpartition("-")
            files = found.sets.get(stem)
            is_usual = stat.S_ISREG(state.st_mode) and not component.endswith(".tmp")
            if files is not None and is_usual:
                files.add(component, state)
            else:
                _take_entry(found, name, state)
    found.folders.sort()
    return found


def _take_entry(found: Listing, name: str, state: os.stat_result) -> None:
    if stat.S_ISDIR(state.st_mode):
        found.folders.append(name)
        return
    oddity = ""
    if stat.S_ISLNK(state.st_mode):
        oddity = "is a symbolic link, which is not followed"
    elif not stat.S_ISREG(state.st_mode):
        oddity = "is no regular file"
    stem, _, component = name.rpartition("-")
    files = found.sets.get(stem)
    if files is None and (parsed := parse_file_name(name)) is not None:
        descriptor, component = parsed
        files = found.sets.get(descriptor.stem)
        if files is None and not component.endswith(".tmp"):
            files = found.sets[descriptor.stem] = FileSet(descriptor)
    if files is not None and not component.endswith(".tmp"):
        files.add(component, state)
        if oddity:
            files.oddity = f"{name} {oddity}"
        return
    found.other_bytes += state.st_size
    if oddity:
        found.foreign.append((name, f"{name} {oddity}"))
    elif is_transaction_log(name):
        found.logs.append(name)
    elif name not in _IGNORED and not name.endswith(".tmp"):
        found.foreign.append((name, f"{name} is no file of Cassandra"))


def read_folder(
    path: str, place: Place, *, only: Collection[str] = (), needs_data: bool = True
) -> FolderFacts:
    """Return the facts of all live SSTables in a folder, and its problems.

    Args:
        path: Its path.
        place: What its path says.
        only: Stems of the SSTables that are wanted; empty for all.
        needs_data: Whether a set without Data.db is incomplete.

    Cost:
        A listing, and two to four small reads for each SSTable.
    """
    found = FolderFacts()
    for _ in range(_TRIES):
        found = FolderFacts()
        try:
            with open_folder(path) as folder:
                listing = _listing_of(folder)
                _read_listing(found, folder, place, listing, only=only, needs_data=needs_data)
            if listing.names == set(os.listdir(path)):
                return found
        except FileNotFoundError:
            return FolderFacts()  # The table was dropped meanwhile.
        except OSError as refused:
            found.problems.append(_unreadable(path, "", refused))
            return found
    # It never stood still: what seemed incomplete may just be under way.
    found.problems = [problem for problem in found.problems if problem.kind != "incomplete"]
    return found


def _read_listing(
    found: FolderFacts,
    folder: OpenFolder,
    place: Place,
    listing: Listing,
    *,
    only: Collection[str],
    needs_data: bool,
) -> None:
    found.folders = listing.folders
    if not only:
        for name, message in sorted(listing.foreign):
            found.problems.append(_problem(os.path.join(folder.path, name), "", message, "foreign"))
    dead = _read_logs(found, folder, listing.logs)
    for stem in sorted(listing.sets):
        if stem in dead:
            continue
        found.live.add(stem)
        if only and stem not in only:
            continue
        result = read_set(folder, place, listing.sets[stem], needs_data=needs_data)
        if isinstance(result, SSTableFacts):
            found.facts.append(result)
        elif result is not None:
            found.problems.append(result)


def _read_logs(found: FolderFacts, folder: OpenFolder, names: Collection[str]) -> frozenset[str]:
    logs: list[TransactionLog] = []
    for name in sorted(names):
        path = os.path.join(folder.path, name)
        try:
            log = parse_transaction_log(read_bounded(folder, name, bytes_max=LOG_BYTES_MAX))
        except FileNotFoundError:
            continue  # The transaction ended; the folder has changed and is read again.
        except OSError as refused:
            found.problems.append(_unreadable(path, "", refused))
            continue
        except CorruptDataError as wrong:
            found.problems.append(_problem(path, "", str(wrong), "corrupt"))
            continue
        if log.broken_lines:
            message = f"{name} is corrupt: {log.broken_lines} of its lines have no right checksum"
            found.problems.append(_problem(path, "", message, "corrupt"))
        logs.append(log)
    return dead_stems(logs)


def read_set(
    folder: OpenFolder, place: Place, files: FileSet, *, needs_data: bool = True
) -> SSTableFacts | FileProblem | None:
    """Return the facts of one SSTable, what is wrong with it, or None where it has vanished."""
    descriptor = files.descriptor
    base = f"{descriptor.stem}-"
    path = f"{folder.path}/{base}{DATA}"
    try:
        version = version_of(descriptor.version, descriptor.format)
        if files.oddity:
            return _problem(path, descriptor.id, files.oddity, "foreign")
        if missing := _missing(folder, files, needs_data=needs_data):
            return _problem(path, descriptor.id, missing, "incomplete")
        parts = SSTableParts(
            path=path,
            id=descriptor.id,
            version=version,
            place=place,
            statistics=read_bounded(
                folder,
                base + STATISTICS,
                bytes_max=STATISTICS_BYTES_MAX,
                listed_bytes=files.sizes[STATISTICS],
            ),
            compression=_read_compression(folder, files, version),
            keys=_read_keys(folder, files) if version.keys_in_summary else None,
            data_bytes=files.sizes.get(DATA),
            disk_bytes=files.bytes if DATA in files.sizes else None,
            mtime_s=files.mtime_s,
        )
        return facts_of(parts)
    except FileNotFoundError:
        return None
    except OSError as refused:
        return _unreadable(path, descriptor.id, refused)
    except FormatError as old:
        return _problem(path, descriptor.id, str(old), "unsupported")
    except CorruptDataError as wrong:
        message = f"{descriptor.stem}: {wrong}"
        return _problem(path, descriptor.id, message, "corrupt")


def read_bounded(folder: OpenFolder, name: str, *, bytes_max: int, listed_bytes: int = 0) -> bytes:
    """Return all of a regular file.

    Args:
        folder: Where it is.
        name: Its name.
        bytes_max: How long it may be.
        listed_bytes: How long it was when it was seen to be a regular file; 0 where nobody looked.

    Raises:
        CorruptDataError: It is larger than ``bytes_max``.
        OSError: It cannot be read, or is not a regular file.
    """
    fd = _open(folder, name)
    try:
        if 0 < listed_bytes <= bytes_max:
            data = os.pread(fd, listed_bytes + 1, 0)
            if len(data) == listed_bytes:  # It ends where it did, so it is the file that was seen.
                return data
        file_bytes = _file_bytes(fd, name)
        if file_bytes > bytes_max:
            raise CorruptDataError(
                f"{name} has {file_bytes:,} bytes, at most {bytes_max:,} are read"
            )
        return _read(fd, 0, file_bytes)
    finally:
        os.close(fd)


def _open(folder: OpenFolder, name: str) -> int:
    return os.open(name, _OPEN_FLAGS, dir_fd=folder.fd)


def _file_bytes(fd: int, name: str) -> int:
    """Return the size of an open file, which must be a regular one."""
    state = os.fstat(fd)
    if not stat.S_ISREG(state.st_mode):
        raise OSError(f"{name} is no regular file")
    return state.st_size


def _read(fd: int, start: int, count: int) -> bytes:
    """Return so many bytes from a place on, fewer at the file's end."""
    data = os.pread(fd, count, start)
    while len(data) < count and (more := os.pread(fd, count - len(data), start + len(data))):
        data += more
    return data


def _read_head(fd: int, name: str, listed_bytes: int) -> tuple[bytes, int]:
    """Return the first bytes of an open file, all of a short one, and the file's size."""
    if listed_bytes < HEAD_BYTES:
        head = os.pread(fd, listed_bytes + 1, 0)
        if len(head) == listed_bytes:  # As in read_bounded.
            return head, listed_bytes
    file_bytes = _file_bytes(fd, name)
    return _read(fd, 0, min(HEAD_BYTES, file_bytes)), file_bytes


def _missing(folder: OpenFolder, files: FileSet, *, needs_data: bool) -> str:
    """Return which component is missing, in words; empty where none is."""
    stem = files.descriptor.stem
    here = files.sizes.keys()
    if TOC not in here:
        return f"{stem} has no TOC.txt: it is being written, or was left by a crash"
    if (here >= _COMPLETE_BIG or here >= _COMPLETE_BTI) and (COMPRESSION in here or CRC in here):
        return ""  # TOC.txt could not name anything more that is needed.
    toc = read_bounded(folder, f"{stem}-{TOC}", bytes_max=_TOC_BYTES_MAX)
    listed = parse_toc(toc.decode("utf-8", "replace"))
    wanted = (listed | {DATA, STATISTICS}) & _NEEDED
    if not needs_data:
        wanted &= {STATISTICS, COMPRESSION}
    missing = sorted(wanted - here)
    return f"{stem} has no {', '.join(missing)}" if missing else ""


def _read_compression(
    folder: OpenFolder, files: FileSet, version: FormatVersion
) -> CompressionInfo | None:
    if COMPRESSION not in files.sizes:
        return None
    name = f"{files.descriptor.stem}-{COMPRESSION}"
    fd = _open(folder, name)
    try:
        head, file_bytes = _read_head(fd, name, files.sizes[COMPRESSION])
        info = parse_compression_info(head, version, file_bytes=file_bytes)
        if (at := info.last_offset_at) is not None and DATA in files.sizes:
            last = head[at : at + 8] if at + 8 <= len(head) else _read(fd, at, 8)
            check_data_length(last, data_bytes=files.sizes[DATA])
        return info
    finally:
        os.close(fd)


def _read_keys(folder: OpenFolder, files: FileSet) -> Keys | None:
    if SUMMARY not in files.sizes:
        return None  # Cassandra makes it anew when it opens the file.
    name = f"{files.descriptor.stem}-{SUMMARY}"
    fd = _open(folder, name)
    try:
        head, file_bytes = _read_head(fd, name, files.sizes[SUMMARY])
        start = summary_keys_at(head, file_bytes=file_bytes)
        if file_bytes <= len(head):
            return parse_summary_keys(head[start:])
        return parse_summary_keys(_read(fd, start, min(SUMMARY_KEYS_BYTES_MAX, file_bytes - start)))
    finally:
        os.close(fd)


def _problem(path: str, id: str, message: str, kind: ProblemKind) -> FileProblem:
    return FileProblem(path=path, id=id, message=message, kind=kind)


def _unreadable(path: str, id: str, refused: OSError) -> FileProblem:
    reason = refused.strerror or str(refused)
    # Of a set of components the one that refused is named.
    name = os.path.basename(str(refused.filename or path))
    return _problem(path, id, f"{name} cannot be read: {reason}", "unreadable")
