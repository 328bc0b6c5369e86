"""A writer writes what it took or says that it did not: bounded, in order, through faults."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import textwrap
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treering
from tests import waiting
from tests.engine.contract import DAY_MS, NOW_MS, fresh_name
from tests.engine.faults import FaultyEngine
from treering.core.write_plan import PartitionWrite
from treering.engine.sqlite import SqliteEngine
from treering.errors import (
    EngineError,
    EngineTimeoutError,
    OverloadedError,
    SchemaMismatchError,
    StoreClosedError,
    TreeringError,
    UnavailableError,
    UsageError,
    WriterFullError,
)
from treering.store import Store

BOUND_S = 60.0
wait_until = partial(waiting.wait_until, bound_s=BOUND_S)
MakeTable = Callable[..., tuple[FaultyEngine, treering.Table]]


@pytest.fixture
def make_table() -> Iterator[MakeTable]:
    """Return a maker of a faulty engine and a table on it."""
    stores: list[tuple[Store, treering.ManualClock]] = []

    def make(columns: str = "value:double", **faults: Any) -> tuple[FaultyEngine, treering.Table]:
        engine = FaultyEngine(**faults)
        clock = treering.ManualClock(np.datetime64(NOW_MS, "ms"))
        store = Store(engine, clock=clock)
        stores.append((store, clock))
        return engine, store.create(fresh_name("t"), rate="1/s", retention="30d", columns=columns)

    yield make
    for store, _ in stores:
        store.close()


def values_of(table: treering.Table, series: str = "s") -> list[float | None]:
    """Return all values of a series by event time."""
    found: list[float | None] = table.read(series, "-30d", missing_ok=True)["value"].tolist()
    return found


def writes_in(engine: FaultyEngine) -> list[PartitionWrite]:
    """Return the writes that arrived, oldest first."""
    return [request for request in engine.requests if isinstance(request, PartitionWrite)]


def append_many(writer: treering.Writer, count: int, **options: Any) -> None:
    """Append readings of one series, a millisecond apart."""
    for n in range(count):
        writer.append("s", ts=NOW_MS - n, unit="ms", value=float(n), **options)


def append_stamped(writer: treering.Writer, count: int) -> None:
    """Append readings of one series that are stamped now."""
    for _ in range(count):
        writer.append("s", value=1.0)


def test_readings_of_a_linger_share_one_write(make_table: MakeTable) -> None:
    engine, table = make_table()
    with table.writer(linger="1h") as writer:
        for n in range(50):
            writer.append("s", ts=NOW_MS - n, unit="ms", value=float(n))
        assert writer.report.pending == 50
        assert not writes_in(engine)
    assert [len(write) for write in writes_in(engine)] == [50]
    assert sorted(values_of(table), key=str) == sorted(map(float, range(50)), key=str)
    assert writer.report.accepted == writer.report.appended == 50
    assert str(writer.report) == "50 readings written"


def test_linger_alone_lets_readings_go(make_table: MakeTable) -> None:
    _, table = make_table()
    with table.writer(linger="10ms") as writer:
        writer.append("s", value=1.0)
        wait_until(lambda: writer.report.accepted == 1)
        assert (writer.report.pending, writer.report.pending_bytes) == (0, 0)


def test_batch_goes_when_it_is_full_whatever_its_linger(make_table: MakeTable) -> None:
    _, table = make_table()
    with table.writer(linger="1h", max_rows=400) as writer:
        for n in range(250):
            writer.append("s", ts=NOW_MS - n, unit="ms", value=1.0)
        wait_until(lambda: writer.report.accepted == 200)
        assert writer.report.pending == 50


def test_reading_without_a_time_is_stamped_when_it_is_appended(make_table: MakeTable) -> None:
    _, table = make_table()
    with table.writer() as writer:
        for n in range(3):
            writer.append("s", value=float(n))
            writer.append("other", value=float(n))
    # The clock stands still: no two of one series share a tick, so none replaces another.
    assert table.read("s", "-1h").ts.tolist() == [NOW_MS, NOW_MS + 1, NOW_MS + 2]
    assert table.read("other", "-1h").ts.tolist() == [NOW_MS, NOW_MS + 1, NOW_MS + 2]


def test_more_stamped_readings_than_ticks_are_refused_aloud(make_table: MakeTable) -> None:
    _, table = make_table()
    with (
        table.writer() as writer,
        pytest.raises(UsageError, match="more than 1,000 readings a sec"),
    ):
        append_stamped(writer, 2_000)
    assert writer.report.accepted == 1_001


def test_later_append_wins_within_a_batch_and_over_batches(make_table: MakeTable) -> None:
    _, table = make_table()
    with table.writer(linger="1h") as writer:
        writer.append("s", ts=NOW_MS, unit="ms", value=1.0)
        writer.append("s", ts=NOW_MS, unit="ms", value=2.0)
        report = writer.flush()
        assert (report.accepted, report.repeats) == (1, 1)
        writer.append("s", ts=NOW_MS, unit="ms", value=0.5)
    assert values_of(table) == [0.5]


def test_columns_of_one_reading_may_be_appended_apart(make_table: MakeTable) -> None:
    _, table = make_table("value:double,quality:int")
    with table.writer() as writer:
        writer.append("s", ts=NOW_MS, unit="ms", value=1.0)
        writer.append("s", {"quality": 7}, ts=NOW_MS, unit="ms")
        writer.append("s", ts=NOW_MS - 1, unit="ms", quality=8)
    rows = table.read("s", "-1h")
    assert rows["value"].tolist() == [None, 1.0]
    assert rows["quality"].tolist() == [8, 7]


def test_appends_and_direct_writes_win_in_the_order_in_which_they_were_made(
    make_table: MakeTable,
) -> None:
    _, table = make_table()
    with table.writer(linger="1h") as writer:
        writer.append("s", ts=NOW_MS, unit="ms", value=1.0)
        table.write("s", [NOW_MS, NOW_MS + 1], unit="ms", value=[2.0, 2.0])
        writer.append("s", ts=NOW_MS + 1, unit="ms", value=3.0)
    assert values_of(table) == [2.0, 3.0]


def test_refused_readings_are_counted_named_and_told(make_table: MakeTable) -> None:
    _, table = make_table("value:int")
    told: list[treering.Refusal] = []
    with table.writer(on_refused=told.append, linger="1h") as writer:
        writer.append("s", ts=NOW_MS, unit="ms", value=1)
        writer.append("s", ts=NOW_MS - 40 * DAY_MS, unit="ms", value=2)
        writer.append("other", ts=NOW_MS + DAY_MS, unit="ms", value=3)
        writer.append("s", ts=NOW_MS, unit="ms", value=1.5)
        writer.append("s", ts=NOW_MS + 1, unit="ms", value=None)
        writer.append("s", ts=np.datetime64("NaT"), value=1)
        report = writer.flush()
        wait_until(lambda: len(told) == 5)
    assert [refusal.index for refusal in sorted(told, key=lambda r: r.index)] == [1, 2, 3, 4, 5]
    assert {r.index: (r.series, r.reason.name) for r in report.refused} == {
        1: ("s", "EXPIRED"),
        2: ("other", "FUTURE"),
        3: ("s", "VALUE"),
        4: ("s", "EMPTY"),
        5: ("s", "NO_TIME"),
    }
    assert (report.accepted, report.refused_count, report.pending) == (1, 5, 0)
    assert values_of(table) == [1]


def test_report_names_a_bounded_number_of_refused_readings(make_table: MakeTable) -> None:
    _, table = make_table()
    with table.writer() as writer:
        for n in range(1_500):
            writer.append("s", ts=NOW_MS - 40 * DAY_MS + n, unit="ms", value=1.0)
    assert (writer.report.refused_count, len(writer.report.refused)) == (1_500, 1_000)


def test_error_of_the_callback_is_raised_on_the_next_call(make_table: MakeTable) -> None:
    def fail(refusal: treering.Refusal) -> None:
        raise RuntimeError(f"cannot note {refusal.series}")

    _, table = make_table()
    writer = table.writer(on_refused=fail, linger="0s")
    writer.append("s", ts=NOW_MS - 40 * DAY_MS, unit="ms", value=1.0)
    with pytest.raises(TreeringError, match="cannot note s"):
        wait_until(lambda: writer.append("s", value=1.0))
    writer.close()


def test_bad_append_is_refused_at_once_and_spoils_nothing(make_table: MakeTable) -> None:
    _, table = make_table()
    with table.writer() as writer:
        writer.append("s", ts=NOW_MS, unit="ms", value=1.0)
        for series, options in [
            ("s", {}),
            ("s", {"nope": 1.0}),
            ("s", {"value": "warm"}),
            ("s", {"value": 1.0, "ts": 5}),
            ("s", {"value": 1.0, "ts": "2025-11-20T00:00"}),
            ("", {"value": 1.0}),
            ("a\nb", {"value": 1.0}),
            (7, {"value": 1.0}),
        ]:
            with pytest.raises(UsageError):
                writer.append(series, **options)  # type: ignore[arg-type]
    assert writer.report.appended == writer.report.accepted == 1


def test_threads_lose_nothing(make_table: MakeTable) -> None:
    _, table = make_table()
    with table.writer(linger="1ms", max_rows=300) as writer, ThreadPoolExecutor(4) as pool:

        def append(number: int) -> None:
            for n in range(1_000):
                writer.append(f"s{number}", ts=NOW_MS - n, unit="ms", value=float(n))

        list(pool.map(append, range(4)))
    assert writer.report.accepted == 4_000
    for number in range(4):
        assert sorted(values_of(table, f"s{number}"), key=str) == sorted(
            map(float, range(1_000)), key=str
        )


@pytest.fixture
def _frequent_switches() -> Iterator[None]:
    """Let Python switch threads in the middle of nearly every append."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before_s)


