"""Problems that people had with the tables they made, as far as a design answers for them."""

from __future__ import annotations

import calendar
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import treering
from tests.core.design_cases import DAY_S, HOUR_S, NOW_S, planned, severities, why
from treering.core.bucket import BucketWidth
from treering.core.choices import rows_of
from treering.core.ddl import render_create_keyspace, render_create_table
from treering.core.design import Design, Overrides, Strategy
from treering.core.expiry import check_ttl, index_ttl_s, ttl_max_at_s
from treering.core.table import TableSpec
from treering.core.window import parse_window
from treering.engine.cassandra.engine import CassandraEngine
from treering.engine.cassandra.schema import option_differences, table_id_of
from treering.errors import DesignError, SchemaMismatchError, TableNotFoundError

TWELVE_YEARS_S = 378_432_000


def ddl(**stated: Any) -> str:
    """Return the statement of a table of three months."""
    return render_create_table(planned(**stated), keyspace="plant", table="readings")


@pytest.mark.parametrize(
    ("version", "mode"),
    [
        ("3.0.16", "CASSANDRA_4"),
        ("3.11.2", "CASSANDRA_4"),
        ("4.0", "CASSANDRA_4"),
        ("4.1", "NONE"),
        ("5.0", "CASSANDRA_4"),
    ],
)
def test_ts10_ttl_that_ends_after_january_2038_is_refused_with_the_most_that_is_allowed(
    version: str, mode: str
) -> None:
    assert calendar.timegm((2026, 11, 30, 0, 0, 0)) == NOW_S
    with pytest.raises(DesignError, match=r"2038-01-19.*the write is refused") as caught:
        check_ttl(TWELVE_YEARS_S, NOW_S, version, mode)
    assert caught.value.ttl_max_s == 351_486_846
    assert ttl_max_at_s(NOW_S, version, mode) == 351_486_846
    with pytest.raises(DesignError, match="2038-01-19"):
        planned(1 / 60, retention_s=TWELVE_YEARS_S, cassandra=version, storage_mode=mode)


def test_ts10_cassandra_5_in_mode_none_takes_it_and_old_versions_would_lose_it() -> None:
    check_ttl(TWELVE_YEARS_S, NOW_S, "5.0", "NONE")
    design = planned(1 / 60, retention_s=TWELVE_YEARS_S, storage_mode="NONE")
    assert design.ttl_s == TWELVE_YEARS_S
    assert "2094-02-09" in why(design, "ttl")
    for version in ("3.0.15", "3.11.1"):
        with pytest.raises(DesignError, match="overflows and loses the reading without an error"):
            check_ttl(TWELVE_YEARS_S, NOW_S, version, "CASSANDRA_4")


@pytest.mark.parametrize(
    ("days", "text", "count"), [(30, "1 DAYS", 30), (180, "6 DAYS", 30), (2, "2 HOURS", 24)]
)
def test_ts11_window_grows_with_the_retention(days: int, text: str, count: int) -> None:
    design = planned(retention_s=days * DAY_S)
    assert design.window is not None
    assert (design.window.text, design.window.count) == (text, count)
    assert severities(design)["window"] == "ok"


def test_ts11_thirty_days_in_windows_of_an_hour_are_an_error() -> None:
    kept_s = 30 * DAY_S
    design = planned(retention_s=kept_s, overrides=Overrides(window=parse_window("1h", kept_s)))
    assert severities(design)["window"] == "error"
    assert "720 windows" in why(design, "window")
    for none in ("30s", "90s", "0 DAYS", "1.5min"):
        with pytest.raises(DesignError, match="not a whole number of minutes"):
            parse_window(none, kept_s)


def test_ts22_bucket_bounds_the_partition_at_any_rate() -> None:
    fast = planned(1_000, row_bytes=100, partition_bytes_target=10**8)
    assert (fast.bucket, fast.bucket_bytes) == ("15min", 90_000_000)
    candidates = {c.bucket: c for c in fast.candidates}
    assert candidates[BucketWidth.DAY].partition_bytes == 8_640_000_000
    assert candidates[BucketWidth.DAY].fit == candidates[BucketWidth.HOUR].fit == "over"
    slow = planned(1 / 60, row_bytes=100)
    assert (slow.bucket, slow.rows_per_bucket, slow.bucket_bytes) == ("month", 44_640, 4_464_000)
    day = {c.bucket: c.partition_bytes for c in slow.candidates}[BucketWidth.DAY]
    assert day == pytest.approx(144_000)


def test_ts22_cells_are_bounded_far_below_what_a_partition_can_have() -> None:
    # A partition holds at most 2,000,000,000 cells; the ceiling is a thousandth of that.
    with pytest.raises(DesignError, match=r"2,678,400,000 cells.*2,000,000 cells"):
        planned(1_000, row_bytes=0.001, overrides=Overrides(bucket=BucketWidth.MONTH))


