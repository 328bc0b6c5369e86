"""``treering adopt`` where there is nothing to adopt; the command itself runs in its how-to."""

from __future__ import annotations

import json

from tests.cli.conftest import Run


def test_folder_has_no_tables_of_others(run: Run, table: str) -> None:
    result = run("adopt", "iot.sensor_data", exit_code=2)
    assert "sqlite engine has no tables of others" in result.stderr
    assert "cassandra://host/keyspace" in result.stderr
    failure = json.loads(run("adopt", "t", "--json", exit_code=2).stderr)
    assert failure["kind"] == "UsageError"


def test_series_of_a_table_of_treering_are_not_scanned_for(run: Run, table: str) -> None:
    result = run("series", table, "--scan", exit_code=2)
    assert "treering's own: all its series are listed" in result.stderr
