"""Ways to connect: catalogs elsewhere, sessions of one's own, forks, clocks, weak levels."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import treering
from tests.engine.contract import NOW_MS, read_all, spec_of, write_of
from treering.clock import WriteClock
from treering.engine.cassandra import CassandraEngine
from treering.testing import LocalCassandra

if TYPE_CHECKING:
    from cassandra.cluster import Session


@pytest.fixture
def keyspace(cassandra_keyspace: str) -> str:
    """The name of the test's own keyspace."""
    return cassandra_keyspace.partition("?")[0].rpartition("/")[2]


@pytest.fixture
def other(cassandra_session: Session) -> Iterator[str]:
    """The name of a second keyspace."""
    name = f"m_{uuid.uuid4().hex[:12]}"
    cassandra_session.execute(
        f"CREATE KEYSPACE {name} WITH replication = "
        "{'class': 'NetworkTopologyStrategy', 'datacenter1': 1}"
    )
    yield name
    cassandra_session.execute(f"DROP KEYSPACE IF EXISTS {name}")


def tables_of(session: Session, keyspace: str) -> set[str]:
    """Return the names of the tables of a keyspace."""
    rows = session.execute(
        "SELECT table_name FROM system_schema.tables WHERE keyspace_name = %s", (keyspace,)
    )
    return {row.table_name for row in rows}


# A catalog in a keyspace of choice


