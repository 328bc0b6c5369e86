"""What happens to reads and writes while nodes stand still, die and come back."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

import pytest

import treering
from tests.engine.contract import NOW_MS, fresh_name, read_all, spec_of, write_of
from treering.core.read_plan import PartitionRead
from treering.core.table import TableSpec
from treering.engine.cassandra import CassandraEngine
from treering.engine.protocol import PageRead
from treering.testing import LocalCassandra

pytestmark = [pytest.mark.cassandra]

TIMEOUT_S = 3


@pytest.fixture(scope="module")
def node(cassandra_programs: None) -> Iterator[LocalCassandra]:
    """A node of this module's own, to be stopped and killed; what it acknowledges is on disk."""
    with LocalCassandra(commitlog_sync="batch") as ring:
        yield ring


def test_paused_node_times_out_and_killed_node_is_unavailable_and_both_are_overcome(
    node: LocalCassandra,
) -> None:
    url = node.url(f"outage_{uuid.uuid4().hex[:8]}") + f"&timeout={TIMEOUT_S}s"
    engine = CassandraEngine.connect(url, replication={"datacenter1": 1})
    try:
        spec = engine.create_table(spec_of())
        acknowledged = write_of(spec, "pump-7", [NOW_MS], value=[1.0])
        engine.submit_write(spec, acknowledged).result(30)
        _check_pause(node, engine, spec)
        _check_kill(node, engine, spec)
    finally:
        engine.close()


def _check_pause(node: LocalCassandra, engine: CassandraEngine, spec: TableSpec) -> None:
    unsure = write_of(spec, "pump-7", [NOW_MS + 1], value=[2.0])
    node.pause()
    try:
        began = time.monotonic()
        write, read = engine.submit_write(spec, unsure), engine.submit_read(spec, _page(spec))
        with pytest.raises(treering.EngineTimeoutError, match=r"write of pump-7/") as caught:
            write.result(60)
        assert "outcome is unknown" in caught.value.hint
        assert caught.value.retryable
        with pytest.raises(treering.EngineTimeoutError, match=r"read of pump-7/"):
            read.result(60)
        assert time.monotonic() - began < 30
    finally:
        node.resume()
    # The same write again is one write, whether or not the first one arrived.
    _retry(lambda: engine.submit_write(spec, unsure).result(60))
    assert _read(engine, spec) == [(NOW_MS, 1.0), (NOW_MS + 1, 2.0)]


def _check_kill(node: LocalCassandra, engine: CassandraEngine, spec: TableSpec) -> None:
    node.kill()
    with pytest.raises((treering.UnavailableError, treering.EngineTimeoutError)) as caught:
        engine.submit_write(spec, write_of(spec, "pump-7", [NOW_MS + 2], value=[3.0])).result(60)
    assert "pump-7/" in str(caught.value)
    assert caught.value.retryable
    with pytest.raises((treering.UnavailableError, treering.EngineTimeoutError)):
        engine.submit_read(spec, _page(spec)).result(60)
    node.restart()
    # The engine finds the node again by itself, and what was acknowledged is there.
    rows = _retry(lambda: _read(engine, spec))
    assert rows[:2] == [(NOW_MS, 1.0), (NOW_MS + 1, 2.0)]


def _page(spec: TableSpec) -> PageRead:
    write = write_of(spec, "pump-7", [NOW_MS], value=[0.0])
    partition = PartitionRead("pump-7", write.bucket, NOW_MS, NOW_MS + 100)
    return PageRead(partition=partition, order="asc", columns=spec.columns, rows_max=100)


def _read(engine: CassandraEngine, spec: TableSpec) -> list[tuple[object, ...]]:
    return read_all(engine, spec, "pump-7", NOW_MS, NOW_MS + 100)


T = TypeVar("T")


