"""What only Cassandra can get wrong: lifetimes, tombstones, its schema, its clock, its errors."""

from __future__ import annotations

import logging
import multiprocessing
import re
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import treering
from tests.engine.contract import DAY_MS, NOW_MS, read_all, spec_of, write_of
from tests.pages import times_of
from treering.core.bucket import bucket_of
from treering.core.columns import column_from_list
from treering.core.ddl import parse_comment
from treering.core.read_plan import PartitionRead
from treering.core.table import TableSpec
from treering.core.units import DAY_S
from treering.core.write_input import WriteInput
from treering.core.write_plan import plan_write
from treering.engine.cassandra import CassandraEngine
from treering.engine.protocol import PageRead
from treering.testing import LocalCassandra

if TYPE_CHECKING:
    from cassandra.cluster import Session

Connect = Callable[..., CassandraEngine]


@pytest.fixture
def keyspace(cassandra_keyspace: str) -> str:
    """The name of the test's own keyspace."""
    return cassandra_keyspace.partition("?")[0].rpartition("/")[2]


@pytest.fixture
def connect(cassandra_keyspace: str) -> Iterator[Connect]:
    """Return what opens an engine on the test's keyspace; it is closed afterwards."""
    opened: list[CassandraEngine] = []

    def open_engine(url: str = cassandra_keyspace, **options: Any) -> CassandraEngine:
        opened.append(CassandraEngine.connect(url, **options))
        return opened[-1]

    yield open_engine
    for engine in opened:
        engine.close()


@pytest.fixture
def engine(connect: Connect) -> CassandraEngine:
    """Return an engine on the test's keyspace."""
    return connect()


# Lifetimes and missing values


def test_each_reading_carries_its_write_time_and_the_lifetime_of_its_age(
    engine: CassandraEngine, cassandra_session: Session, keyspace: str
) -> None:
    spec = engine.create_table(spec_of())
    now_ms, write_us = time.time_ns() // 1_000_000, time.time_ns() // 1_000 - 5
    ages_ms = {"on time": 0, "late": 5 * DAY_MS + 1, "ahead": -500_000}
    ts = np.array([now_ms - age for age in ages_ms.values()], dtype=np.int64)
    none = np.zeros(len(ts), dtype=np.bool_)
    readings = WriteInput(
        series="s",
        ts=ts,
        timed=~none,
        finer=none,
        columns={"value": column_from_list([1.0, 2.0, 3.0], spec.column("value").type)},
        unfit=none,
    )
    plan = plan_write(spec, readings, now_ts=now_ms, write_us=write_us)
    for write in plan.writes:
        engine.submit_write(spec, write).result(30)
    rows = cassandra_session.execute(
        f"SELECT value, TTL(value) AS ttl, WRITETIME(value) AS w FROM {keyspace}.{spec.name}"
    )
    found = {row.value: row for row in rows}
    assert {row.w for row in found.values()} == {write_us}
    # The table's default, what remains rounded up to a window, and the most it can be ahead.
    wanted = {1.0: 30 * DAY_S, 2.0: 25 * DAY_S, 3.0: 30 * DAY_S + spec.future_limit_s}
    for value, ttl_s in wanted.items():
        assert ttl_s - 60 <= found[value].ttl <= ttl_s


def test_readings_of_a_table_without_end_carry_no_lifetime(
    engine: CassandraEngine, cassandra_session: Session, keyspace: str
) -> None:
    spec = engine.create_table(spec_of(retention_s=None))
    engine.submit_write(spec, write_of(spec, "s", [NOW_MS], value=[1.0])).result(30)
    (row,) = cassandra_session.execute(f"SELECT TTL(value) FROM {keyspace}.{spec.name}")
    assert row[0] is None


