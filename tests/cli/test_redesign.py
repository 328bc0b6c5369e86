"""``treering design --table cassandra://…``: addresses, and what may be stated beside them."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from treering.cli.main import app
from treering.cli.redesign import split_table
from treering.errors import UsageError


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
