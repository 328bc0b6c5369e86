"""The programs of the machine that a local node needs: Java 17 and Maven."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from treering.testing.faults import MissingToolError

JAVA_RELEASE: Final = 17
_ASK_TIMEOUT_S: Final = 60
# A machine whose default Java is another release often has 17 beside it.
JVM_FOLDERS = (Path("/usr/lib/jvm"), Path("/opt/homebrew/opt"), Path("/usr/local/opt"))
_RELEASE = re.compile(r'version "(?:1\.)?(\d+)')
_JAVA_HINT: Final = (
    "install it (Debian and Ubuntu: apt-get install openjdk-17-jre-headless; macOS: brew install "
    "openjdk@17) or point JAVA_HOME at it"
)


def find_java() -> Path:
    """Return the ``java`` of a Java 17: from ``JAVA_HOME``, the path, or the usual folders.

    Raises:
        MissingToolError: No Java 17; the message names the releases that were found.
    """
    seen: list[str] = []
    for candidate in _java_candidates():
        release = _java_release(candidate)
        if release == JAVA_RELEASE:
            return candidate
        seen.append(f"{candidate} is Java {release}" if release else f"{candidate} does not run")
    found = "; ".join(seen) or "no java found"
    raise MissingToolError(
        f"a local Cassandra node needs Java {JAVA_RELEASE}, which is not installed ({found})",
        hint=_JAVA_HINT,
        tool="java",
    )


def find_maven() -> Path:
    """Return ``mvn`` from the path.

    Raises:
        MissingToolError: Maven is not installed.
    """
    path = shutil.which("mvn")
    if path is None:
        raise MissingToolError(
            "fetching the jars of Cassandra needs Maven, and there is no mvn on the path",
            hint="install it (Debian and Ubuntu: apt-get install maven; macOS: brew install maven)",
            tool="mvn",
        )
    return Path(path)


def _java_candidates() -> Iterator[Path]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield Path(home) / "bin" / "java"
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path)
    for base in JVM_FOLDERS:
        yield from sorted(base.glob(f"*{JAVA_RELEASE}*/bin/java"))


def _java_release(java: Path) -> int | None:
    try:
        asked = subprocess.run(
            [str(java), "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_ASK_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _RELEASE.search(asked.stderr + asked.stdout)
    return int(match.group(1)) if match else None
