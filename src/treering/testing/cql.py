"""One CQL statement to one node, without the driver: what a local ring needs of the protocol.

Rules of this file: version 4 of the native protocol, one request a connection, no results read.
Whoever needs more takes the driver.
"""

from __future__ import annotations

import re
import socket
import struct
from collections.abc import Mapping
from typing import Final

from treering.errors import UsageError
from treering.testing.faults import NodeError

_VERSION: Final = 0x04
_HEADER: Final = struct.Struct(">BBhBi")  # version, flags, stream, opcode, body length
_ERROR, _STARTUP, _READY, _OPTIONS, _SUPPORTED, _QUERY, _RESULT = 0, 1, 2, 5, 6, 7, 8
_CONSISTENCY_ONE: Final = 1
_ASK_TIMEOUT_S: Final = 2.0
_RUN_TIMEOUT_S: Final = 60.0
_BODY_BYTES_MAX: Final = 1 << 20
_KEYSPACE: Final = re.compile(r"[a-z][a-z0-9_]{0,47}")


def native_answers(address: str, port: int) -> bool:
    """Whether a Cassandra node speaks the native protocol at ``address``:``port``."""
    try:
        with socket.create_connection((address, port), timeout=_ASK_TIMEOUT_S) as link:
            opcode, _ = _ask(link, _OPTIONS, b"")
    except (OSError, NodeError):
        return False
    return opcode == _SUPPORTED


def run_cql(address: str, port: int, statement: str) -> None:
    """Run one statement whose result nobody reads, such as a schema change.

    Raises:
        NodeError: No answer, or the node refused the statement; the message says why.
    """
    try:
        with socket.create_connection((address, port), timeout=_RUN_TIMEOUT_S) as link:
            version = _string(b"CQL_VERSION") + _string(b"3.0.0")
            _expect(link, _STARTUP, struct.pack(">H", 1) + version, answer=_READY)
            text = statement.encode()
            query = struct.pack(">i", len(text)) + text + struct.pack(">HB", _CONSISTENCY_ONE, 0)
            _expect(link, _QUERY, query, answer=_RESULT)
    except OSError as broken:
        raise NodeError(
            f"{address}:{port} gave no answer to {statement!r}: {broken}", statement=statement
        ) from broken


def check_keyspace(keyspace: str) -> None:
    """Refuse a name that CQL would take only in quotes, or not at all.

    Raises:
        UsageError: The name and what a name may be.
    """
    if not _KEYSPACE.fullmatch(keyspace):
        raise UsageError(
            f"{keyspace!r} is not a keyspace name that is taken here",
            hint="a lower-case letter, then up to 47 lower-case letters, digits or underscores",
        )


def keyspace_statement(keyspace: str, replicas: Mapping[str, int]) -> str:
    """Return the CQL that creates a keyspace where it is missing.

    Args:
        keyspace: Its name.
        replicas: Replicas by datacentre.

    Raises:
        UsageError: A name that would need quotes in CQL.
    """
    check_keyspace(keyspace)
    counts = "".join(f", '{name}': {count}" for name, count in replicas.items())
    return (
        f"CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = "
        f"{{'class': 'NetworkTopologyStrategy'{counts}}}"
    )


def _expect(link: socket.socket, opcode: int, body: bytes, *, answer: int) -> None:
    got, text = _ask(link, opcode, body)
    if got == _ERROR:
        raise NodeError(f"the node refused: {text[6:].decode(errors='replace')}")
    if got != answer:
        raise NodeError(f"the node answered with opcode {got}, not {answer}")


def _ask(link: socket.socket, opcode: int, body: bytes) -> tuple[int, bytes]:
    link.sendall(_HEADER.pack(_VERSION, 0, 0, opcode, len(body)) + body)
    _, _, _, answer, size = _HEADER.unpack(_receive(link, _HEADER.size))
    if not 0 <= size <= _BODY_BYTES_MAX:
        raise NodeError(f"an answer of {size} bytes is not the native protocol")
    return answer, _receive(link, size)


def _receive(link: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = link.recv(size - len(data))
        if not part:
            raise ConnectionResetError(f"connection closed after {len(data)} of {size} bytes")
        data += part
    return data


def _string(text: bytes) -> bytes:
    return struct.pack(">H", len(text)) + text