def test_catalog_stands_where_it_is_asked_to_and_serves_two_keyspaces(
    cassandra_keyspace: str,
    keyspace: str,
    other: str,
    cassandra_node: LocalCassandra,
    cassandra_session: Session,
) -> None:
    second = f"s_{uuid.uuid4().hex[:12]}"
    for place, value in ((cassandra_keyspace, 1.0), (cassandra_node.url(second), 2.0)):
        with treering.open(f"{place}&catalog={other}", replication={"datacenter1": 1}) as store:
            table = store.create("readings", rate="1/s", retention="30d")
            table.write("s", [time.time_ns() // 1_000_000], unit="ms", value=[value])
    assert tables_of(cassandra_session, keyspace) == {"readings"}
    assert tables_of(cassandra_session, other) >= {
        *(f"treering_tables_{keyspace}", f"treering_series_{keyspace}"),
        *(f"treering_tables_{second}", f"treering_series_{second}"),
    }
    for place, value in ((cassandra_keyspace, 1.0), (cassandra_node.url(second), 2.0)):
        with treering.open(place, catalog=other) as store:
            table = store.table("readings")
            assert list(table.series()) == ["s"]
            assert table.latest("s")["value"].tolist() == [value]
            assert table.info().problems == ()
            store.drop("readings")
            assert store.tables() == ()
    cassandra_session.execute(f"DROP KEYSPACE {second}")


def test_catalog_in_a_keyspace_that_is_not_there_is_named(cassandra_keyspace: str) -> None:
    with treering.open(f"{cassandra_keyspace}&catalog=nowhere_at_all") as store:
        with pytest.raises(treering.UsageError, match="no keyspace nowhere_at_all"):
            store.tables()
        with pytest.raises(treering.UsageError, match="no keyspace nowhere_at_all"):
            store.create("readings", rate="1/s", retention="30d")


def test_keyspace_whose_name_leaves_no_room_for_a_catalog_elsewhere_is_refused(
    cassandra_node: LocalCassandra,
) -> None:
    long = "k" * 40
    with pytest.raises(treering.UsageError, match=f"catalog of {long} cannot stand in meta"):
        treering.open(f"{cassandra_node.url(long)}&catalog=meta")


@pytest.mark.parametrize(
    ("level", "catalog"),
    [("ONE", "LOCAL_QUORUM"), ("LOCAL_ONE", "LOCAL_QUORUM"), ("TWO", "LOCAL_QUORUM")]
    + [(level, level) for level in ("LOCAL_QUORUM", "QUORUM", "ALL")],
)
def test_catalog_is_never_read_or_written_below_local_quorum(
    cassandra_keyspace: str, level: str, catalog: str
) -> None:
    from cassandra import ConsistencyLevel

    engine = CassandraEngine.connect(f"{cassandra_keyspace}&consistency={level}")
    try:
        assert engine._link.consistency == getattr(ConsistencyLevel, level)
        assert engine._link.catalog_consistency == getattr(ConsistencyLevel, catalog)
    finally:
        engine.close()


# A session of one's own


def test_store_opens_on_a_session_of_the_drivers_and_leaves_it_as_it_was(
    cassandra_session: Session, keyspace: str, other: str
) -> None:
    options: dict[str, Any] = {"timeout": "20s", "consistency": "one", "catalog": other}
    with treering.open(session=cassandra_session, keyspace=keyspace, **options) as store:
        table = store.create("readings", rate="1/s", retention="30d")
        table.write("s", [time.time_ns() // 1_000_000], unit="ms", value=[1.5])
        assert table.latest("s")["value"].tolist() == [1.5]
    assert not cassandra_session.is_shutdown
    row = cassandra_session.execute(f"SELECT value FROM {keyspace}.readings").one()
    assert row.value == 1.5


def test_session_and_place_together_and_session_without_a_keyspace_are_refused(
    cassandra_session: Session, cassandra_keyspace: str
) -> None:
    with pytest.raises(treering.UsageError, match="not both"):
        treering.open(cassandra_keyspace, session=cassandra_session)
    with pytest.raises(treering.UsageError, match="no keyspace"):
        treering.open(session=cassandra_session)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_session_of_a_cluster_with_legacy_parameters_is_refused_and_left_open(
    cassandra_node: LocalCassandra, keyspace: str
) -> None:
    from cassandra.cluster import Cluster
    from cassandra.policies import RoundRobinPolicy

    cluster = Cluster(
        ["127.0.0.1"],
        port=cassandra_node.port,
        load_balancing_policy=RoundRobinPolicy(),
        protocol_version=5,
    )
    try:
        session = cluster.connect()
        with pytest.raises(treering.UsageError, match="cannot be used") as caught:
            treering.open(session=session, keyspace=keyspace)
        assert "execution_profiles" in caught.value.hint
        assert session.execute("SELECT key FROM system.local").one().key == "local"
    finally:
        cluster.shutdown()


# Forks

FORK = """
import os, sys, warnings
import treering

warnings.simplefilter("ignore")
url = sys.argv[1]
store = treering.open(url)
table = store.create("readings", rate="1/s", retention="30d")
now = [__import__("time").time_ns() // 1_000_000]
table.write("parent", now, unit="ms", value=[1.0])
child = os.fork()
if child == 0:
    for work in (lambda: table.latest("parent"), lambda: store.tables(),
                 lambda: table.write("parent", now, unit="ms", value=[2.0])):
        try:
            work()
        except treering.EngineError as error:
            assert "forked" in str(error), error
        else:
            raise SystemExit("the child used its parent's connection")
    store.close()
    with treering.open(url) as own:
        own.table("readings").write("child", now, unit="ms", value=[3.0])
    # A plain end, which runs what is registered for the end of a process.
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert table.latest("parent")["value"].tolist() == [1.0]
assert table.latest("child")["value"].tolist() == [3.0]
table.write("parent", [now[0] + 1], unit="ms", value=[4.0])
store.close()
print("both ended well")
"""


def test_child_of_a_fork_is_told_may_close_opens_its_own_and_leaves_its_parent_alone(
    cassandra_keyspace: str,
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORK, cassandra_keyspace],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.strip() == "both ended well", done.stderr


# Passwords

COMMAND = """
import os, sys
from pathlib import Path
import treering
store = treering.open(sys.argv[1])
own = Path("/proc/self/cmdline").read_bytes() + repr(store).encode() + repr(vars(store)).encode()
own += repr(store._engine).encode() + repr(vars(store._engine)).encode()
try:
    store.table("nothing")
except treering.TreeringError as error:
    own += f"{error!r} {error} {error.hint} {error.facts}".encode()
assert os.environ["TREERING_PASSWORD"].encode() not in own
store.close()
"""


def test_password_is_in_no_argument_repr_error_or_log_of_a_process(
    cassandra_keyspace: str, tmp_path: Path
) -> None:
    for arguments in (
        ["-c", "import logging; logging.basicConfig(level=10)\n" + COMMAND, cassandra_keyspace],
        ["-m", "treering", "info", "--debug", "--store", cassandra_keyspace],
        ["-m", "treering", "series", "nothing", "--debug", "--store", cassandra_keyspace],
    ):
        done = subprocess.run(
            [sys.executable, *arguments],
            env={**os.environ, "TREERING_USERNAME": "ada", "TREERING_PASSWORD": "hunter2-xyzzy"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode in (0, 2), done.stderr
        assert "hunter2-xyzzy" not in done.stdout + done.stderr


# Clocks


def test_clock_that_is_ahead_is_told_and_its_writes_outlive_what_servers_delete(
    cassandra_keyspace: str,
    keyspace: str,
    cassandra_session: Session,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ahead_us = 600_000_000
    real_ns = time.time_ns
    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING, "treering"):
        patched.setattr(
            "treering.engine.cassandra.server_clock.read_clock_offset.__kwdefaults__",
            {"host": None, "now_ns": lambda: real_ns() + ahead_us * 1_000},
        )
        patched.setattr(
            "treering.engine.cassandra.server_clock.warn_of_clock.__kwdefaults__",
            {"now_ns": lambda: real_ns() + ahead_us * 1_000},
        )
        store = treering.open(cassandra_keyspace)
        assert "clock is 600.0 s ahead" in caplog.text
        store._write_clock = WriteClock(lambda: real_ns() // 1_000 + ahead_us)
        table = store.create("readings", rate="1/s", retention="30d")
        assert any("600.0 s ahead" in problem for problem in table.info().problems)
    now_ms = time.time_ns() // 1_000_000
    table.write("s", [now_ms], unit="ms", value=[1.0])
    bucket = treering.bucket_of(now_ms, table.bucket).text
    cassandra_session.execute(
        f"DELETE FROM {keyspace}.readings WHERE series = 's' AND bucket = %s", (bucket,)
    )
    assert len(table.read("s", "-1h")) == 1
    # As if eleven minutes had passed: only a delete stamped then would remove it.
    later_us = real_ns() // 1_000 + ahead_us + 60_000_000
    cassandra_session.execute(
        f"DELETE FROM {keyspace}.readings USING TIMESTAMP {later_us}"
        " WHERE series = 's' AND bucket = %s",
        (bucket,),
    )
    assert len(table.read("s", "-1h", missing_ok=True)) == 0
    store.close()


def test_clocks_that_agree_are_not_told(
    cassandra_keyspace: str, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.WARNING, "treering"),
        treering.open(cassandra_keyspace) as store,
    ):
        table = store.create("readings", rate="1/s", retention="30d")
        assert table.info().problems == ()
    assert "clock" not in caplog.text


def test_engine_repr_names_the_address_with_its_options(cassandra_keyspace: str) -> None:
    engine = CassandraEngine.connect(f"{cassandra_keyspace}&consistency=ONE&catalog=meta")
    try:
        assert "catalog=meta" in repr(engine)
        spec = spec_of()
        with pytest.raises(treering.UsageError, match="no keyspace meta"):
            engine.create_table(spec)
        with pytest.raises(treering.EngineError):
            engine.submit_write(spec, write_of(spec, "s", [NOW_MS], value=[1.0])).result(30)
        with pytest.raises(treering.EngineError):
            read_all(engine, spec, "s", NOW_MS, NOW_MS + 1)
    finally:
        engine.close()
