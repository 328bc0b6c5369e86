"""How many rows a second does the store write and read on Cassandra, beside the plain driver?

    python -m benchmarks rows_cassandra

Peers, on the same node, the same readings and a table with the same options:
``execute_concurrent_with_args`` with one INSERT a reading; hand-made single-partition batches of
50, 100, 200 and 400 with 16 in flight, of which the best one is the peer; one SELECT a bucket with
the driver's default rows, all buckets side by side; one SELECT with IN over all buckets. Each round
writes rows that were not there. Client and node share the machine's cores.
"""

from __future__ import annotations

import datetime as dt
import itertools
import re
from collections.abc import Callable
from itertools import groupby, islice
from typing import Any

import numpy as np
from cassandra.cluster import Cluster, Session
from cassandra.concurrent import execute_concurrent, execute_concurrent_with_args
from cassandra.query import BatchStatement, BatchType

import treering
from benchmarks.measure import Result, best_of, best_s
from benchmarks.nodes import bench_node

Times = np.ndarray[Any, np.dtype[np.int64]]
DAY_MS = 86_400_000
BATCHES = (50, 100, 200, 400)
BATCH = 100
ROUNDS = 3


def readings_of(days: int, rows_a_day: int) -> tuple[Times, np.ndarray[Any, Any]]:
    """Return regular times of the last whole days, and two-decimal values, from a seed."""
    today = int(dt.datetime.now(dt.UTC).timestamp()) * 1_000 // DAY_MS * DAY_MS
    step = DAY_MS // rows_a_day
    times = today - days * DAY_MS + np.arange(days * rows_a_day, dtype=np.int64) * step
    values = np.random.default_rng(1).normal(20, 3, len(times)).round(2)
    return times, values


def run(
    *,
    days: int = 30,
    rows_a_day: int = 20_000,
    single_rows: int = 20_000,
    batched_rows: int = 100_000,
) -> list[Result]:
    """Start a node, write and read with treering and with the driver, and compare."""
    with bench_node() as node:
        url = node.url("bench")
        cluster = Cluster(node.contact_points, port=node.port, protocol_version=5)
        try:
            with treering.open(url, replication={"datacenter1": 1}) as store:
                times, values = readings_of(days, rows_a_day)
                table = store.create("ours", rate="1/s", retention="90d", bucket="day")
                session = peer_session(cluster, like="ours")
                return [
                    *compare_writes(table, session, times, values, single_rows, batched_rows),
                    *compare_reads(table, session, "s", times, values),
                    compare_in(table, session, times, values),
                ]
        finally:
            cluster.shutdown()


def compare_writes(
    table: treering.Table,
    session: Session,
    times: Times,
    values: np.ndarray[Any, Any],
    single_rows: int,
    batched_rows: int,
) -> list[Result]:
    """Write with all; rounds write series of their own, and ``s`` is there afterwards."""
    fresh = map("s{}".format, itertools.count())
    few = slice(0, batched_rows)
    warm_up(table, session, times, values, rows_of(times[few], values[few], next(fresh)))

    def rows(count: int) -> list[Row]:
        return rows_of(times[:count], values[:count], next(fresh))

    ours = len(times) / best_s(
        lambda: table.write(next(fresh), times, unit="ms", value=values), accepted(len(times))
    )
    one_each = rows(single_rows)
    single = len(one_each) / best_s(lambda: write_single(session, one_each), all_written, rounds=1)
    batched, size = best_batches(session, [rows(batched_rows) for _ in range(ROUNDS)])
    table.write("s", times, unit="ms", value=values)
    return [
        Result(
            name="write rows",
            ours=ours,
            peer=single,
            unit="rows/s",
            peer_name="execute_concurrent, 1 INSERT a reading",
            budget=30,
        ),
        Result(
            name="write rows",
            ours=ours,
            peer=batched,
            unit="rows/s",
            peer_name=f"hand-made batches of {size}, the best of {len(BATCHES)} sizes",
            budget=2.5,
        ),
    ]


def warm_up(
    table: treering.Table,
    session: Session,
    times: Times,
    values: np.ndarray[Any, Any],
    rows: list[Row],
) -> None:
    """Have the node compile what it runs, before anybody's time counts: whoever came first lost."""
    for _ in range(3):
        table.write("warm", times, unit="ms", value=values)
        for size in BATCHES:
            write_batches(session, rows, size)
        assert len(table.read("warm", int(times[0]), int(times[-1]) + 1, unit="ms")) == len(times)


def peer_session(cluster: Cluster, *, like: str) -> Session:
    """Return a session of the plain driver, and make the table that it writes to.

    Args:
        cluster: The plain driver's.
        like: The table of ours whose options it gets: lifetime, compaction, compression.
    """
    session = cluster.connect("bench")
    session.execute(
        "CREATE TABLE peer (series text, bucket text, ts timestamp, value double, "
        f"PRIMARY KEY ((series, bucket), ts)) WITH {options_of(cluster, like)}"
    )
    return session


