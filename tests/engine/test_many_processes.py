"""Eight processes create a table, change the width of a series and write to it, all at once."""

from __future__ import annotations

import multiprocessing
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treering
from treering.leases import LeaseTerms
from treering.store import Store

WORKERS = 8
LEASE_S = 1.0
RUN_S = 100.0
"""Long enough for a change of width to be made, to take effect, and to be made again."""


def open_client(where: str) -> Store:
    """Open the store with a short lease, so that widths really change while the test runs."""
    engine = treering.open(where)._engine
    return Store(engine, terms=LeaseTerms(length_s=LEASE_S))


def work(where: str, number: int, barrier: Any, answers: Any) -> None:
    """Create, write and change widths for a while; answer with what was acknowledged."""
    choose = random.Random(number)
    acknowledged: list[int] = []
    changes = 0
    try:
        with open_client(where) as store:
            barrier.wait(timeout=180)
            table = store.create(
                "shared", rate="100/s", retention="30d", bucket="5min", future_limit="1s"
            )
            end_s = time.monotonic() + RUN_S
            while time.monotonic() < end_s:
                # Event times of each process are its own: ends in its number.
                ts = time.time_ns() // 1_000_000 // 10 * 10 + number
                if not acknowledged or ts > acknowledged[-1]:
                    table.write("pump", [ts], unit="ms", value=[float(ts)]).raise_if_refused()
                    acknowledged.append(ts)
                if choose.random() < 0.02:
                    try:
                        table.set_bucket("pump", choose.choice(["1min", "5min"]))
                        changes += 1
                    except treering.WidthError:
                        pass  # Another process was quicker, or it is that width already.
                time.sleep(0.05)
        answers.put((number, acknowledged, changes, None))
    except BaseException as error:  # noqa: BLE001 - the parent must hear of everything
        answers.put((number, acknowledged, changes, repr(error)))


def run(where: str) -> None:
    """Start the processes on one store and check that nothing is lost or doubled."""
    context = multiprocessing.get_context("spawn")
    barrier, answers = context.Barrier(WORKERS), context.Queue()
    workers = [
        context.Process(target=work, args=(where, number, barrier, answers))
        for number in range(WORKERS)
    ]
    for worker in workers:
        worker.start()
    got = [answers.get(timeout=600) for _ in workers]
    for worker in workers:
        worker.join(60)
    assert [error for *_, error in got if error is not None] == []
    wanted = sorted(ts for _, acknowledged, *_ in got for ts in acknowledged)
    assert len(wanted) > 20 * WORKERS
    with open_client(where) as store:
        table = store.table("shared")
        found = table.read("pump", wanted[0], wanted[-1] + 1, unit="ms")
        assert found.ts.tolist() == wanted
        assert (found["value"] == found.ts).all()
        # The run means something only if a change took effect in the middle of it.
        record = table.series_record("pump")
        middle = [w for w in record.widths if w.since_s and w.since_s * 1_000 < wanted[-1]]
        assert middle, record
        assert (
            np.unique(
                [
                    read.bucket.width
                    for read in table.explain("pump", wanted[0], wanted[-1] + 1, unit="ms").reads
                ]
            ).size
            == 2
        )


@pytest.mark.slow
def test_eight_processes_on_a_folder_lose_nothing(tmp_path: Path) -> None:
    run(str(tmp_path / "plant"))


@pytest.mark.slow
def test_eight_processes_on_a_node_lose_nothing(cassandra_keyspace: str) -> None:
    run(cassandra_keyspace)
