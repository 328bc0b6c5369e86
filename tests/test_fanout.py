"""The fan-out is bounded, ordered and honest: on an engine that is slow and fails as told."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import treering
from tests.core.design_cases import planned
from tests.engine.contract import DAY_MS, NOW_MS, fresh_name
from tests.engine.faults import FaultyEngine
from tests.pages import times_of
from treering.core.bucket import BucketWidth
from treering.core.design import Overrides
from treering.core.read_plan import ReadPlan, plan_read
from treering.core.table import TableSpec
from treering.core.units import Interval, Precision
from treering.engine.memory import MemoryEngine
from treering.engine.protocol import Page, PageRead
from treering.errors import (
    EngineError,
    EngineTimeoutError,
    OverloadedError,
    PartialReadError,
    SchemaMismatchError,
    StoreClosedError,
    UnavailableError,
)
from treering.fanout.permits import Permits
from treering.fanout.read import ROWS_ASKED_MIN, ROWS_IN_FLIGHT_MAX, ReadFanOut
from treering.fanout.steps import run_blocking, steps_of
from treering.store import Store

MakeStore = Callable[..., tuple[FaultyEngine, treering.Table]]


@pytest.fixture
def make_store() -> Iterator[MakeStore]:
    """Return a maker of a faulty engine and a table of day buckets on it."""
    stores: list[Store] = []

    def make(**faults: Any) -> tuple[FaultyEngine, treering.Table]:
        engine = FaultyEngine(**faults)
        clock = treering.ManualClock(np.datetime64(NOW_MS, "ms"))
        store = Store(engine, clock=clock)
        stores.append(store)
        return engine, store.create(fresh_name("t"), rate="1/s", retention="30d")

    yield make
    for store in stores:
        store.close()


def write_days(table: treering.Table, days: int, rows: int = 4, series: str = "s") -> None:
    """Write ``rows`` readings into each of the last ``days`` buckets."""
    starts = NOW_MS - DAY_MS * np.arange(days, 0, -1)
    times = (starts[:, None] + 1_000 * np.arange(rows)).ravel()
    table.write(series, times, unit="ms", value=np.arange(len(times), dtype=float))


def page_reads(engine: FaultyEngine) -> list[PageRead]:
    """Return the reads that arrived."""
    return [request for request in engine.requests if isinstance(request, PageRead)]


def buckets_read(engine: FaultyEngine) -> list[str]:
    """Return the texts of the buckets that were read, in order of arrival."""
    return [read.partition.bucket.text for read in page_reads(engine)]


def test_limit_never_asks_for_a_bucket_that_it_does_not_need(make_store: MakeStore) -> None:
    engine, table = make_store()
    write_days(table, 3)
    assert len(table.read("s", "-4d", "-12h", order="desc", limit=5)) == 5
    asked = buckets_read(engine)
    # The bucket of the end is the third of three that hold readings; the first is never asked.
    assert len(asked) == len(set(asked)) == 2
    assert [read.rows_max for read in page_reads(engine)] == [5, 1]


def test_look_ahead_grows_only_over_empty_buckets(make_store: MakeStore) -> None:
    engine, table = make_store()
    table.write("s", [NOW_MS - 29 * DAY_MS], unit="ms", value=[1.0])
    assert len(table.latest("s")) == 1
    assert len(set(buckets_read(engine))) == len(buckets_read(engine)) <= 31


def test_results_are_in_order_although_answers_are_not(make_store: MakeStore) -> None:
    import time

    def delay(number: int, request: Any) -> None:
        # Later requests of a burst answer first.
        time.sleep(0.002 * (7 - number % 7))

    _, table = make_store(fault=delay)
    write_days(table, 20)
    found = table.read("s", "-25d")
    assert found["value"].tolist() == list(range(80))


def test_in_flight_requests_never_exceed_the_bound(make_store: MakeStore) -> None:
    engine, table = make_store(in_flight_max=5, threads=32)
    with ThreadPoolExecutor(12) as pool:
        list(pool.map(lambda n: write_days(table, 10, series=f"s{n}"), range(24)))
        sizes = list(pool.map(lambda n: len(table.read(f"s{n}", "-29d")), range(24)))
    assert sizes == [40] * 24
    assert engine.in_flight_peak <= 5


def test_every_hundredth_write_times_out_and_nothing_is_lost_or_doubled(
    make_store: MakeStore,
) -> None:
    def fault(number: int, request: Any) -> EngineError | None:
        return EngineTimeoutError("no answer") if number % 100 == 0 else None

    engine, table = make_store(fault=fault, in_flight_max=8, threads=16)
    times = NOW_MS - np.arange(100_000) * 20
    report = table.write("s", times, unit="ms", value=np.arange(100_000, dtype=float))
    assert report.accepted == 100_000
    assert len(engine.requests) > 1_000
    assert engine.in_flight_peak <= 8
    found = table.read("s", "-1d")
    assert len(found) == 100_000
    assert len(np.unique(found.ts)) == 100_000


def test_retry_is_the_same_write(make_store: MakeStore) -> None:
    def fault(number: int, request: Any) -> EngineError | None:
        return UnavailableError("down") if number == 1 else None

    engine, table = make_store(fault=fault)
    table.write("s", [NOW_MS], unit="ms", value=[1.0])
    first, second = engine.requests
    assert first is second


def test_failed_write_says_how_much_was_acknowledged(make_store: MakeStore) -> None:
    def fault(number: int, request: Any) -> EngineError | None:
        return None if request.bucket.start_s * 1_000 < NOW_MS - 2 * DAY_MS else EngineError("no")

    _, table = make_store(fault=fault, in_flight_max=1)
    with pytest.raises(EngineError, match="acknowledged") as caught:
        write_days(table, 5)
    report = caught.value.report
    assert 0 < report.accepted < 20
    assert "again" in caught.value.hint


def test_partition_that_stays_failed_is_named_and_the_read_raises(make_store: MakeStore) -> None:
    bad: list[str] = []

    def fault(number: int, request: Any) -> EngineError | None:
        if isinstance(request, PageRead) and request.partition.bucket.text in bad:
            return EngineError("disk on fire")
        return None

    _, table = make_store(fault=fault)
    write_days(table, 5)
    names = [read.bucket.text for read in table.explain("s", "-5d").reads]
    bad.append(names[2])
    with pytest.raises(PartialReadError, match=names[2]) as caught:
        table.read("s", "-5d")
    assert [read.bucket.text for read in caught.value.missing] == [names[2]]
    assert "disk on fire" in str(caught.value.__cause__)
    rest = table.read("s", "-5d", partial=True)
    assert rest.is_partial
    assert [read.bucket.text for read in rest.missing] == [names[2]]
    assert len(rest) == 16


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_buckets_that_are_read_as_one_are_missing_one_by_one(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch, order: Any
) -> None:
    monkeypatch.setattr(MemoryEngine, "joined_max", 3)
    bad = treering.bucket_of(NOW_MS - 4 * DAY_MS, "day")
    failing: list[bool] = []

    def fault(number: int, request: Any) -> EngineError | None:
        within = bad.interval(Precision.MS)
        if not failing or not isinstance(request, PageRead):
            return None
        part = request.partition
        is_touched = part.start < within.end and within.start < part.end
        return UnavailableError("down") if is_touched else None

    engine, table = make_store(fault=fault)
    write_days(table, 7)
    whole = table.explain("s", "-8d", order=order)
    assert len(table.read("s", "-8d", order=order)) == 4 * 7
    assert len(page_reads(engine)) == -(-whole.fan_out // 3)
    failing.append(True)
    # Three days fail with the one that cannot be read, each of them named.
    with pytest.raises(PartialReadError, match=f"3 of {whole.fan_out} partitions") as caught:
        table.read("s", "-8d", order=order)
    assert set(caught.value.missing) <= set(whole.reads)
    # Whoever takes what there is loses no more than has to be.
    rest = table.read("s", "-8d", order=order, partial=True)
    assert [read.bucket.text for read in rest.missing] == [bad.text]
    assert len(rest) == 4 * 6


def test_server_that_is_gone_is_reported_as_such(make_store: MakeStore) -> None:
    down: list[bool] = []
    engine, table = make_store(
        fault=lambda number, request: UnavailableError("no server answers") if down else None
    )
    write_days(table, 5)
    down.append(True)
    with pytest.raises(UnavailableError, match="no server answers"):
        table.read("s", "-5d")
    # Each partition is tried a few times at most.
    assert len(page_reads(engine)) <= 6 * 4


def test_deadline_is_a_timeout_and_not_an_empty_result(make_store: MakeStore) -> None:
    gate = threading.Event()
    gate.set()
    _, table = make_store(gate=gate)
    write_days(table, 2)
    gate.clear()
    with pytest.raises(EngineTimeoutError, match="deadline"):
        table.read("s", "-5d", timeout_s=0.2)
    gate.set()
    # Requests that nobody waits for any more gave their permits back.
    assert len(table.read("s", "-5d")) == 8


def test_closing_cancels_a_read_and_does_not_empty_it(make_store: MakeStore) -> None:
    gate = threading.Event()
    gate.set()
    engine = FaultyEngine(gate=gate)
    store = Store(engine, clock=treering.ManualClock(np.datetime64(NOW_MS, "ms")))
    table = store.create("t", rate="1/s", retention="30d")
    write_days(table, 2)
    gate.clear()
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(table.read, "s", "-5d")
        while not page_reads(engine):
            threading.Event().wait(0.005)
        closing = threading.Thread(target=store.close)
        closing.start()
        gate.set()
        with pytest.raises(StoreClosedError):
            reading.result(timeout=30)
        closing.join(30)


def settle(permits: Permits, error: EngineError | None = None) -> None:
    """Settle one request."""
    permits.release()
    permits.learn(error)


def test_overload_halves_the_bound_once_a_burst_and_success_grows_it() -> None:
    permits = Permits(32)
    assert permits.limit == 16
    for _ in range(16):
        assert permits.try_acquire()
    assert not permits.try_acquire()
    for _ in range(16):
        settle(permits, OverloadedError("slow down"))
    assert permits.limit == 8
    for _ in range(2_000):
        assert permits.try_acquire()
        settle(permits)
    assert permits.limit == 32
    assert permits.in_flight == 0
    assert permits.in_flight_peak == 16


def test_other_failures_leave_the_bound_alone() -> None:
    permits = Permits(8)
    for _ in range(10):
        assert permits.try_acquire()
        settle(permits, EngineError("wrong type"))
    assert permits.limit == 4


class SlowServer:
    """A server that works on so many requests at once; the others wait their turn, unseen."""

    def __init__(self, capacity: int, work_s: float = 0.01) -> None:
        self.capacity = capacity
        self.work_s = work_s
        self.now_s = 0.0
        self.done = 0
        self._began_s: deque[float] = deque()

    def run(self, permits: Permits, rounds: int) -> None:
        """Send all that is allowed, again and again; each round one share of work is done."""
        for _ in range(rounds):
            while permits.try_acquire():
                self._began_s.append(self.now_s)
            self.now_s += self.work_s
            for _ in range(min(self.capacity, len(self._began_s))):
                permits.release()
                permits.learn(None, self.now_s - self._began_s.popleft(), "write")
                self.done += 1


@pytest.mark.parametrize("capacity", [8, 16, 24])
def test_bound_follows_a_server_that_slows_down_and_does_not_say_so(capacity: int) -> None:
    permits, server = Permits(128), SlowServer(capacity=128)
    server.run(permits, 200)
    assert permits.limit == 128
    server.capacity = capacity
    server.run(permits, 300)
    # About three requests wait for one that is worked on, and the server is never idle.
    assert 16 <= permits.limit <= 4 * capacity
    before = server.done
    server.run(permits, 100)
    assert server.done - before == 100 * capacity
    server.capacity = 128
    server.run(permits, 2_000)
    assert permits.limit > 100


def test_answers_within_two_milliseconds_never_narrow_the_bound() -> None:
    permits = Permits(32)
    for round_number in range(3_000):
        assert permits.try_acquire()
        permits.release()
        # Ten times the usual: a neighbour on this machine, not the server.
        permits.learn(None, 0.002 if round_number % 200 > 100 else 0.0002, "write")
    assert permits.limit == 32


def test_slow_answers_alone_leave_a_share_of_the_bound() -> None:
    permits, server = Permits(64), SlowServer(capacity=64)
    server.run(permits, 100)
    server.capacity = 1
    server.run(permits, 1_000)
    assert permits.limit == 8


def test_kinds_of_requests_are_not_compared_with_one_another() -> None:
    permits = Permits(32)
    for _ in range(2_000):
        for kind, took_s in (("read", 1.0), ("write", 0.001)):
            assert permits.try_acquire()
            permits.release()
            permits.learn(None, took_s, kind)
    assert permits.limit == 32


def test_limit_over_several_pages_asks_for_what_is_left(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemoryEngine, "page_rows_max", 50)
    engine, table = make_store()
    write_days(table, 2, rows=400)
    assert len(table.read("s", "-3d", order="desc", limit=500)) == 500
    # Today's bucket is empty, so the next two are asked side by side; the rest is in turn.
    sizes = [asked.rows_max for asked in page_reads(engine)]
    assert sizes == [50] * (1 + 2 + 7 + 1)


def test_many_series_are_looked_at_side_by_side(make_store: MakeStore) -> None:
    gate = threading.Event()
    gate.set()
    engine, table = make_store(gate=gate, in_flight_max=16, threads=16)
    names = [f"s{number}" for number in range(40)]
    for name in names:
        write_days(table, 1, series=name)
    engine.in_flight_peak = 0
    found = table.latest(names, 3)
    assert found.series == tuple(names)
    assert found.series_rows == (3,) * 40
    assert found["value"].tolist() == [3.0, 2.0, 1.0] * 40
    assert engine.in_flight_peak > 1


def test_request_that_cannot_even_be_sent_gives_its_permit_back(make_store: MakeStore) -> None:
    engine, table = make_store(in_flight_max=2)
    write_days(table, 2)

    def broken(*_: Any) -> None:
        raise TypeError("a bug in an engine")

    for _ in range(5):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(engine, "submit_read", broken)
            with pytest.raises(TypeError):
                table.read("s", "-3d")
    assert len(table.read("s", "-3d", timeout_s=30)) == 8


def test_room_wakes_as_many_waiters_as_there_is_room_for_and_the_first_first() -> None:
    permits = Permits(4)
    assert permits.try_acquire()
    assert permits.try_acquire()
    told: list[str] = []
    permits.subscribe(lambda: told.append("a"))
    take_back = permits.subscribe(lambda: told.append("b"))
    permits.subscribe(lambda: told.append("c"))
    assert told == []
    take_back()
    permits.release()
    assert told == ["a"]
    permits.release()
    assert told == ["a", "c"]
    permits.subscribe(lambda: told.append("d"))
    assert told[-1] == "d"


def test_closing_wakes_all_who_wait_for_room() -> None:
    permits = Permits(1)
    assert permits.try_acquire()
    told: list[str] = []
    permits.subscribe(lambda: told.append("a"))
    permits.subscribe(lambda: told.append("b"))
    waiter = threading.Thread(target=permits.wait_for_room, args=(600.0,))
    waiter.start()
    while waiter.is_alive():
        permits.wake()
        waiter.join(0.01)
    assert told == ["a", "b"]
    assert permits.in_flight == 1


def test_one_wake_up_serves_all_answers_that_came(make_store: MakeStore) -> None:
    gate = threading.Event()
    gate.set()
    engine, table = make_store(gate=gate, in_flight_max=16)
    write_days(table, 8)
    gate.clear()
    engine.requests.clear()
    steps = steps_of(treering.Table.read)
    assert steps is not None
    reading = steps(table, "s", "-7d")
    pause = next(reading)
    woken: list[int] = []
    pause.subscribe(lambda: woken.append(threading.get_ident()))
    while len(engine.requests) < 8:
        threading.Event().wait(0.005)
    gate.set()
    pause.block(30)
    while engine._in_flight:
        threading.Event().wait(0.005)
    assert len(woken) == 1
    assert len(run_blocking(reading)) == 28


class _DecodedLate(Future[Page]):
    """A page that is decoded where it is asked for, as Cassandra's are."""

    def __init__(self, decode: Callable[[Page], None]) -> None:
        super().__init__()
        self._decode = decode
        self.next_cursor: Any = None

    def settle(self, arrived: Future[Page]) -> None:
        error = arrived.exception()
        if error is not None:
            self.set_exception(error)
            return
        self.next_cursor = arrived.result().cursor
        self.set_result(arrived.result())

    def exception(self, timeout: float | None = None) -> BaseException | None:
        try:
            self.result(timeout)
        except EngineError as error:
            return error
        return None

    def result(self, timeout: float | None = None) -> Page:
        page = super().result(timeout)
        self._decode(page)
        return page


