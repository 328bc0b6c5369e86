"""Healthy tables, and nothing that is said about them."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.core.design_cases import workloads
from tests.doctor.checks.tables import (
    DAY_S,
    HOUR_S,
    NOW_S,
    UCS_PATH,
    days,
    histograms,
    node,
    ours,
    percentiles,
    planned,
    schema,
    sstable,
    table,
)
from treering.core.design import plan_design
from treering.core.window import plan_window
from treering.core.workload import Workload
from treering.doctor.checks import lint_table
from treering.doctor.checks.partitions import check_partitions
from treering.doctor.checks.sstables import check_sstables
from treering.doctor.facts import ColumnFacts, SchemaFacts, TableFacts
from treering.doctor.finding import Finding
from treering.doctor.thresholds import Thresholds
from treering.errors import DesignError

LIMITS = Thresholds()


def found(facts: TableFacts) -> tuple[Finding, ...]:
    """Return the findings of the lints and of the two checks of this package's own."""
    own = check_partitions(facts, LIMITS).findings + check_sstables(facts, LIMITS).findings
    return own + lint_table(facts, LIMITS)


def catalog(key: str, clustering: str, comment: str) -> SchemaFacts:
    """Return the schema of a table of treering's catalog, with Cassandra's defaults."""
    return schema(
        {
            "class": "org.apache.cassandra.db.compaction.SizeTieredCompactionStrategy",
            "max_threshold": "32",
            "min_threshold": "4",
        },
        key=key,
        clustering=clustering,
        default_time_to_live=0,
        gc_grace_seconds=864_000,
        read_repair="BLOCKING",
        comment=comment,
    )


UCS_TABLE = schema(
    {"class": UCS_PATH}, default_time_to_live=0, gc_grace_seconds=864_000, read_repair="BLOCKING"
)

HEALTHY = {
    "rows in thirty windows of a day": table(),
    "rows whose last windows still have two files": table(
        schema(), node((*days(), sstable(id="31"), sstable(id="32", start_s=NOW_S - 2 * DAY_S)))
    ),
    "no file yet": table(schema(), node()),
    "UCS without TTL": table(UCS_TABLE, node(days(ttl_s=0))),
    "a table that treering made": ours(planned()),
    "a table that treering made for ever": ours(planned(retention_s=None), node(days(ttl_s=0))),
    "a table that treering made for readings that are deleted": ours(
        planned(deletes=True), read_repair="BLOCKING"
    ),
    "a table that treering made for two days": ours(
        planned(retention_s=2 * DAY_S),
        node(
            sstable(
                start_s=NOW_S - HOUR_S * n,
                end_s=NOW_S - HOUR_S * n + 3_599,
                id=str(n),
                ttl_s=2 * DAY_S,
                mtime_s=NOW_S,
            )
            for n in range(1, 20)
        ),
    ),
    "reads that touch few files": table(
        schema(), node(days(), histograms=histograms(percentiles(1, 3, 8)))
    ),
    "reads of nothing yet": table(
        schema(), node(days(), histograms=histograms(percentiles(None, None, None)))
    ),
    "many series on their first day": table(
        schema(key="series text, day date"),
        node([sstable(start_s=NOW_S - HOUR_S, end_s=NOW_S, sizes=((1_800, 20_000),))]),
    ),
    "the catalog's index of buckets": table(
        catalog(
            "table_name text, incarnation int, series text, era text",
            "start timestamp desc, width text",
            "buckets of treering tables that may hold readings",
        ),
        node(days(ttl_s=0)),
    ),
    "the catalog's list of series": table(
        catalog(
            "table_name text, incarnation int, shard int",
            "version int, series text",
            "series of treering tables",
        ),
        node(days(ttl_s=0)),
    ),
    "a table that only its files describe": table(
        SchemaFacts(
            table_id="",
            partition_key=(ColumnFacts(name="key", type="text"),),
            clustering=(ColumnFacts(name="column1", type="timestamp"),),
            columns=(),
            options=None,
        )
    ),
    "nothing but a name": TableFacts(
        keyspace="plant", table="readings", schema=None, nodes=(node(days()),)
    ),
}


@pytest.mark.parametrize("facts", HEALTHY.values(), ids=HEALTHY)
def test_nothing_is_said_of_a_healthy_table(facts: TableFacts) -> None:
    assert found(facts) == ()
    is_known = facts.schema is not None and facts.schema.options is not None
    wanted = "ok" if is_known else "unknown"
    assert check_partitions(facts, LIMITS).status == wanted
    assert check_sstables(facts, LIMITS).status == wanted


def test_checks_without_facts_are_unknown_and_say_what_would_help() -> None:
    facts = table(schema(), node(None))
    for check in (check_partitions(facts, LIMITS), check_sstables(facts, LIMITS)):
        assert check.status == "unknown"
        assert "nodetool" in check.unknown
    assert found(facts) == ()


def test_the_four_numbers_stand_in_the_summaries() -> None:
    facts = table(schema(), node(days(), histograms=histograms(percentiles(1, 3, 8))))
    assert check_partitions(facts, LIMITS).summary == (
        "largest partition at most 2.82 MB, p99 at most 2.82 MB, at most 88,148 cells "
        "(in one file; others may hold more of it); ceiling 100 MB"
    )
    assert check_sstables(facts, LIMITS).summary == (
        "half of the reads touch at most 1, 99 % at most 3 files, the worst 8; "
        "30 files in 30 windows"
    )


@given(st.integers(min_value=1_200, max_value=10 * 365 * DAY_S))
def test_the_windows_of_every_design_are_healthy(retention_s: int) -> None:
    # What the designer gives, the doctor must not find fault with.
    window = plan_window(retention_s)
    compaction = {
        "class": "org.apache.cassandra.db.compaction.TimeWindowCompactionStrategy",
        "compaction_window_unit": window.unit,
        "compaction_window_size": str(window.size),
    }
    facts = table(schema(compaction, default_time_to_live=retention_s), node())
    assert [one.id for one in lint_table(facts, LIMITS) if one.id != "expiry-cap"] == []


@given(workloads())
def test_what_treering_makes_is_healthy(load: Workload) -> None:
    try:
        design = plan_design(load, now_s=NOW_S)
    except DesignError:
        assume(False)
    facts = ours(design, node(version=load.cassandra))
    # A design is refused where the cap is less than a year away, and a year is the horizon.
    assert found(facts) == ()


def test_a_partition_of_a_design_is_bounded_over_the_files_that_may_share_it() -> None:
    assert check_partitions(ours(planned()), LIMITS).summary == (
        "largest partition at most 2.82 MB, p99 at most 2.82 MB, at most 88,148 cells "
        "(in one file; at most 5.63 MB in the 2 that may share it); ceiling 100 MB"
    )
