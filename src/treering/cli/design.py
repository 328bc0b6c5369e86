"""``treering design``: parse what the user states, plan, render; no decisions here."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Annotated, Any

import typer

from treering.cli.options import DebugOption, JsonOption, NowOption, check_one_of, clock_of
from treering.cli.output import print_json

if TYPE_CHECKING:
    from treering.core.design import Design, Overrides, Workload

_STATED = "What the table carries"
_LIMITS = "Limits and assumptions"
_CHOICES = "Choices made instead of the design; each is judged"
_OUTPUT = "Output"
_THERE = "With --table cassandra://…: what is known of a table that is there"


def _option(*names: str, text: str, panel: str, metavar: str | None = None) -> Any:
    return typer.Option(*names, help=text, rich_help_panel=panel, metavar=metavar)


def design(
    retention: Annotated[
        str | None,
        _option(
            "--retention",
            text="How long a reading must stay readable, such as 90d, or forever.",
            panel=_STATED,
            metavar="TIME",
        ),
    ] = None,
    rate: Annotated[
        str | None,
        _option(
            "--rate",
            text="Readings a second of one series, such as 1/s or 1/10s.",
            panel=_STATED,
            metavar="RATE",
        ),
    ] = None,
    rates: Annotated[
        str | None,
        _option(
            "--rates",
            text="CSV with series,rate: a width for each series, and a table for most of them.",
            panel=_STATED,
            metavar="FILE",
        ),
    ] = None,
    columns: Annotated[
        str,
        _option(
            "--columns",
            text="Columns of values: name:type, and more after commas.",
            panel=_STATED,
            metavar="COLUMNS",
        ),
    ] = "value:double",
    peak_rate: Annotated[
        str | None,
        _option(
            "--peak-rate",
            text="Rate at the busiest; the bucket is sized by it.",
            panel=_STATED,
            metavar="RATE",
        ),
    ] = None,
    late: Annotated[
        str | None,
        _option(
            "--late",
            text="How late readings may arrive, such as 2h; 2h:3% when 3% of the readings come "
            "later than one window.",
            panel=_STATED,
            metavar="TIME[:SHARE]",
        ),
    ] = None,
    read_span: Annotated[
        str | None,
        _option(
            "--read-span",
            text="Event time that a typical read covers; a day if not stated.",
            panel=_STATED,
            metavar="TIME",
        ),
    ] = None,
    series: Annotated[
        int, _option("--series", text="How many series the table holds.", panel=_STATED)
    ] = 1,
    replication: Annotated[
        str | None,
        _option(
            "--replication",
            text="Replicas by datacentre, such as dc1:3,dc2:3.",
            panel=_STATED,
            metavar="DC:N,…",
        ),
    ] = None,
    deletes: Annotated[
        bool,
        _option("--deletes", text="Readings are deleted before they expire.", panel=_STATED),
    ] = False,
    overwrites: Annotated[
        bool,
        _option("--overwrites", text="Readings are written again later.", panel=_STATED),
    ] = False,
    repair_every: Annotated[
        str | None,
        _option(
            "--repair-every",
            text="How often a repair completes, such as 7d.",
            panel=_STATED,
            metavar="TIME",
        ),
    ] = None,
    precision: Annotated[
        str,
        _option("--precision", text="Precision of event time: ms, us or ns.", panel=_STATED),
    ] = "ms",
    cassandra: Annotated[
        str,
        _option("--cassandra", text="Version: 5.0, 4.1, 4.0, 3.11 or exact.", panel=_LIMITS),
    ] = "5.0",
    storage_mode: Annotated[
        str,
        _option(
            "--storage-mode",
            text="storage_compatibility_mode of Cassandra 5: CASSANDRA_4, UPGRADING or NONE.",
            panel=_LIMITS,
        ),
    ] = "CASSANDRA_4",
    row_bytes: Annotated[
        str | None,
        _option(
            "--row-bytes",
            text="Uncompressed bytes of a row, instead of the computed ones.",
            panel=_LIMITS,
            metavar="BYTES",
        ),
    ] = None,
    text_bytes: Annotated[
        int, _option("--text-bytes", text="Bytes of a text value.", panel=_LIMITS)
    ] = 24,
    compression_ratio: Annotated[
        float,
        _option("--compression-ratio", text="Compressed over uncompressed size.", panel=_LIMITS),
    ] = 0.5,
    partition_target: Annotated[
        str,
        _option("--partition-target", text="Size that a partition should keep to.", panel=_LIMITS),
    ] = "10MB",
    partition_max: Annotated[
        str,
        _option("--partition-max", text="Size over which it is refused.", panel=_LIMITS),
    ] = "100MB",
    partition_cells_max: Annotated[
        int,
        _option("--partition-cells-max", text="Cells over which it is refused.", panel=_LIMITS),
    ] = 2_000_000,
    bucket: Annotated[
        str | None,
        _option(
            "--bucket",
            text="1min, 5min, 15min, hour, 6h, day, week, month, or none.",
            panel=_CHOICES,
            metavar="WIDTH",
        ),
    ] = None,
    window: Annotated[
        str | None,
        _option(
            "--window", text="Compaction window, such as 1d or 6h.", panel=_CHOICES, metavar="TIME"
        ),
    ] = None,
    gc_grace: Annotated[
        str | None,
        _option(
            "--gc-grace", text="gc_grace_seconds, such as 1d or 0s.", panel=_CHOICES, metavar="TIME"
        ),
    ] = None,
    ttl: Annotated[
        str | None,
        _option(
            "--ttl",
            text="Default TTL, where it shall differ from the retention.",
            panel=_CHOICES,
            metavar="TIME",
        ),
    ] = None,
    strategy: Annotated[
        str | None,
        _option(
            "--strategy", text="Compaction: TWCS, UCS or STCS.", panel=_CHOICES, metavar="NAME"
        ),
    ] = None,
    timestamp_resolution: Annotated[
        str | None,
        _option(
            "--timestamp-resolution",
            text="The TWCS option of that name; only MICROSECONDS is right.",
            panel=_CHOICES,
            metavar="UNIT",
        ),
    ] = None,
    unsafe_aggressive_expiration: Annotated[
        bool,
        _option(
            "--unsafe-aggressive-expiration",
            text="Drop expired files whatever they overlap.",
            panel=_CHOICES,
        ),
    ] = False,
    keyspace: Annotated[
        str, _option("--keyspace", text="Name of the keyspace in the CQL.", panel=_OUTPUT)
    ] = "metrics",
    table: Annotated[
        str,
        _option(
            "--table",
            text="Name of the table in the CQL; or cassandra://host/keyspace/table, to design "
            "that table anew from its own rate and rows.",
            panel=_OUTPUT,
        ),
    ] = "readings",
    files: Annotated[
        list[str] | None,
        _option(
            "--files",
            text="A data folder or bundle with files of that table; again for more.",
            panel=_THERE,
            metavar="FOLDER",
        ),
    ] = None,
    nodetool: Annotated[
        str | None,
        _option(
            "--nodetool",
            text="How to run nodetool for a node, such as 'ssh {node} nodetool'.",
            panel=_THERE,
            metavar="COMMAND",
        ),
    ] = None,
    as_cql: Annotated[
        bool, _option("--cql", text="Print the statements that create the table.", panel=_OUTPUT)
    ] = False,
    now: NowOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Design a table: bucket, TTL, window, grace and disk, with the arithmetic and the reasons.

    Examples:

        treering design --rate 1/s --retention 90d

        treering design --rate 10/s --retention 2y --columns temp:double --late 2h:3%

        treering design --rate 4/h --retention forever --replication dc1:3 --cql

        treering design --table cassandra://10.0.0.5/plant/readings?local_dc=dc1
    """
    stated = dict(locals())
    check_one_of(json=as_json, cql=as_cql)
    if "://" in table:
        _print_redesign(stated)
        return
    _check_stated(stated)
    from treering.cli.rates import render_widths, widths_to_json
    from treering.core.design import plan_design
    from treering.core.rates import plan_widths

    now_s = clock_of(now)() // 1_000_000_000
    given = _rates(stated, now_s)
    load = _workload(stated)
    plan = plan_design(load, now_s=now_s, overrides=_overrides(stated, load))
    planned = plan_widths(plan, given)
    cql = _cql(plan, keyspace=keyspace, table=table)
    if as_json:
        widths = widths_to_json(plan, planned) if planned else {}
        print_json(plan.to_json() | {"cql": cql} | widths)
    elif as_cql:
        print(cql)
    else:
        from rich.console import Console

        from treering.cli.render_design import render_design

        # In a pipe Rich takes 80 columns, which this text is made for.
        Console(highlight=False).print(render_design(plan))
        if planned:
            print(render_widths(plan, planned))