def test_missing_values_leave_no_tombstone(
    engine: CassandraEngine, cassandra_session: Session, keyspace: str
) -> None:
    spec = engine.create_table(spec_of(columns="temp:double,hum:double", retention_s=None))
    times = [NOW_MS + step for step in range(10)]
    write = write_of(spec, "s", times, temp=[1.0] * 10, hum=[None] * 9 + [2.0])
    engine.submit_write(spec, write).result(30)
    engine.submit_write(spec, write_of(spec, "s", [NOW_MS + 10], temp=[1.0])).result(30)
    select = f"SELECT * FROM {keyspace}.{spec.name} WHERE series = 's' AND bucket = %s"
    assert _rows_and_tombstones(cassandra_session, select, write.bucket.text) == (11, 0)
    # The measure sees a tombstone where there is one.
    cassandra_session.execute(
        f"INSERT INTO {keyspace}.{spec.name} (series, bucket, ts, temp, hum) "
        f"VALUES ('s', %s, {NOW_MS + 11}, 1.0, null)",
        (write.bucket.text,),
    )
    assert _rows_and_tombstones(cassandra_session, select, write.bucket.text) == (12, 1)


def _rows_and_tombstones(session: Session, select: str, bucket: str) -> tuple[int, int]:
    result = session.execute(select, (bucket,), trace=True)
    events = result.get_query_trace(max_wait_sec=30).events
    found = [
        re.fullmatch(r"Read (\d+) live rows and (\d+) tombstone cells", event.description)
        for event in events
    ]
    ((live, dead),) = [match.groups() for match in found if match is not None]
    return int(live), int(dead)


# Times and paging


def test_event_times_that_no_datetime_holds_come_back_as_they_are(
    engine: CassandraEngine, cassandra_session: Session, keyspace: str
) -> None:
    spec = engine.create_table(spec_of(retention_s=None))
    times = [-(2**63), 0, 253_402_300_800_000, 2**63 - 1]
    bucket = bucket_of(0, spec.width)
    for ts in times:
        cassandra_session.execute(
            f"INSERT INTO {keyspace}.{spec.name} (series, bucket, ts, value) "
            f"VALUES ('s', '{bucket.text}', {ts}, 1.0)"
        )
    partition = PartitionRead("s", bucket, -(2**63), 2**63 - 1)
    read = PageRead(partition=partition, order="asc", columns=spec.columns, rows_max=100)
    page = engine.submit_read(spec, read).result(30)
    # The end is exclusive, so the last one needs a read of its own by CQL's own arithmetic.
    assert times_of(page).tolist() == times[:-1]
    count = cassandra_session.execute(f"SELECT COUNT(*) FROM {keyspace}.{spec.name}").one()[0]
    assert count == 4


def test_statements_sent_read_and_write_one_partition_and_never_use_in(
    engine: CassandraEngine, cassandra_session: Session, keyspace: str
) -> None:
    spec = engine.create_table(spec_of())
    engine.submit_write(spec, write_of(spec, "s", [NOW_MS], value=[1.0])).result(30)
    assert read_all(engine, spec, "s", NOW_MS, NOW_MS + 1, order="desc") == [(NOW_MS, 1.0)]
    rows = cassandra_session.execute("SELECT query_string FROM system.prepared_statements")
    ours = [r.query_string for r in rows if f"{keyspace}.{spec.name}" in r.query_string]
    assert len(ours) == 2
    assert all("series = ? AND bucket = ?" in q for q in ours if q.startswith("SELECT"))
    assert not any(re.search(r"\bIN\b", q) for q in ours)


def test_text_too_large_for_one_batch_is_sent_in_several_and_all_arrive(
    engine: CassandraEngine,
) -> None:
    spec = engine.create_table(spec_of(columns="note:text"))
    times = [NOW_MS + step for step in range(12)]
    # Two rows a batch: far above the sizes at which Cassandra warns of and refuses batches of
    # several partitions, which do not bound a batch of one.
    notes = [chr(97 + step) * 100_000 for step in range(12)]
    engine.submit_write(spec, write_of(spec, "s", times, note=notes)).result(30)
    found = read_all(engine, spec, "s", NOW_MS, NOW_MS + 12, rows_max=5)
    assert [note for _, note in found] == notes


