"""Kill writers of the embedded engine at random moments: does an acknowledged reading ever go?

    python -m tests.engine.kill_writer --kills 200

Each round starts writers on one store, which seal now and then, and beside them a process that
expires segments all the time (every third round) or one that seals all rows all the time (all
others), lets them run for a random while and ends them with SIGKILL. Then every reading that was
acknowledged in that round is read back, and SQLite checks every file; at the end everything
acknowledged in all rounds is read back once more. Exit code 0: nothing lost, nothing damaged.
"""

from __future__ import annotations

import argparse
import os
import random
import select
import signal
import sqlite3
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tests.pages import column_of, times_of
from treering.core.bucket import bucket_of, buckets_between
from treering.core.columns import ColumnData
from treering.core.design import Workload, plan_design
from treering.core.read_plan import PartitionRead
from treering.core.schema import parse_columns
from treering.core.segment import segment_length_s
from treering.core.table import TableSpec
from treering.core.units import Interval
from treering.core.write_plan import PartitionWrite
from treering.engine.protocol import PageRead
from treering.engine.sqlite import SqliteEngine
from treering.engine.sqlite.block_table import SealRules
from treering.errors import EngineError, StoreBusyError

NOW_S = 1_763_600_000
DAY_S = 86_400
WRITERS = 2
SIZES = (1, 1, 10, 300, 5_000)
SEGMENTS = 5
# Small blocks, so that a run makes, cuts and makes anew thousands of them.
SEALS = SealRules(rows_min=1, block_rows_max=4_096, block_rows_full=2_048)


@dataclass
class Outcome:
    """What the rounds have shown."""

    kills: int = 0
    acknowledged: int = 0
    sealed: int = 0
    faults: list[str] = field(default_factory=list)
    intervals: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))


def make_spec() -> TableSpec:
    """Return the table: narrow buckets, so that a write is often the first of its segment."""
    workload = Workload(
        rate_hz=1.0, columns=parse_columns("value:double,quality:int"), retention_s=30 * DAY_S
    )
    return TableSpec(name="readings", design=plan_design(workload, now_s=NOW_S))