def _check_stated(stated: dict[str, Any]) -> None:
    from treering.errors import UsageError

    if stated["retention"] is None:
        raise UsageError(
            "no retention was stated", hint="say --retention 90d, or --retention forever"
        )
    for name in ("files", "nodetool"):
        if stated[name]:
            raise UsageError(
                f"--{name} goes with the address of a table only",
                hint="such as --table cassandra://10.0.0.5/plant/readings",
            )


# What may be stated beside the address of a table; the rest the table itself says.
_BESIDE_ADDRESS = frozenset({"table", "rate", "files", "nodetool", "now", "as_json", "debug"})


def _print_redesign(stated: dict[str, Any]) -> None:
    from treering.cli.redesign import print_redesign
    from treering.core.units import parse_rate_hz
    from treering.errors import UsageError

    defaults = {name: one.default for name, one in inspect.signature(design).parameters.items()}
    more = [
        name.removeprefix("as_").replace("_", "-")
        for name, value in stated.items()
        if name not in _BESIDE_ADDRESS and value != defaults[name]
    ]
    if more:
        raise UsageError(
            f"--{more[0]} is what the table at {stated['table'].partition('?')[0]} says itself",
            hint="with an address only --rate, --files, --nodetool and --json can be stated",
        )
    print_redesign(
        stated["table"],
        files=stated["files"] or [],
        rate_hz=_optional(parse_rate_hz, stated["rate"]),
        nodetool=stated["nodetool"],
        now_s=clock_of(stated["now"])() // 1_000_000_000,
        as_json=stated["as_json"],
    )