class LateEngine(FaultyEngine):
    """Pages arrive before they are decoded; ``decode`` is called then.

    Attributes:
        undecodable: Event times of whose pages the decoding fails.
        asked_ahead: For each page that was decoded and was not the last, whether the next one of
            its partition was asked for before.
    """

    def __init__(self, **faults: Any) -> None:
        super().__init__(**faults)
        self.undecodable: set[int] = set()
        self.asked_ahead: list[bool] = []

    def submit_read(self, spec: TableSpec, read: PageRead) -> Future[Page]:
        """Start a read whose page is decoded by whoever wants it."""
        seen: set[int] = set()

        def decode(page: Page) -> None:
            if page.cursor is not None and id(page) not in seen:
                seen.add(id(page))
                later = [r for r in page_reads(self) if r.partition == read.partition]
                self.asked_ahead.append(later[-1].cursor == page.cursor)
            if self.undecodable & set(times_of(page).tolist()):
                raise SchemaMismatchError("a value is too short")

        future = _DecodedLate(decode)
        super().submit_read(spec, read).add_done_callback(future.settle)
        return future


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[LateEngine, treering.Table]]:
    """Return an engine whose pages are decoded late, and a table with three long partitions."""
    monkeypatch.setattr(MemoryEngine, "page_rows_max", 50)
    engine = LateEngine()
    store = Store(engine, clock=treering.ManualClock(np.datetime64(NOW_MS, "ms")))
    table = store.create("t", rate="1/s", retention="30d")
    write_days(table, 3, rows=400)
    engine.requests.clear()
    yield engine, table
    store.close()


