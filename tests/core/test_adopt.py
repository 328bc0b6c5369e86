"""What a schema and a sample say about a table, without a server."""

from __future__ import annotations

from typing import Any

import pytest

from treering.core.adopt import AdoptPlan, plan_adopt
from treering.core.adopt_notes import adopt_to_json, render_adopt
from treering.core.adopt_values import AdoptChoices
from treering.core.bucket import BucketWidth, bucket_of
from treering.core.bucket_form import BucketForm
from treering.core.foreign import ForeignColumn, ForeignTable, Sample, SampledPartition
from treering.core.table import TableSpec
from treering.errors import SchemaMismatchError, UsageError

NOW_S = 1_763_643_600
HOUR_MS = 3_600_000
# Never on the hour twice in a row, so that no width is mistaken for a narrower one.
STEP_MS = 37 * 60_000 + 1_000


def table_of(
    *keys: tuple[str, str],
    time: tuple[str, str] = ("ts", "timestamp"),
    values: tuple[tuple[str, str], ...] = (("value", "double"),),
    **options: Any,
) -> ForeignTable:
    """Return a table with this key."""
    columns = [
        *(
            ForeignColumn(name=name, type=kind, kind="partition_key", position=place)
            for place, (name, kind) in enumerate(keys)
        ),
        ForeignColumn(name=time[0], type=time[1], kind="clustering", position=0),
        *(ForeignColumn(name=n, type=kind, kind="regular", position=-1) for n, kind in values),
    ]
    facts: dict[str, Any] = {
        "default_ttl_s": 0,
        "gc_grace_s": 864_000,
        "compaction_class": "SizeTieredCompactionStrategy",
        "window_s": None,
    }
    return ForeignTable(keyspace="iot", name="t", columns=tuple(columns), **{**facts, **options})


def sample_of(
    form: str, width: str, *, count: int = 200, series: str = "s-1", kind: str = "text"
) -> Sample:
    """Return rows of one series, its id before the bucket or in the bucket's text."""
    parsed = BucketForm.from_text(form)
    rows: dict[Any, list[int]] = {}
    for back in range(count):
        ts = NOW_S * 1_000 - back * STEP_MS
        value = parsed.value_of(bucket_of(ts, width), series)
        if kind == "int":
            value = int(value)
        rows.setdefault((value,) if parsed.has_series else (series, value), []).append(ts)
    return Sample(
        partitions=tuple(SampledPartition(key=k, times=tuple(ts)) for k, ts in rows.items())
    )


def plan_of(foreign: ForeignTable, sample: Sample, **said: Any) -> AdoptPlan:
    """Return the plan of an adoption."""
    return plan_adopt(
        foreign,
        sample,
        "t",
        AdoptChoices(**said),
        now_s=NOW_S,
        keyspace="plant",
        server={"cassandra": "5.0"},
    )


@pytest.mark.parametrize(
    ("kind", "form", "width"),
    [
        ("text", "{bucket}", "day"),
        ("text", "{bucket}", "week"),
        ("text", "{bucket}", "month"),
        ("text", "{bucket}", "6h"),
        ("text", "%Y%m%d", "day"),
        ("text", "%Y-%m-%d %H:00", "hour"),
        ("text", "day-%Y/%m/%d", "day"),
        ("text", "{series}_%Y%m", "month"),
        ("int", "%Y%m%d", "day"),
        ("int", "epoch-h", "hour"),
        ("int", "epoch-d", "day"),
        ("int", "epoch-s", "month"),
        ("bigint", "epoch-ms", "week"),
        ("bigint", "epoch-us", "day"),
        ("timestamp", "epoch-ms", "6h"),
        ("date", "date", "week"),
    ],
)
def test_form_and_width_are_found_and_give_every_key_back(kind: str, form: str, width: str) -> None:
    keys = [("b", kind)] if "{series}" in form else [("s", "text"), ("b", kind)]
    sample = sample_of(form, width, count=1_600, kind=kind)
    plan = plan_of(table_of(*keys), sample)
    assert plan.spec.width == width
    for partition in sample.partitions:
        for ts in partition.times:
            assert plan.layout.key_of("s-1", bucket_of(ts, width)) == partition.key


