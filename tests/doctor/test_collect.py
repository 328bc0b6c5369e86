"""From folders and bundles of real files to tables, joined."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.doctor.made import NOW_S, sstable
from tests.sstable.record import recording
from treering.doctor.bundle import write_bundle
from treering.doctor.collect import Collected, Wanted, collect_targets, shown
from treering.doctor.describe import parse_describe
from treering.doctor.facts import ClusterFacts, Missing, NodeFacts, TableFacts
from treering.doctor.marshal import cql_type_of
from treering.errors import EngineError, UsageError


@pytest.fixture(scope="module")
def data() -> Iterator[Path]:
    """Yield the data folder of a real node."""
    with recording("nb") as (root, _):
        yield root


def no_cluster(url: str, wanted: Wanted) -> ClusterFacts:
    raise EngineError(f"{url} does not answer")


def collected(*targets: object, live: Any = no_cluster, **wanted: Any) -> Collected:
    options: dict[str, Any] = {"now_s": NOW_S, **wanted}
    return collect_targets([str(one) for one in targets], Wanted(**options), live=live)


def by_name(found: Collected) -> dict[str, TableFacts]:
    return {table.name: table for table in found.tables}


def test_every_table_of_a_data_folder_is_found_with_the_schema_of_its_files(data: Path) -> None:
    tables = by_name(collected(data))
    assert {"samples.ttl", "samples.plain", "samples.types"} <= set(tables)
    schema = tables["samples.ttl"].schema
    assert schema is not None
    assert [column.type for column in schema.partition_key] == ["text", "text"]
    assert [(column.type, column.is_descending) for column in schema.clustering] == [
        ("timestamp", True)
    ]
    assert {column.name: column.type for column in schema.columns} == {
        "value": "double",
        "note": "text",
    }
    assert schema.options is None


def test_collections_and_statics_have_their_types(data: Path) -> None:
    schema = by_name(collected(data))["samples.plain"].schema
    assert schema is not None
    kinds = {column.name: column.type for column in schema.columns}
    assert kinds["tags"] == "map<text, text>"
    assert kinds["site"] == "text"
    assert kinds["small"] == "smallint"


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("FrozenType(ListType(Int32Type))", "frozen<list<int>>"),
        ("TupleType(Int32Type,MapType(UTF8Type,LongType))", "tuple<int, map<text, bigint>>"),
        ("com.example.Odd", "com.example.Odd"),
        ("ReversedType(" * 40 + "x", "ReversedType("),
        ("", ""),
    ],
)
def test_types_of_cassandra_in_cql(name: str, wanted: str) -> None:
    assert cql_type_of(name)[0].startswith(wanted)


def test_files_of_a_secondary_index_are_not_judged_as_a_table(data: Path) -> None:
    tables = by_name(collected(data))
    assert not [name for name in tables if "by_value" in name]


def test_only_what_is_wanted_is_there(data: Path) -> None:
    assert set(by_name(collected(data, keyspace="samples", table="ttl"))) == {"samples.ttl"}


def test_own_keyspaces_of_cassandra_are_left_out_unless_named(data: Path, tmp_path: Path) -> None:
    table = next((data / "samples").glob("ttl-*"))
    shutil.copytree(table, tmp_path / "system_auth" / f"roles-{'a' * 32}")
    shutil.copytree(table, tmp_path / "plant" / f"readings-{'b' * 32}")
    assert set(by_name(collected(tmp_path))) == {"plant.readings"}
    assert set(by_name(collected(tmp_path, keyspace="system_auth"))) == {"system_auth.roles"}


def test_two_folders_are_two_nodes_and_of_one_name_one_node(data: Path, tmp_path: Path) -> None:
    table = next((data / "samples").glob("ttl-*"))
    other = tmp_path / "samples" / table.name
    shutil.copytree(table, other)
    two = by_name(collected(data, tmp_path))["samples.ttl"]
    assert len(two.nodes) == 2
    one = by_name(collected(f"10.0.0.1={data}", f"10.0.0.1={tmp_path}"))["samples.ttl"]
    (node,) = one.nodes
    assert node.node == "10.0.0.1"
    assert len(node.files or ()) == 2 * len(two.nodes[0].files or ())


def test_of_a_table_that_was_made_again_the_newer_files_are_judged(
    data: Path, tmp_path: Path
) -> None:
    table = next((data / "samples").glob("ttl-*"))
    old, new = (tmp_path / "ks" / f"t-{letter * 32}" for letter in "ab")
    shutil.copytree(table, old)
    shutil.copytree(table, new)
    for file in old.glob("*-Data.db"):
        import os

        os.utime(file, (1_000, 1_000))
    (found,) = collected(tmp_path).tables
    assert {file.table_id for file in found.nodes[0].files or ()} == {"b" * 32}
    assert "dropped and made again" in found.missing[0].why


def test_a_dropped_table_without_files_is_known_by_its_snapshot(data: Path, tmp_path: Path) -> None:
    table = next((data / "samples").glob("ttl-*"))
    shutil.copytree(table, tmp_path / "ks" / f"t-{'a' * 32}" / "snapshots" / "dropped-1")
    (found,) = collected(tmp_path).tables
    assert found.nodes[0].files == ()
    assert found.nodes[0].snapshots is not None
    assert found.nodes[0].snapshots[0].dropped_bytes > 0


def test_damaged_files_belong_to_their_table_and_the_others_stand(
    data: Path, tmp_path: Path
) -> None:
    shutil.copytree(data, tmp_path / "data")
    (statistics,) = (tmp_path / "data" / "samples").glob("ttl-*/*-Statistics.db")
    statistics.write_bytes(statistics.read_bytes()[:200])
    tables = by_name(collected(tmp_path / "data"))
    assert len(tables["samples.ttl"].nodes[0].problems) == 1
    assert tables["samples.plain"].nodes[0].files
    assert not tables["samples.plain"].nodes[0].problems


def test_a_target_that_fails_is_told_and_the_others_stand(data: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "b.tar.gz"
    bundle.write_bytes(b"\x1f\x8bno")
    found = collected("cassandra://u:secret@10.0.0.9/?password=x", bundle, data, tmp_path / "no")
    assert len(found.errors) == 3
    assert any("10.0.0.9" in line for line in found.unseen)
    assert any("b.tar.gz" in line for line in found.unseen)
    assert any("there is no folder" in line for line in found.unseen)
    assert "samples.ttl" in by_name(found)


def test_secrets_of_an_address_are_not_shown() -> None:
    assert shown("cassandra://u:pw@10.0.0.9/ks?password=x") == "cassandra://10.0.0.9/ks"


@pytest.mark.parametrize("kind", ["empty", "file", "address"])
def test_nothing_to_look_at_is_a_clear_error(kind: str, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("hello")
    (tmp_path / "empty").mkdir()
    target = {
        "empty": str(tmp_path / "empty"),
        "file": str(tmp_path / "note.txt"),
        "address": "http://10.0.0.1",
    }[kind]
    found = collected(target)
    assert found.tables == ()
    assert len(found.unseen) == 1
    assert (target in found.unseen[0]) or kind == "empty"


def test_a_folder_without_permission_is_named(tmp_path: Path, monkeypatch: Any) -> None:
    def refuse(path: object) -> Any:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("treering.doctor.collect.os.scandir", refuse)
    (line,) = collected(tmp_path).unseen
    assert line == f"{tmp_path}: Permission denied"


def test_described_tables_have_names_and_options(data: Path) -> None:
    text = (
        "CREATE TABLE samples.ttl (series text, bucket text, ts timestamp, value double, "
        "PRIMARY KEY ((series, bucket), ts)) WITH gc_grace_seconds = 5;"
    )
    described = parse_describe(text, path="s.cql")
    schema = by_name(collected(data, described=described))["samples.ttl"].schema
    assert schema is not None
    assert schema.gc_grace_s == 5
    assert schema.partition_key[0].name == "series"


def test_options_of_the_caller_fill_what_files_do_not_say(data: Path) -> None:
    schema = by_name(collected(data, options={"gc_grace_seconds": 7}))["samples.ttl"].schema
    assert schema is not None
    assert (schema.gc_grace_s, schema.default_ttl_s, schema.strategy) == (7, None, None)


def test_bundles_of_two_nodes_make_one_table(tmp_path: Path) -> None:
    for name in ("one", "two"):
        node = NodeFacts(node=name, collected_at_s=6, files=(sstable(),))
        table = TableFacts(keyspace="plant", table="readings", schema=None, nodes=(node,))
        facts = ClusterFacts(target="t", tables=(table,))
        write_bundle(tmp_path / f"{name}.tar.gz", facts, made_at_s=5, with_keys=False)
    (table,) = collected(*sorted(tmp_path.iterdir())).tables
    assert [node.node for node in table.nodes] == ["one", "two"]
    (table,) = collected(f"three={tmp_path / 'one.tar.gz'}").tables
    assert [node.node for node in table.nodes] == ["three"]


def test_a_node_that_one_address_tells_is_not_missing_for_the_other_one() -> None:
    def two(url: str, wanted: Wanted) -> ClusterFacts:
        """Tell the node of one datacentre, as the address of either does."""
        near, far = ("n1", "n2") if "dc=north" in url else ("n2", "n1")
        nodes = (
            NodeFacts(node=near, collected_at_s=NOW_S, version="5.0.8", datacenter="here"),
            NodeFacts(node=far, collected_at_s=NOW_S),
        )
        table = TableFacts(keyspace="plant", table="readings", schema=None, nodes=nodes)
        away = Missing(node=far, what="node", why="it is elsewhere")
        return ClusterFacts(target=url, tables=(table,), missing=(away,))

    urls = [f"cassandra://10.0.0.1?local_dc={place}" for place in ("north", "south")]
    assert collected(urls[0], live=two).unseen == ("n2: node: it is elsewhere",)
    both = collected(*urls, live=two)
    assert both.unseen == ()
    assert [one.datacenter for one in both.tables[0].nodes] == ["here", "here"]


def test_an_address_of_something_else_is_refused() -> None:
    (error,) = collected("jdbc://u:pw@host").errors
    assert isinstance(error, UsageError)
    assert "pw" not in str(error)


def test_a_catalog_of_treering_holds_no_readings_and_is_left_out_unless_named(
    tmp_path: Path,
) -> None:
    for name in ("readings", "treering_series"):
        (tmp_path / "data" / "plant" / f"{name}-{'0' * 32}").mkdir(parents=True)
    data = tmp_path / "data"
    assert list(by_name(collected(data))) == ["plant.readings"]
    named = collected(data, keyspace="plant", table="treering_series")
    assert list(by_name(named)) == ["plant.treering_series"]
