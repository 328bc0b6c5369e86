"""The schema and its design: order of the readings, and a comment that says something else."""

from __future__ import annotations

from treering.core.ddl import quote, render_alter_table
from treering.core.design import Design
from treering.core.units import render_duration
from treering.core.workload import Strategy
from treering.doctor.checks.commands import alter_table, copy_cost, design_commands
from treering.doctor.checks.key_shape import key_shape_of
from treering.doctor.checks.known import comment_problem, design_in_comment
from treering.doctor.checks.lint_options import AGGRESSIVE
from treering.doctor.checks.windows import window_of
from treering.doctor.facts import SchemaFacts, TableFacts
from treering.doctor.finding import Cost, Finding
from treering.doctor.thresholds import Thresholds
from treering.errors import UsageError


def lint_schema(facts: TableFacts, thresholds: Thresholds) -> tuple[Finding, ...]:
    """Return what is wrong with a table's declaration; nothing where it is not known."""
    if facts.schema is None:
        return ()
    found = (_ascending(facts, thresholds), _comment(facts, facts.schema))
    return tuple(finding for finding in found if finding is not None)


def _ascending(facts: TableFacts, thresholds: Thresholds) -> Finding | None:
    """Return a notice where the newest readings stand at the end of partitions without an end.

    In a bounded partition the order costs little, so it is no finding there.
    """
    shape = key_shape_of(facts)
    if shape.shape != "unbucketed" or shape.time is None or shape.time.is_descending:
        return None
    return Finding(
        id="ascending-order",
        check="partitions",
        severity="notice",
        table=facts.name,
        evidence=f"clustering order {shape.time.label} ASC in partitions without a bucket",
        cause="ascending is CQL's default; nothing asked for the newest reading first",
        consequence="the latest readings stand at the end of a partition that only grows: reads "
        "of them walk its index backwards, and a plain LIMIT starts at the oldest, where expired "
        "readings lie",
        cure="declare the order descending in the new table that the missing bucket asks for; the "
        "order of a table cannot be altered",
        commands=design_commands(facts),
        cost=copy_cost(facts),
    )


def _comment(facts: TableFacts, schema: SchemaFacts) -> Finding | None:
    if schema.options is None:
        return None
    problem, design = comment_problem(facts), design_in_comment(facts)
    differences: tuple[str, ...] = (problem,) if problem else ()
    if design is not None:
        differences = differences_of(schema, design)
    if not differences:
        return None
    return Finding(
        id="comment-contradicts",
        check="disk",
        severity="warning",
        table=facts.name,
        evidence="; ".join(differences),
        cause="options or comment were changed by hand, one without the other",
        consequence="what treering plans and reports for this table stands on a design that the "
        "table does not have",
        cure="decide which is right: the first statement gives the table what its design says "
        "(new writes only; files are not rewritten unless windows grow); to keep the options, "
        "run treering set-retention, which derives the design and its comment again",
        commands=_design_commands(facts, design),
        cost=Cost(text="nothing is rewritten, unless windows grow: then once what falls into one"),
        facts={"differences": list(differences)},
    )


def _design_commands(facts: TableFacts, design: Design | None) -> tuple[str, ...]:
    if design is None:
        return (alter_table(facts, comment=quote("")),)
    try:
        return (render_alter_table(design, keyspace=facts.keyspace, table=facts.table) + ";",)
    except UsageError:
        return ()


def differences_of(schema: SchemaFacts, design: Design) -> tuple[str, ...]:
    """Return how a table differs from a design, each in words.

    Read repair is left out: it has a finding of its own.
    """
    pairs = [
        ("default TTL", _s(schema.default_ttl_s), _s(design.ttl_s or 0)),
        ("gc grace", _s(schema.gc_grace_s), _s(design.gc_grace_s)),
        ("compaction", schema.strategy, design.strategy.class_name),
    ]
    if design.strategy is Strategy.TWCS and design.window is not None:
        window = window_of(schema, design.window.length_s)
        there = None if window is None else _s(window.length_s)
        if schema.strategy == design.strategy.class_name:
            pairs.append(("window", there, _s(design.window.length_s)))
    aggressive = (schema.compaction or {}).get(AGGRESSIVE, "false").strip().lower()
    asked = str(design.choices.unsafe_aggressive_expiration).lower()
    pairs.append((AGGRESSIVE, aggressive, asked))
    key = ", ".join(column.label for column in schema.partition_key)
    pairs.append(("partition key", key, "series, bucket"))
    return tuple(
        f"{name} is {there}, the comment's design says {wanted}"
        for name, there, wanted in pairs
        if there is not None and there != wanted
    )


def _s(seconds: int | None) -> str | None:
    if seconds is None:
        return None
    return f"{render_duration(seconds)} ({seconds:,} s)" if seconds else "none"
