"""The examples run, on what they name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from treering.testing import LocalCassandra

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.slow
def test_same_readings_come_from_a_folder_and_from_three_nodes(
    tmp_path: Path, cassandra_ring: LocalCassandra
) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "same_readings.py", "plant", cassandra_ring.url("plant")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "sqlite: 362 readings" in done.stdout
    assert "cassandra: 362 readings" in done.stdout
    assert "the same readings from both" in done.stdout
