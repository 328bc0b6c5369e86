"""Field cases of the catalog: widths that change, and the index of series."""

from __future__ import annotations

import datetime as dt

import numpy as np

import treering
from treering.engine.cassandra.series import SHARDS, shard_of


def test_ts20_changing_the_width_keeps_old_rows_readable() -> None:
    clock = treering.ManualClock("2025-11-20T12:00Z")
    with treering.open("memory://", clock=clock) as store:
        t = store.create("readings", rate="1/min", retention="90d", bucket="month")
        old = np.datetime64("2025-11-20T12:00") - np.arange(1, 57) * np.timedelta64(1, "D")
        t.write("s", old, value=np.arange(56.0))
        (change,) = t.set_bucket("s", "day").widths
        assert change.since_s is not None
        clock.set(dt.datetime.fromtimestamp(change.since_s, dt.UTC) + dt.timedelta(days=2))
        new = np.datetime64(change.since_s, "s") + np.arange(3) * np.timedelta64(12, "h")
        t.write("s", new, value=np.arange(3.0))
        found = t.read("s", "-60d")
        assert len(found) == 59
        assert (found.time == np.sort(np.concatenate([old, new])).astype("datetime64[ms]")).all()


def test_ts33_a_million_series_spread_over_partitions_of_the_catalog() -> None:
    counts = np.zeros(SHARDS, dtype=np.int64)
    for number in range(100_000):
        counts[shard_of(f"sensor-{number:07d}", SHARDS)] += 1
    # 500 bytes a series, tags included, leave the largest partition of a million under 10 MB.
    assert counts.max() * 10 * 500 < 10_000_000


def test_ts33_order_of_tags_makes_no_second_series_and_numbers_are_refused() -> None:
    with treering.open("memory://") as store:
        t = store.create("readings", rate="1/s", retention="90d")
        t.add_series("s", tags={"a": "1", "b": "2"})
        t.add_series("s", tags={"b": "2", "a": "1"})
        now = np.datetime64("now", "ms")
        assert t.write("s", [now], value=[1]).accepted == 1
        assert t.write("s", [now], value=[1.0]).accepted == 1
        assert list(t.series(tags={"a": "1"})) == ["s"]
        assert len(t.read("s", "-1h")) == 1
