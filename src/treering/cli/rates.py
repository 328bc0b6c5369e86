"""Files of rates, and what the command line says of the widths that they give."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treering.core.design import Design
    from treering.core.rates import SeriesWidth


def read_rates(path: str) -> dict[str, float]:
    """Return readings a second by series, from a CSV file, or standard input where it is ``-``.

    Raises:
        UsageError: It cannot be read, or a line is wrong; names the line.
    """
    from treering.core.rates import parse_rates
    from treering.errors import UsageError

    if path == "-":
        return parse_rates(sys.stdin)
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as lines:
            return parse_rates(lines)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the rates {path} cannot be read: {error}") from error
    except UsageError as error:
        raise UsageError(f"{path}: {error}", hint=error.hint) from error


def disk_bytes_of(design: Design, rates: Mapping[str, float]) -> int:
    """Return the disk of all series on all replicas, each by its own rate."""
    load = design.workload
    by_rate = design.choices.disk_bytes_per_series / load.rate_hz
    return round(by_rate * sum(rates.values()) * load.replica_count)


def widths_to_json(design: Design, planned: Sequence[SeriesWidth]) -> dict[str, Any]:
    """Return the widths as JSON values."""
    rates = {one.name: one.rate_hz for one in planned}
    return {
        "series": [
            {"series": one.name, "rate_hz": one.rate_hz, "bucket": one.width.value}
            for one in planned
        ],
        "series_widths": dict(Counter(one.width.value for one in planned)),
        "series_disk_bytes": disk_bytes_of(design, rates),
    }


def render_widths(design: Design, planned: Sequence[SeriesWidth]) -> str:
    """Return the widths for people: how many series have which, and by which rates."""
    from treering.core.bucket import BucketWidth
    from treering.core.units import render_bytes, render_rate

    rates: dict[BucketWidth, list[float]] = {}
    for one in planned:
        rates.setdefault(one.width, []).append(one.rate_hz)
    disk = disk_bytes_of(design, {one.name: one.rate_hz for one in planned})
    lines = [
        f"Series  {len(planned):,}, {render_bytes(disk)} of disk together",
        f"  {design.bucket} buckets for the table; the others have a width of their own",
    ]
    for width in BucketWidth:
        if width in rates:
            low, high = render_rate(min(rates[width])), render_rate(max(rates[width]))
            span = low if low == high else f"{low} to {high}"
            lines.append(f"  {width.value:<6} {len(rates[width]):>9,} series  {span}")
    return "\n".join(lines)
