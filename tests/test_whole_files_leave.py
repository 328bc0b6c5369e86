"""On a real node, a table of ours drops whole files: the promise that everything rests on."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from cassandra.cluster import Session

import treering
from treering.testing import LocalCassandra

TTL_S = 60
GRACE_S = 10
BOUND_S = 600
"""A pure drop came after about two and a half minutes; a busy machine may need longer."""


def files_of(node: LocalCassandra, keyspace: str) -> set[str]:
    """Return the names of the data files of the keyspace's table of readings."""
    return {
        path.name
        for folder in node.data_folders()
        for path in Path(folder, keyspace).glob("readings-*/*-Data.db")
    }


def pure_drops(node: LocalCassandra, keyspace: str) -> list[str]:
    """Return the log's lines of compactions that merged nothing: files that left as a whole."""
    pattern = re.compile(rf"Compacted .*{keyspace}.readings.* to \[\]|Compacted .* to \[\]")
    return [line for line in node.log().splitlines() if pattern.search(line)]


def waiting(bound_s: float, step_s: float = 1.0) -> Iterator[None]:
    """Yield until the caller breaks; fail after the bound."""
    end_s = time.monotonic() + bound_s
    while time.monotonic() < end_s:
        yield
        time.sleep(step_s)
    pytest.fail(f"the condition did not come true within {bound_s} s")


@pytest.mark.slow
def test_expired_windows_leave_as_whole_files_and_live_readings_stay(
    cassandra_node: LocalCassandra, cassandra_keyspace: str, cassandra_session: Session
) -> None:
    keyspace = cassandra_keyspace.rpartition("/")[2].partition("?")[0]
    with treering.open(cassandra_keyspace) as store:
        table = store.create(
            "readings",
            rate="1/s",
            retention=f"{TTL_S}s",
            window="1 MINUTES",
            gc_grace=f"{GRACE_S}s",
            bucket="1min",
        )
        # Only how often expiry is looked at is made quicker; the rest is the design's own DDL.
        cassandra_session.execute(
            f"ALTER TABLE {keyspace}.readings WITH compaction = "
            "{'class': 'TimeWindowCompactionStrategy', 'compaction_window_unit': 'MINUTES', "
            "'compaction_window_size': '1', 'expired_sstable_check_frequency_seconds': '5'}"
        )
        first: set[str] = set()
        written = 0
        for _ in waiting(BOUND_S, step_s=10):
            now = np.datetime64(time.time_ns() // 1_000_000, "ms")
            written += table.write("s", [now], value=[float(written)]).accepted
            cassandra_node.nodetool("flush", keyspace, "readings")
            first = first or files_of(cassandra_node, keyspace)
            gone = first - files_of(cassandra_node, keyspace)
            if gone and len(pure_drops(cassandra_node, keyspace)) >= 1 and written > 8:
                break
        report = table.expire()
        found = table.read("s", "-1h")
    assert not report.is_removed
    assert 0 < len(found) < written
    assert found["value"].tolist()[-1] == written - 1
    # The disk follows: what is left was written within lifetime, grace and a few windows.
    rows = cassandra_session.execute(f"SELECT count(*) FROM {keyspace}.readings").one()
    assert rows is not None
    assert rows[0] < written
