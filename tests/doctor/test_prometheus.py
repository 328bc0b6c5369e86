"""The text exposition, read back by the client library of Prometheus."""

from __future__ import annotations

from typing import Any

import pytest

from tests.doctor.made import finding, report, verdict
from treering.doctor.prometheus import render_prometheus
from treering.doctor.report import Diagnosis


def samples(*reports: Any, unseen: tuple[str, ...] = ()) -> dict[str, list[tuple[Any, float]]]:
    parser = pytest.importorskip("prometheus_client.parser")
    text = render_prometheus(Diagnosis(reports=reports, unseen=unseen))
    return {
        family.name: [(sample.labels, sample.value) for sample in family.samples]
        for family in parser.text_string_to_metric_families(text)
    }


def test_health_checks_and_findings_are_samples() -> None:
    found = samples(report(finding()), report(table="plant.well"))
    assert found["treering_doctor_healthy"] == [
        ({"keyspace": "plant", "table": "readings"}, 0.0),
        ({"keyspace": "plant", "table": "well"}, 1.0),
    ]
    labels = {"keyspace": "plant", "table": "readings"}
    assert ({**labels, "check": "drops", "status": "critical"}, 1.0) in found[
        "treering_doctor_check"
    ]
    assert found["treering_doctor_findings"] == [
        ({**labels, "id": "never-expiring-cell", "severity": "critical"}, 1.0)
    ]
    assert found["treering_doctor_impact_bytes"] == [
        ({**labels, "id": "never-expiring-cell"}, 1_200_000_000.0)
    ]


def test_an_unknown_table_has_no_health_and_says_unknown() -> None:
    found = samples(report(unknown=("drops",)), unseen=("a", "b"))
    assert found["treering_doctor_healthy"] == []
    assert found["treering_doctor_unseen"] == [({}, 2.0)]
    assert any(
        labels["check"] == "drops" and labels["status"] == "unknown" and value == 1.0
        for labels, value in found["treering_doctor_check"]
    )


def test_files_are_counted_by_node_and_by_what_becomes_of_them() -> None:
    files = (verdict(), verdict(is_fully_expired=True), verdict(node="b", removable="yes"))
    found = samples(report(files=files))
    assert [(labels["node"], value) for labels, value in found["treering_doctor_files"]] == [
        ("127.0.0.1", 2.0),
        ("b", 1.0),
    ]
    kept = [
        value
        for labels, value in found["treering_doctor_expired_bytes"]
        if labels["node"] == "127.0.0.1" and labels["removable"] == "no"
    ]
    assert kept == [1_000_000.0]


def test_labels_of_strangers_are_escaped() -> None:
    nasty = 'a"b\\c\nd'
    found = samples(report(finding(id=nasty), files=(verdict(node=nasty),)))
    assert found["treering_doctor_findings"][0][0]["id"] == nasty
    assert found["treering_doctor_files"][0][0]["node"] == nasty
