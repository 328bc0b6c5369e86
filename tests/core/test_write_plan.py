"""Write plans: every reading is in exactly one place, and is kept exactly as long as it must be."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.core.design_cases import DAY_S, NOW_S, planned
from treering.core.bucket import BucketWidth, bucket_of
from treering.core.columns import ColumnData, column_from_list, concat_columns
from treering.core.design import Overrides
from treering.core.expiry import TTL_MAX_S, ttl_for_age
from treering.core.table import TableSpec
from treering.core.units import YEAR_S, Precision
from treering.core.widths import History, WidthSince
from treering.core.write_input import WriteInput, WriteInputs
from treering.core.write_plan import (
    Duplicates,
    PartitionWrite,
    Reason,
    WritePlan,
    plan_write,
    plan_writes,
)

NOW_MS = NOW_S * 1_000
DAY_MS = DAY_S * 1_000
WINDOW_S = DAY_S
RETENTION_S = 30 * DAY_S
COLLISION = Reason.COLLISION


def spec_of(**stated: Any) -> TableSpec:
    own = {key: stated.pop(key) for key in ("finer", "future_limit_s") if key in stated}
    stated.setdefault("retention_s", RETENTION_S)
    return TableSpec(name="readings", design=planned(**stated), **own)


SPEC = spec_of()
TWO = spec_of(columns="a:double,b:text", overrides=Overrides(bucket=BucketWidth.HOUR))


def input_of(
    spec: TableSpec,
    times: list[int],
    *,
    timed: list[bool] | None = None,
    finer: list[bool] | None = None,
    unfit: list[bool] | None = None,
    index: list[int] | None = None,
    **columns: list[Any],
) -> WriteInput:
    count = len(times)
    if not columns:
        columns = {spec.columns[0].name: [float(n) for n in range(count)]}
    return WriteInput(
        series="s",
        ts=np.array(times, dtype=np.int64),
        timed=np.array([True] * count if timed is None else timed, dtype=np.bool_),
        finer=np.array([False] * count if finer is None else finer, dtype=np.bool_),
        columns={n: column_from_list(v, spec.column(n).type) for n, v in columns.items()},
        unfit=np.array([False] * count if unfit is None else unfit, dtype=np.bool_),
        index=None if index is None else np.array(index, dtype=np.int64),
    )


def planned_write(
    spec: TableSpec, times: list[int], *, duplicates: Duplicates = "refuse", **given: Any
) -> WritePlan:
    now_ts = NOW_S * spec.precision.per_s
    readings = input_of(spec, times, **given)
    return plan_write(spec, readings, now_ts=now_ts, write_us=77, duplicates=duplicates)


def rows_of(writes: tuple[PartitionWrite, ...]) -> list[tuple[Any, ...]]:
    rows = []
    for write in writes:
        lists = [
            write.columns[n].to_list() if n in write.columns else [None] * len(write) for n in "ab"
        ]
        rows += list(zip(write.ts.tolist(), *lists, strict=True))
    return rows


def bits(value: Any) -> Any:
    return np.float64(value).tobytes() if isinstance(value, float) else value


READING = st.tuples(
    st.sampled_from([-40 * DAY_MS, -30 * DAY_MS, -2 * DAY_MS, -3_600_000, 0, 600_000, 600_001])
    | st.integers(-5, 5),
    st.sampled_from([None, 0.0, -0.0, 1.0, math.nan]),
    st.sampled_from([None, "x", "y"]),
    st.sampled_from(["", "", "", "", "untimed", "finer", "unfit"]),
)


@given(st.lists(READING, max_size=14), st.sampled_from(["refuse", "first", "last"]))
@example([(0, 0.0, None, ""), (0, -0.0, None, "")], "refuse")
@example([(0, math.nan, None, ""), (0, math.nan, None, "")], "refuse")
@example([(0, 1.0, None, ""), (0, 1.0, "x", ""), (0, 1.0, None, "")], "last")
def test_every_reading_is_written_refused_or_repeated_and_only_one_of_these(
    readings: list[tuple[int, Any, Any, str]], duplicates: Duplicates
) -> None:
    times = [NOW_MS + offset for offset, *_ in readings]
    plan = planned_write(
        TWO,
        times,
        duplicates=duplicates,
        a=[a for _, a, _, _ in readings],
        b=[b for _, _, b, _ in readings],
        **{
            flag: [kind == name for *_, kind in readings]
            for flag, name in (("finer", "finer"), ("unfit", "unfit"))
        },
        timed=[kind != "untimed" for *_, kind in readings],
    )
    refused = {refusal.index: refusal.reason for refusal in plan.refusals()}
    assert len(refused) == len(plan.refused_index)
    assert plan.refused_index.tolist() == sorted(refused)
    assert plan.rows + len(refused) + plan.repeats == len(readings)
    # What is written is the winner of each time, and nothing else.
    groups: dict[int, list[tuple[int, Any, Any, str]]] = {}
    for place, (ts, reading) in enumerate(zip(times, readings, strict=True)):
        if place not in refused or refused[place] is COLLISION:
            groups.setdefault(ts, []).append((place, *reading[1:]))
    expected = []
    for ts, group in sorted(groups.items()):
        is_one = len({(bits(a), b) for _, a, b, _ in group}) == 1
        collides = not is_one and duplicates == "refuse"
        assert all((refused.get(place) is COLLISION) is collides for place, *_ in group)
        if not collides:
            _, a, b, _ = group[-1 if duplicates == "last" else 0]
            expected.append((ts, bits(a), b))
    written = [(ts, bits(a), b) for ts, a, b in rows_of(plan.writes)]
    assert sorted(written, key=lambda row: row[0]) == expected


@given(
    st.lists(st.integers(-31 * DAY_S, 700), max_size=30),
    st.sampled_from(list(BucketWidth)),
    st.sampled_from(list(Precision)),
)
def test_partition_writes_are_sorted_unique_inside_their_bucket_and_of_one_lifetime(
    offsets: list[int], width: BucketWidth, precision: Precision
) -> None:
    spec = spec_of(rate_hz=1 / 60, precision=precision, overrides=Overrides(bucket=width))
    times = [(NOW_S + offset) * precision.per_s for offset in offsets]
    plan = planned_write(spec, times, duplicates="first")
    seen = Counter((write.bucket, write.ttl_s) for write in plan.writes)
    assert all(count == 1 for count in seen.values())
    for write in plan.writes:
        assert (write.series, write.write_us) == ("s", 77)
        assert write.ts.dtype == np.int64
        assert (np.diff(write.ts) > 0).all()
        assert {bucket_of(ts, width, precision) for ts in write.ts.tolist()} == {write.bucket}
        assert all(len(data) == len(write) for data in write.columns.values())
        assert write.ttl_s is None or 1 <= write.ttl_s <= TTL_MAX_S


# Refusals


def test_each_reason_holds_at_its_edge() -> None:
    oldest = NOW_MS - RETENTION_S * 1_000
    times = [oldest + 999, oldest + 1_000, NOW_MS + 600_000, NOW_MS + 600_001]
    plan = planned_write(SPEC, times)
    assert [(r.index, r.reason) for r in plan.refusals()] == [
        (0, Reason.EXPIRED),
        (3, Reason.FUTURE),
    ]
    assert sorted(ts for write in plan.writes for ts in write.ts.tolist()) == times[1:3]


def test_reading_is_refused_once_for_the_first_reason_that_holds() -> None:
    spec = spec_of(finer="refuse")
    everything: dict[str, Any] = {"finer": [True], "unfit": [True], "value": [None]}
    for timed, reason in ((False, Reason.NO_TIME), (True, Reason.FINER)):
        plan = planned_write(spec, [0], timed=[timed], **everything)
        assert [refusal.reason for refusal in plan.refusals()] == [reason]
    everything["finer"] = [False]
    assert next(planned_write(spec, [0], **everything).refusals()).reason is Reason.EXPIRED
    late = planned_write(spec, [NOW_MS], **everything)
    assert next(late.refusals()).reason is Reason.VALUE


def test_refusal_names_the_place_in_the_whole_input_and_the_time() -> None:
    plan = planned_write(SPEC, [0, NOW_MS, 0], index=[5, 17, 99], timed=[True, True, False])
    shown = [str(refusal) for refusal in plan.refusals()]
    assert shown == [
        "reading 5 of s at 1970-01-01T00:00:00.000Z: older than the retention",
        "reading 99 of s at no time: no time, or outside the years that the table takes",
    ]


def test_nothing_is_too_old_where_readings_are_kept_for_ever() -> None:
    spec = spec_of(retention_s=None)
    plan = planned_write(spec, [spec.precision.ts_min, 0, NOW_MS, NOW_MS + 600_001])
    assert [refusal.reason for refusal in plan.refusals()] == [Reason.FUTURE]
    assert {write.ttl_s for write in plan.writes} == {None}


def test_reading_without_any_value_is_refused_and_a_missing_column_is_left_out() -> None:
    plan = planned_write(
        TWO, [NOW_MS - 9, NOW_MS - 8, NOW_MS - 7], a=[1.0, None, 2.0], b=[None, None, None]
    )
    assert [(r.index, r.reason) for r in plan.refusals()] == [(1, Reason.EMPTY)]
    (write,) = plan.writes
    assert list(write.columns) == ["a"]
    assert write.columns["a"].present is None


def test_missing_value_beside_others_stays_missing_in_its_partition() -> None:
    plan = planned_write(TWO, [NOW_MS - 9, NOW_MS - 8], a=[1.0, None], b=[None, "x"])
    (write,) = plan.writes
    assert {name: data.to_list() for name, data in write.columns.items()} == {
        "a": [1.0, None],
        "b": [None, "x"],
    }


@pytest.mark.parametrize(
    ("one", "other", "reason"),
    [
        (0.0, -0.0, COLLISION),
        (math.nan, math.nan, None),
        (1.0, None, COLLISION),
        (1.0, 1.0, None),
        (math.nan, 1.0, COLLISION),
    ],
)
def test_duplicates_are_equal_only_bit_for_bit(one: Any, other: Any, reason: Any) -> None:
    plan = planned_write(TWO, [NOW_MS, NOW_MS], a=[one, other], b=["x", "x"])
    found = [refusal.reason for refusal in plan.refusals()]
    assert found == ([] if reason is None else [reason, reason])
    assert plan.repeats == (0 if reason else 1)


def test_floored_counts_what_was_written_only() -> None:
    plan = planned_write(
        SPEC, [0, NOW_MS, NOW_MS + 1, NOW_MS + 1], value=[1.0] * 4, finer=[True, True, True, False]
    )
    assert (plan.rows, plan.floored, plan.repeats) == (2, 2, 1)


# Lifetimes


def lifetime_of(spec: TableSpec, ts: int) -> int | None:
    ((write,),) = [planned_write(spec, [ts]).writes]
    return write.ttl_s


@pytest.mark.parametrize(
    ("age", "ttl_s"),
    [
        (0, None),
        (DAY_MS - 1, None),
        (DAY_MS, 29 * DAY_S),
        (DAY_MS + 1_000, 29 * DAY_S),
        (3 * DAY_MS, 27 * DAY_S),
        (3 * DAY_MS - 1, 28 * DAY_S),
        (30 * DAY_MS - 1_000, DAY_S),
        (-999, None),
        (-1_000, RETENTION_S + 600),
        (-600_000, RETENTION_S + 600),
    ],
)
def test_lifetime_is_the_default_the_rest_rounded_up_or_what_the_future_needs(
    age: int, ttl_s: int | None
) -> None:
    assert SPEC.window_s == WINDOW_S
    assert lifetime_of(SPEC, NOW_MS - age) == ttl_s


@given(st.integers(-600_000, RETENTION_S * 1_000 - 1_000), st.sampled_from(list(Precision)))
def test_reading_lives_until_its_retention_ends_and_at_most_a_window_longer(
    age_ms: int, precision: Precision
) -> None:
    spec = SPEC if precision is Precision.MS else spec_of(precision=precision)
    ts = (NOW_MS - age_ms) * precision.per_s // 1_000
    ttl_s = lifetime_of(spec, ts) or spec.default_ttl_s
    assert ttl_s is not None
    # Lifetimes count whole seconds: what is less than one ahead counts as on time.
    needed_s = RETENTION_S - (age_ms / 1_000 if not -1_000 < age_ms < 0 else 0)
    assert needed_s <= ttl_s <= max(needed_s + WINDOW_S, RETENTION_S + 600)
    if age_ms >= 0:
        assert ttl_s == ttl_for_age(age_ms // 1_000, RETENTION_S, WINDOW_S)


def test_lifetime_of_the_future_stays_within_twenty_years() -> None:
    spec = spec_of(
        retention_s=20 * YEAR_S, storage_mode="NONE", rate_hz=1 / 3_600, future_limit_s=1_000
    )
    assert spec.retention_s is not None
    assert spec.retention_s + 1_000 > TTL_MAX_S
    assert lifetime_of(spec, NOW_MS + 5) is None  # The cap is the table's default.


def test_lifetime_is_sent_where_the_table_has_another_default() -> None:
    longer = spec_of(overrides=Overrides(ttl_s=40 * DAY_S))
    assert longer.window_s is not None
    assert longer.default_ttl_s == 40 * DAY_S
    assert lifetime_of(longer, NOW_MS) == RETENTION_S
    windows = -(-25 * DAY_S // longer.window_s)
    assert lifetime_of(longer, NOW_MS - 5 * DAY_MS) == windows * longer.window_s


def test_one_bucket_is_written_in_as_many_parts_as_it_has_lifetimes() -> None:
    spec = spec_of(rate_hz=1 / 60, overrides=Overrides(bucket=BucketWidth.WEEK))
    monday = NOW_MS - 7 * DAY_MS  # 2026-11-23, the start of an ISO week.
    plan = planned_write(spec, [monday + day * DAY_MS for day in (5, 0, 1, 6)])
    assert len({write.bucket for write in plan.writes}) == 1
    assert [(write.ttl_s or 0) // DAY_S for write in plan.writes] == [23, 24, 28, 29]
    days = [[(ts - monday) // DAY_MS for ts in write.ts.tolist()] for write in plan.writes]
    assert days == [[0], [1], [5], [6]]


# Parts


@given(st.integers(1, 40), st.integers(1, 45))
def test_split_keeps_every_reading_once_and_in_order(count: int, rows_max: int) -> None:
    noon = NOW_MS - DAY_MS // 2
    (write,) = planned_write(SPEC, list(range(noon, noon + count))).writes
    parts = list(write.split(rows_max))
    assert all(1 <= len(part) <= rows_max for part in parts)
    assert [ts for part in parts for ts in part.ts.tolist()] == write.ts.tolist()
    values = [part.columns["value"].to_list() for part in parts]
    assert list(itertools.chain(*values)) == write.columns["value"].to_list()
    assert {(p.name, p.write_us, p.ttl_s) for p in parts} == {("s/2026-11-29", 77, None)}
    assert all(np.shares_memory(part.ts, write.ts) for part in parts)


def test_nothing_to_write_plans_nothing() -> None:
    plan = planned_write(SPEC, [])
    assert (plan.writes, plan.rows, list(plan.refusals())) == ((), 0, [])


def test_text_is_compared_by_value_and_missing_text_equals_missing_text() -> None:
    same = planned_write(TWO, [NOW_MS] * 3, a=[1.0] * 3, b=[None, None, None])
    assert (same.rows, same.repeats) == (1, 2)
    other = planned_write(TWO, [NOW_MS] * 2, a=[1.0] * 2, b=["x", None])
    assert [refusal.reason for refusal in other.refusals()] == [COLLISION] * 2


def test_what_stands_at_a_missing_place_does_not_count() -> None:
    readings = input_of(TWO, [NOW_MS, NOW_MS], b=["x", "x"])
    hidden = ColumnData(np.array([1.0, 2.0]), np.array([False, False]))
    given = WriteInput(
        series="s",
        ts=readings.ts,
        timed=readings.timed,
        finer=readings.finer,
        columns={"a": hidden, **readings.columns},
        unfit=readings.unfit,
    )
    plan = plan_write(TWO, given, now_ts=NOW_MS, write_us=1)
    assert (plan.rows, plan.repeats) == (1, 1)


# Many series

WIDTHS: list[History] = [
    (),
    (WidthSince(width=BucketWidth.DAY, since_s=None),),
    (WidthSince(width=BucketWidth.DAY, since_s=NOW_S - 2 * DAY_S),),
]


@given(
    st.lists(st.lists(READING, max_size=6), min_size=1, max_size=5),
    st.lists(st.sampled_from(WIDTHS), min_size=5, max_size=5),
    st.sampled_from(["refuse", "first", "last"]),
    st.randoms(use_true_random=False),
)
def test_plan_of_a_series_does_not_depend_on_those_beside_it(
    readings: list[list[tuple[int, Any, Any, str]]],
    histories: list[History],
    duplicates: Duplicates,
    random: Any,
) -> None:
    names = [f"s{number}" for number in range(len(readings))]
    rows = [(name, *row) for name, own in zip(names, readings, strict=True) for row in own]
    random.shuffle(rows)
    alone = {name: [(n, row) for n, row in enumerate(rows) if row[0] == name] for name in names}
    inputs = [input_of_rows(name, own) for name, own in alone.items()]
    widths = dict(zip(names, histories, strict=False))
    options: dict[str, Any] = {"now_ts": NOW_MS, "write_us": 77, "duplicates": duplicates}
    together = plan_writes(TWO, inputs_of_rows(inputs), widths=widths, **options)
    assert [plan.series for plan in together] == names
    for plan, one in zip(together, inputs, strict=True):
        expected = plan_write(TWO, one, widths=widths[one.series], **options)
        assert plan_facts(plan) == plan_facts(expected)


def input_of_rows(name: str, rows: list[tuple[int, Any]]) -> WriteInput:
    kinds = [kind for _, (*_, kind) in rows]
    found = input_of(
        TWO,
        [NOW_MS + row[1] for _, row in rows],
        timed=[kind != "untimed" for kind in kinds],
        finer=[kind == "finer" for kind in kinds],
        unfit=[kind == "unfit" for kind in kinds],
        index=[place for place, _ in rows],
        a=[row[2] for _, row in rows],
        b=[row[3] for _, row in rows],
    )
    return replace(found, series=name)


def inputs_of_rows(inputs: list[WriteInput]) -> WriteInputs:
    """Return readings of many series, each's together, from those of each."""
    return WriteInputs(
        series=tuple(one.series for one in inputs),
        edges=np.cumsum([0, *(len(one.ts) for one in inputs)]),
        ts=np.concatenate([one.ts for one in inputs]),
        timed=np.concatenate([one.timed for one in inputs]),
        finer=np.concatenate([one.finer for one in inputs]),
        columns={
            name: concat_columns([one.columns[name] for one in inputs], TWO.column(name).type)
            for name in "ab"
        },
        unfit=np.concatenate([one.unfit for one in inputs]),
        index=np.concatenate([np.asarray(one.index) for one in inputs]),
    )


def plan_facts(plan: WritePlan) -> Any:
    refusals = list(map(str, plan.refusals()))
    writes = [(write.name, write.ttl_s, write.write_us) for write in plan.writes]
    rows = [[tuple(map(bits, row)) for row in rows_of((write,))] for write in plan.writes]
    columns = [sorted(write.columns) for write in plan.writes]
    present = [[d.present is None for d in write.columns.values()] for write in plan.writes]
    return refusals, writes, rows, columns, present, plan.floored, plan.repeats


def test_readings_that_stand_in_order_are_not_copied() -> None:
    readings = input_of(SPEC, [NOW_MS - 3, NOW_MS - 2, NOW_MS - 1])
    (write,) = plan_write(SPEC, readings, now_ts=NOW_MS, write_us=1).writes
    assert np.shares_memory(write.ts, readings.ts)
    assert np.shares_memory(write.columns["value"].values, readings.columns["value"].values)
