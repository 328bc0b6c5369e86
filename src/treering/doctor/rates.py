"""How fast the series of a table are written, as its facts tell.

Rules of this file: event times say more than write times, files more than nodetool, nodetool more
than averages; where a bucket may not be full, what its rows say is a floor and is called one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from treering.core.units import (
    DAY_S,
    HOUR_S,
    MINUTE_S,
    render_bytes,
    render_count,
    render_duration,
)
from treering.doctor.checks.key_shape import KeyShape, key_shape_of
from treering.doctor.checks.known import ttl_s_of
from treering.doctor.checks.sizes import STEP, size_at, write_span_s
from treering.doctor.event_time import EventSpan, count_touched, covered_s, event_span_of, idle_s
from treering.doctor.facts import NodeFacts, SchemaFacts, TableFacts
from treering.sstable.facts import SSTableFacts
from treering.sstable.histogram import merge_histograms

PEAK: Final = 1.25
"""From so many times the mean rate on, the fastest series is stated as the peak."""

FULL_FROM: Final = 10
"""From so many buckets of writing on, the first and the last, which are not full, do not count."""

_RATE_DIGITS: Final = 3
_FASTEST: Final = 0.99

RowBytes = Callable[[], int]
"""Returns the bytes of a row by the table's columns; asked for where sizes alone are known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Readings a second of one series, and how many series there are on the node.

    Attributes:
        mean_hz: Of all series.
        peak_hz: Of the fastest, where it is much faster.
        series: How many there are; None where nobody tells.
        source: Where it comes from, in words.
        floor: Why the true rate may be higher, in words; empty where it is as stated.
        is_measured: Whether rows were counted over their own event times; else it is estimated.
    """

    mean_hz: float
    peak_hz: float | None = None
    series: int | None = None
    source: str = "as stated"
    floor: str = ""
    is_measured: bool = False


def rates_of(
    facts: TableFacts,
    schema: SchemaFacts,
    node: NodeFacts,
    *,
    row_bytes: RowBytes,
    shape: KeyShape | None = None,
) -> Rates | None:
    """Return how fast a table's series are written; None where nothing tells.

    Args:
        facts: The table.
        schema: Its schema.
        node: The node that tells most.
        row_bytes: The bytes of a row by the table's columns.
        shape: What its key says; by its facts where None.
    """
    shape = key_shape_of(facts) if shape is None else shape
    files = tuple(file for file in node.files or () if file.rows)
    if files and (shape.shape == "unbucketed" or shape.width_s is not None):
        parts = [part_of(file, schema, shape) for file in files]
        by_time = _rates_by_time([part for part in parts if part is not None], shape)
        # A file whose times are not known may hold any share of the rows.
        if by_time is not None and None not in parts:
            return by_time
        if shape.shape == "unbucketed":
            return _unbucketed_rates(files)
        assert shape.width_s is not None
        return _bucketed_rates(files, shape.width_s)
    # How long a partition is written: as its bucket is wide, or as long as readings live.
    ends_s = ttl_s_of(facts) if shape.shape == "unbucketed" else shape.width_s
    if ends_s is None:
        return _written_rates(node, shape)
    return _nodetool_rates(schema, node, ends_s) or _mean_rates(node, ends_s, row_bytes)


# By event time


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one file holds of the series of a table.

    Attributes:
        span: Its event times, up to where the next reading would be.
        rows: Its rows.
        series: About how many series they are of: its partitions by the buckets that it touches.
        fastest_rows: Rows of a partition that 99 of 100 do not exceed, at the least.
        touched: The buckets that it touches.
    """

    span: EventSpan
    rows: int
    series: float
    fastest_rows: float
    touched: int


def part_of(file: SSTableFacts, schema: SchemaFacts, shape: KeyShape) -> Part | None:
    """Return what a file holds of a table's series; None where its times are not known."""
    span, partitions = event_span_of(file, schema, shape.time), file.partition_cells.count
    if span is None or not partitions:
        return None
    touched = 1 if shape.width_s is None else count_touched(span, shape.width_s)
    series = partitions / touched
    each = file.rows / series
    # The last reading lasts until the next one is due.
    length_s = span.length_s * each / (each - 1) if each > 1 else 0.0
    cells = size_at(file.partition_cells, _FASTEST).at_least
    return Part(
        span=EventSpan(first_s=span.first_s, last_s=span.first_s + length_s),
        rows=file.rows,
        series=series,
        fastest_rows=cells / _cells_per_row((file,)),
        touched=touched,
    )


def _rates_by_time(parts: Sequence[Part], shape: KeyShape) -> Rates | None:
    """Return the rates by rows and the time that they cover; None where they cover none.

    A series is as fast as the rows of a file by the time between its first and its last. Where
    nothing was written between two files, that time counts as well, but no empty buckets.
    """
    series_s = sum(part.series * part.span.length_s for part in parts)
    if series_s <= 0:
        return None
    rows = sum(part.rows for part in parts)
    spans = [part.span for part in parts]
    all_s = max(span.last_s for span in spans) - min(span.first_s for span in spans)
    busy_s = covered_s(spans)
    in_use = busy_s / (busy_s + idle_s(spans, shape.width_s))
    mean_hz = rows / series_s * in_use
    fastest_hz = sum(part.rows * _fastest_hz(part, shape) for part in parts) / rows * in_use
    partitions = sum(part.series * part.touched for part in parts)
    in_buckets = "" if shape.width_s is None else f" of {render_duration(shape.width_s)}"
    is_sparse = any(part.series < 1 for part in parts)
    return Rates(
        mean_hz=_rounded(mean_hz),
        peak_hz=_rounded(fastest_hz) if fastest_hz > PEAK * mean_hz else None,
        series=max(round(series_s / busy_s), 1),
        source=f"{render_count(rows, 'row')} in {render_count(round(partitions), 'partition')}"
        f"{in_buckets}, event times over {render_duration(round(all_s))}",
        floor="some buckets between the first and the last are empty" if is_sparse else "",
        is_measured=True,
    )


