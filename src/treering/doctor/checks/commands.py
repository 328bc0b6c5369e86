"""Cures as commands: CQL with names quoted where they need it, and nodetool for a shell."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final
from urllib.parse import quote as quote_url

from treering.core.ddl import quote
from treering.core.layout import quoted
from treering.core.units import render_bytes, render_duration
from treering.doctor.checks.known import live_bytes_of, throughput_of
from treering.doctor.facts import TableFacts
from treering.doctor.finding import Cost
from treering.doctor.thresholds import Thresholds
from treering.errors import UsageError

FREE: Final = Cost(text="nothing is rewritten")
"""Of a change of the schema alone."""

NONE_BESIDE: Final[Mapping[str, str]] = MappingProxyType({})


def cql_name(name: str) -> str:
    """Return an identifier as CQL takes it; names of folders may be none, and are only shown."""
    try:
        return quoted(name)
    except UsageError:
        return '"' + name.replace('"', '""') + '"'


def cql_table(facts: TableFacts) -> str:
    """Return a table's full name as CQL takes it."""
    return f"{cql_name(facts.keyspace)}.{cql_name(facts.table)}"


def alter_table(facts: TableFacts, **options: str) -> str:
    """Return the statement that sets options, whose values are CQL already."""
    settings = " AND ".join(f"{name} = {value}" for name, value in options.items())
    return f"ALTER TABLE {cql_table(facts)} WITH {settings};"


def render_map(values: Mapping[str, str]) -> str:
    """Return a CQL map of texts."""
    return "{" + ", ".join(f"{quote(key)}: {quote(value)}" for key, value in values.items()) + "}"


def alter_compaction(
    facts: TableFacts,
    *,
    without: tuple[str, ...] = (),
    beside: Mapping[str, str] = NONE_BESIDE,
    **changed: str,
) -> tuple[str, ...]:
    """Return the statement that changes some compaction options and keeps the others.

    Args:
        facts: The table.
        without: Options to leave out.
        beside: Options of the table that the same statement sets, their values as CQL.
        changed: Options to set.

    Returns:
        One statement; none where the options are not known, since CQL replaces them all.
    """
    compaction = None if facts.schema is None else facts.schema.compaction
    if compaction is None:
        return ()
    kept = {key: value for key, value in compaction.items() if key not in without}
    kept["class"] = kept.get("class", "").removeprefix("org.apache.cassandra.db.compaction.")
    return (alter_table(facts, compaction=render_map(kept | changed), **beside),)


def nodetool(command: str, facts: TableFacts, *options: str) -> str:
    """Return a nodetool command on a table, for a shell."""
    parts = ["nodetool", command, *options, facts.keyspace, facts.table]
    return " ".join(shlex.quote(part) for part in parts)


def table_address(facts: TableFacts) -> str:
    """Return a table's address for a shell; HOST stands in it where only files are known."""
    return _address(facts, facts.keyspace, facts.table)


def store_address(facts: TableFacts) -> str:
    """Return the address of the store that a table of treering is in, for a shell."""
    return _address(facts, facts.keyspace)


def _address(facts: TableFacts, *names: str) -> str:
    base, mark, options = (facts.address or "cassandra://HOST").partition("?")
    path = "/".join(quote_url(name, safe="") for name in names)
    return shlex.quote(f"{base}/{path}{mark}{options}")


def design_commands(facts: TableFacts) -> tuple[str, ...]:
    """Return the command that plans another table for what a table carries.

    Rows that are not one an event time belong to more series than the key says, and nothing in
    the table tells the rate of one of them.
    """
    if facts.schema is None or len(facts.schema.clustering) < 2:
        return (f"treering design --table {table_address(facts)}",)
    ttl_s = facts.schema.default_ttl_s
    kept = "TIME" if ttl_s is None else render_duration(ttl_s) if ttl_s else "forever"
    return (f"treering design --rate RATE_OF_ONE --retention {kept}",)


def rewrite_cost(
    facts: TableFacts, thresholds: Thresholds, *, what: str, rewritten_bytes: int | None = None
) -> Cost:
    """Return what it costs to compact a table, or a part of it, once.

    Args:
        facts: The table.
        thresholds: The throughput where no node tells its own.
        what: What is rewritten, in words.
        rewritten_bytes: How much; all that is live where None.
    """
    size = live_bytes_of(facts) if rewritten_bytes is None else rewritten_bytes
    if not size:
        return Cost(text=f"compaction reads and writes {what} once")
    # Nodes compact at the same time.
    seconds = size / max(len(facts.nodes), 1) / throughput_of(facts, _rate(thresholds))
    return Cost(
        text=f"compaction reads and writes {what} once, {render_bytes(size)}: about "
        f"{render_duration(max(seconds, 1))} at its throughput",
        rewritten_bytes=size,
        duration_s=seconds,
        headroom_bytes=size,
    )


def copy_cost(facts: TableFacts) -> Cost:
    """Return what it costs to copy a table into a new one, by a client."""
    size = live_bytes_of(facts)
    of = f" of {render_bytes(size)}" if size else ""
    return Cost(
        text=f"a copy{of}: all of it is read and written once, and takes disk twice until the old "
        "table is dropped",
        rewritten_bytes=size,
        headroom_bytes=size,
    )


def _rate(thresholds: Thresholds) -> int:
    return max(thresholds.throughput_bytes_per_s, 1)
