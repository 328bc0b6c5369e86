"""What a table's schema on the server has to be, and how it differs.

Rules of this file: pure; what decides whether readings are found and what they are is a
difference that is refused; how long they live and how they are compacted is one that is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final
from uuid import UUID, uuid5

from treering.core.ddl import parse_comment
from treering.core.design import choices_to_json
from treering.core.table import TableSpec
from treering.core.units import Precision
from treering.core.workload import Strategy
from treering.errors import TreeringError

_NAMESPACE: Final = UUID("8d1f3a52-6c0b-5e5b-9b7e-2f6f5a1c7e40")

# kind, position and clustering order, as ``system_schema.columns`` has them.
_KEY: Final = {
    "series": ("partition_key", 0, "none"),
    "bucket": ("partition_key", 1, "none"),
    "ts": ("clustering", 0, "desc"),
}
_REGULAR: Final = ("regular", -1, "none")


def table_id_of(cluster: str, keyspace: str, table: str, incarnation: int = 0) -> UUID:
    """Return the id to create a table with, the same for everyone who creates it.

    Args:
        cluster: The cluster's name.
        keyspace: The keyspace's name.
        table: The table's name.
        incarnation: Which table of that name; 0 for the catalog's own tables.
    """
    return uuid5(_NAMESPACE, f"{cluster}\x00{keyspace}\x00{table}\x00{incarnation}")


def column_differences(spec: TableSpec, found: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return how the columns on the server differ from those that the catalog says.

    Args:
        spec: The table.
        found: Its rows of ``system_schema.columns``.
    """
    if spec.is_adopted:
        return _adopted_differences(spec, found)
    wanted = {name: ("text", *place) for name, place in _KEY.items()}
    wanted["ts"] = ("timestamp" if spec.precision is Precision.MS else "bigint", *_KEY["ts"])
    wanted |= {column.name: (str(column.type), *_REGULAR) for column in spec.columns}
    there = {
        row["column_name"]: (row["type"], row["kind"], row["position"], row["clustering_order"])
        for row in found
    }
    differences = [f"the column {name} is missing" for name in wanted if name not in there]
    differences += [f"there is another column, {name}" for name in there if name not in wanted]
    differences += [
        f"{name} is {_render(there[name])}, not {_render(wanted[name])}"
        for name in wanted
        if name in there and there[name] != wanted[name]
    ]
    return tuple(differences)


def _adopted_differences(spec: TableSpec, found: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return what keeps an adopted table from being read; its other columns are its own matter."""
    layout, renamed = spec.layout, dict(spec.layout.renamed)
    wanted = {column.name: (str(column.type), "partition_key") for column in layout.key_columns}
    wanted[layout.time.name] = (str(layout.time.type), "clustering")
    wanted |= {renamed.get(c.name, c.name): (str(c.type), "regular") for c in spec.columns}
    there = {row["column_name"]: (row["type"], row["kind"]) for row in found}
    differences = [f"the column {name} is missing" for name in wanted if name not in there]
    differences += [
        f"{name} is {' '.join(there[name])}, not {' '.join(wanted[name])}".replace("_", " ")
        for name in wanted
        if name in there and there[name] != wanted[name]
    ]
    differences += [
        f"there is another key column, {name}"
        for name, (_, kind) in there.items()
        if kind in ("partition_key", "clustering") and name not in wanted
    ]
    return tuple(differences)


def _render(column: tuple[Any, ...]) -> str:
    kind, place, position, order = column
    text = f"{kind} {str(place).replace('_', ' ')}"
    if position >= 0:
        text += f" {position + 1}"
    return text if order == "none" else f"{text} {order}"


def option_differences(spec: TableSpec, found: Mapping[str, Any]) -> tuple[str, ...]:
    """Return how lifetime and compaction on the server differ from the design.

    Args:
        spec: The table.
        found: Its row of ``system_schema.tables``.
    """
    design = spec.design
    if spec.is_adopted:
        return _adopted_options(spec, found)
    compaction = dict(found["compaction"] or {})
    wanted: dict[str, tuple[Any, Any]] = {
        "default_time_to_live": (found["default_time_to_live"], design.ttl_s or 0),
        "gc_grace_seconds": (found["gc_grace_seconds"], design.gc_grace_s),
        "compaction": (
            str(compaction.get("class", "")).rpartition(".")[2],
            design.strategy.class_name,
        ),
    }
    if design.window is not None and design.strategy.class_name.startswith("TimeWindow"):
        unit = compaction.get("compaction_window_unit", "DAYS")
        size = compaction.get("compaction_window_size", "1")
        wanted["compaction window"] = (
            f"{size} {unit}",
            f"{design.window.size} {design.window.unit}",
        )
    if design.strategy is Strategy.TWCS and design.workload.is_append_only:
        # A server without the option says nothing of it.
        wanted["read_repair"] = (found.get("read_repair", "NONE"), "NONE")
        # Before 4.0 it was two chances; a later server shows both as 0.0.
        for chance in ("read_repair_chance", "dclocal_read_repair_chance"):
            wanted[chance] = (found.get(chance) or 0.0, 0.0)
    if compaction.get("enabled", "true") != "true":
        wanted["compaction enabled"] = (compaction["enabled"], "true")
    if "timestamp_resolution" in compaction:
        wanted["timestamp_resolution"] = (compaction["timestamp_resolution"], "MICROSECONDS")
    told = tuple(
        f"{name} is {there} on the server, not {asked} as designed"
        for name, (there, asked) in wanted.items()
        if there != asked
    )
    return told + _comment_differences(spec, found.get("comment"))


def _comment_differences(spec: TableSpec, comment: str | None) -> tuple[str, ...]:
    """Return how the design in the table's comment differs from the catalog's."""
    if comment is None:
        return ()
    try:
        design = parse_comment(comment)
    except TreeringError as error:
        return (f"the design in the table's comment cannot be read: {error}",)
    if design is None:
        return ("the table's comment does not hold its design any more",)
    there, asked = choices_to_json(design.choices), choices_to_json(spec.design.choices)
    return tuple(
        f"{name} is {there.get(name)} in the table's comment, not {asked.get(name)} as designed"
        for name in sorted(there.keys() | asked.keys())
        if there.get(name) != asked.get(name)
    )


def _adopted_options(spec: TableSpec, found: Mapping[str, Any]) -> tuple[str, ...]:
    ttl_s, known_s = found["default_time_to_live"] or 0, spec.default_ttl_s or 0
    if ttl_s == known_s:
        return ()
    return (
        f"default_time_to_live is {ttl_s} on the server, and was {known_s} when the table was "
        "adopted",
    )
