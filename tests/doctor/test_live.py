"""Facts of running clusters: every release, nodes that are down or hang, commands that fail."""

from __future__ import annotations

import re
import shlex
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cassandra_fixtures import NODES, driver_session, on_nodes
from treering.doctor.collect import Wanted, collect_targets
from treering.doctor.facts import ClusterFacts, NodeFacts
from treering.doctor.live import collect_live
from treering.errors import EngineError, UsageError
from treering.testing import LocalCassandra
from treering.testing.releases import RELEASES

TABLE = (
    "CREATE TABLE {} (s text, ts timestamp, v double, PRIMARY KEY (s, ts)) "
    "WITH CLUSTERING ORDER BY (ts DESC) AND default_time_to_live = 86400 AND comment = 'ours' "
    "AND compaction = {{'class': 'TimeWindowCompactionStrategy', 'compaction_window_size': '2'}}"
)


@dataclass(frozen=True)
class Plant:
    """A keyspace with a table of readings on some ring."""

    ring: LocalCassandra
    keyspace: str

    @property
    def url(self) -> str:
        return self.ring.url(self.keyspace)


def plant_on(ring: LocalCassandra, *, protocol_version: int = 5) -> Plant:
    keyspace = f"d_{uuid.uuid4().hex[:8]}"
    ring.create_keyspace(keyspace)
    with driver_session(ring, keyspace, protocol_version=protocol_version) as session:
        session.execute(TABLE.format("readings"))
        session.execute(TABLE.format("treering_series"))
        session.execute("CREATE TABLE plain (s text PRIMARY KEY)")
        for ts in range(20):
            session.execute("INSERT INTO readings (s, ts, v) VALUES ('a', %s, 1.0)", (ts,))
    return Plant(ring, keyspace)


@pytest.fixture(scope="module")
def plant(cassandra_node: LocalCassandra) -> Iterator[Plant]:
    made = plant_on(cassandra_node)
    yield made
    with driver_session(cassandra_node) as session:
        session.execute(f"DROP KEYSPACE {made.keyspace}")


def only_node(facts: ClusterFacts) -> NodeFacts:
    (table,) = facts.tables
    (node,) = table.nodes
    return node


def missing_in(facts: ClusterFacts) -> dict[str, str]:
    every = [*facts.missing, *(one for table in facts.tables for one in table.missing)]
    return {missing.what: missing.why for missing in every}


@on_nodes(*RELEASES)
def test_a_node_of_every_release_tells_its_facts(
    cassandra_of: LocalCassandra, request: pytest.FixtureRequest
) -> None:
    release = request.node.callspec.params["cassandra_of"]
    plant = plant_on(cassandra_of, protocol_version=4 if release == "3.11" else 5)
    cassandra_of.flush(plant.keyspace, "readings")
    cassandra_of.nodetool("snapshot", "-t", "today", plant.keyspace)
    facts = collect_live(plant.url, nodetool=shlex.join(cassandra_of.nodetool_command()))

    assert [table.name for table in facts.tables] == [f"{plant.keyspace}.readings"]
    assert missing_in(facts).keys() == ({"virtual tables"} if release == "3.11" else set())
    schema = facts.tables[0].schema
    assert schema is not None
    assert (schema.strategy, schema.default_ttl_s) == ("TimeWindowCompactionStrategy", 86_400)
    assert (schema.gc_grace_s, schema.comment) == (864_000, "ours")
    assert [(one.name, one.is_descending) for one in schema.clustering] == [("ts", True)]
    assert [one.name for one in schema.partition_key] == ["s"]
    node = only_node(facts)
    assert (node.node, node.version) == ("127.0.0.1", NODES[release]["version"])
    assert node.files is None
    assert node.stats is not None
    assert (node.stats.sstable_count, node.stats.writes) == (1, 20)
    assert node.histograms is not None
    assert node.histograms.partition_cells.max == 20
    assert [one.name for one in node.snapshots or ()] == ["today"]
    if release != "3.11":
        assert node.stats.writes_per_s is not None
        hints = {"max_hint_window": "3h", "max_hint_window_in_ms": "10800000"}
        assert hints.items() & node.settings.items()
    # What it wrote into the snapshot says the same as the node.
    (kept,) = collect_targets(
        [str(one) for one in cassandra_of.data_folders()],
        Wanted(now_s=int(time.time()), keyspace=plant.keyspace, table="readings"),
        live=lambda *_: facts,
    ).tables
    assert kept.schema is not None
    assert kept.schema.source is not None
    assert kept.schema.source.snapshot == "today"
    assert abs(kept.schema.source.at_s - node.collected_at_s) < 3_600
    same = ("table_id", "partition_key", "clustering", "columns", "compaction", "gc_grace_s")
    assert [getattr(kept.schema, name) for name in (*same, "default_ttl_s", "comment")] == [
        getattr(schema, name) for name in (*same, "default_ttl_s", "comment")
    ]


def test_without_nodetool_the_virtual_tables_say_what_they_can(plant: Plant) -> None:
    facts = collect_live(plant.url)
    assert missing_in(facts).keys() == {"nodetool"}
    node = only_node(facts)
    assert node.histograms is None
    assert node.stats is not None
    assert (node.stats.writes, node.stats.sstable_count) == (20, None)
    assert node.settings["hinted_handoff_enabled"] == "true"


def test_an_address_without_a_keyspace_means_all_of_users(plant: Plant) -> None:
    url = f"cassandra://127.0.0.1:{plant.ring.port}"
    facts = collect_live(url)
    assert f"{plant.keyspace}.readings" in [table.name for table in facts.tables]
    assert not any(table.keyspace.startswith("system") for table in facts.tables)
    assert facts.target == f"{url}/"
    (named,) = collect_live(url, keyspace=plant.keyspace, table="treering_series").tables
    assert named.table == "treering_series"


