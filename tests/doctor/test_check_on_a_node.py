"""The whole doctor on a real node: address, folder, bundle and script, sick and healthy."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from treering.cli.main import app
from treering.testing import LocalCassandra

if TYPE_CHECKING:
    from cassandra.cluster import Session

DAY_S = 86_400
TABLE = (
    "(series text, bucket text, ts timestamp, value double, "
    "PRIMARY KEY ((series, bucket), ts)) WITH CLUSTERING ORDER BY (ts DESC) "
    "AND default_time_to_live = {ttl_s} AND gc_grace_seconds = {grace_s} AND read_repair = 'NONE' "
    "AND compaction = {{'class': 'TimeWindowCompactionStrategy', "
    "'compaction_window_unit': 'DAYS', 'compaction_window_size': '3'}}"
)


def doctor(*arguments: object, exit_code: int) -> str:
    result = CliRunner().invoke(app, ["doctor", *map(str, arguments)])
    assert result.exit_code == exit_code, f"{result.stdout}\n{result.stderr}"
    return result.stdout


def day_of(time_s: int) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(time_s))


def nodetool_of(node: LocalCassandra, folder: Path) -> str:
    """Return a program that is nodetool of a node."""
    program = folder / "nodetool"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(node.nodetool_command())} "$@"\n')
    program.chmod(0o700)
    return str(program)


def keyspace_of(url: str) -> str:
    return url.partition("?")[0].rpartition("/")[2]


@pytest.fixture
def tables(
    cassandra_node: LocalCassandra, cassandra_session: Session, cassandra_keyspace: str
) -> str:
    """Return the address of a keyspace with a healthy table and one that a row keeps on disk."""
    keyspace, now_s = keyspace_of(cassandra_keyspace), int(time.time())
    run = cassandra_session.execute
    for name, grace_s in (("well", 10_800), ("kept", 0)):
        options = TABLE.format(ttl_s=90 * DAY_S, grace_s=grace_s)
        run(f"CREATE TABLE {keyspace}.{name} {options}")
    for n in range(60):
        run(
            f"INSERT INTO {keyspace}.well (series, bucket, ts, value) "
            f"VALUES ('p{n % 3}', '{day_of(now_s - n * 100)}', {(now_s - n * 100) * 1_000}, {n}.5)"
        )
    run(
        f"INSERT INTO {keyspace}.kept (series, bucket, ts, value) VALUES ('p', '2026-11-01', 5, 1) "
        f"USING TTL 0 AND TIMESTAMP {(now_s - 20 * DAY_S) * 1_000_000}"
    )
    cassandra_node.flush(keyspace)
    for n in range(3):
        written_us = (now_s - (15 - 4 * n) * DAY_S) * 1_000_000
        run(
            f"INSERT INTO {keyspace}.kept (series, bucket, ts, value) "
            f"VALUES ('p', '{day_of(now_s + n * DAY_S)}', {n}, 1) "
            f"USING TTL 1 AND TIMESTAMP {written_us}"
        )
        cassandra_node.flush(keyspace, "kept")
    time.sleep(2.5)  # The TTL is a second, and must be past by more than one.
    return cassandra_keyspace


def test_from_address_folder_bundle_and_script_the_same_file_is_found_to_keep_the_others(
    cassandra_node: LocalCassandra,
    cassandra_session: Session,
    tables: str,
    tmp_path: Path,
) -> None:
    keyspace = keyspace_of(tables)
    (folder,) = cassandra_node.data_folders()
    bundle, page = tmp_path / "b.tar.gz", tmp_path / "r.html"

    text = doctor("check", tables, folder, "--html", page, exit_code=4)
    assert f"{keyspace}.well: healthy" in text
    assert text.index("no-ttl-blocks") < text.index(f"{keyspace}.well")
    assert page.read_text().count("<svg") >= 4

    command = nodetool_of(cassandra_node, tmp_path)
    asked = ("--nodetool", command, "--table", "well", "--json")
    document = json.loads(doctor("check", tables, folder, *asked, exit_code=0))
    assert document["healthy"] is True
    assert document["missing"] == []
    doctor("collect", tables, folder, "-o", bundle, exit_code=0)
    documents = [
        json.loads(doctor("check", *targets, "--json", exit_code=4))
        for targets in ([tables, folder], [bundle])
    ]
    for document in documents:
        assert_one_file_keeps_three(document)
        well = [one for one in document["tables"] if one["table"].endswith(".well")]
        assert [one["healthy"] for one in well] == [True]

    script, made = tmp_path / "collect.sh", tmp_path / "s.tar.gz"
    script.write_text(doctor("collect", "--script", exit_code=0))
    subprocess.run(
        ["sh", str(script), "-k", keyspace, "-o", str(made), str(folder)],
        check=True,
        capture_output=True,
        timeout=300,
        env={**os.environ, "NODETOOL": nodetool_of(cassandra_node, tmp_path)},
    )
    cluster = cassandra_session.cluster.metadata.keyspaces[keyspace]
    schema = tmp_path / "schema.cql"
    schema.write_text(cluster.tables["kept"].export_as_string())
    known = doctor("check", made, "--table", "kept", "--schema", schema, "--json", exit_code=4)
    document = json.loads(known)
    assert_one_file_keeps_three(document)
    assert [line for line in document["missing"] if "nodetool" in line] == []


def assert_one_file_keeps_three(document: dict[str, Any]) -> None:
    (sick,) = [one for one in document["tables"] if one["table"].endswith(".kept")]
    assert "no-ttl-blocks" in {one["id"] for one in sick["findings"]}
    (blocker,) = {path for file in sick["files"] for path in file["blocked_by"]}
    (never,) = [file["path"] for file in sick["files"] if file["max_deletion_s"] is None]
    assert blocker == never
    assert len(sick["files"]) == 4


def test_a_node_that_does_not_answer_is_a_line_and_the_folder_is_still_checked(
    cassandra_node: LocalCassandra, tables: str
) -> None:
    (folder,) = cassandra_node.data_folders()
    keyspace = keyspace_of(tables)
    gone = f"cassandra://127.0.0.1:1/{keyspace}?local_dc=datacenter1"
    text = doctor("check", gone, folder, "--table", "well", exit_code=3)
    assert f"{keyspace}.well: not fully known" in text
    assert "127.0.0.1:1" in text
    result = CliRunner().invoke(app, ["doctor", "check", gone])
    assert result.exit_code == 1
    assert result.stderr.startswith("error: connecting to 127.0.0.1:1 found no node")


def test_sizes_of_a_running_node_are_sampled(
    cassandra_node: LocalCassandra, tables: str, tmp_path: Path
) -> None:
    (folder,) = cassandra_node.data_folders()
    text = doctor("watch", tables, folder, "--store", tmp_path / "disk", "--once", exit_code=0)
    assert f"{keyspace_of(tables)}.kept: unknown" in text
    assert "never leave" in text or "ever leave" in text
