"""Computed sizes against the partition-size histogram of a real node."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.core.design_cases import DAY_S, workload
from treering.core.bucket import bucket_of
from treering.core.ddl import render_create_table
from treering.core.design import Design, plan_design
from treering.core.sizing import partition_overhead_bytes, row_bytes_of

if TYPE_CHECKING:
    from cassandra.cluster import Session

    from treering.testing import LocalCassandra

pytestmark = pytest.mark.cassandra

SERIES = "pump-7"
DAY_START_MS = 1_763_596_800_000  # 2025-11-20T00:00Z
BATCH_ROWS = 200
VALUES = {"double": 1.5, "float": 1.5, "int": 7, "bigint": 2**40, "boolean": True, "text": "x" * 24}


def histogram_edges() -> Iterator[int]:
    """Yield the upper bounds of Cassandra's histogram buckets: 1, then each a fifth more."""
    edge = 1
    while True:
        yield edge
        edge = max(round(edge * 1.2), edge + 1)


def edges_below(size: float) -> tuple[int, int]:
    """Return the largest edge up to ``size`` and the next one."""
    last = 1
    for edge in histogram_edges():
        if edge > size:
            return last, edge
        last = edge
    raise AssertionError("edges grow without end")


def write_rows(
    session: Session, table: str, plan: Design, *, count: int, first_us: int, span_us: int
) -> None:
    """Write a partition whose rows lie up to ``span_us`` after the first write of the table.

    That first write goes to another partition, so that every row of the measured one has the
    same difference in its write time.
    """
    from cassandra.query import BatchStatement, BatchType

    names = [column.name for column in plan.columns]
    marks = ", ".join("?" * (3 + len(names)))
    insert = session.prepare(
        f"INSERT INTO {table} (series, bucket, ts, {', '.join(names)}) VALUES ({marks}) "
        "USING TIMESTAMP ?"
    )
    bucket = bucket_of(DAY_START_MS, plan.bucket).text
    values = [VALUES[column.type] for column in plan.columns]
    session.execute(insert, ["first", bucket, DAY_START_MS, *values, first_us])
    for start in range(0, count, BATCH_ROWS):
        batch = BatchStatement(batch_type=BatchType.UNLOGGED)
        for index in range(start, min(start + BATCH_ROWS, count)):
            key: list[Any] = [SERIES, bucket, DAY_START_MS + index * 1_000]
            batch.add(insert, [*key, *values, first_us + span_us])
        session.execute(batch)


def largest_partition_bytes(node: LocalCassandra, keyspace: str, table: str) -> int:
    """Return the upper bound of the histogram bucket that holds the largest partition."""
    node.nodetool("flush", keyspace, table)
    stats = json.loads(node.nodetool("tablestats", "-F", "json", f"{keyspace}.{table}"))
    return int(stats[keyspace]["tables"][table]["compacted_partition_maximum_bytes"])


@pytest.mark.parametrize(
    ("columns", "retention_s", "span_us", "around_bytes"),
    [
        ("value:double", 90 * DAY_S, 2_000_000, 60_000),
        ("value:double", None, 80_000 * 1_000_000, 60_000),
        ("a:double,b:bigint,c:int,d:float,e:boolean", 90 * DAY_S, 2_000_000, 60_000),
        ("t:text,v:double", 90 * DAY_S, 200_000_000, 60_000),
        (",".join(f"c{i}:double" for i in range(20)), 90 * DAY_S, 2_000_000, 200_000),
    ],
    ids=["a double", "no TTL", "five types", "text", "rows over 127 B"],
)
def test_one_row_more_or_less_falls_into_the_computed_histogram_bucket(
    cassandra_node: LocalCassandra,
    cassandra_session: Session,
    cassandra_keyspace: str,
    columns: str,
    retention_s: int | None,
    span_us: int,
    around_bytes: int,
) -> None:
    plan = plan_design(workload(columns=columns, retention_s=retention_s), now_s=int(time.time()))
    keyspace = cassandra_keyspace.rpartition("/")[2].partition("?")[0]
    row, overhead = _measured_row_bytes(plan, span_us), _overhead_bytes(plan)
    edge, next_edge = edges_below(around_bytes)
    fitting = (edge - overhead) // row
    assert overhead + fitting * row <= edge < overhead + (fitting + 1) * row
    # As many rows as just fit under a histogram edge, and one more: a row size that is off by a
    # fraction of a per cent lands in the wrong bucket.
    for table, count, expected in (("under", fitting, edge), ("over", fitting + 1, next_edge)):
        cassandra_session.execute(render_create_table(plan, keyspace=keyspace, table=table))
        write_rows(
            cassandra_session,
            f"{keyspace}.{table}",
            plan,
            count=count,
            first_us=time.time_ns() // 1_000,
            span_us=span_us,
        )
        assert largest_partition_bytes(cassandra_node, keyspace, table) == expected


def test_a_whole_day_of_readings_takes_what_was_computed(
    cassandra_node: LocalCassandra, cassandra_session: Session, cassandra_keyspace: str
) -> None:
    plan = plan_design(workload(1.0), now_s=int(time.time()))
    keyspace = cassandra_keyspace.rpartition("/")[2].partition("?")[0]
    cassandra_session.execute(render_create_table(plan, keyspace=keyspace, table="day"))
    assert plan.rows_per_bucket == 86_400
    # Written at one moment, so the write time takes 3 B and not the 6 B of a window's end.
    write_rows(
        cassandra_session,
        f"{keyspace}.day",
        plan,
        count=86_400,
        first_us=time.time_ns() // 1_000,
        span_us=2_000_000,
    )
    size = 2 + (2 + len(SERIES) + 1) + (2 + len("2025-11-20") + 1) + 12 + 1 + 86_400 * 26
    assert size == _overhead_bytes(plan) + 86_400 * _measured_row_bytes(plan, 2_000_000)
    edge, next_edge = edges_below(size)
    assert edge < size < next_edge
    assert largest_partition_bytes(cassandra_node, keyspace, "day") == next_edge
    assert size <= plan.bucket_bytes + _overhead_bytes(plan)


def _overhead_bytes(plan: Design) -> int:
    return partition_overhead_bytes(
        plan.bucket,
        version=plan.workload.version,
        mode=plan.workload.mode,
        series_bytes=len(SERIES),
    )


def _measured_row_bytes(plan: Design, span_us: int) -> int:
    has_ttl = plan.ttl_s is not None
    row = row_bytes_of(plan.columns, has_ttl=has_ttl, span_s=span_us / 1e6)
    if has_ttl and span_us >= 128 * 1_000_000:
        # Write times are stated here, expiry is not: all rows expire within two minutes of each
        # other, so that difference takes one byte and not the two of a span this long.
        row -= 1
    assert row <= plan.row_bytes
    return row