def test_ts23_creators_that_race_ask_for_one_and_the_same_table() -> None:
    made = {table_id_of("prod", "plant", "readings", 1) for _ in range(8)}
    (table_id,) = made
    statement = render_create_table(
        planned(), keyspace="plant", table="readings", table_id=table_id, if_not_exists=True
    )
    assert f"ID = {table_id}" in statement
    assert table_id_of("prod", "plant", "readings", 2) not in made


def test_ts23_workers_that_start_together_make_one_table_and_opening_makes_none(
    tmp_path: Path,
) -> None:
    def start(_: int) -> TableSpec:
        with treering.open(tmp_path / "plant") as store:
            barrier.wait()
            return store.create("readings", rate="1/s", retention="90d").spec

    with treering.open(tmp_path / "plant") as store:
        with pytest.raises(TableNotFoundError):
            store.table("readings")
        assert store.tables() == ()
    barrier = threading.Barrier(8, timeout=60)
    with ThreadPoolExecutor(8) as pool:
        specs = list(pool.map(start, range(8)))
    assert all(spec == specs[0] for spec in specs)
    with treering.open(tmp_path / "plant") as store:
        assert store.table("readings").spec == specs[0]
        with pytest.raises(SchemaMismatchError, match="retention"):
            store.create("readings", rate="1/s", retention="30d")
        assert store.table("readings").spec == specs[0]


def test_ts26_lifetime_of_an_index_entry_never_passes_the_limit_of_twenty_years() -> None:
    sums = {"bucket_s": 21 * DAY_S, "window_s": 0, "future_s": 0, "ttl_max_s": 630_720_000}
    assert index_ttl_s(630_720_000, **sums) is None
    assert index_ttl_s(630_720_000 - 21 * DAY_S, **sums) == 630_720_000
    with pytest.raises(DesignError, match="1,038,700,758 s is above"):
        check_ttl(1_038_700_758, NOW_S, "5.0", "NONE")
    # Legal by the limit of twenty years, and past 2038 all the same.
    with pytest.raises(DesignError, match="2038-01-19"):
        check_ttl(630_720_000, NOW_S, "4.1", "CASSANDRA_4")


def test_ts34_one_partition_for_all_writes_of_a_day_is_refused_or_flagged() -> None:
    assert rows_of(50_000, DAY_S) == 4_320_000_000
    with pytest.raises(DesignError, match="4,320,000,000 rows"):
        planned(50_000, overrides=Overrides(bucket=BucketWidth.DAY))
    design = planned(20_000)
    assert severities(design)["hot-partition"] == "warning"
    assert "one replica set" in why(design, "hot-partition")
    assert "split the series by a shard number and merge" in why(design, "hot-partition")
    # Whatever the bucket, the series is in the key: series are spread over all replica sets.
    assert "PRIMARY KEY ((series, bucket), ts)" in ddl()


@pytest.mark.parametrize("version", ["4.0", "4.1", "5.0"])
def test_ts36_new_versions_are_not_told_what_they_refuse(version: str) -> None:
    assert "_chance" not in ddl(cassandra=version)
    assert "read_repair = 'NONE'" in ddl(cassandra=version)


def test_ts36_chance_of_read_repair_is_nothing_on_old_versions_and_flagged_where_it_is_not() -> (
    None
):
    statement = ddl(cassandra="3.11")
    assert "AND read_repair_chance = 0.0" in statement
    assert "AND dclocal_read_repair_chance = 0.0" in statement
    assert "read_repair = " not in statement
    found = options_of(planned(cassandra="3.11"))
    assert option_differences(spec_of(planned(cassandra="3.11")), found) == ()
    for chance in ("dclocal_read_repair_chance", "read_repair_chance"):
        (said,) = option_differences(
            spec_of(planned(cassandra="3.11")), {**found, chance: 0.1, "comment": None}
        )
        assert said == f"{chance} is 0.1 on the server, not 0.0 as designed"


def spec_of(design: Design) -> TableSpec:
    """Return the table of a design."""
    return TableSpec(name="readings", design=design)


def options_of(design: Design) -> dict[str, Any]:
    """Return what Cassandra 3.11 shows of a design's table."""
    assert design.window is not None
    return {
        "default_time_to_live": design.ttl_s,
        "gc_grace_seconds": design.gc_grace_s,
        "read_repair_chance": 0.0,
        "dclocal_read_repair_chance": 0.0,
        "compaction": {
            "class": "org.apache.cassandra.db.compaction.TimeWindowCompactionStrategy",
            "compaction_window_unit": design.window.unit,
            "compaction_window_size": str(design.window.size),
        },
    }


