"""Tables of several targets joined by keyspace and table, each node once."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

from treering.core.units import render_bytes
from treering.doctor.facts import ClusterFacts, Missing, NodeFacts, SchemaFacts, TableFacts
from treering.sstable.facts import SnapshotFacts, SSTableFacts


def living_tables(
    found: Sequence[ClusterFacts], clusters: Sequence[ClusterFacts]
) -> list[ClusterFacts]:
    """Return targets without tables that hold no readings, or that their cluster has dropped.

    Args:
        found: All targets.
        clusters: Those of them that are running clusters, which know what they have.
    """
    left_out = {name for facts in found for name in facts.left_out}
    living = {table.name for facts in clusters for table in facts.tables} | left_out
    keyspaces = {name.partition(".")[0] for facts in clusters for name in _names_of(facts)}
    kept = []
    for facts in found:
        tables = [table for table in facts.tables if table.name not in left_out]
        dropped = [
            table for table in tables if table.keyspace in keyspaces and table.name not in living
        ]
        lines = [line for table in dropped if (line := _dropped(table)) is not None]
        kept.append(
            dataclasses.replace(
                facts,
                tables=tuple(table for table in tables if table not in dropped),
                missing=(*facts.missing, *lines),
            )
        )
    return kept


def _names_of(facts: ClusterFacts) -> Iterator[str]:
    yield from (table.name for table in facts.tables)
    yield from facts.left_out


def _dropped(table: TableFacts) -> Missing | None:
    """Return what is left on disk of a table that its cluster does not have; None for nothing."""
    size = sum(one.disk_bytes or 0 for node in table.nodes for one in node.files or ())
    size += sum(one.bytes for node in table.nodes for one in node.snapshots or ())
    if not size:
        return None
    return Missing(
        node="",
        what=table.name,
        why=f"the cluster has no such table any more, and {render_bytes(size)} of its files and "
        "snapshots are still in the folders; they are not judged",
    )


def join_tables(found: Iterable[ClusterFacts]) -> tuple[TableFacts, ...]:
    """Return the tables of several targets, each once, in the order of their names.

    Entries of one node are put together: files of all its folders, and everything else from
    whichever has it. A cluster of one node and a single folder without a name are one node.
    """
    by_name: dict[tuple[str, str], list[TableFacts]] = {}
    for facts in found:
        for table in facts.tables:
            by_name.setdefault((table.keyspace, table.table), []).append(table)
    return tuple(_joined(tables) for _, tables in sorted(by_name.items()))


def _joined(tables: Sequence[TableFacts]) -> TableFacts:
    if len(tables) == 1:
        return tables[0]
    schema = _best_schema([table.schema for table in tables if table.schema is not None])
    nodes: dict[str, list[NodeFacts]] = {}
    for node in _renamed([node for table in tables for node in table.nodes]):
        nodes.setdefault(node.node, []).append(_of_table(node, schema))
    missing = {one: None for table in tables for one in table.missing}
    return TableFacts(
        keyspace=tables[0].keyspace,
        table=tables[0].table,
        schema=schema,
        nodes=tuple(_merged(some) for _, some in sorted(nodes.items())),
        missing=tuple(missing.keys()),
        address=next((table.address for table in tables if table.address), ""),
    )


def _best_schema(schemas: Sequence[SchemaFacts]) -> SchemaFacts | None:
    """Return what is told now, else what the newest snapshot says, else what files do."""
    with_options = [schema for schema in schemas if schema.options is not None]
    now = [schema for schema in with_options if schema.source is None]
    old = sorted(with_options, key=lambda schema: -_taken_at_s(schema))
    return next(iter(now or old or schemas), None)


def _taken_at_s(schema: SchemaFacts) -> int:
    return 0 if schema.source is None else schema.source.at_s


def _renamed(nodes: Sequence[NodeFacts]) -> list[NodeFacts]:
    """Return nodes; the only one with files and the only one without are the same."""
    with_files = {node.node for node in nodes if node.files is not None}
    without = {node.node for node in nodes if node.files is None}
    if len(with_files) != 1 or len(without) != 1:
        return list(nodes)
    (name,) = without
    return [dataclasses.replace(node, node=name) for node in nodes]


def _of_table(node: NodeFacts, schema: SchemaFacts | None) -> NodeFacts:
    """Return a node without the files of a table that was dropped."""
    if node.files is None or schema is None or not schema.table_id:
        return node
    kept = tuple(one for one in node.files if one.table_id in ("", schema.table_id))
    return dataclasses.replace(node, files=kept)


def _merged(nodes: Sequence[NodeFacts]) -> NodeFacts:
    if len(nodes) == 1:
        return nodes[0]
    merged = nodes[0]
    for node in nodes[1:]:
        merged = NodeFacts(
            node=merged.node,
            collected_at_s=max(merged.collected_at_s, node.collected_at_s),
            version=merged.version or node.version,
            settings={**node.settings, **merged.settings},
            files=_files_of(merged.files, node.files),
            problems=tuple(dict.fromkeys((*merged.problems, *node.problems))),
            snapshots=_snapshots_of(merged.snapshots, node.snapshots),
            histograms=merged.histograms or node.histograms,
            stats=merged.stats or node.stats,
            disk_free_bytes=_least(merged.disk_free_bytes, node.disk_free_bytes),
            is_memtable_known=merged.is_memtable_known or node.is_memtable_known,
            is_partial=_is_partial(merged, node),
            datacenter=merged.datacenter or node.datacenter,
        )
    return merged


def _is_partial(first: NodeFacts, second: NodeFacts) -> bool:
    """Return whether single files are among the files of two sources that no folder has."""
    if first.is_partial and second.is_partial:
        return True
    if not first.is_partial and not second.is_partial:
        return False
    single, other = (first, second) if first.is_partial else (second, first)
    in_folder = {file.path for file in other.files or ()}
    return any(file.path not in in_folder for file in single.files or ())


def _files_of(
    first: tuple[SSTableFacts, ...] | None, second: tuple[SSTableFacts, ...] | None
) -> tuple[SSTableFacts, ...] | None:
    if first is None or second is None:
        return second if first is None else first
    return tuple({one.path: one for one in first + second}.values())


def _snapshots_of(
    first: tuple[SnapshotFacts, ...] | None, second: tuple[SnapshotFacts, ...] | None
) -> tuple[SnapshotFacts, ...] | None:
    """Return the snapshots of two sources; those that a node told are in its folders as well."""
    if first is None or second is None:
        return second if first is None else first
    both = {(one.path, one.name): one for one in first + second}.values()
    in_folders = {one.name for one in both if one.path}
    return tuple(one for one in both if one.path or one.name not in in_folders)


def _least(first: int | None, second: int | None) -> int | None:
    known = [value for value in (first, second) if value is not None]
    return min(known, default=None)
