"""The page about local nodes tells the truth."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import treering.testing
from treering.testing import LocalCassandra

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "testing.md"


def blocks(language: str) -> list[str]:
    found = re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), flags=re.M | re.S)
    assert found, f"{PAGE.name} has no block of {language}"
    return found


def commands() -> list[str]:
    lines = "".join(blocks("console")).splitlines()
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]


@pytest.mark.parametrize("code", blocks("python"))
def test_python_of_the_page_runs(cassandra_programs: None, code: str) -> None:
    exec(compile(code, str(PAGE), "exec"), {})


@pytest.mark.parametrize("command", commands())
def test_commands_of_the_page_exist_with_their_options(command: str) -> None:
    program, *args = shlex.split(command)
    assert program == "python"
    # Unknown options are refused before help is shown.
    asked = subprocess.run([sys.executable, *args, "--help"], capture_output=True, timeout=60)
    assert asked.returncode == 0, asked.stderr.decode()


def test_every_public_name_is_on_the_page() -> None:
    names = {name for name in dir(LocalCassandra) if not name.startswith("_")}
    names |= set(treering.testing.__all__)
    missing = {name for name in names if not re.search(rf"\b{name}\b", PAGE.read_text())}
    assert not missing
