"""What do aggregates cost, beside reading all readings and reducing them?

    python -m benchmarks aggregates

A month at 1/s as 5-minute means beside pandas, in time and in memory (the peak of what Python and
NumPy allocate); and a year at 1/s as daily means, for which blocks answer by their statistics,
beside unpacking and reducing all of it. Both on the embedded engine.
"""

from __future__ import annotations

import tempfile
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import treering
from benchmarks.measure import Result, best_s

PEER = "read all, pandas resample"
LEAN_PEER = "read all, NumPy by day"
DAY_ROWS = 86_400


def run(*, days: int = 30, daily_days: int = 365) -> list[Result]:
    """Compare both kinds of reads with reading everything."""
    return [*five_minutes(days=days), *daily(days=daily_days)]


@contextmanager
def filled(days: int) -> Iterator[tuple[treering.Table, int, np.ndarray[Any, np.dtype[Any]]]]:
    """Give a table of a reading a second, when it starts, and its values."""
    with tempfile.TemporaryDirectory() as folder, treering.open(Path(folder) / "store") as store:
        table = store.create("readings", rate="1/s", retention="2y")
        end = int(np.datetime64("now", "D").astype("datetime64[ms]").astype(np.int64))
        start = end - days * DAY_ROWS * 1_000
        values = np.random.default_rng(4).normal(20, 3, days * DAY_ROWS).round(2)
        for first in range(0, len(values), 10 * DAY_ROWS):
            part = values[first : first + 10 * DAY_ROWS]
            times = start + 1_000 * np.arange(first, first + len(part), dtype=np.int64)
            table.write("s", times, unit="ms", value=part)
        yield table, start, values


def daily(*, days: int) -> list[Result]:
    """Read daily means, and read all to make them, in the same run."""
    with filled(days) as (table, start, values):
        wanted = values.reshape(-1, DAY_ROWS).mean(axis=1)

        def check(found: Any) -> None:
            assert len(found) == days
            assert np.allclose(found, wanted, rtol=1e-12)

        def ours() -> Any:
            return table.read("s", start, unit="ms", every="1d", agg="mean")["value_mean"]

        def months() -> Iterator[treering.Readings]:
            # Thirty days at a time: a year's readings at once would take half a gigabyte.
            for first in range(0, days, 30):
                edges = [start + day * DAY_ROWS * 1_000 for day in (first, min(first + 30, days))]
                yield table.read("s", *edges, unit="ms")

        def by_pandas(found: treering.Readings) -> Any:
            return found.to_pandas().set_index("ts")["value"].resample("1D").mean().to_numpy()

        def by_numpy(found: treering.Readings) -> Any:
            heads = np.flatnonzero(np.diff(found.ts // (DAY_ROWS * 1_000), prepend=-1))
            lengths = np.diff(heads, append=len(found))
            return np.add.reduceat(np.asarray(found["value"]), heads) / lengths

        ours_s = best_s(ours, check)
        peers_s = {
            PEER: best_s(lambda: np.concatenate([by_pandas(part) for part in months()]), check),
            LEAN_PEER: best_s(lambda: np.concatenate([by_numpy(part) for part in months()]), check),
        }
    return [
        Result(
            name=f"embedded: {days} days at 1/s as daily means",
            ours=len(values) / ours_s,
            peer=len(values) / peer_s,
            peer_name=peer_name,
            unit="readings/s",
            budget=10.0 if days >= 30 else None,
        )
        for peer_name, peer_s in peers_s.items()
    ]


def five_minutes(*, days: int) -> list[Result]:
    """Read the same interval as means and as readings that pandas averages, and compare."""
    with filled(days) as (table, start, values):
        rows = len(values)
        wanted = values.reshape(-1, 300).mean(axis=1)

        def check(found: Any) -> None:
            assert len(found) == len(wanted)
            assert np.allclose(found, wanted, rtol=1e-12)

        def ours() -> Any:
            return table.read("s", start, unit="ms", every="5m", agg="mean")["value_mean"]

        def peer() -> Any:
            frame = table.read("s", start, unit="ms").to_pandas()
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
