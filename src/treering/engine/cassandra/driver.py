"""The driver, imported in one place, and the two of its hooks that the engine fills in.

Rules of this file: what runs on the driver's event loop keeps bytes and never raises: an
exception in a decoder would close the connection with every request in flight on it. Subclasses
of messages have names that start with an underscore: the driver registers all others.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from treering.errors import MissingExtraError, missing_extra

try:
    from cassandra import (
        AlreadyExists,
        AuthenticationFailed,
        ConsistencyLevel,
        CoordinationFailure,
        InvalidRequest,
        OperationTimedOut,
        ReadFailure,
        RequestExecutionException,
        RequestValidationException,
        Timeout,
        Unauthorized,
        Unavailable,
        UnresolvableContactPoints,
    )
    from cassandra.auth import PlainTextAuthProvider
    from cassandra.cluster import (
        EXEC_PROFILE_DEFAULT,
        Cluster,
        ExecutionProfile,
        NoHostAvailable,
        Session,
    )
    from cassandra.connection import ConnectionException
    from cassandra.policies import (
        DCAwareRoundRobinPolicy,
        ExponentialReconnectionPolicy,
        RetryPolicy,
        TokenAwarePolicy,
    )
    from cassandra.protocol import (
        BatchMessage,
        IsBootstrappingErrorMessage,
        OverloadedErrorMessage,
        ResultMessage,
        ServerError,
        _ProtocolHandler,
    )
    from cassandra.query import (
        UNSET_VALUE,
        BatchStatement,
        BatchType,
        BoundStatement,
        PreparedStatement,
        SimpleStatement,
    )
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] == "cassandra":
        raise missing_extra("a store on Cassandra", "cassandra") from error
    raise
except Exception as error:
    # The driver raises an exception of its own, not an ImportError, where it finds no event loop
    # (Python 3.12 has no asyncore, and libev was not built).
    raise MissingExtraError(
        f"cassandra-driver is installed but does not load: {error}",
        hint="install a wheel that brings its libev event loop: pip install --force-reinstall "
        "--only-binary :all: 'cassandra-driver>=3.30.1,<4'",
        extra="cassandra",
    ) from error

__all__ = [
    "EXEC_PROFILE_DEFAULT",
    "UNSET_VALUE",
    "AlreadyExists",
    "AuthenticationFailed",
    "BatchStatement",
    "BatchType",
    "BoundStatement",
    "Cluster",
    "ConnectionException",
    "ConsistencyLevel",
    "CoordinationFailure",
    "DCAwareRoundRobinPolicy",
    "ExecutionProfile",
    "ExponentialReconnectionPolicy",
    "InvalidRequest",
    "IsBootstrappingErrorMessage",
    "NoHostAvailable",
    "OnceRetryPolicy",
    "OperationTimedOut",
    "OverloadedErrorMessage",
    "PlainTextAuthProvider",
    "PreparedStatement",
    "RawPage",
    "RawProtocolHandler",
    "ReadFailure",
    "RequestExecutionException",
    "RequestValidationException",
    "ServerError",
    "Session",
    "SimpleStatement",
    "Timeout",
    "TokenAwarePolicy",
    "Unauthorized",
    "Unavailable",
    "UnresolvableContactPoints",
    "batch_of_body",
    "raw_page_of",
    "rows_of",
]

_RESULT_OPCODE: Final = 8
_BATCH_HEAD_BYTES: Final = 3
"""Before the rows of a batch: its kind, and how many statements it has in two bytes."""
_INT: Final = struct.Struct(">i")
_LENGTH: Final = struct.Struct(">H")


@dataclass(slots=True)
class RawPage:
    """A page as it came: the cells of ``count`` rows, each a length and its bytes.

    Attributes:
        body: The rows.
        count: How many rows.
        columns: Keyspace, table, name and driver type of each column.
        cursor: Where the next page starts; None after the last.
        error: What went wrong while the page was taken in, for the consumer to raise.
    """

    body: memoryview
    count: int
    columns: Sequence[tuple[str, str, str, Any]]
    cursor: bytes | None
    error: Exception | None = None


class _RawResult(ResultMessage):  # type: ignore[misc]
    """A result whose rows stay bytes."""

    def recv_results_rows(
        self, f: Any, protocol_version: int, user_type_map: Any, result_metadata: Any, *more: Any
    ) -> None:
        self.column_names, self.column_types = (), ()
        try:
            self.recv_results_metadata(f, user_type_map)
            columns = self.column_metadata or result_metadata or ()
            count = _INT.unpack(f.read(_INT.size))[0]
            # The same bytes object as the body's: nothing is copied.
            body = memoryview(f.getvalue())[f.tell() :]
            self.column_names = tuple(column[2] for column in columns)
            self.parsed_rows = RawPage(body, count, columns, self.paging_state)
        except Exception as error:  # noqa: BLE001
            self.parsed_rows = RawPage(memoryview(b""), 0, (), None, error)


class RawProtocolHandler(_ProtocolHandler):  # type: ignore[misc]
    """The driver's protocol handler, with rows left as bytes."""

    message_types_by_opcode = {  # noqa: RUF012
        **_ProtocolHandler.message_types_by_opcode,
        _RESULT_OPCODE: _RawResult,
    }

    @classmethod
    def encode_message(cls, msg: Any, *options: Any, **named: Any) -> bytes:
        """Return the bytes of a message; those of a batch's rows are there already."""
        if isinstance(msg, BatchMessage) and isinstance(msg.queries, _Rows):
            msg = _BodyMessage(msg)
        encoded: bytes = super().encode_message(msg, *options, **named)
        return encoded