# Tables and their catalog


def test_table_from_elsewhere_is_refused_and_left_alone(
    engine: CassandraEngine, cassandra_session: Session, keyspace: str
) -> None:
    cassandra_session.execute(f"CREATE TABLE {keyspace}.readings (k int PRIMARY KEY)")
    assert engine.load_table("readings") is None
    with pytest.raises(treering.SchemaMismatchError, match="from elsewhere"):
        engine.create_table(spec_of("readings"))
    assert engine.table_names() == ()
    cassandra_session.execute(f"INSERT INTO {keyspace}.readings (k) VALUES (1)")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("ADD extra int", "another column, extra"),
        ("RENAME ts TO at", "the column ts is missing"),
        ("DROP value", "the column value is missing"),
    ],
)
def test_altered_table_is_refused_with_the_difference(
    engine: CassandraEngine,
    connect: Connect,
    cassandra_session: Session,
    keyspace: str,
    change: str,
    said: str,
) -> None:
    spec = engine.create_table(spec_of())
    cassandra_session.execute(f"ALTER TABLE {keyspace}.{spec.name} {change}")
    other = connect()
    with pytest.raises(treering.SchemaMismatchError, match=said):
        other.load_table(spec.name)
    (problem,) = other.info(spec).problems
    assert said in problem


