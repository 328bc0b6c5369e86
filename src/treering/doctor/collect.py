"""From targets to tables: folders, bundles and clusters, joined by keyspace and table.

Rules of this file: a target that cannot be looked at is told and the others stand; a table that
was dropped and made again is the one with the id of the schema, or of the newest file; Cassandra's
own keyspaces are left out unless they are named.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from treering.core.units import render_bytes, render_count
from treering.doctor.bundle import Bundle, is_bundle, read_bundle
from treering.doctor.describe import DescribedTable, parse_describe
from treering.doctor.facts import ClusterFacts, Missing, NodeFacts, SchemaFacts, TableFacts
from treering.doctor.join import join_tables, living_tables
from treering.doctor.marshal import schema_of_files
from treering.doctor.scope import is_looked_at
from treering.doctor.snapshot_schema import schema_of_snapshots
from treering.doctor.told import Told, told_by_nodetool
from treering.errors import EngineError, TreeringError, UsageError
from treering.sstable.facts import FileProblem, SnapshotFacts, SSTableFacts
from treering.sstable.names import parse_file_name
from treering.sstable_scan import SSTableScan, scan_sstables

LEFT_OUT: Final = "left out of the bundle"
NOT_SEEN: Final = "not seen"
# What is then missing is no fact about a node but the node, or a part of its files.
_WHOLE: Final = frozenset({"cluster", "node", LEFT_OUT, NOT_SEEN})
TableName = tuple[str, str]
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is looked at, and what the caller knows beside it.

    Attributes:
        now_s: The present, epoch seconds.
        keyspace: Only this keyspace; None for all but Cassandra's own.
        table: Only this table; None for all but those of treering's catalogs.
        described: Tables from ``DESCRIBE``.
        options: Options of every table whose schema is not known otherwise.
        is_memtable_known: Whether nothing is in memtables: the nodes are stopped or drained.
        node: What the node of a folder is called; the folder's path where empty.
    """

    now_s: int
    keyspace: str | None = None
    table: str | None = None
    described: tuple[DescribedTable, ...] = ()
    options: Mapping[str, object] = field(default_factory=dict)
    is_memtable_known: bool = False
    node: str = ""

    @property
    def named(self) -> str:
        """The keyspace or table that was asked for, in words; empty for neither."""
        if self.table is None:
            return "" if self.keyspace is None else f"keyspace {self.keyspace}"
        return f"table {'.'.join(filter(None, (self.keyspace, self.table)))}"

    def takes(self, keyspace: str, table: str) -> bool:
        """Return whether a table is looked at."""
        return is_looked_at(keyspace, table, only_keyspace=self.keyspace, only_table=self.table)


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """Tables of all targets, joined.

    Attributes:
        tables: In the order of their names.
        unseen: Targets, nodes and files that belong to no table and could not be seen.
        missing: Facts about all tables that could not be had; a check that needs them is unknown.
        errors: What went wrong with whole targets, in the order of the targets.
    """

    tables: tuple[TableFacts, ...]
    unseen: tuple[str, ...]
    missing: tuple[str, ...] = ()
    errors: tuple[Exception, ...] = ()


Live = Callable[[str, Wanted], ClusterFacts]
"""Collects from a cluster's URL."""


def collect_targets(
    targets: Sequence[str], wanted: Wanted, *, live: Live, progress: Progress | None = None
) -> Collected:
    """Return the tables of all targets, joined by keyspace and table.

    Args:
        targets: ``cassandra://`` URLs, folders, single SSTables and bundles; ``NAME=FOLDER`` says
            which node a folder is of, and folders of one name are one node's.
        wanted: What is looked at.
        live: Collects from a URL.
        progress: Is called with what is looked at next.

    Cost:
        Reads folders and bundles, and asks clusters, one after another.
    """
    found: list[ClusterFacts] = []
    unseen: list[str] = []
    errors: list[Exception] = []
    clusters: list[ClusterFacts] = []
    wanted = _of_addresses(targets, wanted)
    for target in targets:
        if progress is not None:
            progress(shown(target))
        try:
            facts = collect_target(target, wanted, live=live)
            found.append(facts)
            if "://" in target:
                clusters.append(facts)
        except (TreeringError, OSError) as error:
            errors.append(error)
            unseen.append(_told(target, error))
    found = living_tables(found, clusters)
    asked = _asked(found)
    lacking = [
        one
        for facts in found
        for one in facts.missing
        # A node of another datacentre is missing at one address and tells at the other.
        if one.what != "node" or one.node not in asked
    ]
    unseen += [render_missing(one) for one in lacking if one.what in _WHOLE]
    unseen += [
        f"{problem.path}: {problem.message}" for facts in found for problem in facts.problems
    ]
    return Collected(
        tables=tuple(_completed(table, wanted) for table in join_tables(found)),
        unseen=tuple(unseen),
        missing=tuple(render_missing(one) for one in lacking if one.what not in _WHOLE),
        errors=tuple(errors),
    )


