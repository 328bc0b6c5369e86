"""What treering's catalog knows of a table goes before estimates, and says so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.doctor.checks.tables import (
    DAY_S,
    NOW_S,
    days,
    node,
    ours,
    planned,
    schema,
    table,
)
from treering.core.adopt_values import RATE_DEFAULT_HZ, design_of
from treering.core.bucket import BucketWidth
from treering.core.bucket_form import BucketForm
from treering.core.foreign import ForeignTable
from treering.core.layout import (
    BucketColumn,
    KeyColumn,
    KeyType,
    Layout,
    TimeColumn,
    TimeType,
)
from treering.core.table import TableSpec
from treering.doctor.catalogued import Catalogued
from treering.doctor.facts import SchemaFacts, TableStats
from treering.doctor.redesign import plan_redesign
from treering.errors import UsageError


def own(rate_hz: float = 0.1, *, series: int = 1_234) -> Catalogued:
    """Return a table of treering in its catalog."""
    design = planned(rate_hz)
    return Catalogued(spec=TableSpec(name="readings", design=design), series=series)


def adopted(
    rate_hz: float = 0.5, *, series: int = 7, width: BucketWidth = BucketWidth.HOUR
) -> Catalogued:
    """Return a table of others, keyed by sensor and the text of an hour or a day."""
    load = replace(planned(rate_hz).workload, retention_s=20 * DAY_S)
    foreign = ForeignTable(
        keyspace="plant",
        name="readings",
        columns=(),
        default_ttl_s=0,
        gc_grace_s=DAY_S,
        compaction_class="SizeTieredCompactionStrategy",
        window_s=None,
    )
    form = "%Y-%m-%dT%H" if width is BucketWidth.HOUR else "%Y-%m-%d"
    layout = Layout(
        keyspace=None,
        table="readings",
        series=(KeyColumn("sensor", KeyType.TEXT),),
        bucket=BucketColumn(name="slot", type=KeyType.TEXT, form=BucketForm.from_text(form)),
        time=TimeColumn(name="ts", type=TimeType.TIMESTAMP, unit="ms"),
    )
    spec = TableSpec(
        name="log",
        design=design_of(foreign, load, width, NOW_S),
        index_trusted=False,
        adopted=layout,
    )
    return Catalogued(spec=spec, series=series)


def foreign_schema(ttl_s: int = 0) -> SchemaFacts:
    return schema(key="sensor text, slot text", default_time_to_live=ttl_s)


def test_the_catalog_of_an_own_table_tells_rate_series_and_retention() -> None:
    design = planned(0.1)
    facts = ours(design, node(None), comment="")
    with pytest.raises(UsageError, match="cannot be told"):
        plan_redesign(facts)
    found = plan_redesign(facts, known=own())
    load = found.workload
    assert (load.rate_hz, load.series_count, load.retention_s) == (0.1, 1_234, 30 * DAY_S)
    assert found.sources[0] == "rate 6/min a series: as treering's catalog says"
    assert "kept 30d, as treering's catalog says" in found.sources
    assert "1,234 series, as treering's catalog says" in found.sources
    assert found.alters == ()


def test_a_retention_whose_ttl_was_altered_by_hand_is_the_catalogs_and_is_altered_back() -> None:
    facts = ours(planned(0.1), node(None), default_time_to_live=10 * DAY_S)
    assert plan_redesign(facts).workload.retention_s == 10 * DAY_S
    found = plan_redesign(facts, known=own())
    assert found.workload.retention_s == 30 * DAY_S
    said = "kept 30d, as treering's catalog says; its default TTL is 10d"
    assert said in found.sources
    (alter,) = found.alters
    assert "default_time_to_live = 2592000" in alter


def test_the_catalog_goes_before_an_estimate_from_files_and_a_stated_rate_before_it() -> None:
    facts = table(schema(key="series text, day date"))
    known = own(0.9)
    assert known.spec.width is BucketWidth.DAY
    by_files = plan_redesign(facts).workload
    # Without event times what files say is an estimate, and stands beside.
    assert by_files.rate_hz == 1.0
    found = plan_redesign(facts, known=known)
    assert found.workload.rate_hz == 0.9
    assert "by estimate 1/s" in found.sources[0]
    assert plan_redesign(facts, rate_hz=3.0, known=known).workload.rate_hz == 3.0
    # What files count of a row is nowhere else.
    assert found.workload.row_bytes == by_files.row_bytes == 31


def test_buckets_of_their_own_are_said_with_how_many_series_have_them() -> None:
    known = replace(own(), widths={BucketWidth.HOUR: 2, BucketWidth.MONTH: 1})
    (said,) = [
        one
        for one in plan_redesign(ours(planned(0.1), node(None)), known=known).sources
        if "their own" in one
    ]
    width = known.spec.width
    assert said == (
        "buckets of their own, as treering's catalog says: 2 series by hour, 1 series by month; "
        f"the design is for those by {width}"
    )


def test_the_catalog_of_an_adopted_table_tells_the_width_that_nothing_else_does() -> None:
    # "slot" is no name of a width, and averages alone do not say how long a partition is.
    facts = table(foreign_schema(), node(None, stats=TableStats(partition_bytes_mean=3_600 * 39)))
    with pytest.raises(UsageError, match="cannot be told"):
        plan_redesign(facts)
    unknown_rate = plan_redesign(facts, known=adopted(RATE_DEFAULT_HZ))
    assert unknown_rate.workload.rate_hz > 0.5
    assert "partitions of 1h" in unknown_rate.sources[0]
    found = plan_redesign(facts, known=adopted())
    assert found.workload.rate_hz == 0.5
    (bucket,) = [one for one in found.compared if one.what == "bucket"]
    assert bucket.has == "hour"


def test_an_adopted_table_has_the_retention_of_its_ttl_and_without_one_of_the_catalog() -> None:
    bare = table(foreign_schema(), node(None))
    assert plan_redesign(bare, known=adopted()).workload.retention_s == 20 * DAY_S
    with_ttl = table(foreign_schema(9 * DAY_S), node(None))
    found = plan_redesign(with_ttl, known=adopted())
    assert found.workload.retention_s == 9 * DAY_S
    assert "kept 9d, its TTL" in found.sources


def test_of_an_adopted_table_as_many_series_count_as_anybody_sees() -> None:
    facts = table(foreign_schema(), node(days()))
    seen = plan_redesign(facts, rate_hz=1.0, known=adopted(series=0))
    assert seen.workload.series_count == 1
    listed = plan_redesign(facts, known=adopted(series=70_000))
    assert listed.workload.series_count == 70_000
    said = "at least 70,000 series, as treering's catalog says; others write to it too"
    assert said in listed.sources
    few = plan_redesign(facts, known=adopted(series=1, width=BucketWidth.DAY))
    assert few.workload.series_count == 10
    assert any(one.endswith("series on 127.0.0.1") for one in few.sources)