def test_next_page_is_on_its_way_while_one_is_decoded(
    late: tuple[LateEngine, treering.Table],
) -> None:
    engine, table = late
    found = table.read("s", "-4d")
    assert found["value"].tolist() == list(range(1_200))
    # Eight pages a partition, where seven are followed by another; none was asked for twice.
    assert len(engine.asked_ahead) == 21
    assert all(engine.asked_ahead)
    places = [(r.partition.name, r.cursor) for r in page_reads(engine)]
    assert len(places) == len(set(map(repr, places)))


def test_page_that_cannot_be_decoded_fails_its_partition_though_the_next_was_asked_for(
    late: tuple[LateEngine, treering.Table],
) -> None:
    engine, table = late
    whole = table.read("s", "-4d")
    # In the third page of the second partition.
    engine.undecodable.add(int(whole.ts[400 + 120]))
    rest = table.read("s", "-4d", partial=True)
    assert [part.bucket.text for part in rest.missing] == [
        treering.bucket_of(int(whole.ts[520]), "day").text
    ]
    assert rest["value"].tolist() == [*range(500), *range(800, 1_200)]
    with pytest.raises(PartialReadError, match="too short"):
        table.read("s", "-4d")
    assert sum(map(len, table.scan("s", "-4d", partial=True, batch_rows=50))) == 900
    engine.undecodable.clear()
    assert len(table.read("s", "-4d")) == 1_200


