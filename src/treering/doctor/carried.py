"""What a table carries, as its facts tell: rate, rows, columns, lifetime, series.

Rules of this file: every number says where it comes from; files say more of the rate than
treering's catalog, it more than nodetool, nodetool more than averages; the catalog says more than
files of how long readings are kept and how many series there are; what nothing tells is asked for.
"""

from __future__ import annotations

from treering.core.adopt_values import AdoptChoices, value_columns
from treering.core.foreign import ForeignColumn, ForeignTable
from treering.core.schema import Column, ColumnType
from treering.core.sizing import row_bytes_of
from treering.core.units import Precision, render_rate
from treering.core.workload import COMPRESSION_RATIO_DEFAULT, Workload
from treering.doctor.catalogued import (
    BY_CATALOG,
    Catalogued,
    retention_with,
    series_with,
    shape_with,
    widths_of,
)
from treering.doctor.checks.key_shape import KeyShape, key_shape_of
from treering.doctor.checks.known import (
    design_in_comment,
    has_deletes,
    server_of,
    ttl_s_of,
    version_of,
)
from treering.doctor.facts import NodeFacts, SchemaFacts, TableFacts
from treering.doctor.rates import Rates, rates_of
from treering.errors import UsageError
from treering.sstable.facts import SSTableFacts


def workload_of(
    facts: TableFacts,
    schema: SchemaFacts,
    rate_hz: float | None,
    known: Catalogued | None = None,
) -> tuple[Workload, tuple[str, ...]]:
    """Return what a table carries, and where each number comes from, in words.

    Args:
        facts: The table.
        schema: Its schema.
        rate_hz: Readings a second of one series, where the facts shall not tell.
        known: The table in treering's catalog; None where it is not, or nobody looked.

    Raises:
        UsageError: Nothing tells the rate.
    """
    node = max(facts.nodes, key=lambda one: sum(file.rows for file in one.files or ()))
    files = tuple(file for file in node.files or () if file.rows)
    columns, left_out = _columns_of(facts, schema)
    rates = (
        Rates(mean_hz=rate_hz)
        if rate_hz is not None
        else _told(facts, schema, node, columns=columns, known=known)
    )
    if rates is None:
        raise UsageError(
            f"the rate of a series in {facts.name} cannot be told: "
            "the width of its bucket, or the size of its partitions, is not known",
            hint="state it with --rate, such as 1/s",
        )
    row_bytes, ratio = _row_bytes(files), _ratio(files)
    retention_s, kept = retention_with(facts, known)
    series_count, counted = series_with(known, rates.series, node=node.node)
    version, mode = server_of(node)
    load = Workload(
        rate_hz=rates.mean_hz,
        peak_rate_hz=rates.peak_hz,
        columns=columns,
        retention_s=retention_s,
        row_bytes=row_bytes,
        compression_ratio=ratio or COMPRESSION_RATIO_DEFAULT,
        series_count=series_count,
        deletes=has_deletes(facts),
        cassandra=str(version),
        storage_mode=mode,
        precision=_precision_of(key_shape_of(facts)) if known is None else known.precision,
    )
    at_least, floor = ("at least ", f"; {rates.floor}") if rates.floor else ("", "")
    sources = [
        f"rate {at_least}{render_rate(rates.mean_hz)} a series: {rates.source}{floor}",
        f"kept {kept}",
        "row size from the columns" if row_bytes is None else f"row {row_bytes:g} B in its files",
        "compression not known" if ratio is None else f"compressed to {ratio:.2f} in its files",
        counted,
        *widths_of(known),
        *left_out,
    ]
    if version_of(node) is None:
        sources.append(f"the server's version is not known here: taken as {version}")
    return load, tuple(sources)


def _told(
    facts: TableFacts,
    schema: SchemaFacts,
    node: NodeFacts,
    *,
    columns: tuple[Column, ...],
    known: Catalogued | None,
) -> Rates | None:
    def row_bytes() -> int:
        return row_bytes_of(columns, has_ttl=ttl_s_of(facts) is not None, span_s=None)

    shape = shape_with(facts, known)
    found = rates_of(facts, schema, node, row_bytes=row_bytes, shape=shape)
    if found is not None and found.is_measured:
        return found
    # What a table was made for goes before what averages and histograms make of it.
    load, said = (None if known is None else known.workload), BY_CATALOG
    if load is None and (design := design_in_comment(facts)) is not None:
        load, said = design.workload, "as the design in its comment says"
    if load is None:
        return found
    seen = "" if found is None else f"; by estimate {render_rate(found.mean_hz)}, {found.source}"
    return Rates(
        mean_hz=load.rate_hz,
        peak_hz=load.peak_rate_hz,
        series=load.series_count if found is None else found.series,
        source=f"{said}{seen}",
    )


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
