"""Cures on a real node: it takes the statements, and the finding is gone after them."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.doctor.checks.tables import DAY_S, days, node
from treering.core.ddl import render_create_table
from treering.core.design import Workload, plan_design
from treering.core.schema import parse_columns
from treering.doctor.checks import lint_table
from treering.doctor.checks.key_shape import key_shape_of
from treering.doctor.facts import ColumnFacts, SchemaFacts, TableFacts
from treering.doctor.finding import Finding
from treering.doctor.redesign import plan_redesign
from treering.doctor.thresholds import Thresholds

if TYPE_CHECKING:
    from cassandra.cluster import Session

pytestmark = pytest.mark.cassandra

TWCS = "'class': 'TimeWindowCompactionStrategy'"
GOOD = (
    f"compaction = {{{TWCS}, 'compaction_window_unit': 'DAYS', 'compaction_window_size': '1'}} "
    "AND default_time_to_live = 2592000 AND gc_grace_seconds = 86400 AND read_repair = 'NONE'"
)
UCS = "'class': 'UnifiedCompactionStrategy'"

# Finding → the options of a table that has it, over those of a good one.
SICK = {
    "too-many-windows": GOOD.replace("'DAYS'", "'HOURS'"),
    "too-few-windows": GOOD.replace(
        "'compaction_window_size': '1'", "'compaction_window_size': '9'"
    ),
    "zero-grace": GOOD.replace("86400", "0"),
    "short-grace": GOOD.replace("86400", "60"),
    "read-repair-on-twcs": GOOD.replace("NONE", "BLOCKING"),
    "no-default-ttl": GOOD.replace("2592000", "0"),
    "compaction-disabled": GOOD.replace(f"{{{TWCS}", f"{{'enabled': 'false', {TWCS}"),
    "timestamp-resolution": GOOD.replace(
        f"{{{TWCS}", f"{{'timestamp_resolution': 'MILLISECONDS', {TWCS}"
    ),
    "inert-option": f"compaction = {{{UCS}, 'tombstone_threshold': '0.5', "
    "'unchecked_tombstone_compaction': 'true', 'scaling_parameters': 'T8'}",
    "expiry-cap": GOOD.replace("2592000", str(12 * 365 * DAY_S)).replace(
        "_size': '1'", "_size': '150'"
    ),
}
HEALTHY = {
    "windows of a day": GOOD,
    "unified": f"compaction = {{{UCS}}}",
    "size-tiered": "compaction = {'class': 'SizeTieredCompactionStrategy', 'bucket_low': '0.4'}",
    "leveled": "compaction = {'class': 'LeveledCompactionStrategy', 'sstable_size_in_mb': '200'}",
    "all of unified": f"compaction = {{{UCS}, 'scaling_parameters': 'T4, L8', "
    "'target_sstable_size': '512MiB', 'min_sstable_size': '50MiB', 'base_shard_count': '4', "
    "'sstable_growth': '0.5', 'max_sstables_to_compact': '32', "
    "'overlap_inclusion_method': 'SINGLE', 'expired_sstable_check_frequency_seconds': '60', "
    "'log_all': 'true', 'only_purge_repaired_tombstones': 'false', "
    "'provide_overlapping_tombstones': 'row'}",
}


def keyspace_of(url: str) -> str:
    """Return the keyspace of a store's URL."""
    return url.rpartition("/")[2].partition("?")[0]


def seen(session: Session, keyspace: str, name: str) -> TableFacts:
    """Return a table as a node describes it, with files of a month."""
    options = session.execute(
        "SELECT * FROM system_schema.tables WHERE keyspace_name = %s AND table_name = %s",
        [keyspace, name],
    ).one()
    rows = session.execute(
        "SELECT * FROM system_schema.columns WHERE keyspace_name = %s AND table_name = %s",
        [keyspace, name],
    )
    by_kind: dict[str, list[tuple[int, ColumnFacts]]] = {}
    for row in rows:
        is_descending = row.clustering_order == "desc"
        column = ColumnFacts(name=row.column_name, type=row.type, is_descending=is_descending)
        by_kind.setdefault(row.kind, []).append((row.position, column))
    ordered = {
        kind: tuple(column for _, column in sorted(found, key=lambda pair: pair[0]))
        for kind, found in by_kind.items()
    }
    schema = SchemaFacts(
        table_id=options.id.hex,
        partition_key=ordered["partition_key"],
        clustering=ordered.get("clustering", ()),
        columns=ordered.get("regular", ()),
        options={
            key: dict(value) if hasattr(value, "items") else value
            for key, value in options._asdict().items()
        },
    )
    now_s = int(time.time())
    month = node(days(), collected_at_s=now_s)
    return TableFacts(keyspace=keyspace, table=name, schema=schema, nodes=(month,))


