"""A turn at a lock excludes the other turns, and comes however long it takes."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator

import pytest

from treering.turn import take_turn

BOUND_S = 60.0


@pytest.fixture(autouse=True)
def _frequent_switches() -> Iterator[None]:
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before_s)


def test_turns_of_threads_exclude_one_another() -> None:
    lock, counts = threading.Condition(), {"turns": 0}

    def add(count: int) -> int:
        return count + 1

    def work() -> None:
        for _ in range(5_000):
            take_turn(lock)
            try:
                # Calls are where Python switches threads: without the lock, turns are lost here.
                counts.update(turns=add(counts["turns"]))
            finally:
                lock.release()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(BOUND_S)
    assert counts["turns"] == 20_000


def test_turn_waits_for_a_holder_that_takes_its_time() -> None:
    lock, order = threading.Condition(), []

    def work() -> None:
        take_turn(lock)
        order.append("turn")
        lock.release()

    thread = threading.Thread(target=work)
    with lock:
        thread.start()
        time.sleep(0.02)
        order.append("holder")
    thread.join(BOUND_S)
    assert order == ["holder", "turn"]
    assert lock.acquire(blocking=False)
    lock.release()
