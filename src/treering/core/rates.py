"""Rates of many series: a bucket width for each, and the rate that the table is made for."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from treering.core.bucket import BucketWidth
from treering.core.design import Design, width_for_rate
from treering.core.schema import check_series
from treering.core.units import parse_rate_hz
from treering.errors import DesignError, UsageError

SERIES_MAX: Final = 10_000_000
"""The most series of one file of rates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesWidth:
    """A series, its rate, and the width that a table's arithmetic gives it."""

    name: str
    rate_hz: float
    width: BucketWidth


def parse_rates(lines: Iterable[str]) -> dict[str, float]:
    """Return readings a second by series, from CSV with the columns ``series`` and ``rate``.

    Raises:
        UsageError: Other columns, a line that has no series or no rate, or a series twice; with
            its line number.
    """
    reader = csv.DictReader(lines)
    names = [name.strip().lower() for name in reader.fieldnames or ()]
    if "series" not in names or "rate" not in names:
        raise UsageError(
            f"the rates have the columns {', '.join(names) or 'none'}",
            hint="the first line is series,rate; the others are such as pump-7,10/s",
        )
    reader.fieldnames = names
    rates: dict[str, float] = {}
    for row in reader:
        try:
            name = check_series((row["series"] or "").strip())
            rate_hz = parse_rate_hz((row["rate"] or "").strip())
        except UsageError as error:
            raise UsageError(f"line {reader.line_num}: {error}", hint=error.hint) from error
        if name in rates:
            raise UsageError(f"line {reader.line_num}: the series {name!r} was there before")
        rates[name] = rate_hz
        if len(rates) > SERIES_MAX:
            raise UsageError(f"the rates are of more than {SERIES_MAX:,} series")
    if not rates:
        raise UsageError("the rates name no series")
    return rates


def plan_widths(design: Design, rates: Mapping[str, float]) -> tuple[SeriesWidth, ...]:
    """Return a width for each series by a design's arithmetic, in the order given.

    Raises:
        DesignError: A series has no width that keeps its partition under the ceiling.
    """
    widths: dict[float, BucketWidth] = {}
    planned = []
    for name, rate_hz in rates.items():
        if rate_hz not in widths:
            try:
                widths[rate_hz] = width_for_rate(design, rate_hz)
            except DesignError as error:
                raise DesignError(f"the series {name!r}: {error}", hint=error.hint) from error
        planned.append(SeriesWidth(name=name, rate_hz=rate_hz, width=widths[rate_hz]))
    return tuple(planned)


def table_rate_hz(planned: Iterable[SeriesWidth]) -> float:
    """Return the rate to make the table for: the fewest series then deviate from its width.

    It is the highest rate among the series of the width that most of them have.
    """
    planned = tuple(planned)
    counts = Counter(one.width for one in planned)
    # On a tie the narrower width: a series that deviates from it has small partitions, not large.
    common = max(counts, key=lambda width: (counts[width], -width.length_s))
    return max(one.rate_hz for one in planned if one.width is common)
