"""Problems that people had with time series on Cassandra, as far as the store answers for them.

Each test names what holds; the cases that the contract of engines and the tests of designs hold
already are not repeated here.
"""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treering
from treering.core.listing import BucketListing, ListedBuckets
from treering.core.read_plan import Order
from treering.core.table import TableSpec
from treering.core.write_plan import PartitionWrite, Reason
from treering.engine.cassandra.batch_body import BATCH_BYTES_MAX, batch_bodies
from treering.engine.memory import MemoryEngine
from treering.engine.protocol import Page, PageRead
from treering.errors import EngineTimeoutError, UnavailableError
from treering.store import Store

NOW = dt.datetime(2025, 11, 20, 12, tzinfo=dt.UTC)
NOW_MS = 1_763_640_000_000
DAY_MS = 86_400_000


class RecordingEngine(MemoryEngine):
    """The memory engine, with a list of what it was asked and faults by bucket."""

    def __init__(self) -> None:
        super().__init__()
        self.in_flight_max = 8
        self.reads: list[PageRead] = []
        self.listings: list[BucketListing] = []
        self.writes: list[PartitionWrite] = []
        self.failing: dict[str, Exception] = {}
        self.failures_left = 1_000
        self.is_delayed = False

    def submit_write(self, spec: TableSpec, write: PartitionWrite) -> Future[None]:
        self.writes.append(write)
        return super().submit_write(spec, write)

    def submit_read(self, spec: TableSpec, read: PageRead) -> Future[Page]:
        self.reads.append(read)
        error = self.failing.get(read.partition.bucket.text)
        if error is not None and self.failures_left:
            self.failures_left -= 1
            failed: Future[Page] = Future()
            failed.set_exception(error)
            return failed
        answer = super().submit_read(spec, read)
        return self._late(answer, len(self.reads)) if self.is_delayed else answer

    def submit_listing(self, spec: TableSpec, listing: BucketListing) -> Future[ListedBuckets]:
        self.listings.append(listing)
        return super().submit_listing(spec, listing)

    def _late(self, answer: Future[Page], serial: int) -> Future[Page]:
        # Earlier requests are answered later, so that completion runs against the plan's order.
        late: Future[Page] = Future()
        timer = threading.Timer(0.2 / serial, lambda: late.set_result(answer.result()))
        timer.start()
        return late

    @property
    def buckets_read(self) -> list[str]:
        return [read.partition.bucket.text for read in self.reads]


@pytest.fixture
def clock() -> treering.ManualClock:
    return treering.ManualClock(NOW)


@pytest.fixture
def engine() -> RecordingEngine:
    return RecordingEngine()


@pytest.fixture
def recorded(engine: RecordingEngine, clock: treering.ManualClock) -> Iterator[Store]:
    with Store(engine, clock=clock) as store:
        yield store


@pytest.fixture(params=["memory", "sqlite"])
def store(
    request: pytest.FixtureRequest, tmp_path: Path, clock: treering.ManualClock
) -> Iterator[Store]:
    where = "memory://" if request.param == "memory" else str(tmp_path / "plant")
    with treering.open(where, clock=clock) as opened:
        yield opened


def day_table(store: Store, name: str = "readings", **choices: Any) -> treering.Table:
    choices = {"rate": "1/min", "retention": "30d", "bucket": "day"} | choices
    return store.create(name, **choices)


# TS03, TS24: what is sent


def test_missing_value_is_left_out_and_hides_nothing(
    recorded: Store, engine: RecordingEngine
) -> None:
    table = day_table(recorded, columns="temp:double,hum:double")
    table.write("s1", [NOW_MS], unit="ms", temp=[21.0], hum=[40.0])
    table.write("s1", [NOW_MS], unit="ms", temp=[21.5], hum=[None])
    table.write("s1", [NOW_MS - 1, NOW_MS], unit="ms", temp=[None, 22.0], hum=[41.0, None])
    # A column without a value is not in the write at all; beside others its cell is marked.
    assert [sorted(write.columns) for write in engine.writes] == [
        ["hum", "temp"],
        ["temp"],
        ["hum", "temp"],
    ]
    assert engine.writes[2].columns["hum"].to_list() == [41.0, None]
    found = table.read("s1", "-1h")
    assert found["temp"].tolist() == [None, 22.0]
    assert found["hum"].tolist() == [41.0, 40.0]


