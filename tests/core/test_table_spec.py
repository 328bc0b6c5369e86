"""Tables: what makes two of them the same, and what the catalog keeps."""

from __future__ import annotations

import dataclasses
import json
import pickle
from typing import Any

import pytest
from hypothesis import given, settings

from tests.core.design_cases import DAY_S, NOW_S, planned, workloads
from treering.core.bucket import BucketWidth
from treering.core.design import Overrides, plan_design
from treering.core.table import CATALOG_FORMAT, TableSpec, check_format
from treering.core.units import Precision
from treering.core.workload import Workload
from treering.errors import SchemaMismatchError, UsageError


def spec_of(**stated: Any) -> TableSpec:
    names = ("name", "finer", "future_limit_s")
    own: dict[str, Any] = {name: stated.pop(name) for name in names if name in stated}
    own.setdefault("name", "readings")
    return TableSpec(design=planned(**stated), **own)


@given(workloads())
@settings(max_examples=30)
def test_table_comes_back_from_its_catalog_record(load: Workload) -> None:
    spec = TableSpec(name="t", design=plan_design(load, now_s=NOW_S), finer="refuse")
    spec = spec.with_incarnation(7)
    assert TableSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec
    assert pickle.loads(pickle.dumps(spec)) == spec
    spec.check_same_as(spec.with_incarnation(0))


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"columns": "value:float"}, "columns: value:double, not value:float"),
        ({"precision": Precision.US}, "precision: ms, not us"),
        ({"retention_s": 30 * DAY_S}, "retention: 90d, not 30d"),
        ({"retention_s": None}, "retention: 90d, not none"),
        ({"overrides": Overrides(bucket=BucketWidth.HOUR)}, "bucket: day, not hour"),
        ({"finer": "refuse"}, "finer: floor, not refuse"),
        ({"future_limit_s": 60}, "future limit: 10m, not 1m"),
    ],
)
def test_what_places_or_keeps_readings_is_part_of_the_identity(
    other: dict[str, Any], named: str
) -> None:
    with pytest.raises(SchemaMismatchError, match=named) as caught:
        spec_of().check_same_as(spec_of(**other))
    assert caught.value.differences


def test_what_is_only_expected_is_not_part_of_the_identity() -> None:
    spec_of().check_same_as(spec_of(series_count=1_000, read_span_s=3_600.0))
    spec_of(rate_hz=1.0).check_same_as(spec_of(rate_hz=1.05))


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({"name": "Readings"}, "not a name for a table"),
        ({"name": "a; DROP"}, "not a name for a table"),
        ({"finer": "round"}, "'round' is not known"),
        ({"future_limit_s": -1}, "cannot be negative"),
    ],
)
def test_wrong_choice_is_named(choice: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        spec_of(**choice)


@pytest.mark.parametrize("found", [None, "1", 0, -1, 1.0, CATALOG_FORMAT + 1])
def test_catalog_format_that_this_release_does_not_know_is_refused(found: object) -> None:
    with pytest.raises(SchemaMismatchError, match="catalog format"):
        check_format(found, "the table 't'")
    with pytest.raises(SchemaMismatchError, match="catalog format"):
        TableSpec.from_json({**spec_of().to_json(), "format": found})


def test_newer_catalog_says_upgrade() -> None:
    with pytest.raises(SchemaMismatchError, match="reads up to") as caught:
        check_format(CATALOG_FORMAT + 1, "the table 't'")
    assert "upgrade" in caught.value.hint


@pytest.mark.parametrize("key", ["name", "design", "finer", "future_limit_s", "incarnation"])
@pytest.mark.parametrize("damage", ["missing", "wrong"])
def test_damaged_catalog_record_is_named(key: str, damage: str) -> None:
    record = spec_of().to_json()
    if damage == "missing":
        del record[key]
    else:
        record[key] = [object()]
    with pytest.raises(SchemaMismatchError, match="cannot be read") as caught:
        TableSpec.from_json(record)
    assert "backup" in caught.value.hint


def test_columns_are_selected_by_name_in_the_order_asked_for() -> None:
    spec = spec_of(columns="a:double,b:int,c:text")
    assert [c.name for c in spec.selected(None)] == ["a", "b", "c"]
    assert [c.name for c in spec.selected(("c", "a", "c"))] == ["c", "a"]
    with pytest.raises(UsageError, match="no column 'd'") as caught:
        spec.selected(("a", "d"))
    assert "a, b, c" in caught.value.hint
    with pytest.raises(UsageError, match="at least one column"):
        spec.selected(())


@pytest.mark.parametrize("precision", list(Precision))
def test_oldest_time_is_a_retention_ago_and_never_before_the_first_there_is(
    precision: Precision,
) -> None:
    spec = spec_of(precision=precision)
    now_ts = NOW_S * precision.per_s
    assert spec.oldest_ts(now_ts) == now_ts - 90 * DAY_S * precision.per_s
    assert spec.oldest_ts(precision.ts_min + 1) == precision.ts_min
    assert spec_of(precision=precision, retention_s=None).oldest_ts(now_ts) == precision.ts_min


def test_table_cannot_be_changed() -> None:
    spec = spec_of()
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec.name = "other"  # type: ignore[misc]
