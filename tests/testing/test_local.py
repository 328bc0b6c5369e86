"""One real node: started, killed, paused, restarted, and nothing left behind."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cassandra_fixtures import driver_session
from treering.errors import UsageError
from treering.testing import LocalCassandra, NodeError, PortTakenError
from treering.testing.config import RingPlan, RingSettings
from treering.testing.process import command_of, free_ports, is_port_free, wait_for
from treering.testing.ring_file import RingFile

OWNER = """
import os, signal, sys
from treering.testing import LocalCassandra
ring = LocalCassandra()
ring.start()
print(ring.pid(), ring.folder, flush=True)
{end}
"""


def processes_of(folder: Path) -> list[int]:
    """Return the processes whose command line names the folder."""
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [pid for pid in pids if str(folder) in command_of(pid)]


@pytest.fixture(scope="module")
def own_node(cassandra_programs: None) -> Iterator[LocalCassandra]:
    """A node of this module's own: what is acknowledged is on disk, tests may end it."""
    with LocalCassandra(commitlog_sync="batch") as ring:
        ring.create_keyspace("kept")
        with driver_session(ring) as session:
            session.execute("CREATE TABLE kept.t (k text PRIMARY KEY, v int)")
        yield ring


def put(ring: LocalCassandra, key: str) -> None:
    with driver_session(ring, "kept") as session:
        session.execute("INSERT INTO t (k, v) VALUES (%s, 7)", (key,))


def value_of(ring: LocalCassandra, key: str) -> int | None:
    with driver_session(ring, "kept") as session:
        row = session.execute("SELECT v FROM t WHERE k = %s", (key,)).one()
        return None if row is None else int(row.v)


def test_an_acknowledged_write_survives_a_kill_under_batch_sync(own_node: LocalCassandra) -> None:
    put(own_node, "before the kill")
    pid = own_node.pid()
    own_node.kill()
    assert not own_node.is_running()
    assert not own_node.answers()
    own_node.restart()
    assert own_node.pid() != pid
    assert value_of(own_node, "before the kill") == 7
    assert value_of(own_node, "never written") is None


def test_a_restart_keeps_port_and_data(own_node: LocalCassandra) -> None:
    port, pid = own_node.port, own_node.pid()
    put(own_node, "before the restart")
    own_node.restart()
    assert (own_node.port, own_node.is_running()) == (port, True)
    assert own_node.pid() != pid
    assert value_of(own_node, "before the restart") == 7


def test_a_paused_node_runs_and_does_not_answer_until_it_is_resumed(
    own_node: LocalCassandra,
) -> None:
    own_node.pause()
    try:
        assert own_node.is_running()
        assert not own_node.answers()
    finally:
        own_node.resume()
    assert wait_for(own_node.answers, timeout_s=30)


def test_nodetool_and_sstablemetadata_tell_of_a_flushed_file(own_node: LocalCassandra) -> None:
    put(own_node, "to be flushed")
    assert "UN  127.0.0.1" in own_node.nodetool("status")
    own_node.nodetool("flush", "kept", "t")
    (folder,) = own_node.data_folders()
    files = sorted(folder.glob("kept/t-*/*-Data.db"))
    assert files
    assert all(path.name.startswith("nb-") for path in files)
    told = own_node.sstablemetadata(*files)
    assert told.count("Minimum timestamp") == len(files)


def test_a_nodetool_that_fails_says_what_it_printed(own_node: LocalCassandra) -> None:
    with pytest.raises(NodeError, match=r"nosuch(.|\n)*exit code"):
        own_node.nodetool("flush", "nosuch")


def test_a_ring_that_runs_is_not_started_twice(own_node: LocalCassandra) -> None:
    with pytest.raises(NodeError, match="runs already"):
        own_node.start()
    with pytest.raises(NodeError, match="runs already"):
        LocalCassandra(folder=own_node.folder).start()
    assert own_node.answers()


def test_a_node_that_the_ring_does_not_have_is_refused(own_node: LocalCassandra) -> None:
    with pytest.raises(UsageError, match="there is no node 1"):
        own_node.kill(1)
    with pytest.raises(UsageError, match="there is no node -1"):
        own_node.log(-1)


