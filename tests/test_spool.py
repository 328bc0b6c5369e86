"""A spool keeps what was acknowledged, gives it back in order, and belongs to one process."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treering
from tests import waiting
from tests.engine.contract import DAY_MS, NOW_MS, spec_of
from tests.engine.faults import FaultyEngine
from tests.kill_spool import run as run_kills
from treering.core.batch import BatchBuffer
from treering.core.write_plan import PartitionWrite
from treering.errors import (
    CorruptDataError,
    EngineError,
    EngineTimeoutError,
    SchemaMismatchError,
    StoreBusyError,
    UnavailableError,
    UsageError,
    WriterFullError,
)
from treering.spool import Spool, spool_status, spool_table
from treering.store import Store

SPEC = spec_of("readings")
BOUND_S = 60.0
wait_until = partial(waiting.wait_until, bound_s=BOUND_S)


class Plant:
    """A store whose server can be away, and the spool of a device."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.is_down = threading.Event()
        self.engine = FaultyEngine(fault=self._fault)
        self.clock = treering.ManualClock(np.datetime64(NOW_MS, "ms"))
        self.store = Store(self.engine, clock=self.clock)
        self.table = self.store.create("readings", rate="1/s", retention="30d")

    def _fault(self, number: int, request: Any) -> EngineError | None:
        is_refused = self.is_down.is_set() and isinstance(request, PartitionWrite)
        return UnavailableError("no server answers") if is_refused else None

    def writer(self, **options: Any) -> treering.Writer:
        """Return a writer on the spool; it does not wait when it closes."""
        return self.table.writer(**{"spool": self.folder, "close_s": 0.05, **options})

    def values(self, series: str = "s") -> list[float]:
        """Return all values of a series by event time."""
        found: list[float] = self.table.read(series, "-30d", missing_ok=True)["value"].tolist()
        return found


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[Plant]:
    """Return a store and the folder of a spool that does not exist yet."""
    made = Plant(tmp_path / "spool")
    yield made
    made.is_down.clear()
    made.store.close()


def append(writer: treering.Writer, values: list[float], start_ms: int = NOW_MS) -> None:
    """Append readings of one series, a millisecond apart, oldest first."""
    for n, value in enumerate(values):
        writer.append("s", ts=start_ms + n, unit="ms", value=value)


def test_append_is_on_disk_when_it_returns(plant: Plant) -> None:
    plant.is_down.set()
    with plant.writer(linger="1h") as writer:
        append(writer, [1.0, 2.0])
        status = spool_status(plant.folder)
        assert (status.rows, status.table) == (2, "readings")
        assert f"process {os.getpid()}" in status.holder
        assert writer.report.pending == 2
        plant.is_down.clear()


@pytest.mark.parametrize("thread_count", [1, 2, 8])
def test_readings_leave_while_others_go_on_appending(plant: Plant, thread_count: int) -> None:
    is_over = threading.Event()
    taken = [0] * thread_count
    writer = plant.writer(linger="20ms", close_s=BOUND_S)

    def work(thread: int) -> None:
        while not is_over.is_set():
            writer.append(f"s{thread}", ts=NOW_MS - taken[thread], unit="ms", value=1.0)
            taken[thread] += 1

    threads = [threading.Thread(target=work, args=(n,)) for n in range(thread_count)]
    for thread in threads:
        thread.start()
    try:
        # More than one batch, so that appends went on while the first one left.
        wait_until(lambda: writer.report.accepted > 1_500)
        # A writer that waits for a pause has taken several times as many before any leaves.
        assert sum(taken) < 20_000
    finally:
        is_over.set()
        for thread in threads:
            thread.join(BOUND_S)
    assert writer.close().accepted == sum(taken)


def test_outage_is_survived_in_order_by_the_next_writer(plant: Plant) -> None:
    plant.is_down.set()
    writer = plant.writer(linger="1ms")
    append(writer, [1.0, 2.0, 3.0])
    append(writer, [10.0])
    wait_until(lambda: writer.report.retried)
    with pytest.raises(EngineTimeoutError, match=r"4 readings .* no server answers"):
        writer.flush(0.1)
    report = writer.close()
    assert (report.appended, report.accepted, report.pending) == (4, 0, 4)
    assert spool_status(plant.folder).holder == ""
    plant.is_down.clear()
    with plant.writer() as again:
        assert again.report.recovered == 4
        report = again.flush()
    assert report.accepted + report.repeats == 4
    assert report.pending == 0
    assert plant.values() == [10.0, 2.0, 3.0]
    assert spool_status(plant.folder).rows == 0


