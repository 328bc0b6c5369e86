"""``treering grants``: what is printed, and what is refused without a server being asked."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Run, document

STORE = "cassandra://10.0.0.5/plant"


def test_grants_are_printed_one_a_line_and_nothing_is_sent(run: Run) -> None:
    result = run("grants", "readings", "--role", "reader", "--store", STORE)
    lines = result.stdout.splitlines()
    assert lines[0] == "GRANT SELECT ON plant.readings TO reader;"
    assert all(line.startswith("GRANT SELECT ON plant.") for line in lines)


def test_grants_as_json(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREERING_CATALOG", "meta")
    result = run("grants", "readings", "--role", "Admin", "--to", "Ops", "--store", STORE, "--json")
    found = document(result)
    assert (found["table"], found["role"], found["to"]) == ("readings", "admin", "Ops")
    assert 'GRANT CREATE ON KEYSPACE meta TO "Ops";' in found["grants"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--role", "owner", "--store", STORE], "reader, writer, admin"),
        (["--role", "reader"], "permissions"),
        (["--role", "reader", "--store", "cassandra://h:x/plant"], "65535"),
    ],
    ids=["no such role", "a folder", "no address"],
)
def test_wrong_usage_says_what_to_do(run: Run, arguments: list[str], said: str) -> None:
    result = run("grants", "readings", *arguments, exit_code=2)
    assert said in result.stderr
