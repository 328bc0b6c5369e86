"""The report as Prometheus reads it: text exposition, one run a scrape or a textfile.

Rules of this file: names and labels are stable; paths and ids of files are no labels, since their
number has no bound; what is unknown has no sample or says so by ``state``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, get_args

from treering.doctor.finding import SEVERITIES, FileVerdict, Status, TableReport
from treering.doctor.report import Diagnosis

_HELP: Final = {
    "treering_doctor_healthy": "1 with four oks, 0 with a finding; no sample where it is unknown.",
    "treering_doctor_check": "1 for the status that a check of a table has, else 0.",
    "treering_doctor_findings": "Findings of a table by id and severity.",
    "treering_doctor_impact_bytes": "Disk that hangs on findings of a table, by id.",
    "treering_doctor_files": "Live files of a table on a node.",
    "treering_doctor_file_bytes": "Bytes of them.",
    "treering_doctor_expired_files": "Fully expired files, by whether the server may drop them.",
    "treering_doctor_expired_bytes": "Bytes of them.",
    "treering_doctor_unseen": "What could not be seen: targets, nodes and files.",
}
Sample = tuple[Mapping[str, str], float]


def render_prometheus(diagnosis: Diagnosis) -> str:
    """Return the report in the text exposition format, version 0.0.4."""
    lines: list[str] = []
    for name, samples in _families(diagnosis).items():
        lines += [f"# HELP {name} {_HELP[name]}", f"# TYPE {name} gauge"]
        lines += [f"{name}{_labels(labels)} {value:.17g}" for labels, value in samples]
    return "\n".join(lines) + "\n"


def _families(diagnosis: Diagnosis) -> dict[str, list[Sample]]:
    found: dict[str, list[Sample]] = {name: [] for name in _HELP}
    for report in diagnosis.reports:
        table = _table_labels(report)
        if report.is_healthy is not None:
            found["treering_doctor_healthy"].append((table, float(report.is_healthy)))
        found["treering_doctor_check"] += _statuses(report, table)
        found["treering_doctor_findings"] += _findings(report, table)
        found["treering_doctor_impact_bytes"] += _impacts(report, table)
        for name, samples in _files(report.files, table).items():
            found[name] += samples
    found["treering_doctor_unseen"].append(({}, float(len(diagnosis.all_unseen))))
    return found


def _table_labels(report: TableReport) -> dict[str, str]:
    keyspace, _, table = report.table.partition(".")
    return {"keyspace": keyspace, "table": table}


def _statuses(report: TableReport, table: dict[str, str]) -> Iterator[Sample]:
    for check in report.checks:
        for status in get_args(Status):
            yield {**table, "check": check.check, "status": status}, float(check.status == status)


def _findings(report: TableReport, table: dict[str, str]) -> Iterator[Sample]:
    counts = Counter((finding.severity, finding.id) for finding in report.findings)
    order = sorted(counts, key=lambda one: (-SEVERITIES.index(one[0]), one[1]))
    for severity, name in order:
        yield {**table, "id": name, "severity": severity}, float(counts[severity, name])


def _impacts(report: TableReport, table: dict[str, str]) -> Iterator[Sample]:
    impacts: Counter[str] = Counter()
    for finding in report.findings:
        impacts[finding.id] += finding.impact_bytes
    for name in sorted(impacts):
        yield {**table, "id": name}, float(impacts[name])


def _files(files: Iterable[FileVerdict], table: dict[str, str]) -> dict[str, list[Sample]]:
    by_node: dict[str, list[FileVerdict]] = {}
    for file in files:
        by_node.setdefault(file.node, []).append(file)
    samples: dict[str, list[Sample]] = {}
    for node, some in sorted(by_node.items()):
        labels = {**table, "node": node}
        samples.setdefault("treering_doctor_files", []).append((labels, float(len(some))))
        size = float(sum(file.data_bytes or 0 for file in some))
        samples.setdefault("treering_doctor_file_bytes", []).append((labels, size))
        for removable in ("yes", "no", "maybe"):
            expired = [f for f in some if f.is_fully_expired and _short(f) == removable]
            more = {**labels, "removable": removable}
            count, held = len(expired), sum(file.data_bytes or 0 for file in expired)
            samples.setdefault("treering_doctor_expired_files", []).append((more, float(count)))
            samples.setdefault("treering_doctor_expired_bytes", []).append((more, float(held)))
    return samples


def _short(file: FileVerdict) -> str:
    return file.removable if file.removable in ("yes", "no") else "maybe"


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    # Lone surrogates of odd file names cannot be written as UTF-8.
    value = value.encode("utf-8", "replace").decode()
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
