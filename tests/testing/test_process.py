"""Processes, ports and the watchdog."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from treering.testing import watchdog
from treering.testing.process import (
    NodeProcess,
    Watchdog,
    command_of,
    free_ports,
    is_port_free,
    wait_for,
)

HOST = "127.0.0.1"
# A stand-in for a node: says that it runs, ignores what asks it to end, carries a mark.
STUBBORN = """
import signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("runs", flush=True)
signal.pause()
"""


@pytest.fixture
def stubborn() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", STUBBORN, "mark-of-a-node"], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "runs\n"
        yield child
        child.kill()


def test_a_process_that_ignores_the_request_is_killed(stubborn: subprocess.Popen[str]) -> None:
    process = NodeProcess(stubborn.pid, mark="mark-of-a-node")
    assert process.is_running()
    child = NodeProcess(stubborn.pid, mark="mark-of-a-node", child=stubborn)  # type: ignore[arg-type]
    child.end(graceful_s=0.2)
    assert not process.is_running()
    assert stubborn.returncode == -9


def test_a_pid_that_was_given_away_is_not_our_node(stubborn: subprocess.Popen[str]) -> None:
    process = NodeProcess(stubborn.pid, mark="mark-of-another-node")
    assert not process.is_running()
    process.end(graceful_s=0)
    assert stubborn.poll() is None


def test_the_command_of_a_process_that_has_gone_is_empty() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert command_of(ended.pid) == ""


def test_a_dead_owners_nodes_are_killed_and_its_folder_removed(
    stubborn: subprocess.Popen[str], tmp_path: Path
) -> None:
    folder = tmp_path / "ring"
    (folder / "node0").mkdir(parents=True)
    watchdog.watch([f"+{stubborn.pid}\n"], mark="mark-of-a-node", folder=str(folder))
    assert stubborn.wait(timeout=30) == -9
    assert not folder.exists()


@pytest.mark.parametrize(
    ("lines", "mark"),
    [
        (["+{pid}\n", "-{pid}\n"], "mark-of-a-node"),
        (["+{pid}\n", "done\n"], "mark-of-a-node"),
        (["+{pid}\n"], "mark-of-another-node"),
    ],
    ids=["a node that was ended", "an owner that stopped in order", "a pid that was given away"],
)
def test_the_watchdog_spares(stubborn: subprocess.Popen[str], lines: list[str], mark: str) -> None:
    watchdog.watch([line.format(pid=stubborn.pid) for line in lines], mark=mark, folder="")
    with pytest.raises(subprocess.TimeoutExpired):
        stubborn.wait(timeout=0.2)


def test_a_watchdog_that_is_told_done_leaves_the_folder(tmp_path: Path) -> None:
    dog = Watchdog(mark="mark-of-a-node", folder=tmp_path)
    dog.close()
    assert tmp_path.is_dir()


def test_free_ports_differ_and_can_be_listened_on() -> None:
    ports = free_ports(5, [HOST, "127.0.0.2"])
    assert len(set(ports)) == 5
    assert all(is_port_free("127.0.0.2", port) for port in ports)


def test_a_port_is_free_again_when_its_server_has_closed_with_a_client() -> None:
    with socket.create_server((HOST, 0)) as server:
        port = server.getsockname()[1]
        assert not is_port_free(HOST, port)
        with socket.create_connection((HOST, port)):
            link, _ = server.accept()
            link.close()  # The side that closes first keeps the port in TIME_WAIT.
    assert is_port_free(HOST, port)


def test_waiting_ends_with_the_bound() -> None:
    assert wait_for(lambda: True, timeout_s=0)
    assert not wait_for(lambda: False, timeout_s=0.1)
