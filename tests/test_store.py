"""A store: what names one, what it takes, and what it shows of itself."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pytest

import treering
from treering.errors import DesignError, UsageError


@pytest.mark.parametrize("place", [3, 3.5, True, ["./plant"], b"plant"])
def test_what_names_no_store_is_wrong_usage(place: Any) -> None:
    with pytest.raises(UsageError, match="named by a folder or a URL"):
        treering.open(place)


@pytest.mark.parametrize("place", ["./plant", "memory://", "cassandra://127.0.0.1/plant"])
def test_an_unknown_option_is_wrong_usage_wherever_the_store_is(
    place: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="no option foo"):
        treering.open(place, foo=1)
    assert list(tmp_path.iterdir()) == []


def test_stores_readings_and_reports_are_shown_in_one_short_line() -> None:
    with treering.open("memory://") as store:
        table = store.create("r", rate="1/s", retention="9d")
        now = np.datetime64(dt.datetime.now(dt.UTC).replace(tzinfo=None), "ms")
        times = now - np.arange(5_000) * np.timedelta64(1, "s")
        report = table.write("a", times, value=np.arange(5_000.0))
        readings = table.read("a", "-1d")
        shown = [repr(report), repr(readings), repr(store), repr(table)]
    assert shown[0] == "<WriteReport: 5,000 readings written>"
    assert shown[1] == "<Readings: 5,000 readings of 1 series: value>"
    assert shown[2] == "<treering store of the memory engine>"
    assert "closed" in repr(store)
    assert all(len(text) < 100 for text in shown)


@pytest.mark.parametrize("length", [180, 180.0, "180", "6M", "0d"])
def test_a_retention_without_a_clear_unit_makes_no_table(length: Any) -> None:
    with treering.open("memory://") as store:
        with pytest.raises(UsageError) as caught:
            store.create("r", rate=5, retention=length)
        assert "90d" in caught.value.hint
        assert store.tables() == ()
        made = store.create("r", rate=5, retention=dt.timedelta(days=180))
        assert made.spec.retention_s == 180 * 86_400


@pytest.mark.parametrize("field", ["series_count", "compression_ratio", "peak_rate_hz"])
def test_a_number_that_cannot_be_is_named_in_words_with_a_hint(field: str) -> None:
    with treering.open("memory://") as store, pytest.raises(DesignError) as caught:
        store.plan_create("r", rate="1/s", retention="9d", workload={field: 0})
    assert "_" not in caught.value.message
    assert caught.value.hint
