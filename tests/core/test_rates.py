"""Files of rates: a width for each series, and a table for most of them."""

from __future__ import annotations

import pytest

from treering.core.design import Design, Workload, plan_design
from treering.core.rates import parse_rates, plan_widths, table_rate_hz
from treering.core.schema import parse_columns
from treering.errors import DesignError, UsageError


@pytest.fixture
def design() -> Design:
    """Return a design whose rows have the size that a popular text uses."""
    load = Workload(
        rate_hz=1, columns=parse_columns("value:double"), retention_s=90 * 86_400, row_bytes=100
    )
    return plan_design(load, now_s=1_764_000_000)


def test_each_series_has_the_width_of_its_rate(design: Design) -> None:
    rates = parse_rates(["series,rate\n", "slow,1/min\n", "mid,1/s\n", "fast, 10/s\n"])
    planned = plan_widths(design, rates)
    assert [(one.name, one.width) for one in planned] == [
        ("slow", "month"),
        ("mid", "day"),
        ("fast", "hour"),
    ]


def test_table_is_made_for_most_series_and_the_fastest_of_those(design: Design) -> None:
    rates = {"a": 1.0, "b": 0.9, "c": 10.0, "d": 1 / 60}
    assert table_rate_hz(plan_widths(design, rates)) == 1.0


def test_series_without_a_width_is_named(design: Design) -> None:
    with pytest.raises(DesignError, match="'huge'"):
        plan_widths(design, {"huge": 1e9})


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([], "columns none"),
        (["name,rate\n", "a,1/s\n"], "columns name, rate"),
        (["series,rate\n"], "no series"),
        (["series,rate\n", "a,1/s\n", "a,2/s\n"], "line 3: the series 'a'"),
        (["series,rate\n", "a,often\n"], "line 2: 'often'"),
        (["series,rate\n", ",1/s\n"], "line 2: "),
        (["series,rate\n", "a\n"], "line 2: "),
    ],
)
def test_wrong_line_is_named(lines: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_rates(lines)
