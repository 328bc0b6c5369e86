"""What a connection makes of bytes that come in any pieces."""

from __future__ import annotations

import io
import threading
from collections import deque
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("cassandra", reason="cassandra-driver is not installed")

from cassandra.connection import Connection
from cassandra.protocol import _ProtocolHandler
from cassandra.segment import SegmentCodec

from treering.engine.cassandra.connection import (
    JOINED_BYTES_MAX,
    JoinedWrites,
    SegmentReads,
    TreeringConnection,
    join_first,
)
from treering.engine.cassandra.driver import Cluster

CODEC = SegmentCodec()


class Heard(SegmentReads, Connection):  # type: ignore[misc]
    """A connection without a socket that keeps the messages it took in."""

    def __init__(self) -> None:
        super().__init__(protocol_version=5)
        self._enable_checksumming()
        self.heard: list[tuple[int, bytes]] = []

    def process_msg(self, header: Any, body: bytes) -> None:
        self.heard.append((header.stream, body))

    def take(self, piece: bytes) -> None:
        """Take in what one read from the socket gave."""
        self._iobuf.write(piece)
        self.process_io_buffer()


def sent(bodies: list[bytes]) -> bytes:
    """Return messages as a server of protocol v5 sends them."""
    stream = io.BytesIO()
    for number, body in enumerate(bodies):
        frame = io.BytesIO()
        _ProtocolHandler._write_header(frame, 0x85, 0, number, 8, len(body))
        message = frame.getvalue() + body
        CODEC.encode(stream, message)
    return stream.getvalue()


@given(
    bodies=st.lists(st.integers(0, 300_000) | st.integers(0, 20), min_size=1, max_size=5),
    cuts=st.data(),
)
def test_messages_come_whole_whatever_pieces_they_come_in(
    bodies: list[int], cuts: st.DataObject
) -> None:
    wanted = [bytes([number]) * size for number, size in enumerate(bodies)]
    stream = sent(wanted)
    places = cuts.draw(st.lists(st.integers(0, len(stream)), max_size=20).map(sorted))
    connection = Heard()
    for start, stop in zip([0, *places], [*places, len(stream)], strict=True):
        if stop > start:
            connection.take(stream[start:stop])
    assert connection.heard == list(enumerate(wanted))


def test_messages_come_whole_byte_by_byte() -> None:
    wanted = [b"first", b"", b"third"]
    connection = Heard()
    for byte in sent(wanted):
        connection.take(bytes([byte]))
    assert connection.heard == list(enumerate(wanted))


def test_connection_is_the_drivers_own_kind() -> None:
    assert issubclass(TreeringConnection, Cluster.connection_class)
    assert TreeringConnection.in_buffer_size > Connection.in_buffer_size


@given(st.lists(st.binary(max_size=12), max_size=12), st.integers(0, 40))
def test_joined_messages_are_the_same_bytes_in_the_same_order(
    messages: list[bytes], bytes_max: int
) -> None:
    waiting = deque(messages)
    join_first(waiting, bytes_max)
    assert b"".join(waiting) == b"".join(messages)
    assert len(waiting) <= max(len(messages), 1)
    # No more could have been joined, and what is too long goes as it was.
    joined = len(messages) - len(waiting) + 1
    if joined > 1:
        assert len(waiting[0]) <= bytes_max
    if len(waiting) > 1 and waiting[0] != messages[0]:
        assert len(waiting[0]) + len(waiting[1]) > bytes_max


def test_messages_that_wait_for_the_socket_are_sent_as_one() -> None:
    assert TreeringConnection.handle_write is JoinedWrites.handle_write

    class Sending:
        def __init__(self) -> None:
            self.deque = deque([b"one", b"two", b"x" * JOINED_BYTES_MAX])
            self._deque_lock = threading.Lock()

        def handle_write(self) -> list[bytes]:
            return list(self.deque)

    class Joining(JoinedWrites, Sending):
        pass

    assert Joining().handle_write() == [b"onetwo", b"x" * JOINED_BYTES_MAX]
