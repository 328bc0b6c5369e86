"""The index of buckets on a real node: what it promises when something breaks, and how long."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import treering
from tests.engine.contract import DAY_MS, NOW_MS, NOW_S, fresh_name, read_all, spec_of, write_of
from treering.core.bucket import bucket_of
from treering.core.listing import BucketListing, mark_life
from treering.core.table import TableSpec
from treering.core.times import render_ts
from treering.core.units import DAY_S
from treering.engine.cassandra import CassandraEngine

if TYPE_CHECKING:
    from cassandra.cluster import Session


@pytest.fixture
def keyspace(cassandra_keyspace: str) -> str:
    return cassandra_keyspace.partition("?")[0].rpartition("/")[2]


@pytest.fixture
def engine(cassandra_keyspace: str) -> Iterator[CassandraEngine]:
    engine = CassandraEngine.connect(cassandra_keyspace)
    yield engine
    engine.close()


def listed(engine: CassandraEngine, spec: TableSpec, series: str = "s") -> list[int]:
    """Return how many days ago each listed bucket starts."""
    listing = BucketListing(
        series=series, start_s=NOW_S - 999 * DAY_S, end_s=NOW_S + DAY_S, widths=(spec.width,)
    )
    answer = engine.submit_listing(spec, listing).result(30)
    assert answer.next_s is None
    return [(NOW_S - bucket.start_s) // DAY_S for bucket in answer.buckets]


def test_write_is_not_acknowledged_where_its_bucket_cannot_be_marked(
    engine: CassandraEngine, keyspace: str, cassandra_session: Session
) -> None:
    spec = engine.create_table(spec_of())
    cassandra_session.execute(f"DROP TABLE {keyspace}.treering_buckets")
    write = write_of(spec, "s", [NOW_MS], value=[1.0])
    for _ in range(2):
        with pytest.raises(treering.SchemaMismatchError, match=r"treering_buckets is missing"):
            engine.submit_write(spec, write).result(30)
    listing = BucketListing(series="s", start_s=0, end_s=NOW_S, widths=(spec.width,))
    with pytest.raises(treering.SchemaMismatchError, match=r"treering_buckets is missing"):
        engine.submit_listing(spec, listing).result(30)
    other = CassandraEngine.connect(engine._address)
    try:
        with pytest.raises(treering.SchemaMismatchError, match="treering_buckets"):
            other.load_table(spec.name)
    finally:
        other.close()


def test_mark_without_its_readings_is_harmless(
    engine: CassandraEngine, keyspace: str, cassandra_session: Session
) -> None:
    spec = engine.create_table(spec_of())
    old = write_of(spec, "s", [NOW_MS - 5 * DAY_MS], value=[1.0])
    engine.submit_write(spec, old).result(30)
    # The readings of this write cannot be stored: their column is gone. Its mark can.
    cassandra_session.execute(f"ALTER TABLE {keyspace}.{spec.name} RENAME ts TO moment")
    with pytest.raises(treering.EngineError):
        engine.submit_write(spec, write_of(spec, "s", [NOW_MS], value=[2.0])).result(30)
    cassandra_session.execute(f"ALTER TABLE {keyspace}.{spec.name} RENAME moment TO ts")
    assert listed(engine, spec)[-1] == 5
    clock = treering.ManualClock(render_ts(NOW_MS, spec.precision))
    with treering.open(engine._address, clock=clock) as store:
        assert store.table(spec.name).latest("s")["value"].tolist() == [1.0]


def test_no_later_mark_shortens_the_life_of_an_earlier_one(
    engine: CassandraEngine, keyspace: str, cassandra_session: Session
) -> None:
    spec = engine.create_table(spec_of(retention_s=30 * DAY_S, bucket="day"))
    kept, control = (bucket_of(NOW_MS - days * DAY_MS, "day") for days in (3, 4))
    engine.mark_buckets(spec, (("s", kept),)).result(30)
    # What somebody would write who believes in a retention of seconds: it expires at once.
    expires_us = (int(time.time()) + 2) * 1_000_000
    insert = (
        f"INSERT INTO {keyspace}.treering_buckets (table_name, incarnation, series, era, start, "
        f"width) VALUES (%s, %s, 's', '', %s, 'day') USING TIMESTAMP {expires_us} AND TTL 2"
    )
    for bucket in (kept, control):
        values = (spec.name, spec.incarnation, bucket.start_s * 1_000)
        cassandra_session.execute(insert, values)
    deadline = time.monotonic() + 60
    while 4 in listed(engine, spec) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert listed(engine, spec) == [3]
    # And one that lives longer wins over what is there.
    assert mark_life(spec, spec.width, NOW_S).write_us > expires_us


def test_table_made_before_there_was_an_index_is_read_bucket_by_bucket(
    engine: CassandraEngine, keyspace: str, cassandra_session: Session
) -> None:
    spec = engine.create_table(spec_of(retention_s=60 * DAY_S, bucket="day"))
    record = spec.to_json() | {"format": 1}
    del record["index_trusted"]
    cassandra_session.execute(
        f"UPDATE {keyspace}.treering_tables SET format = 1, record = %s WHERE name = %s IF EXISTS",
        (json.dumps(record), spec.name),
    )
    cassandra_session.execute(f"DROP TABLE {keyspace}.treering_buckets")
    clock = treering.ManualClock(render_ts(NOW_MS, spec.precision))
    with treering.open(engine._address, clock=clock) as store:
        table = store.table(spec.name)
        assert not table.spec.index_trusted
        table.write("s", [NOW_MS - 50 * DAY_MS], unit="ms", value=[1.0])
        assert table.latest("s")["value"].tolist() == [1.0]
        assert len(table.read("s", "-55d")) == 1
        # A new table of the same keyspace brings the index along.
        new = store.create(fresh_name("new"), rate="1/min", retention="60d", bucket="day")
        new.write("s", [NOW_MS - 50 * DAY_MS], unit="ms", value=[1.0])
        assert new.explain("s", "-55d", listed=True).fan_out == 1


def test_marks_of_a_table_that_is_kept_for_ever_go_with_it(
    engine: CassandraEngine, keyspace: str, cassandra_session: Session
) -> None:
    spec = engine.create_table(spec_of(retention_s=None, bucket="day"))
    engine.add_series(spec, ("s", "t"))
    for name in ("s", "t"):
        engine.submit_write(spec, write_of(spec, name, [NOW_MS], value=[1.0])).result(30)
    count = f"SELECT COUNT(*) AS n FROM {keyspace}.treering_buckets"
    assert cassandra_session.execute(count).one()[0] == 2
    engine.drop_table(spec)
    assert cassandra_session.execute(count).one()[0] == 0


def test_mark_is_sent_once_for_many_writes_of_a_bucket(
    engine: CassandraEngine, keyspace: str, cassandra_session: Session
) -> None:
    spec = engine.create_table(spec_of(bucket="day"))
    times = [NOW_MS + step for step in range(20)]
    sent = [engine.submit_write(spec, write_of(spec, "s", [ts], value=[1.0])) for ts in times]
    for future in sent:
        future.result(30)
    assert len(engine._marks) == 1
    assert len(read_all(engine, spec, "s", NOW_MS, NOW_MS + 100)) == len(times)
    assert engine._marks.ensure(spec, "s", bucket_of(NOW_MS, "day")) is None
