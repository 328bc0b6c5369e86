"""Workers that all create the same table at start-up make one table, and lose nothing."""

from __future__ import annotations

import multiprocessing
import time
import uuid
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import treering
from tests.engine.contract import NOW_MS, fresh_name, read_all, spec_of, write_of
from treering.engine.cassandra import CassandraEngine, creation_lock
from treering.testing import LocalCassandra

if TYPE_CHECKING:
    from cassandra.cluster import Session

WORKERS = 8


def _work(url: str, name: str, number: int, barrier: Any, answers: Any) -> None:
    # Every second worker wants another bucket: those may lose, but never make a table.
    bucket = "day" if number % 2 == 0 else "hour"
    try:
        engine = CassandraEngine.connect(url, replication={"datacenter1": 1})
        try:
            barrier.wait(timeout=120)
            spec = engine.create_table(spec_of(name, bucket=bucket))
            series = f"worker-{number}"
            engine.add_series(spec, (series,))
            write = write_of(spec, series, [NOW_MS + number], value=[float(number)])
            engine.submit_write(spec, write).result(60)
            answers.put((number, bucket, str(spec.width), spec.incarnation))
        finally:
            engine.close()
    except treering.SchemaMismatchError as error:
        answers.put((number, bucket, "refused", str(error)))
    except Exception as error:  # noqa: BLE001
        answers.put((number, bucket, "failed", repr(error)))


def race(url: str, name: str, work: Any = _work) -> list[tuple[Any, ...]]:
    """Do the same in eight processes at once; return what each of them got."""
    # Eight processes start at once on the cores of the nodes: what counts is who wins, not when.
    url += "&timeout=60s&connect_timeout=60s"
    context = multiprocessing.get_context("spawn")
    barrier, answers = context.Barrier(WORKERS), context.Queue()
    workers = [
        context.Process(target=work, args=(url, name, number, barrier, answers))
        for number in range(WORKERS)
    ]
    for worker in workers:
        worker.start()
    got = [answers.get(timeout=240) for _ in workers]
    for worker in workers:
        worker.join(60)
    return got


def check_race(got: list[tuple[Any, ...]], url: str, name: str) -> None:
    """Check that one design won everywhere and that its readings are all there."""
    won = [answer for answer in got if answer[2] not in ("refused", "failed")]
    lost = [answer for answer in got if answer[2] == "refused"]
    assert len(won) == len(lost) == WORKERS // 2, got
    assert {(bucket, width, incarnation) for _, bucket, width, incarnation in won} == {
        (won[0][1], won[0][1], 1)
    }
    assert all("bucket:" in words for *_, words in lost)
    engine = CassandraEngine.connect(url)
    try:
        spec = engine.load_table(name)
        assert spec is not None
        assert list(engine.series(spec)) == sorted(f"worker-{number}" for number, *_ in won)
        for number, *_ in won:
            rows = read_all(engine, spec, f"worker-{number}", NOW_MS, NOW_MS + WORKERS)
            assert rows == [(NOW_MS + number, float(number))]
    finally:
        engine.close()


def test_eight_processes_that_create_at_once_make_one_table(
    cassandra_node: LocalCassandra,
) -> None:
    url, name = cassandra_node.url(f"race_{uuid.uuid4().hex[:8]}"), fresh_name("readings")
    check_race(race(url, name), url, name)


def noon() -> treering.ManualClock:
    """Return a clock that stands just after the readings of these tests."""
    return treering.ManualClock(str(np.datetime64(NOW_MS + 60_000, "ms")) + "Z")


def _create_and_write(url: str, name: str, number: int, barrier: Any, answers: Any) -> None:
    try:
        with treering.open(url, clock=noon(), replication={"datacenter1": 1}) as store:
            barrier.wait(timeout=120)
            t = store.create(name, rate="1/s", retention="30d")
            first = NOW_MS + number * 1_000
            times = np.arange(first, first + 100)
            for series in (f"own-{number}", "shared"):
                report = t.write(series, times, unit="ms", value=np.full(100, float(number)))
                assert report.accepted == 100
            answers.put((number, str(t.bucket), t.spec.incarnation))
    except Exception as error:  # noqa: BLE001
        answers.put((number, "failed", repr(error)))


def test_eight_processes_that_create_and_write_at_once_lose_nothing(
    cassandra_node: LocalCassandra,
) -> None:
    url, name = cassandra_node.url(f"race_{uuid.uuid4().hex[:8]}"), fresh_name("readings")
    got = race(url, name, _create_and_write)
    assert sorted(got) == [(number, "day", 1) for number in range(WORKERS)]
    with treering.open(url, clock=noon()) as store:
        t = store.table(name)
        assert t.info().problems == ()
        assert len(list(t.series())) == WORKERS + 1
        start = np.datetime64(NOW_MS, "ms")
        for number in range(WORKERS):
            own = t.read(f"own-{number}", start, start + np.timedelta64(1, "h"))
            assert own["value"].tolist() == [float(number)] * 100
        shared = t.read("shared", start, start + np.timedelta64(1, "h"))
        assert shared["value"].tolist() == [float(n) for n in range(WORKERS) for _ in range(100)]


def test_creator_that_died_with_the_lock_is_replaced(
    cassandra_node: LocalCassandra, cassandra_session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(creation_lock, "TAKE_OVER_S", 0.5)
    keyspace, name = f"race_{uuid.uuid4().hex[:8]}", fresh_name("readings")
    engine = CassandraEngine.connect(cassandra_node.url(keyspace), replication={"datacenter1": 1})
    try:
        spec = engine.create_table(spec_of(name))
        cassandra_session.execute(f"DROP TABLE {keyspace}.{name}")
        cassandra_session.execute(
            f"UPDATE {keyspace}.treering_tables SET state = 'creating by somebody' "
            "WHERE name = %s IF EXISTS",
            (name,),
        )
        assert engine.load_table(name) is None
        started_s = time.monotonic()
        assert engine.create_table(spec_of(name)) == spec
        assert time.monotonic() - started_s >= 0.5
        assert engine.load_table(name) == spec
    finally:
        engine.close()


@pytest.mark.slow
def test_racing_creators_on_three_nodes_make_one_table_with_one_id_that_survives_a_restart(
    cassandra_ring: LocalCassandra,
) -> None:
    url, name = cassandra_ring.url(f"race_{uuid.uuid4().hex[:8]}"), fresh_name("readings")
    check_race(race(url, name), url, name)
    keyspace = url.partition("?")[0].rpartition("/")[2]
    folders = {
        path.name
        for node in range(3)
        for folder in cassandra_ring.data_folders(node)
        for path in (folder / keyspace).glob(f"{name}-*")
    }
    assert len(folders) == 1
    cassandra_ring.nodetool("flush", keyspace)
    cassandra_ring.restart(0)
    engine = _connect_within(url, 120)
    try:
        spec = engine.load_table(name)
        assert spec is not None
        assert len(list(engine.series(spec))) == WORKERS // 2
    finally:
        engine.close()


def _connect_within(url: str, bound_s: float) -> CassandraEngine:
    deadline = time.monotonic() + bound_s
    while True:
        try:
            return CassandraEngine.connect(url)
        except treering.UnavailableError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