def test_altered_lifetime_is_logged_and_listed_but_opens(
    engine: CassandraEngine,
    cassandra_session: Session,
    keyspace: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    spec = engine.create_table(spec_of())
    assert engine.info(spec).problems == ()
    cassandra_session.execute(f"ALTER TABLE {keyspace}.{spec.name} WITH default_time_to_live = 60")
    with caplog.at_level(logging.WARNING, "treering"):
        assert engine.load_table(spec.name) == spec
    assert "default_time_to_live is 60 on the server, not 2592000" in caplog.text
    (problem,) = engine.info(spec).problems
    assert "default_time_to_live" in problem


def test_table_that_vanished_under_the_catalog_is_named(
    engine: CassandraEngine, cassandra_session: Session, keyspace: str
) -> None:
    spec = engine.create_table(spec_of())
    cassandra_session.execute(f"DROP TABLE {keyspace}.{spec.name}")
    with pytest.raises(treering.SchemaMismatchError, match=spec.name):
        engine.load_table(spec.name)
    failed = engine.submit_write(spec, write_of(spec, "s", [NOW_MS], value=[1.0]))
    with pytest.raises(treering.SchemaMismatchError, match="was dropped"):
        failed.result(30)
    engine.drop_table(spec)
    assert engine.create_table(spec).incarnation == spec.incarnation + 1


def test_half_made_table_is_not_opened_and_the_next_create_completes_it(
    engine: CassandraEngine, connect: Connect, cassandra_session: Session, keyspace: str
) -> None:
    spec = engine.create_table(spec_of())
    cassandra_session.execute(f"DROP TABLE {keyspace}.{spec.name}")
    cassandra_session.execute(
        f"UPDATE {keyspace}.treering_tables SET state = 'creating' WHERE name = %s IF EXISTS",
        (spec.name,),
    )
    other = connect()
    assert other.load_table(spec.name) is None
    assert other.table_names() == ()
    with pytest.raises(treering.SchemaMismatchError, match="bucket"):
        other.create_table(spec_of(spec.name, bucket="hour"))
    assert other.create_table(spec) == spec
    assert other.load_table(spec.name) == spec


def test_half_dropped_table_is_dropped_by_the_next_create(
    engine: CassandraEngine, connect: Connect, cassandra_session: Session, keyspace: str
) -> None:
    spec = engine.create_table(spec_of())
    engine.add_series(spec, ("s",))
    engine.submit_write(spec, write_of(spec, "s", [NOW_MS], value=[1.0])).result(30)
    cassandra_session.execute(
        f"UPDATE {keyspace}.treering_tables SET state = 'dropping' WHERE name = %s IF EXISTS",
        (spec.name,),
    )
    other = connect()
    assert other.load_table(spec.name) is None
    again = other.create_table(spec)
    assert again.incarnation == spec.incarnation + 1
    assert list(other.series(again)) == []
    assert read_all(other, again, "s", NOW_MS, NOW_MS + 1) == []
    with pytest.raises(treering.SchemaMismatchError, match="was dropped"):
        other.submit_write(spec, write_of(spec, "s", [NOW_MS], value=[1.0])).result(30)
    with pytest.raises(treering.SchemaMismatchError, match="was dropped"):
        engine.drop_table(spec)
    assert other.load_table(spec.name) == again


def test_catalog_of_a_newer_release_is_refused(
    engine: CassandraEngine, cassandra_session: Session, keyspace: str
) -> None:
    spec = engine.create_table(spec_of())
    cassandra_session.execute(
        f"UPDATE {keyspace}.treering_tables SET format = 99 WHERE name = %s IF EXISTS",
        (spec.name,),
    )
    refusals: list[Callable[[], object]] = [
        lambda: engine.load_table(spec.name),
        lambda: engine.create_table(spec),
        lambda: engine.drop_table(spec),
    ]
    for refused in refusals:
        with pytest.raises(treering.SchemaMismatchError, match="format 99"):
            refused()


def test_table_keeps_the_comment_that_its_design_is_read_from(
    engine: CassandraEngine, cassandra_session: Session, keyspace: str
) -> None:
    spec = engine.create_table(spec_of())
    row = cassandra_session.execute(
        "SELECT comment, read_repair, id FROM system_schema.tables "
        "WHERE keyspace_name = %s AND table_name = %s",
        (keyspace, spec.name),
    ).one()
    assert parse_comment(row.comment) == spec.design
    assert row.read_repair == "NONE"
    assert f"ID = {row.id}" in engine.plan_create(spec)[-1]


def test_expiry_is_told_and_left_to_cassandra(engine: CassandraEngine) -> None:
    spec = engine.create_table(spec_of())
    now_s = int(time.time())
    report = engine.expire(spec, now_s=now_s)
    assert (report.removals, report.is_removed) == ((), False)
    # The window that is open now ends in a day at most; then 30 days of TTL and a day of grace.
    later = engine.expire(spec, now_s=now_s + 33 * DAY_S)
    (removal,) = later.removals
    assert not later.is_removed
    assert removal.start_s <= now_s < removal.end_s <= now_s + 2 * DAY_S
    forever = engine.create_table(spec_of(retention_s=None))
    assert engine.expire(forever, now_s=now_s + 33 * DAY_S).removals == ()


def test_disk_usage_is_that_of_every_node(
    engine: CassandraEngine, cassandra_node: LocalCassandra, keyspace: str
) -> None:
    spec = engine.create_table(spec_of(columns="note:text"))
    rng = np.random.default_rng(1)
    for step in range(4):
        notes = [rng.bytes(20_000).hex() for _ in range(40)]
        times = [NOW_MS + step * 40 + index for index in range(40)]
        engine.submit_write(spec, write_of(spec, "s", times, note=notes)).result(30)
    cassandra_node.nodetool("flush", keyspace, spec.name)
    info = engine.info(spec)
    assert info.disk_bytes is not None
    assert 1_000_000 < info.disk_bytes < 20_000_000
    assert [part["disk_bytes"] for part in info.parts] == [info.disk_bytes]


def test_design_learns_version_storage_mode_and_replicas(
    engine: CassandraEngine, cassandra_node: LocalCassandra
) -> None:
    assert engine.workload_defaults() == {
        "cassandra": cassandra_node.version,
        "storage_mode": "CASSANDRA_4",
        "replication": (("datacenter1", 1),),
    }


# Connecting


def test_missing_keyspace_says_how_to_create_it_and_replication_creates_it(
    connect: Connect, cassandra_node: LocalCassandra, cassandra_session: Session
) -> None:
    name = f"made_{uuid.uuid4().hex[:8]}"
    engine = connect(cassandra_node.url(name))
    for refused in (
        lambda: engine.create_table(spec_of("t")),
        lambda: engine.plan_create(spec_of("t")),
        lambda: engine.load_table("t"),
        engine.table_names,
    ):
        with pytest.raises(treering.UsageError, match=f"no keyspace {name}") as caught:
            refused()
        assert f"CREATE KEYSPACE IF NOT EXISTS {name}" in caught.value.hint
        assert "'datacenter1': '1'" in caught.value.hint
    allowed = connect(cassandra_node.url(name), replication={"datacenter1": 1})
    spec = spec_of("t")
    assert allowed.plan_create(spec)[0].startswith(f"CREATE KEYSPACE IF NOT EXISTS {name}")
    with pytest.raises(treering.UsageError, match="no keyspace"):
        engine.load_table("t")
    made = allowed.create_table(spec)
    assert engine.load_table("t") == made
    cassandra_session.execute(f"DROP KEYSPACE {name}")


def test_no_server_is_unavailable_within_seconds_and_names_hosts_and_reason() -> None:
    began = time.monotonic()
    with pytest.raises(treering.UnavailableError, match=r"127\.0\.0\.1:1.*refused"):
        CassandraEngine.connect("cassandra://127.0.0.1:1/plant?timeout=2s")
    assert time.monotonic() - began < 20


def test_host_that_does_not_resolve_is_named() -> None:
    with pytest.raises(treering.UnavailableError, match=r"nowhere\.invalid"):
        CassandraEngine.connect("cassandra://nowhere.invalid/plant?timeout=2s")


def test_wrong_datacentre_names_those_that_there_are(cassandra_node: LocalCassandra) -> None:
    url = cassandra_node.url("plant").replace("local_dc=datacenter1", "local_dc=dc9")
    with pytest.raises(treering.UsageError, match="no datacentre 'dc9'") as caught:
        CassandraEngine.connect(url)
    assert "datacenter1" in caught.value.hint


def test_datacentre_is_that_of_the_contact_point_where_none_is_named(
    connect: Connect, cassandra_node: LocalCassandra
) -> None:
    engine = connect(f"cassandra://127.0.0.1:{cassandra_node.port}/nowhere")
    with pytest.raises(treering.UsageError) as caught:
        engine.table_names()
    assert "'datacenter1': '1'" in caught.value.hint


def test_server_that_speaks_an_older_protocol_is_spoken_to_in_version_4(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Version 66 is DataStax's: Cassandra refuses it as 3.11 refuses version 5.
    monkeypatch.setattr("treering.engine.cassandra.connect._PROTOCOLS", (66, 4))
    engine = connect()
    assert engine._link.session.cluster.protocol_version == 4
    spec = engine.create_table(spec_of(columns="temp:double,note:text"))
    write = write_of(spec, "s", [NOW_MS, NOW_MS + 1], temp=[1.0, None], note=["a", "b"])
    engine.submit_write(spec, write).result(30)
    assert read_all(engine, spec, "s", NOW_MS, NOW_MS + 2, rows_max=1) == [
        (NOW_MS, 1.0, "a"),
        (NOW_MS + 1, None, "b"),
    ]
    assert engine.load_table(spec.name) == spec


def test_password_is_sent_and_shown_nowhere(
    connect: Connect, cassandra_keyspace: str, caplog: pytest.LogCaptureFixture
) -> None:
    # The node takes anyone, so what is seen is that a password does not get in the way or out.
    secrets = {"TREERING_USERNAME": "ada", "TREERING_PASSWORD": "hunter2"}
    with caplog.at_level(logging.DEBUG, "treering"):
        engine = connect(environ=secrets)
        shown = repr(engine) + str(vars(engine)) + str(vars(engine._link))
        with pytest.raises(treering.UnavailableError) as caught:
            CassandraEngine.connect("cassandra://127.0.0.1:1/p?timeout=1s", environ=secrets)
    shown += caplog.text + repr(caught.value) + str(caught.value) + caught.value.hint
    assert "hunter2" not in shown
    assert "cassandra://" in repr(engine)


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"TREERING_USERNAME": "ada"}, "no password for the user 'ada'"),
        ({"TREERING_PASSWORD": "hunter2"}, "nobody is named"),
    ],
)
def test_half_of_the_credentials_is_refused(environ: dict[str, str], said: str) -> None:
    with pytest.raises(treering.UsageError, match=said) as caught:
        CassandraEngine.connect("cassandra://127.0.0.1:1/plant", environ=environ)
    assert "hunter2" not in str(caught.value) + caught.value.hint


