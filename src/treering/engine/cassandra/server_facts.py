"""What a design can learn from the server it is made for: version, storage mode, replicas."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from treering.core.server import StorageMode
from treering.core.table import TableSpec
from treering.engine.cassandra import statements
from treering.engine.cassandra.driver import ConsistencyLevel
from treering.engine.cassandra.link import Link
from treering.errors import EngineError

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
    if mebibytes is not None:
        part["disk_bytes"] = mebibytes * _MIB
    return {**part, "note": "whole mebibytes, rounded up, as the node reports it"}
