"""How many appends a second does a writer take, beside whole arrays given to Table.write?

    python -m benchmarks writer

All on the embedded engine, with one reading an append and a time that is given. Measured is until
everything is durable in the table; with a spool, each append is on disk before the next one of its
thread begins.
"""

from __future__ import annotations

import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

import treering
from benchmarks.measure import Result, best_s


def run(*, rows: int = 200_000, spooled_rows: int = 2_000) -> list[Result]:
    """Write with a writer and with arrays, and compare."""
    with tempfile.TemporaryDirectory() as folder:
        bulk = in_bulk(Path(folder) / "bulk", rows)
        results = [
            ("writer: append, 1 thread", appended(Path(folder) / "one", rows, 1)),
            ("writer: append, 4 threads", appended(Path(folder) / "four", rows, 4)),
        ]
        for threads in (1, 4):
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


def appended(place: Path, rows: int, threads: int, **options: Any) -> float:
    """Return appends a second, from the first one until all are in the table."""
    each = rows // threads
    with treering.open(place) as store:
        table = store.create("readings", rate="10/s", retention="90d")
        writer = table.writer(**options)

        def work(number: int) -> None:
            for n in range(each):
                writer.append(f"s{number}", ts=base_ms + n, unit="ms", value=float(n))

        base_ms = time.time_ns() // 1_000_000 - each
        running = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
        began_s = time.perf_counter()
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        report = writer.close(600)
        took_s = time.perf_counter() - began_s
        assert report.accepted == threads * each
        assert all(len(table.read(f"s{n}", "-1d")) == each for n in range(threads))
    return threads * each / took_s


def in_bulk(place: Path, rows: int) -> float:
    """Return rows a second of one call with arrays."""
    with treering.open(place) as store:
        table = store.create("readings", rate="10/s", retention="90d")
        times = time.time_ns() // 1_000_000 - rows + np.arange(rows)

        def check(count: int) -> None:
            assert count == rows

        def write() -> int:
            return table.write("s", times, unit="ms", value=np.arange(rows, dtype=float)).accepted

        return rows / best_s(write, check, rounds=1)