def test_popular_texts_are_read_as_they_are_meant() -> None:
    sensor = plan_of(
        table_of(("sensor_day", "text"), default_ttl_s=86_400 * 30),
        sample_of("{series}:{bucket}", "day", series="sensor_42"),
    )
    assert sensor.layout.series == ()
    assert (sensor.spec.retention_s, sensor.spec.default_ttl_s) == (2_592_000, 2_592_000)
    day = plan_of(table_of(("device_id", "text"), ("day", "date")), sample_of("date", "day"))
    assert [column.name for column in day.layout.key_columns] == ["device_id", "day"]
    assert not day.spec.index_trusted
    assert day.layout.keyspace == "iot"
    assert day.spec.design.workload.rate_hz == pytest.approx(1_000 / STEP_MS)


def test_row_that_contradicts_is_named() -> None:
    good = sample_of("{bucket}", "day")
    stray = SampledPartition(key=("s-9", "2025-11-19"), times=(NOW_S * 1_000,))
    sample = Sample(partitions=(*good.partitions, stray))
    with pytest.raises(SchemaMismatchError) as refused:
        plan_of(table_of(("s", "text"), ("b", "text")), sample, bucket="b")
    assert refused.value.misfits == (
        "the row of s-9 at 2025-11-20T13:00:00.000Z is in '2025-11-19' and belongs in '2025-11-20'",
    )
    assert "1 of 201 sampled rows" in str(refused.value)


def test_days_of_another_zone_are_told_row_by_row_whichever_row_comes_first() -> None:
    midnight = NOW_S * 1_000 // (24 * HOUR_MS) * 24 * HOUR_MS
    days = [
        SampledPartition(
            key=("s", f"2025-11-{20 + day}"),
            times=tuple(midnight + (24 * day + hour) * HOUR_MS for hour in range(-2, 22)),
        )
        for day in range(2)
    ]
    with pytest.raises(SchemaMismatchError, match="in 4 of 48 sampled rows"):
        plan_of(table_of(("s", "text"), ("b", "text")), Sample(partitions=tuple(days)), bucket="b")


def test_widths_that_fit_alike_are_not_chosen_between() -> None:
    first = SampledPartition(key=("s", "2025-09-01"), times=(1_756_684_800_000 + HOUR_MS,))
    keys = [("s", "text"), ("b", "text")]
    with pytest.raises(UsageError, match="fit buckets of the widths day, week, month") as refused:
        plan_of(table_of(*keys), Sample(partitions=(first,)))
    assert refused.value.hint == "say --width"
    plan = plan_of(table_of(*keys), Sample(partitions=(first,)), width=BucketWidth.MONTH)
    assert plan.layout.key_of("s", bucket_of(first.times[0], "month")) == first.key


def test_bucket_taken_for_a_part_of_the_series_is_told() -> None:
    foreign = table_of(("s", "text"), ("b", "text"))
    plan = plan_of(foreign, sample_of("{bucket}", "day"), series=("s", "b"), bucket="none")
    assert plan.layout.bucket is None
    assert any("b looks like a bucket (day" in note for note in plan.notes)


@pytest.mark.parametrize(
    ("unit", "factor"), [("s", 0.001), ("ms", 1), ("us", 1_000), ("ns", 1_000_000)]
)
def test_unit_of_a_bigint_time_is_found(unit: str, factor: float) -> None:
    sample = sample_of("{bucket}", "day")
    scaled = Sample(
        partitions=tuple(
            SampledPartition(key=p.key, times=tuple(int(ts * factor) for ts in p.times))
            for p in sample.partitions
        )
    )
    foreign = table_of(("s", "text"), ("b", "text"), time=("t", "bigint"))
    assert plan_of(foreign, scaled).layout.time.unit == unit
    wrong = "ms" if unit != "ms" else "s"
    with pytest.raises(SchemaMismatchError, match=f"does not count {wrong}"):
        plan_of(foreign, scaled, time_unit=wrong)


