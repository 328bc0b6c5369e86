"""What went wrong with a file, in treering's words: no error of SQLite or the system leaks raw.

Rules of this file: the file is named; a damaged file is ``CorruptDataError``, a lock that was not
granted in time is ``StoreBusyError`` and names who holds it where the system tells; files are
never opened here, because closing one would drop this process's own locks on it.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from treering.engine.sqlite.layout import CATALOG_NAME
from treering.errors import CorruptDataError, EngineError, StoreBusyError, TreeringError

# SQLite's write-ahead log takes this byte of the -shm file for the one writer: WALINDEX_LOCK_OFFSET
# is 22 * 4 + 32 = 120, and the write lock is the first of its locks.
_WRITE_LOCK_BYTE: Final = 120

_LOCKS: Final = Path("/proc/locks")

_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_BUSY: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


@contextmanager
def translated(path: Path, doing: str, *, waited_s: float = 0.0) -> Iterator[None]:
    """Turn errors of SQLite and of the system into treering's, naming ``path``.

    Args:
        path: The file that is worked on.
        doing: What is being done to it, such as ``writing to``.
        waited_s: How long SQLite waits for a lock.

    Raises:
        TreeringError: One that fits, from the original.
    """
    try:
        yield
    except sqlite3.Error as error:
        raise _of_sqlite(error, path, doing, waited_s) from error
    except UnicodeDecodeError as error:
        raise corrupt(path, found="text that is no UTF-8", expected="an intact file") from error
    except OSError as error:
        if isinstance(error, TreeringError):
            raise
        raise system_error(error, path, doing) from error


def corrupt(path: Path, *, found: str, expected: str) -> CorruptDataError:
    """Return the error for a file that cannot be what its place says it is."""
    hint = (
        "restore the file from a backup, or move it out of the store; "
        "everything that does not touch it goes on"
    )
    if path.name == CATALOG_NAME:
        hint = "restore the file from a backup: without it nothing in the store can be used"
    return CorruptDataError(
        f"{path} is not usable: found {found}, expected {expected}",
        hint=hint,
        path=str(path),
        found=found,
        expected=expected,
        retryable=False,
    )


def busy(path: Path, waited_s: float, *, holder: str | None = None) -> StoreBusyError:
    """Return the error for a lock on ``path`` that was not granted in time.

    Args:
        path: The database file.
        waited_s: How long was waited.
        holder: Who holds the lock; looked up where None.
    """
    pid = writer_pid(path) if holder is None else os.getpid()
    if holder is None:
        holder = "another process" if pid is None else _named(pid)
    return StoreBusyError(
        f"{holder} held the write lock of {path} for longer than {waited_s:g} s",
        hint="wait for it or stop it, then write again; a longer wait is busy_timeout_s",
        path=str(path),
        holder=holder,
        pid=pid,
        waited_s=waited_s,
    )


def writer_pid(path: Path) -> int | None:
    """Return the process that holds SQLite's write lock on ``path``; None where nobody knows."""
    try:
        inode = os.stat(f"{path}-shm").st_ino
        lines = _LOCKS.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        # "1: POSIX  ADVISORY  WRITE 4711 fe:00:131105 120 120"; a waiter has "->" after the number.
        words = line.split()
        if len(words) != 8 or words[3] != "WRITE" or words[5].rpartition(":")[2] != str(inode):
            continue
        last = float("inf") if words[7] == "EOF" else int(words[7])
        if int(words[6]) <= _WRITE_LOCK_BYTE <= last and int(words[4]) > 0:
            return int(words[4])
    return None


def _named(pid: int) -> str:
    if pid == os.getpid():
        return f"this process ({pid})"
    try:
        return f"process {pid} ({Path(f'/proc/{pid}/comm').read_text().strip()})"
    except OSError:
        return f"process {pid}"


def _of_sqlite(error: sqlite3.Error, path: Path, doing: str, waited_s: float) -> TreeringError:
    code = getattr(error, "sqlite_errorcode", None)
    primary = None if code is None else code & 0xFF
    if primary in _BUSY:
        return busy(path, waited_s)
    # The module's own error has no code, and it decodes text only: every file is of UTF-8.
    is_no_text = code is None and "decode" in str(error)
    if primary in _DAMAGED or is_no_text:
        return corrupt(path, found=f"damage ({error})", expected="an intact SQLite file")
    if primary == sqlite3.SQLITE_FULL:
        return _full(path, doing)
    if primary in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN):
        return EngineError(
            f"{doing} {path} is not permitted: {error}",
            hint="the store's folder must be writable, for readers too (the write-ahead log's "
            "index lives beside each file)",
            path=str(path),
        )
    name = getattr(error, "sqlite_errorname", "no code")
    return EngineError(
        f"{doing} {path} failed: {error} ({name})",
        hint="check the disk that holds the store",
        path=str(path),
        code=code,
    )


def system_error(error: OSError, path: Path, doing: str) -> EngineError:
    """Return the error for what the system refused to do with ``path``."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _full(path, doing)
    return EngineError(
        f"{doing} {path} failed: {error.strerror or error}",
        hint="check the permissions of the store's folder and its disk",
        path=str(path),
    )


def _full(path: Path, doing: str) -> EngineError:
    return EngineError(
        f"{doing} {path} failed: the disk is full",
        hint="free space, or expire old segments; what was acknowledged is safe",
        path=str(path),
    )