def test_a_keyspace_may_have_any_name_and_what_holds_no_readings_is_left_out(
    plant: Plant,
) -> None:
    keyspace = f"Plant_{uuid.uuid4().hex[:8]}"
    with driver_session(plant.ring) as session:
        session.execute(
            f'CREATE KEYSPACE "{keyspace}" WITH replication = '
            "{'class': 'NetworkTopologyStrategy', 'datacenter1': 1}"
        )
        try:
            session.execute(TABLE.format(f'"{keyspace}"."Readings"'))
            session.execute(f'CREATE TABLE "{keyspace}".plain (s text PRIMARY KEY)')
            facts = collect_live(f"cassandra://127.0.0.1:{plant.ring.port}/{keyspace}")
        finally:
            session.execute(f'DROP KEYSPACE "{keyspace}"')
    assert [table.name for table in facts.tables] == [f"{keyspace}.Readings"]
    assert facts.left_out == (f"{keyspace}.plain",)
    assert facts.target.endswith(f"/{keyspace}")


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"keyspace": "nosuch"}, "has no keyspace nosuch"),
        ({"table": "dropped"}, "has no table .*dropped"),
        ({"table": "plain"}, "plain has no clustering column"),
    ],
)
def test_what_is_not_there_is_named(plant: Plant, wanted: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        collect_live(plant.url, **wanted)  # type: ignore[arg-type]


def test_a_table_of_no_keyspace_is_refused_before_anything_is_asked() -> None:
    with pytest.raises(UsageError, match="is of no keyspace"):
        collect_live("cassandra://127.0.0.1:1", table="readings")


def test_a_cluster_that_does_not_answer_is_an_error_in_bounded_time() -> None:
    with pytest.raises(EngineError, match=r"127\.0\.0\.1:1"):
        collect_live("cassandra://127.0.0.1:1/plant?timeout=2s")


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("import time; time.sleep(60)", "did not end within"),
        ("import sys; sys.exit('error: no such host')", "exit code 1: error: no such host"),
        ("print('Last login: yesterday')", "not what nodetool .* prints: 'Last login"),
        ("", "printed nothing"),
    ],
    ids=["hangs", "fails", "prints rubbish", "prints nothing"],
)
def test_a_nodetool_that_does_not_work_is_told_and_the_rest_stands(
    plant: Plant, script: str, why: str
) -> None:
    command = shlex.join((sys.executable, "-c", script, "{node}"))
    facts = collect_live(plant.url, table="readings", nodetool=command, timeout_s=6)
    said = missing_in(facts)
    assert {"tablestats", "tablehistograms"} <= said.keys()
    assert re.search(why, said["tablestats"])
    node = only_node(facts)
    assert node.stats is not None
    assert node.stats.writes == 20


def test_a_table_that_goes_while_its_node_is_asked_leaves_the_others(plant: Plant) -> None:
    with driver_session(plant.ring, plant.keyspace) as session:
        session.execute(TABLE.format("going"))
    drop = f"DROP TABLE {plant.keyspace}.going"
    script = (
        "import sys\nfrom treering.testing.cql import run_cql\n"
        f"run_cql('127.0.0.1', {plant.ring.port}, {drop!r}) if 'tablestats' in sys.argv else None\n"
        f"import os; os.execv({plant.ring.nodetool_command()[0]!r}, "
        f"[*{plant.ring.nodetool_command()!r}, *sys.argv[1:]])"
    )
    facts = collect_live(plant.url, nodetool=shlex.join((sys.executable, "-c", script)))
    by_name = {table.table: table for table in facts.tables}
    assert by_name["readings"].nodes[0].histograms is not None
    assert by_name["going"].nodes[0].histograms is None
    assert [missing.what for missing in by_name["going"].missing] == ["tablehistograms"]


def test_a_node_that_hangs_or_is_down_costs_its_own_facts_alone(
    cassandra_ring: LocalCassandra, tmp_path: Path
) -> None:
    made = plant_on(cassandra_ring)
    tool = tmp_path / "tool"
    cases = "\n".join(
        f'{address}) exec {shlex.join(cassandra_ring.nodetool_command(node))} "$@";;'
        for node, address in enumerate(cassandra_ring.contact_points)
    )
    tool.write_text(f'#!/bin/sh\nnode=$1; shift\ncase "$node" in\n{cases}\nesac\n')
    tool.chmod(0o755)
    nodetool = f"{tool} {{node}}"
    cassandra_ring.pause(2)
    try:
        started = time.monotonic()
        hanging = collect_live(made.url, nodetool=nodetool, timeout_s=25)
        took_s = time.monotonic() - started
    finally:
        cassandra_ring.resume(2)
    cassandra_ring.stop_node(2)
    try:
        down = collect_live(made.url, nodetool=nodetool)
        alone = collect_live(made.url, nodetool="nodetool")
    finally:
        cassandra_ring.restart(2)
    assert took_s < 60
    for facts in (hanging, down):
        (table,) = facts.tables
        told = {node.node: node for node in table.nodes}
        # A node that says nothing is there all the same, so that no check is ok without it.
        assert set(told) == set(cassandra_ring.contact_points)
        assert told[cassandra_ring.contact_points[2]].stats is None
        for address in cassandra_ring.contact_points[:2]:
            stats = told[address].stats
            assert stats is not None
            assert stats.writes == 20
            assert told[address].histograms is not None
        every = [*facts.missing, *table.missing]
        assert {missing.node for missing in every} == {cassandra_ring.contact_points[2]}
        # What a printed command needs to come back here.
        assert table.address == made.url.replace(f"/{made.keyspace}", "", 1)
    assert "put {node} into it" in missing_in(alone)["nodetool"]
