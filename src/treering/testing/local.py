"""Real Cassandra nodes on loopback, for tests and for trying things out.

Rules of this file: a method returns when what it names is true, and raises with the tail of the
node's log when it does not become true within a generous bound; whatever ends the owner, the
nodes end and a temporary folder goes.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from treering.errors import UsageError
from treering.testing.config import (
    DATACENTER,
    LOGBACK,
    VERSION_DEFAULT,
    CommitlogSync,
    RingPlan,
    addresses_of,
    check_ring,
    daemon_command,
    render_yaml,
    storage_flag,
    tool_command,
)
from treering.testing.faults import NodeError, PortTakenError
from treering.testing.jars import cassandra_jars
from treering.testing.process import (
    NodeProcess,
    Watchdog,
    free_ports,
    is_port_free,
    native_answers,
    wait_for,
)
from treering.testing.ring_file import RingFile, read_ring_file
from treering.testing.tools import find_java

READY_TIMEOUT_S: Final = 180.0
STOP_TIMEOUT_S: Final = 60.0
TOOL_TIMEOUT_S: Final = 120.0
_START_TRIES: Final = 3
_TAIL_LINES: Final = 40

log = logging.getLogger(__name__)


class LocalCassandra:
    """A ring of one to three Cassandra nodes on 127.0.0.1, 127.0.0.2 and 127.0.0.3.

    Nodes are numbered from 0. Use it as a context manager, or call ``start`` and ``stop``. The
    nodes end with this process, however it ends.

    Args:
        nodes: One to three.
        version: A full version of Cassandra; its jars are fetched by Maven once.
        folder: Where data and logs live, kept at the end; ``None`` for a temporary folder that
            ``stop`` removes. A folder that held a ring before starts that ring again.
        heap_mb: Heap of each node.
        storage_mode: ``storage_compatibility_mode``, such as ``"NONE"``; ``None`` for
            Cassandra's default.
        commitlog_sync: ``"periodic"`` as Cassandra's default; ``"batch"`` or ``"group"`` where
            an acknowledged write must survive ``kill``.
        yaml: Further settings of ``cassandra.yaml``; they win, and ``None`` removes a setting.
        jvm: Further arguments of the JVM; they come last.
        outlives_owner: The nodes stay when this process ends, until somebody calls ``stop`` on
            ``LocalCassandra.attach(folder)``. Needs a folder.
        progress: Is told, in a sentence, when something long begins.

    Raises:
        UsageError: A ring that cannot be started here.
    """

    def __init__(
        self,
        nodes: int = 1,
        version: str = VERSION_DEFAULT,
        *,
        folder: Path | str | None = None,
        heap_mb: int = 512,
        storage_mode: str | None = None,
        commitlog_sync: CommitlogSync = "periodic",
        yaml: Mapping[str, Any] | None = None,
        jvm: Sequence[str] = (),
        outlives_owner: bool = False,
        progress: Callable[[str], None] = log.info,
    ) -> None:
        check_ring(nodes=nodes, version=version, heap_mb=heap_mb)
        if outlives_owner and folder is None:
            raise UsageError("a ring that outlives its owner needs a folder of its own")
        self._wanted = RingPlan(
            version=version,
            nodes=nodes,
            native_port=0,
            storage_port=0,
            jmx_ports=(0,) * nodes,
            heap_mb=heap_mb,
            storage_mode=storage_mode,
            commitlog_sync=commitlog_sync,
            yaml=dict(yaml or {}),
            jvm=tuple(jvm),
        )
        self._is_temporary = folder is None
        self._folder = None if folder is None else Path(folder).expanduser().resolve()
        self._outlives_owner = outlives_owner
        self._progress = progress
        self._plan: RingPlan | None = None
        self._processes: list[NodeProcess | None] = [None] * nodes
        self._watchdog: Watchdog | None = None
        self._owner_pid = os.getpid()

    @classmethod
    def attach(cls, folder: Path | str) -> LocalCassandra:
        """Return the ring that another process started in ``folder``, running or not.

        Raises:
            UsageError: No ring was ever started in the folder.
        """
        place = Path(folder).expanduser().resolve()
        known = read_ring_file(place)
        if known is None:
            raise UsageError(f"no ring was ever started in {place}", folder=str(place))
        plan = known.plan
        ring = cls(plan.nodes, plan.version, folder=place, outlives_owner=True)
        ring._wanted = ring._plan = plan
        ring._processes = [
            None if pid is None else NodeProcess(pid, mark=storage_flag(ring._node_folder(node)))
            for node, pid in enumerate(known.pids)
        ]
        return ring

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    # What the ring is.

    @property
    def nodes(self) -> int:
        """How many nodes the ring has, running or not."""
        return self._wanted.nodes

    @property
    def version(self) -> str:
        """The version of Cassandra."""
        return self._wanted.version

    @property
    def folder(self) -> Path:
        """Where everything of this ring lives.

        Raises:
            NodeError: A temporary folder that does not exist yet, or no more.
        """
        if self._folder is None:
            raise NodeError("the ring is not started", hint="call start() first")
        return self._folder

    @property
    def contact_points(self) -> tuple[str, ...]:
        """The addresses of all nodes."""
        return addresses_of(self.nodes)

    @property
    def port(self) -> int:
        """The native protocol's port, the same on every node."""
        return self._started_plan.native_port

    def url(self, keyspace: str) -> str:
        """Return the store's URL for a keyspace; every node of the ring is a contact point."""
        hosts = ",".join(f"{address}:{self.port}" for address in self.contact_points)
        return f"cassandra://{hosts}/{keyspace}?local_dc={DATACENTER}"

    def data_folders(self, node: int = 0) -> tuple[Path, ...]:
        """Return the data directories of a node; tables lie in ``keyspace/table-id`` below."""
        return (self._node_folder(node) / "data",)

    def log(self, node: int = 0) -> str:
        """Return all that a node has logged, the JVM's own words included."""
        path = self._log_file(node)
        return path.read_text(errors="replace") if path.exists() else ""

    def is_running(self, node: int = 0) -> bool:
        """Whether the node's process exists; a paused one does."""
        process = self._process_at(node)
        return process is not None and process.is_running()

    # What the ring does.

    def start(self) -> None:
        """Start every node, in turn, and wait until all are up and see each other.

        Raises:
            MissingToolError: No Java 17; or the jars are not here and there is no Maven.
            NodeError: A node did not come up; its log's tail is in the message.
            UsageError: The folder holds another kind of ring.

        Cost:
            About ten seconds for one node, about fifty for three.
        """
        if any(self.is_running(node) for node in range(self.nodes)):
            raise NodeError("the ring runs already", hint="stop() it first")
        self._open_folder()
        try:
            self._start_on_some_ports()
        except BaseException:
            self._stop(graceful_s=0)
            raise

    def stop(self) -> None:
        """Stop every node; return when the processes have gone and their ports are free.

        The nodes of a temporary folder are killed, as nobody can miss what they would still
        write. Stopping twice is fine.
        """
        self._stop(graceful_s=0 if self._is_temporary else STOP_TIMEOUT_S)

    def kill(self, node: int = 0) -> None:
        """End a node without warning (SIGKILL), and wait until it has gone."""
        self._end_node(node, graceful_s=0)

    def stop_node(self, node: int = 0) -> None:
        """End one node in order (SIGTERM), and wait until it has gone."""
        self._end_node(node, graceful_s=STOP_TIMEOUT_S)

    def restart(self, node: int = 0) -> None:
        """Stop the node in order if it runs, start it on the same data, wait until it is up.

        Raises:
            NodeError: It did not come up; its log's tail is in the message.
        """
        self.stop_node(node)
        self._start_node(node)
        self._wait_until_up((node,))

    def pause(self, node: int = 0) -> None:
        """Stop the node's clock (SIGSTOP): connections stay open and nothing answers."""
        self._running(node).send(signal.SIGSTOP)

    def resume(self, node: int = 0) -> None:
        """Let a paused node go on (SIGCONT)."""
        self._running(node).send(signal.SIGCONT)

    def nodetool(self, *args: str, node: int = 0) -> str:
        """Run ``nodetool`` against a node and return what it printed.

        Raises:
            NodeError: It failed; the message holds its output.

        Cost:
            A JVM, about one second.
        """
        port = str(self._started_plan.jmx_ports[node])
        return self._run_tool("NodeTool", "-h", "127.0.0.1", "-p", port, *args, node=node)

    def sstablemetadata(self, *files: Path | str) -> str:
        """Run ``sstablemetadata`` over data files and return what it printed.

        Raises:
            NodeError: It failed; the message holds its output.

        Cost:
            A JVM, about one second, and then little a file.
        """
        return self._run_tool("SSTableMetadataViewer", *map(str, files), node=0)

    # How it does it.

    @property
    def _started_plan(self) -> RingPlan:
        if self._plan is None:
            raise NodeError("the ring is not started", hint="call start() first")
        return self._plan

    def _open_folder(self) -> None:
        if self._is_temporary and self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="treering-cassandra-")).resolve()
        self.folder.mkdir(parents=True, exist_ok=True)
        known = read_ring_file(self.folder)
        if known is None:
            return
        self._refuse_running(known)
        same = replace(
            self._wanted,
            native_port=known.plan.native_port,
            storage_port=known.plan.storage_port,
            jmx_ports=known.plan.jmx_ports if known.plan.nodes == self.nodes else (0,) * self.nodes,
        )
        if known.plan.nodes != self.nodes or known.plan.version != self.version:
            raise UsageError(
                f"{self.folder} holds a ring of {known.plan.nodes} nodes of Cassandra "
                f"{known.plan.version}, not of {self.nodes} of {self.version}",
                hint="start that ring again, take another folder, or remove this one",
            )
        self._plan = same

    def _refuse_running(self, known: RingFile) -> None:
        for node, pid in enumerate(known.pids):
            mark = storage_flag(self._node_folder(node))
            if pid is not None and NodeProcess(pid, mark=mark).is_running():
                raise NodeError(
                    f"node {node} of the ring in {self.folder} runs already (process {pid})",
                    hint="stop it there, attach to it, or take another folder",
                    pid=pid,
                )

    def _start_on_some_ports(self) -> None:
        self._watch()
        for attempt in range(_START_TRIES):
            is_new = self._plan is None
            if is_new:
                self._plan = self._with_free_ports()
            try:
                self._start_nodes()
                return
            except PortTakenError:
                # Ports that belong to existing data are kept; new ones can be drawn again.
                if not is_new or attempt == _START_TRIES - 1:
                    raise
                self._end_all(graceful_s=0)
                self._plan = None

    def _with_free_ports(self) -> RingPlan:
        native, storage, *jmx = free_ports(2 + self.nodes, self.contact_points)
        return replace(self._wanted, native_port=native, storage_port=storage, jmx_ports=tuple(jmx))

    def _start_nodes(self) -> None:
        for node in range(self.nodes):
            self._progress(f"Starting node {node + 1} of {self.nodes}, Cassandra {self.version}")
            self._start_node(node)
            self._wait_until_up(range(node + 1) if node == self.nodes - 1 else (0,), up=node + 1)

    def _watch(self) -> None:
        if self._outlives_owner or self._watchdog is not None:
            return
        mark = f"{storage_flag(self.folder)}{os.sep}"
        self._watchdog = Watchdog(mark=mark, folder=self.folder if self._is_temporary else None)
        atexit.register(self._stop_at_exit)

    def _stop_at_exit(self) -> None:
        if os.getpid() == self._owner_pid:  # A fork of the owner is not the owner.
            self.stop()

    def _start_node(self, node: int) -> None:
        plan = self._started_plan
        folder = self._node_folder(node)
        java = find_java()
        jars = cassandra_jars(self.version, progress=self._progress)
        self._refuse_taken_ports(node)
        for name in ("conf", "tmp"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / "conf" / "cassandra.yaml").write_text(render_yaml(plan, node, folder))
        (folder / "conf" / "logback.xml").write_text(
            LOGBACK.format(target="System.out", level="INFO")
        )
        (folder / "conf" / "logback-tools.xml").write_text(
            LOGBACK.format(target="System.err", level="WARN")
        )
        command = daemon_command(plan, node, java=java, jars=jars, node_folder=folder)
        process = NodeProcess.launch(
            command, log_file=self._log_file(node), mark=storage_flag(folder)
        )
        self._processes[node] = process
        if self._watchdog is not None:
            self._watchdog.tell(f"+{process.pid}")
        self._note()
        self._wait_until_ready(node, process)

    def _ports_of(self, node: int) -> tuple[tuple[str, int], ...]:
        plan = self._started_plan
        address = plan.addresses[node]
        return (
            (address, plan.native_port),
            (address, plan.storage_port),
            ("127.0.0.1", plan.jmx_ports[node]),
        )

    def _refuse_taken_ports(self, node: int) -> None:
        taken = [
            f"{host}:{port}" for host, port in self._ports_of(node) if not is_port_free(host, port)
        ]
        if taken:
            raise PortTakenError(
                f"node {node} cannot start: another process listens on {', '.join(taken)}",
                hint="end that process; the ports belong to the ring's data",
            )

    def _wait_until_ready(self, node: int, process: NodeProcess) -> None:
        address, port = self._started_plan.addresses[node], self.port
        settled = wait_for(
            lambda: not process.is_running() or native_answers(address, port),
            timeout_s=READY_TIMEOUT_S,
        )
        if not process.is_running():
            tail = self._tail(node)
            kind = PortTakenError if "already in use" in tail else NodeError
            raise kind(
                f"node {node} (Cassandra {self.version}) ended while it started, exit code "
                f"{process.exit_code()}; the end of its log:\n{tail}",
                hint="the log says what it did not like; check yaml= and jvm=",
                node=node,
            )
        if not settled:
            raise NodeError(
                f"node {node} did not answer at {address}:{port} within {READY_TIMEOUT_S:.0f} s; "
                f"the end of its log:\n{self._tail(node)}",
                hint="is the machine busy, or short of memory?",
                node=node,
            )

    def _wait_until_up(self, witnesses: Sequence[int], *, up: int | None = None) -> None:
        """Wait until every witness sees ``up`` nodes (or all that run) as up and normal."""
        if self.nodes == 1:
            return
        expected = up or sum(self.is_running(node) for node in range(self.nodes))
        deadline = time.monotonic() + READY_TIMEOUT_S
        for witness in witnesses:
            while (seen := self._up_and_normal(witness)) < expected:
                if time.monotonic() > deadline:
                    raise NodeError(
                        f"node {witness} sees {seen} of {expected} nodes up within "
                        f"{READY_TIMEOUT_S:.0f} s; the end of its log:\n{self._tail(witness)}",
                        node=witness,
                    )

    def _up_and_normal(self, witness: int) -> int:
        lines = self.nodetool("status", node=witness).splitlines()
        return sum(line.startswith("UN ") for line in lines)

    def _end_node(self, node: int, *, graceful_s: float) -> None:
        process = self._process_at(node)
        if process is None:
            return
        process.end(graceful_s=graceful_s)
        if self._watchdog is not None:
            self._watchdog.tell(f"-{process.pid}")
        self._processes[node] = None
        self._note()
        if not wait_for(
            lambda: all(is_port_free(*at) for at in self._ports_of(node)), timeout_s=30.0
        ):
            raise NodeError(
                f"node {node} has gone and its ports are not free: {self._ports_of(node)}"
            )

    def _end_all(self, *, graceful_s: float) -> None:
        alive = [process for process in self._processes if process is not None]
        for process in alive:  # Ask all before waiting for one.
            if graceful_s > 0:
                process.send(signal.SIGCONT)
                process.send(signal.SIGTERM)
            else:
                process.send(signal.SIGKILL)
        for node in range(self.nodes):
            self._end_node(node, graceful_s=graceful_s)

    def _stop(self, *, graceful_s: float) -> None:
        self._end_all(graceful_s=graceful_s)
        if self._is_temporary and self._folder is not None:
            shutil.rmtree(self._folder)
            self._folder = self._plan = None
        if self._watchdog is not None:
            self._watchdog.close()
            self._watchdog = None
            atexit.unregister(self._stop_at_exit)

    def _note(self) -> None:
        pids = tuple(None if process is None else process.pid for process in self._processes)
        RingFile(plan=self._started_plan, pids=pids).write(self.folder)

    def _process_at(self, node: int) -> NodeProcess | None:
        if not 0 <= node < self.nodes:
            raise UsageError(f"the ring has nodes 0 to {self.nodes - 1}, there is no node {node}")
        return self._processes[node]

    def _running(self, node: int) -> NodeProcess:
        process = self._process_at(node)
        if process is None or not process.is_running():
            raise NodeError(f"node {node} does not run", hint="restart() it", node=node)
        return process

    def _node_folder(self, node: int) -> Path:
        return self.folder / f"node{node}"

    def _log_file(self, node: int) -> Path:
        return self._node_folder(node) / "system.log"

    def _tail(self, node: int) -> str:
        return "\n".join(self.log(node).splitlines()[-_TAIL_LINES:])

    def _run_tool(self, tool: str, *args: str, node: int) -> str:
        command = tool_command(
            tool,
            *args,
            java=find_java(),
            jars=cassandra_jars(self.version),
            node_folder=self._node_folder(node),
        )
        try:
            ran = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=TOOL_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as slow:
            raise NodeError(
                f"{tool} {' '.join(args)} did not end within {TOOL_TIMEOUT_S:.0f} s"
            ) from slow
        if ran.returncode != 0:
            raise NodeError(
                f"{tool} {' '.join(args)} failed with exit code {ran.returncode}:\n"
                f"{ran.stdout}{ran.stderr}"
            )
        return ran.stdout
