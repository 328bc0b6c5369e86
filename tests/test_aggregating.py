"""Reads by step: what goes together, what is refused, and what comes of partial reads."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import treering
from tests.engine.contract import DAY_MS, NOW_MS
from tests.engine.faults import FaultyEngine
from treering.engine.protocol import PageRead
from treering.errors import EngineError
from treering.store import Store

HOUR_MS = 3_600_000


def clock() -> treering.ManualClock:
    """Return a clock that stands at the tests' present."""
    return treering.ManualClock(np.datetime64(NOW_MS, "ms"))


@pytest.fixture
def table() -> Iterator[treering.Table]:
    """Yield a table in memory with a reading a minute over the last three days."""
    with treering.open("memory://", clock=clock()) as store:
        table = store.create("readings", rate="1/min", retention="30d")
        times = np.arange(NOW_MS - 3 * DAY_MS, NOW_MS, 60_000)
        table.write("s", times, unit="ms", value=np.arange(len(times), dtype=float))
        yield table


def test_steps_start_at_the_epoch_or_where_the_origin_says(table: treering.Table) -> None:
    plain = table.read("s", "-1d", every="7h", agg="count")
    assert (plain.ts % (7 * HOUR_MS) == 0).all()
    moved = table.read("s", "-1d", every="7h", agg="count", origin="2020-01-01T00:30Z")
    origin = int(np.datetime64("2020-01-01T00:30", "ms").astype(np.int64))
    assert ((moved.ts - origin) % (7 * HOUR_MS) == 0).all()
    assert plain["value_count"].sum() == moved["value_count"].sum() == 1_440


def test_readings_outside_of_the_interval_are_not_counted(table: treering.Table) -> None:
    start = NOW_MS - DAY_MS + 90_000
    found = table.read("s", start, start + 2 * HOUR_MS, unit="ms", every="1d", agg=["count"])
    assert found.ts[0] < start
    assert found["value_count"].sum() == 120


def test_empty_steps_are_absent_or_without_values(table: treering.Table) -> None:
    asked: dict[str, Any] = {"every": "12h", "agg": ["mean", "count"]}
    absent = table.read("s", "-10d", **asked)
    full = table.read("s", "-10d", empty="null", **asked)
    assert np.isin(absent.ts, full.ts).all()
    assert (np.diff(full.ts) == 12 * HOUR_MS).all()
    there = np.isin(full.ts, absent.ts)
    means = np.ma.getmaskarray(full["value_mean"])
    assert (means == ~there).all()
    assert (full["value_count"][~there] == 0).all()
    assert (full["value_mean"][there] == absent["value_mean"]).all()
    assert 6 <= len(absent) < len(full)


def test_a_series_without_readings_has_steps_only_where_empty_ones_are_asked_for(
    table: treering.Table,
) -> None:
    table.write("new", [NOW_MS - 9 * DAY_MS], unit="ms", value=[1.0])
    asked: dict[str, Any] = {"every": "1d", "agg": "count"}
    assert table.read(["new", "s"], "-2d", **asked).series_rows[0] == 0
    full = table.read(["new", "s"], "-2d", empty="null", **asked)
    assert full.series_rows[0] == full.series_rows[1] > 0
    with pytest.raises(treering.SeriesNotFoundError, match="never"):
        table.read("never", "-2d", empty="null", **asked)
    assert len(table.read("never", "-2d", missing_ok=True, **asked)) == 0


def test_what_is_older_than_the_retention_has_no_steps(table: treering.Table) -> None:
    found = table.read("s", "-400d", "-300d", every="1d", agg="count", empty="null")
    assert len(found) == 0
    assert [column.name for column in found.schema] == ["value_count"]


def test_results_convert_as_readings_do(table: treering.Table) -> None:
    found = table.read("s", "-2d", every="6h", agg=["mean", "sum", "count", "last"])
    frame = found.to_pandas()
    assert frame.columns.tolist()[2:] == [f"value_{n}" for n in ("mean", "sum", "count", "last")]
    assert found.to_arrow().schema.field("value_count").type == "int64"
    assert str(frame["value_mean"].dtype) == "float64"


@pytest.mark.parametrize("every", ["1d", dt.timedelta(days=1)], ids=["text", "timedelta"])
def test_days_of_a_zone_are_its_days_and_times_without_a_zone_are_of_it(
    table: treering.Table, every: Any
) -> None:
    local = dt.datetime.fromtimestamp(NOW_MS / 1_000, dt.UTC) - dt.timedelta(days=2)
    date = str(local.date())
    found = table.read("s", date, every=every, agg="count", tz="Asia/Kathmandu")
    midnight = np.datetime64(f"{date}T00:00") - np.timedelta64(5 * 60 + 45, "m")
    assert found.time[0] == midnight
    assert (np.diff(found.ts) == DAY_MS).all()
    asked = table.explain("s", date, tz="Asia/Kathmandu").asked
    assert asked.start == found.ts[0]


