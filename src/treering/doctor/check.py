"""From the tables of some targets to what the doctor says about them."""

from __future__ import annotations

from treering.doctor.checks import check_table
from treering.doctor.collect import Collected
from treering.doctor.report import Diagnosis, rank_reports
from treering.doctor.thresholds import Thresholds


def diagnose(collected: Collected, thresholds: Thresholds) -> Diagnosis:
    """Return what the doctor says about all tables of some targets, the worst first."""
    reports = [check_table(table, thresholds) for table in collected.tables]
    return Diagnosis(
        reports=rank_reports(reports), unseen=collected.unseen, missing=collected.missing
    )
