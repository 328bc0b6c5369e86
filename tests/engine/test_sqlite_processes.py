"""Several processes on one store: they take turns, and none loses what was acknowledged."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.engine.contract import NOW_MS, read_all, spec_of, write_of
from treering.core.segment import segment_length_s, segment_of
from treering.engine.sqlite import SqliteEngine
from treering.errors import StoreBusyError

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}

HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""

CREATE = """
import sys
from pathlib import Path
from tests.engine.contract import NOW_MS, spec_of, write_of
from treering.engine.sqlite import SqliteEngine
sys.stdin.readline()
engine = SqliteEngine(Path(sys.argv[1]))
spec = engine.create_table(spec_of("readings"))
engine.add_series(spec, ("shared", sys.argv[2]))
for step in range(20):
    times = [NOW_MS + step * 86_400_000 // 4 + int(sys.argv[2])]
    engine.submit_write(spec, write_of(spec, "shared", times, value=[1.0])).result()
print(spec.incarnation)
"""

FORK = """
import os, sys
from pathlib import Path
from tests.engine.contract import NOW_MS, read_all, spec_of, write_of
from treering.engine.sqlite import SqliteEngine

def put(offset):
    write = write_of(spec, "s", [NOW_MS + offset], value=[1.0])
    engine.submit_write(spec, write).result()

engine = SqliteEngine(Path(sys.argv[1]))
spec = engine.create_table(spec_of("readings"))
put(0)
go_on, written = os.pipe(), os.pipe()
if not os.fork():
    put(1)
    os.write(written[1], b".")
    os.read(go_on[0], 1)
    # The parent has closed its files by now: had this process its locks by inheritance only, the
    # log would be gone and this write with it.
    put(2)
    os._exit(0)
os.read(written[0], 1)
put(3)
engine.close()
os.write(go_on[1], b".")
assert os.wait()[1] == 0
again = SqliteEngine(Path(sys.argv[1]))
print([row[0] - NOW_MS for row in read_all(again, spec, "s", NOW_MS, NOW_MS + 9)])
"""


def command(script: str, *arguments: object) -> list[str]:
    return [sys.executable, "-c", script, *(str(argument) for argument in arguments)]


def run(script: str, *arguments: object) -> str:
    done = subprocess.run(
        command(script, *arguments),
        cwd=ROOT,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def process(script: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Yield a running script whose standard input is open; it must end by itself then."""
    running = subprocess.Popen(
        command(script, *arguments),
        cwd=ROOT,
        env=ENVIRONMENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with running:
        try:
            yield running
            assert running.stdin is not None
            running.stdin.close()
            assert running.wait(60) == 0
        finally:
            running.kill()


@pytest.mark.parametrize("held", ["segment", "catalog"])
def test_busy_store_names_the_process_that_holds_it(tmp_path: Path, held: str) -> None:
    engine = SqliteEngine(tmp_path, busy_timeout_s=0.2)
    spec = engine.create_table(spec_of("readings"))
    write = write_of(spec, "s", [NOW_MS], value=[1.0])
    engine.submit_write(spec, write).result()
    segment = engine._path(spec, segment_of(NOW_MS // 1_000, segment_length_s(spec)))
    path = segment if held == "segment" else tmp_path / "catalog.db"
    with process(HOLD, path) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        blocked: dict[str, Callable[[], object]] = {
            "segment": lambda: engine.submit_write(spec, write).result(),
            "catalog": lambda: engine.add_series(spec, ("s",)),
        }
        with pytest.raises(StoreBusyError, match=path.name) as caught:
            blocked[held]()
        assert caught.value.retryable
        if Path("/proc/locks").exists():
            assert caught.value.pid == holder.pid
            assert f"process {holder.pid}" in str(caught.value)
        # Readers never wait for a writer.
        assert len(read_all(engine, spec, "s", NOW_MS, NOW_MS + 1)) == 1
    engine.submit_write(spec, write).result()
    engine.add_series(spec, ("s",))
    engine.close()


def test_wait_for_another_thread_is_bounded_too(tmp_path: Path) -> None:
    engine = SqliteEngine(tmp_path, busy_timeout_s=0.1)
    spec = engine.create_table(spec_of("readings"))
    path = engine._path(spec, segment_of(NOW_MS // 1_000, segment_length_s(spec)))
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with engine._opened.pool.lease(path):
            entered.set()
            leave.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    assert entered.wait(30)
    write = write_of(spec, "s", [NOW_MS], value=[1.0])
    with pytest.raises(StoreBusyError, match="another thread"):
        engine.submit_write(spec, write).result()
    leave.set()
    thread.join(30)
    engine.submit_write(spec, write).result()
    engine.close()


def test_racing_processes_make_one_store_one_table_and_one_file_a_segment(tmp_path: Path) -> None:
    folder, racers = tmp_path / "store", 3
    with (
        process(CREATE, folder, 0) as a,
        process(CREATE, folder, 1) as b,
        process(CREATE, folder, 2) as c,
    ):
        for racer in (a, b, c):
            assert racer.stdin is not None
            racer.stdin.write("\n")
            racer.stdin.flush()
        numbers = [racer.stdout.read() for racer in (a, b, c) if racer.stdout is not None]
    assert numbers == ["1\n"] * racers
    engine = SqliteEngine(folder, create=False)
    spec = engine.load_table("readings")
    assert spec is not None
    assert list(engine.series(spec)) == ["0", "1", "2", "shared"]
    found = [
        row[0]
        for step in range(20)
        for start in [NOW_MS + step * 86_400_000 // 4]
        for row in read_all(engine, spec, "shared", start, start + racers)
    ]
    assert len(found) == 20 * racers
    assert engine.info(spec, is_thorough=True).problems == ()
    engine.close()
    left = [path.name for path in folder.rglob("*") if ".new." in path.name]
    assert left == []


def test_forked_child_and_its_parent_both_keep_what_they_write(tmp_path: Path) -> None:
    assert run(FORK, tmp_path / "store") == "[0, 1, 2, 3]\n"


def test_killed_writers_lose_nothing_that_was_acknowledged() -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tests.engine.kill_writer"),
            *("--kills", "15", "--seed", str(os.getpid())),
        ],
        cwd=ROOT,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = re.match(
        r"(\d+) kills, ([\d,]+) readings acknowledged, ([\d,]+) sealed, 0 faults", done.stdout
    )
    assert said is not None
    assert int(said[1]) >= 15
    assert int(said[2].replace(",", "")) > 100
    assert int(said[3].replace(",", "")) > 0
