"""Facts of the tables of a running cluster: over CQL, and by nodetool where somebody says how.

Rules of this file: nothing is written; every fact is optional, and one that could not be had is
said; a node that hangs costs its own bound and nothing else.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import unquote, urlsplit, urlunsplit

from treering.doctor.facts import (
    ClusterFacts,
    ColumnFacts,
    Missing,
    NodeFacts,
    SchemaFacts,
    TableFacts,
)
from treering.doctor.live_node import NodeVisit, Seen
from treering.doctor.nodetool import TableName
from treering.doctor.nodetool_run import PLACE, NodetoolCommand
from treering.doctor.scope import SYSTEM_KEYSPACES, is_looked_at
from treering.engine.cassandra.connect import open_link
from treering.engine.cassandra.link import Link
from treering.engine.cassandra.settings import Settings, read_settings
from treering.engine.cassandra.url import render_url
from treering.engine.deadline import deadline_in
from treering.errors import EngineError, UsageError

NODE_TIMEOUT_S: Final = 60.0
NODES_AT_ONCE: Final = 16

_NAMED: Final = 10
_EVERY: Final = "system"  # Stands in an address for the keyspace, which may have any name.
_NO_OPTIONS: Final = frozenset({"keyspace_name", "table_name", "id", "flags", "extensions"})


def collect_live(
    url: str,
    *,
    keyspace: str | None = None,
    table: str | None = None,
    nodetool: NodetoolCommand | str | None = None,
    timeout_s: float = NODE_TIMEOUT_S,
    environ: Mapping[str, str] | None = None,
) -> ClusterFacts:
    """Return what a cluster tells about its tables that have a clustering column.

    Args:
        url: The cluster, as a store's address; without a keyspace it means every one of users.
        keyspace: The keyspace to look at; that of the address where None.
        table: One table of it; all where None, but for those of a catalog of treering.
        nodetool: How to run nodetool for a node, such as ``ssh {node} nodetool``; None leaves out
            what it alone tells.
        timeout_s: How long one node may take, all in all.
        environ: Where the login is; the process's where None.

    Returns:
        The tables by name, and what could not be had.

    Raises:
        UsageError: A wrong address or command, a datacentre, keyspace or table that is not there,
            or none with a clustering column.
        EngineError: No node answers, or none tells the schema.

    Cost:
        Per node, about ten small reads, and with nodetool a JVM for two or three calls and, on
        3.11 or for few tables, one more for each table. Nodes are asked side by side.
    """
    settings, place = settings_of(url, os.environ if environ is None else environ)
    chosen = keyspace or place or None
    if table is not None and chosen is None:
        raise UsageError(
            f"the table {table!r} is of no keyspace", hint="name the keyspace, or in the address"
        )
    command = NodetoolCommand.from_text(nodetool) if isinstance(nodetool, str) else nodetool
    target = render_url(settings.url).replace(f"/{_EVERY}", f"/{place}", 1)
    link = open_link(settings, environ=environ)
    try:
        address = urlunsplit(urlsplit(render_url(settings.url))._replace(path=""))
        cluster = _Cluster(link=link, target=target, address=address, timeout_s=timeout_s)
        return cluster.collect(chosen, table, command)
    finally:
        link.close()


def settings_of(url: str, environ: Mapping[str, str]) -> tuple[Settings, str]:
    """Return how to connect, and the keyspace of an address: any name, not only those of stores."""
    parts = urlsplit(url)
    place = unquote(parts.path.strip("/"))
    if parts.netloc and "/" not in place:
        url = urlunsplit(parts._replace(path=f"/{_EVERY}"))
    return read_settings(url, environ), place


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cluster:
    """One look at a cluster."""

    link: Link
    target: str
    address: str
    timeout_s: float
    missing: list[Missing] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def collect(
        self, keyspace: str | None, table: str | None, nodetool: NodetoolCommand | None
    ) -> ClusterFacts:
        schemas = self._schemas(keyspace, table)
        hosts, others = self._hosts()
        nodetool = self._usable(nodetool, hosts)
        visits = [
            NodeVisit(link=self.link, host=host, tables=tuple(schemas), nodetool=nodetool)
            for host in hosts
        ]
        seen = _side_by_side(lambda visit: visit.run(self.timeout_s), visits)
        for one in seen:
            self.missing.extend(one.missing)
        return ClusterFacts(
            target=self.target,
            tables=tuple(
                replace(_table_of(name, schemas[name], seen, others), address=self.address)
                for name in sorted(schemas)
            ),
            missing=tuple(self.missing),
            left_out=tuple(sorted(self.left_out)),
        )

    def _hosts(self) -> tuple[list[Any], list[Any]]:
        """Return the nodes that can be asked, and the others, which are missing."""
        hosts, others, near = [], [], self.link.local_dc
        all_hosts = self.link.session.cluster.metadata.all_hosts()
        for host in sorted(all_hosts, key=lambda host: str(host.address)):
            if host.datacenter != near:
                why = (
                    f"it is in {host.datacenter}, and the connection is to {near}: give an address "
                    f"with local_dc={host.datacenter} too"
                )
            elif host.is_up is False:
                why = "the node is down"
            else:
                hosts.append(host)
                continue
            others.append(host)
            self.missing.append(Missing(node=str(host.address), what="node", why=why))
        return hosts, others

    def _usable(
        self, nodetool: NodetoolCommand | None, hosts: Sequence[Any]
    ) -> NodetoolCommand | None:
        if nodetool is None:
            why = "no command for nodetool was given: it tells SSTables per read, and more"
        elif len(hosts) > 1 and not nodetool.names_node:
            why = f"the command does not say for which of {len(hosts)} nodes: put {PLACE} into it"
        else:
            return nodetool
        self.missing.append(Missing(node="", what="nodetool", why=why))
        return None

    def _schemas(self, keyspace: str | None, table: str | None) -> dict[TableName, SchemaFacts]:
        tables = self._any_node("SELECT * FROM system_schema.tables")
        columns: dict[TableName, list[Mapping[str, Any]]] = {}
        for row in self._any_node("SELECT * FROM system_schema.columns"):
            columns.setdefault(_name_of(row), []).append(row)
        wanted = {
            name: _schema_of(row, columns.get(name, ()))
            for row in tables
            if is_looked_at(*(name := _name_of(row)), only_keyspace=keyspace, only_table=table)
        }
        found = {name: schema for name, schema in wanted.items() if schema.clustering}
        self.left_out.extend(".".join(name) for name in wanted.keys() - found.keys())
        self._leave_out_views(keyspace, table)
        if not found:
            raise self._none(keyspace, table, tables, is_there=bool(wanted))
        return found

    def _leave_out_views(self, keyspace: str | None, table: str | None) -> None:
        rows = self._any_node("SELECT keyspace_name, view_name FROM system_schema.views")
        names = [(str(row["keyspace_name"]), str(row["view_name"])) for row in rows]
        views = sorted(
            ".".join(name)
            for name in names
            if is_looked_at(*name, only_keyspace=keyspace, only_table=table)
        )
        self.left_out.extend(views)
        if views:
            why = "their rows come from their tables, and only those are judged"
            named = ", ".join(views[:_NAMED]) + (" and more" if len(views) > _NAMED else "")
            self.missing.append(Missing(node="", what=f"materialized views ({named})", why=why))

    def _none(
        self,
        keyspace: str | None,
        table: str | None,
        tables: Iterable[Mapping[str, Any]],
        *,
        is_there: bool,
    ) -> UsageError:
        theirs = sorted(
            {name[0] for row in tables if (name := _name_of(row))[0] not in SYSTEM_KEYSPACES}
        )
        known = ", ".join(theirs[:_NAMED]) or "no keyspace of users"
        if keyspace is not None and keyspace not in theirs:
            text = f"{self.target} has no keyspace {keyspace}, or it is empty"
        elif is_there:
            text = f"{table or 'no table'} {'has no' if table else 'has a'} clustering column"
        else:
            text = f"{self.target} has no table {'.'.join(filter(None, (keyspace, table)))}"
        return UsageError(text, hint=f"tables of users are in: {known}; names are case-sensitive")

    def _any_node(self, cql: str) -> list[dict[str, Any]]:
        """Ask node after node until one answers, each within a part of the bound."""
        failed = EngineError(f"no node of {self.target} is up")
        hosts = self.link.local_hosts()
        for host in hosts:
            try:
                with deadline_in(max(self.timeout_s / len(hosts), 1.0)):
                    return self.link.ask(cql, what="reading the schema", host=host)
            except EngineError as error:
                failed = error
        raise failed


def _side_by_side(
    run: Callable[[NodeVisit], Seen], visits: Sequence[NodeVisit]
) -> tuple[Seen, ...]:
    if not visits:
        return ()
    with ThreadPoolExecutor(min(len(visits), NODES_AT_ONCE), "treering-doctor") as pool:
        return tuple(pool.map(run, visits))


def _name_of(row: Mapping[str, Any]) -> TableName:
    return str(row["keyspace_name"]), str(row["table_name"])


def _schema_of(row: Mapping[str, Any], columns: Iterable[Mapping[str, Any]]) -> SchemaFacts:
    by_kind: dict[str, list[tuple[int, ColumnFacts]]] = {}
    for column in columns:
        facts = ColumnFacts(
            name=str(column["column_name"]),
            type=str(column["type"]),
            is_descending=column["clustering_order"] == "desc",
        )
        by_kind.setdefault(column["kind"], []).append((column["position"], facts))

    def of_kind(*kinds: str) -> tuple[ColumnFacts, ...]:
        found = [pair for kind in kinds for pair in by_kind.get(kind, ())]
        return tuple(facts for _, facts in sorted(found, key=lambda pair: pair[0]))

    return SchemaFacts(
        table_id=row["id"].hex if row.get("id") is not None else "",
        partition_key=of_kind("partition_key"),
        clustering=of_kind("clustering"),
        columns=of_kind("static", "regular"),
        options={
            name: dict(value) if isinstance(value, Mapping) else value
            for name, value in row.items()
            if name not in _NO_OPTIONS
        },
    )


def _table_of(
    name: TableName, schema: SchemaFacts, seen: Sequence[Seen], others: Sequence[Any]
) -> TableFacts:
    # Of a node that was not asked nothing is known, and it may be the one that is ill.
    unknown = [
        NodeFacts(
            node=str(host.address),
            collected_at_s=int(time.time()),
            datacenter=str(host.datacenter or ""),
        )
        for host in others
    ]
    nodes = (*(one.facts_of(name) for one in seen), *unknown)
    if not nodes:
        nodes = (NodeFacts(node="", collected_at_s=int(time.time())),)
    missing = [missing for one in seen for missing in one.missing_of(name)]
    return TableFacts(
        keyspace=name[0], table=name[1], schema=schema, nodes=nodes, missing=tuple(missing)
    )
