"""Java and Maven: found where they are, named where they are not."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from treering.testing import MissingToolError, tools
from treering.testing.tools import find_java, find_maven


def fake_java(folder: Path, version: str) -> Path:
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine with a shell and no Java or Maven anywhere."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setattr(tools, "JVM_FOLDERS", (tmp_path / "jvm",))
    return tmp_path


def test_no_java_is_said_with_what_to_install(bare_machine: Path) -> None:
    with pytest.raises(MissingToolError, match=r"needs Java 17.*no java found") as caught:
        find_java()
    assert "apt-get install openjdk-17" in caught.value.hint
    assert caught.value.tool == "java"


def test_another_java_is_named_and_not_taken(
    bare_machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = fake_java(bare_machine / "jdk", "21.0.2")
    monkeypatch.setenv("JAVA_HOME", str(bare_machine / "jdk"))
    with pytest.raises(MissingToolError) as caught:
        find_java()
    assert f"{java} is Java 21" in caught.value.message


def test_java_8_is_read_as_8_not_as_1(bare_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(bare_machine / "jdk", "1.8.0_412")
    monkeypatch.setenv("JAVA_HOME", str(bare_machine / "jdk"))
    with pytest.raises(MissingToolError, match="is Java 8"):
        find_java()


def test_java_17_beside_another_default_is_found(
    bare_machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(bare_machine / "jdk", "21.0.2")
    monkeypatch.setenv("JAVA_HOME", str(bare_machine / "jdk"))
    right = fake_java(bare_machine / "jvm" / "java-17-openjdk", "17.0.11")
    assert find_java() == right


def test_a_java_that_does_not_run_is_named(
    bare_machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(bare_machine / "gone"))
    with pytest.raises(MissingToolError, match=r"gone/bin/java does not run"):
        find_java()


def test_no_maven_is_said_with_what_to_install(bare_machine: Path) -> None:
    with pytest.raises(MissingToolError, match="no mvn on the path") as caught:
        find_maven()
    assert "apt-get install maven" in caught.value.hint
