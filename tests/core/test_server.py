"""Versions of Cassandra and what each of them has."""

from __future__ import annotations

import pytest

from treering.core.server import ServerVersion, check_has_twcs
from treering.errors import DesignError


@pytest.mark.parametrize("text", ["2.2", "3.0.7", "3.1", "3.6", "3.7"])
def test_a_server_without_twcs_is_refused_with_the_reason(text: str) -> None:
    with pytest.raises(DesignError, match=r"no TimeWindowCompactionStrategy.*3\.0\.8.*3\.8"):
        check_has_twcs(ServerVersion.from_text(text))


@pytest.mark.parametrize("text", ["3.0.8", "3.8", "3.11", "3.11.19", "4.0", "4.1.10", "5.0"])
def test_a_server_with_twcs_is_taken(text: str) -> None:
    version = ServerVersion.from_text(text)
    check_has_twcs(version)
    assert str(version) == text


@pytest.mark.parametrize("text", ["", "five", "5", "4.1-rc1", "5.0.1.2"])
def test_a_text_that_is_no_version_is_named(text: str) -> None:
    with pytest.raises(DesignError, match="not a version") as raised:
        ServerVersion.from_text(text)
    assert "3.11" in raised.value.hint


def test_a_version_whose_rules_are_unknown_is_not_taken_for_its_neighbour() -> None:
    with pytest.raises(DesignError, match=r"6\.0 is newer"):
        ServerVersion.from_text("6.0")


@pytest.mark.parametrize(
    ("text", "checks"),
    [
        ("3.0.15", False),
        ("3.0.16", True),
        ("3.9", False),
        ("3.11.1", False),
        ("3.11.2", True),
        ("3.11", True),
        ("4.0", True),
        ("2.2", False),
    ],
)
def test_old_versions_overflow_instead_of_refusing_an_expiry(text: str, checks: bool) -> None:
    assert ServerVersion.from_text(text).checks_expiry_cap is checks


def test_options_follow_the_version() -> None:
    assert ServerVersion.from_text("4.0").has_read_repair_option
    assert not ServerVersion.from_text("3.11").has_read_repair_option
    assert ServerVersion.from_text("5.0").has_ucs
    assert not ServerVersion.from_text("4.1").has_ucs
