"""Reports of writes: every number adds up, every refusal is named."""

from __future__ import annotations

import pytest

from tests.core.test_write_plan import NOW_MS, SPEC, planned_write
from treering.core.write_plan import Reason, WritePlan
from treering.errors import RefusedReadingsError
from treering.write_report import refused_error, report_of


@pytest.fixture
def plans() -> list[WritePlan]:
    """Return two plans with accepted, floored, repeated and refused readings."""
    return [
        planned_write(SPEC, [0, NOW_MS, NOW_MS], value=[1.0, 2.0, 2.0], finer=[True, True, False]),
        planned_write(SPEC, [NOW_MS, 5, 6], index=[7, 8, 9], timed=[True, False, True]),
    ]


def test_report_adds_up_over_all_plans(plans: list[WritePlan]) -> None:
    report = report_of(plans)
    assert (report.accepted, report.floored, report.repeats, report.refused_count) == (2, 1, 1, 3)
    assert [(r.index, r.reason) for r in report.refused] == [
        (0, Reason.EXPIRED),
        (8, Reason.NO_TIME),
        (9, Reason.EXPIRED),
    ]
    assert report.reasons == {str(Reason.EXPIRED): 2, str(Reason.NO_TIME): 1}
    assert list(report.refused) == list(report.refused), "it can be looked at twice"


def test_report_says_in_words_what_became_of_the_readings(plans: list[WritePlan]) -> None:
    text = str(report_of(plans))
    assert text.startswith("2 readings written, 1 of them floored")
    assert "1 repeat left out" in text
    assert "3 refused (2: older than the retention; 1: no time" in text
    assert str(report_of([planned_write(SPEC, [NOW_MS])])) == "1 reading written"


def test_fewer_acknowledged_than_planned_are_not_called_accepted(plans: list[WritePlan]) -> None:
    assert report_of(plans, accepted=0).accepted == 0
    assert report_of([]).accepted == 0


def test_report_raises_on_demand_and_names_the_first(plans: list[WritePlan]) -> None:
    report = report_of(plans)
    with pytest.raises(RefusedReadingsError, match="3 readings were refused, first reading 0") as e:
        report.raise_if_refused()
    assert e.value.report is report
    assert "the other readings were written" in str(e.value)
    assert "nothing was sent" in str(refused_error(report, "nothing was sent"))
    fine = report_of([planned_write(SPEC, [NOW_MS])])
    assert fine.raise_if_refused() is fine
