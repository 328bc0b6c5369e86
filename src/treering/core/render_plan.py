"""A read plan in words: what ``explain`` prints."""

from __future__ import annotations

from collections import Counter

from treering.core.bucket import BucketWidth
from treering.core.read_plan import ReadPlan
from treering.core.times import render_ts
from treering.core.units import render_bytes, render_count, render_duration
from treering.core.widths import render_history

_SHOWN = 4


def render_read_plan(plan: ReadPlan) -> str:
    """Return the plan as lines of text: what is asked, what is touched, what it may cost."""
    precision = plan.spec.precision
    shown = plan.asked if plan.is_all_expired else plan.interval
    start, end = (render_ts(ts, precision) for ts in (shown.start, shown.end))
    lines = [
        f"read {plan.spec.name}: {', '.join(plan.series[:_SHOWN])}"
        + (f" and {len(plan.series) - _SHOWN} more series" if len(plan.series) > _SHOWN else ""),
        f"  event time  [{start}, {end}), {render_duration(shown.length_s)}",
        f"  columns     {', '.join(column.name for column in plan.columns)}",
        f"  order       {plan.order}"
        + (f", at most {plan.limit:,} readings a series" if plan.limit is not None else ""),
        *_layouts(plan),
        f"  expected    {render_count(plan.rows_estimate, 'reading')} by the design's rate, "
        f"{render_bytes(plan.bytes_estimate)} in memory",
    ]
    if plan.unlisted is not None:
        lines.append(
            f"  index       {plan.fan_out:,} of {plan.fan_out + plan.unlisted:,} buckets are "
            "listed; the others are not read"
        )
    if plan.is_all_expired:
        lines.append(f"  clipped     {all_expired(plan)}")
    elif plan.is_clipped:
        asked = render_ts(plan.asked.start, precision)
        lines.append(f"  clipped     asked from {asked}; older than the retention is not read")
    lines.extend(f"  {line}" for line in _partitions(plan))
    return "\n".join(lines)


def _layouts(plan: ReadPlan) -> list[str]:
    if not plan.widths:
        return [f"  partitions  {_partition_count(plan)}"]
    counts = Counter(read.bucket.width for read in plan.reads)
    parts = ", ".join(f"{counts[width]:,} of one {width}" for width in BucketWidth if counts[width])
    lines = [f"  partitions  {plan.fan_out:,}: {parts}; one query each"]
    for name, history in list(plan.widths.items())[:_SHOWN]:
        before = "" if history[0].since_s is None else f"{plan.spec.width}, then "
        lines.append(f"  layout      {name}: {before}{render_history(history)}")
    if len(plan.widths) > _SHOWN:
        lines.append(f"  layout      … {len(plan.widths) - _SHOWN:,} more series with their own …")
    return lines


def all_expired(plan: ReadPlan) -> str:
    """Return the sentence for a read of which all is older than the retention."""
    kept = render_duration(plan.spec.retention_s or 0)
    return f"all of it is older than the retention of {kept}: nothing is read"


def _partition_count(plan: ReadPlan) -> str:
    width = plan.spec.width.value
    # A width such as 15min has its own number; a day has none.
    one = f"a {width}" if width.isalpha() else width
    if plan.fan_out == 1:
        return f"1 of {one}, one query"
    return f"{plan.fan_out:,} of {one} each, one query each"


def _partitions(plan: ReadPlan) -> list[str]:
    reads = plan.reads
    # One line in place of one partition would save nothing.
    shown = reads if len(reads) <= 2 * _SHOWN + 1 else (*reads[:_SHOWN], *reads[-_SHOWN:])
    precision = plan.spec.precision
    lines = [
        f"{read.name}  [{render_ts(read.start, precision)}, {render_ts(read.end, precision)})"
        for read in shown
    ]
    if len(shown) < len(reads):
        lines.insert(_SHOWN, f"… {len(reads) - len(shown):,} more partitions …")
    return lines