def _fastest_hz(part: Part, shape: KeyShape) -> float:
    length_s = part.span.length_s
    if shape.width_s is not None:
        length_s = min(length_s, shape.width_s)
    return part.fastest_rows / length_s if length_s else 0.0


# By rows and write times


def _cells_per_row(files: Sequence[SSTableFacts]) -> float:
    rows, cells = sum(f.rows for f in files), sum(f.columns_set for f in files)
    return max(cells / rows, 1.0) if rows else 1.0


def _parts(files: Sequence[SSTableFacts], width_s: int) -> float:
    """Return in how many files the readings of one bucket are, about, where files follow time."""
    span_s = write_span_s(files)
    return max(len(files) * width_s / span_s, 1.0) if span_s > width_s else 1.0


def _bucketed_rates(files: Sequence[SSTableFacts], width_s: int) -> Rates | None:
    parts = _parts(files, width_s)
    cells = merge_histograms(file.partition_cells for file in files)
    if not cells.count:
        return None
    rows = sum(file.rows for file in files)
    mean_hz = rows / cells.count * parts / width_s
    # The bound below is sure; the bound above may exceed the truth by a fifth.
    fastest = size_at(cells, _FASTEST).at_least / _cells_per_row(files) * parts / width_s
    span_s = write_span_s(files)
    return Rates(
        mean_hz=_rounded(mean_hz),
        peak_hz=_rounded(fastest) if fastest > PEAK * mean_hz else None,
        series=max(round(rows / span_s / mean_hz), 1) if span_s > width_s else None,
        source=f"{render_count(rows, 'row')} in {render_count(cells.count, 'partition')} of "
        f"{render_duration(width_s)}",
        floor=_floor_of(span_s, width_s),
    )


def _floor_of(span_s: float, width_s: int) -> str:
    if span_s >= FULL_FROM * width_s:
        return ""
    return (
        f"written over {render_duration(round(span_s))}, so buckets may not be full, and no file "
        "tells its event times"
    )


def _unbucketed_rates(files: Sequence[SSTableFacts]) -> Rates | None:
    span_s = write_span_s(files)
    if not files or span_s <= 0:
        return None
    # Without a bucket each file has a part of every series that was written in its time.
    series = max(file.partition_cells.count for file in files)
    rows = sum(file.rows for file in files)
    largest = sum(size_at(file.partition_cells, 1.0).at_least for file in files)
    mean_hz = rows / span_s / max(series, 1)
    fastest = largest / _cells_per_row(files) / span_s
    return Rates(
        mean_hz=_rounded(mean_hz),
        peak_hz=_rounded(fastest) if fastest > PEAK * mean_hz else None,
        series=series,
        source=f"{rows:,} rows of {series:,} partitions, written over {render_duration(span_s)}",
    )


# By what nodetool and the server say


def _nodetool_rates(schema: SchemaFacts, node: NodeFacts, width_s: int) -> Rates | None:
    found = None if node.histograms is None else node.histograms.partition_cells
    if found is None or not found.p50:
        return None
    cells_per_row = max(len(schema.columns), 1)
    mean_hz = found.p50 / cells_per_row / width_s
    fastest = (found.p99 or 0) / STEP / cells_per_row / width_s
    return Rates(
        mean_hz=_rounded(mean_hz),
        peak_hz=_rounded(fastest) if fastest > PEAK * mean_hz else None,
        source=f"half of the partitions of {render_duration(width_s)} have at most "
        f"{found.p50:,.0f} cells",
        floor=_MAY_BE_PARTS,
    )


_MAY_BE_PARTS: Final = "nodetool counts the part of a partition in each file, full or not"


def _mean_rates(node: NodeFacts, length_s: int, row_bytes: RowBytes) -> Rates | None:
    mean = None if node.stats is None else node.stats.partition_bytes_mean
    if not mean:
        return None
    each = row_bytes()
    return Rates(
        mean_hz=_rounded(mean / each / length_s),
        source=f"partitions of {render_duration(length_s)} have {render_bytes(mean)} on average, "
        f"at {each} B a row by the columns",
        floor=_MAY_BE_PARTS,
    )


def _written_rates(node: NodeFacts, shape: KeyShape) -> Rates | None:
    """Return what is written now by how many partitions there are, each a series of its own."""
    stats = node.stats
    if shape.shape != "unbucketed" or stats is None:
        return None
    if not stats.writes_per_s or not stats.partitions:
        return None
    return Rates(
        mean_hz=_rounded(stats.writes_per_s / stats.partitions),
        series=stats.partitions,
        source=f"{stats.writes_per_s:.3g} writes a second over five minutes, to "
        f"{stats.partitions:,} partitions",
    )


def _rounded(rate_hz: float) -> float:
    """Return a rate with three digits in the unit that it is shown in."""
    unit_s = next((s for s in (1, MINUTE_S, HOUR_S) if rate_hz * s >= 1), DAY_S)
    return float(f"{rate_hz * unit_s:.{_RATE_DIGITS}g}") / unit_s