def test_no_write_carries_a_lifetime_that_means_never(
    recorded: Store, engine: RecordingEngine
) -> None:
    table = day_table(recorded)
    ages = [0, DAY_MS, 29 * DAY_MS, 30 * DAY_MS - 1_000, 30 * DAY_MS - 999, 30 * DAY_MS, -600_000]
    report = table.write("s", [NOW_MS - age for age in ages], unit="ms", value=np.arange(7.0))
    assert report.refused_count == 2
    assert len(engine.writes) >= 4
    assert all(write.ttl_s is None or write.ttl_s >= 1 for write in engine.writes)
    for_ever = day_table(recorded, "for_ever", retention=None)
    for_ever.write("s", ["1990-01-01", NOW], value=[1.0, 2.0])
    assert {write.ttl_s for write in engine.writes[-2:]} == {None}


# TS04: zones


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kathmandu"])
def test_naive_time_is_refused_and_the_host_zone_changes_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    table = day_table(store, retention=None)
    with monkeypatch.context() as patch:
        patch.setenv("TZ", zone)
        time.tzset()
        with pytest.raises(treering.UsageError, match="time zone"):
            table.write("s1", dt.datetime(2024, 3, 10, 2, 30), value=1.0)  # noqa: DTZ001
        eastern = dt.timezone(dt.timedelta(hours=-5))
        table.write("s1", dt.datetime(2024, 3, 10, 2, 30, tzinfo=eastern), value=1.0)
        found = table.read("s1", "2024-03-10", "2024-03-11")
        assert found.ts.tolist() == [1_710_055_800_000]
        assert found.to_datetimes() == [dt.datetime(2024, 3, 10, 7, 30, tzinfo=dt.UTC)]
    time.tzset()


# TS05, TS06: order and limits over buckets


def three_days_of_four(store: Store) -> treering.Table:
    table = day_table(store)
    times = [NOW_MS - day * DAY_MS + step for day in (2, 1, 0) for step in (-4, -3, -2, -1)]
    table.write("s1", times, unit="ms", value=np.arange(12.0))
    return table


@pytest.mark.parametrize(
    ("order", "values", "buckets"),
    [
        ("desc", [11, 10, 9, 8, 7], ["2025-11-20", "2025-11-19"]),
        ("asc", [0, 1, 2, 3, 4], ["2025-11-18", "2025-11-19"]),
    ],
)
def test_limit_reads_no_bucket_and_no_reading_more_than_it_needs(
    recorded: Store, engine: RecordingEngine, order: Order, values: list[int], buckets: list[str]
) -> None:
    table = three_days_of_four(recorded)
    found = table.read("s1", "2025-11-18", "2025-11-21", order=order, limit=5)
    assert found["value"].tolist() == values
    assert engine.buckets_read == buckets
    assert [read.rows_max for read in engine.reads] == [5, 1]


def test_each_request_is_for_one_partition_and_results_are_ordered_by_time(
    recorded: Store, engine: RecordingEngine
) -> None:
    table = three_days_of_four(recorded)
    engine.is_delayed = True
    found = table.read("s1", "2025-11-18", "2025-11-21", order="desc")
    assert found["value"].tolist() == list(range(11, -1, -1))
    assert sorted(engine.buckets_read) == ["2025-11-18", "2025-11-19", "2025-11-20"]
    assert (np.diff(found.ts) < 0).all()


# TS07: bulk writes


def test_ts07_bulk_write_goes_out_in_batches_of_one_partition_each(
    recorded: Store, engine: RecordingEngine
) -> None:
    table = day_table(recorded, columns="value:double,note:text")
    rows = np.arange(500)
    names = [f"s{row % 19}" for row in rows]
    times = NOW_MS - (rows % 3) * DAY_MS - rows
    frame = {"ts": times, "id": names, "value": rows.astype(float), "note": ["x" * 150] * 500}
    report = table.write_frame(frame, series="id", unit="ms")
    assert report.accepted == 500
    assert len(engine.writes) == 57
    assert len({(write.series, write.bucket) for write in engine.writes}) == 57
    assert sum(len(write) for write in engine.writes) == 500
    for write in engine.writes:
        (batch,) = batch_bodies(write, table.columns, b"i" * 16)
        key = (write.series.encode(), write.bucket.text.encode())
        cells = b"".join(len(part).to_bytes(4, "big") + part for part in key)
        assert bytes(batch.body).count(cells) == len(batch) == len(write)
        assert 200 < len(batch.body) / len(batch) < 260


