"""Connecting to a cluster: who logs in, which datacentre, which protocol.

Rules of this file: two sessions of our own on one cluster, the second one for writes; what is set
is set here and not left to the driver's defaults; no error, repr or log line holds a password.
"""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Mapping
from typing import Any, Final

from treering.engine.cassandra import statements
from treering.engine.cassandra.connection import TreeringConnection
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
    Session,
    TokenAwarePolicy,
    rows_of,
)
from treering.engine.cassandra.faults import engine_error_of
from treering.engine.cassandra.link import SCHEMA_TIMEOUT_S, Link
from treering.engine.cassandra.settings import Credentials, Settings
from treering.engine.cassandra.tls import context_of
from treering.engine.cassandra.url import CassandraUrl
from treering.errors import UsageError

RECONNECT_MAX_S: Final = 30.0
HEARTBEAT_S: Final = 10.0
# Version 5 is what Cassandra 4.0 and later speak; 3.11 speaks 4.
_PROTOCOLS: Final = (5, 4)

log = logging.getLogger(__name__)


def open_link(
    settings: Settings,
    *,
    ssl_context: ssl.SSLContext | None = None,
    environ: Mapping[str, str] | None = None,
) -> Link:
    """Connect to the cluster that the settings name.

    Args:
        settings: Where, how, and who logs in.
        ssl_context: How to talk TLS; what the settings say where None.
        environ: Where the passphrase of a key is; the process's where None.

    Raises:
        UsageError: A file for TLS that cannot be used, or a datacentre that is not there.
        UnavailableError: No node answers; names all hosts and why.
        EngineError: The login failed.

    Cost:
        A few round trips; at most about five seconds a host that does not answer.
    """
    url, credentials = settings.url, settings.credentials
    if ssl_context is None and url.tls is not None:
        ssl_context = context_of(url.tls, os.environ if environ is None else environ)
    for version in _PROTOCOLS:
        cluster = None
        try:
            cluster = _cluster_of(url, credentials, ssl_context, version)
            session = cluster.connect()
            _check_datacentre(url, cluster)
            writes = cluster.connect()
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
        writes,
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
        try:
            writes = session.cluster.connect()
        except Exception:
            own.shutdown()
            raise
    except Exception as error:
        raise engine_error_of(error, f"opening a session on {where}") from error
    try:
        link = Link(
            own,
            writes,
            is_cluster_ours=False,
            where=where,
            consistency=consistency,
            timeout_s=timeout_s,
        )
        # The driver says only at the first request that it takes no profiles.
        link.send(statements.SCHEMA_LOCAL)
        return link
    except ValueError as error:
        own.shutdown()
        writes.shutdown()
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
        connection_class=TreeringConnection,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        auth_provider=auth,
        ssl_context=ssl_context,
        connect_timeout=min(url.connect_timeout_s, url.timeout_s),
        control_connection_timeout=min(url.connect_timeout_s, url.timeout_s),
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
