"""How does the cost of a row grow with the partitions and the series that rows are spread over?

    python -m benchmarks growth_cassandra

The same number of readings in 1, 10 and 100 day partitions of one series, then over 1 to 10,000
series of one partition each. Peers, on the same node: hand-made batches of 100, or of what one
partition has, and the driver's default rows, all partitions side by side.
"""

from __future__ import annotations

import numpy as np
from cassandra.cluster import Cluster, Session
from cassandra.concurrent import execute_concurrent

import treering
from benchmarks.measure import Result, best_s
from benchmarks.nodes import bench_node
from benchmarks.rows_cassandra import (
    BATCH,
    DAY_MS,
    Row,
    accepted,
    all_written,
    compare_reads,
    peer_session,
    readings_of,
    rows_of,
    write_batches,
)

PARTITIONS = (1, 10, 100)
SERIES = (1, 10, 100, 1_000, 10_000)
PEER_NAME = f"hand-made batches of up to {BATCH}"


def run(
    *,
    rows: int = 200_000,
    peer_rows: int = 10_000,
    partitions: tuple[int, ...] = PARTITIONS,
    series: tuple[int, ...] = SERIES,
) -> list[Result]:
    """Start a node and measure every size of the work."""
    with bench_node() as node:
        cluster = Cluster(node.contact_points, port=node.port, protocol_version=5)
        try:
            with treering.open(node.url("bench"), replication={"datacenter1": 1}) as store:
                table = store.create("ours", rate="1/s", retention="1y", bucket="day")
                session = peer_session(cluster, like="ours")
                results = []
                for count in partitions:
                    results += over_partitions(table, session, count, rows, peer_rows)
                for count in series:
                    results += over_series(table, session, count, rows, peer_rows)
                return results
        finally:
            cluster.shutdown()


def over_partitions(
    table: treering.Table, session: Session, count: int, rows: int, peer_rows: int
) -> list[Result]:
    """Write and read so many day partitions of one series."""
    name = f"partitions-{count}"
    times, values = readings_of(count, rows // count)
    few = slice(None, None, max(len(times) // peer_rows, 1))
    peer = rows_of(times[few], values[few], name)
    ours_s = best_s(lambda: table.write(name, times, unit="ms", value=values), accepted(len(times)))
    peer_s = best_s(lambda: write_batches(session, peer), all_written)
    written = Result(
        name=f"write {count} partitions",
        ours=len(times) / ours_s,
        peer=len(peer) / peer_s,
        peer_name=PEER_NAME,
        unit="rows/s",
    )
    read, _ = compare_reads(table, session, name, times, values, budget=None)
    return [written, read]


def over_series(
    table: treering.Table, session: Session, count: int, rows: int, peer_rows: int
) -> list[Result]:
    """Write and read so many series of one partition each."""
    each = max(rows // count, 1)
    times, values = readings_of(1, each)
    names = [f"of-{count}-{number:05d}" for number in range(count)]
    # To enter series is measured by the benchmark of the catalog.
    table.add_many_series([table.plan_series(name) for name in names])
    frame = {
        "ts": np.tile(times.view("datetime64[ms]"), count),
        "series": np.repeat(np.array(names, dtype=object), each),
        "value": np.tile(values, count),
    }
    total = each * count
    ours_s = best_s(lambda: table.write_frame(frame, series="series"), accepted(total), rounds=2)
    peer: list[Row] = []
    for name in names:
        peer += rows_of(times, values, name)
        if len(peer) >= peer_rows:
            break
    peer = peer[: max(peer_rows, 1)]
    peer_s = best_s(lambda: write_batches(session, peer), all_written)
    written = Result(
        name=f"write {count:,} series",
        ours=total / ours_s,
        peer=len(peer) / peer_s,
        peer_name=PEER_NAME,
        unit="rows/s",
    )
    return [written, read_series(table, session, names, times)]


def read_series(
    table: treering.Table,
    session: Session,
    names: list[str],
    times: np.ndarray[tuple[int], np.dtype[np.int64]],
) -> Result:
    """Read all series with one call, and with a SELECT each."""
    total = len(names) * len(times)
    start, end = int(times[0]), int(times[0]) // DAY_MS * DAY_MS + DAY_MS
    bucket = treering.bucket_of(start, "day").text
    select = session.prepare(
        "SELECT ts, value FROM ours WHERE series = ? AND bucket = ? AND ts >= ? AND ts < ?"
    )
    asked = [(select, (name, bucket, start, end)) for name in names]

    def check_ours(found: treering.Readings) -> None:
        assert len(found) == total

    def read_peer() -> int:
        results = execute_concurrent(session, asked, concurrency=16, raise_on_first_error=True)
        return sum(len(list(result)) for _, result in results)

    def check_peer(count: int) -> None:
        assert count == total

    ours_s = best_s(
        lambda: table.read(names, start, end, unit="ms", rows_max=len(names) * 10**6),
        check_ours,
        rounds=2,
    )
    peer_s = best_s(read_peer, check_peer, rounds=2)
    return Result(
        name=f"read {len(names):,} series",
        ours=total / ours_s,
        peer=total / peer_s,
        peer_name="the driver's default rows",
        unit="rows/s",
    )