def test_values_that_are_not_read_are_named_and_odd_names_get_plain_ones() -> None:
    values = (
        ("tempC", "double"),
        ("tempc", "float"),
        ("ts2", "int"),
        ("series", "text"),
        ("raw", "blob"),
        ("tags", "map<text, text>"),
        ("cost", "decimal"),
    )
    foreign = table_of(("s", "text"), ("b", "text"), values=values)
    plan = plan_of(foreign, sample_of("{bucket}", "day"))
    assert [column.name for column in plan.spec.columns] == ["series_1", "tempc", "tempc_1", "ts2"]
    assert dict(plan.layout.renamed) == {"series_1": "series", "tempc": "tempC", "tempc_1": "tempc"}
    assert {name for name, _ in plan.left_out} == {"raw", "tags", "cost"}


@pytest.mark.parametrize(
    ("foreign", "said", "words"),
    [
        (table_of(("s", "text"), ("b", "inet")), {"bucket": "b"}, "no bucket form"),
        (table_of(("s", "inet"), ("b", "text")), {"bucket": "b"}, "series column s has the type"),
        (table_of(("s", "text"), ("b", "text")), {"bucket": "c"}, "is not in the partition key"),
        (table_of(("s", "text"), ("b", "text")), {"series": ("x",)}, "x is not in it"),
        (table_of(("s", "text"), ("b", "text"), time=("t", "int")), {}, "no time that treering"),
        (
            table_of(("s", "text"), ("b", "text"), values=(("v", "blob"),)),
            {},
            "0 columns of values",
        ),
        (table_of(("s", "text"), ("b", "text")), {"values": {"v": "b"}}, "cannot be the value"),
        (table_of(("s", "text"), ("b", "text")), {"time": "b"}, "clusters by ts"),
        (table_of(("s", "text"), ("b", "text")), {"time_unit": "s"}, "counts ms, not s"),
        (
            table_of(("s", "text"), ("b", "text")),
            {"form": "%Y%m%d", "width": BucketWidth.HOUR},
            "does not tell",
        ),
    ],
)
def test_table_or_word_that_does_not_fit_is_refused(
    foreign: ForeignTable, said: dict[str, Any], words: str
) -> None:
    with pytest.raises((UsageError, SchemaMismatchError), match=words):
        plan_of(foreign, sample_of("{bucket}", "day"), **said)


def test_retention_that_differs_from_the_default_ttl_is_told() -> None:
    foreign = table_of(("s", "text"), ("b", "text"))
    sample = sample_of("{bucket}", "day")
    forever = plan_of(foreign, sample)
    assert (forever.spec.retention_s, forever.spec.default_ttl_s) == (None, None)
    stated = plan_of(foreign, sample, retention_s=86_400 * 90)
    assert (stated.spec.retention_s, stated.spec.default_ttl_s) == (7_776_000, None)
    assert any("sends a TTL with its own writes" in note for note in stated.notes)


def test_plan_reads_back_as_a_record_and_prints_what_it_decided() -> None:
    plan = plan_of(table_of(("s", "text"), ("b", "text")), sample_of("{bucket}", "day"))
    assert TableSpec.from_json(plan.spec.to_json()) == plan.spec
    text = render_adopt(plan)
    assert "table t: iot.t" in text
    assert "b, text as {bucket}, one a day" in text
    assert "checked on 200 rows" in text
    document = adopt_to_json(plan)
    assert document["layout"]["bucket"] == {"column": "b", "type": "text", "form": "{bucket}"}
    assert document["sampled"]["rows"] == 200


def test_a_table_without_a_bucket_is_not_warned_of_its_width() -> None:
    foreign = table_of(("s", "text"))
    times = tuple(NOW_S * 1_000 - back * 1_000 for back in range(100))
    sample = Sample(partitions=(SampledPartition(key=("s-1",), times=times),))
    plan = plan_of(foreign, sample, bucket="none", rate_hz=10.0)
    assert {verdict.id for verdict in plan.spec.design.verdicts} >= {"bucket"}
    text = render_adopt(plan)
    assert "none: a partition holds a whole series" in text
    assert " bucket: " not in text