def test_ts07_batch_of_one_partition_is_far_below_the_largest_mutation(
    recorded: Store, engine: RecordingEngine
) -> None:
    table = day_table(recorded, columns="note:text")
    table.write("s", NOW_MS - np.arange(200), unit="ms", note=["x" * 30_000] * 200)
    batches = [
        batch for write in engine.writes for batch in batch_bodies(write, table.columns, b"i" * 16)
    ]
    assert sum(map(len, batches)) == 200
    # Half a segment of the commit log is 16 MiB by default.
    assert 8 * BATCH_BYTES_MAX <= 16 * 1024 * 1024
    assert max(len(batch.body) for batch in batches) <= BATCH_BYTES_MAX


# TS09: no driver


def test_embedded_store_works_where_the_driver_raises_at_import(tmp_path: Path) -> None:
    broken = tmp_path / "path" / "cassandra"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise ImportError('no event loop was built')\n")
    program = f"""
        import sys, treering
        for where in ("memory://", {str(tmp_path / "plant")!r}):
            with treering.open(where) as store:
                table = store.create("readings", rate="1/s", retention="30d")
                table.write("s", treering.ManualClock("-1h").text, value=1.0)
                assert table.read("s", "-2h")["value"].tolist() == [1.0]
        assert not [name for name in sys.modules if name.partition(".")[0] == "cassandra"]
        try:
            treering.open("cassandra://127.0.0.1:1/plant")
        except treering.TreeringError as error:
            print(type(error).__name__, error.hint)
    """
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(program)],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "path")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("MissingExtraError")
    assert "pip install" in done.stdout


# TS13, TS58, TS81: write times


def test_write_times_are_now_in_microseconds_whatever_the_readings_say(
    recorded: Store, engine: RecordingEngine
) -> None:
    table = day_table(recorded)
    before_us = time.time_ns() // 1_000
    for days in (0, 3, 20):
        table.write("s", NOW_MS - days * DAY_MS, unit="ms", value=1.0)
    stamps = [write.write_us for write in engine.writes]
    assert before_us <= stamps[0] < stamps[1] < stamps[2] <= time.time_ns() // 1_000 + 2


