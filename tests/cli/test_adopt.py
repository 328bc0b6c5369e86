"""``treering adopt`` and ``series --scan``; what people see of them runs in their how-to."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import Run, document

if TYPE_CHECKING:
    from cassandra.cluster import Session


def test_folder_has_no_tables_of_others(run: Run, table: str) -> None:
    result = run("adopt", "iot.sensor_data", exit_code=2)
    assert "sqlite engine has no tables of others" in result.stderr
    assert "cassandra://host/keyspace" in result.stderr
    failure = json.loads(run("adopt", "t", "--json", exit_code=2).stderr)
    assert failure["kind"] == "UsageError"


def test_series_of_a_table_of_treering_are_not_scanned_for(run: Run, table: str) -> None:
    result = run("series", table, "--scan", exit_code=2)
    assert "treering's own: all its series are listed" in result.stderr


@pytest.mark.cassandra
def test_adopted_table_is_one_document_and_its_series_are_scanned_for(
    run: Run, cassandra_keyspace: str, cassandra_session: Session
) -> None:
    keyspace = cassandra_keyspace.partition("?")[0].rpartition("/")[2]
    place = f"{keyspace}.device_log"
    cassandra_session.execute(
        f"CREATE TABLE {place} (device text, day date, at timestamp, temp double, "
        "PRIMARY KEY ((device, day), at))"
    )
    for device in ("d1", "d2", "d3"):
        cassandra_session.execute(
            f"INSERT INTO {place} (device, day, at, temp) "
            f"VALUES ('{device}', '2026-11-30', '2026-11-30T13:00:00Z', 1.5)"
        )
    store = ("--store", cassandra_keyspace)
    moment = ("--width", "day", "--retention", "30d", "--now", "2026-11-30T14:00Z")
    planned = document(run("adopt", place, *moment, *store, "--json"))
    assert (planned["adopted"], planned["table"], planned["width"]) == (False, "device_log", "day")
    assert planned["sampled"] == {"partitions": 3, "rows": 3}
    run("info", "device_log", *store, exit_code=2)
    adopted = document(run("adopt", place, *moment, *store, "--yes", "--json"))
    assert adopted | {"adopted": False} == planned
    assert document(run("info", "device_log", *store, "--json"))["adopted"] is not None

    assert document(run("series", "device_log", *store, "--json"))["series"] == []
    scan = ("series", "device_log", "--scan", "--scan-max", "2", *store)
    part = document(run(*scan, "--json", exit_code=3))
    assert part["scan"] == {
        "found": 2,
        "partitions": 2,
        "unnamed": 0,
        "next_token": part["scan"]["next_token"],
    }
    assert part["series"] == sorted(part["series"])
    assert len(part["series"]) == 2
    stopped = run(*scan, exit_code=3)
    assert f"go on with --scan-from={part['scan']['next_token']}" in stopped.stderr
    rest = run(*scan, f"--scan-from={part['scan']['next_token']}")
    assert rest.stdout.splitlines() == ["d1", "d2", "d3"]
    assert "1 series in 1 partitions; that was all" in rest.stderr
    read = document(
        run("read", "device_log", "--prefix", "d", "--start", "2026-11-30", *store, "--json")
    )
    assert read["series"] == {"d1": 1, "d2": 1, "d3": 1}
