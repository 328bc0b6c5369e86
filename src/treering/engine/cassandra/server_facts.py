"""What a design can learn from the server it is made for: version, storage mode, replicas."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from treering.core.server import StorageMode
from treering.core.table import TableSpec
from treering.core.units import render_count
from treering.engine.cassandra import statements
from treering.engine.cassandra.driver import ConsistencyLevel
from treering.engine.cassandra.link import Link
from treering.errors import EngineError, UsageError

_MIB: Final = 1024 * 1024
_VERSION: Final = re.compile(r"^\d+\.\d+(?:\.\d+)?")


def read_workload_defaults(
    link: Link, keyspace: str, replication: Mapping[str, int] | None
) -> dict[str, Any]:
    """Return the fields of a workload that follow from the server.

    Args:
        link: The connection.
        keyspace: The keyspace.
        replication: What a missing keyspace would be made with.

    Cost:
        Two small reads.
    """
    facts: dict[str, Any] = {}
    version = oldest_version(str(host.release_version) for host in link.local_hosts())
    if version is not None:
        facts["cassandra"] = version
        if int(version.partition(".")[0]) >= 5:
            facts["storage_mode"] = _read_storage_mode(link)
    rows = link.query(
        statements.KEYSPACE,
        keyspace,
        what=f"reading the replication of {keyspace}",
        consistency=ConsistencyLevel.ONE,
    )
    found = next((row["replication"] for row in rows), None)
    replicas = dict(replication or {}) if found is None else replicas_of(found, link.local_dc)
    if replicas:
        facts["replication"] = tuple(replicas.items())
    return facts


def oldest_version(texts: Iterable[str]) -> str | None:
    """Return the oldest of the nodes' versions, without what follows the numbers."""
    matches = [match[0] for text in texts if (match := _VERSION.match(text)) is not None]
    return min(matches, key=lambda text: tuple(map(int, text.split("."))), default=None)


def replicas_of(options: Mapping[str, str], local_dc: str) -> dict[str, int]:
    """Return replicas by datacentre from a keyspace's replication options.

    ``SimpleStrategy`` knows no datacentres: its replicas count as the local one's. A transient
    replica (``3/1``) counts as one.
    """
    rest = {name: value for name, value in options.items() if name != "class"}
    if "replication_factor" in rest:
        rest = {local_dc: rest["replication_factor"]}
    counts = {name: value.partition("/")[0] for name, value in rest.items()}
    return {name: int(count) for name, count in counts.items() if count.isdigit() and int(count)}


def check_replication(keyspace: str, replicas: Mapping[str, int], nodes: Mapping[str, int]) -> None:
    """Refuse a keyspace that asks a datacentre for more replicas than it has nodes.

    It could be made, but nothing could be written to it, and it would stay.

    Args:
        keyspace: The keyspace that is to be made.
        replicas: Replicas by datacentre.
        nodes: Nodes by datacentre.

    Raises:
        UsageError: Names each such datacentre.
    """
    wrong = [
        f"{count} in {centre}, which has {render_count(nodes.get(centre, 0), 'node')}"
        for centre, count in replicas.items()
        if count > nodes.get(centre, 0)
    ]
    if wrong:
        known = ", ".join(f"{centre}:{count}" for centre, count in sorted(nodes.items()))
        raise UsageError(
            f"the keyspace {keyspace} cannot have the replicas that were asked for: "
            f"{'; '.join(wrong)}",
            hint=f"the cluster has {known}: state at most so many",
            keyspace=keyspace,
        )


def check_usable(keyspace: str, options: Mapping[str, str], nodes: Mapping[str, int]) -> None:
    """Refuse a keyspace that has fewer nodes in a datacentre than a quorum of its replicas.

    Args:
        keyspace: The keyspace that is there.
        options: Its replication, as the server shows it.
        nodes: Nodes by datacentre.

    Raises:
        UsageError: Says the statement that makes it usable.
    """
    if not options.get("class", "").endswith("NetworkTopologyStrategy"):
        return
    replicas = replicas_of(options, "")
    fit = {c: min(count, nodes.get(c, 0)) for c, count in replicas.items() if nodes.get(c, 0)}
    wrong = [c for c, count in replicas.items() if c in fit and nodes[c] < count // 2 + 1]
    if not wrong:
        return
    parts = "".join(f", '{centre}': {count}" for centre, count in fit.items())
    shown = "; ".join(
        f"{replicas[c]} replicas in {c}, which has {render_count(nodes[c], 'node')}" for c in wrong
    )
    raise UsageError(
        f"the keyspace {keyspace} is there and cannot be used: it wants {shown}",
        hint=f"ALTER KEYSPACE {keyspace} WITH replication = "
        f"{{'class': 'NetworkTopologyStrategy'{parts}}};",
        keyspace=keyspace,
    )


def not_durable_error(keyspace: str) -> UsageError:
    """Return the error for a keyspace whose writes do not pass through the commit log."""
    return UsageError(
        f"the keyspace {keyspace} has durable_writes = false: a node that crashes loses what it "
        "acknowledged since its last flush",
        hint=f"ALTER KEYSPACE {keyspace} WITH durable_writes = true;",
        keyspace=keyspace,
    )


def _read_storage_mode(link: Link) -> str:
    try:
        rows = link.query(
            statements.SETTING,
            "storage_compatibility_mode",
            what="reading the storage compatibility mode",
            consistency=ConsistencyLevel.ONE,
        )
        value = next((row["value"] for row in rows), None)
    except EngineError:
        # A role that may not read system_views gets the default, which is the stricter one.
        value = None
    # A node that does not set it shows null, and its default is CASSANDRA_4.
    return value if value in set(StorageMode) else StorageMode.CASSANDRA_4.value


def read_disk_usage(link: Link, spec: TableSpec, keyspace: str) -> tuple[dict[str, Any], ...]:
    """Return the disk that a table takes on each node of the local datacentre.

    Cost:
        A small read of each node.
    """
    return tuple(_disk_of(link, host, spec, keyspace) for host in link.local_hosts())


def _disk_of(link: Link, host: Any, spec: TableSpec, keyspace: str) -> dict[str, Any]:
    part: dict[str, Any] = {"node": str(host.endpoint), "disk_bytes": None}
    try:
        rows = link.query(
            statements.DISK_USAGE,
            *(spec.layout.keyspace or keyspace, spec.layout.table),
            what=f"reading the disk usage of {spec.name}",
            consistency=ConsistencyLevel.ONE,
            host=host,
        )
        mebibytes = next((row["mebibytes"] for row in rows), None)
    except EngineError as error:
        return {**part, "note": f"not readable: {error}"}
    if not mebibytes:
        return {**part, "note": "unknown until the node flushes what it holds in memory"}
    part["disk_bytes"] = mebibytes * _MIB
    return {**part, "note": "whole mebibytes, rounded up, as the node reports it"}
