"""A writer in front of a real node that stands still and dies in the middle."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import treering
from tests import waiting
from treering.testing import LocalCassandra

pytestmark = [pytest.mark.cassandra]

BOUND_S = 180.0
wait_until = partial(waiting.wait_until, bound_s=BOUND_S)


@pytest.fixture(scope="module")
def node(cassandra_programs: None) -> Iterator[LocalCassandra]:
    """A node of this module's own, to be paused and killed; what it acknowledges is on disk."""
    with LocalCassandra(commitlog_sync="batch") as ring:
        yield ring


def url_of(node: LocalCassandra) -> str:
    """Return the place of a store that does not exist yet."""
    return node.url(f"writer_{uuid.uuid4().hex[:8]}")


def table_of(url: str) -> tuple[treering.Store, treering.Table]:
    """Return a store on a keyspace of its own, and a table."""
    store = treering.open(url, replication={"datacenter1": 1})
    return store, store.create("readings", rate="10/s", retention="30d")


@pytest.mark.parametrize("has_spool", [False, True], ids=["in memory", "with a spool"])
def test_node_that_is_paused_and_killed_in_the_middle_costs_no_reading(
    node: LocalCassandra, tmp_path: Path, has_spool: bool
) -> None:
    store, table = table_of(url_of(node) + "&timeout=2s")
    with store:
        spool = tmp_path / "spool" if has_spool else None
        writer = table.writer(linger="20ms", max_rows=4_000, spool=spool, block_s=BOUND_S)
        base_ms = time.time_ns() // 1_000_000 - 3_600_000
        taken = [0, 0]
        is_over = threading.Event()

        def work(thread: int) -> None:
            while not is_over.is_set():
                ts = base_ms + taken[thread]
                writer.append(f"s{thread}", ts=ts, unit="ms", value=float(taken[thread]))
                taken[thread] += 1

        threads = [threading.Thread(target=work, args=(n,)) for n in range(2)]
        for thread in threads:
            thread.start()
        try:
            wait_until(lambda: writer.report.accepted > 100)
            node.pause()
            try:
                wait_until(lambda: writer.report.retried > 0)
            finally:
                node.resume()
            after_pause = writer.report.accepted
            wait_until(lambda: writer.report.accepted > after_pause + 100)
            node.kill()
            wait_until(lambda: writer.report.pending > 200)
            node.restart()
            after_kill = writer.report.accepted
            wait_until(lambda: writer.report.accepted > after_kill + 100)
        finally:
            is_over.set()
            for thread in threads:
                thread.join(BOUND_S)
        report = writer.flush(BOUND_S)
        assert (report.accepted, report.pending) == (sum(taken), 0)
        writer.close()
        for number in range(2):
            rows = table.read(f"s{number}", "-2h")
            assert rows.ts.tolist() == list(range(base_ms, base_ms + taken[number]))
            assert rows["value"].tolist() == [float(n) for n in range(taken[number])]


END_WITHOUT_CLOSING = """
    import sys, treering
    store = treering.open(sys.argv[1])
    writer = store.table("readings").writer(linger="1h")
    for n in range(100):
        writer.append("left", value=float(n))
"""


def test_process_that_ends_without_closing_has_written_all(node: LocalCassandra) -> None:
    url = url_of(node)
    store, table = table_of(url)
    with store:
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(END_WITHOUT_CLOSING), url],
            capture_output=True,
            text=True,
            timeout=BOUND_S,
            check=False,
            env={**os.environ, "PYTHONWARNINGS": "error"},
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert len(table.read("left", "-1h")) == 100
