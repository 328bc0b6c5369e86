"""What brings old write times on a real ring, and what the doctor says brought them."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.doctor.late_writes import AWAY, ROUNDS_S, TABLES, WINDOW_S, LateWrites
from treering.cli.main import app
from treering.sstable.facts import SSTableFacts
from treering.testing import LocalCassandra


@pytest.fixture(scope="module")
def late(cassandra_ring: LocalCassandra) -> Iterator[LateWrites]:
    made = LateWrites(cassandra_ring, f"late_{time.time_ns():x}")
    try:
        made.make()
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def findings(late: LateWrites) -> dict[str, list[dict[str, Any]]]:
    """What the doctor says of the node that was away, by table."""
    arguments = ["doctor", "check", late.ring.url(late.keyspace), str(late.folder()), "--json"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 4, f"{result.stdout}\n{result.stderr}"
    return {
        table["table"].partition(".")[2]: table["findings"]
        for table in json.loads(result.stdout)["tables"]
    }


def test_old_write_times_are_explained_by_what_brought_them(
    late: LateWrites, findings: dict[str, list[dict[str, Any]]]
) -> None:
    (hinted,) = findings["hinted"]
    assert hinted["id"] == "old-write-blocks"
    assert re.search(r"3h3\dm before the file; it keeps 1 file", hinted["evidence"])
    assert hinted["cause"].startswith("most likely a hint, delivered after a node was away")
    # It was repaired since, which is no cause of it.
    assert all(file.repaired_at_ms is not None for file in late.files("hinted"))
    (read,) = findings["read"]
    assert read["id"] == "old-write-blocks"
    assert re.search(r"9h\w* before the file; it keeps 2 files", read["evidence"])
    assert read["cause"].startswith("most likely read repair: read_repair is BLOCKING")
    (cure,) = read["commands"]
    assert cure.endswith("WITH read_repair = 'NONE';")


def test_what_a_repair_streams_goes_to_its_window_and_keeps_nothing(
    late: LateWrites, findings: dict[str, list[dict[str, Any]]]
) -> None:
    assert findings["streamed"] == []
    files = late.files("streamed")
    assert len({file.max_write_us for file in files}) == len(ROUNDS_S) + 2
    assert all(file.min_write_us == file.max_write_us for file in files)


def test_windows_that_a_repair_of_some_ranges_split_are_found(
    late: LateWrites, findings: dict[str, list[dict[str, Any]]]
) -> None:
    (split,) = findings["split"]
    assert (split["id"], split["severity"]) == ("repaired-split", "warning")
    both = [_states(late.files("split"), late.now_s - age_s) for age_s in ROUNDS_S]
    assert both == [{True, False}] * len(ROUNDS_S)
    starts_s = {(late.now_s - age_s) // WINDOW_S * WINDOW_S for age_s in ROUNDS_S}
    missed_s = (late.now_s - TABLES["split"][0]) // WINDOW_S * WINDOW_S
    # A node that was stopped may still take what came meanwhile, by the clock that it had.
    assert starts_s <= set(split["facts"]["windows"]) <= starts_s | {missed_s}
    assert AWAY == 2


def _states(files: list[SSTableFacts], at_s: int) -> set[bool]:
    """Return whether files with a newest write time are repaired."""
    return {f.repaired_at_ms is not None for f in files if f.max_write_us == at_s * 1_000_000}
