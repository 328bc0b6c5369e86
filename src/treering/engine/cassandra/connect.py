"""A connection to a cluster, with the settings that treering relies on.

Rules of this file: one session of our own on one cluster; every request has a timeout; every
cache has a bound; no error, repr or log line holds a password.
"""

from __future__ import annotations

import contextlib
import logging
import os
import ssl
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from treering.engine.cassandra import statements
from treering.engine.cassandra.driver import (
    EXEC_PROFILE_DEFAULT,
    Cluster,
    ConsistencyLevel,
    DCAwareRoundRobinPolicy,
    ExecutionProfile,
    ExponentialReconnectionPolicy,
    NoHostAvailable,
    OnceRetryPolicy,
    PlainTextAuthProvider,
    PreparedStatement,
    RawProtocolHandler,
    Session,
    TokenAwarePolicy,
    raw_page_of,
    rows_of,
)
from treering.engine.cassandra.faults import engine_error_of
from treering.engine.cassandra.url import CassandraUrl
from treering.errors import EngineTimeoutError, UsageError

CONNECT_TIMEOUT_S: Final = 5.0
SCHEMA_TIMEOUT_S: Final = 30.0
SCHEMA_POLL_S: Final = 0.1
RECONNECT_MAX_S: Final = 30.0
HEARTBEAT_S: Final = 10.0
PREPARED_MAX: Final = 256
IN_FLIGHT_PER_NODE: Final = 32
IN_FLIGHT_MAX: Final = 256
# Version 5 is what Cassandra 4.0 and later speak; 3.11 speaks 4.
_PROTOCOLS: Final = (5, 4)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who logs in; the password is never shown."""

    username: str
    password: str = field(repr=False)


def credentials_of(user: str | None, environ: Mapping[str, str]) -> Credentials | None:
    """Return who logs in: the address's user or TREERING_USERNAME, with TREERING_PASSWORD.

    Raises:
        UsageError: A user without a password, or a password without a user.
    """
    username = user or environ.get("TREERING_USERNAME") or None
    password = environ.get("TREERING_PASSWORD") or None
    if username is None and password is None:
        return None
    if username is None:
        raise UsageError(
            "TREERING_PASSWORD is set, but nobody is named who logs in with it",
            hint="set TREERING_USERNAME, or put user@ into the address of the store",
        )
    if password is None:
        raise UsageError(
            f"there is no password for the user {username!r}", hint="set TREERING_PASSWORD"
        )
    return Credentials(username, password)


class Link:
    """A session with its prepared statements.

    Attributes:
        session: Our own session.
        where: The nodes it was opened on, for people.
        local_dc: The datacentre that it talks to.
        consistency: The level of reads and writes.
        timeout_s: The bound of a request.
    """

    def __init__(
        self,
        session: Session,
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
        session.client_protocol_handler = RawProtocolHandler
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
        self._lock = threading.Lock()

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
        statement = self.session.prepare(cql)
        statement.is_idempotent = is_idempotent
        with self._lock:
            self._prepared[key] = statement
            while len(self._prepared) > PREPARED_MAX:
                self._prepared.popitem(last=False)
        return statement

    def send(self, statement: Any, *, cursor: bytes | None = None) -> Any:
        """Start a request whose rows come as raw pages; return the driver's future."""
        return self.session.execute_async(
            statement, execution_profile=self._raw_profile, paging_state=cursor
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
            result = self.session.execute(bound, execution_profile=self._rows_profile, host=host)
        except Exception as error:
            raise engine_error_of(error, what) from error
        return _rows(result, what)

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
            self.session.execute(bound, execution_profile=self._rows_profile)
        except Exception as error:
            raise engine_error_of(error, what, is_write=True) from error

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
            raise engine_error_of(error, what, is_write=True) from error
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
        """Close the session, and the cluster where it is ours."""
        # The driver may complain about what it was doing; nobody can act on that any more.
        with contextlib.suppress(Exception):
            if self._is_cluster_ours:
                self.session.cluster.shutdown()
            else:
                self.session.shutdown()


def _rows(result: Any, what: str) -> Iterator[dict[str, Any]]:
    try:
        yield from result
    except Exception as error:
        raise engine_error_of(error, what) from error


def open_link(
    url: CassandraUrl,
    *,
    ssl_context: ssl.SSLContext | None = None,
    environ: Mapping[str, str] | None = None,
) -> Link:
    """Connect to the cluster that the address names.

    Raises:
        UsageError: Half of the credentials, or a datacentre that the cluster does not have.
        UnavailableError: No node answers; names all hosts and why.
        EngineError: The login failed.

    Cost:
        A few round trips; at most about five seconds a host that does not answer.
    """
    credentials = credentials_of(url.user, os.environ if environ is None else environ)
    for version in _PROTOCOLS:
        cluster = None
        try:
            cluster = _cluster_of(url, credentials, ssl_context, version)
            session = cluster.connect()
            _check_datacentre(url, cluster)
            break
        except Exception as error:
            wrong_dc = _wrong_datacentre(url, cluster)
            if cluster is not None:
                cluster.shutdown()
            if isinstance(error, UsageError):
                raise
            if wrong_dc is not None:
                raise wrong_dc from error
            if version == _PROTOCOLS[-1] or not _is_protocol_refused(error):
                raise engine_error_of(error, f"connecting to {url.where}") from error
            log.info("%s does not speak version %d of the protocol", url.where, version)
    return Link(
        session,
        is_cluster_ours=True,
        where=url.where,
        consistency=url.consistency,
        timeout_s=url.timeout_s,
    )


def link_of_session(session: Session, *, consistency: str, timeout_s: float) -> Link:
    """Return a link over a session of our own on the cluster of a caller's session.

    The caller's session keeps its handler and its settings; closing the link leaves it open.

    Raises:
        UsageError: The cluster was set up with the driver's legacy parameters.
        EngineError: The session could not be opened.
    """
    where = ", ".join(str(host.endpoint) for host in session.cluster.metadata.all_hosts())
    try:
        own = session.cluster.connect()
    except Exception as error:
        raise engine_error_of(error, f"opening a session on {where}") from error
    try:
        return Link(
            own,
            is_cluster_ours=False,
            where=where,
            consistency=consistency,
            timeout_s=timeout_s,
        )
    except ValueError as error:
        own.shutdown()
        raise UsageError(
            f"the driver's cluster cannot be used: {error}",
            hint="make the Cluster with execution_profiles= instead of legacy parameters",
        ) from error


def _cluster_of(
    url: CassandraUrl,
    credentials: Credentials | None,
    ssl_context: ssl.SSLContext | None,
    version: int,
) -> Cluster:
    profile = ExecutionProfile(
        load_balancing_policy=TokenAwarePolicy(DCAwareRoundRobinPolicy(url.local_dc or "")),
        retry_policy=OnceRetryPolicy(),
        consistency_level=ConsistencyLevel.name_to_value[url.consistency],
        serial_consistency_level=ConsistencyLevel.SERIAL,
        request_timeout=url.timeout_s,
        row_factory=rows_of,
    )
    auth = None
    if credentials is not None:
        auth = PlainTextAuthProvider(credentials.username, credentials.password)
    return Cluster(
        list(url.hosts),
        port=url.hosts[0][1],
        protocol_version=version,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        auth_provider=auth,
        ssl_context=ssl_context,
        connect_timeout=min(CONNECT_TIMEOUT_S, url.timeout_s),
        control_connection_timeout=min(CONNECT_TIMEOUT_S, url.timeout_s),
        max_schema_agreement_wait=SCHEMA_TIMEOUT_S,
        reconnection_policy=ExponentialReconnectionPolicy(1.0, RECONNECT_MAX_S),
        idle_heartbeat_interval=HEARTBEAT_S,
        idle_heartbeat_timeout=HEARTBEAT_S,
    )


def _is_protocol_refused(error: Exception) -> bool:
    causes = [error]
    if isinstance(error, NoHostAvailable) and isinstance(error.errors, dict):
        causes += error.errors.values()
    return any("protocol" in str(cause).lower() for cause in causes)


def _local_dc_of(policy: Any) -> str:
    """Return the datacentre that a policy settled on, looking through the token-aware wrapper."""
    child = getattr(policy, "_child_policy", policy)
    return str(getattr(child, "local_dc", "") or "")


def _wrong_datacentre(url: CassandraUrl, cluster: Any) -> UsageError | None:
    if url.local_dc is None or cluster is None:
        return None
    known = sorted({h.datacenter for h in cluster.metadata.all_hosts() if h.datacenter})
    if not known or url.local_dc in known:
        return None
    return UsageError(
        f"the cluster at {url.where} has no datacentre {url.local_dc!r}",
        hint=f"set local_dc to one of {', '.join(known)}",
    )


def _check_datacentre(url: CassandraUrl, cluster: Cluster) -> None:
    wrong = _wrong_datacentre(url, cluster)
    if wrong is not None:
        raise wrong
    if url.local_dc is not None:
        return
    contacts = set(cluster.endpoints_resolved)
    known = sorted(
        {h.datacenter for h in cluster.metadata.all_hosts() if h.endpoint in contacts} - {None}
    )
    if len(known) > 1:
        raise UsageError(
            f"the hosts {url.where} are in {len(known)} datacentres: {', '.join(known)}",
            hint="say which one is near with local_dc= in the address of the store",
        )
