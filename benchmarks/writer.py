"""How many appends a second does a writer take, beside whole arrays, and from how many threads?

    python -m benchmarks writer

All on the embedded engine, with one reading an append and a time that is given. Measured is until
everything is durable in the table; with a spool, each append is on disk before the next one of its
thread begins. Four threads are compared with one, and with a ``queue.Queue`` that four threads fill
and one consumer empties into Table.write, as many readings at a time as our batch has.
"""

from __future__ import annotations

import queue
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import treering
from benchmarks.measure import Result, best_s
from treering.writer_options import BATCH_ROWS_MAX, WriterOptions

THREADS = 4

Put = Callable[[str, int, float], object]
"""Takes a reading: its series, its time in milliseconds, its value."""


def run(*, rows: int = 200_000, spooled_rows: int = 2_000, rounds: int = 3) -> list[Result]:
    """Write with a writer, with arrays and through a queue, and compare."""
    return beside_arrays(rows, spooled_rows) + from_threads(rows, rounds)


def beside_arrays(rows: int, spooled_rows: int) -> list[Result]:
    """Compare appends with one call that has all readings in arrays."""
    with tempfile.TemporaryDirectory() as folder:
        bulk = in_bulk(Path(folder) / "bulk", rows)
        results = [
            ("writer: append, 1 thread", appended(Path(folder) / "one", rows, 1)),
            ("writer: append, 4 threads", appended(Path(folder) / "four", rows, THREADS)),
        ]
        for threads in (1, THREADS):
            place = Path(folder) / f"spooled-{threads}"
            rate = appended(place, spooled_rows, threads, spool=Path(folder) / f"spool-{threads}")
            results.append((f"writer: append to a spool, {threads} threads", rate))
        place, spool = Path(folder) / "lingering", Path(folder) / "spool"
        rate = appended(place, rows, 1, spool=spool, spool_sync="linger")
        results.append(("writer: append to a spool by linger, 1 thread", rate))
    name = "Table.write of whole arrays"
    return [
        Result(name=what, ours=rate, peer=bulk, peer_name=name, unit="rows/s")
        for what, rate in results
    ]


def from_threads(rows: int, rounds: int) -> list[Result]:
    """Compare appends from four threads with those from one, and with a queue of four."""
    one, four, queue_of_four = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        for n in range(rounds):
            one.append(appended(Path(folder) / f"one-{n}", rows, 1))
            four.append(appended(Path(folder) / f"four-{n}", rows, THREADS))
            queue_of_four.append(queued(Path(folder) / f"queue-{n}", rows, THREADS))
    return [
        Result(
            name="writer: appends from four threads",
            ours=mean_rate(four),
            peer=mean_rate(rates),
            peer_name=name,
            unit="rows/s",
        )
        for name, rates in [
            ("appends from one thread", one),
            ("queue.Queue emptied into Table.write", queue_of_four),
        ]
    ]


def mean_rate(rates: list[float]) -> float:
    """Return the rate over all rounds: threads fight over a lock in some of them only."""
    return len(rates) / sum(1 / rate for rate in rates)


def appended(place: Path, rows: int, threads: int, **options: Any) -> float:
    """Return appends a second, from the first one until all are in the table."""
    with treering.open(place) as store:
        table = store.create("readings", rate="10/s", retention="90d")
        writer = table.writer(**options)

        def append(series: str, ts_ms: int, value: float) -> None:
            writer.append(series, ts=ts_ms, unit="ms", value=value)

        began_s = time.perf_counter()
        put_all(append, rows, threads)
        report = writer.close(600)
        took_s = time.perf_counter() - began_s
        assert report.accepted == rows // threads * threads
        check(table, rows, threads)
    return rows / took_s


def queued(place: Path, rows: int, threads: int) -> float:
    """Return readings a second through a queue, as bounded as a writer is."""
    waiting: queue.Queue[tuple[str, int, float] | None] = queue.Queue(WriterOptions().max_rows)
    with treering.open(place) as store:
        table = store.create("readings", rate="10/s", retention="90d")
        consumer = threading.Thread(target=empty, args=(waiting, table))
        began_s = time.perf_counter()
        consumer.start()
        put_all(lambda *reading: waiting.put(reading), rows, threads)
        waiting.put(None)
        consumer.join()
        took_s = time.perf_counter() - began_s
        check(table, rows, threads)
    return rows / took_s


def empty(waiting: queue.Queue[tuple[str, int, float] | None], table: treering.Table) -> None:
    """Write what a queue has, by series, until it says that nothing more comes."""
    held: dict[str, tuple[list[int], list[float]]] = {}
    count = 0
    while True:
        reading = waiting.get()
        if reading is not None:
            series, ts_ms, value = reading
            times, values = held.setdefault(series, ([], []))
            times.append(ts_ms)
            values.append(value)
            count += 1
        if reading is None or count == BATCH_ROWS_MAX:
            for series, (times, values) in held.items():
                table.write(series, times, unit="ms", value=values)
            held, count = {}, 0
        if reading is None:
            return


def put_all(put: Put, rows: int, threads: int) -> None:
    """Have each of some threads put its share, a series each, a millisecond apart."""
    each = rows // threads
    base_ms = time.time_ns() // 1_000_000 - each

    def work(number: int) -> None:
        for n in range(each):
            put(f"s{number}", base_ms + n, float(n))

    running = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


def check(table: treering.Table, rows: int, threads: int) -> None:
    """Fail where the table has not got what all threads have put."""
    assert all(len(table.read(f"s{n}", "-1d")) == rows // threads for n in range(threads))


def in_bulk(place: Path, rows: int) -> float:
    """Return rows a second of one call with arrays."""
    with treering.open(place) as store:
        table = store.create("readings", rate="10/s", retention="90d")
        times = time.time_ns() // 1_000_000 - rows + np.arange(rows)

        def check_count(count: int) -> None:
            assert count == rows

        def write() -> int:
            return table.write("s", times, unit="ms", value=np.arange(rows, dtype=float)).accepted

        return rows / best_s(write, check_count, rounds=1)