def _retry(work: Callable[[], T], bound_s: float = 120.0) -> T:
    """Repeat what may be repeated until it works, as the fan-out does."""
    deadline = time.monotonic() + bound_s
    while True:
        try:
            return work()
        except treering.EngineError as error:
            if not error.retryable or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def test_ring_keeps_working_at_local_quorum_with_one_node_killed(
    cassandra_ring: LocalCassandra,
) -> None:
    url = cassandra_ring.url(f"ring_{uuid.uuid4().hex[:8]}") + f"&timeout={TIMEOUT_S}s"
    engine = CassandraEngine.connect(url, replication={"datacenter1": 3})
    try:
        spec = engine.create_table(spec_of(fresh_name("ring")))
        assert engine.workload_defaults()["replication"] == (("datacenter1", 3),)
        for number in range(20):
            _write_one(engine, spec, number)
        cassandra_ring.kill(2)
        try:
            for number in range(20, 40):
                _retry(partial(_write_one, engine, spec, number))
            engine.add_series(spec, ("s-1",))
            for number in range(40):
                assert _retry(partial(_read_one, engine, spec, number)) == [(NOW_MS, float(number))]
            assert list(engine.series(spec)) == ["s-1"]
        finally:
            cassandra_ring.restart(2)
    finally:
        engine.close()


def _write_one(engine: CassandraEngine, spec: TableSpec, number: int) -> None:
    write = write_of(spec, f"s-{number}", [NOW_MS], value=[float(number)])
    engine.submit_write(spec, write).result(60)


def _read_one(engine: CassandraEngine, spec: TableSpec, number: int) -> list[tuple[object, ...]]:
    return read_all(engine, spec, f"s-{number}", NOW_MS, NOW_MS + 1)


def test_calls_on_a_paused_node_end_at_their_deadline_and_not_at_the_drivers(
    node: LocalCassandra,
) -> None:
    # Requests may take twenty seconds here; each call below says that it has two.
    url = node.url(f"deadline_{uuid.uuid4().hex[:8]}") + "&timeout=20s"
    with treering.open(url, replication={"datacenter1": 1}) as store:
        table = store.create("readings", rate="1/s", retention="30d")
        now_ms = time.time_ns() // 1_000_000
        table.write("s", [now_ms], unit="ms", value=[1.0])
        # A second table object has nothing prepared or looked up yet.
        fresh = treering.open(url)
        calls: dict[str, Callable[[], object]] = {
            "read": lambda: table.read("s", "-30d", timeout_s=2),
            "read of nothing known": lambda: cold.read("s", "-1h", timeout_s=2),
            "latest": lambda: cold.latest("s", timeout_s=2),
            "write": lambda: table.write("s", [now_ms + 1], unit="ms", value=[2.0], timeout_s=2),
            "write of a new series": lambda: cold.write(
                "new", [now_ms], unit="ms", value=[3.0], timeout_s=2
            ),
        }
        cold = fresh.table("readings")
        node.pause()
        try:
            for name, call in calls.items():
                began_s = time.monotonic()
                with pytest.raises(treering.EngineTimeoutError):
                    call()
                took_s = time.monotonic() - began_s
                assert took_s < 6, f"{name} took {took_s:.1f} s of 2 s"
        finally:
            node.resume()
        failed = store.stats().verbs["read"].calls_failed
        assert failed == {"EngineTimeoutError": 1}
        assert _retry(lambda: table.latest("s"))["value"].tolist()[-1] in (1.0, 2.0)
        fresh.close()


def test_cluster_that_is_gone_fails_every_verb_in_seconds_with_the_reason(
    node: LocalCassandra,
) -> None:
    url = node.url(f"gone_{uuid.uuid4().hex[:8]}") + f"&timeout={TIMEOUT_S}s"
    with treering.open(url, replication={"datacenter1": 1}) as store:
        table = store.create("readings", rate="1/s", retention="30d")
        now_ms = time.time_ns() // 1_000_000
        table.write("s", [now_ms], unit="ms", value=[1.0])
        node.kill()
        calls: dict[str, Callable[[], object]] = {
            "read": lambda: table.read("s", "-1h"),
            "latest": lambda: table.latest("s"),
            "write": lambda: table.write("s", [now_ms + 1], unit="ms", value=[2.0]),
            "table": lambda: store.table("readings"),
            "create": lambda: store.create("other", rate="1/s", retention="30d"),
            "open": lambda: treering.open(url),
        }
        try:
            for name, call in calls.items():
                began_s = time.monotonic()
                with pytest.raises(
                    (treering.UnavailableError, treering.EngineTimeoutError)
                ) as caught:
                    call()
                took_s = time.monotonic() - began_s
                # Four tries of three seconds, with pauses between them, are the most.
                assert took_s < 20, f"{name} took {took_s:.1f} s"
                assert "127.0.0.1" in str(caught.value), name
        finally:
            node.restart()
        assert _retry(lambda: table.latest("s"))["value"].tolist()[-1] in (1.0, 2.0)
