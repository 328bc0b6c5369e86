"""The cache of jars: whole or absent, fetched once however many ask."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from treering.testing import MissingToolError, NodeError
from treering.testing.jars import cache_folder, cassandra_jars, lock_file

ASK = """
import sys
from treering.testing.jars import cassandra_jars
jars = cassandra_jars("5.0.8", progress=lambda sentence: print("fetching"))
print(len(jars), sum(jar.stat().st_size for jar in jars))
"""


@pytest.fixture
def empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("TREERING_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def put_maven(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str) -> None:
    path = folder / "bin" / "mvn"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{path.parent}:{os.environ['PATH']}")


def test_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache/me")
    monkeypatch.delenv("TREERING_CACHE", raising=False)
    assert cache_folder() == Path("/var/cache/me/treering")
    monkeypatch.setenv("TREERING_CACHE", "/elsewhere")
    assert cache_folder() == Path("/elsewhere")


def test_processes_that_ask_at_once_fetch_once_and_all_get_everything(
    cassandra_programs: None, empty_cache: Path
) -> None:
    askers = [
        subprocess.Popen([sys.executable, "-c", ASK], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    said = [asker.communicate(timeout=300)[0].splitlines() for asker in askers]
    assert [asker.returncode for asker in askers] == [0, 0, 0]
    assert sorted(len(lines) for lines in said) == [1, 1, 2]  # One of them said "fetching".
    assert len({lines[-1] for lines in said}) == 1
    assert len(list((empty_cache / "cassandra-5.0.8").glob("*.jar"))) > 90
    assert not list(empty_cache.glob("*.part-*"))


def test_jars_in_the_cache_need_no_maven(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = empty_cache / "cassandra-5.0.8"
    folder.mkdir(parents=True)
    (folder / "cassandra-all-5.0.8.jar").touch()
    monkeypatch.setenv("PATH", "")
    assert cassandra_jars("5.0.8") == (folder / "cassandra-all-5.0.8.jar",)


def test_missing_maven_is_said_and_leaves_no_folder(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MissingToolError):
        cassandra_jars("5.0.8")
    assert not (empty_cache / "cassandra-5.0.8").exists()


def test_a_failing_maven_is_quoted_and_leaves_no_folder(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    put_maven(monkeypatch, tmp_path, "echo 'Could not resolve host'; exit 1")
    with pytest.raises(NodeError, match=r"exit code 1(.|\n)*Could not resolve host"):
        cassandra_jars("5.0.8")
    assert [path.name for path in empty_cache.iterdir()] == ["cassandra-5.0.8.lock"]


def test_a_maven_that_leaves_no_jar_is_not_believed(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    put_maven(monkeypatch, tmp_path, "exit 0")
    with pytest.raises(NodeError, match=r"left no cassandra-all-5\.0\.8\.jar"):
        cassandra_jars("5.0.8")
    assert not (empty_cache / "cassandra-5.0.8").exists()


def test_what_an_interrupted_fetch_left_is_removed_by_the_next(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    left = empty_cache / "cassandra-5.0.8.part-1"
    left.mkdir(parents=True)
    (left / "half.jar").touch()
    put_maven(monkeypatch, tmp_path, "exit 1")
    with pytest.raises(NodeError):
        cassandra_jars("5.0.8")
    assert not left.exists()


def test_a_lock_that_is_held_for_too_long_is_named(tmp_path: Path) -> None:
    path = tmp_path / "held.lock"
    with (
        lock_file(path, timeout_s=1),
        pytest.raises(NodeError, match=r"held\.lock was locked by another process"),
        lock_file(path, timeout_s=0.2),
    ):
        pass  # pragma: no cover
