"""What a local ring is made of, as values: ports, folders, cassandra.yaml, command lines.

Rules of this file: pure, no process is started and no file is touched here. The yaml is written
as one JSON value a key, which every YAML reader takes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from treering.errors import UsageError
from treering.testing.releases import VERSION_DEFAULT, CommitlogSync, release_of

DATACENTER: Final = "datacenter1"  # What SimpleSnitch calls the one that it knows.
NODES_MAX: Final = 3
HEAP_MB_MIN: Final = 256

# Cassandra reaches into these packages of the JDK; the list is what a node and its tools need on
# Java 17, where reflection into the JDK is closed unless it is named.
_EXPORTS: Final = (
    "java.base/java.lang.ref",
    "java.base/java.lang.reflect",
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.rmi/sun.rmi.transport.tcp",
    "java.sql/java.sql",
    "jdk.unsupported/sun.misc",
)
_OPENS: Final = (
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.module",
    "java.base/java.lang.reflect",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.util.jar",
    "java.base/sun.nio.ch",
    "jdk.management/com.sun.management.internal",
)
MODULE_FLAGS: Final = (
    "-Djdk.attach.allowAttachSelf=true",
    *(f"--add-exports={package}=ALL-UNNAMED" for package in _EXPORTS),
    *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENS),
)

QUICK_JVM: Final = ("-XX:TieredStopAtLevel=1",)
"""The first compiler alone: a tool is over before the second one pays."""

SHIPPED_JVM: Final = ("-ea",)
"""What Cassandra's own scripts give to its tools."""

_TOOLS_LOGBACK: Final = "logback-tools.xml"
_NODETOOL_LOGBACK: Final = "logback-nodetool.xml"
_LOGBACK: Final = """<configuration>
  <appender name="OUT" class="ch.qos.logback.core.ConsoleAppender">
    <target>{target}</target>
    <encoder>
      <pattern>%-5level [%thread] %date{{ISO8601}} %F:%L - %msg%n</pattern>
    </encoder>
  </appender>
  <root level="{level}"><appender-ref ref="OUT"/></root>
</configuration>
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RingSettings:
    """What a caller chooses about a ring.

    Raises:
        UsageError: Too many nodes, too small a heap, or a release that is not known here.
    """

    version: str = VERSION_DEFAULT
    nodes: int = 1
    heap_mb: int = 512
    storage_mode: str | None = None
    commitlog_sync: CommitlogSync = "periodic"
    yaml: Mapping[str, Any] = field(default_factory=dict)
    jvm: tuple[str, ...] = ()
    datacenters: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.datacenters and len(self.datacenters) != self.nodes:
            raise UsageError(
                f"{self.nodes} nodes cannot be in the datacentres {', '.join(self.datacenters)}",
                hint="name one for each node, or none at all",
            )
        if not 1 <= self.nodes <= NODES_MAX:
            raise UsageError(f"a local ring has 1 to {NODES_MAX} nodes, not {self.nodes}")
        if self.heap_mb < HEAP_MB_MIN:
            raise UsageError(
                f"a node does not start in a heap of {self.heap_mb} MB",
                hint=f"heap_mb of {HEAP_MB_MIN} or more",
            )
        release = release_of(self.version)
        if self.storage_mode is not None and not release.knows_storage_mode:
            raise UsageError(
                f"Cassandra {self.version} has no storage_compatibility_mode",
                hint="it came with 5.0; leave storage_mode out",
            )
        if self.commitlog_sync == "group" and not release.knows_group_sync:
            raise UsageError(
                f"the commit log of Cassandra {self.version} knows no group sync",
                hint='take commitlog_sync="batch"',
            )

    @property
    def addresses(self) -> tuple[str, ...]:
        """One loopback address a node."""
        return tuple(f"127.0.0.{index + 1}" for index in range(self.nodes))

    @property
    def replicas(self) -> dict[str, int]:
        """The nodes of each datacentre: with so many replicas every node has everything."""
        return dict(Counter(self.datacenters or (DATACENTER,) * self.nodes))


@dataclass(frozen=True, slots=True, kw_only=True)
class RingPlan:
    """A ring's settings with its ports, which stay the same as long as the data lives.

    A node that came back on another storage port would be another node to its neighbours.
    """

    settings: RingSettings
    native_port: int
    storage_port: int
    jmx_ports: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.jmx_ports) != self.settings.nodes:
            raise UsageError(f"{self.settings.nodes} nodes with JMX ports {self.jmx_ports}")

    @property
    def addresses(self) -> tuple[str, ...]:
        """One loopback address a node."""
        return self.settings.addresses

    @property
    def cluster_name(self) -> str:
        """A name that keeps two rings on the same addresses from talking to each other."""
        return f"treering-{self.storage_port}"

    def to_json(self) -> dict[str, Any]:
        """Return the plan as values that JSON takes."""
        return asdict(self)

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> RingPlan:
        """Return the plan that ``to_json`` wrote."""
        settings = dict(facts["settings"])
        for name in ("jvm", "datacenters"):
            settings[name] = tuple(settings.get(name, ()))
        return cls(
            settings=RingSettings(**settings),
            native_port=facts["native_port"],
            storage_port=facts["storage_port"],
            jmx_ports=tuple(facts["jmx_ports"]),
        )


def render_yaml(plan: RingPlan, node: int, node_folder: Path) -> str:
    """Return the ``cassandra.yaml`` of one node; the caller's keys win, ``None`` removes one."""
    address = plan.addresses[node]
    release = release_of(plan.settings.version)
    port_of_seed = f":{plan.storage_port}" if release.seed_has_port else ""
    settings: dict[str, Any] = {
        "cluster_name": plan.cluster_name,
        "num_tokens": 4,
        "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
        "endpoint_snitch": "SimpleSnitch",
        "seed_provider": [
            {
                "class_name": "org.apache.cassandra.locator.SimpleSeedProvider",
                "parameters": [{"seeds": f"{plan.addresses[0]}{port_of_seed}"}],
            }
        ],
        "listen_address": address,
        "rpc_address": address,
        "storage_port": plan.storage_port,
        "native_transport_port": plan.native_port,
        "data_file_directories": [str(node_folder / "data")],
        "commitlog_directory": str(node_folder / "commitlog"),
        "saved_caches_directory": str(node_folder / "saved_caches"),
        "hints_directory": str(node_folder / "hints"),
        "cdc_raw_directory": str(node_folder / "cdc_raw"),
        # A dropped keyspace would otherwise stay on disk as a snapshot.
        "auto_snapshot": False,
        **release.commitlog_settings(plan.settings.commitlog_sync),
        **release.yaml,
    }
    if plan.settings.datacenters:
        settings["endpoint_snitch"] = "GossipingPropertyFileSnitch"
    if plan.settings.storage_mode is not None:
        settings["storage_compatibility_mode"] = plan.settings.storage_mode
    settings.update(plan.settings.yaml)
    lines = (f"{key}: {json.dumps(value)}" for key, value in settings.items() if value is not None)
    return "\n".join(lines) + "\n"