class _Rows:
    """The rows of a batch as bytes, where the driver expects a list of statements."""

    __slots__ = ("body", "count")

    def __init__(self, count: int, body: memoryview) -> None:
        self.count = count
        self.body = body

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Any]:
        # The driver writes what stands before and after the rows, and no row.
        return iter(())


class _BodyMessage(BatchMessage):  # type: ignore[misc]
    """A batch that brings the bytes of its rows along."""

    def __init__(self, message: Any) -> None:
        self.__dict__.update(message.__dict__)

    def send_body(self, f: Any, *options: Any) -> None:
        # The version of the protocol, and with scylla-driver its features.
        frame = io.BytesIO()
        super().send_body(frame, *options)
        around = frame.getbuffer()
        f.write(around[:_BATCH_HEAD_BYTES])
        f.write(self.queries.body)
        f.write(around[_BATCH_HEAD_BYTES:])


def batch_of_body(prepared: Any, key: Sequence[bytes], count: int, body: memoryview) -> Any:
    """Return an UNLOGGED batch of one partition, whose rows are bytes already.

    It goes through ``Session.execute_async`` like any other, so that routing, retries and
    policies stay the driver's.

    Args:
        prepared: The statement of every row; its key comes first.
        key: Serialized values of the partition key.
        count: How many rows.
        body: Their bytes, as the protocol has them.
    """
    batch = BatchStatement(BatchType.UNLOGGED)
    batch.is_idempotent = True
    batch.keyspace = prepared.column_metadata[0].keyspace_name
    batch.routing_key = _routing_key_of(key)
    batch._statements_and_parameters = _Rows(count, body)
    return batch


def _routing_key_of(key: Sequence[bytes]) -> bytes:
    """Return the bytes that a partition's token is made of, as the server packs them."""
    if len(key) == 1:
        return key[0]
    return b"".join([_LENGTH.pack(len(value)) + value + b"\0" for value in key])


def raw_page_of(names: Sequence[str], page: RawPage) -> RawPage:
    """Return the page as it is: the row factory of readings."""
    return page


def rows_of(names: Sequence[str], page: RawPage) -> list[dict[str, Any]]:
    """Return rows as dictionaries: the row factory of the catalog's small results.

    Raises:
        ValueError: The page could not be taken in.
    """
    if page.error is not None:
        raise ValueError(f"a result could not be read: {page.error}") from page.error
    rows, position = [], 0
    for _ in range(page.count):
        row: dict[str, Any] = {}
        for _, _, name, kind in page.columns:
            size = _INT.unpack_from(page.body, position)[0]
            position += _INT.size
            if size < 0:
                row[name] = None
                continue
            row[name] = kind.from_binary(bytes(page.body[position : position + size]), 5)
            position += size
        rows.append(row)
    return rows


class OnceRetryPolicy(RetryPolicy):  # type: ignore[misc]
    """Moves to another node once where the first one could not even take the request.

    Everything else is the caller's to repeat: the fan-out above knows how often, and slows down.
    """

    def _rethrow(self) -> tuple[int, None]:
        return self.RETHROW, None

    def on_read_timeout(self, *args: Any, **kwargs: Any) -> tuple[int, None]:
        """Hand the timeout up."""
        return self._rethrow()

    def on_write_timeout(self, *args: Any, **kwargs: Any) -> tuple[int, None]:
        """Hand the timeout up."""
        return self._rethrow()

    def on_unavailable(self, *args: Any, **kwargs: Any) -> tuple[int, None]:
        """Hand it up: another coordinator would count the same replicas."""
        return self._rethrow()

    def on_request_error(
        self, query: Any, consistency: Any, error: Exception, retry_num: int
    ) -> tuple[int, None]:
        """Try the next node once where a connection broke or a node is starting up.

        Only for statements that are idempotent, which is all but the catalog's conditional ones.
        """
        broke = isinstance(error, (ConnectionException, IsBootstrappingErrorMessage))
        if broke and retry_num == 0 and getattr(query, "is_idempotent", False):
            return self.RETRY_NEXT_HOST, None
        return self._rethrow()