@pytest.mark.usefixtures("_frequent_switches")
@pytest.mark.parametrize("max_rows", [40, 1_000_000], ids=["often full", "never full"])
def test_flush_and_close_cover_every_append_that_returned_in_any_thread(
    make_table: MakeTable, max_rows: int
) -> None:
    _, table = make_table()
    writer = table.writer(linger="1ms", max_rows=max_rows)
    taken: list[dict[int, float]] = [{} for _ in range(4)]
    counts = [0] * 4

    def work(thread: int) -> None:
        while True:
            count = counts[thread]
            # Every third reading corrects the one before: the later value must stay.
            ts = NOW_MS - count + (count % 3 == 2)
            try:
                writer.append(f"s{thread}", ts=ts, unit="ms", value=float(count))
            except StoreClosedError:
                return
            taken[thread][ts] = float(count)
            counts[thread] = count + 1

    with ThreadPoolExecutor(4) as pool:
        running = [pool.submit(work, thread) for thread in range(4)]
        try:
            while min(counts) < 200 and not any(done.done() for done in running):
                before = sum(counts)
                report = writer.flush()
                assert report.accepted + report.repeats >= before
        finally:
            report = writer.close()
    for done in running:
        done.result()
    assert report.accepted + report.repeats == report.appended == sum(counts)
    assert report.accepted >= sum(map(len, taken))
    for thread, wanted in enumerate(taken):
        rows = table.read(f"s{thread}", "-1h")
        found = zip(rows.ts.tolist(), rows["value"].tolist(), strict=True)
        assert dict(found) == wanted


