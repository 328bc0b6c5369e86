"""Designs: from what a table has to carry to every choice, with the arithmetic and the verdicts.

Rules of this file: :func:`plan_design` is the only door that refuses; a design is rebuilt from its
workload and choices alone, so what a table's comment keeps is small and cannot contradict itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from treering.core.bucket import BucketWidth
from treering.core.choices import Candidate, Choices, candidates_of, choose, choose_bucket
from treering.core.schema import Column
from treering.core.units import Precision
from treering.core.verdicts import SEVERITIES, Severity, Verdict, check_partition
from treering.core.verdicts_lifetime import check_lifetime
from treering.core.window import Window
from treering.core.workload import Overrides, Strategy, Workload
from treering.errors import DesignError, SchemaMismatchError, UsageError

__all__ = [
    "Candidate",
    "Choices",
    "Design",
    "Overrides",
    "Precision",
    "Strategy",
    "Verdict",
    "Window",
    "Workload",
    "plan_design",
    "width_for_rate",
]

FORMAT: Final = 1
"""Version of a design's JSON; a newer one is refused."""

LAYOUT_ROWS: Final = "rows"

_NO_OVERRIDES: Final = Overrides()


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """A table's design: choices, what they come to, and what they mean.

    Attributes:
        workload: What the table has to carry.
        bucket: The slice of event time in the partition key.
        layout: How readings are laid out; ``rows`` is one row a reading.
        row_bytes: Uncompressed bytes of a row.
        rows_per_bucket: Rows of a full partition, at the peak rate.
        bucket_bytes: Uncompressed bytes of a full partition's rows.
        ttl_s: The table's default TTL; None for ever.
        window: The compaction window; None where the retention is for ever.
        gc_grace_s: ``gc_grace_seconds``.
        disk_bytes: Compressed bytes of all series on all stated replicas, at the most; for a
            retention without end, of one year with room to compact it.
        read_partitions: The most partitions that a read of the stated span touches.
        candidates: What every bucket width would give, from narrow to wide.
        verdicts: What the choices mean, with stable ids.
        strategy: The compaction strategy.
        choices: All choices with the workload, from which everything else follows.
    """

    workload: Workload
    bucket: BucketWidth
    layout: str
    row_bytes: float
    rows_per_bucket: int
    bucket_bytes: float
    ttl_s: int | None
    window: Window | None
    gc_grace_s: int
    disk_bytes: int
    read_partitions: int
    candidates: tuple[Candidate, ...]
    verdicts: tuple[Verdict, ...]
    strategy: Strategy
    choices: Choices

    @classmethod
    def from_choices(cls, choices: Choices) -> Design:
        """Return the design that follows from choices; refuses nothing."""
        load, chosen = choices.workload, choices.candidate
        per_series = choices.disk_bytes_per_series
        return cls(
            workload=load,
            bucket=choices.bucket,
            layout=LAYOUT_ROWS,
            row_bytes=choices.row_bytes,
            rows_per_bucket=chosen.rows,
            bucket_bytes=chosen.partition_bytes,
            ttl_s=choices.ttl_s,
            window=choices.window,
            gc_grace_s=choices.gc_grace_s,
            disk_bytes=round(per_series * load.series_count * load.replica_count),
            read_partitions=chosen.read_partitions,
            candidates=candidates_of(load, choices.row_bytes),
            verdicts=check_partition(choices) + check_lifetime(choices),
            strategy=choices.strategy,
            choices=choices,
        )

    @property
    def worst(self) -> Severity:
        """The severity of the worst verdict."""
        return max((v.severity for v in self.verdicts), key=SEVERITIES.index, default="ok")

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of values."""
        return self.workload.columns

    @property
    def precision(self) -> Precision:
        """How finely event time is kept."""
        return self.workload.precision

    @property
    def retention_s(self) -> int | None:
        """How long a reading must stay readable; None for ever."""
        return self.workload.retention_s

    def to_json(self) -> dict[str, Any]:
        """Return the whole design as JSON values; :meth:`from_json` takes it back."""
        load, per_series = self.workload, self.choices.disk_bytes_per_series
        return {
            **choices_to_json(self.choices),
            "layout": self.layout,
            "rows_per_bucket": self.rows_per_bucket,
            "bucket_bytes": _whole(self.bucket_bytes),
            "disk_bytes": self.disk_bytes,
            "disk": {
                "bytes_per_series": round(per_series),
                "series": load.series_count,
                "replicas": load.replica_count,
                "compression_ratio": load.compression_ratio,
                "holds_s": dict(self.choices.disk_terms_s),
            },
            "read_partitions": self.read_partitions,
            "candidates": [_candidate_to_json(c) for c in self.candidates],
            "verdicts": [verdict.to_json() for verdict in self.verdicts],
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Design:
        """Return the design that :meth:`to_json` wrote.

        Only workload and choices are read; the rest follows from them.

        Raises:
            DesignError: Something is missing or impossible.
            SchemaMismatchError: Written by a newer treering.
        """
        return cls.from_choices(choices_from_json(values))


def plan_design(
    workload: Workload,
    *,
    now_s: int,
    overrides: Overrides = _NO_OVERRIDES,
    has_blocks: bool = False,
) -> Design:
    """Return the design for a workload.

    Args:
        workload: What the table has to carry.
        now_s: The clock, epoch seconds: TTLs end at a cap that is a date.
        overrides: Choices that the user makes; each is judged by a verdict.
        has_blocks: Whether the engine can pack readings into blocks, so that advice may name it.

    Raises:
        DesignError: The server lacks what the design needs, the TTL cannot be written for a
            year, no partition stays under the ceiling, or choices contradict each other.

    >>> from treering.core.schema import parse_columns
    >>> load = Workload(rate_hz=1, columns=parse_columns("value:double"), retention_s=90 * 86_400)
    >>> design = plan_design(load, now_s=1_763_600_000)
    >>> design.bucket.value, design.rows_per_bucket, design.bucket_bytes, design.window.text
    ('day', 86400, 2678400, '3 DAYS')
    """
    return Design.from_choices(
        choose(workload, now_s=now_s, overrides=overrides, has_blocks=has_blocks)
    )


def width_for_rate(design: Design, rate_hz: float) -> BucketWidth:
    """Return the bucket width that a design's arithmetic gives a series of another rate.

    Raises:
        DesignError: No width keeps its partition under the ceiling; says what would fit.
    """
    load = replace(design.workload, rate_hz=rate_hz, peak_rate_hz=None)
    return choose_bucket(load, design.row_bytes, _NO_OVERRIDES)


def _whole(value: float) -> float:
    return int(value) if value == int(value) else value


def _candidate_to_json(candidate: Candidate) -> dict[str, Any]:
    return {
        "bucket": candidate.bucket.value,
        "rows": candidate.rows,
        "bytes": _whole(candidate.partition_bytes),
        "cells": candidate.cells,
        "read_partitions": candidate.read_partitions,
        "fit": candidate.fit,
    }


def choices_to_json(choices: Choices) -> dict[str, Any]:
    """Return what a design is rebuilt from, as JSON values."""
    values: dict[str, Any] = {
        "format": FORMAT,
        "planned_at_s": choices.now_s,
        "workload": choices.workload.to_json(),
        "bucket": choices.bucket.value,
        "row_bytes": _whole(choices.row_bytes),
        "ttl_s": choices.ttl_s,
        "window": None if choices.window is None else choices.window.to_json(),
        "gc_grace_s": choices.gc_grace_s,
        "strategy": choices.strategy.value,
    }
    if choices.overridden:
        values["overridden"] = list(choices.overridden)
    if choices.unsafe_aggressive_expiration:
        values["unsafe_aggressive_expiration"] = True
    if choices.has_blocks:
        values["has_blocks"] = True
    return values


def choices_from_json(values: Mapping[str, Any]) -> Choices:
    """Return the choices that :func:`choices_to_json` wrote.

    Raises:
        DesignError: Something is missing or impossible.
        SchemaMismatchError: Written by a newer treering.
    """
    try:
        if values["format"] > FORMAT:
            raise SchemaMismatchError(
                f"the design has format {values['format']}, newer than the {FORMAT} known here",
                hint="use a newer treering",
            )
        window = values["window"]
        return Choices(
            workload=Workload.from_json(values["workload"]),
            now_s=values["planned_at_s"],
            bucket=BucketWidth(values["bucket"]),
            row_bytes=values["row_bytes"],
            ttl_s=values["ttl_s"],
            window=None if window is None else Window(**window),
            gc_grace_s=values["gc_grace_s"],
            strategy=Strategy(values["strategy"]),
            unsafe_aggressive_expiration=values.get("unsafe_aggressive_expiration", False),
            overridden=tuple(values.get("overridden", ())),
            has_blocks=values.get("has_blocks", False),
        )
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, UsageError):
            raise
        raise DesignError(f"not the JSON of a design: {error!r}") from error
