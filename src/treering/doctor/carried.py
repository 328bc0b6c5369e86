"""What a table carries, as its facts tell: rate, rows, columns, lifetime, series.

Rules of this file: every number says where it comes from; files say more than nodetool, nodetool
more than averages, and what nothing tells is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from treering.core.adopt_values import AdoptChoices, value_columns
from treering.core.foreign import ForeignColumn, ForeignTable
from treering.core.schema import Column, ColumnType
from treering.core.sizing import row_bytes_of
from treering.core.units import (
    DAY_S,
    HOUR_S,
    MINUTE_S,
    Precision,
    render_bytes,
    render_count,
    render_duration,
    render_rate,
)
from treering.core.workload import COMPRESSION_RATIO_DEFAULT, Workload
from treering.doctor.checks.key_shape import KeyShape, key_shape_of
from treering.doctor.checks.known import has_deletes, server_of, ttl_s_of, version_of
from treering.doctor.checks.sizes import STEP, size_at, write_span_s
from treering.doctor.facts import NodeFacts, SchemaFacts, TableFacts
from treering.errors import UsageError
from treering.sstable.facts import SSTableFacts
from treering.sstable.histogram import merge_histograms

PEAK: Final = 1.25
"""From so many times the mean rate on, the fastest series is stated as the peak."""

_RATE_DIGITS: Final = 3


def workload_of(
    facts: TableFacts, schema: SchemaFacts, rate_hz: float | None
) -> tuple[Workload, tuple[str, ...]]:
    """Return what a table carries, and where each number comes from, in words.

    Args:
        facts: The table.
        schema: Its schema.
        rate_hz: Readings a second of one series, where the facts shall not tell.

    Raises:
        UsageError: Nothing tells the rate.
    """
    node = max(facts.nodes, key=lambda one: sum(file.rows for file in one.files or ()))
    files = tuple(file for file in node.files or () if file.rows)
    rates = _rates_of(facts, schema, node, files) if rate_hz is None else Rates(mean_hz=rate_hz)
    if rates is None:
        raise UsageError(
            f"the rate of a series in {facts.name} cannot be told: "
            "the width of its bucket, or the size of its partitions, is not known",
            hint="state it with --rate, such as 1/s",
        )
    columns, left_out = _columns_of(facts, schema)
    row_bytes, ratio = _row_bytes(files), _ratio(files)
    retention_s = ttl_s_of(facts)
    version, mode = server_of(node)
    load = Workload(
        rate_hz=rates.mean_hz,
        peak_rate_hz=rates.peak_hz,
        columns=columns,
        retention_s=retention_s,
        row_bytes=row_bytes,
        compression_ratio=ratio or COMPRESSION_RATIO_DEFAULT,
        series_count=max(rates.series or 1, 1),
        deletes=has_deletes(facts),
        cassandra=str(version),
        storage_mode=mode,
        precision=_precision_of(key_shape_of(facts)),
    )
    kept = "for ever, no TTL" if retention_s is None else f"{render_duration(retention_s)}, its TTL"
    sources = [
        f"rate {render_rate(rates.mean_hz)} a series: {rates.source}",
        f"kept {kept}",
        "row size from the columns" if row_bytes is None else f"row {row_bytes:g} B in its files",
        "compression not known" if ratio is None else f"compressed to {ratio:.2f} in its files",
        f"{load.series_count:,} series on {node.node or 'the node'}",
        *left_out,
    ]
    if version_of(node) is None:
        sources.append(f"the server's version is not known here: taken as {version}")
    return load, tuple(sources)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Readings a second of one series, and how many series there are on the node."""

    mean_hz: float
    peak_hz: float | None = None
    series: int | None = None
    source: str = "as stated"


