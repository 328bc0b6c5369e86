"""Two datacentres: a change of widths counts when a quorum of each has it; what the doctor sees."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import treering
from tests import waiting
from treering.cli.main import app
from treering.errors import EngineError
from treering.testing import LocalCassandra

pytestmark = [pytest.mark.cassandra]

BOUND_S = 120.0
wait_until = partial(waiting.wait_until, bound_s=BOUND_S)


@pytest.fixture(scope="module")
def ring(cassandra_programs: None) -> Iterator[LocalCassandra]:
    """Two nodes in the north, which alone are a quorum of all, and one in the south."""
    with LocalCassandra(nodes=3, datacenters=("north", "north", "south")) as started:
        yield started


@pytest.fixture
def keyspace() -> str:
    """Return the name of a keyspace that is not there yet."""
    return f"far_{uuid.uuid4().hex[:8]}"


def test_what_one_datacentre_enters_the_other_one_knows_at_once(
    ring: LocalCassandra, keyspace: str
) -> None:
    with treering.open(ring.url(keyspace), replication=ring.replicas) as store:
        north = store.create("readings", rate="1/s", retention="30d")
        with treering.open(ring.url(keyspace, "south")) as other:
            south = other.table("readings")
            for number in range(10):
                name = f"pump-{number}"
                north.add_series(name, tags={"site": "yard"})
                changed = north.set_bucket(name, "hour")
                assert south.series_record(name) == changed
            assert len(list(south.series(tags={"site": "yard"}))) == 10
            now = np.datetime64("now", "ms")
            south.write("pump-0", [now], value=[1.0])
            wait_until(lambda: len(north.read("pump-0", "-1h")) == 1)


def test_change_that_a_datacentre_does_not_have_is_no_change_yet(
    ring: LocalCassandra, keyspace: str
) -> None:
    url = ring.url(keyspace) + "&timeout=3s"
    with treering.open(url, replication=ring.replicas) as store:
        table = store.create("readings", rate="1/s", retention="30d")
        table.add_series("pump")
        ring.pause(2)
        try:
            # A quorum of all nodes is there, so that the condition itself is decided.
            with pytest.raises(EngineError):
                table.set_bucket("pump", "hour")
        finally:
            ring.resume(2)
        done: list[treering.SeriesRecord] = []

        def is_changed() -> bool:
            try:
                done.append(table.set_bucket("pump", "hour"))
            except EngineError as error:
                if not error.retryable:
                    raise
            return bool(done)

        wait_until(is_changed)
        assert [change.width for change in done[0].widths] == ["hour"]
        with treering.open(ring.url(keyspace, "south")) as other:
            assert other.table("readings").series_record("pump") == done[0]


def test_the_disk_of_one_datacentre_is_sampled_as_that_of_it_alone(
    ring: LocalCassandra, tmp_path: Path
) -> None:
    # A table that every cluster has.
    wanted = ["doctor", "watch", "--store", str(tmp_path), "--once", "--table", "events"]
    north, south = (ring.url("system_traces", place) for place in ("north", "south"))
    alone = CliRunner().invoke(app, [*wanted, north])
    assert alone.exit_code == 3, alone.stderr
    assert "kept 1 sample" in alone.stderr
    far = ring.contact_points[2]
    assert re.search(rf"not seen: {far}: node: it is in south, .* local_dc=south", alone.stderr)
    assert alone.stdout.startswith("system_traces.events in north alone: unknown\n")
    whole = CliRunner().invoke(app, [*wanted, north, south])
    assert whole.exit_code == 0, whole.stderr
    assert whole.stdout.startswith("system_traces.events: unknown\n  1 sample ")
