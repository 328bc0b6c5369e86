"""Open segments: a bounded number of files, each used by one thread at a time.

Rules of this file: a file is closed only when no thread has it; a wait for another thread is
bounded like a wait for another process; locks are taken in the order pool, then segment, and the
pool's is never held over I/O.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from treering.engine.sqlite.failures import busy
from treering.engine.sqlite.segment_file import SegmentFile
from treering.errors import CorruptDataError, StoreClosedError

OPEN_MAX: Final = 64
"""The most segments that stay open; each takes three descriptors and its page cache."""

Opener = Callable[[], SegmentFile | None]


@dataclass(slots=True)
class Slot:
    """A place for one open segment, held by one thread at a time."""

    path: Path
    lock: threading.Lock = field(default_factory=threading.Lock)
    file: SegmentFile | None = None
    users: int = 0

    def current(self, opener: Opener) -> SegmentFile | None:
        """Return the open file that the name means now, opened if need be; None where none."""
        if self.file is not None and not self.file.is_current():
            self.drop()
        if self.file is None:
            self.file = opener()
        return self.file

    def drop(self) -> None:
        """Close the file."""
        if self.file is not None:
            self.file.close()
            self.file = None


class SegmentPool:
    """Slots of recently used segments, by path."""

    def __init__(self, *, busy_timeout_s: float, open_max: int = OPEN_MAX) -> None:
        self._busy_timeout_s = busy_timeout_s
        self._open_max = open_max
        self._slots: OrderedDict[Path, Slot] = OrderedDict()
        self._lock = threading.Lock()
        self._closed = False

    @contextmanager
    def lease(self, path: Path) -> Iterator[Slot]:
        """Hold the slot of a path alone.

        Raises:
            StoreBusyError: Another thread held it for longer than the bounded wait.
            StoreClosedError: The pool was closed.
        """
        slot = self._enter(path)
        try:
            if not slot.lock.acquire(timeout=self._busy_timeout_s):
                raise busy(path, self._busy_timeout_s, holder="another thread of this process")
            try:
                self._check_open()
                yield slot
            except CorruptDataError:
                # A file that was repaired or replaced in place must not be judged by this one.
                slot.drop()
                raise
            finally:
                if self._closed:
                    slot.drop()
                slot.lock.release()
        finally:
            self._leave(slot)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosedError("the store is closed", hint="open it again")

    def _enter(self, path: Path) -> Slot:
        with self._lock:
            self._check_open()
            slot = self._slots.get(path)
            if slot is None:
                slot = self._slots[path] = Slot(path)
            self._slots.move_to_end(path)
            slot.users += 1
            return slot

    def _leave(self, slot: Slot) -> None:
        evicted: list[Slot] = []
        with self._lock:
            slot.users -= 1
            if slot.file is None and not slot.users:
                self._slots.pop(slot.path, None)
            excess = len(self._slots) - self._open_max
            if excess > 0:
                evicted = [other for other in self._slots.values() if not other.users][:excess]
            for other in evicted:
                del self._slots[other.path]
        for other in evicted:
            other.drop()

    def forget(self, folder: Path) -> None:
        """Close every idle segment under a folder."""
        with self._lock:
            idle = [s for s in self._slots.values() if s.path.parent == folder and not s.users]
            for slot in idle:
                del self._slots[slot.path]
        for slot in idle:
            slot.drop()

    def pause(self) -> bool:
        """Close every segment and keep every thread out; False where one did not let go in time.

        Must be followed by :meth:`resume` where it returned True.
        """
        self._lock.acquire()
        held = []
        for slot in self._slots.values():
            if not slot.lock.acquire(timeout=self._busy_timeout_s):
                break
            held.append(slot)
            slot.drop()
        if len(held) == len(self._slots):
            return True
        for slot in held:
            slot.lock.release()
        self._lock.release()
        return False

    def resume(self) -> None:
        """Let threads in again."""
        for slot in self._slots.values():
            slot.lock.release()
        self._lock.release()

    def close(self) -> None:
        """Close every segment; one that a thread holds is closed when the thread lets go."""
        with self._lock:
            self._closed = True
            idle = [slot for slot in self._slots.values() if not slot.users]
            self._slots.clear()
        for slot in idle:
            slot.drop()