# Faults


def test_faults_that_pass_are_retried_as_the_same_write(make_table: MakeTable) -> None:
    def fault(number: int, request: Any) -> EngineError | None:
        kinds = [EngineTimeoutError, OverloadedError, UnavailableError]
        return kinds[number % 3]("not now") if number % 4 and number < 60 else None

    engine, table = make_table(fault=fault)
    with table.writer(linger="1ms") as writer:
        for n in range(200):
            writer.append("s", ts=NOW_MS - n, unit="ms", value=float(n))
    report = writer.report
    assert (report.accepted, report.pending) == (200, 0)
    assert report.retried > 0
    times: dict[int, set[int]] = {}
    for write in writes_in(engine):
        for ts in write.ts.tolist():
            times.setdefault(ts, set()).add(write.write_us)
    # However often a reading was sent, it had one write time.
    assert len(times) == 200
    assert all(len(stamps) == 1 for stamps in times.values())


def test_outage_blocks_appends_then_says_so_and_loses_nothing(make_table: MakeTable) -> None:
    is_down = threading.Event()
    is_down.set()

    def fault(number: int, request: Any) -> EngineError | None:
        is_write = isinstance(request, PartitionWrite)
        return UnavailableError("no server answers") if is_write and is_down.is_set() else None

    _, table = make_table(fault=fault)
    with table.writer(linger="1ms", max_rows=100, block_s=0.2) as writer:
        with pytest.raises(WriterFullError, match="100 readings") as caught:
            append_many(writer, 1_000)
        assert writer.report.appended == 100
        assert caught.value.retryable
        assert caught.value.report.pending == 100
        wait_until(lambda: writer.report.retried)
        with pytest.raises(EngineTimeoutError, match=r"100 readings .* no server answers"):
            writer.flush(0.2)
        is_down.clear()
        report = writer.flush()
    assert report.accepted == 100
    assert sorted(values_of(table), key=str) == sorted(map(float, range(100)), key=str)


