"""The jars of one Cassandra version, fetched once by Maven and kept in a cache folder.

Rules of this file: the finished folder appears by one rename, so a folder that exists is
complete; a lock file lets one process fetch while the others wait; what an interrupted run left
is removed by the next one that holds the lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.resources
import logging
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from treering.testing.faults import NodeError
from treering.testing.releases import release_of
from treering.testing.tools import find_maven

Progress = Callable[[str], None]

FETCH_TIMEOUT_S: Final = 900.0
_LOCK_POLL_S: Final = 0.1
_TAIL_LINES: Final = 20

log = logging.getLogger(__name__)


def cache_folder() -> Path:
    """Return where treering keeps what it can fetch again.

    ``TREERING_CACHE`` wins, then ``XDG_CACHE_HOME``/treering, then ``~/.cache/treering``.
    """
    chosen = os.environ.get("TREERING_CACHE")
    if chosen:
        return Path(chosen).expanduser().resolve()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return (Path(base).expanduser() / "treering").resolve()


def cassandra_jars(
    version: str, *, progress: Progress = log.info, fetch_timeout_s: float = FETCH_TIMEOUT_S
) -> tuple[Path, ...]:
    """Return the jars of a Cassandra node, fetched into the cache folder where they are missing.

    Args:
        version: A full version of a release that is known here.
        progress: Is told, in a sentence, when something long begins.
        fetch_timeout_s: Bound for Maven, and for waiting until another process has fetched.

    Raises:
        UsageError: A version that cannot be started here.
        MissingToolError: The jars are not in the cache and Maven is not installed.
        NodeError: Maven failed; the message ends with what it said.

    Cost:
        About 30 to 70 MB over the network, the first time.
    """
    folder = cache_folder() / f"cassandra-{version}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with lock_file(folder.with_name(folder.name + ".lock"), timeout_s=fetch_timeout_s):
            if not folder.is_dir():  # Another process may have fetched while this one waited.
                _fetch(version, folder, progress=progress, timeout_s=fetch_timeout_s)
    return tuple(sorted(folder.glob("*.jar")))


@contextlib.contextmanager
def lock_file(path: Path, *, timeout_s: float) -> Iterator[None]:
    """Hold an exclusive lock on ``path``; it is released even where the process is killed.

    Raises:
        NodeError: Another process held it for all of ``timeout_s``.
    """
    deadline = time.monotonic() + timeout_s
    with path.open("a") as held:
        while True:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as busy:
                if time.monotonic() > deadline:
                    raise NodeError(
                        f"{path} was locked by another process for {timeout_s:.0f} s",
                        hint="wait for that process or end it, then try again",
                        path=str(path),
                    ) from busy
                time.sleep(_LOCK_POLL_S)
        yield


def _fetch(version: str, folder: Path, *, progress: Progress, timeout_s: float) -> None:
    for left in folder.parent.glob(f"{folder.name}.part-*"):
        shutil.rmtree(left, ignore_errors=True)
    part = folder.with_name(f"{folder.name}.part-{os.getpid()}")
    maven = find_maven()
    progress(f"Fetching the jars of Cassandra {version} with Maven into {folder} (once)")
    try:
        _run_maven(maven, version, part, timeout_s=timeout_s)
        if not (part / f"cassandra-all-{version}.jar").is_file():
            raise NodeError(
                f"Maven ended well but left no cassandra-all-{version}.jar in {part}",
                hint=f"is {version} a released version of org.apache.cassandra:cassandra-all?",
                version=version,
            )
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _run_maven(maven: Path, version: str, target: Path, *, timeout_s: float) -> None:
    with importlib.resources.as_file(_pom()) as pom:
        command = [
            *(str(maven), "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"),
            *("-DincludeScope=runtime", f"-DoutputDirectory={target}"),
            f"-Dcassandra.version={version}",
            *(f"-P{profile}" for profile in release_of(version).maven_profiles),
        ]
        try:
            ran = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired as slow:
            raise NodeError(
                f"Maven did not fetch the jars of Cassandra {version} within {timeout_s:.0f} s",
                hint="is the network slow? What is fetched already stays in Maven's repository",
                version=version,
            ) from slow
    if ran.returncode != 0:
        raise NodeError(
            f"Maven could not fetch the jars of Cassandra {version} (exit code {ran.returncode}):\n"
            + "\n".join(ran.stdout.splitlines()[-_TAIL_LINES:]),
            hint="Maven must reach a repository that has org.apache.cassandra:cassandra-all",
            version=version,
        )


def _pom() -> importlib.resources.abc.Traversable:
    return importlib.resources.files(__package__) / "pom.xml"
