"""The demo: the main job runs, checks itself, and repeats."""

from __future__ import annotations

import math
import time
from pathlib import Path

import pytest

from tests.cli.conftest import run_process
from treering.demo import BusyShare, data_path


def test_the_demo_runs_twice_and_keeps_what_it_made(tmp_path: Path) -> None:
    for number in (1, 2):
        done = run_process("demo", "--out", str(tmp_path / "out"), "--seconds", "1")
        assert done.returncode == 0, done.stderr
        text = done.stdout
        assert "8,759 lines, 8,758 readings written" in text
        assert "skips 2010-03-14T02:00" in text
        assert "read equals written, bit for bit: 8,758 temperatures and 10 readings" in text
        assert "15 parts left" in text
        assert "treering design plans for the" in text
        assert "B each: the bytes of a file for each of its readings" in text
        assert "31 files of" in text
        assert "4,392 readings are inside the retention now" in text
        for name in ("temperature.png", "load.png"):
            assert (tmp_path / "out" / f"run-{number}" / name).stat().st_size > 10_000
    assert (tmp_path / "out" / "run-1" / "temperature.png").exists()


def test_the_data_set_is_where_the_package_has_it() -> None:
    assert data_path().read_text().startswith("date,temp\n2010/01/01 00:00,39.4\n")


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="the system has no /proc/stat")
def test_a_busy_share_is_a_share() -> None:
    share = BusyShare()
    deadline_s = time.monotonic() + 30
    value = float("nan")
    while math.isnan(value) and time.monotonic() < deadline_s:
        value = share.next()
    assert 0 <= value <= 1


def test_the_demo_runs_on_cassandra(tmp_path: Path, cassandra_keyspace: str) -> None:
    options = ("--out", str(tmp_path / "out"), "--seconds", "1", "--store", cassandra_keyspace)
    done = run_process("demo", *options)
    assert done.returncode == 0, done.stderr
    assert "read equals written, bit for bit: 8,758 temperatures and 10 readings" in done.stdout
    assert "counts from the moment of the write" in done.stdout
    assert "4,392 readings are inside the retention now" in done.stdout
