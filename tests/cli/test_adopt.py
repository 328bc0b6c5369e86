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
    insert = cassandra_session.prepare(
        f"INSERT INTO {place} (device, day, at, temp) "
        "VALUES (?, '2026-11-30', '2026-11-30T13:00:00Z', 1.5)"
    )
    devices = [f"d{number:04d}" for number in range(1_100)]
    sent = [cassandra_session.execute_async(insert, (device,)) for device in devices]
    for future in sent:
        future.result()
    store = ("--store", cassandra_keyspace)
    moment = ("--width", "day", "--retention", "30d", "--now", "2026-11-30T14:00Z")
    planned = document(run("adopt", place, *moment, *store, "--json"))
    assert (planned["adopted"], planned["table"], planned["width"]) == (False, "device_log", "day")
    assert planned["sampled"]["rows"] == planned["sampled"]["partitions"] > 0
    run("info", "device_log", *store, exit_code=2)
    adopted = document(run("adopt", place, *moment, *store, "--yes", "--json"))
    assert adopted | {"adopted": False} == planned
    assert document(run("info", "device_log", *store, "--json"))["adopted"] is not None
    # It has no TTL: how long it is kept stands in the catalog alone.
    at_table = cassandra_keyspace.replace("?", "/device_log?")
    designed = document(run("design", "--table", at_table, "--rate", "1/min", "--json"))
    assert "kept 30d, as treering's catalog says" in designed["sources"]
    assert designed["workload"]["retention_s"] == 30 * 86_400

    assert document(run("series", "device_log", *store, "--json"))["series"] == []
    nothing = run("export", "device_log", "--csv", "log.csv", *store, exit_code=2)
    assert "--scan" in nothing.stderr
    # A scan ends with the page in which it reaches its bound.
    scan = ("series", "device_log", "--scan", "--scan-max", "10", *store)
    part = document(run(*scan, "--json", exit_code=3))
    token = part["scan"]["next_token"]
    assert part["scan"] == {"found": 1_000, "partitions": 1_000, "unnamed": 0, "next_token": token}
    assert part["series"] == sorted(part["series"])
    assert len(part["series"]) == 1_000
    assert f"go on with --scan-from={token}" in run(*scan, exit_code=3).stderr
    rest = run(*scan, f"--scan-from={token}")
    assert rest.stdout.splitlines() == devices
    assert "100 series in 100 partitions; that was all" in rest.stderr
    choice = ("--prefix", "d000", "--start", "2026-11-30")
    at = ("--now", "2026-11-30T14:00Z")
    read = document(run("read", "device_log", *choice, *at, *store, "--json"))
    assert read["series"] == dict.fromkeys(devices[:10], 1)

    export = ("export", "device_log", "--parquet", "log.parquet", *at, *store)
    assert document(run(*export, "--json"))["readings"] == 1_100
    run("create", "copy", "--rate", "1/s", "--retention", "30d", "--columns", "temp:double", *store)
    run("import", "copy", "log.parquet", *at, *store)
    copied = document(run("read", "copy", *choice, *at, *store, "--json"))
    assert copied["readings"] == read["readings"]
