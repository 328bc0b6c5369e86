"""Tables of several targets are one each: nodes, files and snapshots once, and only what lives."""

from __future__ import annotations

import dataclasses

from tests.doctor.made import sstable
from treering.doctor.facts import ClusterFacts, NodeFacts, SchemaFacts, TableFacts, TableStats
from treering.doctor.join import join_tables, living_tables
from treering.sstable.facts import SnapshotFacts


def cluster(node: NodeFacts, schema: SchemaFacts | None = None) -> ClusterFacts:
    table = TableFacts(keyspace="plant", table="readings", schema=schema, nodes=(node,))
    return ClusterFacts(target="t", tables=(table,))


def named(facts: ClusterFacts, name: str) -> ClusterFacts:
    (table,) = facts.tables
    return dataclasses.replace(facts, tables=(dataclasses.replace(table, table=name),))


def snapshot(name: str, path: str = "") -> SnapshotFacts:
    return SnapshotFacts(
        name=name,
        keyspace="plant",
        table="readings",
        table_id="",
        path=path,
        bytes=9,
        dropped_bytes=7,
        files=1,
        dropped_ids=(),
    )


SCHEMA = SchemaFacts(
    table_id="b" * 32,
    partition_key=(),
    clustering=(),
    columns=(),
    options={"gc_grace_seconds": 1},
)
LIVE = NodeFacts(node="10.0.0.1", collected_at_s=5, version="5.0.8", stats=TableStats(reads=3))
FOLDER = NodeFacts(node="/data", collected_at_s=6, files=(sstable(table_id="b" * 32),))


def test_a_cluster_of_one_node_and_its_folder_are_one_node() -> None:
    (table,) = join_tables([cluster(LIVE, SCHEMA), cluster(FOLDER)])
    (node,) = table.nodes
    assert (node.node, node.version, node.stats) == ("10.0.0.1", "5.0.8", LIVE.stats)
    assert node.files == FOLDER.files
    assert table.schema == SCHEMA


def test_folders_are_joined_to_nodes_of_a_cluster_by_name() -> None:
    other = dataclasses.replace(LIVE, node="10.0.0.2")
    folder = dataclasses.replace(FOLDER, node="10.0.0.2")
    found = [cluster(LIVE, SCHEMA), cluster(other, SCHEMA), cluster(folder)]
    (table,) = join_tables(found)
    assert [(node.node, node.files is None) for node in table.nodes] == [
        ("10.0.0.1", True),
        ("10.0.0.2", False),
    ]


def test_files_of_another_id_than_the_schema_says_are_not_the_tables() -> None:
    stale = dataclasses.replace(FOLDER, files=(sstable(table_id="a" * 32),))
    (table,) = join_tables([cluster(LIVE, SCHEMA), cluster(stale)])
    assert table.nodes[0].files == ()


def test_a_snapshot_that_a_node_tells_and_that_its_folder_holds_counts_once() -> None:
    told = dataclasses.replace(LIVE, snapshots=(snapshot("daily"), snapshot("old")))
    found = dataclasses.replace(FOLDER, snapshots=(snapshot("daily", "/data/s/daily"),))
    (table,) = join_tables([cluster(told, SCHEMA), cluster(found)])
    snapshots = table.nodes[0].snapshots or ()
    assert [(one.name, one.path) for one in snapshots] == [("old", ""), ("daily", "/data/s/daily")]


def test_tables_that_the_cluster_leaves_out_are_not_looked_at_in_a_folder_either() -> None:
    asked = dataclasses.replace(cluster(LIVE, SCHEMA), left_out=("plant.names",))
    kept = living_tables([asked, named(cluster(FOLDER), "names")], [asked])
    assert [len(facts.tables) for facts in kept] == [1, 0]
    assert [facts.missing for facts in kept] == [(), ()]


def test_what_a_dropped_table_left_on_disk_is_said_and_an_empty_folder_is_not() -> None:
    asked = cluster(LIVE, SCHEMA)
    empty = dataclasses.replace(FOLDER, files=())
    folders = [named(cluster(FOLDER), "dropped"), named(cluster(empty), "gone"), cluster(FOLDER)]
    kept = living_tables([asked, *folders], [asked])
    assert [len(facts.tables) for facts in kept] == [1, 0, 0, 1]
    (missing,) = [one for facts in kept for one in facts.missing]
    assert missing.what == "plant.dropped"
    assert "1.01 MB" in missing.why


def test_without_a_cluster_every_table_of_a_folder_stands() -> None:
    folder = cluster(FOLDER)
    assert living_tables([folder], []) == [folder]
