"""``treering info``: a store, or one of its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from treering.cli.options import DebugOption, JsonOption, StoreOption

if TYPE_CHECKING:
    from treering.engine.protocol import TableInfo
    from treering.table import Table


def info(
    table: Annotated[
        str | None, typer.Argument(metavar="[TABLE]", help="The table; all if left out.")
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show what a store holds, or a table in detail: its design, size, parts and problems.

    Examples:

        treering info --store ./plant

        treering info readings --store ./plant --json
    """
    from treering.cli.options import opened
    from treering.cli.output import print_json, print_rich

    with opened(store) as place:
        names = place.tables() if table is None else (table,)
        tables = [place.table(name) for name in names]
        found = [(one, one.info()) for one in tables]
        engine = place.engine_name
    if as_json:
        documents = [_document(one, facts) for one, facts in found]
        print_json({"engine": engine, "tables": documents} if table is None else documents[0])
    elif table is None:
        print_rich(*_overview(engine, found))
    else:
        print_rich(*_detail(*found[0]))


def _document(table: Table, facts: TableInfo) -> dict[str, Any]:
    return {
        "table": table.name,
        "series_count": facts.series_count,
        "disk_bytes": facts.disk_bytes,
        "precision": str(table.precision),
        "columns": {column.name: str(column.type) for column in table.columns},
        "finer": table.spec.finer,
        "future_limit_s": table.spec.future_limit_s,
        "design": table.spec.design.to_json(),
        "adopted": None if table.spec.adopted is None else table.spec.adopted.to_json(),
        "parts": [dict(part) for part in facts.parts],
        "problems": list(facts.problems),
    }


def _size(disk_bytes: int | None) -> str:
    from treering.core.units import render_bytes

    return "unknown" if disk_bytes is None else render_bytes(disk_bytes)


def _kept(table: Table) -> str:
    from treering.core.units import render_duration

    retention_s = table.spec.retention_s
    return "for ever" if retention_s is None else render_duration(retention_s)


def _overview(engine: str, found: list[tuple[Table, TableInfo]]) -> list[Any]:
    from treering.cli.output import render_table

    if not found:
        return [f"a store of the {engine} engine without tables; make one with treering create"]
    rows = [
        [
            table.name,
            f"{facts.series_count:,}",
            table.bucket.value,
            _kept(table),
            _size(facts.disk_bytes),
            str(len(facts.problems) or ""),
        ]
        for table, facts in found
    ]
    names = ("table", "series", "bucket", "kept", "on disk", "problems")
    return [f"a store of the {engine} engine", render_table(names, rows, right=1)]


def _detail(table: Table, facts: TableInfo) -> list[Any]:
    from rich.text import Text

    from treering.core.units import render_duration, render_rate

    columns = ", ".join(f"{column.name} {column.type}" for column in table.columns)
    design = table.spec.design
    lines = [
        f"table {table.name}: {columns}",
        f"  rate        {render_rate(design.workload.rate_hz)} a series, as stated",
        f"  kept        {_kept(table)}, gc grace {render_duration(design.gc_grace_s)}",
        f"  TTL         {'none' if design.ttl_s is None else f'{design.ttl_s:,} s'}",
        f"  window      {'none' if design.window is None else design.window.text}",
        f"  event time  in {table.precision}, {table.bucket.value} buckets, "
        f"finer is {'floored' if table.spec.finer == 'floor' else 'refused'}",
        f"  series      {facts.series_count:,}",
        f"  on disk     {_size(facts.disk_bytes)}",
        *_adopted(table),
        *(f"  problem     {problem}" for problem in facts.problems),
    ]
    parts: list[Any] = [Text(line) for line in lines]
    if facts.parts:
        parts.append(render_parts(facts))
    return parts


def _adopted(table: Table) -> list[str]:
    layout = table.spec.adopted
    if layout is None:
        return []
    place = ".".join(filter(None, (layout.keyspace, layout.table)))
    bucket = "no bucket" if layout.bucket is None else layout.bucket.form.text
    return [f"  adopted     {place}: {layout.series_text}, {bucket}, {layout.time.name}"]


def render_parts(facts: TableInfo) -> Any:
    """Return the parts of a table, such as files, as something that Rich prints."""
    from treering.cli.output import render_table

    names = list(dict.fromkeys(name for part in facts.parts for name in part))
    if "segment" in names:
        # A segment's name says its start already, and the row has to fit a terminal.
        names.remove("start")
    rows = [[_cell(name, part.get(name)) for name in names] for part in facts.parts]
    heads = [_HEADS.get(name, name.removesuffix("_bytes")) for name in names]
    table = render_table(heads, rows, right=1)
    if "bytes_a_reading" not in names:
        return table
    from rich.console import Group

    return Group(table, "B each: the bytes of a file for each of its readings")


_HEADS: Final = {"disk_bytes": "on disk", "bytes_a_reading": "B each"}


def _cell(name: str, value: Any) -> str:
    from treering.core.units import render_bytes

    if value is None:
        return "unknown" if name == "disk_bytes" else ""
    if isinstance(value, int) and not isinstance(value, bool):
        return render_bytes(value) if "bytes" in name else f"{value:,}"
    # Whole days and seconds need no more digits.
    return str(value).removesuffix("T00:00:00.000Z").replace(".000Z", "Z")
