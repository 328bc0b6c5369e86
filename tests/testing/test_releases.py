"""One node of every release and every format of files: it takes writes, and its tools answer."""

from __future__ import annotations

import pytest

from tests.cassandra_fixtures import NODES, driver_session, on_nodes
from treering.errors import UsageError
from treering.testing import LocalCassandra
from treering.testing.releases import RELEASES, release_of

FORMATS = {"5.0": "nb", "5.0 oa": "oa", "5.0 da": "da", "4.1": "nb", "4.0": "nb", "3.11": "me"}


@on_nodes(*NODES)
def test_a_node_writes_the_files_of_its_release_and_its_tools_read_them(
    cassandra_of: LocalCassandra, request: pytest.FixtureRequest
) -> None:
    name = request.node.callspec.params["cassandra_of"]
    cassandra_of.create_keyspace("formats")
    protocol = 4 if name == "3.11" else 5
    with driver_session(cassandra_of, "formats", protocol_version=protocol) as session:
        session.execute("CREATE TABLE t (k text PRIMARY KEY, v int)")
        session.execute("INSERT INTO t (k, v) VALUES ('a', 1)")
        (row,) = session.execute("SELECT release_version FROM system.local")
    cassandra_of.flush("formats", "t")
    (data,) = cassandra_of.data_folders()[0].glob("formats/t-*/*-Data.db")
    assert data.name.partition("-")[0] == FORMATS[name]
    assert row.release_version == cassandra_of.version == NODES[name]["version"]
    assert "Minimum timestamp: " in cassandra_of.sstablemetadata(data)
    assert "formats/t histograms" in cassandra_of.nodetool("tablehistograms", "formats", "t")
    assert '"t"' in cassandra_of.nodetool("tablestats", "-F", "json", "formats")
    assert "UN  127.0.0.1" in cassandra_of.nodetool("status")


def test_every_release_is_tried_in_its_newest_version() -> None:
    assert {name: release_of(release.newest) for name, release in RELEASES.items()} == RELEASES


def test_what_came_before_a_release_starts_like_it_and_what_is_not_full_is_refused() -> None:
    assert release_of("4.0-alpha4") is RELEASES["4.0"]
    for version in ("4.0", "4.0-", "5.0.8-SNAPSHOT", "x4.0.19"):
        with pytest.raises(UsageError):
            release_of(version)


def test_a_release_that_is_not_known_is_refused_with_those_that_are() -> None:
    with pytest.raises(UsageError) as refused:
        release_of("4.2.1")
    assert refused.value.hint is not None
    assert "5.0, 4.1, 4.0, 3.11" in refused.value.hint