def test_moving_the_manual_clock_does_not_move_write_times(
    recorded: Store, engine: RecordingEngine, clock: treering.ManualClock
) -> None:
    table = day_table(recorded)
    clock.advance("600s")
    table.write("s", NOW_MS, unit="ms", value=1.0)
    assert abs(engine.writes[0].write_us - time.time_ns() // 1_000) < 60_000_000


def test_last_of_many_writes_within_a_microsecond_wins(store: Store) -> None:
    table, other = day_table(store), day_table(store)
    for value in range(100, 0, -1):
        (table if value % 2 else other).write("s", NOW_MS, unit="ms", value=float(value))
    assert table.read("s", "-1h")["value"].tolist() == [1.0]


# TS14, TS15: precision and duplicates


def test_finer_time_is_truncated_the_same_way_in_writing_and_reading(store: Store) -> None:
    table = day_table(store, retention=None)
    noon = dt.datetime(2025, 11, 20, 12, tzinfo=dt.UTC)
    exact = noon.replace(microsecond=123_456)
    assert table.write("s", exact, value=1.0).floored == 1
    assert table.write("s", noon.replace(second=1, microsecond=999_999), value=2.0).floored == 1
    found = table.read("s", exact, noon.replace(second=1, microsecond=999_999))
    assert found.to_datetimes() == [noon.replace(microsecond=123_000)]
    assert table.latest("s").to_datetimes() == [noon.replace(second=1, microsecond=999_000)]


@pytest.mark.parametrize("precision", ["us", "ns"])
def test_table_of_finer_precision_tells_such_times_apart(store: Store, precision: str) -> None:
    table = day_table(store, precision=precision)
    moments = [NOW - dt.timedelta(microseconds=us) for us in (544, 1)]
    report = table.write("s", moments, value=[1.0, 2.0])
    assert (report.accepted, report.floored, report.refused_count) == (2, 0, 0)
    assert table.read("s", "-1h").to_datetimes() == moments


@pytest.mark.parametrize(
    ("duplicates", "kept", "refused"),
    [("refuse", [], 2), ("first", [45.0], 0), ("last", [12.0], 0)],
)
def test_what_becomes_of_two_readings_of_one_time_is_said_and_done(
    store: Store, duplicates: Any, kept: list[float], refused: int
) -> None:
    table = day_table(store)
    report = table.write("s", [NOW_MS] * 2, unit="ms", value=[45.0, 12.0], duplicates=duplicates)
    assert report.refused_count == refused
    assert set(report.reasons) == ({str(Reason.COLLISION)} if refused else set())
    assert table.read("s", "-1h", missing_ok=True)["value"].tolist() == kept
    with pytest.raises(treering.UsageError, match="'merge' is not known"):
        table.write("s", NOW_MS, unit="ms", value=1.0, duplicates="merge")  # type: ignore[arg-type]


# TS18, TS30: buckets


@pytest.mark.parametrize(
    ("moment", "start_ms", "text"),
    [
        ("2024-12-30T00:00:00Z", 1_735_516_800_000, "2025-W01"),
        ("2024-12-29T23:59:59.999Z", 1_734_912_000_000, "2024-W52"),
        ("2021-01-01T00:00:00Z", 1_609_113_600_000, "2020-W53"),
        ("2027-01-03T00:00:00Z", 1_798_416_000_000, "2026-W53"),
    ],
)
def test_week_is_an_instant_to_start_at_and_named_by_its_own_year(
    moment: str, start_ms: int, text: str
) -> None:
    ts = int(dt.datetime.fromisoformat(moment).timestamp() * 1_000)
    bucket = treering.bucket_of(ts, "week")
    assert (bucket.start_s * 1_000, bucket.text) == (start_ms, text)
    assert treering.parse_bucket(text) == bucket


@pytest.mark.parametrize(
    ("ts", "start_ms"),
    [(-1, -86_400_000), (-86_400_000, -86_400_000), (-1_230_757_200_000, -1_230_768_000_000)],
)
def test_day_before_1970_is_floored(ts: int, start_ms: int) -> None:
    assert treering.bucket_of(ts, "day").start_s * 1_000 == start_ms


def test_time_before_1970_and_its_bucket_agree(recorded: Store, engine: RecordingEngine) -> None:
    table = day_table(recorded, retention=None)
    report = table.write(
        "s", dt.datetime(1969, 12, 31, 23, 59, 59, 999_500, tzinfo=dt.UTC), value=1
    )
    assert (report.accepted, report.floored) == (1, 1)
    (write,) = engine.writes
    assert (write.ts.tolist(), write.bucket.start_s) == ([-1], -86_400)
    assert table.read("s", "1969-12-31", "1970-01-01").ts.tolist() == [-1]


# TS20: the width is part of the table


def test_table_reopened_with_another_width_is_refused_and_keeps_its_readings(
    tmp_path: Path, clock: treering.ManualClock
) -> None:
    choices: dict[str, Any] = {"rate": "1/h", "retention": "90d"}
    times = np.array(NOW_MS) - np.arange(60) * DAY_MS
    with treering.open(tmp_path / "plant", clock=clock) as store:
        table = store.create("readings", bucket="month", **choices)
        table.write("s", times.astype("datetime64[ms]"), value=np.arange(60.0))
    with treering.open(tmp_path / "plant", clock=clock) as store:
        with pytest.raises(treering.SchemaMismatchError, match="bucket: month, not day"):
            store.create("readings", bucket="day", **choices)
        opened = store.table("readings")
        assert opened.bucket == "month"
        assert opened.read("s", "-60d").ts.tolist() == sorted(times.tolist())


def untrusted(table: treering.Table) -> treering.Table:
    """Return the table as one that others write to, whose index may not be trusted."""
    return treering.Table(replace(table.spec, index_trusted=False), table._context)


# TS26, TS27: what lives as long as what


def test_ts26_readings_may_be_kept_for_twenty_years_and_no_longer(store: Store) -> None:
    table = day_table(store, retention="630720000s", rate="1/h", bucket="month")
    assert table.spec.retention_s == 630_720_000
    table.write("s", NOW_MS, unit="ms", value=1.0)
    assert table.latest("s")["value"].tolist() == [1.0]
    with pytest.raises(treering.DesignError, match="1,038,700,758 s is above"):
        day_table(store, "longer", retention="1038700758s", rate="1/h", bucket="month")
    assert store.tables() == ("readings",)


@pytest.mark.parametrize("bucket", ["day", "month"])
def test_ts27_what_was_deleted_and_written_again_is_found(store: Store, bucket: str) -> None:
    table = day_table(store, retention="400d", bucket=bucket)
    for value in (1.0, 2.0):
        table.write("s", "2025-05-15T12:00Z", value=value)
        for found in (
            table.read("s", "2025-05-01", "2025-06-01"),
            # So long a read asks the index of buckets first.
            table.read("s", "2025-01-01", "2025-11-01"),
            table.latest("s"),
        ):
            assert found["value"].tolist() == [value]
        table.delete("s", "2025-05-01", "2025-06-01", allow_on_twcs=True)
        assert len(table.read("s", "2025-01-01")) == len(table.latest("s")) == 0


def test_ts27_bucket_is_listed_for_as_long_as_its_last_reading_lives(
    store: Store, clock: treering.ManualClock
) -> None:
    table = day_table(store, rate="1/h", bucket="month")
    clock.set(dt.datetime(2025, 11, 30, tzinfo=dt.UTC))
    table.write("s", "2025-11-01T00:00Z", value=1.0)
    table.write("s", ["2025-11-29T22:00Z", "2025-11-29T23:00Z"], value=[2.0, 3.0])
    clock.advance("5d")
    assert table.read("s", "-40d")["value"].tolist() == [2.0, 3.0]
    assert table.latest("s")["value"].tolist() == [3.0]
    assert table.explain("s", "-40d", listed=True).unlisted is not None


# TS32: latest, by the index and without it


def test_latest_of_a_silent_series_takes_two_queries(
    recorded: Store, engine: RecordingEngine
) -> None:
    table = day_table(recorded, retention="500d", rate="1/min", window="20d")
    table.write("s1", [NOW_MS - 400 * DAY_MS, NOW_MS - 401 * DAY_MS], unit="ms", value=[2.0, 1.0])
    again = recorded.table(table.name)
    assert again.latest("s1")["value"].tolist() == [2.0]
    assert (len(engine.listings), len(engine.reads)) == (1, 1)


def test_latest_without_a_trusted_index_reads_each_bucket_once_and_stops_at_the_newest_reading(
    recorded: Store, engine: RecordingEngine
) -> None:
    table = untrusted(day_table(recorded, retention="500d", rate="1/min", window="20d"))
    table.write("s1", [NOW_MS - 400 * DAY_MS, NOW_MS - 401 * DAY_MS], unit="ms", value=[2.0, 1.0])
    assert table.latest("s1")["value"].tolist() == [2.0]
    assert len(engine.buckets_read) == len(set(engine.buckets_read)) <= 501
    assert len(engine.buckets_read) > 400
    assert all(read.rows_max == 1 for read in engine.reads)
    assert engine.listings == []


def test_latest_of_a_series_that_never_was_reads_nothing(
    recorded: Store, engine: RecordingEngine
) -> None:
    table = day_table(recorded)
    assert len(table.latest("never", missing_ok=True)) == 0
    with pytest.raises(treering.SeriesNotFoundError):
        table.latest("never")
    assert engine.reads == []
    assert len(engine.listings) == 2


def test_latest_looks_back_no_further_than_it_was_told(
    recorded: Store, engine: RecordingEngine
) -> None:
    table = day_table(recorded)
    table.write("s1", NOW_MS - 20 * DAY_MS, unit="ms", value=1.0)
    assert len(table.latest("s1", look_back="3d")) == 0
    assert engine.buckets_read == []
    assert len(untrusted(table).latest("s1", look_back="3d")) == 0
    assert sorted(engine.buckets_read) == ["2025-11-17", "2025-11-18", "2025-11-19", "2025-11-20"]


# TS55: counts


def test_ts55_count_is_exact_bounded_and_never_partial(
    recorded: Store, engine: RecordingEngine
) -> None:
    table = day_table(recorded, retention="400d", columns="note:text,value:double")
    days = np.arange(365)
    table.write("s1", NOW_MS - days * DAY_MS - 1, unit="ms", value=days.astype(float))
    table.write("s2", NOW_MS - np.arange(3), unit="ms", note=["a", "b", None], value=[1, None, 2])
    engine.reads.clear()
    assert table.count("s1", "-365d") == {"s1": 365}
    assert sorted(set(engine.buckets_read)) == sorted(engine.buckets_read)
    assert len(engine.reads) >= 365
    assert all(read.rows_max <= engine.page_rows_max for read in engine.reads)
    assert {column.name for read in engine.reads for column in read.columns} == {"value"}
    assert table.count(table.series(), "-365d") == {"s1": 365, "s2": 3}

    engine.failing["2025-03-01"] = EngineTimeoutError("no answer")
    engine.failures_left = 1
    assert table.count("s1", "-365d") == {"s1": 365}
    engine.failures_left = 1_000
    with pytest.raises(treering.PartialReadError, match="2025-03-01"):
        table.count("s1", "-365d")


# TS56: times out of range


def test_time_out_of_range_is_refused_alone_and_the_last_one_inside_is_kept(store: Store) -> None:
    table = day_table(store, retention=None, future_limit=f"{8_000 * 366}d")
    times = [0, 253_402_300_799_999, 253_402_300_800_000, 2**63 - 1, -62_135_596_800_000, -(2**63)]
    report = table.write("s", times, unit="ms", value=np.arange(6.0))
    assert [(r.index, r.reason) for r in report.refused] == [
        (2, Reason.NO_TIME),
        (3, Reason.NO_TIME),
        (5, Reason.NO_TIME),
    ]
    first = table.read("s", "0001-01-01", "0001-01-02")
    assert first.to_datetimes() == [dt.datetime(1, 1, 1, tzinfo=dt.UTC)]
    last = table.read("s", "9999-12-31", 253_402_300_800_000, unit="ms")
    assert [row["ts"] for row in last.rows()] == ["9999-12-31T23:59:59.999Z"]


# TS63: a part that fails


def test_failed_partition_fails_the_read_and_is_named(
    recorded: Store, engine: RecordingEngine
) -> None:
    table = day_table(recorded)
    times = [NOW_MS - day * DAY_MS for day in range(5)]
    table.write("s", times, unit="ms", value=np.arange(5.0))
    engine.failing["2025-11-18"] = EngineTimeoutError("no answer from 3 replicas")
    with pytest.raises(treering.PartialReadError, match=r"1 of 5 .*11-18.*3 replicas") as e:
        table.read("s", "2025-11-16", "2025-11-21")
    assert [read.name for read in e.value.missing] == ["s/2025-11-18"]
    assert isinstance(e.value.__cause__, EngineTimeoutError)
    assert engine.buckets_read.count("2025-11-18") > 1, "a time-out is tried again"
    rest = table.read("s", "2025-11-16", "2025-11-21", partial=True)
    assert rest.is_partial
    assert [read.name for read in rest.missing] == ["s/2025-11-18"]
    assert rest["value"].tolist() == [4.0, 3.0, 1.0, 0.0]
    assert not table.read("s", "2025-11-19", "2025-11-21").is_partial


def test_failure_that_passes_is_not_seen(recorded: Store, engine: RecordingEngine) -> None:
    table = day_table(recorded)
    table.write("s", [NOW_MS - DAY_MS, NOW_MS], unit="ms", value=[1.0, 2.0])
    engine.failing["2025-11-19"] = UnavailableError("2 of 3 replicas are down")
    engine.failures_left = 2
    assert table.read("s", "2025-11-19", "2025-11-21")["value"].tolist() == [1.0, 2.0]
    assert engine.buckets_read.count("2025-11-19") == 3


# TS78, TS79: what comes back


def test_milliseconds_come_back_as_a_number(store: Store) -> None:
    table = day_table(store)
    texts = [f"2025-11-20T11:59:45.{ms}Z" for ms in ("001", "050", "999")]
    table.write("s", texts, value=[1.0, 2.0, 3.0])
    found = table.read("s", "-1h")
    assert [moment.microsecond for moment in found.to_datetimes() if moment] == [
        1_000,
        50_000,
        999_000,
    ]
    assert [row["ts"] for row in found.rows()] == texts


def test_columns_have_native_types_and_a_null_is_masked_over_all_pages(store: Store) -> None:
    table = day_table(store, columns="v:double,n:int")
    times = np.array(NOW_MS) - np.arange(3) * DAY_MS
    table.write("s", times.astype("datetime64[ms]"), v=[1.5, None, 0.0], n=[1, 2, None])
    found = table.read("s", "-3d", order="desc")
    assert found.time.dtype == np.dtype("datetime64[ms]")
    assert (found["v"].dtype, found["n"].dtype) == (np.dtype("f8"), np.dtype("i4"))
    assert (found["v"].tolist(), found["n"].tolist()) == ([1.5, None, 0.0], [1, 2, None])
    empty = table.read("s", "-3h", "-2h")
    assert (len(empty), empty.time.dtype) == (0, np.dtype("datetime64[ms]"))
    assert (empty["v"].dtype, empty["n"].dtype) == (np.dtype("f8"), np.dtype("i4"))
