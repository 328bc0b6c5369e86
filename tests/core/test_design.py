"""Designs as values: complete as JSON, rebuilt from workload and choices."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.design_cases import NOW_S, overrides_for, planned, workload, workloads
from treering.core.design import Design, plan_design
from treering.errors import DesignError, SchemaMismatchError


@given(st.data(), workloads())
def test_json_keeps_a_design_whole(data: st.DataObject, load: Any) -> None:
    try:
        design = plan_design(load, now_s=NOW_S, overrides=data.draw(overrides_for(load)))
    except DesignError:
        # A partition over the ceiling; test_choices has these.
        return
    assert Design.from_json(json.loads(json.dumps(design.to_json()))) == design


def test_json_has_what_scripts_read() -> None:
    values = planned(1, row_bytes=100).to_json()
    assert {key: values[key] for key in ("bucket", "layout", "row_bytes", "rows_per_bucket")} == {
        "bucket": "day",
        "layout": "rows",
        "row_bytes": 100,
        "rows_per_bucket": 86_400,
    }
    assert values["bucket_bytes"] == 8_640_000
    assert values["ttl_s"] == 7_776_000
    assert values["window"] == {"unit": "DAYS", "size": 3, "count": 30}
    assert values["gc_grace_s"] == 86_400
    assert values["read_partitions"] == 2
    assert values["disk_bytes"] == 419_070_000
    assert values["candidates"][5] == {
        "bucket": "day",
        "rows": 86_400,
        "bytes": 8_640_000,
        "cells": 86_400,
        "read_partitions": 2,
        "fit": "target",
    }
    assert all(set(verdict) == {"id", "severity", "why"} for verdict in values["verdicts"])


def test_the_same_workload_at_the_same_time_gives_the_same_design() -> None:
    assert planned() == planned()


def test_a_design_answers_for_its_workload() -> None:
    design = planned(columns="a:int,b:text")
    assert [column.name for column in design.columns] == ["a", "b"]
    assert design.precision == "ms"
    assert design.retention_s == 7_776_000


def test_json_of_a_newer_format_is_refused() -> None:
    with pytest.raises(SchemaMismatchError, match="format 2"):
        Design.from_json(planned().to_json() | {"format": 2})


@pytest.mark.parametrize(
    "change",
    [
        {"bucket": "fortnight"},
        {"strategy": "LUCK"},
        {"window": {"unit": "DAYS"}},
        {"window": {"unit": "YEARS", "size": 1, "count": 1}},
        {"workload": {}},
        {"workload": 7},
        {"format": "1"},
    ],
)
def test_json_that_is_no_design_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(DesignError):
        Design.from_json(planned().to_json() | change)


def test_a_missing_choice_is_named() -> None:
    values = planned().to_json()
    del values["gc_grace_s"]
    with pytest.raises(DesignError, match="gc_grace_s"):
        Design.from_json(values)


def test_overrides_are_remembered() -> None:
    design = plan_design(workload(), now_s=NOW_S)
    assert design.choices.overridden == ()