def test_blocked_append_goes_on_when_there_is_room(make_table: MakeTable) -> None:
    gate = threading.Event()
    _, table = make_table(gate=gate)
    with table.writer(linger="1ms", max_rows=10) as writer, ThreadPoolExecutor(1) as pool:
        done = pool.submit(append_many, writer, 40)
        wait_until(lambda: writer.report.pending == 10)
        assert not done.done()
        gate.set()
        done.result(BOUND_S)
    assert writer.report.accepted == 40


def append_notes(writer: treering.Writer) -> None:
    """Append readings with text to many series until that is refused."""
    for n in itertools.count():
        writer.append(f"s{n % 500}", ts=NOW_MS - n, unit="ms", value=1.0, note=f"note {n}")


def test_memory_stays_within_its_bound_while_nothing_can_be_written(make_table: MakeTable) -> None:
    gate = threading.Event()
    _, table = make_table(columns="value:double,note:text", gate=gate)
    bound_bytes = 4_000_000
    writer = table.writer(linger="10ms", max_bytes=bound_bytes, max_rows=10**9, block_s=0.0)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        with pytest.raises(WriterFullError):
            append_notes(writer)
        held, peak = (bytes_ - before for bytes_ in tracemalloc.get_traced_memory())
    finally:
        tracemalloc.stop()
    counted = writer.report.pending_bytes
    assert 0.9 * bound_bytes < counted <= bound_bytes
    # What is being sent exists a few times over, and it is a quarter of the bound at most.
    assert held < 2 * bound_bytes
    assert peak < 2.5 * bound_bytes
    gate.set()
    writer.close()
    assert writer.report.accepted == writer.report.appended > 10_000


def test_reading_larger_than_the_bound_is_refused_at_once(make_table: MakeTable) -> None:
    _, table = make_table(columns="note:text")
    with table.writer(max_bytes=20_000) as writer:
        with pytest.raises(UsageError, match="20,000 at most"):
            writer.append("s", note="x" * 30_000)
        writer.append("s", note="x" * 10_000)


def test_error_that_does_not_pass_is_raised_until_flush_has_tried_again(
    make_table: MakeTable,
) -> None:
    is_broken = threading.Event()
    is_broken.set()

    def fault(number: int, request: Any) -> EngineError | None:
        return SchemaMismatchError("the column is gone") if is_broken.is_set() else None

    _, table = make_table(fault=fault)
    writer = table.writer(linger="1ms")
    writer.append("s", ts=NOW_MS, unit="ms", value=1.0)
    with pytest.raises(SchemaMismatchError, match=r"writer of .* stopped: .*column is gone"):
        wait_until(lambda: writer.append("s", ts=NOW_MS, unit="ms", value=1.0))
    with pytest.raises(SchemaMismatchError, match="column is gone"):
        writer.flush()
    is_broken.clear()
    writer.flush()
    writer.append("s", ts=NOW_MS - 1, unit="ms", value=2.0)
    writer.close()
    assert writer.report.pending == 0
    assert values_of(table) == [2.0, 1.0]