def test_ts38_option_that_drops_files_blindly_names_the_flag_it_needs() -> None:
    asked = Overrides(unsafe_aggressive_expiration=True)
    design = planned(overrides=asked)
    assert severities(design)["aggressive-expiry"] == "warning"
    said = why(design, "aggressive-expiry")
    assert "-Dcassandra.allow_unsafe_aggressive_sstable_expiration=true" in said
    assert "the statement is refused" in said
    assert "loses it at a restart" in said
    deleting = planned(deletes=True, overrides=asked)
    assert severities(deleting)["aggressive-expiry"] == "error"
    assert "unsafe" not in ddl()


@pytest.mark.parametrize(
    ("grace_s", "replicas", "severity"),
    [
        (0, 3, "warning"),
        (600, 3, "warning"),
        (10_800, 3, "ok"),
        (0, 1, "ok"),
        (600, 1, "ok"),
    ],
)
def test_ts43_grace_below_the_hint_window_is_flagged_where_there_are_hints(
    grace_s: int, replicas: int, severity: str
) -> None:
    design = planned(replication=(("dc1", replicas),), overrides=Overrides(gc_grace_s=grace_s))
    assert severities(design)["gc-grace"] == severity
    if severity == "warning":
        assert "misses" in why(design, "gc-grace")


def test_ts43_explicit_deletes_need_a_grace_longer_than_the_repair_interval() -> None:
    week_s = 7 * DAY_S
    short = planned(deletes=True, repair_every_s=week_s, overrides=Overrides(gc_grace_s=week_s))
    assert severities(short)["gc-grace"] == "warning"
    assert "the reading comes back" in why(short, "gc-grace")
    assert planned(deletes=True, repair_every_s=week_s).gc_grace_s > week_s
    # What is chosen for an append-only table covers the hint window, however short it is kept.
    assert planned(retention_s=HOUR_S).gc_grace_s == 10_800


@pytest.mark.parametrize("version", ["3.6", "3.0.7", "2.2"])
def test_ts64_server_without_twcs_gets_no_statement(version: str) -> None:
    with pytest.raises(DesignError, match=r"it exists from 3\.0\.8 and from 3\.8 on"):
        ddl(cassandra=version)


@pytest.mark.parametrize("version", ["3.0.8", "3.8"])
def test_ts64_first_servers_with_twcs_get_a_statement(version: str) -> None:
    assert "TimeWindowCompactionStrategy" in ddl(cassandra=version)


def test_ts65_resolution_is_that_of_write_times_whatever_the_precision_of_the_data() -> None:
    with pytest.raises(DesignError, match="drivers send write times in microseconds") as caught:
        Overrides(timestamp_resolution="MILLISECONDS")
    assert "a thousandth" in caught.value.hint
    for precision in ("ms", "us", "ns"):
        assert "timestamp_resolution" not in ddl(precision=precision)
    design = planned()
    found = options_of(design) | {"read_repair": "NONE"}
    found["compaction"]["timestamp_resolution"] = "MILLISECONDS"
    assert option_differences(spec_of(design), found) == (
        "timestamp_resolution is MILLISECONDS on the server, not MICROSECONDS as designed",
    )


def test_ts69_twcs_always_has_a_default_ttl() -> None:
    assert "default_time_to_live = 7776000" in ddl()
    with pytest.raises(DesignError, match="zero_ttl_on_twcs"):
        planned(retention_s=None, overrides=Overrides(strategy=Strategy.TWCS))
    assert "TimeWindow" not in ddl(retention_s=None)
    found = options_of(planned()) | {"default_time_to_live": 0}
    (said,) = option_differences(spec_of(planned()), found)
    assert said == "default_time_to_live is 0 on the server, not 7776000 as designed"


@pytest.mark.cassandra
def test_ts69_what_the_server_warns_about_is_told(
    cassandra_keyspace: str, caplog: pytest.LogCaptureFixture
) -> None:
    # Guardrails warn only those who logged in; too many replicas are told to everyone.
    keyspace = cassandra_keyspace.partition("?")[0].rpartition("/")[2]
    engine = CassandraEngine.connect(cassandra_keyspace)
    try:
        with caplog.at_level(logging.WARNING, logger="treering"):
            statement = render_create_table(planned(), keyspace=keyspace, table="quiet")
            engine._link.run_ddl(statement, "creating the table quiet")
            assert caplog.messages == []
            statement = render_create_keyspace(f"{keyspace}_3", {"datacenter1": 3})
            engine._link.run_ddl(statement, "creating a keyspace")
            engine._link.run_ddl(f"DROP KEYSPACE {keyspace}_3", "dropping it")
            # The driver tells it too, under its own name.
            told = [r.getMessage() for r in caplog.records if r.name.startswith("treering.")]
            assert len(told) == 1
            assert told[0].startswith("creating a keyspace: Your replication factor 3")
    finally:
        engine.close()