def test_replay_keeps_write_times_so_that_it_undoes_nothing_newer(plant: Plant) -> None:
    plant.is_down.set()
    writer = plant.writer()
    append(writer, [1.0, 1.0])
    writer.close()
    plant.is_down.clear()
    plant.table.write("s", [NOW_MS], unit="ms", value=[2.0])
    with plant.writer() as again:
        again.flush()
    assert plant.values() == [2.0, 1.0]


def test_write_times_do_not_go_back_with_the_clock(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    with plant.writer() as writer:
        append(writer, [1.0])
        writer.flush()
    # The device comes up again, and its clock says a day less.
    past_us = time.time_ns() // 1_000 - 86_400_000_000
    monkeypatch.setattr(plant.store._write_clock, "_now_us", lambda: past_us)
    monkeypatch.setattr(plant.store._write_clock, "_last_us", 0)
    with plant.writer() as writer:
        append(writer, [0.5])
        writer.flush()
    assert plant.values() == [0.5]


def test_batch_that_was_sent_but_not_forgotten_is_sent_once_more_as_the_same_write(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Spool, batch: object) -> None:
        raise EngineError("the process died here")

    with monkeypatch.context() as patched:
        patched.setattr(Spool, "done", fail)
        writer = plant.writer()
        append(writer, [1.0, 2.0])
        append(writer, [3.0])
        with pytest.raises(EngineError, match="died here"):
            writer.flush()
        with pytest.raises(EngineError, match=r"3 readings .* stay in the spool"):
            writer.close()
    with plant.writer() as again:
        assert again.flush().recovered == 3
    writes = [request for request in plant.engine.requests if isinstance(request, PartitionWrite)]
    assert len(writes) >= 2
    assert len({(w.write_us, tuple(w.ts), tuple(w.columns["value"].values)) for w in writes}) == 1
    assert plant.values() == [3.0, 2.0]


def test_threads_share_writes_to_disk_and_lose_nothing(plant: Plant) -> None:
    plant.is_down.set()
    with plant.writer(linger="1h") as writer, ThreadPoolExecutor(4) as pool:

        def work(number: int) -> None:
            for n in range(50):
                writer.append(f"s{number}", ts=NOW_MS - n, unit="ms", value=float(n))

        list(pool.map(work, range(4)))
        assert spool_status(plant.folder).rows == 200
        plant.is_down.clear()
        assert writer.flush().accepted == 200
    assert all(len(plant.values(f"s{n}")) == 50 for n in range(4))


def test_linger_mode_is_on_disk_within_a_linger(plant: Plant) -> None:
    plant.is_down.set()
    with plant.writer(linger="10ms", spool_sync="linger") as writer:
        append(writer, [1.0] * 100)
        wait_until(lambda: spool_status(plant.folder).rows == 100)
        plant.is_down.clear()
        writer.flush()
    assert plant.values() == [1.0] * 100


def test_full_spool_says_so_and_stays_within_its_bound(plant: Plant) -> None:
    plant.is_down.set()
    bound_bytes = 50_000
    writer = plant.writer(spool_bytes=bound_bytes, block_s=0.0)
    with pytest.raises(WriterFullError, match="wait in the spool"):
        append(writer, [1.0] * 1_000)
    taken = writer.report.appended
    status = spool_status(plant.folder)
    assert 0.8 * bound_bytes < status.bytes <= bound_bytes
    # SQLite's log beside the file is cut back whenever it has 4,000 pages.
    assert status.disk_bytes < 3 * bound_bytes + 17_000_000
    assert (status.rows, taken > 100) == (taken, True)
    plant.is_down.clear()
    assert writer.flush().accepted == taken
    append(writer, [1.0], NOW_MS - 1)
    writer.close(BOUND_S)
    assert len(plant.values()) == taken + 1
    assert spool_status(plant.folder).disk_bytes < 3 * bound_bytes


def test_expired_while_waiting_is_refused_and_reported(plant: Plant) -> None:
    plant.is_down.set()
    writer = plant.writer()
    append(writer, [1.0], NOW_MS - 29 * DAY_MS)
    append(writer, [2.0])
    writer.close()
    plant.clock.advance("2d")
    plant.is_down.clear()
    with plant.writer() as again:
        report = again.flush()
    assert (report.accepted, report.refused_count) == (1, 1)
    assert report.refused[0].reason.name == "EXPIRED"


def test_error_of_the_disk_means_not_taken(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Spool, batch: object) -> None:
        raise EngineError("the disk is full")

    with plant.writer() as writer:
        append(writer, [1.0])
        with monkeypatch.context() as patched:
            patched.setattr(Spool, "put", fail)
            with pytest.raises(EngineError, match=r"was not taken: the disk is full"):
                writer.append("s", value=2.0)
        append(writer, [3.0], NOW_MS + 1)
        report = writer.flush()
    assert (report.appended, report.accepted) == (2, 2)
    assert plant.values() == [1.0, 3.0]


def test_second_writer_on_a_spool_is_refused_and_told_who_has_it(plant: Plant) -> None:
    with plant.writer(), pytest.raises(StoreBusyError, match=rf"process {os.getpid()}.* has the"):
        plant.writer()
    plant.writer().close()


HOLD = """
    import sys, treering
    store = treering.open(sys.argv[1])
    table = store.create("readings", rate="1/s", retention="30d")
    writer = table.writer(spool=sys.argv[2])
    print("held", flush=True)
    sys.stdin.read()
"""


def test_another_process_is_refused_until_the_first_has_died(tmp_path: Path) -> None:
    place, folder = tmp_path / "plant", tmp_path / "spool"
    holder = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HOLD), str(place), str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with treering.open(place) as store:
            table = store.table("readings")
            with pytest.raises(StoreBusyError, match=f"process {holder.pid} ") as caught:
                table.writer(spool=folder)
            assert caught.value.retryable
            assert spool_status(folder).holder.startswith(f"process {holder.pid} ")
            holder.send_signal(signal.SIGKILL)
            holder.wait(BOUND_S)
            assert spool_status(folder).holder == ""
            table.writer(spool=folder).close()
    finally:
        holder.kill()
        holder.communicate()


