"""A spool: a folder with one SQLite file that keeps batches until they are written to a table.

Rules of this file: what ``put`` returned for survives ``kill -9`` and a power cut; one process has
a spool at a time, and the system releases it when that process ends, however it ends; batches come
out whole, in order, with their write times, until ``done``; the file is never larger than the
readings that it may hold, apart from SQLite's own pages and log.

::

    <folder>/spool.db      batches in parts
    <folder>/spool.lock    locked by the process that uses it
    <folder>/spool.holder  who that is, for people
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from treering.core.batch import Batch, merge_batches
from treering.core.batch_codec import decode_batch, encode_batch
from treering.core.table import TableSpec
from treering.engine.sqlite.database import (
    connect,
    create_database,
    immediate,
    make_durable,
    size_on_disk,
)
from treering.engine.sqlite.failures import corrupt, translated
from treering.errors import (
    SchemaMismatchError,
    StoreBusyError,
    StoreClosedError,
    UsageError,
)

FILE_NAME: Final = "spool.db"
_LOCK_NAME: Final = "spool.lock"
_HOLDER_NAME: Final = "spool.holder"

_APPLICATION_ID: Final = 0x54525350  # "TRSP"
_FORMAT: Final = 1
_BUSY_TIMEOUT_S: Final = 10.0
_ROW_BYTES: Final = 40
# A log that grew in a burst is cut back to this after a checkpoint.
_LOG_BYTES_MAX: Final = 16_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolStatus:
    """What a spool holds.

    Attributes:
        folder: Where it is.
        table: The table that its readings are for.
        rows: Readings inside.
        batches: Batches that they are in.
        bytes: What they count for against the spool's bound.
        disk_bytes: Size of the file and its log.
        oldest_us: Write time of the oldest reading, epoch microseconds; None: it is empty.
        holder: The process that uses it; empty: none does.
    """

    folder: str
    table: str
    rows: int
    batches: int
    bytes: int
    disk_bytes: int
    oldest_us: int | None
    holder: str


class Spool:
    """Batches on disk. Safe to use from any thread of the process that opened it."""

    is_durable = True
    overhead = 512
    """More than the header of a part takes, beside its series."""

    def __init__(self, folder: Path, spec: TableSpec, bytes_max: int, lock: _Lock) -> None:
        self.bytes_max = bytes_max
        self.name = f"the spool {folder}"
        self._spec = spec
        self._path = folder / FILE_NAME
        self._lock = lock
        self._guard = threading.Lock()
        self._is_closed = False
        with translated(self._path, "opening"):
            self._writes = connect(self._path, busy_timeout_s=_BUSY_TIMEOUT_S)
            make_durable(self._writes, self._path)
            self._writes.execute(f"PRAGMA journal_size_limit={_LOG_BYTES_MAX}")
            totals = _totals(self._writes)
        self.rows, self.batches, self._bytes, self.last_us = totals
        self._first_end: tuple[int, int, int] | None = None

    @classmethod
    def open(cls, folder: str | os.PathLike[str], spec: TableSpec, *, bytes_max: int) -> Self:
        """Open the spool of a folder for a table, or make one.

        Raises:
            StoreBusyError: A process has it; named.
            UsageError: The folder holds something else.
            SchemaMismatchError: It keeps readings for another table.
            CorruptDataError: The file is damaged.
        """
        path = Path(folder).absolute()
        _make_folder(path)
        lock = _Lock(path)
        try:
            with translated(path / FILE_NAME, "making"):
                if not (path / FILE_NAME).exists():
                    _create(path / FILE_NAME, spec)
            _check_table(path / FILE_NAME, spec)
            return cls(path, spec, bytes_max, lock)
        except BaseException:
            lock.release()
            raise

    @property
    def bytes(self) -> int:
        """Bytes of the readings inside."""
        return self._bytes

    def put(self, batch: Batch) -> None:
        """Take a batch or a part of one; it is on disk when this returns."""
        payload = encode_batch(batch)
        size_bytes = len(payload) + _ROW_BYTES
        with self._using(), immediate(self._writes):
            self._writes.execute(
                "INSERT INTO part (write_us, rows, bytes, payload) VALUES (?, ?, ?, ?)",
                (batch.write_us, len(batch), size_bytes, payload),
            )
            self._bytes += size_bytes

    def first(self) -> Batch:
        """Return the oldest batch, all its parts as one."""
        found: list[tuple[int, Any]] = []
        size_bytes = 0
        with self._using(), closing(self._writes.cursor()) as cursor:
            cursor.execute("SELECT seq, write_us, bytes, payload FROM part ORDER BY seq")
            first_us = None
            for seq, write_us, part_bytes, payload in cursor:
                if first_us not in (None, write_us):
                    break
                first_us = write_us
                found.append((seq, payload))
                size_bytes += part_bytes
        if not found or first_us is None:
            raise corrupt(self._path, found="no batch", expected="the one that was counted")
        # Decoded only here, so that appends can go on.
        parts = [_decoded(self._path, seq, payload, self._spec) for seq, payload in found]
        self._first_end = (first_us, found[-1][0], size_bytes)
        return merge_batches(parts, self._spec)

    def done(self, batch: Batch) -> None:
        """Forget the batch that ``first`` gave."""
        assert self._first_end is not None, "done follows first"
        write_us, last_seq, size_bytes = self._first_end
        assert write_us == batch.write_us, "done is for the batch that first gave"
        with self._using(), immediate(self._writes):
            self._writes.execute("DELETE FROM part WHERE seq <= ?", (last_seq,))
            self._writes.execute("UPDATE spool SET last_us = max(last_us, ?)", (write_us,))
            self._bytes -= size_bytes

    def close(self) -> None:
        """Let another process have it."""
        with self._guard:
            if not self._is_closed:
                self._is_closed = True
                self._writes.close()
                self._lock.release()

    @contextmanager
    def _using(self) -> Iterator[None]:
        with self._guard, translated(self._path, "writing to", waited_s=_BUSY_TIMEOUT_S):
            if self._is_closed:
                raise StoreClosedError(f"{self.name} is closed")
            yield


def _decoded(path: Path, seq: int, payload: bytes, spec: TableSpec) -> Batch:
    try:
        return decode_batch(payload, spec)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise corrupt(
            path, found=f"part {seq} damaged ({error})", expected="what was put there"
        ) from error


def spool_status(folder: str | os.PathLike[str]) -> SpoolStatus:
    """Return what a spool holds; a process may be using it.

    Raises:
        UsageError: There is no spool.
        CorruptDataError: The file is damaged.
    """
    path = Path(folder).absolute()
    file = path / FILE_NAME
    spec = spool_table(path)
    with (
        translated(file, "reading"),
        closing(connect(file, busy_timeout_s=_BUSY_TIMEOUT_S)) as connection,
    ):
        rows, batches, size_bytes, _ = _totals(connection)
        (oldest_us,) = connection.execute("SELECT min(write_us) FROM part").fetchone()
    return SpoolStatus(
        folder=str(path),
        table=spec.name,
        rows=rows,
        batches=batches,
        bytes=size_bytes,
        disk_bytes=size_on_disk(file),
        oldest_us=oldest_us,
        holder=_holder_of(path),
    )


def spool_table(folder: str | os.PathLike[str]) -> TableSpec:
    """Return the table that a spool keeps readings for.

    Raises:
        UsageError: There is no spool.
        CorruptDataError: The file is damaged.
    """
    path = Path(folder).absolute() / FILE_NAME
    if not path.is_file():
        raise UsageError(
            f"there is no spool in {path.parent}", hint="name the folder that a writer was given"
        )
    with (
        translated(path, "reading"),
        closing(connect(path, busy_timeout_s=_BUSY_TIMEOUT_S)) as connection,
    ):
        (application_id,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if application_id != _APPLICATION_ID or version != _FORMAT:
            raise corrupt(
                path,
                found=f"a file of kind {application_id:#x}, format {version}",
                expected=f"a spool of format {_FORMAT}",
            )
        (record,) = connection.execute("SELECT record FROM spool").fetchone()
    return TableSpec.from_json(json.loads(record))


def _make_folder(path: Path) -> None:
    with translated(path, "making"):
        if path.exists() and not path.is_dir():
            raise UsageError(f"{path} is not a folder", hint="name a folder for the spool")
        path.mkdir(parents=True, exist_ok=True)
        others = [name for name in os.listdir(path) if not name.startswith(("spool.", ".new."))]
    if others and not (path / FILE_NAME).exists():
        raise UsageError(
            f"{path} is not a spool: it holds {others[0]}",
            hint="choose an empty folder, or one that a writer made",
        )


def _create(path: Path, spec: TableSpec) -> None:
    def fill(connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE spool (record TEXT NOT NULL, last_us INTEGER NOT NULL)")
        connection.execute("INSERT INTO spool VALUES (?, 0)", (json.dumps(spec.to_json()),))
        connection.execute(
            "CREATE TABLE part (seq INTEGER PRIMARY KEY AUTOINCREMENT, write_us INTEGER NOT NULL, "
            "rows INTEGER NOT NULL, bytes INTEGER NOT NULL, payload BLOB NOT NULL)"
        )

    create_database(path, application_id=_APPLICATION_ID, format_version=_FORMAT, fill=fill)


def _check_table(path: Path, spec: TableSpec) -> None:
    kept = spool_table(path.parent)
    if (kept.name, kept.incarnation) != (spec.name, spec.incarnation):
        raise SchemaMismatchError(
            f"the spool {path.parent} keeps readings for the table {kept.name}"
            f"{_nth(kept)}, not for {spec.name}{_nth(spec)}",
            hint="give each table a spool of its own",
        )
    # Retention, widths and the like are decided when a batch is sent; they may have changed.
    if (kept.columns, kept.precision) != (spec.columns, spec.precision):
        raise SchemaMismatchError(
            f"the spool {path.parent} keeps readings of {_shape(kept)}, and the table "
            f"{spec.name} has {_shape(spec)}",
            hint="replay them into the table they were made for, or give this one another spool",
        )


def _shape(spec: TableSpec) -> str:
    columns = ", ".join(f"{column.name}:{column.type}" for column in spec.columns)
    return f"columns {columns} and times in {spec.precision}"


def _nth(spec: TableSpec) -> str:
    return f" ({spec.incarnation})" if spec.incarnation > 1 else ""


def _totals(connection: sqlite3.Connection) -> tuple[int, int, int, int]:
    rows, batches, size_bytes, newest_us = connection.execute(
        "SELECT coalesce(sum(rows), 0), count(DISTINCT write_us), coalesce(sum(bytes), 0), "
        "coalesce(max(write_us), 0) FROM part"
    ).fetchone()
    (last_us,) = connection.execute("SELECT last_us FROM spool").fetchone()
    return rows, batches, size_bytes, max(newest_us, last_us)


class _Lock:
    """A file that one process has, by a transaction that never ends.

    SQLite keeps its locks apart within a process too, a fork does not inherit them, and the system
    drops them with the process.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / _LOCK_NAME
        with translated(path, "locking"):
            self._connection = sqlite3.connect(
                path, timeout=0, isolation_level=None, check_same_thread=False
            )
            try:
                self._connection.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError as error:
                self._connection.close()
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                    raise
                raise _held(folder) from error
        self._holder = folder / _HOLDER_NAME
        pid = os.getpid()
        record = {"pid": pid, "started": _started(pid), "program": sys.argv[:1]}
        self._holder.write_text(json.dumps(record))

    def release(self) -> None:
        """Let another one have it."""
        self._holder.unlink(missing_ok=True)
        self._connection.close()


def _held(folder: Path) -> StoreBusyError:
    holder = _holder_of(folder) or "another process"
    return StoreBusyError(
        f"{holder} has the spool {folder}",
        hint="give each process a spool of its own, or end that one first",
        holder=holder,
    )


def _holder_of(folder: Path) -> str:
    try:
        record: Any = json.loads((folder / _HOLDER_NAME).read_text())
        pid = int(record["pid"])
        os.kill(pid, 0)
    except PermissionError:
        pass
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    # A number is given to another process after a while.
    if record.get("started") != _started(pid):
        return ""
    program = " ".join(str(word) for word in record.get("program", []))
    return f"process {pid} ({program})" if program else f"process {pid}"


def _started(pid: int) -> str:
    """Return when a process started, as the system counts; empty where it does not tell."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
