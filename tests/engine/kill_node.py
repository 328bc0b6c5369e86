"""Kill nodes of a ring of three under load: is every acknowledged reading read back, once?

    python tests/engine/kill_node.py --kills 20

Writers and a reader work at LOCAL_QUORUM with replication 3 while nodes, one at a time, end with
SIGKILL and come back. The reader compares with what was acknowledged before its read began, all
the time; at the end everything is read once more. Exit code 0: nothing lost, nothing doubled, no
call longer than its bound.
"""

from __future__ import annotations

import argparse
import random
import sys
import threading
import time
from dataclasses import dataclass, field

import numpy as np

import treering
from treering.testing import LocalCassandra

SERIES = ("pump-1", "pump-2", "pump-3")
ROWS = 50
CALL_BOUND_S = 60.0
"""No call may take longer: it ends in an answer or in an error that says what happened."""


@dataclass
class Load:
    """What the writers and the reader have seen; guarded by ``lock``."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    stop: threading.Event = field(default_factory=threading.Event)
    acknowledged: dict[str, list[int]] = field(default_factory=lambda: {n: [] for n in SERIES})
    seconds: dict[str, list[float]] = field(default_factory=lambda: {"write": [], "read": []})
    failures: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def note_failure(self, error: treering.TreeringError) -> None:
        """Count a call that ended in an error."""
        name = type(error).__name__
        with self.lock:
            self.failures[name] = self.failures.get(name, 0) + 1

    def note_seconds(self, kind: str, seconds: float) -> None:
        """Keep how long a call took."""
        with self.lock:
            self.seconds[kind].append(seconds)
            if seconds > CALL_BOUND_S:
                self.faults.append(f"a {kind} took {seconds:.1f} s")


def write_for_ever(table: treering.Table, series: str, load: Load) -> None:
    """Write batches of rising event times; a batch that failed is written again until it holds."""
    next_ms = time.time_ns() // 1_000_000 - 3_600_000
    while not load.stop.is_set():
        times = next_ms + np.arange(ROWS)
        began = time.monotonic()
        try:
            table.write(series, times, unit="ms", value=times.astype(float), timeout_s=30)
        except treering.TreeringError as error:
            load.note_failure(error)
            if not error.retryable:
                load.faults.append(f"a write failed for good: {error}")
                return
            load.stop.wait(0.2)
            continue
        finally:
            load.note_seconds("write", time.monotonic() - began)
        with load.lock:
            load.acknowledged[series].extend(times.tolist())
        next_ms += ROWS
        load.stop.wait(0.01)


def check(table: treering.Table, series: str, wanted: list[int], load: Load) -> None:
    """Read back what was acknowledged and note every reading that is missing or doubled."""
    found = table.read(series, wanted[0], wanted[-1] + 1, unit="ms", timeout_s=30)
    if len(np.unique(found.ts)) != len(found):
        load.faults.append(f"{series}: {len(found) - len(np.unique(found.ts))} readings doubled")
    missing = np.setdiff1d(np.array(wanted), found.ts)
    if len(missing):
        load.faults.append(f"{series}: {len(missing)} readings lost, first {missing[0]}")
    if not (found["value"] == found.ts).all():
        load.faults.append(f"{series}: a value is not the one that was written")


def read_for_ever(table: treering.Table, load: Load) -> None:
    """Compare the newest acknowledged readings with what a read returns, again and again."""
    while not load.stop.is_set():
        for series in SERIES:
            with load.lock:
                wanted = load.acknowledged[series][-20 * ROWS :]
            if not wanted:
                continue
            began = time.monotonic()
            try:
                check(table, series, wanted, load)
            except treering.TreeringError as error:
                load.note_failure(error)
            load.note_seconds("read", time.monotonic() - began)
        load.stop.wait(0.05)


def run(ring: LocalCassandra, keyspace: str, *, kills: int, seed: int) -> Load:
    """Kill and bring back ``kills`` nodes under load, and return what was seen."""
    choose = random.Random(seed)
    load = Load()
    with treering.open(f"{ring.url(keyspace)}&timeout=5s", replication={"datacenter1": 3}) as store:
        table = store.create("readings", rate="100/s", retention="30d", bucket="15min")
        threads = [
            threading.Thread(target=write_for_ever, args=(table, series, load)) for series in SERIES
        ]
        threads.append(threading.Thread(target=read_for_ever, args=(table, load)))
        for thread in threads:
            thread.start()
        try:
            for number in range(kills):
                node = choose.randrange(3)
                time.sleep(choose.uniform(0.5, 2))
                ring.kill(node)
                time.sleep(choose.uniform(1, 4))
                ring.restart(node)
                print(f"kill {number + 1}: node {node}, {len(load.faults)} faults", flush=True)
        finally:
            load.stop.set()
            for thread in threads:
                thread.join(2 * CALL_BOUND_S)
        for series in SERIES:
            check(table, series, load.acknowledged[series], load)
    return load


def render(load: Load) -> str:
    """Return what was seen, in a few lines."""
    lines = [f"{sum(map(len, load.acknowledged.values())):,} readings acknowledged"]
    for kind, seconds in load.seconds.items():
        p50, p99 = np.percentile(seconds, [50, 99]) if seconds else (0.0, 0.0)
        lines.append(
            f"{kind}: {len(seconds):,} calls, p50 {p50 * 1e3:.0f} ms, p99 {p99 * 1e3:.0f} ms, "
            f"longest {max(seconds, default=0):.1f} s"
        )
    lines.append(f"calls that ended in an error: {load.failures or 'none'}")
    lines.append(f"faults: {load.faults or 'none'}")
    return "\n".join(lines)


def main() -> int:
    """Run the kills on a ring of its own; 0 where nothing was lost or doubled."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with LocalCassandra(nodes=3, commitlog_sync="group") as ring:
        load = run(ring, "kills", kills=arguments.kills, seed=arguments.seed)
    print(render(load))
    return 1 if load.faults else 0


if __name__ == "__main__":
    sys.exit(main())
