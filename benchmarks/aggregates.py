"""What does a month at 1/s cost as 5-minute means, beside reading all of it for pandas to resample?

    python -m benchmarks aggregates

Both in time and in memory (the peak of what Python and NumPy allocate), on the embedded engine.
"""

from __future__ import annotations

import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import treering
from benchmarks.measure import Result, best_s

PEER = "read all, pandas resample"


def run(*, days: int = 30) -> list[Result]:
    """Read the same interval as means and as readings that pandas averages, and compare."""
    rows = days * 86_400
    with tempfile.TemporaryDirectory() as folder, treering.open(Path(folder) / "store") as store:
        table = store.create("readings", rate="1/s", retention="1y")
        end = int(np.datetime64("now", "D").astype("datetime64[ms]").astype(np.int64))
        times = end - np.arange(rows, dtype=np.int64)[::-1] * 1_000 - 1_000
        values = np.random.default_rng(4).normal(20, 3, rows).round(2)
        table.write("s", times, unit="ms", value=values)
        wanted = values.reshape(-1, 300).mean(axis=1)

        def check(found: Any) -> None:
            assert len(found) == len(wanted)
            assert np.allclose(found, wanted, rtol=1e-12)

        def ours() -> Any:
            return table.read("s", int(times[0]), unit="ms", every="5m", agg="mean")["value_mean"]

        def peer() -> Any:
            frame = table.read("s", int(times[0]), unit="ms").to_pandas()
            return frame.set_index("ts")["value"].resample("5min").mean().to_numpy()

        speeds = [rows / best_s(work, check) for work in (ours, peer)]
        sizes = [rows / (peak_bytes(work) / 1e6) for work in (ours, peer)]
    name = f"embedded: {days} days at 1/s as 5-minute means"
    return [
        Result(name=name, ours=speeds[0], peer=speeds[1], peer_name=PEER, unit="readings/s"),
        Result(
            name=f"{name}, memory",
            ours=sizes[0],
            peer=sizes[1],
            peer_name=PEER,
            unit="readings/MB",
        ),
    ]


def peak_bytes(work: Callable[[], Any]) -> int:
    """Return the most that Python and NumPy had allocated at once for some work."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
