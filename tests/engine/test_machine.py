"""Several clients of one store behave as the model says: on SQLite, and bounded on Cassandra."""

from __future__ import annotations

import tempfile

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

import treering
from tests.engine.machine import StoreMachine, opener
from treering.store import Store

CHECKS = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


class SqliteMachine(StoreMachine):
    """Clients of one folder."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()

    def open_client(self, clock: treering.ManualClock) -> Store:
        return opener(self._folder.name)(clock)

    def close_all(self) -> None:
        self._folder.cleanup()


def test_clients_of_a_folder_behave_as_the_model_says() -> None:
    run_state_machine_as_test(
        SqliteMachine,
        settings=settings(
            max_examples=25, stateful_step_count=30, deadline=None, suppress_health_check=CHECKS
        ),
    )


def test_clients_of_a_node_behave_as_the_model_says(cassandra_keyspace: str) -> None:
    class CassandraMachine(StoreMachine):
        """Clients of one keyspace; its server counts lifetimes by the real clock."""

        def open_client(self, clock: treering.ManualClock) -> Store:
            return opener(cassandra_keyspace)(clock)

        def expired(self, rows: dict[int, dict[str, object]], ts: int) -> None:
            """Keep the reading: on Cassandra expiry is the server's, and reads are clipped."""

    run_state_machine_as_test(
        CassandraMachine,
        settings=settings(
            max_examples=3, stateful_step_count=20, deadline=None, suppress_health_check=CHECKS
        ),
    )