def _rates_of(
    facts: TableFacts, schema: SchemaFacts, node: NodeFacts, files: tuple[SSTableFacts, ...]
) -> Rates | None:
    shape = key_shape_of(facts)
    if files and shape.shape == "unbucketed":
        return _unbucketed_rates(files)
    if files and shape.width_s is not None:
        return _bucketed_rates(files, shape.width_s)
    # How long a partition is written: as its bucket is wide, or as long as readings live.
    ends_s = ttl_s_of(facts) if shape.shape == "unbucketed" else shape.width_s
    if ends_s is None:
        return _written_rates(node, shape)
    return _nodetool_rates(schema, node, ends_s) or _mean_rates(facts, schema, node, ends_s)


def _cells_per_row(files: tuple[SSTableFacts, ...]) -> float:
    rows, cells = sum(f.rows for f in files), sum(f.columns_set for f in files)
    return max(cells / rows, 1.0) if rows else 1.0


def _parts(files: tuple[SSTableFacts, ...], width_s: int) -> float:
    """Return in how many files the readings of one bucket are, about, where files follow time."""
    span_s = write_span_s(files)
    return max(len(files) * width_s / span_s, 1.0) if span_s > width_s else 1.0


def _bucketed_rates(files: tuple[SSTableFacts, ...], width_s: int) -> Rates | None:
    parts = _parts(files, width_s)
    cells = merge_histograms(file.partition_cells for file in files)
    if not cells.count:
        return None
    rows = sum(file.rows for file in files)
    mean_hz = rows / cells.count * parts / width_s
    # The bound below is sure; the bound above may exceed the truth by a fifth.
    fastest = size_at(cells, 0.99).at_least / _cells_per_row(files) * parts / width_s
    span_s = write_span_s(files)
    return Rates(
        mean_hz=_rounded(mean_hz),
        peak_hz=_rounded(fastest) if fastest > PEAK * mean_hz else None,
        series=round(rows / span_s / mean_hz) if span_s > width_s else None,
        source=f"{render_count(rows, 'row')} in {render_count(cells.count, 'partition')} of "
        f"{render_duration(width_s)}",
    )


def _unbucketed_rates(files: tuple[SSTableFacts, ...]) -> Rates | None:
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
    )


def _mean_rates(
    facts: TableFacts, schema: SchemaFacts, node: NodeFacts, length_s: int
) -> Rates | None:
    mean = None if node.stats is None else node.stats.partition_bytes_mean
    if not mean:
        return None
    columns, _ = _columns_of(facts, schema)
    row_bytes = row_bytes_of(columns, has_ttl=ttl_s_of(facts) is not None, span_s=None)
    return Rates(
        mean_hz=_rounded(mean / row_bytes / length_s),
        source=f"partitions of {render_duration(length_s)} have {render_bytes(mean)} on average, "
        f"at {row_bytes} B a row by the columns",
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


def _row_bytes(files: tuple[SSTableFacts, ...]) -> float | None:
    known = [file for file in files if file.uncompressed_bytes]
    rows = sum(file.rows for file in known)
    total = sum(file.uncompressed_bytes or 0 for file in known)
    return round(total / rows, 1) if rows and total else None


def _ratio(files: tuple[SSTableFacts, ...]) -> float | None:
    known = [file for file in files if file.uncompressed_bytes and file.data_bytes]
    raw = sum(file.uncompressed_bytes or 0 for file in known)
    return min(sum(file.data_bytes or 0 for file in known) / raw, 1.0) if raw else None


def _columns_of(
    facts: TableFacts, schema: SchemaFacts
) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    foreign = ForeignTable(
        keyspace=facts.keyspace,
        name=facts.table,
        columns=tuple(
            ForeignColumn(name=column.name, type=column.type, kind="regular", position=-1)
            for column in schema.columns
        ),
        default_ttl_s=0,
        gc_grace_s=0,
        compaction_class="",
        window_s=None,
    )
    try:
        columns, _, left_out = value_columns(foreign, AdoptChoices())
    except UsageError:
        stand_in = (Column("value", ColumnType.DOUBLE),)
        return stand_in, ("its columns are of types that treering does not write: one double",)
    return columns, tuple(f"without {name}: {why}" for name, why in left_out)


def _precision_of(shape: KeyShape) -> Precision:
    is_fine = shape.time is not None and shape.time.type == "timeuuid"
    return Precision.US if is_fine else Precision.MS
