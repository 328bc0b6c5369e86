"""Odd but legal tables of a real node, and schemas of other stores: no false alarm."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from cassandra.cluster import Session
from typer.testing import CliRunner

from treering.cli.main import app
from treering.testing import LocalCassandra

HOURS: Final = (
    "compaction = {'class': 'TimeWindowCompactionStrategy', 'compaction_window_unit': 'HOURS', "
    "'compaction_window_size': '1'} AND default_time_to_live = 172800 AND gc_grace_seconds = 10800"
)
BUCKETED: Final = "series text, day date, ts timestamp, {}, PRIMARY KEY ((series, day), ts)"
# By name: columns and key, options, the values of a row, and what is found.
ODD: Final[dict[str, tuple[str, str, dict[str, object], set[str]]]] = {
    # KairosDB: the row's time is inside of a blob.
    "data_points": (
        "key blob, column1 blob, value blob, PRIMARY KEY (key, column1)",
        "",
        {"key": "0x6d6574726963", "column1": "0x00000001", "value": "0x01"},
        set(),
    ),
    # Jaeger: an index by time without a bucket is found; names of operations are no series.
    "tag_index": (
        "service text, tag text, start_time bigint, trace blob, "
        "PRIMARY KEY ((service, tag), start_time, trace)",
        f"CLUSTERING ORDER BY (start_time DESC, trace DESC) AND {HOURS}",
        {"service": "'s'", "tag": "'t'", "start_time": "1", "trace": "0x01"},
        {"unbounded-partition", "read-repair-on-twcs"},
    ),
    "operation_names": (
        "service text, operation text, PRIMARY KEY (service, operation)",
        "compaction = {'class': 'SizeTieredCompactionStrategy'} AND default_time_to_live = 172800 "
        "AND gc_grace_seconds = 10800",
        {"service": "'s'", "operation": "'o'"},
        set(),
    ),
    "dependencies": (
        "ts_bucket timestamp, ts timestamp, links list<text>, PRIMARY KEY (ts_bucket, ts)",
        "",
        {"ts_bucket": "0", "ts": "1", "links": "['a']"},
        set(),
    ),
    # ThingsBoard.
    "ts_kv_cf": (
        "entity_type text, entity_id timeuuid, key text, partition bigint, ts bigint, "
        "dbl_v double, PRIMARY KEY ((entity_type, entity_id, key, partition), ts)",
        "",
        {"entity_type": "'D'", "entity_id": "now()", "key": "'t'", "partition": "5", "ts": "6"},
        set(),
    ),
    "Statics": (
        BUCKETED.format('unit text STATIC, "Wert" double'),
        "",
        {"series": "'a'", "day": "'2026-11-30'", "ts": "1", "unit": "'C'", '"Wert"': "1"},
        set(),
    ),
    "Collections": (
        BUCKETED.format("l list<double>, m map<text, text>, t tuple<int, text>"),
        "",
        {"series": "'a'", "day": "'2026-11-30'", "ts": "1", "l": "[1]", "t": "(1, 'a')"},
        set(),
    ),
    "Indexed": (
        BUCKETED.format("v double"),
        "",
        {"series": "'a'", "day": "'2026-11-30'", "ts": "1", "v": "1"},
        set(),
    ),
    # A name that is a word of CQL, and two cures that must quote it.
    "select": (
        BUCKETED.format('"Wert" double'),
        HOURS.replace("172800", "2592000").replace("10800", "0"),
        {"series": "'a'", "day": "'2026-11-30'", "ts": "1", '"Wert"': "1"},
        {"too-many-windows", "zero-grace", "read-repair-on-twcs"},
    ),
    "empty": (BUCKETED.format("v double"), "", {}, set()),
}


@pytest.fixture(scope="module")
def keyspace(cassandra_node: LocalCassandra, cassandra_session: Session) -> Iterator[str]:
    """Yield a keyspace whose name has capital letters, with all of the tables."""
    name, run = f"Odd_{uuid.uuid4().hex[:8]}", cassandra_session.execute
    run(
        f'CREATE KEYSPACE "{name}" WITH replication = '
        "{'class': 'NetworkTopologyStrategy', 'datacenter1': 1}"
    )
    try:
        for table, (columns, options, row, _) in ODD.items():
            with_options = f" WITH {options}" if options else ""
            run(f'CREATE TABLE "{name}"."{table}" ({columns}){with_options}')
            if row:
                values = ", ".join(map(str, row.values()))
                run(f'INSERT INTO "{name}"."{table}" ({", ".join(row)}) VALUES ({values})')
        run(f'CREATE TABLE "{name}".counters ({BUCKETED.format("n counter")})')
        run(
            f'UPDATE "{name}".counters SET n = n + 1 '
            "WHERE series = 'a' AND day = '2026-11-30' AND ts = 1"
        )
        run(f'CREATE TABLE "{name}".plain (k text PRIMARY KEY, v double)')
        run(f"INSERT INTO \"{name}\".plain (k, v) VALUES ('a', 1)")
        run(f'CREATE INDEX ON "{name}"."Indexed" (v)')
        cassandra_node.flush(name)
        yield name
    finally:
        run(f'DROP KEYSPACE "{name}"')


def report(node: LocalCassandra, keyspace: str) -> dict[str, Any]:
    url = f"cassandra://127.0.0.1:{node.port}/{keyspace}?local_dc=datacenter1"
    (folder,) = node.data_folders()
    arguments = ["doctor", "check", url, str(folder), "--json"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code in (0, 4), f"{result.stdout}\n{result.stderr}"
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def found_in(document: dict[str, Any]) -> dict[str, set[str]]:
    return {
        table["table"].partition(".")[2]: {one["id"] for one in table["findings"]}
        for table in document["tables"]
    }


def test_odd_tables_are_found_as_they_are_and_cures_run_as_they_stand(
    cassandra_node: LocalCassandra, cassandra_session: Session, keyspace: str
) -> None:
    document = report(cassandra_node, keyspace)
    expected = {name: found for name, (_, _, _, found) in ODD.items()} | {"counters": set()}
    assert found_in(document) == expected
    assert document["unseen"] == []
    healthy = {name: not found for name, found in expected.items()}
    assert {t["table"].partition(".")[2]: t["healthy"] for t in document["tables"]} == healthy
    cures = [command for one in document["findings"] for command in one["commands"]]
    statements = [cure for cure in cures if cure.startswith("ALTER ")]
    assert any(f'"{keyspace}"."select"' in statement for statement in statements)
    for statement in statements:
        cassandra_session.execute(statement)
    left = {name for name, found in found_in(report(cassandra_node, keyspace)).items() if found}
    assert left == {"tag_index"}


def test_a_dropped_and_a_truncated_table_leave_the_others_well(
    cassandra_node: LocalCassandra, cassandra_session: Session, keyspace: str
) -> None:
    columns, run = BUCKETED.format("v double"), cassandra_session.execute
    run(f'CREATE TABLE "{keyspace}"."Going" ({columns})')
    run(
        f'INSERT INTO "{keyspace}"."Going" (series, day, ts, v) '
        "VALUES ('a', '2026-11-30', 1, 1)"
    )
    cassandra_node.flush(keyspace, "Going")
    assert "Going" in found_in(report(cassandra_node, keyspace))
    run(f'DROP TABLE "{keyspace}"."Going"')
    run(f'TRUNCATE "{keyspace}"."Statics"')
    document = report(cassandra_node, keyspace)
    found = found_in(document)
    assert "Going" not in found
    assert (found["Statics"], document["unseen"]) == (set(), [])
    assert list(Path(cassandra_node.data_folders()[0], keyspace).glob("Going-*"))