def test_page_asked_for_ahead_is_retried_where_it_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(MemoryEngine, "page_rows_max", 50)
    failed: list[Any] = []

    def fault(number: int, request: Any) -> EngineError | None:
        is_later = isinstance(request, PageRead) and request.cursor is not None
        if is_later and number % 3 == 0:
            failed.append(request)
            return UnavailableError("down")
        return None

    engine = LateEngine(fault=fault)
    with Store(engine, clock=treering.ManualClock(np.datetime64(NOW_MS, "ms"))) as store:
        table = store.create("t", rate="1/s", retention="30d")
        write_days(table, 2, rows=300)
        assert table.read("s", "-4d")["value"].tolist() == list(range(600))
    assert failed


def plan_of_series(count: int) -> ReadPlan:
    """Return the read of one bucket each of so many series."""
    spec = TableSpec(name="readings", design=planned(overrides=Overrides(bucket=BucketWidth.DAY)))
    names = [f"s{number}" for number in range(count)]
    day = NOW_MS // DAY_MS * DAY_MS
    interval = Interval(day - DAY_MS, day)
    return plan_read(spec, names, interval, now_ts=day, rows_max=10**12)


def test_small_partitions_wait_for_requests_and_not_for_the_bound_of_readings() -> None:
    permits = Permits(64)
    fan_out = ReadFanOut(plan_of_series(1_000), permits, page_rows_max=50_000)

    def asked_sizes(cursor: Any) -> list[int]:
        requests = fan_out.start(0.0)
        for request in requests:
            permits.release()
            fan_out.on_result(request, Page(((np.arange(4), {}),), cursor))
        assert sum(1 for _ in fan_out.take()) > 0
        sizes = [read.rows_max for _, read in requests]
        assert sum(sizes) <= ROWS_IN_FLIGHT_MAX
        return sizes

    assert asked_sizes(None) == [50_000] * 8
    for _ in range(20):
        sizes = asked_sizes(None)
    assert sizes == [ROWS_ASKED_MIN] * permits.limit
    # Where more is there than was asked for, whole pages are asked for again.
    asked_sizes(cursor=b"more")
    assert asked_sizes(None)[0] == 50_000
