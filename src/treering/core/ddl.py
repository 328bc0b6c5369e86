"""CQL of a design: keyspace, table, and the comment in which a table keeps its own design.

Rules of this file: identifiers pass :func:`check_identifier` and stand unquoted; everything else
that is text goes through :func:`quote`; no option is written that the server's version lacks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, assert_never
from uuid import UUID

from treering.core.design import Design, choices_from_json, choices_to_json
from treering.core.schema import check_identifier
from treering.core.units import Precision, render_bytes, render_duration, render_rate
from treering.core.workload import Strategy
from treering.errors import DesignError

_MARK: Final = " treering-design: "


def quote(text: str) -> str:
    """Return text as a CQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def _map(values: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{quote(k)}: {quote(v)}" for k, v in values.items()) + "}"


def render_create_keyspace(keyspace: str, replication: Mapping[str, int]) -> str:
    """Return the statement that creates a keyspace, with NetworkTopologyStrategy.

    Args:
        keyspace: Its name.
        replication: Replicas by datacentre.

    Raises:
        UsageError: The name is not an identifier.
        DesignError: No datacentre, or one without a replica.
    """
    check_identifier(keyspace, "keyspace")
    if not replication or any(not dc or replicas < 1 for dc, replicas in replication.items()):
        raise DesignError(
            f"the keyspace {keyspace} needs a datacentre and a replica in each, "
            f"not {dict(replication)}",
            hint="use for instance dc1:3",
        )
    options = {"class": "NetworkTopologyStrategy"}
    options |= {dc: str(replicas) for dc, replicas in replication.items()}
    return (
        f"CREATE KEYSPACE IF NOT EXISTS {keyspace}\n"
        f"  WITH replication = {_map(options)}\n"
        "  AND durable_writes = true"
    )


def render_create_table(
    design: Design,
    *,
    keyspace: str,
    table: str,
    table_id: UUID | None = None,
    if_not_exists: bool = False,
) -> str:
    """Return the statement that creates a design's table.

    Args:
        design: What to create.
        keyspace: The keyspace's name.
        table: The table's name.
        table_id: The id to create it with, so that racing creators make one table.
        if_not_exists: Whether an existing table is left alone.

    Raises:
        UsageError: A name is not an identifier.
    """
    check_identifier(keyspace, "keyspace")
    check_identifier(table, "table")
    ts_type = "timestamp" if design.precision is Precision.MS else "bigint"
    lines = ["series text", "bucket text", f"ts {ts_type}"]
    lines += [f"{column.name} {column.type}" for column in design.workload.columns]
    lines.append("PRIMARY KEY ((series, bucket), ts)")
    options = ["CLUSTERING ORDER BY (ts DESC)", *_options(design)]
    if table_id is not None:
        options.insert(0, f"ID = {table_id}")
    guard = "IF NOT EXISTS " if if_not_exists else ""
    body = ",\n".join(f"  {line}" for line in lines)
    return f"CREATE TABLE {guard}{keyspace}.{table} (\n{body}\n) WITH " + "\n  AND ".join(options)


def render_alter_table(design: Design, *, keyspace: str, table: str) -> str:
    """Return the statement that gives a table the lifetimes and windows of a design.

    Raises:
        UsageError: A name is not an identifier.
    """
    check_identifier(keyspace, "keyspace")
    check_identifier(table, "table")
    kept = ("read_repair", "dclocal_read_repair")
    options = [option for option in _options(design) if not option.startswith(kept)]
    return f"ALTER TABLE {keyspace}.{table} WITH " + "\n  AND ".join(options)


def _options(design: Design) -> list[str]:
    # Without a TTL the option is 0, which is Cassandra's word for never.
    options = [
        f"default_time_to_live = {design.ttl_s or 0}",
        f"gc_grace_seconds = {design.gc_grace_s}",
    ]
    if _avoids_read_repair(design):
        if design.workload.version.has_read_repair_option:
            options.append("read_repair = 'NONE'")
        else:
            options += ["read_repair_chance = 0.0", "dclocal_read_repair_chance = 0.0"]
    options.append(f"compaction = {_map(_compaction(design))}")
    options.append(f"comment = {quote(render_comment(design))}")
    return options


def _avoids_read_repair(design: Design) -> bool:
    return design.strategy is Strategy.TWCS and design.workload.is_append_only


def _compaction(design: Design) -> dict[str, str]:
    options = {"class": design.strategy.class_name}
    match design.strategy:
        case Strategy.TWCS:
            # No timestamp_resolution: drivers write microseconds, which is the default.
            if design.window is not None:
                options["compaction_window_unit"] = design.window.unit
                options["compaction_window_size"] = str(design.window.size)
            if design.choices.unsafe_aggressive_expiration:
                options["unsafe_aggressive_sstable_expiration"] = "true"
        case Strategy.UCS | Strategy.STCS:
            pass
        case _:
            assert_never(design.strategy)
    return options


def render_comment(design: Design) -> str:
    """Return a table's comment: the decision in words, then as JSON that treering reads back."""
    load = design.workload
    kept = "for ever" if design.ttl_s is None else f"for {render_duration(design.ttl_s)}"
    words = [
        f"Time series by treering: {render_rate(load.rate_hz)} a series kept {kept}",
        f"one row a reading ({design.row_bytes:g} B)",
        f"one partition a series and {design.bucket} ({design.rows_per_bucket:,} rows, "
        f"{render_bytes(design.bucket_bytes)})",
    ]
    if design.strategy is Strategy.TWCS and design.window is not None:
        words.append(f"windows of {design.window.text}, {design.window.count} over the retention")
    else:
        words.append(f"compaction {design.strategy}")
    words.append(f"gc grace {render_duration(design.gc_grace_s)}")
    if _avoids_read_repair(design):
        words.append(
            "no read repair: it would write old cells into the file of today, which then keeps "
            "every expired file since on disk"
        )
    data = json.dumps(choices_to_json(design.choices), separators=(",", ":"), ensure_ascii=False)
    return "; ".join(words) + "." + _MARK + data


def parse_comment(comment: str) -> Design | None:
    """Return the design that a table's comment keeps, or None for any other comment.

    Raises:
        DesignError: The comment is marked as treering's, and its design cannot be read.
        SchemaMismatchError: Written by a newer treering.
    """
    # The words before the mark hold no text of the user's, so the first mark is ours.
    _, mark, data = comment.partition(_MARK)
    if not mark:
        return None
    try:
        values = json.loads(data)
    except ValueError as error:
        raise DesignError(
            f"the table's comment holds a design that is not JSON: {error}",
            hint="restore the comment from the DDL that created the table",
        ) from error
    if not isinstance(values, dict):
        raise DesignError("the table's comment holds a design that is not a JSON object")
    return Design.from_choices(choices_from_json(values))