def _rates(stated: dict[str, Any], now_s: int) -> dict[str, float]:
    """Return the rates by series; where no rate is stated, state that of most series."""
    from dataclasses import replace

    from treering.cli.rates import read_rates
    from treering.core.design import plan_design
    from treering.core.rates import plan_widths, table_rate_hz
    from treering.errors import UsageError

    if stated["rates"] is None:
        if stated["rate"] is None:
            raise UsageError("no rate was stated", hint="say --rate 1/s, or --rates FILE")
        return {}
    rates = read_rates(stated["rates"])
    stated["series"] = len(rates)
    if stated["rate"] is None:
        stated["rate"] = min(rates.values())
        load = _workload(stated)
        slowest = plan_design(
            load, now_s=now_s, overrides=replace(_overrides(stated, load), bucket=None)
        )
        stated["rate"] = table_rate_hz(plan_widths(slowest, rates))
    return rates


def _cql(plan: Design, *, keyspace: str, table: str) -> str:
    from treering.core.ddl import render_create_keyspace, render_create_table

    statements = []
    if plan.workload.replication:
        statements.append(render_create_keyspace(keyspace, dict(plan.workload.replication)))
    statements.append(render_create_table(plan, keyspace=keyspace, table=table))
    return "\n".join(f"{statement};" for statement in statements)