def test_spool_belongs_to_one_table(plant: Plant) -> None:
    plant.writer().close()
    other = plant.store.create("other", rate="1/s", retention="30d")
    with pytest.raises(SchemaMismatchError, match="for the table readings, not for other"):
        other.writer(spool=plant.folder)
    assert spool_table(plant.folder).name == "readings"


def test_spool_outlives_a_change_of_retention_but_not_of_columns(tmp_path: Path) -> None:
    Spool.open(tmp_path, SPEC, bytes_max=10**9).close()
    Spool.open(tmp_path, spec_of("readings", retention_s=None), bytes_max=10**9).close()
    other = spec_of("readings", columns="value:int")
    with pytest.raises(SchemaMismatchError, match=r"value:double and .*, and .* has .*value:int"):
        Spool.open(tmp_path, other, bytes_max=10**9)


def test_what_is_no_spool_is_left_alone(plant: Plant, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no spool"):
        spool_status(plant.folder)
    plant.folder.mkdir()
    (plant.folder / "letter.txt").write_text("dear")
    with pytest.raises(UsageError, match=r"is not a spool: it holds letter\.txt"):
        plant.writer()
    assert [path.name for path in plant.folder.iterdir()] == ["letter.txt"]
    with pytest.raises(UsageError, match="is not a folder"):
        plant.writer(spool=plant.folder / "letter.txt")


def test_damage_is_found_and_named(plant: Plant) -> None:
    plant.is_down.set()
    writer = plant.writer()
    append(writer, [1.0])
    writer.close()
    with sqlite3.connect(plant.folder / "spool.db") as connection:
        connection.execute("UPDATE part SET payload = ?", (b"TRB1" + bytes(100),))
    connection.close()
    plant.is_down.clear()
    again = plant.writer()
    with pytest.raises(CorruptDataError, match=r"spool\.db .* part 1 damaged \(its checksum"):
        again.flush()
    with pytest.raises(CorruptDataError):
        again.close()


def test_parts_of_one_batch_come_out_together_and_in_order(tmp_path: Path) -> None:
    spool = Spool.open(tmp_path / "spool", SPEC, bytes_max=10**9)
    for write_us, value in ((7, 1.0), (7, 2.0), (8, 3.0)):
        buffer = BatchBuffer(SPEC, write_us=write_us, first_index=0)
        buffer.add("s", NOW_MS, 0, [("value", value, 9)], 30)
        spool.put(buffer.sealed())
    first = spool.first()
    assert first.columns["value"].values.tolist() == [1.0, 2.0]
    spool.close()
    again = Spool.open(tmp_path / "spool", SPEC, bytes_max=10**9)
    assert (again.rows, again.batches, again.last_us) == (3, 2, 8)
    again.done(again.first())
    assert again.first().columns["value"].values.tolist() == [3.0]
    again.done(again.first())
    assert again.bytes == 0
    again.close()
    empty = Spool.open(tmp_path / "spool", SPEC, bytes_max=10**9)
    assert (empty.rows, empty.batches, empty.last_us) == (0, 0, 8)
    empty.close()


def test_nothing_acknowledged_is_lost_when_processes_are_killed(tmp_path: Path) -> None:
    outcome = run_kills(tmp_path, kills=6, seed=1)
    assert outcome.faults == []
    assert outcome.kills == 6
    assert outcome.acknowledged > 0
