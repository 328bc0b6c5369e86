"""What a table's own rate and rows ask for, beside what it has, and what ALTER can change.

Rules of this file: every number of the workload says where it comes from; what cannot be told is
asked for, never guessed; a key and an order cannot be altered, so they are never in an ALTER.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from treering.core.bucket import BucketWidth
from treering.core.choices import OVER_PARTITIONED_BYTES, candidate_of, rows_of
from treering.core.ddl import render_create_table
from treering.core.design import Design, plan_design
from treering.core.units import Precision, render_bytes, render_duration
from treering.core.workload import Strategy, Workload
from treering.doctor.carried import workload_of
from treering.doctor.catalogued import Catalogued, shape_with
from treering.doctor.checks.commands import alter_table, render_map
from treering.doctor.checks.key_shape import KeyShape
from treering.doctor.checks.known import now_s_of
from treering.doctor.checks.windows import window_of
from treering.doctor.facts import SchemaFacts, TableFacts
from treering.errors import DesignError, UsageError

Change = Literal["none", "fits", "alter", "migrate"]
"""How a difference is closed: it is none, it serves as well, by ALTER TABLE, by a new table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One choice: what the table has, what the design asks for, and how to get there."""

    what: str
    has: str
    wants: str
    change: Change


@dataclass(frozen=True, slots=True, kw_only=True)
class Redesign:
    """A table beside the design that its own rate and rows ask for.

    Attributes:
        table: Keyspace and table.
        workload: What the table carries, as far as its facts say.
        sources: Where each number of it comes from, each in words.
        design: The design for that workload.
        compared: What the table has beside what the design asks for.
        alters: The statements that change what can be changed in place; none where nothing.
        create: The statement of the table that a copy would go to; empty where none is needed.
        notes: What a copy changes beside, in words; none without ``create``.
    """

    table: str
    workload: Workload
    sources: tuple[str, ...]
    design: Design
    compared: tuple[Compared, ...]
    alters: tuple[str, ...]
    create: str
    notes: tuple[str, ...] = ()


def plan_redesign(
    facts: TableFacts, *, rate_hz: float | None = None, known: Catalogued | None = None
) -> Redesign:
    """Return the design that a table's facts ask for, beside what it has.

    Args:
        facts: The table, with its schema.
        rate_hz: Readings a second of one series, where the facts cannot tell or shall not.
        known: The table in treering's catalog; None where it is not, or nobody looked.

    Raises:
        UsageError: The schema is not known, its rows are not one an event time, or nothing tells
            the rate.
        DesignError: No design fits the workload.
    """
    if facts.schema is None or facts.schema.options is None:
        raise UsageError(
            f"the schema of {facts.name} is not known, so there is nothing to compare with",
            hint="give a cluster, cassandra://host/keyspace/table, rather than files alone",
        )
    shape = shape_with(facts, known)
    _check_rows(facts, facts.schema, shape)
    workload, sources = workload_of(facts, facts.schema, rate_hz, known)
    design = plan_design(workload, now_s=now_s_of(facts))
    compared = _compared(facts.schema, design, shape)
    create = _create(facts, design, compared)
    return Redesign(
        table=facts.name,
        workload=workload,
        sources=sources,
        design=design,
        compared=compared,
        alters=_alters(facts, facts.schema, design),
        create=create,
        notes=tuple(_copy_notes(facts.schema, shape, design)) if create else (),
    )


def _check_rows(facts: TableFacts, schema: SchemaFacts, shape: KeyShape) -> None:
    """Refuse a table whose rows are not one an event time: a copy would lose some of them."""
    named = ", ".join(column.label for column in schema.clustering)
    if shape.time is None:
        raise UsageError(
            f"{facts.name} clusters by {named or 'nothing'}: no clustering column is a time",
            hint="only tables that cluster by event time hold series of readings",
        )
    if len(schema.clustering) == 1:
        return
    beside = [column for column in schema.clustering if column != shape.time]
    series = ", ".join(column.label for column in (*schema.partition_key, *beside))
    raise UsageError(
        f"{facts.name} clusters by {named}: its rows are not one an event time, and a table that "
        f"is keyed by series and time alone would keep one of them for each {shape.time.label}",
        hint=f"take {series} together as what names a series, and plan for the rate of one of "
        "them: treering design --rate RATE --retention TIME",
    )


def _copy_notes(schema: SchemaFacts, shape: KeyShape, design: Design) -> Iterator[str]:
    """Yield what is another in the new table, beside what the design changes."""
    assert shape.time is not None
    names = [column.label for column in schema.partition_key]
    if names != ["series", "bucket"]:
        one = "what names a series in it goes" if len(names) > 1 else "it goes"
        yield f"the key {', '.join(names)} becomes series, bucket: {one} into series, a text"
    kind = "timestamp" if design.workload.precision is Precision.MS else "bigint"
    time = shape.time
    if (time.label, time.type) != ("ts", kind):
        unit = {"timestamp": "milliseconds", "bigint": f"{design.workload.precision} since 1970"}
        yield f"{time.label} {time.type} becomes ts {kind}, {unit[kind]}"
    if time.type == "timeuuid":
        yield (
            "two rows of a series within one microsecond, which a timeuuid tells apart, would be "
            "one row: count them before the copy"
        )
    elif time.type != kind:
        yield "what is finer is lost: two rows of a series at one such instant would be one row"
    kept = {column.name for column in design.workload.columns}
    if lost := [column.label for column in schema.columns if column.name not in kept]:
        yield f"not in the new table: {', '.join(lost)}"


# What the table has


def _compared(schema: SchemaFacts, design: Design, shape: KeyShape) -> tuple[Compared, ...]:
    pairs = [
        ("bucket", _bucket_text(shape), str(design.bucket), "migrate"),
        ("order", _order_text(shape), "newest first", "migrate"),
        ("compaction", schema.strategy or "unknown", design.strategy.class_name, "alter"),
        ("window", _window_text(schema), _wanted_window(design), "alter"),
        ("default TTL", _s(schema.default_ttl_s), _s(design.ttl_s or 0), "alter"),
        ("gc grace", _s(schema.gc_grace_s), _s(design.gc_grace_s), "alter"),
        ("read repair", *_read_repair(schema, design), "alter"),
    ]
    compared = []
    fits = _fits(design, shape)
    for what, has, wants, how in pairs:
        change: Change = "alter"
        if has == wants:
            change = "none"
        elif how == "migrate":
            change = "fits" if fits else "migrate"
        compared.append(Compared(what=what, has=has, wants=wants, change=change))
    return tuple(compared)


def _fits(design: Design, shape: KeyShape) -> bool:
    """Return whether partitions are bounded as they are: not worth a new table, nor is the order.

    They are within the target, and not over-partitioned.
    """
    width = next((width for width in BucketWidth if width.length_s == shape.width_s), None)
    if shape.shape != "bucketed" or width is None:
        return False
    found = candidate_of(design.workload, width, design.row_bytes)
    return found.fit == "target" and found.partition_bytes >= OVER_PARTITIONED_BYTES


def _bucket_text(shape: KeyShape) -> str:
    if shape.shape == "unbucketed":
        return "none"
    if shape.width_s is None:
        return "of a width that is not known" if shape.shape == "bucketed" else "not known"
    named = {width.length_s: width.value for width in BucketWidth}
    return named.get(shape.width_s, render_duration(shape.width_s))


def _order_text(shape: KeyShape) -> str:
    if shape.time is None:
        return "no event time in the clustering"
    return "newest first" if shape.time.is_descending else "oldest first"


def _window_text(schema: SchemaFacts) -> str:
    window = window_of(schema, 1)
    return "none" if window is None else window.text


def _wanted_window(design: Design) -> str:
    if design.strategy is not Strategy.TWCS or design.window is None:
        return "none"
    return design.window.text


def _read_repair(schema: SchemaFacts, design: Design) -> tuple[str, str]:
    options: Mapping[str, object] = schema.options or {}
    has = str(options.get("read_repair", "")).upper()
    if not has:
        chances = [options.get(n) for n in ("read_repair_chance", "dclocal_read_repair_chance")]
        has = "BLOCKING" if any(chances) else "NONE"
    wants_none = design.strategy is Strategy.TWCS and design.workload.is_append_only
    return has, "NONE" if wants_none else has


def _s(seconds: int | None) -> str:
    if seconds is None:
        return "not known"
    return render_duration(seconds) if seconds else "none"


# What to do


def _alters(facts: TableFacts, schema: SchemaFacts, design: Design) -> tuple[str, ...]:
    options: dict[str, str] = {}
    if schema.default_ttl_s != (design.ttl_s or 0):
        options["default_time_to_live"] = str(design.ttl_s or 0)
    if schema.gc_grace_s != design.gc_grace_s:
        options["gc_grace_seconds"] = str(design.gc_grace_s)
    has, wants = _read_repair(schema, design)
    if has != wants:
        options |= _read_repair_options(schema)
    if schema.strategy != design.strategy.class_name or _window_text(schema) != _wanted_window(
        design
    ):
        options["compaction"] = render_map(_compaction(schema, design))
    return (alter_table(facts, **options),) if options else ()


def _read_repair_options(schema: SchemaFacts) -> dict[str, str]:
    if "read_repair" in (schema.options or {}):
        return {"read_repair": "'NONE'"}
    return {"read_repair_chance": "0.0", "dclocal_read_repair_chance": "0.0"}


def _compaction(schema: SchemaFacts, design: Design) -> dict[str, str]:
    options = {"class": design.strategy.class_name}
    if schema.strategy == design.strategy.class_name:
        options = {**(schema.compaction or {}), **options}
    if design.strategy is Strategy.TWCS and design.window is not None:
        options["compaction_window_unit"] = design.window.unit
        options["compaction_window_size"] = str(design.window.size)
    return options


def _create(facts: TableFacts, design: Design, compared: tuple[Compared, ...]) -> str:
    if all(one.change != "migrate" for one in compared):
        return ""
    try:
        return render_create_table(design, keyspace=facts.keyspace, table=f"{facts.table}_new")
    except (UsageError, DesignError):
        return ""


def render_redesign(found: Redesign) -> str:
    """Return a table beside its design, as text."""
    design = found.design
    lines = [f"{found.table} carries"]
    lines += [f"  {source}" for source in found.sources]
    lines.append("it has, and its design asks for")
    widths = [
        max(len(text) for text in column)
        for column in zip(*((c.what, c.has, c.wants) for c in found.compared), strict=True)
    ]
    ways = {"none": "", "fits": "serves as well", "alter": "ALTER TABLE", "migrate": "a new table"}
    for one in found.compared:
        cells = (one.what, one.has, one.wants)
        row = "  ".join(text.ljust(width) for text, width in zip(cells, widths, strict=True))
        lines.append(f"  {row}  {ways[one.change]}".rstrip())
    rows = rows_of(design.workload.sizing_rate_hz, design.bucket.length_s)
    wide = design.bucket.value
    bucket = wide if wide[0].isdecimal() else f"one {wide}"
    lines.append(f"a bucket of {bucket} holds {rows:,} rows, {render_bytes(design.bucket_bytes)}")
    if found.alters:
        lines += ["what can be altered, for new writes", *found.alters]
    if any(one.change == "migrate" for one in found.compared):
        lines.append("a key and an order cannot be altered: copy the readings to a new table")
        lines += [found.create + ";"] if found.create else []
        lines += [f"  {note}" for note in found.notes]
    if all(one.change in ("none", "fits") for one in found.compared):
        lines.append("it has what its design asks for; nothing is left to do")
    return "\n".join(lines)


def redesign_to_json(found: Redesign) -> dict[str, Any]:
    """Return a table beside its design, as JSON values."""
    return {
        "table": found.table,
        "workload": found.workload.to_json(),
        "sources": list(found.sources),
        "compared": [
            {"what": one.what, "has": one.has, "wants": one.wants, "change": one.change}
            for one in found.compared
        ],
        "alters": list(found.alters),
        "create": found.create,
        "notes": list(found.notes),
        "design": found.design.to_json(),
    }
