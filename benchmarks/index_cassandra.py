"""What does the index of buckets save a read of a silent series, and what do its marks cost?

    python -m benchmarks index_cassandra

Peers, on the same node, table and readings: the same verbs of the same table with an index that is
not trusted, so that ``latest`` walks back bucket by bucket and a write sends no marks. Each series
of the bulk write has one bucket: the most marks a write can need.
"""

from __future__ import annotations

import datetime as dt
import uuid
from dataclasses import replace

import numpy as np

import treering
from benchmarks.measure import Result, best_s
from benchmarks.nodes import bench_node

DAY_MS = 86_400_000


def run(*, days: int = 400, series: int = 10_000, rows: int = 10) -> list[Result]:
    """Start a node and compare both."""
    with (
        bench_node() as node,
        treering.open(node.url("bench"), replication={"datacenter1": 1}) as store,
    ):
        return [silent(store, days), *bulk(store, series, rows)]


def table_of(store: treering.Store) -> tuple[treering.Table, treering.Table]:
    """Return a new table of day buckets, and the same without a trusted index."""
    name = f"t_{uuid.uuid4().hex[:8]}"
    table = store.create(name, rate="1/min", retention="2y", bucket="day", window="30d")
    return table, treering.Table(replace(table.spec, index_trusted=False), table._context)


def silent(store: treering.Store, days: int) -> Result:
    """Find the last reading of a series that was silent for so many days."""
    table, walked = table_of(store)
    now_ms = int(dt.datetime.now(dt.UTC).timestamp() * 1_000)
    table.write("s", [now_ms - days * DAY_MS], unit="ms", value=[1.0])

    def check(found: treering.Readings) -> None:
        assert found["value"].tolist() == [1.0]

    def requests() -> int:
        return store.stats().verbs["latest"].requests

    check(table.latest("s"))
    before = requests()
    check(table.latest("s"))
    asked = requests() - before
    assert asked == 2
    check(walked.latest("s"))
    by_walk = requests() - before - asked
    assert by_walk >= days
    ours = best_s(lambda: table.latest("s"), check)
    peer = best_s(lambda: walked.latest("s"), check)
    return Result(
        name=f"latest of a series silent for {days} days ({asked} queries)",
        ours=1 / ours,
        peer=1 / peer,
        peer_name=f"bucket by bucket ({by_walk} queries)",
        unit="calls/s",
    )


def bulk(store: treering.Store, series: int, rows: int) -> list[Result]:
    """Write a few readings of many series at once: new buckets, then buckets that are known."""
    now = np.datetime64(dt.datetime.now(dt.UTC).replace(tzinfo=None), "ms")
    times = now - np.arange(rows) * np.timedelta64(1, "s")
    names = [f"series-{number:05d}" for number in range(series)]
    frame = {
        "ts": np.tile(times, series),
        "series": np.repeat(np.array(names, dtype=object), rows),
        "value": np.arange(series * rows, dtype=float),
    }

    def check(report: treering.WriteReport) -> None:
        assert report.accepted == series * rows

    def once_s(table: treering.Table) -> float:
        return best_s(lambda: table.write_frame(frame, series="series"), check, rounds=1)

    marked, unmarked = table_of(store)
    # Listing the series is the same for both, so it is done before.
    store._engine.add_series(marked.spec, tuple(names))
    once_s(unmarked)
    first_s, without_s, known_s = once_s(marked), once_s(unmarked), once_s(marked)
    assert marked.latest(names[-1])["value"].tolist() == [float((series - 1) * rows)]
    return [
        Result(
            name=f"write of {series:,} series, {what}",
            ours=series * rows / ours_s,
            peer=series * rows / without_s,
            peer_name="without marks",
            unit="readings/s",
        )
        for what, ours_s in (("all buckets new", first_s), ("buckets known", known_s))
    ]