def _asked(found: Sequence[ClusterFacts]) -> set[str]:
    """Return the nodes that some target asked, which say their version."""
    return {
        node.node
        for facts in found
        for table in facts.tables
        for node in table.nodes
        if node.version
    }


def _of_addresses(targets: Sequence[str], wanted: Wanted) -> Wanted:
    """Return what is wanted, with the keyspace that the only address names."""
    named = {urlsplit(target).path.strip("/") for target in targets if "://" in target}
    if wanted.keyspace is not None or len(named) != 1:
        return wanted
    return dataclasses.replace(wanted, keyspace=named.pop() or None)


def shown(target: str) -> str:
    """Return a target for people; a URL without what stands before its host and after its path."""
    scheme, mark, rest = target.partition("://")
    return f"{scheme}://{rest.partition('?')[0].rpartition('@')[2]}" if mark else target


def _told(target: str, error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{error.filename or target}: {error.strerror or error}"
    message = str(error)
    return message if shown(target) in message else f"{shown(target)}: {message}"


def render_missing(missing: Missing) -> str:
    """Return what is missing, in words."""
    where = f"{missing.node}: " if missing.node else ""
    return f"{where}{missing.what}: {missing.why}"


def collect_target(target: str, wanted: Wanted, *, live: Live) -> ClusterFacts:
    """Return what one target says.

    Raises:
        UsageError: It is nothing that can be looked at.
        TreeringError: A cluster that does not answer, a bundle that cannot be read.
        OSError: A folder or file that cannot be read.
    """
    if "://" in target:
        if not target.startswith("cassandra://"):
            raise UsageError(
                f"{shown(target)} is no address of a cluster",
                hint="use cassandra://host[:port][,host…]?local_dc=…, a data folder or a bundle",
            )
        return _from_cluster(target, wanted, live)
    node, path = _named(target)
    if path.is_dir():
        os.scandir(path).close()  # Says why, where it may not be listed.
        return _from_folder(path, node or wanted.node or str(path), wanted)
    if not path.exists():
        raise UsageError(
            f"there is no folder or file {path}",
            hint="name a data folder such as /var/lib/cassandra/data, a bundle, or cassandra://…",
        )
    if is_bundle(path):
        return _from_bundle(path, node, wanted)
    if parse_file_name(path.name) is None:
        raise UsageError(
            f"{path} is neither a bundle nor a file of an SSTable",
            hint="name a data folder such as /var/lib/cassandra/data, a bundle, or cassandra://…",
        )
    return _from_folder(path, node or wanted.node or str(path.parent), wanted)


def _from_cluster(target: str, wanted: Wanted, live: Live) -> ClusterFacts:
    facts = live(target, wanted)
    if not facts.tables:
        missing = "; ".join(render_missing(one) for one in facts.missing)
        why = missing or f"it has no {wanted.named or 'table'} with a clustering column"
        raise EngineError(
            f"{facts.target}: {why}", hint="check the address, the keyspace and the table"
        )
    return facts


def _named(target: str) -> tuple[str, Path]:
    name, mark, rest = target.partition("=")
    if mark and name and "/" not in name and not Path(target).exists():
        return name, Path(rest)
    return "", Path(target)


def _from_folder(path: Path, node: str, wanted: Wanted) -> ClusterFacts:
    scan = scan_sstables([path], keyspace=wanted.keyspace, table=wanted.table)
    seen = _Node(
        node=node,
        collected_at_s=wanted.now_s,
        disk_free_bytes=_free_bytes(path),
        is_memtable_known=wanted.is_memtable_known,
        is_partial=not path.is_dir(),
        is_here=True,
    )
    facts = _from_scan(scan, seen, wanted, target=str(path))
    here = os.path.realpath(path)
    if (
        not facts.tables
        and not facts.left_out
        and all(problem.path == here for problem in facts.problems)
    ):
        raise UsageError(
            f"{path} has no {wanted.named or 'table'}",
            hint="is it a data folder of Cassandra, such as /var/lib/cassandra/data? Names are "
            "case-sensitive",
        )
    if wanted.table is not None and facts.left_out and not facts.tables:
        raise UsageError(
            f"{', '.join(facts.left_out)} has no clustering column",
            hint="only tables with a clustering column are judged, since others hold no series",
        )
    return facts


def _free_bytes(path: Path) -> int | None:
    try:
        volume = os.statvfs(path)
    except OSError:
        return None
    return volume.f_bavail * volume.f_frsize


def _from_bundle(path: Path, node: str, wanted: Wanted) -> ClusterFacts:
    bundle = read_bundle(path, keyspace=wanted.keyspace, table=wanted.table)
    if bundle.facts is not None:
        kept = tuple(
            _named_node(one, node)
            for one in bundle.facts.tables
            if wanted.takes(one.keyspace, one.table)
        )
        return dataclasses.replace(bundle.facts, target=str(path), tables=kept)
    assert bundle.scan is not None
    seen = _Node(node=node or bundle.node, collected_at_s=bundle.made_at_s)
    scan, lines = _with_left_out(bundle.scan, bundle.left_out)
    facts = _from_scan(scan, seen, _with_schemas(wanted, bundle), target=str(path))
    missing = [Missing(node=seen.node, what=LEFT_OUT, why=line) for line in lines]
    told = told_by_nodetool(bundle.nodetool)
    missing += [Missing(node=seen.node, what=what, why=why) for what, why in told.problems]
    return dataclasses.replace(
        facts,
        tables=tuple(_with_nodetool(table, told) for table in facts.tables),
        missing=(*facts.missing, *missing),
    )


def _with_left_out(
    scan: SSTableScan, left_out: Sequence[str]
) -> tuple[SSTableScan, tuple[str, ...]]:
    """Return a scan that has the files which a script left out as problems, and the other lines.

    A file that nobody saw may be what is wrong with its table, as one that cannot be read.
    """
    problems, others = [], []
    for line in left_out:
        path, _, why = line.partition(": ")
        if _owner_of_path(path, {}, scan) is None:
            others.append(line)
            continue
        parsed = parse_file_name(os.path.basename(path))
        message = f"{os.path.basename(path)} was left out of the bundle: {why}"
        problems.append(
            FileProblem(
                path=path,
                id="" if parsed is None else parsed[0].id,
                message=message,
                kind="unreadable",
            )
        )
    return dataclasses.replace(scan, problems=(*scan.problems, *problems)), tuple(others)


def _named_node(table: TableFacts, name: str) -> TableFacts:
    """Return a table whose only node has the name that the caller gave its bundle."""
    if not name or len(table.nodes) != 1:
        return table
    return dataclasses.replace(table, nodes=(dataclasses.replace(table.nodes[0], node=name),))


def _with_nodetool(table: TableFacts, told: Told) -> TableFacts:
    name = (table.keyspace, table.table)
    nodes = tuple(
        dataclasses.replace(
            node,
            version=told.version,
            stats=told.stats.get(name),
            histograms=told.histograms.get(name),
        )
        for node in table.nodes
    )
    return dataclasses.replace(table, nodes=nodes)


def _with_schemas(wanted: Wanted, bundle: Bundle) -> Wanted:
    described = list(wanted.described)
    for name, text in bundle.schemas.items():
        described += parse_describe(text, path=name)
    return dataclasses.replace(wanted, described=tuple(described))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Node:
    """What is the same for all tables of a node."""

    node: str
    collected_at_s: int
    disk_free_bytes: int | None = None
    is_memtable_known: bool = False
    is_partial: bool = False
    is_here: bool = False  # The paths are of this machine: a bundle's may be as well, by chance.


def _from_scan(scan: SSTableScan, seen: _Node, wanted: Wanted, *, target: str) -> ClusterFacts:
    parts: dict[TableName, _Parts] = {}
    for place in scan.tables:
        if place.kind == "live" and "." not in place.table:
            parts.setdefault((place.keyspace, place.table), _Parts()).ids.add(place.table_id)
    folders = {os.path.dirname(one.path): (one.keyspace, one.table) for one in scan.facts}
    for file in scan.facts:
        parts.setdefault(_owner(file.keyspace, file.table), _Parts()).files.append(file)
    for snapshot in scan.snapshots:
        name = _owner(snapshot.keyspace, snapshot.table)
        parts.setdefault(name, _Parts()).snapshots.append(snapshot)
    orphans = []
    for problem in scan.problems:
        owner = _owner_of_path(problem.path, folders, scan)
        if owner is None:
            orphans.append(problem)
        else:
            parts.setdefault(owner, _Parts()).problems.append(problem)
    tables = [
        _table(name, some, seen, wanted)
        for name, some in sorted(parts.items())
        if wanted.takes(*name)
    ]
    kept = [table for table in tables if _may_hold_readings(table)]
    return ClusterFacts(
        target=target,
        tables=tuple(kept),
        problems=tuple(orphans),
        left_out=tuple(sorted({one.name for one in tables} - {one.name for one in kept})),
    )


def _may_hold_readings(table: TableFacts) -> bool:
    """Return whether a table has a clustering column, as far as anybody tells."""
    return table.schema is None or bool(table.schema.clustering)


def _owner(keyspace: str, table: str) -> TableName:
    # The files of a secondary index belong to its table.
    return keyspace, table.partition(".")[0]


def _owner_of_path(
    path: str, folders: Mapping[str, TableName], scan: SSTableScan
) -> TableName | None:
    folder = os.path.dirname(path)
    if folder in folders:
        return _owner(*folders[folder])
    named = {(place.table, place.table_id): place for place in scan.tables}
    for part in reversed(path.split(os.sep)):
        table, dash, table_id = part.rpartition("-")
        if dash and (table, table_id) in named:
            place = named[table, table_id]
            return _owner(place.keyspace, place.table)
    return None


@dataclass(slots=True)
class _Parts:
    """What a scan has of one table; several ids where it was dropped and made again."""

    ids: set[str] = field(default_factory=set)
    files: list[SSTableFacts] = field(default_factory=list)
    snapshots: list[SnapshotFacts] = field(default_factory=list)
    problems: list[FileProblem] = field(default_factory=list)


def _table(name: TableName, parts: _Parts, seen: _Node, wanted: Wanted) -> TableFacts:
    own = [file for file in parts.files if "." not in file.table]
    described = _described(name, wanted)
    table_id = described.table_id if described is not None else ""
    if not table_id and own:
        table_id = max(own, key=lambda file: (file.mtime_s or 0, file.path)).table_id
    files = [file for file in own if not table_id or file.table_id in ("", table_id)]
    missing = list(_left(name, parts, files, seen))
    if described is None and seen.is_here and table_id:
        described, lines = _of_snapshots(name, table_id, parts, seen)
        missing += lines
    node = NodeFacts(
        node=seen.node,
        collected_at_s=seen.collected_at_s,
        files=tuple(files),
        problems=tuple(parts.problems),
        snapshots=tuple(parts.snapshots),
        disk_free_bytes=seen.disk_free_bytes,
        is_memtable_known=seen.is_memtable_known,
        is_partial=seen.is_partial,
    )
    schema = described or schema_of_files(files, table_id)
    return TableFacts(
        keyspace=name[0], table=name[1], schema=schema, nodes=(node,), missing=tuple(missing)
    )


def _left(
    name: TableName, parts: _Parts, files: Sequence[SSTableFacts], seen: _Node
) -> Iterator[Missing]:
    """Yield what of a table's folders is not judged, with the reason."""
    kept = {file.path for file in files}
    other = [file for file in parts.files if file.path not in kept and "." not in file.table]
    if other:
        size = sum(file.data_bytes or 0 for file in other)
        yield Missing(
            node=seen.node,
            what=f"{render_count(len(other), 'file')} of an earlier {name[1]}",
            why=f"the table was dropped and made again; {render_bytes(size)} of the dropped one "
            "are still on disk, and are not judged",
        )
    index = [file for file in parts.files if "." in file.table]
    if index:
        yield Missing(
            node=seen.node,
            what=f"{render_count(len(index), 'file')} of secondary indexes",
            why="only the files of the table itself are judged",
        )


def _of_snapshots(
    name: TableName, table_id: str, parts: _Parts, seen: _Node
) -> tuple[SchemaFacts | None, list[Missing]]:
    """Return what snapshots say of a table that has files, and what of that could not be read.

    The files may be those of a snapshot themselves.
    """
    own = (file for file in parts.files if (file.table, file.table_id) == (name[1], table_id))
    folders = {os.path.dirname(file.path): None for file in own}
    folders |= {
        one.path: None
        for one in parts.snapshots
        if one.table_id == table_id and not one.is_backup and "." not in one.table
    }
    found = schema_of_snapshots(folders, keyspace=name[0], table=name[1], table_id=table_id)
    return found.schema, [
        Missing(node=seen.node, what=path, why=why) for path, why in found.problems
    ]


def _described(name: TableName, wanted: Wanted) -> SchemaFacts | None:
    for one in wanted.described:
        if one.table == name[1] and one.keyspace in ("", name[0]):
            return one.schema
    return None


def _completed(table: TableFacts, wanted: Wanted) -> TableFacts:
    """Return a table with what the caller knows of its options."""
    schema = table.schema
    is_told = schema is not None and schema.options is not None and schema.source is None
    if not wanted.options or is_told:
        return table
    if schema is None:  # No file could be read, and its options are known all the same.
        schema = SchemaFacts(table_id="", partition_key=(), clustering=(), columns=(), options=None)
    return dataclasses.replace(
        table,
        schema=dataclasses.replace(schema, options={**(schema.options or {}), **wanted.options}),
    )
