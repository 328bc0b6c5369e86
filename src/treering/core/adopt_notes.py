"""What adopting a table means, in words: notes, and the plan as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from treering.core.foreign import ForeignTable, Sample
from treering.core.layout import Layout, TimeType
from treering.core.table import TableSpec
from treering.core.units import render_duration, render_rate

if TYPE_CHECKING:
    from treering.core.adopt import AdoptPlan


def notes_of(
    foreign: ForeignTable, spec: TableSpec, sample: Sample, *, is_rate_known: bool
) -> tuple[str, ...]:
    """Return what follows from a table being others', each in a sentence or two."""
    layout = spec.layout
    assert layout.look_back_s is not None
    notes = [
        "Others may write too: every bucket of an interval is read, whether listed or not.",
        f"latest steps back {render_duration(layout.look_back_s)} unless it is told a look-back.",
        "Only series that treering wrote or found by scanning are listed.",
        _lifetime_note(foreign, spec),
    ]
    if layout.time.type is TimeType.TIMEUUID:
        notes.append(
            "Times are read from the timeuuid, floored to microseconds. treering writes one "
            "timeuuid a time, always the same; a row of another writer at that time stays beside "
            "it."
        )
    if layout.time.unit == "s":
        notes.append("Times are whole seconds; finer ones are floored or refused.")
    if not is_rate_known:
        notes.append("The rate is not known: reads are estimated by one reading a minute.")
    if not sample.row_count:
        notes.append("The table was empty: nothing of this was checked against rows.")
    elif layout.bucket is not None:
        notes.append(
            f"Bucket form and width were checked on {sample.row_count} rows of "
            f"{len(sample.partitions)} partitions, and every one of them fits."
        )
    return tuple(notes)


def _lifetime_note(foreign: ForeignTable, spec: TableSpec) -> str:
    ttl_s, retention_s = foreign.default_ttl_s, spec.retention_s
    if retention_s is None and not ttl_s:
        return "The table has no default TTL: readings are kept and read for ever."
    if retention_s is None:
        return f"Rows expire by the table's default TTL, {ttl_s:,} s, and are read until then."
    note = f"Readings older than {render_duration(retention_s)} are not read"
    if ttl_s == retention_s:
        return f"{note}: that is the table's default TTL."
    return (
        f"{note}; the table's default TTL is {ttl_s:,} s, so treering sends a TTL with its own "
        "writes, and rows of others live as their writers say."
    )


def render_adopt(plan: AdoptPlan) -> str:
    """Return the plan of an adoption as text."""
    return "\n".join(_lines(plan))


def _lines(plan: AdoptPlan) -> Iterator[str]:
    spec, layout = plan.spec, plan.layout
    renamed = dict(layout.renamed)
    values = (
        f"{c.name} {c.type}" + (f" (column {renamed[c.name]})" if c.name in renamed else "")
        for c in spec.columns
    )
    yield f"table {spec.name}: {_place(layout)}"
    yield f"  series      {layout.series_text}"
    yield f"  bucket      {_bucket_text(spec)}"
    yield f"  event time  {layout.time.name}, {layout.time.type} in {layout.time.unit}"
    yield f"  values      {', '.join(values)}"
    for name, why in plan.left_out:
        yield f"  left out    {name}: {why}"
    kept = "for ever" if spec.retention_s is None else render_duration(spec.retention_s)
    yield f"  kept        {kept}"
    yield f"  rate        {render_rate(spec.design.workload.rate_hz)} a series"
    yield "notes"
    yield from (f"  {note}" for note in plan.notes)
    for verdict in spec.design.verdicts:
        # The width of a table without a bucket is only how a read goes through it.
        if verdict.id == "bucket" and layout.bucket is None:
            continue
        if verdict.severity in ("warning", "error"):
            yield f"  {verdict.severity} {verdict.id}: {verdict.why}"
    yield "steps"
    yield from (f"  {step}" for step in plan.steps)


def _place(layout: Layout) -> str:
    return layout.table if layout.keyspace is None else f"{layout.keyspace}.{layout.table}"


def _bucket_text(spec: TableSpec) -> str:
    bucket = spec.layout.bucket
    if bucket is None:
        return "none: a partition holds a whole series"
    return f"{bucket.name}, {bucket.type} as {bucket.form.text}, one a {spec.width}"


def adopt_to_json(plan: AdoptPlan) -> dict[str, Any]:
    """Return the plan of an adoption as JSON values."""
    spec = plan.spec
    return {
        "table": spec.name,
        "layout": spec.layout.to_json(),
        "width": spec.width.value,
        "precision": str(spec.precision),
        "columns": {column.name: str(column.type) for column in spec.columns},
        "left_out": dict(plan.left_out),
        "retention_s": spec.retention_s,
        "default_ttl_s": spec.default_ttl_s,
        "rate_hz": spec.design.workload.rate_hz,
        "sampled": {"partitions": plan.sampled_partitions, "rows": plan.sampled_rows},
        "notes": list(plan.notes),
        "verdicts": [verdict.to_json() for verdict in spec.design.verdicts],
        "steps": list(plan.steps),
    }