def lints(facts: TableFacts) -> tuple[Finding, ...]:
    """Return what the lints find."""
    return lint_table(facts, Thresholds())


def make(session: Session, keyspace: str, name: str, options: str) -> None:
    """Create a table of readings with some options."""
    session.execute(
        f'CREATE TABLE {keyspace}."{name}" (series text, day date, ts timestamp, value double, '
        f"PRIMARY KEY ((series, day), ts)) WITH CLUSTERING ORDER BY (ts DESC) AND {options}"
    )


def test_a_node_takes_every_cure_and_then_nothing_is_found(
    cassandra_session: Session, cassandra_keyspace: str
) -> None:
    keyspace = keyspace_of(cassandra_keyspace)
    for wanted, options in SICK.items():
        # A name that needs quotes, in every statement.
        name = wanted.replace("-", "_").title()
        make(cassandra_session, keyspace, name, options)
        (one,) = lints(seen(cassandra_session, keyspace, name))
        assert one.id == wanted
        statements = [command for command in one.commands if command.startswith("ALTER ")]
        assert statements
        for statement in statements:
            cassandra_session.execute(statement)
        left = lints(seen(cassandra_session, keyspace, name))
        # A TTL that is within the cap again needs windows of its own.
        assert [f.id for f in left if f.id != "too-few-windows"] == [], wanted


def test_tables_of_a_node_with_options_that_are_right_yield_nothing(
    cassandra_session: Session, cassandra_keyspace: str
) -> None:
    keyspace = keyspace_of(cassandra_keyspace)
    for number, options in enumerate(HEALTHY.values()):
        make(cassandra_session, keyspace, f"good_{number}", options)
        assert lints(seen(cassandra_session, keyspace, f"good_{number}")) == (), options


def test_a_design_that_was_altered_by_hand_is_restored(
    cassandra_session: Session, cassandra_keyspace: str
) -> None:
    keyspace = keyspace_of(cassandra_keyspace)
    load = Workload(rate_hz=1, columns=parse_columns("value:double"), retention_s=30 * DAY_S)
    design = plan_design(load, now_s=int(time.time()))
    cassandra_session.execute(render_create_table(design, keyspace=keyspace, table="readings"))
    facts = seen(cassandra_session, keyspace, "readings")
    assert lints(facts) == ()
    assert key_shape_of(facts).width_s == DAY_S
    cassandra_session.execute(f"ALTER TABLE {keyspace}.readings WITH gc_grace_seconds = 864000")
    (one,) = lints(seen(cassandra_session, keyspace, "readings"))
    assert one.id == "comment-contradicts"
    cassandra_session.execute(one.commands[0])
    assert lints(seen(cassandra_session, keyspace, "readings")) == ()


def test_a_redesign_is_taken_and_leaves_nothing_to_alter(
    cassandra_session: Session, cassandra_keyspace: str
) -> None:
    keyspace = keyspace_of(cassandra_keyspace)
    make(cassandra_session, keyspace, "by_hand", "default_time_to_live = 2592000")
    facts = seen(cassandra_session, keyspace, "by_hand")
    found = plan_redesign(facts)
    assert found.alters
    for statement in found.alters:
        cassandra_session.execute(statement)
    after = plan_redesign(seen(cassandra_session, keyspace, "by_hand"))
    assert after.alters == ()
    assert [one.what for one in after.compared if one.change == "alter"] == []
    unbucketed = replace(facts, schema=_without_bucket(facts))
    cassandra_session.execute(plan_redesign(unbucketed).create)


def _without_bucket(facts: TableFacts) -> SchemaFacts:
    assert facts.schema is not None
    return replace(facts.schema, partition_key=facts.schema.partition_key[:1])
