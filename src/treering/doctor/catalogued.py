"""What treering's catalog knows of a table beside what the server and its files say.

Rules of this file: the catalog of a table that treering made is the truth about it; of an adopted
one it is what was true then, and others write to it since, so its list of series is not whole and
the server's own TTL goes before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from treering.core.adopt_values import RATE_DEFAULT_HZ
from treering.core.bucket import BucketWidth
from treering.core.table import TableSpec
from treering.core.units import Precision, render_count, render_duration
from treering.core.workload import Workload
from treering.doctor.checks.key_shape import KeyShape, key_shape_of
from treering.doctor.checks.known import ttl_s_of
from treering.doctor.facts import TableFacts

BY_CATALOG: Final = "as treering's catalog says"


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogued:
    """A table as the catalog has it.

    Attributes:
        spec: Its entry.
        series: How many series are listed.
        widths: How many of them have a bucket of their own, by its width.
    """

    spec: TableSpec
    series: int
    widths: Mapping[BucketWidth, int] = field(default_factory=dict)

    @property
    def workload(self) -> Workload | None:
        """What it was made for; None where nobody knew how fast an adopted table is written."""
        load = self.spec.design.workload
        return None if self.spec.is_adopted and load.rate_hz == RATE_DEFAULT_HZ else load

    @property
    def precision(self) -> Precision:
        """Of its event time."""
        return self.spec.precision


def shape_with(facts: TableFacts, known: Catalogued | None) -> KeyShape:
    """Return whether the partitions of a table end, by the catalog where it knows the table."""
    found = key_shape_of(facts)
    if known is None or facts.schema is None:
        return found
    layout = known.spec.layout
    time = next((one for one in facts.schema.clustering if one.name == layout.time.name), None)
    found = replace(found, time=time or found.time, why=BY_CATALOG)
    if layout.bucket is None:
        return replace(found, shape="unbucketed", width_s=None)
    return replace(found, shape="bucketed", width_s=known.spec.width.length_s)


def retention_with(facts: TableFacts, known: Catalogued | None) -> tuple[int | None, str]:
    """Return how long readings are kept, and who says so; None for ever."""
    ttl_s = ttl_s_of(facts)
    default_s = None if facts.schema is None else facts.schema.default_ttl_s
    if known is None or (known.spec.is_adopted and default_s):
        return ttl_s, "for ever, no TTL" if ttl_s is None else f"{render_duration(ttl_s)}, its TTL"
    kept_s = known.spec.design.workload.retention_s
    words = f"{'for ever' if kept_s is None else render_duration(kept_s)}, {BY_CATALOG}"
    if default_s is not None and default_s != (known.spec.design.ttl_s or 0):
        words += f"; its default TTL is {render_duration(default_s) if default_s else 'none'}"
    return kept_s, words


def series_with(known: Catalogued | None, seen: int | None, *, node: str) -> tuple[int, str]:
    """Return how many series a table has, and who says so.

    Args:
        known: The table in the catalog.
        seen: How many a node seems to have; None where nobody tells.
        node: That node.
    """
    listed = 0 if known is None else known.series
    if known is None or not listed or (known.spec.is_adopted and listed < (seen or 0)):
        count = max(seen or 1, 1)
        return count, f"{count:,} series on {node or 'the node'}"
    least = "at least " if known.spec.is_adopted else ""
    others = "; others write to it too" if known.spec.is_adopted else ""
    return listed, f"{least}{listed:,} series, {BY_CATALOG}{others}"


def widths_of(known: Catalogued | None) -> tuple[str, ...]:
    """Return which series have a bucket of their own, in words; nothing where none has."""
    if known is None or not known.widths:
        return ()
    own = ", ".join(
        f"{render_count(count, 'series', 'series')} by {width}"
        for width, count in sorted(known.widths.items(), key=lambda one: one[0].length_s)
    )
    return (
        f"buckets of their own, {BY_CATALOG}: {own}; the design is for those by {known.spec.width}",
    )
