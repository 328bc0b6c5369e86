"""Kill processes that append to a spool at random moments: does an acknowledged reading ever go?

    python tests/kill_spool.py --kills 100

Each round starts a process with a writer on one spool, in front of a store that is away for half
of the rounds, lets two threads append for a random while and ends the process with SIGKILL. At the
end one more writer replays what is left, and every reading whose append had returned is read back
from the store, with its value. Exit code 0: nothing lost, nothing changed.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import treering
from treering.spool import spool_status

WORK = """
import sys, threading, time, treering
from treering.errors import UnavailableError

place, spool, number, is_down, sync = sys.argv[1:]
store = treering.open(place)
table = store.create("readings", rate="1/s", retention="30d")
if is_down == "1":
    def refuse(*arguments):
        raise UnavailableError("away")
    store._engine.submit_write = store._engine.submit_writes = refuse
writer = table.writer(spool=spool, linger="20ms", spool_sync=sync)

def work(thread):
    base = time.time_ns() // 1_000_000
    count = 0
    while True:
        # Every third reading corrects the one before: the later value must stay.
        ts = base + count - (count % 3 == 2)
        writer.append(f"r{number}-{thread}", ts=ts, unit="ms", value=float(count))
        sys.stdout.write(f"r{number}-{thread} {ts} {count}\\n")
        sys.stdout.flush()
        count += 1

print("ready", flush=True)
for thread in range(2):
    threading.Thread(target=work, args=(thread,), daemon=True).start()
time.sleep(600)
"""


@dataclass
class Outcome:
    """What the rounds have shown."""

    kills: int = 0
    acknowledged: int = 0
    recovered: int = 0
    faults: list[str] = field(default_factory=list)
    wanted: dict[tuple[str, int], float] = field(default_factory=dict)


def run_round(folder: Path, number: int, rng: random.Random, outcome: Outcome) -> None:
    """Start a process, kill it, and note what it had acknowledged."""
    is_down = "1" if number % 2 else "0"
    arguments = [str(folder / "plant"), str(folder / "spool"), str(number), is_down, "append"]
    with subprocess.Popen(
        [sys.executable, "-c", WORK, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        if process.stdout.readline() == "ready\n":
            time.sleep(rng.uniform(0.01, 0.5))
        process.send_signal(signal.SIGKILL)
        said, complaints = process.communicate()
    outcome.kills += 1
    if complaints:
        outcome.faults.append(complaints.strip().splitlines()[-1])
    # What follows the last line break was cut off by the kill: nobody has seen it.
    for line in said.split("\n")[:-1]:
        series, ts, value = line.split()
        outcome.wanted[series, int(ts)] = float(value)
        outcome.acknowledged += 1


def check(folder: Path, outcome: Outcome) -> None:
    """Replay what is left and read everything back."""
    with treering.open(folder / "plant") as store:
        table = store.table("readings")
        with table.writer(spool=folder / "spool") as writer:
            report = writer.flush()
        outcome.recovered = report.recovered
        if report.refused_count or report.pending or spool_status(folder / "spool").rows:
            outcome.faults.append(f"the replay did not end well: {report}")
        found = {(name, ts): value for name in table.series() for ts, value in _rows(table, name)}
    for key, value in outcome.wanted.items():
        # A later reading of the same time may have been on disk and not yet acknowledged.
        if found.get(key, -1.0) not in (value, value + 1):
            outcome.faults.append(f"{key}: acknowledged {value}, found {found.get(key)}")


def _rows(table: treering.Table, name: str) -> list[tuple[int, float]]:
    rows = table.read(name, "-1d")
    return list(zip(rows.ts.tolist(), rows["value"].tolist(), strict=True))


def run(folder: Path, *, kills: int, seed: int) -> Outcome:
    """Kill so many processes and look at what is left."""
    rng, outcome = random.Random(seed), Outcome()
    for number in range(kills):
        run_round(folder, number, rng, outcome)
    check(folder, outcome)
    return outcome


def main() -> int:
    """Run, say what happened, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=100, help="processes to kill")
    parser.add_argument("--seed", type=int, default=0, help="of the random moments")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        began_s = time.monotonic()
        outcome = run(Path(folder), kills=options.kills, seed=options.seed)
        took_s = time.monotonic() - began_s
    print(
        f"{outcome.kills} kills, {outcome.acknowledged:,} readings acknowledged, "
        f"{outcome.recovered:,} of them found in the spool at the end, "
        f"{len(outcome.faults)} faults, {took_s:.0f} s (seed {options.seed})"
    )
    for fault in outcome.faults[:20]:
        print(fault)
    return 1 if outcome.faults or not outcome.acknowledged else 0


if __name__ == "__main__":
    sys.exit(main())
