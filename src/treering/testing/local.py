"""Real Cassandra nodes on loopback, for tests and for trying things out.

Rules of this file: a method returns when what it names is true, and raises with the tail of the
node's log when it does not become true within a generous bound; whatever ends the owner, the
nodes end and a temporary folder goes.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from treering.errors import UsageError
from treering.testing.config import (
    DATACENTER,
    QUICK_JVM,
    SHIPPED_JVM,
    RingPlan,
    RingSettings,
    storage_flag,
    tool_command,
)
from treering.testing.cql import keyspace_statement, run_cql
from treering.testing.faults import NodeError, PortTakenError
from treering.testing.jars import cassandra_jars
from treering.testing.node import READY_TIMEOUT_S, LocalNode
from treering.testing.process import Watchdog, free_ports
from treering.testing.releases import VERSION_DEFAULT, CommitlogSync
from treering.testing.ring_file import RingFile, read_ring_file, remove_ring_file
from treering.testing.tools import find_java

_START_TRIES: Final = 3

log = logging.getLogger(__name__)


class LocalCassandra:
    """A ring of one to three Cassandra nodes on 127.0.0.1, 127.0.0.2 and 127.0.0.3.

    Nodes are numbered from 0. Use it as a context manager, or call ``start`` and ``stop``. The
    nodes end with this process, however it ends.

    Args:
        nodes: One to three.
        version: A full version of Cassandra 5.0, 4.1, 4.0 or 3.11; its jars are fetched by Maven
            once. The makers of those before 5.0 do not support Java 17; for tests they run on it.
        folder: Where data and logs live, kept at the end; ``None`` for a temporary folder that
            ``stop`` removes. A folder that held a ring before starts that ring again.
        heap_mb: Heap of each node.
        storage_mode: ``storage_compatibility_mode`` of 5.0, such as ``"NONE"``; ``None`` for
            Cassandra's default.
        commitlog_sync: ``"periodic"`` as Cassandra's default; ``"batch"`` or, from 4.0 on,
            ``"group"`` where an acknowledged write must survive ``kill``.
        yaml: Further settings of ``cassandra.yaml``; they win, and ``None`` removes a setting.
        jvm: Further arguments of the JVM; they come last.
        datacenters: The datacentre of each node; by default all are in ``datacenter1``.
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
        datacenters: Sequence[str] = (),
        outlives_owner: bool = False,
        progress: Callable[[str], None] = log.info,
    ) -> None:
        if outlives_owner and folder is None:
            raise UsageError("a ring that outlives its owner needs a folder of its own")
        self._wanted = RingSettings(
            version=version,
            nodes=nodes,
            heap_mb=heap_mb,
            storage_mode=storage_mode,
            commitlog_sync=commitlog_sync,
            yaml=dict(yaml or {}),
            jvm=tuple(jvm),
            datacenters=tuple(datacenters),
        )
        self._is_temporary = folder is None
        self._folder = None if folder is None else Path(folder).expanduser().resolve()
        self._outlives_owner = outlives_owner
        self._progress = progress
        self._nodes: tuple[LocalNode, ...] = ()
        self._watchdog: Watchdog | None = None
        self._owner_pid = os.getpid()

    @classmethod
    def attach(
        cls, folder: Path | str, *, progress: Callable[[str], None] = log.info
    ) -> LocalCassandra:
        """Return the ring that another process started in ``folder``, running or not.

        Raises:
            UsageError: No ring was ever started in the folder.
            CorruptDataError: The folder's ``ring.json`` cannot be read.
        """
        place = Path(folder).expanduser().resolve()
        known = read_ring_file(place)
        if known is None:
            raise UsageError(
                f"no ring was ever started in {place}",
                hint="python -m treering.testing up starts one",
                folder=str(place),
            )
        ring = cls(folder=place, outlives_owner=True, progress=progress)
        ring._wanted = known.plan.settings
        ring._nodes = known.nodes(place)
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
        return self._wanted.addresses

    @property
    def port(self) -> int:
        """The native protocol's port, the same on every node.

        Raises:
            NodeError: The ring was not started; ports are drawn at the start.
        """
        return self._node(0).plan.native_port

    @property
    def replicas(self) -> dict[str, int]:
        """The nodes of each datacentre: with so many replicas every node has everything."""
        return self._wanted.replicas

    def url(self, keyspace: str, datacenter: str | None = None) -> str:
        """Return the store's URL for a keyspace; every node of a datacentre is a contact point.

        Args:
            keyspace: The keyspace.
            datacenter: The near one; by default that of the first node.
        """
        places = self._wanted.datacenters or (DATACENTER,) * self.nodes
        near = places[0] if datacenter is None else datacenter
        hosts = ",".join(
            f"{address}:{self.port}"
            for address, place in zip(self.contact_points, places, strict=True)
            if place == near
        )
        return f"cassandra://{hosts}/{keyspace}?local_dc={near}"

    def data_folders(self, node: int = 0) -> tuple[Path, ...]:
        """Return the data directories of a node; tables lie in ``keyspace/table-id`` below."""
        return (self._node(node).folder / "data",)

    def log(self, node: int = 0) -> str:
        """Return all that a node has logged, the JVM's own words included."""
        return self._node(node).log()

    def pid(self, node: int = 0) -> int | None:
        """Return the node's process id; ``None`` if it was ended."""
        return self._node(node).pid

    def is_running(self, node: int = 0) -> bool:
        """Whether the node's process exists; a paused one does."""
        return bool(self._nodes) and self._node(node).is_running()

    def answers(self, node: int = 0) -> bool:
        """Whether the node answers clients now.

        Cost:
            A connection, and up to two seconds where nothing answers.
        """
        return bool(self._nodes) and self._node(node).answers()

    # What the ring does.

    def start(self) -> None:
        """Start every node, in turn, and wait until all are up and see each other.

        Raises:
            MissingToolError: No Java 17; or the jars are not here and there is no Maven.
            NodeError: A node did not come up; its log's tail is in the message.
            UsageError: The folder holds another ring.

        Cost:
            About eight seconds for one node, about forty for three.
        """
        if any(node.is_running() for node in self._nodes):
            raise NodeError("the ring runs already", hint="stop() it first")
        java, jars = self._programs()
        try:
            self._open_folder()
            self._watch()
            self._start_on_some_ports(java, jars)
        except BaseException:
            self._stop(is_graceful=False)
            raise

    def stop(self) -> None:
        """Stop every node; return when the processes have gone and their ports are free.

        The nodes of a temporary folder are killed, as nobody can miss what they would still
        write. Stopping twice is fine.
        """
        self._stop(is_graceful=not self._is_temporary)

    def kill(self, node: int = 0) -> None:
        """End a node without warning (SIGKILL), and wait until it has gone."""
        self._end(self._node(node), is_graceful=False)

    def stop_node(self, node: int = 0) -> None:
        """End one node in order (SIGTERM), and wait until it has gone."""
        self._end(self._node(node), is_graceful=True)

    def restart(self, node: int = 0) -> None:
        """Stop the node in order if it runs, start it on the same data, wait until it is up.

        Raises:
            NodeError: It did not come up; its log's tail is in the message.
        """
        chosen = self._node(node)
        self._end(chosen, is_graceful=True)
        java, jars = self._programs()
        self._launch(chosen, java, jars)
        others = [peer for peer in self._nodes if peer.is_running() and not peer.is_paused]
        self._wait_until_seen((chosen,), by=others)
        self._wait_until_seen(others, by=(chosen,))

    def pause(self, node: int = 0) -> None:
        """Stop the node's clock (SIGSTOP): connections stay open and nothing answers."""
        self._node(node).pause()

    def resume(self, node: int = 0) -> None:
        """Let a paused node go on (SIGCONT)."""
        self._node(node).resume()

    def create_keyspace(self, keyspace: str) -> None:
        """Create a keyspace with a replica on every node, where it is missing.

        Raises:
            UsageError: A name that would need quotes in CQL.
            NodeError: The first node did not take the statement.
        """
        statement = keyspace_statement(keyspace, self.replicas)
        run_cql(self.contact_points[0], self.port, statement)

    def nodetool(self, *args: str, node: int = 0) -> str:
        """Run ``nodetool`` against a node and return what it printed.

        Raises:
            NodeError: It failed; the message holds its output.

        Cost:
            A JVM, about one second.
        """
        return self._run_tool(self._node(node), "NodeTool", *self._jmx(node), *args)

    def nodetool_command(self, node: int = 0) -> tuple[str, ...]:
        """Return the command line of ``nodetool`` for a node, for a program that runs it itself."""
        chosen = self._node(node)
        java, jars = self._programs()
        tool = ("NodeTool", *self._jmx(node))
        command = tool_command(chosen.plan, tool, java=java, jars=jars, node_folder=chosen.folder)
        return tuple(command)

    def flush(self, keyspace: str, *tables: str, node: int = 0) -> None:
        """Make a node write what it holds in memory of a keyspace, or of some tables of it.

        Raises:
            NodeError: It failed; the message holds nodetool's output.

        Cost:
            A JVM, about one second.
        """
        self.nodetool("flush", keyspace, *tables, node=node)

    def sstablemetadata(self, *files: Path | str, is_as_shipped: bool = False) -> str:
        """Run ``sstablemetadata`` over data files and return what it printed.

        Args:
            *files: Data.db files.
            is_as_shipped: Whether to give the JVM the options that Cassandra's own script gives,
                rather than those under which it ends soonest.

        Raises:
            NodeError: It failed; the message holds its output.

        Cost:
            A JVM, about one second, and then little a file.
        """
        jvm = SHIPPED_JVM if is_as_shipped else QUICK_JVM
        return self._run_tool(self._node(0), "SSTableMetadataViewer", *map(str, files), jvm=jvm)

    def delete(self) -> None:
        """Stop the ring and remove what it wrote; the folder too if nothing else is in it."""
        self.stop()
        if self._folder is not None:
            for node in self._nodes:
                shutil.rmtree(node.folder, ignore_errors=True)
            remove_ring_file(self._folder)
            with contextlib.suppress(OSError):  # Somebody else's files stay.
                self._folder.rmdir()
            self._nodes = ()

    # How it does it.

    def _node(self, index: int) -> LocalNode:
        if not 0 <= index < self.nodes:
            raise UsageError(f"the ring has nodes 0 to {self.nodes - 1}, there is no node {index}")
        if not self._nodes:
            raise NodeError("the ring is not started", hint="call start() first")
        return self._nodes[index]

    def _jmx(self, node: int) -> tuple[str, ...]:
        return ("-h", "127.0.0.1", "-p", str(self._node(node).plan.jmx_ports[node]))

    def _programs(self) -> tuple[Path, tuple[Path, ...]]:
        return find_java(), cassandra_jars(self.version, progress=self._progress)

    def _run_tool(
        self, node: LocalNode, tool: str, *args: str, jvm: Sequence[str] = QUICK_JVM
    ) -> str:
        java, jars = self._programs()
        return node.run_tool(tool, *args, java=java, jars=jars, jvm=jvm)

    def _open_folder(self) -> None:
        """Make the folder, or go on with the ring that it holds."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="treering-cassandra-")).resolve()
        self._folder.mkdir(parents=True, exist_ok=True)
        known = read_ring_file(self._folder)
        if known is None:
            return
        for node in known.nodes(self._folder):
            if node.is_running():
                raise NodeError(
                    f"node {node.index} of the ring in {self._folder} runs already "
                    f"(process {node.pid})",
                    hint="stop it there, attach to it, or take another folder",
                    pid=node.pid,
                )
        kept = known.plan.settings
        if (kept.nodes, kept.version) != (self.nodes, self.version):
            raise UsageError(
                f"{self._folder} holds a ring of {kept.nodes} nodes of Cassandra "
                f"{kept.version}, not of {self.nodes} of {self.version}",
                hint="start that ring again, take another folder, or remove this one",
            )
        # The other settings may change between two starts; the ports belong to the data.
        self._build_nodes(replace(known.plan, settings=self._wanted))

    def _build_nodes(self, plan: RingPlan) -> None:
        self._nodes = tuple(LocalNode(plan, index, self.folder) for index in range(self.nodes))

    def _start_on_some_ports(self, java: Path, jars: Sequence[Path]) -> None:
        if self._nodes:
            self._start_nodes(java, jars)
            return
        for tries_left in reversed(range(_START_TRIES)):
            native, storage, *jmx = free_ports(2 + self.nodes, self.contact_points)
            self._build_nodes(
                RingPlan(
                    settings=self._wanted,
                    native_port=native,
                    storage_port=storage,
                    jmx_ports=tuple(jmx),
                )
            )
            try:
                self._start_nodes(java, jars)
                return
            except PortTakenError:
                self._end_all(is_graceful=False)
                for node in self._nodes:  # What it wrote belongs to the ports that were taken.
                    shutil.rmtree(node.folder, ignore_errors=True)
                if not tries_left:
                    raise

    def _start_nodes(self, java: Path, jars: Sequence[Path]) -> None:
        for node in self._nodes:
            self._progress(
                f"Starting node {node.index + 1} of {self.nodes}, Cassandra {self.version}"
            )
            self._launch(node, java, jars)
            self._wait_until_seen(self._nodes[: node.index + 1], by=self._nodes[:1])
        self._wait_until_seen(self._nodes, by=self._nodes[1:])

    def _launch(self, node: LocalNode, java: Path, jars: Sequence[Path]) -> None:
        pid = node.launch(java=java, jars=jars)
        if self._watchdog is not None:
            self._watchdog.tell(f"+{pid}")
        self._note()
        node.wait_until_ready()

    def _wait_until_seen(self, seen: Sequence[LocalNode], *, by: Iterable[LocalNode]) -> None:
        """Wait until every node of ``by`` sees all of ``seen`` as up and normal."""
        if self.nodes == 1:
            return
        deadline = time.monotonic() + READY_TIMEOUT_S
        addresses = {node.address for node in seen}
        for witness in by:
            while missing := addresses - self._up_and_normal(witness):
                if time.monotonic() > deadline:
                    raise NodeError(
                        f"node {witness.index} did not see {', '.join(sorted(missing))} come up "
                        f"within {READY_TIMEOUT_S:.0f} s; the end of its log:\n{witness.tail()}",
                        node=witness.index,
                    )

    def _up_and_normal(self, witness: LocalNode) -> set[str]:
        lines = self.nodetool("status", node=witness.index).splitlines()
        return {line.split()[1] for line in lines if line.startswith("UN ")}

    def _watch(self) -> None:
        if self._outlives_owner or self._watchdog is not None:
            return
        mark = f"{storage_flag(self.folder)}{os.sep}"
        self._watchdog = Watchdog(mark=mark, folder=self.folder if self._is_temporary else None)
        atexit.register(self._stop_at_exit)

    def _stop_at_exit(self) -> None:
        if os.getpid() == self._owner_pid:  # A fork of the owner is not the owner.
            self.stop()

    def _end(self, node: LocalNode, *, is_graceful: bool) -> None:
        pid = node.end(is_graceful=is_graceful)
        if pid is None:
            return
        if self._watchdog is not None:
            self._watchdog.tell(f"-{pid}")
        self._note()

    def _end_all(self, *, is_graceful: bool) -> None:
        for node in self._nodes:  # Ask all before waiting for one.
            node.ask_to_end(is_graceful=is_graceful)
        for node in self._nodes:
            self._end(node, is_graceful=is_graceful)

    def _stop(self, *, is_graceful: bool) -> None:
        self._end_all(is_graceful=is_graceful)
        if self._is_temporary and self._folder is not None:
            shutil.rmtree(self._folder)
            self._folder, self._nodes = None, ()
        if self._watchdog is not None:
            self._watchdog.close()
            self._watchdog = None
            atexit.unregister(self._stop_at_exit)

    def _note(self) -> None:
        pids = tuple(node.pid for node in self._nodes)
        RingFile(plan=self._nodes[0].plan, pids=pids).write(self.folder)
