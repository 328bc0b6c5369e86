"""SQLite files that are whole or absent, and connections whose commits survive a power cut.

Rules of this file: a file is made beside its place, synced, and appears under its name at once;
nothing is changed in a file before its identity is known; a database file is only ever opened by
SQLite, since closing another descriptor of it would drop this process's POSIX locks on it.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

from treering.engine.sqlite.failures import system_error
from treering.engine.sqlite.layout import sidecars, unfinished_name
from treering.errors import EngineError

# A larger log makes fewer checkpoints, each of which syncs twice: 4,000 pages of 4 KiB = 16 MB.
_CHECKPOINT_PAGES: Final = 4_000


def connect(path: Path, *, busy_timeout_s: float) -> sqlite3.Connection:
    """Open an existing SQLite file; changes nothing in it.

    Commits need :func:`make_durable` first. Any thread may use the connection, one at a time.

    Raises:
        sqlite3.OperationalError: There is no such file, or it cannot be opened.
    """
    return sqlite3.connect(
        f"file:{quote(str(path.absolute()))}?mode=rw",
        uri=True,
        timeout=busy_timeout_s,
        isolation_level=None,
        check_same_thread=False,
    )


def make_durable(connection: sqlite3.Connection, path: Path) -> None:
    """Set a connection up so that a commit that returns survives a power cut.

    Raises:
        EngineError: The file system cannot carry a write-ahead log.
    """
    (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
    if mode != "wal":
        raise EngineError(
            f"{path} cannot have a write-ahead log here: SQLite chose {mode!r}",
            hint="put the store on a local file system",
            path=str(path),
        )
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")


@contextmanager
def immediate(connection: sqlite3.Connection) -> Iterator[None]:
    """Hold SQLite's write lock: commit at the end, roll back on any error."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
        raise


@contextmanager
def snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    """Have every statement inside see the file as it is at the first of them."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        if connection.in_transaction:
            connection.execute("COMMIT")


def create_database(
    path: Path,
    *,
    application_id: int,
    format_version: int,
    fill: Callable[..., None],
    gives_back_space: bool = False,
) -> bool:
    """Make a SQLite file that appears under its name whole, and durably.

    Args:
        path: Where; what is there already stays.
        application_id: Says whose file this is.
        format_version: Its ``user_version``.
        fill: Is called with a connection, to make the tables.
        gives_back_space: Whether free pages can be given back to the file system later.

    Returns:
        Whether this call made it; False where another process was first.
    """
    draft = path.with_name(unfinished_name(path.name, f"{os.getpid()}-{secrets.token_hex(4)}"))
    try:
        _write_draft(draft, application_id, format_version, fill, gives_back_space)
        is_made = _publish(draft, path)
    finally:
        for left in (draft, *sidecars(draft), draft.with_name(draft.name + "-journal")):
            left.unlink(missing_ok=True)
    sync_folder(path.parent)
    return is_made


def _write_draft(
    draft: Path,
    application_id: int,
    format_version: int,
    fill: Callable[..., None],
    gives_back_space: bool,
) -> None:
    connection = sqlite3.connect(draft, isolation_level=None)
    try:
        # Nobody sees a draft, so it needs no journal of its own; it is synced as a whole below.
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute("PRAGMA journal_mode=MEMORY")
        if gives_back_space:
            connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
        connection.execute(f"PRAGMA application_id={application_id}")
        connection.execute(f"PRAGMA user_version={format_version}")
        connection.execute("BEGIN")
        fill(connection)
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode=WAL")
    finally:
        connection.close()
    _sync(draft, os.O_RDWR)


def _publish(draft: Path, path: Path) -> bool:
    # A hard link fails where the name is taken, so of racing makers one wins; a file system
    # without hard links has only the check before the rename.
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    except OSError:
        if path.exists():
            return False
        os.rename(draft, path)
    return True


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    _sync(folder, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def inode_of(path: Path) -> int | None:
    """Return the inode under that name; None where there is none.

    Raises:
        EngineError: The folder does not let anyone look.
    """
    try:
        return os.stat(path).st_ino
    except FileNotFoundError:
        return None
    except OSError as error:
        raise system_error(error, path, "looking for") from error


def size_on_disk(path: Path) -> int:
    """Return the bytes of a database file and its write-ahead log (``-shm`` is only memory)."""
    total = 0
    for part in (path, path.with_name(path.name + "-wal")):
        with suppress(FileNotFoundError):
            total += part.stat().st_size
    return total


def unlink_database(path: Path) -> None:
    """Remove a database file, then what lies beside it.

    The file goes first: a write-ahead log without its file is litter, a file without its log
    would be a damaged file.
    """
    path.unlink(missing_ok=True)
    for sidecar in sidecars(path):
        sidecar.unlink(missing_ok=True)
    sync_folder(path.parent)
