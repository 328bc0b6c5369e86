"""What the user states: checked when stated, kept as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given

from tests.core.design_cases import workload, workloads
from treering.core.bucket import BucketWidth
from treering.core.design import Overrides, Precision, Strategy, Workload
from treering.errors import DesignError, UsageError


@given(workloads())
def test_json_keeps_a_workload(load: Workload) -> None:
    assert Workload.from_json(json.loads(json.dumps(load.to_json()))) == load


def test_json_leaves_defaults_out() -> None:
    assert workload().to_json() == {
        "rate_hz": 1.0,
        "columns": {"value": "double"},
        "retention_s": 7_776_000,
    }


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ({"rate_hz": 0}, "rate_hz"),
        ({"rate_hz": math.inf}, "rate_hz"),
        ({"rate_hz": math.nan}, "rate_hz"),
        ({"retention_s": 0}, "retention_s"),
        ({"row_bytes": -1}, "row_bytes"),
        ({"late_s": -1}, "late_s"),
        ({"late_fraction": 1.5}, "late_fraction"),
        ({"series_count": 0}, "series_count"),
        ({"compression_ratio": 1.1}, "compression_ratio"),
        ({"peak_rate_hz": 0.5}, "below the mean rate"),
        ({"replication": (("dc1", 0),)}, "dc1"),
        ({"replication": (("", 3),)}, "replicas"),
        ({"cassandra": "banana"}, "not a version"),
        ({"storage_mode": "MAYBE"}, "storage mode"),
        ({"partition_bytes_target": 10**9}, "above the ceiling"),
    ],
)
def test_an_impossible_statement_is_refused_by_name(stated: dict[str, Any], message: str) -> None:
    with pytest.raises(DesignError) as caught:
        workload(**stated)
    assert message in f"{caught.value.message} {caught.value.hint}"
    assert caught.value.hint


def test_a_table_needs_a_column() -> None:
    with pytest.raises(DesignError, match="needs a column"):
        Workload(rate_hz=1, columns=(), retention_s=1)


def test_readings_may_be_not_late_at_all() -> None:
    assert workload(late_s=0.0, late_fraction=0.0).late_s == 0


def test_replication_may_be_a_mapping() -> None:
    load = workload(replication={"dc1": 3, "dc2": 2})
    assert load.replication == (("dc1", 3), ("dc2", 2))
    assert load.replica_count == 5


def test_one_replica_counts_as_such_only_where_it_was_stated() -> None:
    assert not workload().is_single_replica
    assert workload(replication=(("dc1", 1),)).is_single_replica


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"rate_hz": 1, "columns": {"v": "decimal"}, "retention_s": 1},
        {"rate_hz": 1, "columns": {"v": "int"}, "retention_s": 1, "colour": "red"},
        {"rate_hz": 1, "columns": ["v"], "retention_s": 1},
        {"rate_hz": "fast", "columns": {"v": "int"}, "retention_s": 1},
    ],
)
def test_json_that_is_no_workload_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(DesignError):
        Workload.from_json(values)


def test_names_are_as_good_as_members() -> None:
    chosen = Overrides(bucket="hour", strategy="UCS")  # type: ignore[arg-type]
    assert chosen.bucket is BucketWidth.HOUR
    assert chosen.strategy is Strategy.UCS
    assert workload(precision="us").precision is Precision.US


@pytest.mark.parametrize(
    "call",
    [
        lambda: Overrides(bucket="year"),  # type: ignore[arg-type]
        lambda: Overrides(strategy="LCS"),  # type: ignore[arg-type]
        lambda: workload(precision="ps"),
    ],
)
def test_names_that_are_no_members_are_refused(call: Callable[[], object]) -> None:
    with pytest.raises(UsageError, match="is not a"):
        call()


def test_a_negative_grace_is_refused() -> None:
    with pytest.raises(DesignError, match="negative"):
        Overrides(gc_grace_s=-1)