def test_close_says_how_many_readings_are_lost(make_table: MakeTable) -> None:
    gate = threading.Event()
    _, table = make_table(gate=gate)
    writer = table.writer()
    for n in range(7):
        writer.append("s", ts=NOW_MS - n, unit="ms", value=1.0)
    with pytest.raises(EngineTimeoutError, match=r"7 readings not written, which are lost"):
        writer.close(0.1)
    gate.set()
    assert writer.close().pending == 7
    with pytest.raises(StoreClosedError):
        writer.append("s", value=1.0)
    with pytest.raises(StoreClosedError):
        writer.flush()


def test_closing_the_store_writes_what_its_writers_hold(tmp_path: Path) -> None:
    with treering.open(tmp_path / "plant") as store:
        table = store.create("readings", rate="1/s", retention="30d")
        writer = table.writer(linger="1h")
        writer.append("s", value=1.0)
    assert writer.report.accepted == 1
    with treering.open(tmp_path / "plant") as store:
        assert len(store.table("readings").read("s", "-1h")) == 1


@pytest.mark.parametrize(
    "options",
    [
        {"linger": "-1s"},
        {"linger": "soon"},
        {"max_rows": 0},
        {"max_bytes": 10},
        {"spool_sync": "never"},
        {"nope": 1},
    ],
    ids=str,
)
def test_options_that_make_no_sense_are_refused(
    make_table: MakeTable, options: dict[str, Any]
) -> None:
    _, table = make_table()
    with pytest.raises(UsageError):
        table.writer(**options)


# Processes


def run(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a script with a store in a folder."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(folder)],
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
        env={**os.environ, "PYTHONWARNINGS": "error"},
    )


OPEN = """
    import os, sys, treering
    store = treering.open(sys.argv[1])
    table = store.create("readings", rate="1/s", retention="30d")
    writer = table.writer(linger="1h")
    writer.append("s", value=1.0)
"""


def test_process_that_ends_without_closing_has_written_all(tmp_path: Path) -> None:
    done = run(OPEN, tmp_path / "plant")
    assert (done.returncode, done.stderr) == (0, "")
    with treering.open(tmp_path / "plant") as store:
        assert len(store.table("readings").read("s", "-1h")) == 1


def test_process_that_ends_and_cannot_write_says_so(tmp_path: Path) -> None:
    script = OPEN + "    store._engine.close()\n"
    done = run(script, tmp_path / "plant")
    assert "closed with 1 reading not written, which is lost" in done.stderr


def test_forked_child_is_told_and_the_parent_writes_its_readings_once(tmp_path: Path) -> None:
    done = run(
        OPEN
        + """
    pid = os.fork()
    if not pid:
        for verb in (lambda: writer.append("s", value=2.0), writer.flush, writer.close):
            try:
                verb()
            except treering.UsageError as error:
                print("after the fork" in error.hint, flush=True)
        sys.exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    writer.close()
    print(writer.report.accepted, table.read("s", "-1h")["value"].tolist())
    """,
        tmp_path / "plant",
    )
    assert done.stderr == ""
    assert done.stdout.split() == ["True", "True", "True", "1", "[1.0]"]


def test_writer_works_on_the_embedded_engine(tmp_path: Path) -> None:
    with Store(SqliteEngine(tmp_path / "plant")) as store:
        table = store.create("readings", rate="1/s", retention="30d")
        with table.writer() as writer:
            for n in range(1_000):
                writer.append(f"s{n % 10}", ts=np.datetime64("now", "ms") - n, value=float(n))
        assert writer.report.accepted == 1_000
        assert sum(len(table.read(f"s{n}", "-1h")) for n in range(10)) == 1_000
