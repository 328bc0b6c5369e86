"""How much memory does it take to read a year, to scan it, and to export it?

    python -m benchmarks memory_embedded

The peer is the result itself: 16 bytes a reading. The budget of a read is four times that. A scan
holds batches, so that its share of the whole shrinks as the interval grows. Measured is the peak of
what Python, NumPy and Arrow allocate.
"""

from __future__ import annotations

import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

import treering
from benchmarks.measure import Result
from treering.exporting import Existing, ExportOptions, interval_of_export, run_export

PEER_NAME = "the result itself"


def run(*, days: int = 365, step_s: int = 10) -> list[Result]:
    """Fill a store with a year, and take the peaks."""
    rows = days * 86_400 // step_s
    with tempfile.TemporaryDirectory() as folder, treering.open(Path(folder) / "store") as store:
        table = store.create("readings", rate=f"{1 / step_s}/s", retention="2y")
        now_ms = int(np.datetime64("now", "ms").astype(np.int64))
        times = now_ms - np.arange(rows, dtype=np.int64)[::-1] * step_s * 1_000
        values = np.random.default_rng(6).normal(20, 3, rows).round(2)
        table.write("s", times, unit="ms", value=values)
        start = int(times[0])

        def read() -> None:
            found = table.read("s", start, unit="ms")
            assert (found.ts == times).all()
            assert (found["value"] == values).all()

        def scan() -> None:
            assert sum(len(batch) for batch in table.scan("s", start, unit="ms")) == rows

        def export() -> None:
            interval = interval_of_export(table, start, None, "ms")
            path = Path(folder) / "year.parquet"
            options = ExportOptions(existing=Existing.OVERWRITE)
            report = run_export(table, path, lambda: ["s"], interval, options)
            assert report.readings == rows

        return [
            peak_result(f"memory: {what} {days} days", work, rows, budget)
            for what, work, budget in (
                ("read", read, 0.25),
                ("scan", scan, None),
                ("export", export, None),
            )
        ]


def peak_result(name: str, work: Callable[[], None], rows: int, budget: float | None) -> Result:
    """Return readings a megabyte of the peak, beside readings a megabyte of the result."""
    # A pool of its own, whose peak starts at nothing.
    usual = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        work()
        peak = tracemalloc.get_traced_memory()[1] + (pool.max_memory() or 0)
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(usual)
    return Result(
        name=name,
        ours=rows / (peak / 1e6),
        peer=1e6 / 16,
        peer_name=PEER_NAME,
        unit="readings/MB",
        budget=budget,
    )
