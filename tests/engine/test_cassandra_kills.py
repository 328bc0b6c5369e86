"""A ring that loses nodes under load loses and doubles nothing: a bounded share of the script."""

from __future__ import annotations

import uuid

import pytest

from tests.engine.kill_node import SERIES, render, run
from treering.testing import LocalCassandra


@pytest.mark.slow
def test_killed_nodes_lose_and_double_nothing(cassandra_ring: LocalCassandra) -> None:
    load = run(cassandra_ring, f"kills_{uuid.uuid4().hex[:8]}", kills=2, seed=7)
    assert not load.faults, render(load)
    assert all(len(load.acknowledged[series]) > 100 for series in SERIES), render(load)
    assert len(load.seconds["read"]) > 10, render(load)