def values_of(series: str, ts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the values that a reading must have: they follow from its series and its time."""
    salt = sum(series.encode())
    return (ts % 1_000_003) * 0.5 + salt, ((ts + salt) % 1_000).astype(np.int32)


def run_writer(folder: Path, spec: TableSpec, series: str, seed: int, out: int) -> None:
    """Write for ever; say each acknowledged interval on the pipe."""
    rng = random.Random(seed)
    length_ms = segment_length_s(spec) * 1_000
    newest_ms = NOW_S * 1_000 // length_ms * length_ms
    with_store = SqliteEngine(folder, busy_timeout_s=30, rules=SEALS)
    with_store.add_series(spec, (series,))
    while True:
        size = rng.choice(SIZES)
        # One in four straddles an edge between two segments, one in eight is past the retention.
        start = newest_ms - rng.randrange(SEGMENTS) * length_ms
        start += -size // 2 if rng.random() < 0.25 else rng.randrange(length_ms // 2)
        if rng.random() < 0.125:
            start -= 60 * DAY_S * 1_000
        for bucket in buckets_between(Interval(start, start + size), spec.width):
            part = bucket.interval(spec.precision).clipped(start, start + size)
            ts = np.arange(part.start, part.end)
            value, quality = values_of(series, ts)
            write = PartitionWrite(
                series=series,
                bucket=bucket,
                ts=ts,
                columns={"value": ColumnData(value), "quality": ColumnData(quality)},
                write_us=time.time_ns() // 1_000,
                ttl_s=None,
            )
            with_store.submit_write(spec, write).result()
            os.write(out, f"{part.start} {part.end}\n".encode())
        if rng.random() < 0.1:
            report = with_store.seal(spec, now_s=10**11)
            os.write(out, f"sealed {report.readings}\n".encode())


def run_expirer(folder: Path, spec: TableSpec, out: int) -> None:
    """Expire for ever."""
    engine = SqliteEngine(folder, busy_timeout_s=30)
    while True:
        try:
            engine.expire(spec, now_s=NOW_S)
        except StoreBusyError:
            continue
        os.write(out, b"-\n")


def run_sealer(folder: Path, spec: TableSpec, out: int) -> None:
    """Seal everything for ever, whether its span is closed or not."""
    engine = SqliteEngine(folder, busy_timeout_s=30, rules=SEALS)
    while True:
        report = engine.seal(spec, now_s=10**11)
        if report.problems:
            raise EngineError(report.problems[0])
        os.write(out, f"sealed {report.readings}\n".encode())


def start(role: str, folder: Path, spec: TableSpec, series: str, seed: int) -> tuple[int, int]:
    """Fork a process of that role; return its id and the pipe on which it acknowledges."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid:
        os.close(write_end)
        return pid, read_end
    try:
        os.close(read_end)
        if role == "writer":
            run_writer(folder, spec, series, seed, write_end)
        elif role == "sealer":
            run_sealer(folder, spec, write_end)
        else:
            run_expirer(folder, spec, write_end)
    except BaseException as error:  # noqa: BLE001 - a child reports whatever ended it
        os.write(write_end, f"!{type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(1)


def run_round(folder: Path, spec: TableSpec, number: int, rng: random.Random) -> dict[str, bytes]:
    """Run the processes of one round, kill them, and return what each has said."""
    names = [f"round-{number}-writer-{n}" for n in range(WRITERS)]
    running = {name: start("writer", folder, spec, name, rng.getrandbits(32)) for name in names}
    if number % 3 == 0:
        running["expirer"] = start("expirer", folder, spec, "", 0)
    if number % 3:
        running["sealer"] = start("sealer", folder, spec, "", 0)
    said = dict.fromkeys(running, b"")
    pipes = {pipe: name for name, (_, pipe) in running.items()}
    kill_at = time.monotonic() + rng.uniform(0.005, 0.25)
    while (left := kill_at - time.monotonic()) > 0:
        for pipe in select.select(list(pipes), [], [], left)[0]:
            said[pipes[pipe]] += os.read(pipe, 65_536)
    for pid, _ in running.values():
        os.kill(pid, signal.SIGKILL)
    for name, (pid, pipe) in running.items():
        while chunk := os.read(pipe, 65_536):
            said[name] += chunk
        os.close(pipe)
        os.waitpid(pid, 0)
    return said


def lost_in(engine: SqliteEngine, spec: TableSpec, series: str, first: int, end: int) -> str:
    """Return what is wrong with an acknowledged interval; empty where nothing is."""
    partition = PartitionRead(series, bucket_of(first, spec.width, spec.precision), first, end)
    request = PageRead(partition=partition, order="asc", columns=spec.columns, rows_max=end - first)
    page = engine.submit_read(spec, request).result()
    ts = np.arange(first, end)
    if not np.array_equal(times_of(page), ts):
        return f"{series}: {end - first - len(page)} of {end - first} readings lost from {first}"
    value, quality = values_of(series, ts)
    found = [column_of(page, spec.column(name)).values for name in ("value", "quality")]
    if not np.array_equal(found[0], value) or not np.array_equal(found[1], quality):
        return f"{series}: other values than were acknowledged from {first}"
    return ""


def damaged_files(folder: Path) -> list[str]:
    """Return every file in which SQLite finds damage."""
    found = []
    for path in [folder / "catalog.db", *sorted((folder / "readings").glob("2*.db"))]:
        connection = sqlite3.connect(path)
        try:
            (verdict,) = connection.execute("PRAGMA integrity_check").fetchone()
        except sqlite3.DatabaseError as error:
            verdict = str(error)
        finally:
            connection.close()
        if verdict != "ok":
            found.append(f"{path.name}: {verdict}")
    return found


def check_round(folder: Path, spec: TableSpec, said: dict[str, bytes], outcome: Outcome) -> None:
    """Add to ``outcome`` what a round acknowledged, and what of it is not there."""
    oldest_ms = (NOW_S - 30 * DAY_S) * 1_000
    engine = SqliteEngine(folder)
    for name, text in said.items():
        # What follows the last line break was cut off by the kill: nobody has seen it.
        for line in text.decode().split("\n")[:-1]:
            if line.startswith("!"):
                outcome.faults.append(f"{name} ended by itself: {line[1:]}")
            elif line.startswith("sealed "):
                outcome.sealed += int(line.split()[1])
            elif line != "-":
                first, end = (int(word) for word in line.split())
                outcome.acknowledged += end - first
                if first >= oldest_ms:
                    outcome.intervals[name].append((first, end))
        outcome.faults += filter(
            None, (lost_in(engine, spec, name, *part) for part in outcome.intervals[name])
        )
    engine.close()
    outcome.faults += damaged_files(folder)


def run(folder: Path, kills: int, seed: int) -> Outcome:
    """Kill until ``kills`` processes were killed; stop at the first fault."""
    rng = random.Random(seed)
    with_table = SqliteEngine(folder)
    spec = with_table.create_table(make_spec())
    with_table.close()
    outcome, number = Outcome(), 0
    while outcome.kills < kills and not outcome.faults:
        said = run_round(folder, spec, number, rng)
        outcome.kills += len(said)
        number += 1
        check_round(folder, spec, said, outcome)
    engine = SqliteEngine(folder)
    for series, parts in outcome.intervals.items():
        faults = (lost_in(engine, spec, series, *part) for part in parts)
        outcome.faults += filter(None, faults)
    engine.close()
    return outcome


def main() -> int:
    """Run, say what happened, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=200, help="processes to kill")
    parser.add_argument("--seed", type=int, default=0, help="of the random moments and sizes")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        started_s = time.monotonic()
        outcome = run(Path(folder) / "store", options.kills, options.seed)
        took_s = time.monotonic() - started_s
    print(
        f"{outcome.kills} kills, {outcome.acknowledged:,} readings acknowledged, "
        f"{outcome.sealed:,} sealed, {len(outcome.faults)} faults, {took_s:.0f} s "
        f"(seed {options.seed})"
    )
    for fault in outcome.faults[:20]:
        print(fault)
    return 1 if outcome.faults or not outcome.acknowledged else 0


if __name__ == "__main__":
    sys.exit(main())
