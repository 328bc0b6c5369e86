"""The driver's connection, with larger reads and writes and without a fault of its own.

Protocol v5 sends segments, each with a short header of its own. Where what was read from the socket
ends within such a header, the driver (3.30 and before) forgets those bytes: the next segment is
read from its middle, its checksum is wrong, and the connection closes with all that is under way.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from treering.engine.cassandra.driver import Cluster

_Base: Any = Cluster.connection_class


class SegmentReads:
    """Keeps the start of a segment until the rest of it has come; mixed into a connection."""

    in_buffer_size = 64 * 1024
    """Bytes of one read from the socket: pages are megabytes, the driver's own reads 4 KiB."""

    _io_buffer: Any

    def _process_segment_buffer(self) -> None:
        super()._process_segment_buffer()  # type: ignore[misc]
        if not self._io_buffer.has_consumed_segment:
            # What the driver keeps is what stands behind the position.
            self._io_buffer.io_buffer.seek(0)


JOINED_BYTES_MAX: Final = 64 * 1024
"""The most bytes of messages that are sent as one."""


class JoinedWrites:
    """Sends messages that wait for the socket together; mixed into a connection of libev.

    The driver makes a system call for each. Many small requests spend more time in those, and in
    getting the interpreter back after them, than in all else that is done on the event loop.
    """

    deque: deque[bytes]

    def handle_write(self, *args: Any, **kwargs: Any) -> Any:
        """Join what waits, and have the driver send it."""
        lock = getattr(self, "_deque_lock", None)
        if lock is not None:
            with lock:
                join_first(self.deque, JOINED_BYTES_MAX)
        return super().handle_write(*args, **kwargs)  # type: ignore[misc]


def join_first(waiting: deque[bytes], bytes_max: int) -> None:
    """Make one of the first messages of a queue, of as many as stay within ``bytes_max``."""
    joined, size = [], 0
    while waiting and size + len(waiting[0]) <= bytes_max:
        size += len(waiting[0])
        joined.append(waiting.popleft())
    if joined:
        waiting.appendleft(b"".join(joined))


class TreeringConnection(JoinedWrites, SegmentReads, _Base):  # type: ignore[misc]
    """A connection of a cluster that treering opened."""