def _workload(stated: dict[str, Any]) -> Workload:
    from treering.core.design import Precision, Workload
    from treering.core.schema import parse_columns
    from treering.core.units import (
        parse_bytes,
        parse_duration_s,
        parse_rate_hz,
        parse_retention_s,
        parse_whole_s,
    )
    from treering.errors import UsageError

    if stated["precision"] not in set(Precision):
        raise UsageError(f"{stated['precision']!r} is not a precision", hint="use ms, us or ns")
    late_s, late_fraction = _late(stated["late"])
    return Workload(
        rate_hz=parse_rate_hz(stated["rate"]),
        columns=parse_columns(stated["columns"]),
        retention_s=parse_retention_s(stated["retention"]),
        peak_rate_hz=_optional(parse_rate_hz, stated["peak_rate"]),
        row_bytes=_optional(parse_bytes, stated["row_bytes"]),
        late_s=late_s,
        late_fraction=late_fraction,
        read_span_s=_optional(parse_duration_s, stated["read_span"]),
        series_count=stated["series"],
        replication=_replication(stated["replication"]),
        deletes=stated["deletes"],
        overwrites=stated["overwrites"],
        repair_every_s=_optional(parse_whole_s, stated["repair_every"]),
        cassandra=stated["cassandra"],
        storage_mode=stated["storage_mode"].upper(),
        precision=Precision(stated["precision"]),
        compression_ratio=stated["compression_ratio"],
        text_bytes=stated["text_bytes"],
        partition_bytes_target=parse_bytes(stated["partition_target"]),
        partition_bytes_max=parse_bytes(stated["partition_max"]),
        partition_cells_max=stated["partition_cells_max"],
    )


def _optional(parse: Any, text: str | None) -> Any:
    return None if text is None else parse(text)


def _overrides(stated: dict[str, Any], load: Workload) -> Overrides:
    from treering.core.bucket import BucketWidth
    from treering.core.design import Overrides, Strategy
    from treering.core.units import parse_whole_s
    from treering.core.window import parse_window
    from treering.errors import UsageError

    bucket, strategy = stated["bucket"], stated["strategy"]
    if strategy is not None and strategy.upper() not in set(Strategy):
        raise UsageError(
            f"{strategy!r} is not a compaction strategy", hint=f"use one of {', '.join(Strategy)}"
        )
    is_none = bucket is not None and bucket.strip().lower() == "none"
    # For a retention without end the count means nothing, and the plan refuses the window.
    over_s = load.retention_s if load.retention_s is not None else 1
    return Overrides(
        bucket="none" if is_none else _optional(BucketWidth.from_text, bucket),
        window=_optional(lambda text: parse_window(text, over_s), stated["window"]),
        gc_grace_s=_optional(parse_whole_s, stated["gc_grace"]),
        ttl_s=_optional(parse_whole_s, stated["ttl"]),
        strategy=None if strategy is None else Strategy(strategy.upper()),
        timestamp_resolution=stated["timestamp_resolution"],
        unsafe_aggressive_expiration=stated["unsafe_aggressive_expiration"],
    )


def _late(text: str | None) -> tuple[float | None, float | None]:
    from treering.core.units import parse_duration_s
    from treering.errors import UsageError

    if text is None:
        return None, None
    length, colon, share = text.partition(":")
    if not colon:
        return parse_duration_s(length), None
    number = share.strip()
    try:
        fraction = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
    except ValueError:
        fraction = -1.0
    if not 0 <= fraction <= 1:
        raise UsageError(
            f"{share!r} is not a share of the readings", hint="use for instance --late 2h:3%"
        )
    return parse_duration_s(length), fraction


def _replication(text: str | None) -> tuple[tuple[str, int], ...]:
    from treering.errors import UsageError

    pairs: dict[str, int] = {}
    for part in [] if text is None else text.split(","):
        centre, _, replicas = part.strip().rpartition(":")
        if not centre or not replicas.isdecimal() or int(replicas) < 1 or centre in pairs:
            raise UsageError(f"{text!r} is not a replication", hint="use for instance dc1:3,dc2:3")
        pairs[centre] = int(replicas)
    return tuple(pairs.items())
