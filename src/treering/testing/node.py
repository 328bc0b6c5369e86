"""One node of a local ring: its folder, its process, and the tools that look at it."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from treering.testing.config import (
    QUICK_JVM,
    RingPlan,
    daemon_command,
    render_logback,
    render_place,
    render_yaml,
    storage_flag,
    tool_command,
)
from treering.testing.cql import native_answers
from treering.testing.faults import NodeError, PortTakenError
from treering.testing.process import NodeProcess, is_port_free, wait_for

READY_TIMEOUT_S: Final = 300.0
STOP_TIMEOUT_S: Final = 60.0
TOOL_TIMEOUT_S: Final = 120.0
_PORTS_TIMEOUT_S: Final = 30.0
_TAIL_LINES: Final = 40


class LocalNode:
    """One node, running or not.

    Args:
        plan: The ring that it belongs to.
        index: Its number in the ring, from 0.
        ring_folder: The ring's folder; the node lives in ``node0``, ``node1`` … of it.
        pid: Its process, where another process of ours started it.
    """

    def __init__(self, plan: RingPlan, index: int, ring_folder: Path, pid: int | None = None):
        self.plan = plan
        self.index = index
        self.folder = ring_folder / f"node{index}"
        self.is_paused = False
        self._process = None if pid is None else NodeProcess(pid, mark=storage_flag(self.folder))

    @property
    def address(self) -> str:
        """The loopback address that the node listens on."""
        return self.plan.addresses[self.index]

    @property
    def pid(self) -> int | None:
        """The process that was last started; ``None`` if it was ended."""
        return None if self._process is None else self._process.pid

    @property
    def ports(self) -> tuple[tuple[str, int], ...]:
        """Every address and port that the node listens on."""
        return (
            (self.address, self.plan.native_port),
            (self.address, self.plan.storage_port),
            ("127.0.0.1", self.plan.jmx_ports[self.index]),
        )

    def is_running(self) -> bool:
        """Whether the node's process exists; a paused one does."""
        return self._process is not None and self._process.is_running()

    def answers(self) -> bool:
        """Whether the node speaks the native protocol now."""
        return native_answers(self.address, self.plan.native_port)

    def log(self) -> str:
        """Return all that the node has logged, the JVM's own words included."""
        path = self._log_file
        return path.read_text(errors="replace") if path.exists() else ""

    def tail(self) -> str:
        """Return the last lines of the log, for a message."""
        return "\n".join(self.log().splitlines()[-_TAIL_LINES:])

    def launch(self, *, java: Path, jars: Sequence[Path]) -> int:
        """Start the node's process and return its pid; ``wait_until_ready`` comes next.

        Raises:
            PortTakenError: Another process listens on one of the node's ports.
        """
        taken = [f"{host}:{port}" for host, port in self.ports if not is_port_free(host, port)]
        if taken:
            raise PortTakenError(
                f"node {self.index} cannot start: a process listens on {', '.join(taken)}",
                hint="end that process; the ports belong to the ring's data",
            )
        self._write_settings()
        self._process = NodeProcess.launch(
            daemon_command(self.plan, self.index, java=java, jars=jars, node_folder=self.folder),
            log_file=self._log_file,
            mark=storage_flag(self.folder),
        )
        self.is_paused = False
        return self._process.pid

    def wait_until_ready(self) -> None:
        """Return when the node answers clients.

        Raises:
            NodeError: It ended, or did not answer in time; the message has its log's tail.
        """
        settled = wait_for(
            lambda: not self.is_running() or self.answers(), timeout_s=READY_TIMEOUT_S
        )
        if not self.is_running():
            self._raise_ended()
        if not settled:
            raise NodeError(
                f"node {self.index} did not answer at {self.address}:{self.plan.native_port} "
                f"within {READY_TIMEOUT_S:.0f} s; the end of its log:\n{self.tail()}",
                hint="is the machine busy, or short of memory?",
                node=self.index,
            )

    def pause(self) -> None:
        """Send SIGSTOP: connections stay open and nothing answers."""
        self._running().send(signal.SIGSTOP)
        self.is_paused = True

    def resume(self) -> None:
        """Send SIGCONT."""
        self._running().send(signal.SIGCONT)
        self.is_paused = False

    def ask_to_end(self, *, is_graceful: bool) -> None:
        """Send what ends the process, and do not wait."""
        if self._process is None:
            return
        if is_graceful:
            self._process.send(signal.SIGCONT)  # A paused process would not see the request.
            self._process.send(signal.SIGTERM)
        else:
            self._process.send(signal.SIGKILL)

    def end(self, *, is_graceful: bool) -> int | None:
        """End the process, wait until it has gone and its ports are free; return its old pid.

        Raises:
            NodeError: The process or a port of it would not go.
        """
        if self._process is None:
            return None
        self._process.end(graceful_s=STOP_TIMEOUT_S if is_graceful else 0)
        ended, self._process, self.is_paused = self._process, None, False
        if not wait_for(self._ports_are_free, timeout_s=_PORTS_TIMEOUT_S):
            raise NodeError(f"node {self.index} has gone and its ports are not free: {self.ports}")
        return ended.pid

    def run_tool(
        self,
        tool: str,
        *args: str,
        java: Path,
        jars: Sequence[Path],
        jvm: Sequence[str] = QUICK_JVM,
    ) -> str:
        """Run a class of ``org.apache.cassandra.tools`` and return what it printed.

        Raises:
            NodeError: It failed; the message holds its output.
        """
        shown = " ".join((tool, *args))
        try:
            ran = subprocess.run(
                tool_command(
                    self.plan,
                    (tool, *args),
                    java=java,
                    jars=jars,
                    node_folder=self.folder,
                    jvm=jvm,
                ),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=TOOL_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as slow:
            raise NodeError(f"{shown} did not end within {TOOL_TIMEOUT_S:.0f} s") from slow
        if ran.returncode != 0:
            raise NodeError(
                f"{shown} failed with exit code {ran.returncode}:\n{ran.stdout}{ran.stderr}"
            )
        return ran.stdout

    @property
    def _log_file(self) -> Path:
        return self.folder / "system.log"

    def _write_settings(self) -> None:
        conf = self.folder / "conf"
        for part in (conf, self.folder / "tmp"):
            part.mkdir(parents=True, exist_ok=True)
        (conf / "cassandra.yaml").write_text(render_yaml(self.plan, self.index, self.folder))
        files = {**render_logback(self.plan), **render_place(self.plan, self.index)}
        for name, text in files.items():
            (conf / name).write_text(text)

    def _raise_ended(self) -> None:
        code = None if self._process is None else self._process.exit_code()
        tail = self.tail()
        # Between the choice of a port and the node's start another process may have taken it.
        kind = PortTakenError if "already in use" in tail.lower() else NodeError
        raise kind(
            f"node {self.index} (Cassandra {self.plan.settings.version}) ended while it started, "
            f"exit code {code}; the end of its log:\n{tail}",
            hint="the log says what it did not like; check the yaml and jvm settings",
            node=self.index,
        )

    def _running(self) -> NodeProcess:
        if self._process is None or not self._process.is_running():
            raise NodeError(f"node {self.index} does not run", hint="restart() it", node=self.index)
        return self._process

    def _ports_are_free(self) -> bool:
        return all(is_port_free(host, port) for host, port in self.ports)