def test_session_of_the_caller_is_used_and_stays_open_and_unchanged(
    cassandra_session: Session, keyspace: str
) -> None:
    handler = cassandra_session.client_protocol_handler
    engine = CassandraEngine.from_session(cassandra_session, keyspace)
    spec = engine.create_table(spec_of())
    engine.submit_write(spec, write_of(spec, "s", [NOW_MS], value=[1.0])).result(30)
    assert read_all(engine, spec, "s", NOW_MS, NOW_MS + 1) == [(NOW_MS, 1.0)]
    engine.close()
    assert cassandra_session.client_protocol_handler is handler
    row = cassandra_session.execute(f"SELECT value FROM {keyspace}.{spec.name}").one()
    assert row.value == 1.0


# Closing


def test_reads_in_flight_are_cancelled_by_closing_and_not_empty(connect: Connect) -> None:
    engine = connect()
    spec = engine.create_table(spec_of())
    times = [NOW_MS + step for step in range(4_000)]
    write = write_of(spec, "s", times, value=[1.0] * 4_000)
    for part in write.split(engine.write_rows_max):
        engine.submit_write(spec, part).result(30)
    partition = PartitionRead("s", write.bucket, NOW_MS, NOW_MS + 4_000)
    read = PageRead(partition=partition, order="asc", columns=spec.columns, rows_max=4_000)
    futures = [engine.submit_read(spec, read) for _ in range(64)]
    engine.close()
    outcomes = set()
    for future in futures:
        try:
            outcomes.add(len(future.result(timeout=30)))
        except treering.StoreClosedError:
            outcomes.add(-1)
    assert outcomes <= {-1, 4_000}
    assert -1 in outcomes
    engine.close()
    with pytest.raises(treering.StoreClosedError):
        engine.submit_read(spec, read).result(30)
    with pytest.raises(treering.StoreClosedError):
        engine.load_table(spec.name)