def test_no_readings_are_kept_so_their_number_bounds_nothing(table: treering.Table) -> None:
    with pytest.raises(treering.FanOutTooWideError):
        table.read("s", "-2d", rows_max=10)
    found = table.read("s", "-2d", rows_max=10, every="1d", agg="count")
    assert found["value_count"].sum() == 2_880


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"agg": "mean"}, "agg without every"),
        ({"tz": "UTC", "origin": "now"}, "tz and origin without every"),
        ({"empty": "null"}, "empty without every"),
        ({"every": "5m"}, "every without agg"),
        ({"every": "7x"}, "'7x'"),
        ({"every": "5m", "agg": []}, "no aggregate is named"),
        ({"every": "5m", "agg": "avg"}, "'avg' is not an aggregate"),
        ({"every": 300, "agg": "mean"}, "has no unit|not a length"),
        ({"every": "300", "agg": "mean"}, "no unit"),
        ({"every": "0s", "agg": "mean"}, "whole number of ms"),
        ({"every": "1mo", "agg": "mean"}, "no fixed length"),
        ({"every": "1 year", "agg": "mean"}, "no fixed length"),
        ({"every": "5m", "agg": "mean", "limit": 3}, "limit counts readings"),
        ({"every": "5m", "agg": "mean", "empty": "zero"}, "empty='zero'"),
        ({"every": "5m", "agg": "mean", "tz": "Mars/Olympus"}, "not a time zone"),
        ({"every": "7h", "agg": "mean", "tz": "Europe/Berlin"}, "do not fit the days"),
        ({"every": "5m", "agg": "mean", "origin": "2020-01-01T00:00"}, "no zone"),
        ({"every": "1ms", "agg": "mean"}, "steps, more than 10,000,000"),
    ],
)
def test_what_does_not_go_together_is_refused_before_anything_is_sent(
    table: treering.Table, asked: dict[str, Any], message: str
) -> None:
    with pytest.raises(treering.UsageError, match=message) as refused:
        table.read("s", "-2d", **asked)
    assert refused.value.hint


def test_a_sum_beyond_a_bigint_is_told_and_the_mean_is_not() -> None:
    with treering.open("memory://", clock=clock()) as store:
        table = store.create("n", rate="1/s", retention="30d", columns="n:bigint")
        table.write("pump-7", [NOW_MS - 2, NOW_MS - 1], unit="ms", n=[2**63 - 1, 2**63 - 1])
        with pytest.raises(treering.UsageError, match="sum of n of pump-7 in the step at"):
            table.read("pump-7", "-1d", every="1h", agg=["sum"])
        assert table.read("pump-7", "-1d", every="1h", agg="mean")["n_mean"].tolist() == [2.0**63]


def test_a_partial_read_by_step_names_what_is_missing() -> None:
    bad: list[str] = []

    def fault(number: int, request: Any) -> EngineError | None:
        is_bad = isinstance(request, PageRead) and request.partition.bucket.text in bad
        return EngineError("disk on fire") if is_bad else None

    with Store(FaultyEngine(fault=fault), clock=clock()) as store:
        table = store.create("readings", rate="1/s", retention="30d", bucket="day")
        starts = NOW_MS - DAY_MS * np.arange(5, 0, -1)
        times = (starts[:, None] + 1_000 * np.arange(4)).ravel()
        table.write("s", times, unit="ms", value=np.ones(len(times)))
        bad.append(table.explain("s", "-5d").reads[2].bucket.text)
        with pytest.raises(treering.PartialReadError, match=bad[0]):
            table.read("s", "-5d", every="1d", agg="count")
        rest = table.read("s", "-5d", every="1d", agg="count", partial=True)
        assert [read.bucket.text for read in rest.missing] == bad
        assert rest["value_count"].tolist() == [4, 4, 4, 4]


def test_many_sparse_series_are_read_by_step() -> None:
    with treering.open("memory://", clock=clock()) as store:
        table = store.create("readings", rate="1/h", retention="30d")
        names = [f"s{number}" for number in range(300)]
        for number, name in enumerate(names):
            times = [NOW_MS - 2 * HOUR_MS, NOW_MS - HOUR_MS]
            table.write(name, times, unit="ms", value=[number, 2.0])
        found = table.read(names[::-1], "-1d", every="1d", agg=["first", "sum"])
        assert found.series == tuple(names[::-1])
        sums = {name: part["value_sum"].sum() for name, part in found.split()}
        assert sums == {name: number + 2.0 for number, name in enumerate(names)}
