"""A session of the driver with the settings and the prepared statements of one store.

Rules of this file: every request has a timeout; every cache has a bound; what is asked of one
node, such as its view of the schema, is asked of one node.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from treering.engine.cassandra import statements
from treering.engine.cassandra.driver import (
    EXEC_PROFILE_DEFAULT,
    BatchStatement,
    BatchType,
    ConsistencyLevel,
    OnceRetryPolicy,
    OperationTimedOut,
    PreparedStatement,
    RawProtocolHandler,
    Session,
    SimpleStatement,
    raw_page_of,
    rows_of,
)
from treering.engine.cassandra.faults import engine_error_of
from treering.engine.deadline import time_left_s
from treering.errors import EngineTimeoutError, TreeringError

SCHEMA_TIMEOUT_S: Final = 30.0
SCHEMA_POLL_S: Final = 0.1
PREPARED_MAX: Final = 256
IN_FLIGHT_PER_NODE: Final = 32
IN_FLIGHT_MAX: Final = 256
PREPARING_MAX: Final = 4

log = logging.getLogger(__name__)


class Link:
    """A session with its prepared statements.

    Attributes:
        session: Our own session, for all but readings that are written.
        where: The nodes it was opened on, for people.
        local_dc: The datacentre that it talks to.
        consistency: The level of reads and writes.
        timeout_s: The bound of a request.
    """

    def __init__(
        self,
        session: Session,
        writes: Session,
        *,
        is_cluster_ours: bool,
        where: str,
        consistency: str,
        timeout_s: float,
    ) -> None:
        self.session = session
        self.where = where
        self.timeout_s = timeout_s
        self.consistency = ConsistencyLevel.name_to_value[consistency]
        strong = (ConsistencyLevel.QUORUM, ConsistencyLevel.ALL)
        self.catalog_consistency = (
            self.consistency if self.consistency in strong else ConsistencyLevel.LOCAL_QUORUM
        )
        # On a connection of their own, writes do not wait behind pages of megabytes.
        self._writes = writes
        for own in (session, writes):
            own.client_protocol_handler = RawProtocolHandler
        self._is_cluster_ours = is_cluster_ours
        settings = {
            "retry_policy": OnceRetryPolicy(),
            "consistency_level": self.consistency,
            "serial_consistency_level": ConsistencyLevel.SERIAL,
            "request_timeout": timeout_s,
        }
        clone = session.execution_profile_clone_update
        self._raw_profile = clone(EXEC_PROFILE_DEFAULT, row_factory=raw_page_of, **settings)
        self._rows_profile = clone(EXEC_PROFILE_DEFAULT, row_factory=rows_of, **settings)
        policy = self._raw_profile.load_balancing_policy
        self.local_dc: str = _local_dc_of(policy) or self._any_dc()
        self._prepared: OrderedDict[tuple[str, int], PreparedStatement] = OrderedDict()
        self._datacentres: dict[str, int] = {}
        self._lock = threading.Lock()
        self._preparing = ThreadPoolExecutor(PREPARING_MAX, "treering-prepare")

    @property
    def cluster_name(self) -> str:
        """The name of the cluster, which is part of the ids of its tables."""
        return str(self.session.cluster.metadata.cluster_name)

    @property
    def in_flight_max(self) -> int:
        """How many requests are worth having in flight."""
        return min(max(len(self.local_hosts()), 1) * IN_FLIGHT_PER_NODE, IN_FLIGHT_MAX)

    def local_hosts(self) -> list[Any]:
        """Return the nodes of the local datacentre that are not known to be down."""
        hosts = self.session.cluster.metadata.all_hosts()
        return [h for h in hosts if h.datacenter == self.local_dc and h.is_up is not False]

    def nodes_by_datacentre(self) -> dict[str, int]:
        """Return how many nodes each datacentre has, up or not."""
        hosts = self.session.cluster.metadata.all_hosts()
        return dict(Counter(str(h.datacenter) for h in hosts if h.datacenter))

    def _any_dc(self) -> str:
        hosts = self.session.cluster.metadata.all_hosts()
        return str(next((h.datacenter for h in hosts if h.datacenter), ""))

    def prepare(
        self, cql: str, *, is_idempotent: bool = True, generation: int = 0
    ) -> PreparedStatement:
        """Return the statement, prepared once.

        Args:
            cql: The statement.
            is_idempotent: Whether sending it twice is the same as once.
            generation: Counts the tables of one name: a table that was made anew may have other
                types under the same text.

        Cost:
            A request to every node the first time. Not to be called on the driver's event loop
            for a statement that was not prepared before.
        """
        key = (cql, generation)
        with self._lock:
            statement = self._prepared.get(key)
            if statement is not None:
                self._prepared.move_to_end(key)
                return statement
        statement = self._prepare_in_time(cql)
        statement.is_idempotent = is_idempotent
        with self._lock:
            self._prepared[key] = statement
            while len(self._prepared) > PREPARED_MAX:
                self._prepared.popitem(last=False)
        return statement

    def _prepare_in_time(self, cql: str) -> PreparedStatement:
        # The driver waits by a bound of its own, which may be longer than the call has left.
        left_s = time_left_s(self.timeout_s)
        future = self._preparing.submit(self.session.prepare, cql)
        try:
            return future.result(left_s)
        except TimeoutError as error:
            if future.done():
                raise
            raise OperationTimedOut from error

    def send(self, statement: Any, *, cursor: bytes | None = None) -> Any:
        """Start a request whose rows come as raw pages; return the driver's future."""
        return self.session.execute_async(
            statement,
            execution_profile=self._raw_profile,
            paging_state=cursor,
            timeout=time_left_s(self.timeout_s),
        )

    def send_write(self, statement: Any) -> Any:
        """Start a write of readings; return the driver's future."""
        return self._writes.execute_async(
            statement,
            execution_profile=self._raw_profile,
            timeout=time_left_s(self.timeout_s),
        )

    def query(
        self,
        cql: str,
        *values: Any,
        what: str,
        consistency: int | None = None,
        host: Any = None,
    ) -> Iterator[dict[str, Any]]:
        """Return the rows of a small read, page after page.

        Args:
            cql: A statement with ``?`` for each value.
            values: What is bound.
            what: What is being done, for messages.
            consistency: The level; that of the catalog where None.
            host: The node to ask; any where None.

        Raises:
            EngineError: Where the first page fails, and while later ones are read.
        """
        try:
            bound = self.prepare(cql).bind(values)
            bound.consistency_level = consistency or self.catalog_consistency
            result = self.session.execute(
                bound,
                execution_profile=self._rows_profile,
                host=host,
                timeout=time_left_s(self.timeout_s),
            )
        except Exception as error:
            raise self.error_of(error, what) from error
        return self._rows(result, what)

    def ask(self, cql: str, *values: Any, what: str, host: Any = None) -> list[dict[str, Any]]:
        """Return the rows of a read that is sent once, and by itself.

        It is not prepared: that would go to every node, and one that hangs would hold it up.

        Args:
            cql: A statement with ``%s`` for each value.
            values: What stands there, as a literal.
            what: What is being done, for messages.
            host: The node to ask, and no other; any where None.

        Raises:
            EngineError: It failed.
        """
        try:
            result = self.session.execute(
                SimpleStatement(cql, consistency_level=ConsistencyLevel.ONE),
                values,
                execution_profile=self._rows_profile,
                host=host,
                timeout=time_left_s(self.timeout_s),
            )
        except Exception as error:
            raise self.error_of(error, what) from error
        return list(self._rows(result, what))

    def write(self, cql: str, *values: Any, what: str, is_conditional: bool = False) -> None:
        """Run a write of the catalog.

        Args:
            cql: A statement with ``?`` for each value.
            values: What is bound.
            what: What is being done, for messages.
            is_conditional: Whether it has a condition, and so must not be sent twice by itself.
                Whether it was applied is for the caller to see, by a serial read.

        Raises:
            EngineTimeoutError: The outcome is unknown.
            EngineError: It failed.
        """
        try:
            bound = self.prepare(cql, is_idempotent=not is_conditional).bind(values)
            bound.consistency_level = self.catalog_consistency
            self.session.execute(
                bound,
                execution_profile=self._rows_profile,
                timeout=time_left_s(self.timeout_s),
            )
        except Exception as error:
            raise self.error_of(error, what, is_write=True) from error

    def _rows(self, result: Any, what: str) -> Iterator[dict[str, Any]]:
        try:
            yield from result
        except Exception as error:
            raise self.error_of(error, what) from error

    def error_of(self, error: BaseException, what: str, *, is_write: bool = False) -> TreeringError:
        """Return the error to raise for something that failed, with what is known of the nodes."""
        return engine_error_of(error, what, is_write=is_write, nodes=self._nodes())

    def _nodes(self) -> str:
        # Where the driver holds every node for down it tries none, and so it names none.
        hosts = self.session.cluster.metadata.all_hosts()
        return "; ".join(
            f"{host.endpoint}: {'is down' if host.is_up is False else 'was not asked'}"
            for host in hosts
            if host.datacenter == self.local_dc
        )

    def write_all(self, cql: str, rows: Sequence[tuple[Any, ...]], what: str) -> None:
        """Run one write of the catalog for each row, side by side; all are durable then.

        Raises:
            EngineTimeoutError: The outcome is unknown; doing it again is safe.
            EngineError: One failed.
        """
        timeout_s = time_left_s(self.timeout_s)
        try:
            statement = self.prepare(cql)
            futures = []
            for values in rows:
                bound = statement.bind(values)
                bound.consistency_level = self.catalog_consistency
                futures.append(
                    self.session.execute_async(
                        bound, execution_profile=self._rows_profile, timeout=timeout_s
                    )
                )
            for future in futures:
                future.result()
        except Exception as error:
            raise self.error_of(error, what, is_write=True) from error

    def write_if(
        self, parts: Sequence[tuple[str, tuple[Any, ...]]], *, what: str, commit: int
    ) -> None:
        """Run conditional writes of one partition of the catalog as one.

        Args:
            parts: Each with its values; all take place or none does.
            what: What is being done, for messages.
            commit: The level at which the outcome has to be kept.

        Raises:
            EngineTimeoutError: The outcome is unknown.
            EngineError: It failed. That a condition did not hold is no failure: the caller reads
                again to see.
        """
        batch = BatchStatement(
            BatchType.UNLOGGED,
            consistency_level=commit,
            serial_consistency_level=ConsistencyLevel.SERIAL,
        )
        batch.is_idempotent = False
        try:
            for cql, values in parts:
                batch.add(self.prepare(cql, is_idempotent=False), values)
            self.session.execute(
                batch,
                execution_profile=self._rows_profile,
                timeout=time_left_s(self.timeout_s),
            )
        except Exception as error:
            raise self.error_of(error, what, is_write=True) from error

    def server_time_s(self) -> float:
        """Return the clock of a node of the local datacentre, in epoch seconds."""
        rows = self.query(
            statements.SERVER_CLOCK, what="reading the clock", consistency=ConsistencyLevel.ONE
        )
        return float(next(rows)["ms"]) / 1_000

    def datacentre_count(self, keyspace: str) -> int:
        """Return over how many datacentres a keyspace is replicated."""
        if keyspace not in self._datacentres:
            rows = self.query(
                statements.KEYSPACE,
                keyspace,
                what=f"looking for the keyspace {keyspace}",
                consistency=ConsistencyLevel.ONE,
            )
            replication = dict(next(iter(rows), {"replication": {}})["replication"])
            is_by_centre = str(replication.pop("class", "")).endswith("NetworkTopologyStrategy")
            self._datacentres[keyspace] = max(len(replication), 1) if is_by_centre else 1
        return self._datacentres[keyspace]

    def run_ddl(self, statement: str, what: str) -> None:
        """Run one statement that changes the schema and wait until all nodes that are up have it.

        Raises:
            EngineError: The server refused it.
            EngineTimeoutError: It was run, and the nodes do not agree on the schema in time.
        """
        try:
            result = self.session.execute(
                statement, execution_profile=self._rows_profile, timeout=SCHEMA_TIMEOUT_S
            )
        except Exception as error:
            raise self.error_of(error, what, is_write=True) from error
        future = result.response_future
        for warning in future.warnings or ():
            log.warning("%s: %s", what, warning)
        self.await_schema_agreement(what)

    def await_schema_agreement(self, what: str) -> None:
        """Wait until all nodes that are up have the same schema.

        Raises:
            EngineTimeoutError: They do not in time.
        """
        deadline = time.monotonic() + SCHEMA_TIMEOUT_S
        while len(versions := self._schema_versions(what)) > 1:
            if time.monotonic() > deadline:
                raise EngineTimeoutError(
                    f"the nodes still have {len(versions)} versions of the schema "
                    f"{SCHEMA_TIMEOUT_S:g} s after {what}",
                    hint="see nodetool describecluster; then do the same again, it goes on there",
                )
            time.sleep(SCHEMA_POLL_S)

    def _schema_versions(self, what: str) -> set[Any]:
        # Both tables of one node: each node's view is its own.
        hosts = self.local_hosts()
        near = hosts[0] if hosts else None
        down = {h.address for h in self.session.cluster.metadata.all_hosts() if h.is_up is False}
        one = ConsistencyLevel.ONE
        local = self.query(statements.SCHEMA_LOCAL, what=what, consistency=one, host=near)
        peers = self.query(statements.SCHEMA_PEERS, what=what, consistency=one, host=near)
        versions = {row["schema_version"] for row in local}
        versions |= {row["schema_version"] for row in peers if row["rpc_address"] not in down}
        # A node that left long ago may still have a row, without a version.
        return versions - {None}

    def close(self) -> None:
        """Close the sessions, and the cluster where it is ours."""
        self._preparing.shutdown(wait=False, cancel_futures=True)
        # The driver may complain about what it was doing; nobody can act on that any more.
        with contextlib.suppress(Exception):
            if self._is_cluster_ours:
                self.session.cluster.shutdown()
            else:
                self.session.shutdown()
                self._writes.shutdown()


def _local_dc_of(policy: Any) -> str:
    """Return the datacentre that a policy settled on, looking through the token-aware wrapper."""
    child = getattr(policy, "_child_policy", policy)
    return str(getattr(child, "local_dc", "") or "")
