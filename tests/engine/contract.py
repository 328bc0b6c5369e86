"""What every engine promises, stated once; each engine subclasses both classes.

``EngineContract`` speaks to the engine itself, ``StoreContract`` to a store on top of it: the
behaviour that users see, which is the same everywhere.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import treering
from tests.pages import column_of, times_of
from treering.core.bucket import bucket_of
from treering.core.columns import ColumnData, column_from_list
from treering.core.delete_plan import PartitionDelete
from treering.core.design import Overrides, Workload, plan_design
from treering.core.listing import LIMIT_MIN, BucketListing
from treering.core.merge import is_newer
from treering.core.read_plan import Order, PartitionRead
from treering.core.retention import plan_retention
from treering.core.schema import ColumnType, parse_columns
from treering.core.table import TableSpec
from treering.core.units import DAY_S, Precision
from treering.core.write_plan import PartitionWrite
from treering.engine.protocol import Engine, PageRead
from treering.store import Store

# Round, so that buckets of the tests are easy to read; recent, because Cassandra's clock is real.
NOW_S = int(time.time()) // DAY_S * DAY_S + DAY_S // 2
DAY_MS = DAY_S * 1_000
NOW_MS = NOW_S * 1_000

ALL_TYPES = "d:double,f:float,i:int,b:bigint,o:boolean,t:text"

# Each law is inherited by every engine's class, and one engine serves all examples of a test:
# both on purpose, examples keep apart by series of their own.
SHARED = [
    HealthCheck.differing_executors,
    HealthCheck.function_scoped_fixture,
    HealthCheck.too_slow,
]

_serial = itertools.count()


def fresh_name(stem: str) -> str:
    """Return a name that no other test uses: tests share an engine where that saves a minute."""
    return f"{stem}_{next(_serial)}"


def spec_of(
    name: str | None = None,
    *,
    columns: str = "value:double",
    rate_hz: float = 1.0,
    retention_s: int | None = 30 * DAY_S,
    precision: Precision = Precision.MS,
    bucket: str | None = None,
) -> TableSpec:
    """Return a table of a design."""
    workload = Workload(
        rate_hz=rate_hz,
        columns=parse_columns(columns),
        retention_s=retention_s,
        precision=precision,
    )
    overrides = Overrides(bucket=None if bucket is None else treering.BucketWidth(bucket))
    design = plan_design(workload, now_s=NOW_S, overrides=overrides)
    return TableSpec(name=name or fresh_name("table"), design=design)


def write_of(
    spec: TableSpec,
    series: str,
    ts: Sequence[int],
    write_us: int | None = None,
    **values: Any,
) -> PartitionWrite:
    """Return a write of readings that lie in one bucket."""
    columns: dict[str, ColumnData] = {}
    for name, items in values.items():
        columns[name] = column_from_list(list(items), spec.column(name).type)
    stamp = time.time_ns() // 1_000 if write_us is None else write_us
    bucket = bucket_of(ts[0], spec.width, spec.precision)
    return PartitionWrite(
        series=series,
        bucket=bucket,
        ts=np.array(ts, dtype=np.int64),
        columns=columns,
        write_us=stamp,
        ttl_s=None,
    )


def delete_of(
    spec: TableSpec, series: str, start: int, end: int, write_us: int, *, is_whole: bool = False
) -> PartitionDelete:
    """Return a deletion inside one bucket, or of all of it."""
    bucket = bucket_of(start, spec.width, spec.precision)
    inside = bucket.interval(spec.precision)
    if is_whole:
        start, end = inside.start, inside.end
    return PartitionDelete(series, bucket, start, end, write_us, is_whole)


def read_all(
    engine: Engine,
    spec: TableSpec,
    series: str,
    start: int,
    end: int,
    *,
    order: Order = "asc",
    rows_max: int = 1_000,
    columns: tuple[str, ...] | None = None,
) -> list[tuple[Any, ...]]:
    """Return (time, values…) of the bucket of ``start``, page by page."""
    partition = PartitionRead(series, bucket_of(start, spec.width, spec.precision), start, end)
    chosen = spec.selected(columns)
    cursor, rows = None, []
    for _ in range(10_000):
        request = PageRead(
            partition=partition, order=order, columns=chosen, rows_max=rows_max, cursor=cursor
        )
        page = engine.submit_read(spec, request).result(timeout=30)
        assert len(page) <= rows_max
        assert all(ts.dtype == np.int64 for ts, _ in page.parts)
        values = [column_of(page, column) for column in chosen]
        for column, data in zip(chosen, values, strict=True):
            assert data.values.dtype == column.type.dtype
        rows += list(
            zip(times_of(page).tolist(), *(data.to_list() for data in values), strict=True)
        )
        cursor = page.cursor
        if cursor is None:
            return rows
    raise AssertionError("the pages do not end")


class EngineContract:
    """Promises of the engine itself. Subclasses give the fixture ``engine``."""

    @pytest.fixture
    def engine(self) -> Iterator[Engine]:
        """Yield an open engine; it may hold tables of other tests."""
        raise NotImplementedError

    @pytest.fixture
    def spec(self, engine: Engine) -> TableSpec:
        """Return a table with one double column."""
        return engine.create_table(spec_of())

    # Tables

    def test_created_table_is_loaded_as_it_was_made(self, engine: Engine) -> None:
        wanted = spec_of(columns=ALL_TYPES, precision=Precision.US)
        made = engine.create_table(wanted)
        assert engine.load_table(wanted.name) == made
        assert made.design == wanted.design
        assert wanted.name in engine.table_names()

    def test_table_that_is_not_there_loads_as_none(self, engine: Engine) -> None:
        assert engine.load_table("never_made") is None

    def test_creating_an_equal_table_returns_the_one_that_is_there(self, engine: Engine) -> None:
        first = engine.create_table(spec_of("twice"))
        engine.submit_write(first, write_of(first, "s", [NOW_MS], value=[1.0])).result(30)
        assert engine.create_table(spec_of("twice")) == first
        assert read_all(engine, first, "s", NOW_MS, NOW_MS + 1) == [(NOW_MS, 1.0)]
        engine.drop_table(first)

    @pytest.mark.parametrize(
        ("other", "named"),
        [
            ({"columns": "value:float"}, "columns"),
            ({"retention_s": 31 * DAY_S}, "retention: 30d, not 31d"),
            ({"bucket": "hour"}, "bucket"),
            ({"precision": Precision.US}, "precision"),
        ],
    )
    def test_creating_a_different_table_of_that_name_names_the_difference(
        self, engine: Engine, spec: TableSpec, other: dict[str, Any], named: str
    ) -> None:
        with pytest.raises(treering.SchemaMismatchError, match=named):
            engine.create_table(spec_of(spec.name, **other))

    def test_dropped_table_is_gone_and_a_new_one_is_empty(self, engine: Engine) -> None:
        first = engine.create_table(spec_of())
        engine.add_series(first, ("s",))
        engine.submit_write(first, write_of(first, "s", [NOW_MS], value=[1.0])).result(30)
        engine.drop_table(first)
        assert engine.load_table(first.name) is None
        assert first.name not in engine.table_names()
        second = engine.create_table(spec_of(first.name, bucket="hour"))
        assert second.incarnation != first.incarnation
        assert list(engine.series(second)) == []
        assert read_all(engine, second, "s", NOW_MS, NOW_MS + 1) == []

    def test_plan_of_a_table_makes_nothing(self, engine: Engine) -> None:
        wanted = spec_of()
        assert any(wanted.name in step for step in engine.plan_create(wanted))
        assert engine.load_table(wanted.name) is None

    # Series

    def test_series_are_listed_once_and_sorted(self, engine: Engine, spec: TableSpec) -> None:
        engine.add_series(spec, ("pump-2", "pump-10", "boiler"))
        engine.add_series(spec, ("pump-2", "ä'\";%_*"))
        assert list(engine.series(spec)) == ["boiler", "pump-10", "pump-2", "ä'\";%_*"]
        assert list(engine.series(spec, prefix="pump-")) == ["pump-10", "pump-2"]
        assert list(engine.series(spec, prefix="%")) == []
        assert engine.has_series(spec, "boiler")
        assert not engine.has_series(spec, "boil")
        assert engine.info(spec).series_count == 4

    def test_many_series_are_all_listed(self, engine: Engine, spec: TableSpec) -> None:
        names = tuple(f"s{number:05d}" for number in range(1_500))
        engine.add_series(spec, names)
        assert tuple(engine.series(spec)) == names

    # Reading what was written

    @pytest.mark.parametrize("order", ["asc", "desc"])
    @pytest.mark.parametrize("rows_max", [1, 3, 100])
    def test_pages_hold_each_reading_once_in_order(
        self, engine: Engine, spec: TableSpec, order: Order, rows_max: int
    ) -> None:
        times = [NOW_MS + 1_000 * step for step in (4, 0, 3, 1, 2, 9)]
        for ts in times:
            engine.submit_write(spec, write_of(spec, "s", [ts], value=[float(ts)])).result(30)
        rows = read_all(engine, spec, "s", NOW_MS, NOW_MS + 10_000, order=order, rows_max=rows_max)
        assert [row[0] for row in rows] == sorted(times, reverse=order == "desc")
        assert all(value == ts for ts, value in rows)

    def test_interval_is_half_open(self, engine: Engine, spec: TableSpec) -> None:
        times = [NOW_MS, NOW_MS + 1, NOW_MS + 2]
        engine.submit_write(spec, write_of(spec, "s", times, value=[0.0, 1.0, 2.0])).result(30)
        assert read_all(engine, spec, "s", NOW_MS, NOW_MS + 2) == [
            (NOW_MS, 0.0),
            (NOW_MS + 1, 1.0),
        ]

    def test_series_do_not_see_each_other(self, engine: Engine, spec: TableSpec) -> None:
        for number, name in enumerate(("a", "A", "a ", "aa")):
            write = write_of(spec, name, [NOW_MS], value=[float(number)])
            engine.submit_write(spec, write).result(30)
        assert read_all(engine, spec, "A", NOW_MS, NOW_MS + 1) == [(NOW_MS, 1.0)]
        assert read_all(engine, spec, "b", NOW_MS, NOW_MS + 1) == []

    def test_empty_result_keeps_its_types(self, engine: Engine) -> None:
        spec = engine.create_table(spec_of(columns=ALL_TYPES))
        assert read_all(engine, spec, "s", NOW_MS, NOW_MS + 1) == []

    def test_missing_values_stay_missing_and_hide_nothing(self, engine: Engine) -> None:
        spec = engine.create_table(spec_of(columns="temp:double,hum:double"))
        first = write_of(spec, "s", [NOW_MS, NOW_MS + 1], 10, temp=[1.0, 2.0], hum=[None, 5.0])
        later = write_of(spec, "s", [NOW_MS, NOW_MS + 1], 20, temp=[None, 3.0], hum=[4.0, None])
        engine.submit_write(spec, first).result(30)
        assert read_all(engine, spec, "s", NOW_MS, NOW_MS + 2)[0] == (NOW_MS, 1.0, None)
        engine.submit_write(spec, later).result(30)
        assert read_all(engine, spec, "s", NOW_MS, NOW_MS + 2) == [
            (NOW_MS, 1.0, 4.0),
            (NOW_MS + 1, 3.0, 5.0),
        ]

    def test_reading_is_there_although_the_column_asked_for_is_missing(
        self, engine: Engine
    ) -> None:
        spec = engine.create_table(spec_of(columns="temp:double,hum:double"))
        write = write_of(spec, "s", [NOW_MS], temp=[1.0], hum=[None])
        engine.submit_write(spec, write).result(30)
        rows = read_all(engine, spec, "s", NOW_MS, NOW_MS + 1, columns=("hum",))
        assert rows == [(NOW_MS, None)]

    # Which write wins

    def test_later_write_wins_whatever_comes_first(self, engine: Engine, spec: TableSpec) -> None:
        for stamp, value in ((20, 45.0), (30, 12.0), (10, 99.0)):
            write = write_of(spec, "s", [NOW_MS], stamp, value=[value])
            engine.submit_write(spec, write).result(30)
        assert read_all(engine, spec, "s", NOW_MS, NOW_MS + 1) == [(NOW_MS, 12.0)]

    @pytest.mark.parametrize(
        ("column", "one", "other", "winner"),
        [
            ("d", 45.0, 12.0, 45.0),
            ("d", -1.0, 1.0, -1.0),
            ("d", 0.0, -0.0, -0.0),
            ("f", 1.5, 2.5, 2.5),
            ("i", -1, 1, -1),
            ("b", 255, 256, 256),
            ("o", False, True, True),
            ("t", "b", "ab", "b"),
        ],
    )
    @pytest.mark.parametrize("swapped", [False, True])
    def test_equal_write_times_are_decided_by_the_larger_bytes(
        self, engine: Engine, column: str, one: Any, other: Any, winner: Any, swapped: bool
    ) -> None:
        spec = self.shared_spec(engine)
        series = fresh_name("tie")
        for value in (other, one) if swapped else (one, other):
            write = write_of(spec, series, [NOW_MS], 1_000, **{column: [value]})
            engine.submit_write(spec, write).result(30)
        ((_, found),) = read_all(engine, spec, series, NOW_MS, NOW_MS + 1, columns=(column,))
        assert str(found) == str(winner)

    def test_same_write_twice_is_one_write(self, engine: Engine, spec: TableSpec) -> None:
        write = write_of(spec, "s", [NOW_MS, NOW_MS + 1], value=[1.0, math.nan])
        engine.submit_write(spec, write).result(30)
        engine.submit_write(spec, write).result(30)
        rows = read_all(engine, spec, "s", NOW_MS, NOW_MS + 2)
        assert [row[0] for row in rows] == [NOW_MS, NOW_MS + 1]

    def test_writes_of_several_partitions_arrive_together(
        self, engine: Engine, spec: TableSpec
    ) -> None:
        days = [NOW_MS - day * DAY_MS for day in range(4)]
        writes = tuple(
            write_of(spec, name, [ts, ts + 1], value=[1.0, 2.0]) for name in "ab" for ts in days
        )
        engine.submit_writes(spec, writes).result(30)
        engine.submit_writes(spec, ()).result(30)
        for write in writes:
            ts = int(write.ts[0])
            rows = read_all(engine, spec, write.series, ts, ts + 2)
            assert rows == [(ts, 1.0), (ts + 1, 2.0)]

    # Changing the retention

    @pytest.mark.parametrize("days", [10, 90], ids=["shorter", "longer"])
    def test_altered_table_keeps_its_readings_and_a_repeat_has_nothing_to_do(
        self, engine: Engine, spec: TableSpec, days: int
    ) -> None:
        old_ms = NOW_MS - 9 * DAY_MS
        for ts in (old_ms, NOW_MS):
            engine.submit_write(spec, write_of(spec, "s", [ts], value=[1.0])).result(30)
        plan = plan_retention(spec, days * DAY_S, now_s=NOW_S, is_by_ttl=engine.leaves_tombstones)
        assert engine.plan_alter(spec, plan.after)
        assert engine.load_table(spec.name) == spec
        assert engine.alter_table(spec, plan.after) == plan.after
        assert engine.load_table(spec.name) == plan.after
        assert engine.plan_alter(plan.after, plan.after) == ()
        assert engine.alter_table(spec, plan.after) == plan.after
        assert engine.info(plan.after).problems == ()
        for ts in (old_ms, NOW_MS):
            for view in (spec, plan.after):
                assert read_all(engine, view, "s", ts, ts + 1) == [(ts, 1.0)]
        engine.submit_write(spec, write_of(spec, "s", [old_ms + 1], value=[2.0])).result(30)
        assert len(read_all(engine, plan.after, "s", old_ms, old_ms + 2)) == 2

    def test_change_of_a_table_that_was_changed_meanwhile_is_refused(
        self, engine: Engine, spec: TableSpec
    ) -> None:
        is_by_ttl = engine.leaves_tombstones
        one = plan_retention(spec, 10 * DAY_S, now_s=NOW_S, is_by_ttl=is_by_ttl).after
        other = plan_retention(spec, 12 * DAY_S, now_s=NOW_S, is_by_ttl=is_by_ttl).after
        engine.alter_table(spec, one)
        with pytest.raises(treering.SchemaMismatchError, match="meanwhile"):
            engine.alter_table(spec, other)
        assert engine.load_table(spec.name) == one

    # Deletions

    @pytest.mark.parametrize("is_first", [False, True], ids=["delete last", "delete first"])
    @pytest.mark.parametrize("is_whole", [False, True], ids=["a range", "a whole partition"])
    @pytest.mark.parametrize(
        ("write_us", "is_there"),
        [(49, False), (50, False), (51, True)],
        ids=["before", "tie", "after"],
    )
    def test_deletion_wins_over_writes_of_its_time_or_before_whatever_comes_first(
        self,
        engine: Engine,
        spec: TableSpec,
        is_first: bool,
        is_whole: bool,
        write_us: int,
        is_there: bool,
    ) -> None:
        write = write_of(spec, "s", [NOW_MS, NOW_MS + 1], write_us, value=[1.0, 2.0])
        delete = delete_of(spec, "s", NOW_MS, NOW_MS + 1, 50, is_whole=is_whole)
        for step in (delete, write) if is_first else (write, delete):
            if isinstance(step, PartitionDelete):
                engine.submit_delete(spec, step).result(30)
            else:
                engine.submit_write(spec, step).result(30)
        kept = [(NOW_MS, 1.0)] * is_there + [(NOW_MS + 1, 2.0)] * (is_there or not is_whole)
        assert read_all(engine, spec, "s", NOW_MS, NOW_MS + 2) == kept

    def test_deletion_takes_each_cell_by_its_own_write_time(self, engine: Engine) -> None:
        spec = engine.create_table(spec_of(columns="temp:double,hum:double"))
        engine.submit_write(spec, write_of(spec, "s", [NOW_MS], 10, temp=[1.0])).result(30)
        engine.submit_write(spec, write_of(spec, "s", [NOW_MS], 20, hum=[2.0])).result(30)
        engine.submit_delete(spec, delete_of(spec, "s", NOW_MS, NOW_MS + 1, 15)).result(30)
        assert read_all(engine, spec, "s", NOW_MS, NOW_MS + 1) == [(NOW_MS, None, 2.0)]
        engine.submit_write(spec, write_of(spec, "s", [NOW_MS], 12, temp=[9.0])).result(30)
        assert read_all(engine, spec, "s", NOW_MS, NOW_MS + 1) == [(NOW_MS, None, 2.0)]
        engine.submit_write(spec, write_of(spec, "s", [NOW_MS], 16, temp=[3.0])).result(30)
        assert read_all(engine, spec, "s", NOW_MS, NOW_MS + 1) == [(NOW_MS, 3.0, 2.0)]
        engine.submit_delete(spec, delete_of(spec, "s", NOW_MS, NOW_MS + 1, 20)).result(30)
        assert read_all(engine, spec, "s", NOW_MS, NOW_MS + 1) == []

    def test_deletion_leaves_other_series_and_times_alone(
        self, engine: Engine, spec: TableSpec
    ) -> None:
        for name in "ab":
            times = [NOW_MS + step for step in range(5)]
            engine.submit_write(spec, write_of(spec, name, times, 5, value=range(5))).result(30)
        engine.submit_delete(spec, delete_of(spec, "a", NOW_MS + 1, NOW_MS + 3, 9)).result(30)
        found = read_all(engine, spec, "a", NOW_MS, NOW_MS + 9)
        assert [row[0] - NOW_MS for row in found] == [0, 3, 4]
        assert len(read_all(engine, spec, "b", NOW_MS, NOW_MS + 9)) == 5

    @given(
        steps=st.lists(
            st.tuples(st.booleans(), st.integers(0, 7), st.integers(1, 7), st.integers(1, 6)),
            max_size=12,
        )
    )
    @settings(max_examples=25, deadline=None, suppress_health_check=SHARED)
    def test_writes_and_deletions_come_to_the_same_in_any_order(
        self, engine: Engine, steps: list[tuple[bool, int, int, int]]
    ) -> None:
        spec = self.shared_spec(engine)
        kept: dict[int, int] = {}
        for ts in range(16):
            stamps = [us for is_write, start, _, us in steps if is_write and start == ts]
            deleted = max(
                (us for w, start, n, us in steps if not w and start <= ts < start + n), default=0
            )
            if stamps and max(stamps) > deleted:
                kept[NOW_MS + ts] = max(stamps)
        for sequence in (steps, steps[::-1]):
            name = fresh_name("deleted")
            for is_write, start, length, us in sequence:
                ts = NOW_MS + start
                if is_write:
                    engine.submit_write(spec, write_of(spec, name, [ts], us, b=[us])).result(30)
                else:
                    delete = delete_of(spec, name, ts, ts + length, us)
                    engine.submit_delete(spec, delete).result(30)
            found = read_all(engine, spec, name, NOW_MS, NOW_MS + 20, columns=("b",))
            assert dict(found) == kept

    def test_series_that_was_removed_is_not_listed_until_it_is_added_again(
        self, engine: Engine, spec: TableSpec
    ) -> None:
        engine.add_series(spec, ("a", "b"))
        engine.remove_series(spec, ("a",))
        engine.remove_series(spec, ("a", "never"))
        assert list(engine.series(spec)) == ["b"]
        assert not engine.has_series(spec, "a")
        engine.add_series(spec, ("a",))
        assert list(engine.series(spec)) == ["a", "b"]

    # Exactness

    def shared_spec(self, engine: Engine) -> TableSpec:
        """Return a table of all types that is made once; tests in it use series of their own."""
        if not hasattr(self, "_shared"):
            self._shared = engine.create_table(spec_of("shared", columns=ALL_TYPES))
        return self._shared

    VALUES = st.fixed_dictionaries(
        {
            "d": st.none() | st.floats(),
            "f": st.none() | st.floats(width=32),
            "i": st.none() | st.integers(-(2**31), 2**31 - 1),
            "b": st.none() | st.integers(-(2**63), 2**63 - 1),
            "o": st.none() | st.booleans(),
            "t": st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
        }
    )

    @given(rows=st.dictionaries(st.integers(0, DAY_MS // 4), VALUES, min_size=1, max_size=20))
    @settings(
        max_examples=40,
        deadline=None,
        suppress_health_check=SHARED,
    )
    def test_read_of_write_is_what_was_written(
        self, engine: Engine, rows: dict[int, dict[str, Any]]
    ) -> None:
        spec = self.shared_spec(engine)
        series = fresh_name("exact")
        kept = {ts: row for ts, row in sorted(rows.items()) if any_value(row)}
        if not kept:
            return
        times = [NOW_MS + ts for ts in kept]
        columns: dict[str, Any] = {n: [row[n] for row in kept.values()] for n in "dfibot"}
        columns = {name: items for name, items in columns.items() if any_value_in(items)}
        engine.submit_write(spec, write_of(spec, series, times, **columns)).result(30)
        found = read_all(engine, spec, series, NOW_MS, NOW_MS + DAY_MS // 4 + 1, rows_max=7)
        assert [row[0] for row in found] == times
        for (_, *values), row in zip(found, kept.values(), strict=True):
            assert [bits(value) for value in values] == [bits(row[name]) for name in "dfibot"]

    def test_bit_patterns_of_doubles_survive(self, engine: Engine) -> None:
        spec = self.shared_spec(engine)
        patterns = np.array(
            [
                0x7FF8000000000001,
                0xFFF8000000000000,
                0x8000000000000000,
                0x7FF0000000000000,
                0xFFF0000000000000,
                1,
                0x000FFFFFFFFFFFFF,
                0x7FEFFFFFFFFFFFFF,
            ],
            dtype=np.uint64,
        )
        series = fresh_name("bits")
        ts = np.arange(len(patterns)) + NOW_MS
        write = write_of(spec, series, ts.tolist(), d=[0.0] * len(ts))
        exact = PartitionWrite(
            series=series,
            bucket=write.bucket,
            ts=ts,
            columns={"d": ColumnData(patterns.view(np.float64))},
            write_us=5,
            ttl_s=None,
        )
        engine.submit_write(spec, exact).result(30)
        request = PageRead(
            partition=PartitionRead(series, write.bucket, NOW_MS, NOW_MS + 100),
            order="asc",
            columns=spec.selected(("d",)),
            rows_max=100,
        )
        page = engine.submit_read(spec, request).result(30)
        assert (
            column_of(page, spec.column("d")).values.view(np.uint64).tolist() == patterns.tolist()
        )

    @given(
        writes=st.lists(
            st.tuples(
                st.integers(0, 5),
                st.integers(1, 3),
                st.sampled_from("dbt"),
                st.sampled_from([0, 1, -1, 2]),
            ),
            max_size=12,
        )
    )
    @settings(
        max_examples=30,
        deadline=None,
        suppress_health_check=SHARED,
    )
    def test_merging_does_not_depend_on_the_order_of_arrival(
        self, engine: Engine, writes: list[tuple[int, int, str, int]]
    ) -> None:
        spec = self.shared_spec(engine)
        expected: dict[int, dict[str, tuple[int, Any]]] = {}
        names = [fresh_name("merge") for _ in range(2)]
        for name, sequence in zip(names, (writes, writes[::-1]), strict=True):
            for ts, stamp, column, number in sequence:
                column_type = spec.column(column).type
                value: Any = str(number) if column_type is ColumnType.TEXT else number
                write = write_of(spec, name, [NOW_MS + ts], stamp, **{column: [value]})
                engine.submit_write(spec, write).result(30)
                cells = expected.setdefault(ts, {})
                old = cells.get(column)
                if old is None or is_newer(stamp, value, *old, column_type):
                    cells[column] = (stamp, value)
        wanted = [
            (NOW_MS + ts, *(cells.get(column, (0, None))[1] for column in "dbt"))
            for ts, cells in sorted(expected.items())
        ]
        for name in names:
            found = read_all(
                engine, spec, name, NOW_MS, NOW_MS + 10, columns=("d", "b", "t"), rows_max=2
            )
            assert found == wanted

    # The index of buckets

    def list_all(
        self,
        engine: Engine,
        spec: TableSpec,
        series: str,
        *,
        widths: tuple[treering.BucketWidth, ...] | None = None,
        is_newest_first: bool = True,
        days: tuple[int, int] = (30, -1),
    ) -> list[str]:
        """Return the texts of listed buckets that start between so many days ago, page by page."""
        listing = BucketListing(
            series=series,
            start_s=NOW_S - days[0] * DAY_S,
            end_s=NOW_S - days[1] * DAY_S,
            widths=widths or (spec.width,),
            is_newest_first=is_newest_first,
            limit=LIMIT_MIN,
        )
        texts: list[str] = []
        for _ in range(1_000):
            answer = engine.submit_listing(spec, listing).result(30)
            assert len(answer.buckets) <= LIMIT_MIN
            texts += [b.text for b in answer.buckets if b.text not in texts]
            if answer.next_s is None:
                return texts
            listing = listing.after(answer.next_s)
        raise AssertionError("the listing does not end")

    def test_bucket_of_an_acknowledged_write_is_listed(
        self, engine: Engine, spec: TableSpec
    ) -> None:
        times = [NOW_MS - days * DAY_MS for days in (2, 9, 5)]
        for ts in times:
            engine.submit_write(spec, write_of(spec, "s", [ts], value=[1.0])).result(30)
        engine.submit_write(spec, write_of(spec, "other", [NOW_MS], value=[1.0])).result(30)
        wanted = [bucket_of(ts, spec.width).text for ts in sorted(times, reverse=True)]
        assert self.list_all(engine, spec, "s") == wanted
        assert self.list_all(engine, spec, "s", is_newest_first=False) == wanted[::-1]
        assert self.list_all(engine, spec, "never") == []

    def test_listing_is_of_starts_in_a_half_open_interval(
        self, engine: Engine, spec: TableSpec
    ) -> None:
        midnight_s = NOW_S // DAY_S * DAY_S
        days = [midnight_s * 1_000 - day * DAY_MS for day in range(4)]
        for ts in days:
            engine.submit_write(spec, write_of(spec, "s", [ts], value=[1.0])).result(30)

        def listed(start_s: int, end_s: int) -> list[int]:
            listing = BucketListing(
                series="s", start_s=start_s, end_s=end_s, widths=(spec.width,), limit=LIMIT_MIN
            )
            answer = engine.submit_listing(spec, listing).result(30)
            assert answer.next_s is None
            return [midnight_s - bucket.start_s for bucket in answer.buckets]

        assert listed(midnight_s - 2 * DAY_S, midnight_s) == [DAY_S, 2 * DAY_S]
        assert listed(midnight_s, midnight_s) == []

    @pytest.mark.parametrize("is_newest_first", [True, False])
    def test_long_listing_comes_whole_in_pages(
        self, engine: Engine, spec: TableSpec, is_newest_first: bool
    ) -> None:
        hours = spec_of(bucket="hour", rate_hz=100.0)
        spec = engine.create_table(hours)
        times = [NOW_MS - hour * 3_600_000 for hour in range(3 * LIMIT_MIN)]
        writes = tuple(write_of(spec, "s", [ts], value=[1.0]) for ts in times)
        engine.submit_writes(spec, writes).result(30)
        wanted = [bucket_of(ts, spec.width).text for ts in sorted(times, reverse=is_newest_first)]
        assert self.list_all(engine, spec, "s", is_newest_first=is_newest_first) == wanted

    def test_listing_knows_several_widths_of_one_series(
        self, engine: Engine, spec: TableSpec
    ) -> None:
        widths = (treering.BucketWidth.MINUTE, treering.BucketWidth.HOUR, treering.BucketWidth.DAY)
        midnight_ms = NOW_S // DAY_S * DAY_MS
        times = [midnight_ms - day * DAY_MS for day in range(LIMIT_MIN)]
        wanted = set()
        for ts in times:
            for width in widths:
                write = write_of(spec, "s", [ts], value=[1.0])
                write = replace(write, bucket=bucket_of(ts, width))
                engine.submit_write(spec, write).result(30)
                wanted.add(write.bucket.text)
        for is_newest_first in (True, False):
            listed = self.list_all(
                engine, spec, "s", widths=widths, is_newest_first=is_newest_first
            )
            assert set(listed) == wanted
        assert self.list_all(engine, spec, "s") == [bucket_of(ts, spec.width).text for ts in times]

    def test_marking_again_changes_nothing(self, engine: Engine, spec: TableSpec) -> None:
        write = write_of(spec, "s", [NOW_MS], value=[1.0])
        engine.submit_write(spec, write).result(30)
        for _ in range(2):
            engine.mark_buckets(spec, (("s", write.bucket), ("s", write.bucket))).result(30)
        assert self.list_all(engine, spec, "s") == [write.bucket.text]
        engine.mark_buckets(spec, ()).result(30)

    def test_listing_of_a_dropped_table_is_an_error_and_its_successor_lists_nothing(
        self, engine: Engine, spec: TableSpec
    ) -> None:
        write = write_of(spec, "s", [NOW_MS], value=[1.0])
        engine.submit_write(spec, write).result(30)
        engine.drop_table(spec)
        listing = BucketListing(series="s", start_s=0, end_s=NOW_S, widths=(spec.width,))
        with pytest.raises(treering.SchemaMismatchError, match="dropped"):
            engine.submit_listing(spec, listing).result(30)
        with pytest.raises(treering.SchemaMismatchError, match="dropped"):
            engine.mark_buckets(spec, (("s", write.bucket),)).result(30)
        again = engine.create_table(spec_of(spec.name))
        assert self.list_all(engine, again, "s") == []
        # What was known of the table before must not keep the new one from being marked.
        engine.submit_write(again, write).result(30)
        assert self.list_all(engine, again, "s") == [write.bucket.text]

    # Expiry, threads, closing

    def test_expiry_leaves_what_the_retention_holds(self, engine: Engine, spec: TableSpec) -> None:
        engine.submit_write(spec, write_of(spec, "s", [NOW_MS], value=[1.0])).result(30)
        report = engine.expire(spec, now_s=NOW_S)
        assert report.removals == ()
        assert read_all(engine, spec, "s", NOW_MS, NOW_MS + 1) == [(NOW_MS, 1.0)]

    def test_many_threads_write_and_read_one_table(self, engine: Engine, spec: TableSpec) -> None:
        failed = threading.Event()

        def work(worker: int) -> None:
            for step in range(20):
                ts = NOW_MS + step
                write = write_of(spec, f"w{worker}", [ts], value=[float(step)])
                engine.submit_write(spec, write).result(60)
                rows = read_all(engine, spec, f"w{worker}", NOW_MS, NOW_MS + 100)
                if [row[0] for row in rows] != [NOW_MS + n for n in range(step + 1)]:
                    failed.set()

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))
        assert not failed.is_set()


def any_value(row: Mapping[str, Any]) -> bool:
    """Return whether a reading has any value."""
    return any(value is not None for value in row.values())


def any_value_in(items: Sequence[Any]) -> bool:
    """Return whether a column has any value."""
    return any(value is not None for value in items)


def bits(value: Any) -> Any:
    """Return a value so that NaN equals NaN and -0.0 differs from 0.0."""
    return repr(value) if isinstance(value, float) else value


class StoreContract:
    """What users see, the same on every engine. Subclasses give the fixture ``url``."""

    @pytest.fixture
    def clock(self) -> treering.ManualClock:
        """Return a clock that stands at the tests' present."""
        return treering.ManualClock(dt.datetime.fromtimestamp(NOW_S, dt.UTC))

    @pytest.fixture
    def store(self, clock: treering.ManualClock) -> Iterator[Store]:
        """Yield an open store on ``clock``; it may hold tables of other tests."""
        raise NotImplementedError

    @pytest.fixture
    def table(self, store: Store) -> treering.Table:
        """Return a table of day buckets and 30 days."""
        return store.create(fresh_name("readings"), rate="1/s", retention="30d")

    def test_read_across_buckets_is_in_order_and_complete(self, table: treering.Table) -> None:
        times = np.arange(NOW_MS - 5 * DAY_MS, NOW_MS, 3_600_000).astype("datetime64[ms]")
        values = np.arange(len(times), dtype=float)
        report = table.write("s", times, value=values)
        assert (report.accepted, report.refused_count) == (len(times), 0)
        found = table.read("s", "-5d")
        assert (found.time == times).all()
        assert (found["value"] == values).all()
        back = table.read("s", "-5d", order="desc")
        assert (back.time == times[::-1]).all()

    @pytest.mark.parametrize(
        ("order", "expected"), [("desc", [11, 10, 9, 8, 7]), ("asc", [0, 1, 2, 3, 4])]
    )
    def test_limit_counts_over_all_buckets(
        self, table: treering.Table, order: Order, expected: list[int]
    ) -> None:
        starts = [NOW_MS - days * DAY_MS for days in (3, 2, 1)]
        times = [start + step * 1_000 for start in starts for step in range(4)]
        table.write("s", times, unit="ms", value=np.arange(12.0))
        found = table.read("s", "-5d", order=order, limit=5)
        assert found["value"].tolist() == expected

    def test_several_series_come_back_in_the_order_asked_for(self, table: treering.Table) -> None:
        for number, name in enumerate(("c", "a", "b")):
            table.write(name, ["2000-01-01", _iso(NOW_MS - number)], value=[0, number])
        found = table.read(["b", "a", "b", "c"], "-1d")
        assert found.series == ("b", "a", "c")
        assert found.series_rows == (1, 1, 1)
        assert found["value"].tolist() == [2, 1, 0]
        assert [name for name, _ in found.split()] == ["b", "a", "c"]

    def test_latest_steps_back_over_empty_buckets(self, table: treering.Table) -> None:
        times = [NOW_MS - 20 * DAY_MS, NOW_MS - 19 * DAY_MS, NOW_MS - 3 * DAY_MS]
        table.write("s", times, unit="ms", value=[1.0, 2.0, 3.0])
        assert table.latest("s")["value"].tolist() == [3.0]
        assert table.latest("s", 2)["value"].tolist() == [3.0, 2.0]
        assert table.latest("s", 10)["value"].tolist() == [3.0, 2.0, 1.0]
        assert table.latest("s", 10, look_back="4d")["value"].tolist() == [3.0]

    # The index of buckets

    @pytest.fixture
    def sparse(self, store: Store) -> treering.Table:
        """Return a table of day buckets that are kept for two years."""
        return store.create(
            fresh_name("sparse"), rate="1/min", retention="2y", bucket="day", window="30d"
        )

    def asked(self, store: Store, verb: str) -> int:
        """Return how many requests a verb sent so far."""
        stats = store.stats().verbs.get(verb)
        return 0 if stats is None else stats.requests

    def test_latest_of_series_that_are_silent_takes_two_requests_each(
        self, store: Store, sparse: treering.Table
    ) -> None:
        for number, days in enumerate((400, 3, 700)):
            times = [NOW_MS - (days + back) * DAY_MS for back in range(3)]
            sparse.write(f"s{number}", times, unit="ms", value=[number, 0.0, 0.0])
        # Opened anew, so that nothing is known from the writes.
        table = store.table(sparse.name)
        before = self.asked(store, "latest")
        assert table.latest("s0")["value"].tolist() == [0.0]
        assert self.asked(store, "latest") - before == 2
        assert table.latest(["s2", "s0", "s1"])["value"].tolist() == [2.0, 0.0, 1.0]
        assert self.asked(store, "latest") - before == 2 + 6
        assert table.latest("s2", 3)["value"].tolist() == [2.0, 0.0, 0.0]

    def test_latest_of_a_series_that_never_was_asks_once(
        self, store: Store, sparse: treering.Table
    ) -> None:
        before = self.asked(store, "latest")
        assert len(sparse.latest("never", missing_ok=True)) == 0
        assert self.asked(store, "latest") - before == 1

    def test_latest_steps_back_over_marks_without_readings(
        self, store: Store, sparse: treering.Table
    ) -> None:
        sparse.write("s", [NOW_MS - 300 * DAY_MS], unit="ms", value=[1.0])
        engine = store._engine
        marks = tuple(("s", bucket_of(NOW_MS - days * DAY_MS, "day")) for days in range(0, 290, 3))
        engine.mark_buckets(sparse.spec, marks).result(60)
        before = self.asked(store, "latest")
        assert sparse.latest("s")["value"].tolist() == [1.0]
        # The index is asked in a few steps, and nothing but what it lists is read.
        assert self.asked(store, "latest") - before <= 2 + len(marks) + 2

    def test_long_read_skips_buckets_that_do_not_exist(
        self, store: Store, sparse: treering.Table
    ) -> None:
        days = (1, 2, 90, 91, 400)
        for name in ("a", "b"):
            times = [NOW_MS - day * DAY_MS for day in days]
            sparse.write(name, times, unit="ms", value=[float(day) for day in days])
        before = self.asked(store, "read")
        found = sparse.read(["a", "b"], "-500d")
        assert found["value"].tolist() == sorted(map(float, days), reverse=True) * 2
        # Where buckets are read together, so few requests do not ask which of them exist.
        joined = -(-501 // store._engine.joined_max)
        each = 1 + len(days) if joined == 501 else joined
        assert self.asked(store, "read") - before == 2 * each
        limited = sparse.read("a", "-500d", order="desc", limit=3)
        assert limited["value"].tolist() == [1.0, 2.0, 90.0]
        plan = sparse.explain("a", "-500d", listed=True)
        assert (plan.fan_out, plan.unlisted) == (len(days), 501 - len(days))
        assert sparse.explain("a", "-500d").unlisted is None
        assert "5 of 501 buckets are listed" in treering.render_read_plan(plan)

    def test_bucket_that_was_deleted_and_written_again_is_found(
        self, store: Store, sparse: treering.Table
    ) -> None:
        for value in (1.0, 2.0):
            sparse.write("s", [NOW_MS - 100 * DAY_MS], unit="ms", value=[value])
            for table in (sparse, store.table(sparse.name)):
                assert table.latest("s")["value"].tolist() == [value]
                assert table.read("s", "-200d")["value"].tolist() == [value]
            sparse.delete("s", "-120d", "-80d", allow_on_twcs=True)
            assert len(sparse.latest("s")) == 0
            assert len(sparse.read("s", "-200d")) == 0

    def test_table_whose_index_is_not_trusted_is_read_bucket_by_bucket(
        self, store: Store, sparse: treering.Table
    ) -> None:
        spec = replace(sparse.spec, index_trusted=False)
        foreign = treering.Table(spec, sparse._context)
        foreign.write("s", [NOW_MS - 60 * DAY_MS], unit="ms", value=[1.0])
        before = self.asked(store, "read")
        assert foreign.read("s", "-100d")["value"].tolist() == [1.0]
        assert self.asked(store, "read") - before == -(-101 // store._engine.joined_max)
        assert foreign.latest("s", look_back="70d")["value"].tolist() == [1.0]
        assert len(foreign.latest("s", look_back="50d")) == 0
        plan = foreign.explain("s", "-100d", listed=True)
        assert (plan.fan_out, plan.unlisted) == (101, None)

    def test_count_is_exact_over_buckets_and_series(self, table: treering.Table) -> None:
        times = np.arange(NOW_MS - 3 * DAY_MS, NOW_MS, 600_000)
        table.write("a", times, unit="ms", value=np.arange(len(times), dtype=float))
        table.write("b", times[:5], unit="ms", value=[1.0, None, 3.0, 4.0, 5.0])
        start = NOW_MS - 2 * DAY_MS
        wanted = int((times >= start).sum())
        assert table.count(["a", "b"], start, unit="ms") == {"a": wanted, "b": 0}
        assert table.count("b", "-9d") == {"b": 4}
        assert table.count("c", "-9d", missing_ok=True) == {"c": 0}
        with pytest.raises(treering.SeriesNotFoundError):
            table.count("c", "-9d")

    @pytest.mark.parametrize("order", ["asc", "desc"])
    @pytest.mark.parametrize(("every", "tz"), [("5m", None), ("1d", "Europe/Berlin")])
    def test_aggregates_are_those_of_the_readings_that_are_read(
        self, store: Store, order: Order, every: str, tz: str | None
    ) -> None:
        columns = "a:double,n:bigint,s:text,b:boolean"
        table = store.create(
            fresh_name("steps"), rate="1/min", retention="30d", columns=columns, bucket="day"
        )
        random = np.random.default_rng(5)
        times = np.sort(random.choice(3 * 86_400, 600, replace=False)) * 1_000 + NOW_MS - 3 * DAY_MS
        a = [None if i % 7 == 0 else math.nan if i % 5 == 0 else i / 10 for i in range(600)]
        n = [None if i % 3 == 0 else 2**53 + i for i in range(600)]
        s = [None if i % 4 == 0 else f"s{i}" for i in range(600)]
        b = [None if i % 2 == 0 else i % 3 == 0 for i in range(600)]
        for name, part in (("x", slice(0, 400)), ("y", slice(300, 600))):
            table.write(name, times[part], unit="ms", a=a[part], n=n[part], s=s[part], b=b[part])
        start = NOW_MS - 2 * DAY_MS - 12_345
        asked: dict[str, Any] = {"unit": "ms", "order": order, "every": every, "tz": tz}
        numbers = ["mean", "min", "max", "sum", "count", "first", "last"]
        found = table.read(["y", "x"], start, columns=["a", "n", "b"], agg=numbers, **asked)
        texts = table.read(["y", "x"], start, columns=["s"], agg="count,first,last", **asked)
        assert found.series == texts.series == ("y", "x")
        zone = ZoneInfo(tz or "UTC")
        wanted: dict[tuple[str, int], dict[str, list[Any]]] = {}
        for row in table.read(["y", "x"], start, unit="ms").rows():
            at = dt.datetime.fromisoformat(row["ts"])
            step = at.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0)
            first_s = int(step.timestamp()) if tz else int(at.timestamp()) // 300 * 300
            values = wanted.setdefault((row["series"], first_s * 1_000), {})
            for key in "ansb":
                if row[key] is not None and row[key] == row[key]:  # Not NaN.
                    values.setdefault(key, []).append(row[key])
        assert len(wanted) > 3
        for result, keys in ((found, "anb"), (texts, "s")):
            there = {at: v for at, v in wanted.items() if any(key in v for key in keys)}
            places = list(zip(result.series_column(), result.ts.tolist(), strict=True))
            sign = 1 if order == "asc" else -1
            assert places == sorted(there, key=lambda at: ("yx".index(at[0]), sign * at[1]))
            for place, row in zip(places, result.rows(), strict=True):
                for key in keys:
                    self.check_step(row, key, there[place].get(key, []))

    @staticmethod
    def check_step(row: dict[str, Any], key: str, values: list[Any]) -> None:
        """Compare the aggregates of a column in a step with those of its values."""
        assert row[f"{key}_count"] == len(values)
        assert row[f"{key}_first"] == (values[0] if values else None)
        assert row[f"{key}_last"] == (values[-1] if values else None)
        if key == "s":
            return
        assert row[f"{key}_min"] == min(values, default=None)
        assert row[f"{key}_max"] == max(values, default=None)
        total = (math.fsum(values) if key == "a" else sum(values)) if values else None
        assert row[f"{key}_sum"] == total
        assert row[f"{key}_mean"] == (total / len(values) if total is not None else None)

    def test_scan_is_the_read_in_batches(self, table: treering.Table) -> None:
        times = np.arange(NOW_MS - 3 * DAY_MS, NOW_MS, 600_000)
        table.write("a", times, unit="ms", value=np.arange(len(times), dtype=float))
        table.write("b", times[:5], unit="ms", value=[1.0, None, 3.0, 4.0, 5.0])
        whole = table.read(["a", "b"], "-9d")
        batches = list(table.scan(table.series(), "-9d", batch_rows=100))
        assert max(map(len, batches)) <= 100 < len(whole)
        assert np.concatenate([batch.ts for batch in batches]).tolist() == whole.ts.tolist()
        assert [name for batch in batches for name in batch.series_column()] == [
            *whole.series_column()
        ]
        values = [value for batch in batches for value in batch.data["value"].to_list()]
        assert values == whole.data["value"].to_list()
        newest = next(table.scan("a", "-9d", order="desc"))
        assert newest.ts[0] == times[-1]

    def test_series_that_never_was_is_told_from_an_empty_interval(
        self, table: treering.Table
    ) -> None:
        table.write("pump-1", [NOW_MS], unit="ms", value=[1.0])
        assert len(table.read("pump-1", "-9d", "-8d")) == 0
        with pytest.raises(treering.SeriesNotFoundError, match="pump-2") as caught:
            table.read("pump-2", "-9d")
        assert "pump-1" in caught.value.hint
        with pytest.raises(treering.SeriesNotFoundError):
            table.latest("pump-2")
        empty = table.latest("pump-2", missing_ok=True)
        assert len(empty) == 0
        assert empty["value"].dtype == np.float64

    def test_each_refused_reading_is_named_with_its_reason(self, table: treering.Table) -> None:
        times = [
            NOW_MS - 31 * DAY_MS,
            NOW_MS + 601_000,
            NOW_MS,
            NOW_MS + 599_000,
            2**62,
            NOW_MS - 1,
        ]
        values = [1.0, 2.0, 3.0, 4.0, 5.0, None]
        report = table.write("s", times, unit="ms", value=values)
        assert report.accepted == 2
        assert [(r.index, r.reason) for r in report.refused] == [
            (0, treering.Reason.EXPIRED),
            (1, treering.Reason.FUTURE),
            (4, treering.Reason.NO_TIME),
            (5, treering.Reason.EMPTY),
        ]
        assert table.read("s", "-40d")["value"].tolist() == [3.0, 4.0]

    def test_strict_write_sends_nothing_if_one_reading_is_refused(
        self, table: treering.Table
    ) -> None:
        with pytest.raises(treering.RefusedReadingsError, match="older than the retention"):
            table.write("s", [NOW_MS, 0], unit="ms", value=[1.0, 2.0], strict=True)
        assert len(table.read("s", "-30d", missing_ok=True)) == 0

    def test_late_reading_is_readable_until_its_retention_ends(
        self, table: treering.Table, clock: treering.ManualClock
    ) -> None:
        table.write("s", [NOW_MS - 29 * DAY_MS], unit="ms", value=[1.0])
        assert len(table.read("s", "-30d")) == 1
        clock.advance("2d")
        assert len(table.read("s", "-60d")) == 0

    def test_finer_times_are_floored_and_counted(self, table: treering.Table) -> None:
        base = np.datetime64(NOW_MS, "ms").astype("datetime64[us]")
        report = table.write("s", [base + 123_999], value=[1.0])
        assert (report.accepted, report.floored) == (1, 1)
        assert table.read("s", "-1d").ts.tolist() == [NOW_MS + 123]

    def test_two_finer_times_that_collide_are_refused_and_named(
        self, table: treering.Table
    ) -> None:
        base = np.datetime64(NOW_MS, "ms").astype("datetime64[us]")
        report = table.write("s", [base + 123_456, base + 123_999], value=[1.0, 2.0])
        assert report.accepted == 0
        assert [r.reason for r in report.refused] == [treering.Reason.COLLISION] * 2
        kept = table.write(
            "s", [base + 123_456, base + 123_999], value=[1.0, 2.0], duplicates="last"
        )
        assert (kept.accepted, kept.repeats) == (1, 1)
        assert table.read("s", "-1d")["value"].tolist() == [2.0]

    def test_table_can_refuse_finer_times(self, store: Store) -> None:
        table = store.create(fresh_name("exact"), rate="1/s", retention="30d", finer="refuse")
        base = np.datetime64(NOW_MS, "ms").astype("datetime64[us]")
        report = table.write("s", [base, base + 1], value=[1.0, 2.0])
        assert report.accepted == 1
        assert [r.reason for r in report.refused] == [treering.Reason.FINER]

    def test_second_write_of_a_time_wins_and_repeats_are_free(self, table: treering.Table) -> None:
        assert table.write("s", [NOW_MS], unit="ms", value=[45.0]).accepted == 1
        assert table.write("s", [NOW_MS], unit="ms", value=[12.0]).accepted == 1
        same = table.write("s", [NOW_MS, NOW_MS], unit="ms", value=[12.0, 12.0])
        assert (same.accepted, same.repeats, same.refused_count) == (1, 1, 0)
        assert table.read("s", "-1d")["value"].tolist() == [12.0]

    def test_nan_is_a_value_and_none_is_missing(self, store: Store) -> None:
        table = store.create(
            fresh_name("two"), rate="1/s", retention="30d", columns="temp:double,hum:double"
        )
        table.write("s", [NOW_MS, NOW_MS + 1], unit="ms", temp=[math.nan, 2.0], hum=[None, 3.0])
        found = table.read("s", "-1d")
        assert np.isnan(found["temp"][0])
        assert not np.ma.isMaskedArray(found["temp"])
        assert np.ma.getmaskarray(found["hum"]).tolist() == [True, False]
        assert [row["hum"] for row in found.rows()] == [None, 3.0]

    @pytest.mark.parametrize("precision", ["ms", "us", "ns"])
    def test_times_before_1970_and_far_ones_floor_and_come_back(
        self, store: Store, precision: str
    ) -> None:
        table = store.create(fresh_name("old"), rate="1/h", retention=None, precision=precision)
        times = ["1969-12-31T23:59:59.999500Z", "1931-01-01T00:00:00Z", "2024-12-30T00:00:00Z"]
        report = table.write("s", times, value=[1.0, 2.0, 3.0])
        assert report.accepted == 3
        found = table.read("s", "1930-01-01", "2025-01-01")
        assert found["value"].tolist() == [2.0, 1.0, 3.0]
        per_s = table.precision.per_s
        floored = -1 if precision == "ms" else -per_s // 2_000
        assert found.ts.tolist()[1] == floored

    @pytest.mark.parametrize("width", list(treering.BucketWidth))
    def test_every_width_reads_what_it_wrote_across_a_year_end(
        self, store: Store, width: treering.BucketWidth
    ) -> None:
        table = store.create(fresh_name("width"), rate="1/h", retention=None, bucket=str(width))
        edges = np.array(
            [
                "2024-12-31T23:59:59.999",
                "2025-01-01T00:00",
                "2025-01-01T00:00:00.001",
                "2024-12-30T00:00",
                "2024-12-29T23:59:59.999",
            ],
            dtype="datetime64[ms]",
        )
        table.write("s", edges, value=np.arange(5.0))
        found = table.read("s", "2024-12-29", "2025-01-02")
        assert (found.time == np.sort(edges)).all()
        half = table.read("s", "2024-12-30", "2025-01-01")
        assert half.time.tolist() == np.sort(edges)[1:3].tolist()

    def test_write_frame_groups_series(self, table: treering.Table) -> None:
        frame = {
            "when": np.array([NOW_MS, NOW_MS, NOW_MS + 1], dtype="datetime64[ms]"),
            "sensor": ["a", "b", "a"],
            "value": [1.0, 2.0, 3.0],
            "other": [0, 0, 0],
        }
        report = table.write_frame(frame, time="when", series="sensor")
        assert report.accepted == 3
        assert table.read("a", "-1d")["value"].tolist() == [1.0, 3.0]
        assert sorted(table.series()) == ["a", "b"]

    def test_wide_plans_are_refused_before_anything_is_read(self, store: Store) -> None:
        table = store.create(fresh_name("fine"), rate="10/s", retention=None, bucket="15min")
        with pytest.raises(treering.FanOutTooWideError, match="partitions") as caught:
            table.read("s", "1970-01-01", "2025-01-01")
        assert caught.value.fitting_width is not None
        with pytest.raises(treering.UsageError, match="outside") as refused:
            table.read("s", 0, NOW_MS * 1_000_000, unit="ms")
        assert "ns" in refused.value.hint

    @pytest.mark.parametrize(
        ("call", "words"),
        [
            (lambda t: t.read("s", "-1d", "-2d"), "reversed"),
            (lambda t: t.read("s", "2025-01-01T00:00"), "no zone"),
            (lambda t: t.read("s", 5), "no unit"),
            (lambda t: t.read("s", "-1d", columns=["nope"]), "nope"),
            (lambda t: t.read("s", "-1d", limit=0), "limit"),
            (lambda t: t.read([], "-1d"), "at least one"),
            (lambda t: t.read("", "-1d"), "series id"),
            (lambda t: t.write("s", [dt.datetime(2025, 1, 1)], value=[1.0]), "zone"),  # noqa: DTZ001
            (lambda t: t.write("s", ["-5m"], value=[1.0]), "not the time of a reading"),
            (lambda t: t.write("s", [1], value=[1.0]), "unit"),
            (lambda t: t.write("s", [1, 2], unit="ms", value=[1.0]), "1 values for 2"),
            (lambda t: t.write("s", [1], unit="ms", nope=[1.0]), "nope"),
            (lambda t: t.write("s", [1], unit="ms"), "no column"),
            (lambda t: t.write("s", [1], unit="ms", value=["x"]), "double"),
            (lambda t: t.write("s", [1], unit="fortnights", value=[1.0]), "unit of time"),
        ],
    )
    def test_wrong_input_is_named_and_nothing_is_sent(
        self, table: treering.Table, call: Any, words: str
    ) -> None:
        with pytest.raises(treering.UsageError, match=words):
            call(table)
        assert list(table.series()) == []

    # Changing the retention

    def test_shorter_retention_holds_for_reads_at_once_and_a_repeat_changes_nothing(
        self, store: Store, table: treering.Table
    ) -> None:
        times = np.arange(NOW_MS - 20 * DAY_MS, NOW_MS, DAY_MS)
        table.write("s", times, unit="ms", value=times.astype(float))
        plan = table.plan_retention("10d")
        assert plan.changes[0] == ("retention", "30d", "10d")
        assert len(table.read("s", "-30d")) == 20
        assert table.set_retention("10d").steps == plan.steps
        assert len(table.read("s", "-30d")) == 10
        assert store.table(table.name).spec == table.spec
        assert len(store.table(table.name).read("s", "-30d")) == 10
        assert table.set_retention("10d").steps == ()
        report = table.write("s", [NOW_MS - 15 * DAY_MS], unit="ms", value=[0.0])
        assert [r.reason for r in report.refused] == [treering.Reason.EXPIRED]

    def test_longer_retention_takes_older_readings(self, table: treering.Table) -> None:
        old = NOW_MS - 40 * DAY_MS
        assert table.write("s", [old, NOW_MS], unit="ms", value=[1.0, 2.0]).accepted == 1
        plan = table.set_retention("90d")
        assert plan.grows
        assert plan.complete_s >= NOW_S + 90 * DAY_S
        assert table.write("s", [old], unit="ms", value=[1.0]).accepted == 1
        assert table.read("s", "-60d")["value"].tolist() == [1.0, 2.0]
        assert table.latest("s", 2)["value"].tolist() == [2.0, 1.0]

    def test_retention_without_end_is_no_retention_to_change_to_or_from(
        self, store: Store, table: treering.Table
    ) -> None:
        with pytest.raises(treering.UsageError, match="for ever"):
            table.set_retention("forever")
        endless = store.create(fresh_name("endless"), rate="1/s", retention=None)
        with pytest.raises(treering.UsageError, match="for ever"):
            endless.set_retention("30d")

    def test_table_opened_elsewhere_follows_within_its_lease(
        self, store: Store, table: treering.Table, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        other = store.table(table.name)
        table.set_retention("10d")
        assert other.spec.retention_s == 30 * DAY_S
        # The lease ends now instead of in a minute.
        monkeypatch.setattr(other, "_fresh_until_s", 0.5)
        assert len(other.read("s", "-30d", missing_ok=True)) == 0
        assert other.spec == table.spec

    # Deleting

    def test_delete_takes_whole_buckets_and_edges_and_later_writes_live(
        self, table: treering.Table
    ) -> None:
        times = np.arange(NOW_MS - 5 * DAY_MS, NOW_MS, 3_600_000)
        table.write("s", times, unit="ms", value=times.astype(float))
        table.write("other", times, unit="ms", value=times.astype(float))
        start, end = NOW_MS - 4 * DAY_MS, NOW_MS - DAY_MS // 4
        report = table.delete("s", start, end, unit="ms", allow_on_twcs=True)
        assert (report.plan.wholes, report.plan.ranges) == (3, 2)
        left = times[(times < start) | (times >= end)]
        assert table.read("s", "-9d").ts.tolist() == left.tolist()
        assert len(table.read("other", "-9d")) == len(times)
        # Of one session, what is written after the deletion is later, whatever the clock's grain.
        table.write("s", [NOW_MS - 2 * DAY_MS], unit="ms", value=[7.0])
        assert table.read("s", "-9d").ts.tolist() == sorted([*left.tolist(), NOW_MS - 2 * DAY_MS])
        table.delete("s", "-9d", allow_on_twcs=True)
        assert len(table.read("s", "-9d")) == 0
        assert len(table.latest("s")) == 0

    def test_delete_that_is_not_allowed_touches_nothing(
        self, store: Store, table: treering.Table
    ) -> None:
        table.write("s", [NOW_MS], unit="ms", value=[1.0])
        plan = table.plan_delete("s", "-2d")
        assert plan.costs
        assert len(table.read("s", "-1d")) == 1
        if store.engine_name == "cassandra":
            with pytest.raises(treering.UsageError, match="TWCS") as caught:
                table.delete("s", "-2d")
            assert "allow_on_twcs" in caught.value.hint
            with pytest.raises(treering.UsageError, match="TWCS"):
                table.drop_series("s")
            assert len(table.read("s", "-1d")) == 1
        else:
            table.delete("s", "-2d")
            assert len(table.read("s", "-1d")) == 0

    def test_table_that_is_designed_for_deletions_needs_no_permission(self, store: Store) -> None:
        table = store.create(
            fresh_name("deleting"), rate="1/s", retention="30d", workload={"deletes": True}
        )
        table.write("s", [NOW_MS], unit="ms", value=[1.0])
        table.delete("s", "-2d")
        assert len(table.read("s", "-1d")) == 0

    def test_dropped_series_is_gone_and_can_come_again(self, table: treering.Table) -> None:
        times = [NOW_MS - 29 * DAY_MS, NOW_MS - DAY_MS, NOW_MS + 1_000]
        for name in ("a", "b"):
            table.write(name, times, unit="ms", value=[1.0, 2.0, 3.0])
        assert table.drop_series("a", allow_on_twcs=True).dropped == ("a",)
        assert list(table.series()) == ["b"]
        with pytest.raises(treering.SeriesNotFoundError):
            table.read("a", "-30d")
        assert len(table.read("b", "-30d")) == 3
        table.drop_series("a", allow_on_twcs=True)
        table.write("a", times[1:2], unit="ms", value=[9.0])
        assert table.read("a", "-30d")["value"].tolist() == [9.0]
        assert list(table.series()) == ["a", "b"]

    def test_unknown_table_names_those_that_are_there(self, store: Store) -> None:
        store.create("there", rate="1/s", retention="30d")
        with pytest.raises(treering.TableNotFoundError, match="nowhere") as caught:
            store.table("nowhere")
        assert "there" in caught.value.hint
        store.drop("there")

    def test_closed_store_says_so(self, store: Store) -> None:
        table = store.create(fresh_name("closing"), rate="1/s", retention="30d")
        store.close()
        store.close()
        with pytest.raises(treering.StoreClosedError):
            table.read("s", "-1d")
        with pytest.raises(treering.StoreClosedError):
            store.table(table.name)

    @given(
        offsets=st.lists(st.integers(0, 20 * DAY_MS), min_size=1, max_size=30, unique=True),
        span=st.tuples(st.integers(0, 20 * DAY_MS), st.integers(0, 20 * DAY_MS)),
        limit=st.none() | st.integers(1, 10),
        order=st.sampled_from(["asc", "desc"]),
    )
    @settings(
        max_examples=25,
        deadline=None,
        suppress_health_check=SHARED,
    )
    def test_read_of_any_interval_returns_exactly_what_lies_in_it(
        self,
        table: treering.Table,
        offsets: list[int],
        span: tuple[int, int],
        limit: int | None,
        order: Order,
    ) -> None:
        series = fresh_name("any")
        times = [NOW_MS - offset for offset in offsets]
        table.write(series, times, unit="ms", value=[float(ts) for ts in times])
        start, end = NOW_MS - max(span), NOW_MS - min(span)
        found = table.read(series, start, end, unit="ms", order=order, limit=limit)
        wanted = sorted((ts for ts in times if start <= ts < end), reverse=order == "desc")
        assert found.ts.tolist() == wanted[:limit]
        assert found["value"].tolist() == [float(ts) for ts in wanted[:limit]]


def _iso(ts_ms: int) -> str:
    return dt.datetime.fromtimestamp(ts_ms / 1_000, dt.UTC).isoformat()
