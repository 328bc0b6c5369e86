"""A table beside the design that its own rate and rows ask for."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.doctor.checks.tables import (
    DAY_S,
    HOUR_S,
    MINUTE_S,
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
    twcs,
)
from treering.cli.redesign import split_table
from treering.doctor.checks import check_table
from treering.doctor.facts import ColumnFacts, TableStats
from treering.doctor.redesign import plan_redesign, redesign_to_json, render_redesign
from treering.doctor.thresholds import Thresholds
from treering.errors import UsageError

DAILY = "series text, day date"


def test_a_table_that_has_what_it_needs_is_left_alone() -> None:
    found = plan_redesign(table(schema(key=DAILY)))
    assert found.workload.rate_hz == 1.0
    assert found.workload.series_count == 10
    assert found.workload.row_bytes == 31
    assert found.design.bucket.value == "day"
    assert [one.what for one in found.compared if one.change != "none"] == []
    assert (found.alters, found.create) == ((), "")
    assert render_redesign(found).endswith("nothing is left to do")


def test_options_are_altered_and_those_that_are_right_are_left_out() -> None:
    facts = table(
        schema(
            twcs(compaction_window_unit="HOURS", tombstone_threshold="0.5"),
            key="series text, day date",
            read_repair="BLOCKING",
            gc_grace_seconds=10 * DAY_S,
        )
    )
    found = plan_redesign(facts)
    assert found.alters == (
        "ALTER TABLE plant.readings WITH gc_grace_seconds = 86400 AND read_repair = 'NONE' "
        "AND compaction = {'class': 'TimeWindowCompactionStrategy', "
        "'compaction_window_unit': 'DAYS', 'compaction_window_size': '1', "
        "'max_threshold': '32', 'min_threshold': '4', 'tombstone_threshold': '0.5'};",
    )
    assert found.create == ""
    assert "gc grace     10d" in render_redesign(found)


def test_a_bucket_and_an_order_that_serve_as_well_are_no_reason_to_copy() -> None:
    files = days(sizes=((44_640, 10),), cells=((1_440, 10),))
    files = tuple(
        replace(f, rows=14_400, columns_set=14_400, uncompressed_bytes=446_400) for f in files
    )
    found = plan_redesign(table(schema(key=DAILY, clustering="ts timestamp"), node(files)))
    changes = {one.what: (one.has, one.wants, one.change) for one in found.compared}
    assert found.workload.rate_hz == 1 / 60
    assert changes["bucket"] == ("day", "month", "fits")
    assert changes["order"][2] == "fits"
    assert found.create == ""


def test_a_key_without_a_bucket_needs_a_new_table() -> None:
    facts = table(schema(key="series text", clustering="ts timestamp"))
    found = plan_redesign(facts)
    changes = {one.what: (one.has, one.wants, one.change) for one in found.compared}
    assert changes["bucket"] == ("none", "day", "migrate")
    assert changes["order"] == ("oldest first", "newest first", "migrate")
    assert found.workload.series_count == 10
    assert found.workload.rate_hz == pytest.approx(1.0, rel=0.05)
    assert found.create.startswith("CREATE TABLE plant.readings_new (")
    assert "a new table" in render_redesign(found)


def test_the_fastest_series_sizes_the_bucket() -> None:
    files = days(sizes=((268_000, 99), (26_784_000, 1)), cells=((8_640, 97), (864_000, 3)))
    files = tuple(replace(file, rows=97 * 8_640 + 3 * 864_000) for file in files)
    files = tuple(replace(file, columns_set=file.rows) for file in files)
    load = plan_redesign(table(schema(key="series text, day date"), node(files))).workload
    assert load.peak_rate_hz is not None
    assert 8 <= load.peak_rate_hz <= 10


def test_a_table_without_ttl_gets_no_windows() -> None:
    facts = table(
        schema(
            {"class": UCS_PATH},
            key="series text, day date",
            default_time_to_live=0,
            gc_grace_seconds=10 * DAY_S,
            read_repair="BLOCKING",
        ),
        node(days(ttl_s=0)),
    )
    found = plan_redesign(facts)
    assert found.design.strategy.value == "UCS"
    assert found.alters == ()


def test_nodetool_alone_is_enough_for_a_rate() -> None:
    said = histograms(
        percentiles(1, 1, 1), percentiles(2e6, 3e6, 3e6), percentiles(86_400, 86_400, 86_400)
    )
    found = plan_redesign(table(schema(key=DAILY), node(None, histograms=said)))
    assert found.workload.rate_hz == 1.0
    assert "row size from the columns" in found.sources


def test_the_mean_partition_is_enough_for_a_rate() -> None:
    # 86,400 rows of one double with a TTL are 39 B each where no window bounds the write times.
    stats = TableStats(partition_bytes_mean=86_400 * 39)
    found = plan_redesign(table(schema(key=DAILY), node(None, stats=stats)))
    assert found.workload.rate_hz == pytest.approx(1.0, rel=0.2)
    series = plan_redesign(table(schema(key="series text"), node(None, stats=stats))).workload
    assert series.rate_hz == pytest.approx(1 / 30, rel=0.2)


def test_what_is_written_now_is_enough_where_partitions_are_series() -> None:
    found = schema({"class": UCS_PATH}, key="series text", default_time_to_live=0)
    stats = TableStats(writes_per_s=50.0, partitions=100)
    load = plan_redesign(table(found, node(None, stats=stats))).workload
    assert (load.rate_hz, load.series_count, load.retention_s) == (0.5, 100, None)


def test_a_rate_that_nobody_knows_is_asked_for() -> None:
    facts = table(schema(key=DAILY), node(None))
    with pytest.raises(UsageError, match="cannot be told") as raised:
        plan_redesign(facts)
    assert "--rate" in raised.value.hint
    assert plan_redesign(facts, rate_hz=0.1).workload.rate_hz == 0.1


def test_a_table_without_a_schema_is_refused() -> None:
    with pytest.raises(UsageError, match="is not known, so there is nothing"):
        plan_redesign(replace(table(), schema=None))


def test_columns_of_other_types_are_left_out_by_name() -> None:
    found = schema(key="series text, day date")
    more = replace(
        found, columns=(*found.columns, replace(found.columns[0], name="n", type="blob"))
    )
    assert any("without n" in one for one in plan_redesign(table(more)).sources)


def test_json_holds_design_and_statements() -> None:
    values = json.loads(json.dumps(redesign_to_json(plan_redesign(table(schema(key=DAILY))))))
    assert values["table"] == "plant.readings"
    assert values["design"]["bucket"] == "day"


@given(
    st.sampled_from([HOUR_S, DAY_S]),
    st.integers(min_value=60, max_value=100_000),
    st.integers(min_value=1, max_value=500),
)
def test_the_rate_is_that_of_the_rows(width_s: int, rows: int, series: int) -> None:
    name = "hour" if width_s == HOUR_S else "day"
    compaction = twcs(
        compaction_window_unit="MINUTES", compaction_window_size=str(width_s // MINUTE_S)
    )
    files = [
        sstable(
            id=str(n),
            start_s=n * width_s,
            end_s=(n + 1) * width_s - 1,
            ttl_s=30 * width_s,
            cells=((rows, series),),
            rows=rows * series,
            columns_set=rows * series,
            uncompressed_bytes=rows * series * 31,
        )
        for n in range(10)
    ]
    facts = table(
        schema(compaction, key=f"series text, {name} bigint", default_time_to_live=30 * width_s),
        node(files),
    )
    load = plan_redesign(facts).workload
    assert load.rate_hz == pytest.approx(rows / width_s, rel=0.01)
    assert load.series_count == pytest.approx(series, rel=0.01, abs=1)


def test_rows_that_are_not_one_an_event_time_are_refused_with_what_names_a_series() -> None:
    facts = table(schema(key="sensor text", clustering="metric text, ts timestamp"))
    with pytest.raises(UsageError, match="clusters by metric, ts: its rows are not one") as caught:
        plan_redesign(facts, rate_hz=1.0)
    assert "take sensor, metric together as what names a series" in caught.value.hint


def test_a_table_without_an_event_time_is_refused() -> None:
    facts = table(schema(key="sensor text", clustering="name text"))
    with pytest.raises(UsageError, match="no clustering column is a time"):
        plan_redesign(facts, rate_hz=1.0)


def test_the_doctor_does_not_send_such_a_table_to_a_command_that_refuses_it() -> None:
    facts = table(schema(key="sensor text", clustering="metric text, ts timestamp"))
    (one,) = (f for f in check_table(facts, Thresholds()).findings if f.id == "unbounded-partition")
    assert one.commands == ("treering design --rate RATE_OF_ONE --retention 30d",)
    assert "metric belongs to what names a series" in one.cure


def test_what_a_copy_changes_beside_is_said() -> None:
    facts = table(schema(key="site text, sensor int", clustering="id timeuuid"))
    found = plan_redesign(facts, rate_hz=1.0)
    assert "ts bigint" in found.create
    told = render_redesign(found)
    assert "the key site, sensor becomes series, bucket: what names a series in it goes" in told
    assert "id timeuuid becomes ts bigint, us since 1970" in told
    assert "within one microsecond" in told
    assert redesign_to_json(found)["notes"] == list(found.notes)


def test_columns_that_a_copy_would_lose_are_said() -> None:
    found = schema(key="series text", clustering="ts bigint")
    blob = ColumnFacts(name="picture", type="blob")
    facts = table(replace(found, columns=(*found.columns, blob)))
    notes = plan_redesign(facts, rate_hz=1.0).notes
    assert "not in the new table: picture" in notes
    assert "ts bigint becomes ts timestamp, milliseconds" in notes
    assert any("what is finer is lost" in note for note in notes)


def test_a_table_of_treering_is_asked_for_no_rate_that_its_comment_says() -> None:
    made = ours(planned(0.1), node(None))
    found = plan_redesign(made)
    assert found.workload.rate_hz == 0.1
    assert found.sources[0] == "rate 6/min a series: as the design in its comment says"
    assert (found.alters, found.create) == ((), "")
    # Averages and histograms are beside it, and stated rates before it.
    stats = TableStats(partition_bytes_mean=86_400 * 39)
    averaged = plan_redesign(ours(planned(0.1), node(None, stats=stats)))
    assert averaged.workload.rate_hz == 0.1
    assert "by estimate" in averaged.sources[0]
    assert plan_redesign(made, rate_hz=3.0).workload.rate_hz == 3.0


def test_commands_name_the_cluster_that_was_looked_at() -> None:
    known = replace(
        table(schema(key="series text")), address="cassandra://10.0.0.5:9043?local_dc=dc1"
    )
    (one,) = (f for f in check_table(known, Thresholds()).findings if f.id == "unbounded-partition")
    assert one.commands == (
        "treering design --table 'cassandra://10.0.0.5:9043/plant/readings?local_dc=dc1'",
    )
    address = shlex.split(one.commands[0])[-1]
    assert split_table(address)[1:] == ("plant", "readings")
    unknown = replace(known, address="")
    (one,) = (
        f for f in check_table(unknown, Thresholds()).findings if f.id == "unbounded-partition"
    )
    assert one.commands == ("treering design --table cassandra://HOST/plant/readings",)
