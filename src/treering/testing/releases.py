"""Where one release of Cassandra differs from the next, as far as a local node notices.

Rules of this file: pure; everything that depends on the release is an attribute of ``Release``, so
that nothing else asks which release it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal, assert_never

from treering.errors import UsageError

CommitlogSync = Literal["periodic", "batch", "group"]

VERSION_DEFAULT: Final = "5.0.8"
# The nodetool of 3.11 misses a method in Java 17, asks the settings whether that is deadly, and
# has not read any. Logback makes what stands for an encoder before it looks what it is, and to
# make this one reads the settings. It is then found to be none, and nothing is logged.
_READS_SETTINGS: Final = """<configuration>
  <appender name="OUT" class="ch.qos.logback.core.ConsoleAppender">
    <encoder class="org.apache.cassandra.tools.SSTableExport"/>
  </appender>
  <root level="OFF"/>
</configuration>
"""
# Old nodetools write addresses in a way that Java 17 refuses by itself.
_LEGACY_URLS: Final = "-Dcom.sun.jndi.rmiURLParsing=legacy"
_VERSION: Final = re.compile(r"(\d+\.\d+)(?:\.\d+|-(?:alpha|beta|rc)\d+)")
_SYNC_PERIOD_MS: Final = 10_000
_SYNC_WINDOW_MS: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """What a node of one release wants.

    Attributes:
        newest: The version that is tried with treering's own tests.
        knows_units: Settings take a unit (``10000ms``); before 4.1 the name has it (``_in_ms``).
        knows_storage_mode: Whether there is ``storage_compatibility_mode``.
        knows_group_sync: Whether the commit log knows ``group``.
        needs_batch_window: Whether ``batch`` does not start without a window.
        seed_has_port: Whether a seed is named with its port.
        yaml: Further settings that a node does not start well without.
        nodetool_flags: Further arguments of the JVM of nodetool.
        nodetool_logback: How nodetool logs, where that matters.
        maven_profiles: Profiles of ``pom.xml`` that add the jars it needs beside its own.
    """

    newest: str
    knows_units: bool = True
    knows_storage_mode: bool = False
    knows_group_sync: bool = True
    needs_batch_window: bool = False
    seed_has_port: bool = True
    yaml: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    nodetool_flags: tuple[str, ...] = ()
    nodetool_logback: str | None = None
    maven_profiles: tuple[str, ...] = ()

    def commitlog_settings(self, sync: CommitlogSync) -> dict[str, Any]:
        """Return what ``cassandra.yaml`` says about the commit log."""
        match sync:
            case "periodic":
                return {"commitlog_sync": sync, **self._time("sync_period", _SYNC_PERIOD_MS)}
            case "batch":
                window = self._time("sync_batch_window", 2) if self.needs_batch_window else {}
                return {"commitlog_sync": sync, **window}
            case "group":
                return {"commitlog_sync": sync, **self._time("sync_group_window", _SYNC_WINDOW_MS)}
            case _:
                assert_never(sync)

    def _time(self, name: str, value_ms: int) -> dict[str, Any]:
        if self.knows_units:
            return {f"commitlog_{name}": f"{value_ms}ms"}
        return {f"commitlog_{name}_in_ms": value_ms}


RELEASES: Final[Mapping[str, Release]] = MappingProxyType(
    {
        "5.0": Release(newest=VERSION_DEFAULT, knows_storage_mode=True),
        "4.1": Release(newest="4.1.10"),
        "4.0": Release(
            newest="4.0.19",
            knows_units=False,
            # For what came before 4.0.0: their nodetool is like that of 3.11.
            nodetool_flags=(_LEGACY_URLS,),
        ),
        "3.11": Release(
            newest="3.11.19",
            knows_units=False,
            knows_group_sync=False,
            needs_batch_window=True,
            seed_has_port=False,
            yaml=MappingProxyType({"start_native_transport": True, "start_rpc": False}),
            nodetool_flags=(
                _LEGACY_URLS,
                "-Dlogback.statusListenerClass=ch.qos.logback.core.status.NopStatusListener",
            ),
            nodetool_logback=_READS_SETTINGS,
            maven_profiles=("thrift",),
        ),
    }
)
"""By the first two numbers of the version."""


def release_of(version: str) -> Release:
    """Return what is known about the release of a full version, or of one before it.

    Raises:
        UsageError: A version that is not full, or of a release that is not known here.
    """
    match = _VERSION.fullmatch(version)
    release = None if match is None else RELEASES.get(match[1])
    if release is None:
        raise UsageError(
            f"Cassandra {version} cannot be started locally",
            hint=f"a full version of {', '.join(RELEASES)}, such as {VERSION_DEFAULT}",
        )
    return release
