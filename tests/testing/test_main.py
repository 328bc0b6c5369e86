"""``python -m treering.testing``: a ring that outlives the command which started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.cassandra_fixtures import driver_session
from treering.testing import LocalCassandra
from treering.testing.process import command_of, wait_for


def run(*args: str, folder: Path) -> subprocess.CompletedProcess[str]:
    verb, *rest = args
    return subprocess.run(
        [sys.executable, "-m", "treering.testing", verb, "--folder", str(folder), *rest],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture
def folder(cassandra_programs: None, tmp_path: Path) -> Iterator[Path]:
    """A folder whose ring is stopped at the end, whatever the test did."""
    place = tmp_path / "ring"
    yield place
    assert run("down", "--delete", folder=place).returncode == 0


def test_up_status_down_and_up_again_keep_the_data(folder: Path) -> None:
    started = run("up", "--keyspace", "plant", folder=folder)
    assert started.returncode == 0, started.stderr
    assert "Starting node 1 of 1" in started.stderr
    url = started.stdout.strip()
    ring = LocalCassandra.attach(folder)
    assert url == ring.url("plant")
    with driver_session(ring, urlsplit(url).path.strip("/")) as session:
        session.execute("CREATE TABLE t (k int PRIMARY KEY)")
        session.execute("INSERT INTO t (k) VALUES (1)")

    status = run("status", folder=folder)
    assert (status.returncode, status.stdout) == (
        0,
        f"node 0  127.0.0.1:{ring.port}  up, process {ring.pid()}\n",
    )

    told = run(
        "nodetool", "--node", "127.0.0.1", "tablestats", "-F", "json", "plant", folder=folder
    )
    assert told.returncode == 0, told.stderr
    assert '"plant"' in told.stdout
    assert run("nodetool", "--node", "9", "flush", folder=folder).returncode == 2
    assert run("nodetool", "nosuchcommand", folder=folder).returncode == 1

    stopped = run("down", folder=folder)
    assert stopped.returncode == 0
    assert "stopped 1 of 1 nodes" in stopped.stdout
    assert not ring.is_running()
    status = run("status", folder=folder)
    assert (status.returncode, status.stdout) == (1, f"node 0  127.0.0.1:{ring.port}  down\n")

    assert run("up", "--keyspace", "plant", folder=folder).stdout.strip() == url
    with driver_session(LocalCassandra.attach(folder), "plant") as session:
        assert [row.k for row in session.execute("SELECT k FROM t")] == [1]

    removed = run("down", "--delete", folder=folder)
    assert "data removed" in removed.stdout
    assert not folder.exists()


def test_up_twice_says_that_it_runs_and_a_killed_node_is_seen_and_started_again(
    folder: Path,
) -> None:
    url = run("up", folder=folder).stdout
    pid = LocalCassandra.attach(folder).pid()
    assert pid is not None
    again = run("up", folder=folder)
    assert (again.returncode, again.stdout) == (0, url)
    assert "runs already" in again.stderr
    assert LocalCassandra.attach(folder).pid() == pid

    other = run("up", "--nodes", "2", folder=folder)
    assert other.returncode == 2
    assert "a ring of 1 nodes runs" in other.stderr

    os.kill(pid, signal.SIGKILL)  # The state file now names a process that has gone.
    assert wait_for(lambda: not command_of(pid), timeout_s=30)
    status = run("status", folder=folder)
    assert (status.returncode, status.stdout.split()[-1]) == (1, "down")
    assert run("up", folder=folder).stdout == url
    assert LocalCassandra.attach(folder).answers()


def test_delete_leaves_the_files_of_others(folder: Path) -> None:
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    (folder / "node0").mkdir()
    assert run("down", "--delete", folder=folder).returncode == 0
    assert sorted(path.name for path in folder.iterdir()) == ["mine.txt", "node0"]


def test_a_ring_that_was_never_started_is_said_so(tmp_path: Path) -> None:
    status = run("status", folder=tmp_path)
    assert status.returncode == 2
    assert f"no ring was ever started in {tmp_path}" in status.stderr
    assert "hint:" in status.stderr
    down = run("down", folder=tmp_path)
    assert (down.returncode, down.stdout) == (0, f"no ring was ever started in {tmp_path}\n")


@pytest.mark.parametrize(
    "args", [("up", "--nodes", "4"), ("up", "--keyspace", "No"), ("left",)], ids=" ".join
)
def test_wrong_usage_exits_with_2_and_starts_nothing(args: tuple[str, ...], tmp_path: Path) -> None:
    assert run(*args, folder=tmp_path).returncode == 2
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_state_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "ring.json").write_text("{")
    status = run("status", folder=tmp_path)
    assert status.returncode == 1
    assert "ring.json does not describe a ring" in status.stderr
