"""Segments: where readings go, how pages cross files, what expiry takes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine.contract import DAY_MS, NOW_MS, NOW_S, read_all, spec_of, write_of
from treering.core.bucket import bucket_of
from treering.core.listing import LIMIT_MIN, BucketListing
from treering.core.read_plan import Order, PartitionRead
from treering.core.segment import segment_length_s, segment_of
from treering.core.table import TableSpec
from treering.core.units import DAY_S, Precision
from treering.engine.memory import MemoryEngine
from treering.engine.protocol import Engine, PageRead
from treering.engine.sqlite import SqliteEngine
from treering.engine.sqlite.block_table import SealRules
from treering.engine.sqlite.layout import segment_name
from treering.errors import EngineError

# The first instant of a month's bucket: segments of one day tile it.
MONTH_MS = int(
    np.datetime64(NOW_S, "s").astype("datetime64[M]").astype("datetime64[ms]").astype(int)
)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[SqliteEngine]:
    engine = SqliteEngine(tmp_path / "store")
    yield engine
    engine.close()


@pytest.fixture
def month(engine: SqliteEngine) -> TableSpec:
    """Return a table whose buckets are months and whose segments are days."""
    spec = engine.create_table(spec_of("months", rate_hz=0.01, bucket="month"))
    assert segment_length_s(spec) == DAY_S
    return spec


def put(engine: Engine, spec: TableSpec, series: str, times: list[int]) -> None:
    write = write_of(spec, series, times, value=[float(ts) for ts in times])
    engine.submit_write(spec, write).result()


def segment_files(engine: SqliteEngine, spec: TableSpec) -> list[str]:
    return sorted(path.name for path in (engine.folder / spec.name).glob("*.db"))


def test_each_segment_is_a_file_named_by_its_start(engine: SqliteEngine, month: TableSpec) -> None:
    put(engine, month, "s", [MONTH_MS, MONTH_MS + DAY_MS - 1, MONTH_MS + DAY_MS])
    days = [MONTH_MS // 1_000, MONTH_MS // 1_000 + DAY_S]
    assert segment_files(engine, month) == [segment_name(start_s) for start_s in days]


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("rows_max", [1, 2, 7, 100])
def test_pages_cross_segments_and_skip_those_that_are_not_there(
    engine: SqliteEngine, month: TableSpec, order: Order, rows_max: int
) -> None:
    times = [MONTH_MS + day * DAY_MS + step for day in (0, 1, 5, 9) for step in range(5)]
    put(engine, month, "s", times)
    found = read_all(
        engine, month, "s", MONTH_MS, MONTH_MS + 20 * DAY_MS, order=order, rows_max=rows_max
    )
    assert [row[0] for row in found] == sorted(times, reverse=order == "desc")


def test_long_interval_is_read_from_a_listing(engine: SqliteEngine) -> None:
    spec = engine.create_table(
        spec_of("fine", rate_hz=0.001, retention_s=2 * DAY_S, bucket="month")
    )
    length_ms = segment_length_s(spec) * 1_000
    times = [MONTH_MS + 3, MONTH_MS + 50 * length_ms, MONTH_MS + 90 * length_ms]
    put(engine, spec, "s", times)
    end = MONTH_MS + 100 * length_ms
    for order, wanted in (("asc", times), ("desc", times[::-1])):
        found = read_all(engine, spec, "s", MONTH_MS, end, order=order, rows_max=2)  # type: ignore[arg-type]
        assert [row[0] for row in found] == wanted


@pytest.mark.parametrize("precision", list(Precision))
def test_readings_at_the_ends_of_time_are_listed(
    engine: SqliteEngine, precision: Precision
) -> None:
    spec = engine.create_table(
        spec_of("ends", rate_hz=1e-5, retention_s=None, precision=precision, bucket="month")
    )
    first, per_s = precision.ts_min, precision.per_s
    # Where its bucket and segment start, and where those of the last one end, 64 bits do not hold.
    for ts in (first, precision.ts_end - 1):
        put(engine, spec, "s", [ts])
        listing = BucketListing(
            series="s",
            start_s=bucket_of(ts, spec.width, precision).start_s,
            end_s=ts // per_s + 1,
            widths=(spec.width,),
            limit=LIMIT_MIN,
        )
        for asked in (listing, replace(listing, is_newest_first=False)):
            (bucket,) = engine.submit_listing(spec, asked).result().buckets
            assert bucket == bucket_of(ts, spec.width, precision)


def test_full_last_page_needs_no_further_one(engine: SqliteEngine, month: TableSpec) -> None:
    put(engine, month, "s", [MONTH_MS, MONTH_MS + DAY_MS])
    bucket = write_of(month, "s", [MONTH_MS], value=[0.0]).bucket
    request = PageRead(
        partition=PartitionRead("s", bucket, MONTH_MS, MONTH_MS + 9 * DAY_MS),
        order="asc",
        columns=month.columns,
        rows_max=2,
    )
    page = engine.submit_read(month, request).result()
    assert (len(page), page.cursor) == (2, None)


def test_readings_survive_reopening(tmp_path: Path) -> None:
    first = SqliteEngine(tmp_path)
    spec = first.create_table(spec_of("readings"))
    first.add_series(spec, ("s",))
    put(first, spec, "s", [NOW_MS])
    first.close()
    second = SqliteEngine(tmp_path, create=False)
    assert second.load_table("readings") == spec
    assert list(second.series(spec)) == ["s"]
    assert read_all(second, spec, "s", NOW_MS, NOW_MS + 1) == [(NOW_MS, float(NOW_MS))]
    second.close()


def test_readings_are_durable_by_sqlites_own_settings(
    engine: SqliteEngine, month: TableSpec
) -> None:
    put(engine, month, "s", [MONTH_MS])
    with engine._opened.pool.lease(
        engine._path(month, segment_of(MONTH_MS // 1_000, DAY_S))
    ) as slot:
        assert slot.file is not None
        connection = slot.file._connection
        (full,) = connection.execute("PRAGMA synchronous").fetchone()
        (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    assert (full, mode) == (2, "wal")


def test_more_segments_than_may_stay_open_are_all_read(
    engine: SqliteEngine, month: TableSpec
) -> None:
    engine._opened.pool._open_max = 3
    times = [MONTH_MS + day * DAY_MS for day in range(20)]
    put(engine, month, "s", times)
    found = read_all(engine, month, "s", MONTH_MS, MONTH_MS + 28 * DAY_MS)
    assert [row[0] for row in found] == times
    assert len(engine._opened.pool._slots) == 3


@pytest.mark.parametrize("are_packed", [False, True], ids=["rows", "blocks"])
def test_full_disk_is_said_and_what_was_acknowledged_stays(
    tmp_path: Path, are_packed: bool
) -> None:
    engine = SqliteEngine(tmp_path, rules=SealRules(is_on=are_packed))
    month = engine.create_table(spec_of("months", rate_hz=0.01, bucket="month"))
    put(engine, month, "s", [MONTH_MS])
    path = engine._path(month, segment_of(MONTH_MS // 1_000, DAY_S))
    with engine._opened.pool.lease(path) as slot:
        assert slot.file is not None
        slot.file._connection.execute("PRAGMA max_page_count=12")
    noise = np.random.default_rng(1).normal(size=20_000).tolist()
    many = [MONTH_MS + 1 + step for step in range(len(noise))]
    with pytest.raises(EngineError, match="disk is full") as caught:
        engine.submit_write(month, write_of(month, "s", many, value=noise)).result()
    assert str(path) in str(caught.value)
    found = read_all(engine, month, "s", MONTH_MS, MONTH_MS + DAY_MS)
    assert found == [(MONTH_MS, float(MONTH_MS))]
    # A series whose first write was rolled back must not be taken for listed.
    with pytest.raises(EngineError, match="disk is full"):
        engine.submit_write(month, write_of(month, "other", many, value=noise)).result()
    put(engine, month, "other", [MONTH_MS])
    assert len(read_all(engine, month, "other", MONTH_MS, MONTH_MS + DAY_MS)) == 1
    engine.close()


def test_reading_without_any_value_is_not_kept(engine: SqliteEngine) -> None:
    spec = engine.create_table(spec_of("two", columns="a:double,b:double"))
    write = write_of(spec, "s", [NOW_MS, NOW_MS + 1], a=[None, 1.0], b=[None, None])
    engine.submit_write(spec, write).result()
    assert read_all(engine, spec, "s", NOW_MS, NOW_MS + 9) == [(NOW_MS + 1, 1.0, None)]


def test_many_writes_together_are_the_same_as_one_by_one(
    engine: SqliteEngine, month: TableSpec
) -> None:
    writes = [
        write_of(month, f"s{number % 3}", [MONTH_MS + number * DAY_MS // 4], value=[float(number)])
        for number in range(30)
    ]
    engine.submit_writes(month, tuple(writes)).result()
    engine.submit_writes(month, ()).result()
    for series in range(3):
        found = read_all(engine, month, f"s{series}", MONTH_MS, MONTH_MS + 9 * DAY_MS)
        assert [row[1] for row in found] == [float(n) for n in range(series, 30, 3)]


def test_common_row_is_small(tmp_path: Path) -> None:
    engine = SqliteEngine(tmp_path, rules=SealRules(is_on=False))
    month = engine.create_table(spec_of("months", rate_hz=0.01, bucket="month"))
    put(engine, month, "s", [MONTH_MS + 10 * step for step in range(50_000)])
    size = engine.info(month).parts[0]["bytes"]
    engine.close()
    connection = sqlite3.connect(engine.folder / "months" / segment_name(MONTH_MS // 1_000))
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.close()
    assert pages * 4_096 / 50_000 < 36
    assert size >= pages * 4_096


# Expiry


def test_expiry_unlinks_whole_segments_and_only_those(
    engine: SqliteEngine, month: TableSpec
) -> None:
    times = [NOW_MS - days * DAY_MS for days in (33, 32, 31, 30, 1)]
    for ts in times:
        put(engine, month, "s", [ts])
    before = segment_files(engine, month)
    planned = engine.expire(month, now_s=NOW_S, dry_run=True)
    assert not planned.is_removed
    assert segment_files(engine, month) == before
    report = engine.expire(month, now_s=NOW_S)
    assert report.is_removed
    # The segment of 31 days ago ended 30.5 days ago; that of 30 days ago still holds readings.
    assert [removal.name for removal in report.removals] == before[:3]
    assert report.removals == planned.removals
    assert report.bytes > 0
    assert segment_files(engine, month) == before[3:]
    left = sorted(path.name for path in (engine.folder / "months").iterdir())
    assert [name.removesuffix("-wal").removesuffix("-shm") in before[3:] for name in left]
    assert not any(name.startswith(tuple(before[:3])) for name in left)
    assert engine.expire(month, now_s=NOW_S).removals == ()


def test_table_for_ever_never_expires(engine: SqliteEngine) -> None:
    spec = engine.create_table(spec_of("kept", retention_s=None))
    put(engine, spec, "s", [NOW_MS])
    assert engine.expire(spec, now_s=NOW_S + 10**9).removals == ()
    assert len(read_all(engine, spec, "s", NOW_MS, NOW_MS + 1)) == 1


def test_write_after_another_user_expired_the_segment_is_not_lost(tmp_path: Path) -> None:
    one, other = SqliteEngine(tmp_path), SqliteEngine(tmp_path)
    spec = one.create_table(spec_of("readings"))
    old = NOW_MS - 40 * DAY_MS
    put(one, spec, "s", [old])
    assert len(other.expire(spec, now_s=NOW_S).removals) == 1
    assert read_all(one, spec, "s", old, old + 2) == []
    put(one, spec, "s", [old + 1])
    for engine in (one, other):
        found = read_all(engine, spec, "s", old, old + 2)
        assert [row[0] for row in found] == [old + 1]
    one.close()
    other.close()
    again = SqliteEngine(tmp_path)
    assert len(read_all(again, spec, "s", old, old + 2)) == 1
    again.close()


def test_log_that_a_crash_in_expiry_left_is_not_replayed(tmp_path: Path) -> None:
    engine = SqliteEngine(tmp_path)
    spec = engine.create_table(spec_of("readings"))
    put(engine, spec, "s", [NOW_MS])
    path = engine._path(spec, segment_of(NOW_MS // 1_000, segment_length_s(spec)))
    log = path.with_name(path.name + "-wal")
    left = log.read_bytes()
    assert left
    engine.close()
    # As a crash between two unlinks leaves it.
    path.unlink()
    log.write_bytes(left)
    engine = SqliteEngine(tmp_path)
    put(engine, spec, "s", [NOW_MS + 1])
    found = read_all(engine, spec, "s", NOW_MS, NOW_MS + 9)
    assert [row[0] for row in found] == [NOW_MS + 1]
    assert engine.info(spec, is_thorough=True).problems == ()
    engine.close()


# Beside the memory engine

_step = st.tuples(
    st.sampled_from(["a", "b"]),
    st.lists(st.integers(0, 6), min_size=1, max_size=4, unique=True),
    st.integers(1, 4),
    st.sampled_from(["x", "y"]),
    st.sampled_from([0.0, -0.0, 1.0, -1.0, float("nan"), float("-inf")]),
)


@given(steps=st.lists(_step, max_size=15), order=st.sampled_from(["asc", "desc"]))
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_any_writes_read_like_the_memory_engine(
    engine: SqliteEngine,
    steps: list[tuple[str, list[int], int, str, float]],
    order: Order,
) -> None:
    wanted = spec_of("model", columns="x:double,y:double", rate_hz=0.01, bucket="month")
    memory = MemoryEngine()
    for each in (memory, engine):
        each.drop_table(each.create_table(wanted))
        spec = each.create_table(wanted)
        for series, days, stamp, column, value in steps:
            times = [MONTH_MS + day * DAY_MS // 2 for day in sorted(days)]
            write = write_of(spec, series, times, stamp, **{column: [value] * len(times)})
            each.submit_write(spec, write).result()
    for series in ("a", "b"):
        found = [
            read_all(
                each,
                each.create_table(wanted),
                series,
                MONTH_MS,
                MONTH_MS + 4 * DAY_MS,
                order=order,
                rows_max=3,
            )
            for each in (memory, engine)
        ]
        assert repr(found[0]) == repr(found[1])
