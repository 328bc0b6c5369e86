"""``treering design --table cassandra://…``: addresses, and what may be stated beside them."""

from __future__ import annotations

import json
import shlex

import numpy as np
import pytest
from cassandra.cluster import Session
from typer.testing import CliRunner

import treering
from treering.cli.main import app
from treering.cli.redesign import split_table
from treering.errors import UsageError
from treering.testing import LocalCassandra


def test_an_address_of_a_table_is_that_of_its_keyspace_and_a_name() -> None:
    assert split_table("cassandra://a:9,b/plant/readings?local_dc=dc1") == (
        "cassandra://a:9,b/plant?local_dc=dc1",
        "plant",
        "readings",
    )


@pytest.mark.parametrize(
    "url", ["cassandra://a/plant", "cassandra://a", "http://a/b/c", "x://a/b/c/d"]
)
def test_another_address_is_refused_without_its_secrets(url: str) -> None:
    secret = url.replace("://", "://user:secret@")
    with pytest.raises(UsageError, match="is no address of a table") as raised:
        split_table(secret)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--table", "cassandra://a/b/c", "--retention", "9d"), "--retention is what the table"),
        (("--table", "cassandra://a/b/c", "--columns", "a:int"), "--columns is what the table"),
        (("--table", "cassandra://a/b"), "is no address of a table"),
        (("--rate", "1/s", "--retention", "9d", "--files", "x"), "--files goes with the address"),
        (("--rate", "1/s"), "no retention was stated"),
    ],
)
def test_what_does_not_go_together_is_refused(arguments: tuple[str, ...], message: str) -> None:
    result = CliRunner().invoke(app, ["design", *arguments, "--json"])
    assert result.exit_code == 2
    assert message in json.loads(result.stderr)["error"]


@pytest.mark.cassandra
def test_what_a_table_has_stands_beside_what_its_rate_asks_for(
    cassandra_node: LocalCassandra, cassandra_keyspace: str
) -> None:
    keyspace = cassandra_keyspace.partition("?")[0].rpartition("/")[2]
    now = np.datetime64("now", "ms")
    # Asked for a reading a second, and given one a minute.
    with treering.open(cassandra_keyspace) as store:
        table = store.create("readings", rate="1/s", retention="30d")
        times = now - np.arange(2_000) * np.timedelta64(1, "m")
        table.write("pump-7", times, value=np.arange(2_000.0))
        table.add_series("pump-8", bucket="hour")
        # Half an hour of a reading a second, in a bucket of a day.
        fast = store.create("fast", rate="1/s", retention="30d")
        fast.write("pump-7", now - np.arange(2_000) * np.timedelta64(1, "s"), value=np.ones(2_000))
    cassandra_node.flush(keyspace)
    place, _, options = cassandra_keyspace.partition("?")
    asked = ["design", "--table", f"{place}/readings?{options}", "--rate", "1/min"]
    result = CliRunner().invoke(app, [*asked, "--json"])
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert "month" in json.dumps(found["design"])
    assert "kept 30d, as treering's catalog says" in found["sources"]
    assert "2 series, as treering's catalog says" in found["sources"]
    assert any("catalog says: 1 series by hour" in one for one in found["sources"])
    assert result.stderr == ""
    shown = CliRunner().invoke(app, asked)
    assert shown.exit_code == 0, shown.stderr
    assert "month" in shown.stdout
    assert "Traceback" not in shown.stdout
    files = ["--files", str(cassandra_node.data_folders()[0])]
    by_files = CliRunner().invoke(app, [*asked[:3], *files, "--json"])
    assert by_files.exit_code == 0, by_files.stderr
    minutely = json.loads(by_files.stdout)
    assert minutely["workload"]["rate_hz"] == pytest.approx(1 / 60, rel=0.01)
    assert "event times over 1d9h" in minutely["sources"][0]
    one_table = ["design", "--table", f"{place}/fast?{options}", *files, "--json"]
    by_second = json.loads(CliRunner().invoke(app, one_table).stdout)
    assert by_second["workload"]["rate_hz"] == pytest.approx(1, rel=0.01)
    assert by_second["sources"][0].endswith("of 1d, event times over 33m20s")
    assert by_second["alters"] == []


@pytest.mark.cassandra
def test_the_command_that_the_doctor_prints_runs_as_it_stands(
    cassandra_keyspace: str, cassandra_session: Session
) -> None:
    place, _, options = cassandra_keyspace.partition("?")
    keyspace = place.rpartition("/")[2]
    for name, clustering in (("nobucket", "ts"), ("twoclu", "metric, ts")):
        cassandra_session.execute(
            f"CREATE TABLE {keyspace}.{name} (sensor text, metric text, ts timestamp, value double,"
            f" PRIMARY KEY (sensor, {clustering}))"
        )
    found = CliRunner().invoke(app, ["doctor", "check", cassandra_keyspace, "--json"])
    commands = {
        one["table"].partition(".")[2]: one["commands"][0]
        for one in json.loads(found.stdout)["findings"]
        if one["id"] == "unbounded-partition"
    }
    program, *words = shlex.split(commands["nobucket"])
    assert program == "treering"
    designed = CliRunner().invoke(app, [*words, "--rate", "1/s"])
    assert designed.exit_code == 0, designed.stderr
    assert f"CREATE TABLE {keyspace}.nobucket_new" in designed.stdout
    # A copy by series and time alone would keep one row of all metrics of an instant.
    assert "--table" not in commands["twoclu"]
    refused = ["design", "--table", f"{place}/twoclu?{options}", "--rate", "1/s"]
    result = CliRunner().invoke(app, refused)
    assert result.exit_code == 2
    assert "clusters by metric, ts" in result.stderr
    assert "CREATE TABLE" not in result.stdout
