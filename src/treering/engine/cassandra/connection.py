"""The driver's connection, with larger reads and without a fault of its own.

Protocol v5 sends segments, each with a short header of its own. Where what was read from the socket
ends within such a header, the driver (3.30 and before) forgets those bytes: the next segment is
read from its middle, its checksum is wrong, and the connection closes with all that is under way.
"""

from __future__ import annotations

from typing import Any

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


class TreeringConnection(SegmentReads, _Base):  # type: ignore[misc]
    """A connection of a cluster that treering opened."""