def render_logback(plan: RingPlan) -> dict[str, str]:
    """Return the files that say how a node and its tools log, by name."""
    of_tools = _LOGBACK.format(target="System.err", level="WARN")
    return {
        "logback.xml": _LOGBACK.format(target="System.out", level="INFO"),
        _TOOLS_LOGBACK: of_tools,
        _NODETOOL_LOGBACK: release_of(plan.settings.version).nodetool_logback or of_tools,
    }


def render_place(plan: RingPlan, node: int) -> dict[str, str]:
    """Return the file that says in which datacentre a node is, by name; empty where none does."""
    if not plan.settings.datacenters:
        return {}
    return {"cassandra-rackdc.properties": f"dc={plan.settings.datacenters[node]}\nrack=rack1\n"}


def daemon_command(
    plan: RingPlan, node: int, *, java: Path, jars: Sequence[Path], node_folder: Path
) -> list[str]:
    """Return the command line that runs one node in the foreground."""
    joins_a_ring = plan.settings.nodes > 1
    heap = f"{plan.settings.heap_mb}M"
    return [
        *(str(java), f"-Xms{heap}", f"-Xmx{heap}", "-XX:+PerfDisableSharedMem"),
        *(f"-javaagent:{jar}" for jar in jars if jar.name.startswith("jamm-")),
        *MODULE_FLAGS,
        *_folder_flags(node_folder, logback="logback.xml"),
        "-Dcassandra-foreground=yes",
        f"-Dcassandra.jmx.local.port={plan.jmx_ports[node]}",
        "-Dcassandra.skip_wait_for_gossip_to_settle=0",
        # A lone node waits for nobody; in a ring the others must hear of a newcomer's tokens.
        f"-Dcassandra.ring_delay_ms={2_000 if joins_a_ring else 100}",
        *(("-Dcassandra.consistent.rangemovement=false",) if joins_a_ring else ()),
        *plan.settings.jvm,
        *("-cp", _class_path(jars, node_folder)),
        "org.apache.cassandra.service.CassandraDaemon",
    ]


def tool_command(
    plan: RingPlan,
    tool: Sequence[str],
    *,
    java: Path,
    jars: Sequence[Path],
    node_folder: Path,
    jvm: Sequence[str] = QUICK_JVM,
) -> list[str]:
    """Return the command line of a class in ``org.apache.cassandra.tools``, then its arguments."""
    name, *args = tool
    is_nodetool = name == "NodeTool"
    return [
        *(str(java), "-Xmx256M", "-XX:+PerfDisableSharedMem", *jvm),
        *MODULE_FLAGS,
        *(release_of(plan.settings.version).nodetool_flags if is_nodetool else ()),
        *_folder_flags(node_folder, logback=_NODETOOL_LOGBACK if is_nodetool else _TOOLS_LOGBACK),
        *("-cp", _class_path(jars, node_folder)),
        *(f"org.apache.cassandra.tools.{name}", *args),
    ]


def storage_flag(node_folder: Path) -> str:
    """Return the argument that tells one node's process from every other process."""
    return f"-Dcassandra.storagedir={node_folder}"


def _folder_flags(node_folder: Path, *, logback: str) -> list[str]:
    conf = node_folder / "conf"
    return [
        storage_flag(node_folder),
        f"-Dcassandra.config={(conf / 'cassandra.yaml').as_uri()}",
        f"-Dlogback.configurationFile={(conf / logback).as_uri()}",
        # Native libraries and nodetool's history would otherwise go to the home folder and stay.
        f"-Djava.io.tmpdir={node_folder / 'tmp'}",
        f"-Djna.tmpdir={node_folder / 'tmp'}",
        f"-Duser.home={node_folder / 'tmp'}",
    ]


def _class_path(jars: Sequence[Path], node_folder: Path) -> str:
    return ":".join(str(entry) for entry in (node_folder / "conf", *jars))