def options_of(cluster: Cluster, table: str) -> str:
    """Return the options of a table as the driver itself writes them down, without its comment."""
    cluster.refresh_schema_metadata()
    made = cluster.metadata.keyspaces["bench"].tables[table]
    text = re.sub(r"comment = '(?:[^']|'')*'", "comment = ''", made.as_cql_query())
    return text.partition(" WITH ")[2].removesuffix(";")


def best_batches(session: Session, rounds: list[list[Row]]) -> tuple[float, int]:
    """Return rows a second of the best size of hand-made batches, and that size.

    Every round has rows of its own; a size that comes later writes them anew, which is no dearer.
    """

    def rate(size: int) -> float:
        waiting = iter(rounds)
        took_s = best_s(
            lambda: write_batches(session, next(waiting), size), all_written, rounds=len(rounds)
        )
        return len(rounds[0]) / took_s

    return max((rate(size), size) for size in BATCHES)


def compare_in(
    table: treering.Table, session: Session, times: Times, values: np.ndarray[Any, Any]
) -> Result:
    """Read everything back with the store, and with one IN over the buckets."""
    start, end = int(times[0]), int(times[-1]) + 1
    reads = table.explain("s", start, end, unit="ms").reads
    select = session.prepare("SELECT ts, value FROM ours WHERE series = ? AND bucket IN ?")

    def check_ours(found: treering.Readings) -> None:
        assert (found["value"] == values).all()

    def read_peer() -> int:
        return sum(1 for _ in session.execute(select, ("s", [r.bucket.text for r in reads])))

    def check_peer(count: int) -> None:
        assert count == len(times)

    return Result(
        name=f"read {len(reads)} day partitions",
        ours=len(times) / best_s(lambda: table.read("s", start, end, unit="ms"), check_ours),
        peer=len(times) / best_s(read_peer, check_peer, rounds=2),
        unit="rows/s",
        peer_name="IN over the buckets, the driver's default rows",
    )


def compare_reads(
    table: treering.Table,
    session: Session,
    series: str,
    times: Times,
    values: np.ndarray[Any, Any],
    *,
    budget: float | None = 2.0,
) -> list[Result]:
    """Read everything back with the store, and with the driver's default rows."""
    start, end = int(times[0]), int(times[-1]) + 1
    plan = table.explain(series, start, end, unit="ms")
    select = session.prepare(
        "SELECT ts, value FROM ours WHERE series = ? AND bucket = ? AND ts >= ? AND ts < ?"
    )
    asked = [(select, (series, read.bucket.text, read.start, read.end)) for read in plan.reads]

    def check_ours(found: treering.Readings) -> None:
        assert (found.ts == times).all()
        assert (found["value"] == values).all()

    def read_peer() -> int:
        results = execute_concurrent(session, asked, concurrency=16, raise_on_first_error=True)
        return sum(len(list(result)) for _, result in results)

    def check_peer(count: int) -> None:
        assert count == len(times)

    ours = best_of(lambda: table.read(series, start, end, unit="ms"), check_ours)
    peer = best_of(read_peer, check_peer)
    name, peer_name = f"read {len(plan.reads)} day partitions", "the driver's default rows"
    return [
        Result(
            name=name,
            ours=len(times) / ours.wall_s,
            peer=len(times) / peer.wall_s,
            unit="rows/s",
            peer_name=peer_name,
            budget=budget,
        ),
        Result(
            name=f"{name}, the client's CPU",
            ours=len(times) / ours.cpu_s,
            peer=len(times) / peer.cpu_s,
            unit="rows/CPU s",
            peer_name=peer_name,
            budget=10,
        ),
    ]


Row = tuple[str, str, int, float]


def rows_of(times: Times, values: np.ndarray[Any, Any], series: str = "s") -> list[Row]:
    """Return readings as the parameters that the plain driver takes."""
    return [
        (series, treering.bucket_of(ts, "day").text, ts, value)
        for ts, value in zip(times.tolist(), values.tolist(), strict=True)
    ]


INSERT = "INSERT INTO peer (series, bucket, ts, value) VALUES (?, ?, ?, ?)"


def write_single(session: Session, rows: list[Row]) -> bool:
    """Write one INSERT a reading with the driver's own helper."""
    results = execute_concurrent_with_args(session, session.prepare(INSERT), rows, concurrency=200)
    return all(result.success for result in results)


def write_batches(session: Session, rows: list[Row], size: int = BATCH) -> bool:
    """Write single-partition UNLOGGED batches of rows in order, 16 in flight."""
    insert = session.prepare(INSERT)
    batches = []
    for _, partition in groupby(rows, key=lambda row: row[:2]):
        while part := list(islice(partition, size)):
            batch = BatchStatement(BatchType.UNLOGGED)
            for row in part:
                batch.add(insert, row)
            batches.append((batch, ()))
    results = execute_concurrent(session, batches, concurrency=16)
    return all(result.success for result in results)


def accepted(count: int) -> Callable[[treering.WriteReport], None]:
    """Return a check that so many readings were accepted."""

    def check(report: treering.WriteReport) -> None:
        assert report.accepted == count
        assert not report.refused_count

    return check


def all_written(success: bool) -> None:
    """Check that the peer wrote everything."""
    assert success
