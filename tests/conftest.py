"""Fixtures and settings of the whole suite."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

from tests.cassandra_fixtures import (
    PROGRAMS,
    cassandra_keyspace,
    cassandra_node,
    cassandra_of,
    cassandra_programs,
    cassandra_ring,
    cassandra_session,
)

__all__ = [
    "cassandra_keyspace",
    "cassandra_node",
    "cassandra_of",
    "cassandra_programs",
    "cassandra_ring",
    "cassandra_session",
]

# Without a deadline: a busy machine is no fault of the code.
settings.register_profile("dev", deadline=None)
settings.register_profile(
    "ci", deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("ci" if os.environ.get("CI") == "true" else "dev")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test that asks for a node, so that ``-m 'not cassandra'`` finds them all."""
    for item in items:
        if PROGRAMS in getattr(item, "fixturenames", ()):
            item.add_marker("cassandra")
