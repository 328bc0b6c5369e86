"""A store in a folder, and the command line with or without a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

NOW = "2026-11-30T14:00Z"

Run = Callable[..., Result]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the folder of a store that the environment names; it does not exist yet."""
    monkeypatch.chdir(tmp_path)
    place = str(tmp_path / "plant")
    monkeypatch.setenv("TREERING_URL", place)
    return place


@pytest.fixture
def run(store: str) -> Run:
    """Return a function that runs a command in this process and checks its exit code."""
    from treering.cli.main import app

    def command(*arguments: str, exit_code: int = 0, stdin: str | bytes | None = None) -> Result:
        result = CliRunner().invoke(app, list(arguments), input=stdin)
        assert result.exit_code == exit_code, f"{result.stdout}\n{result.stderr}"
        assert "Traceback" not in result.stderr
        return result

    return command


@pytest.fixture
def table(run: Run) -> str:
    """Return a table with one double column, kept for 90 days."""
    run("create", "readings", "--rate", "1/s", "--retention", "90d", "--now", NOW)
    return "readings"


def run_process(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command as a process."""
    return subprocess.run(
        [sys.executable, "-m", "treering", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONWARNINGS": "error"},
        **options,
    )


def document(result: Result) -> Any:
    """Return the one JSON document that a command printed."""
    return json.loads(result.stdout)
