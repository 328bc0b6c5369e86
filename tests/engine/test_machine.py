"""Several clients of one store behave as the model says: on SQLite, and bounded on Cassandra."""

from __future__ import annotations

import tempfile

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

import treering
from tests.engine.machine import StoreMachine, opener
from tests.engine.sealing import ALWAYS, END_S
from treering.engine.protocol import SealingEngine
from treering.engine.sqlite.block_table import SealRules
from treering.store import Store

CHECKS = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


class SqliteMachine(StoreMachine):
    """Clients of one folder, who seal whenever it pleases them."""

    seal_rules = SealRules()

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()

    def open_client(self, clock: treering.ManualClock) -> Store:
        return treering.open(self._folder.name, clock=clock, rules=self.seal_rules)

    @rule(client=st.integers(0, 2), is_all=st.booleans())
    def seal(self, client: int, is_all: bool) -> None:
        """Seal what is closed, or all that there is; no read may notice."""
        table = self.tables[client]
        engine = table._context.engine
        assert isinstance(engine, SealingEngine)
        now_s = END_S if is_all else self.now_ms(client) // 1_000
        assert engine.seal(table.spec, now_s=now_s).problems == ()

    def close_all(self) -> None:
        self._folder.cleanup()


class SmallBlocksMachine(SqliteMachine):
    """Blocks of few readings, and every second of them cut."""

    seal_rules = ALWAYS


class AtOnceMachine(SqliteMachine):
    """Every write is packed at once."""

    seal_rules = SealRules(
        bulk_rows=1, rows_min=1, block_rows_max=4, block_rows_full=2, span_s=3_600
    )


@pytest.mark.parametrize("machine", [SqliteMachine, SmallBlocksMachine, AtOnceMachine])
def test_clients_of_a_folder_behave_as_the_model_says(machine: type[SqliteMachine]) -> None:
    run_state_machine_as_test(
        machine,
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