def test_pages_of_an_abandoned_cursor_can_be_read_again(engine: CassandraEngine) -> None:
    spec = engine.create_table(spec_of())
    times = [NOW_MS + step for step in range(10)]
    write = write_of(spec, "s", times, value=[float(step) for step in range(10)])
    engine.submit_write(spec, write).result(30)
    partition = PartitionRead("s", write.bucket, NOW_MS, NOW_MS + 10)
    first = PageRead(partition=partition, order="asc", columns=spec.columns, rows_max=4)
    cursor = engine.submit_read(spec, first).result(30).cursor
    for _ in range(2):
        page = engine.submit_read(spec, replace(first, cursor=cursor)).result(30)
        assert times_of(page).tolist() == times[4:8]


def _use_after_fork(engine: CassandraEngine, spec: TableSpec, answer: Any) -> None:
    try:
        engine.load_table(spec.name)
    except treering.EngineError as error:
        answer.put(str(error))
    else:
        answer.put("no error")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_engine_of_before_a_fork_says_so_in_the_child(engine: CassandraEngine) -> None:
    spec = engine.create_table(spec_of())
    context = multiprocessing.get_context("fork")
    answer = context.Queue()
    child = context.Process(target=_use_after_fork, args=(engine, spec, answer))
    child.start()
    assert "forked" in answer.get(timeout=30)
    child.join(30)
    assert engine.load_table(spec.name) == spec
