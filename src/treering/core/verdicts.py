"""Verdicts: what each choice of a design means, how bad it is, and by which rule.

Rules of this file: a check looks at choices and returns verdicts; it changes nothing and refuses
nothing (refusals are in :mod:`treering.core.choices`). The ids are stable: scripts read them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from treering.core.bucket import FAN_OUT_MAX, BucketWidth
from treering.core.choices import (
    OVER_PARTITIONED_BYTES,
    Candidate,
    Choices,
    candidate_of,
    exact_row_bytes,
    read_span_s_of,
    rows_of,
    widest_within_target,
)
from treering.core.schema import Column, ColumnType
from treering.core.sizing import row_bytes_of
from treering.core.units import Precision, render_bytes, render_count, render_duration, render_rate

Severity = Literal["ok", "notice", "warning", "error"]
SEVERITIES: Final[tuple[Severity, ...]] = get_args(Severity)

HIGH_RATE_HZ: Final = 100.0
"""From here on a row a reading is mostly overhead: aggregate first, or pack."""

HOT_RATE_HZ: Final = 10_000.0
"""One series is one partition at a time, on one replica set: about what a core writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What one choice means: a stable id, how bad it is, and why."""

    id: str
    severity: Severity
    why: str

    def to_json(self) -> dict[str, Any]:
        """Return id, severity and why."""
        return {"id": self.id, "severity": self.severity, "why": self.why}


Check = Callable[[Choices], "Verdict | None"]


def check_partition(choices: Choices) -> tuple[Verdict, ...]:
    """Return the verdicts on row size, bucket, rate and reads."""
    checks: tuple[Check, ...] = (
        _check_row_bytes,
        _check_bucket,
        _check_small_partitions,
        _check_bucket_and_retention,
        _check_high_rate,
        _check_hot_partition,
        _check_precision,
        _check_fan_out,
    )
    return tuple(verdict for check in checks if (verdict := check(choices)) is not None)


def _check_row_bytes(choices: Choices) -> Verdict:
    load = choices.workload
    exact = exact_row_bytes(load, choices.file_span_s)
    if load.row_bytes is not None:
        other = widest_within_target(load, exact)
        why = f"{load.row_bytes:g} B as stated; the columns come to {exact} B on disk"
        if other is not widest_within_target(load, load.row_bytes):
            why += f", which would give the bucket {other or 'none'}"
        return Verdict(id="row-bytes", severity="ok", why=why)
    why = f"{exact} B by the on-disk rules, for the last row of a file, the largest"
    by_thumb = [
        f"{thumb} B would give {other or 'none within the target'}"
        for thumb in (100, 200)
        if (other := widest_within_target(load, thumb)) is not choices.bucket
    ]
    if by_thumb and "bucket" not in choices.overridden:
        why += f"; rules of thumb differ here: {', '.join(by_thumb)}"
    texts = [c.name for c in load.columns if c.type is ColumnType.TEXT]
    if texts:
        why += f"; {', '.join(texts)} counted with {load.text_bytes} B of text"
        return Verdict(id="row-bytes", severity="notice", why=why)
    return Verdict(id="row-bytes", severity="notice" if by_thumb else "ok", why=why)


def _size(candidate: Candidate) -> str:
    return f"{candidate.rows:,} rows, {render_bytes(candidate.partition_bytes)}"


def _check_bucket(choices: Choices) -> Verdict:
    load, chosen = choices.workload, choices.candidate
    target = render_bytes(load.partition_bytes_target)
    best = widest_within_target(load, choices.row_bytes)
    why = f"{chosen.bucket}: {_size(chosen)}"
    if chosen.fit != "target":
        ceiling = render_bytes(load.partition_bytes_max)
        why += f", over the target of {target} though under the ceiling of {ceiling}; "
        why += (
            "no width stays within the target" if best is None else f"{best} would stay within it"
        )
        return Verdict(id="bucket", severity="warning", why=why)
    if best is not None and best.length_s > chosen.bucket.length_s:
        wider = candidate_of(load, best, choices.row_bytes)
        why += f", within the target of {target}, but narrower than need be: {best} would hold "
        why += f"{_size(wider)}, and reads would touch fewer partitions"
        return Verdict(id="bucket", severity="notice", why=why)
    why += f", the widest within the target of {target}{_wider_under_ceiling(choices)}"
    return Verdict(id="bucket", severity="ok", why=why)


def _wider_under_ceiling(choices: Choices) -> str:
    load = choices.workload
    wider = [
        candidate_of(load, width, choices.row_bytes)
        for width in BucketWidth
        if width.length_s > choices.bucket.length_s
    ]
    ceiling = render_bytes(load.partition_bytes_max)
    under = [f"{c.bucket} ({render_bytes(c.partition_bytes)})" for c in wider if c.fit != "over"]
    over = [
        f"{c.bucket} ({render_bytes(c.partition_bytes)}, {c.cells:,} cells)"
        for c in wider
        if c.fit == "over"
    ]
    parts = []
    if under:
        verb = "is" if len(under) == 1 else "are"
        parts.append(f"{', '.join(under)} {verb} over it but under the ceiling of {ceiling}")
    if over:
        parts.append(f"{over[0]} is over the ceiling")
    return "".join(f"; {part}" for part in parts)


def _check_small_partitions(choices: Choices) -> Verdict | None:
    chosen = choices.candidate
    if chosen.partition_bytes >= OVER_PARTITIONED_BYTES:
        return None
    best = widest_within_target(choices.workload, choices.row_bytes)
    why = (
        f"over-partitioned: {_size(chosen)} a partition is less than "
        f"{render_bytes(OVER_PARTITIONED_BYTES)}, so keys, index and bloom filter weigh more than "
        "the readings, and a read of a long range touches many partitions"
    )
    if best is not None and best.length_s > chosen.bucket.length_s:
        return Verdict(
            id="over-partitioned", severity="warning", why=f"{why}; {best} is the widest that fits"
        )
    why += "; there is no wider bucket: put several slow streams into one series, as columns"
    return Verdict(id="over-partitioned", severity="notice", why=why)


def _check_bucket_and_retention(choices: Choices) -> Verdict | None:
    if choices.ttl_s is None or choices.bucket.length_s <= choices.ttl_s:
        return None
    return Verdict(
        id="bucket-over-retention",
        severity="notice",
        why=f"a {choices.bucket} bucket is longer than the retention of "
        f"{render_duration(choices.ttl_s)}: partitions hold readings that have expired beside "
        "live ones until their windows drop",
    )


def _check_high_rate(choices: Choices) -> Verdict | None:
    load = choices.workload
    rate_hz = load.sizing_rate_hz
    if rate_hz < HIGH_RATE_HZ:
        return None
    before = rate_hz * choices.row_bytes
    after = float(_aggregated_row_bytes(choices))
    why = (
        f"{render_rate(rate_hz)} is one row of {choices.row_bytes:g} B a reading, "
        f"{render_bytes(before)} a second; aggregate first: mean, min, max and count a second are "
        f"one row of {after:g} B, which saves {1 - 1 / rate_hz:.1%} of the rows and "
        f"{1 - after / before:.1%} of the bytes"
    )
    if choices.has_blocks:
        payload = 8 + sum(c.type.fixed_bytes or load.text_bytes for c in load.columns)
        why += (
            f"; or packed blocks, which keep every reading: time and values are {payload} B of "
            f"the {choices.row_bytes:g} B, so {1 - payload / choices.row_bytes:.0%} goes before "
            "any coding, and a block of 1,000 is one row instead of 1,000"
        )
    return Verdict(id="high-rate", severity="notice", why=why)


def _aggregated_row_bytes(choices: Choices) -> int:
    load = choices.workload
    columns = [Column("count", ColumnType.BIGINT)]
    for index, column in enumerate(load.columns):
        if column.type.is_numeric:
            columns += [Column(f"{s}_{index}", ColumnType.DOUBLE) for s in ("mean", "min", "max")]
        else:
            columns.append(Column(f"last_{index}", column.type))
    return row_bytes_of(
        columns,
        has_ttl=choices.ttl_s is not None,
        span_s=choices.file_span_s,
        text_bytes=load.text_bytes,
    )


def _check_hot_partition(choices: Choices) -> Verdict | None:
    rate_hz = choices.workload.sizing_rate_hz
    if rate_hz < HOT_RATE_HZ:
        return None
    return Verdict(
        id="hot-partition",
        severity="warning",
        why=f"all {rate_hz:,.0f} writes a second of a series go to one partition, so to one "
        f"replica set ({rows_of(rate_hz, 86_400):,} rows a day); split the series by a shard "
        "number and merge when reading",
    )


def _check_precision(choices: Choices) -> Verdict | None:
    load = choices.workload
    if load.precision is not Precision.MS or load.sizing_rate_hz < 1_000:
        return None
    return Verdict(
        id="precision",
        severity="warning",
        why=f"at {render_rate(load.sizing_rate_hz)} two readings can fall into one millisecond, "
        "which is one key: the later one replaces the earlier; precision us or ns (a bigint "
        "instead of a timestamp, the same 8 B) keeps them apart",
    )


def _check_fan_out(choices: Choices) -> Verdict:
    count = choices.candidate.read_partitions
    span = render_duration(read_span_s_of(choices.workload))
    severity: Severity = "ok"
    why = f"a read of {span} touches {render_count(count, 'partition')} at most"
    if count > FAN_OUT_MAX:
        severity = "error"
        why += f", over the {FAN_OUT_MAX:,} that one read may touch: it would be refused"
    elif count > 1_000:
        severity = "warning"
        why += ": as many requests for one read; keep an aggregated table for long reads"
    elif count > 100:
        severity = "notice"
        why += ": mind the limit of reads in flight, or aggregate for long reads"
    return Verdict(id="read-fan-out", severity=severity, why=why)