def test_a_stopped_ring_leaves_no_process_no_folder_and_no_port(
    cassandra_programs: None,
) -> None:
    with LocalCassandra(storage_mode="NONE") as ring:
        folder, port = ring.folder, ring.port
        assert processes_of(folder)
        assert not is_port_free("127.0.0.1", port)
        ring.nodetool("flush")
        # The storage mode shows in the files' format.
        assert list(ring.data_folders()[0].glob("*/*/oa-*-Data.db"))
    assert not processes_of(folder)
    assert not folder.exists()
    assert is_port_free("127.0.0.1", port)
    ring.stop()  # Twice is fine.


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("raise SystemExit(5)", 5),
    ],
    ids=["killed", "ended without stop"],
)
def test_a_nodes_owner_that_ends_takes_node_and_folder_with_it(
    cassandra_programs: None, end: str, code: int
) -> None:
    owner = subprocess.run(
        [sys.executable, "-c", OWNER.format(end=end)],
        stdout=subprocess.PIPE,
        text=True,
        timeout=300,
        check=False,
    )
    pid, folder = owner.stdout.split()
    assert owner.returncode == code
    assert wait_for(lambda: not command_of(int(pid)), timeout_s=30)
    assert wait_for(lambda: not Path(folder).exists(), timeout_s=30)
    assert not processes_of(Path(folder))


def test_a_folder_that_holds_another_ring_is_refused_and_left_alone(
    cassandra_programs: None, tmp_path: Path
) -> None:
    plan = RingPlan(
        settings=RingSettings(), native_port=21_000, storage_port=22_000, jmx_ports=(23_000,)
    )
    RingFile(plan=plan, pids=(None,)).write(tmp_path)
    before = (tmp_path / "ring.json").read_text()
    with pytest.raises(UsageError, match="holds a ring of 1 nodes"):
        LocalCassandra(2, folder=tmp_path).start()
    assert [path.name for path in tmp_path.iterdir()] == ["ring.json"]
    assert (tmp_path / "ring.json").read_text() == before


def test_a_node_that_does_not_like_its_yaml_is_quoted_and_leaves_nothing(
    cassandra_programs: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ring = LocalCassandra(yaml={"no_such_setting": 1})
    with pytest.raises(NodeError, match=r"exit code(.|\n)*no_such_setting"):
        ring.start()
    assert list(tmp_path.iterdir()) == []
    assert not processes_of(tmp_path)


def test_a_jvm_that_does_not_like_its_flags_is_quoted(cassandra_programs: None) -> None:
    with pytest.raises(NodeError, match=r"exit code 1(.|\n)*NoSuchFlag"):
        LocalCassandra(jvm=["-XX:+NoSuchFlag"]).start()


def test_a_taken_port_of_existing_data_is_named_and_not_exchanged(
    cassandra_programs: None, tmp_path: Path
) -> None:
    native, storage, jmx = free_ports(3, ["127.0.0.1"])
    plan = RingPlan(
        settings=RingSettings(), native_port=native, storage_port=storage, jmx_ports=(jmx,)
    )
    RingFile(plan=plan, pids=(None,)).write(tmp_path)
    with (
        socket.create_server(("127.0.0.1", native)),
        pytest.raises(PortTakenError, match=f"listens on 127.0.0.1:{native}"),
    ):
        LocalCassandra(folder=tmp_path).start()


@pytest.mark.parametrize(
    "ask",
    [
        lambda ring: ring.port,
        lambda ring: ring.folder,
        lambda ring: ring.url("plant"),
        lambda ring: ring.nodetool("status"),
        lambda ring: ring.kill(),
    ],
    ids=["port", "folder", "url", "nodetool", "kill"],
)
def test_a_ring_that_was_not_started_says_so(ask: Any) -> None:
    with pytest.raises(NodeError, match="not started"):
        ask(LocalCassandra())


def test_a_ring_that_was_not_started_does_not_run() -> None:
    ring = LocalCassandra()
    assert not ring.is_running()
    assert not ring.answers()
    ring.stop()


def test_a_ring_that_outlives_its_owner_needs_a_folder() -> None:
    with pytest.raises(UsageError, match="needs a folder"):
        LocalCassandra(outlives_owner=True)


def test_a_folder_without_a_ring_cannot_be_attached_to(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no ring was ever started"):
        LocalCassandra.attach(tmp_path)
