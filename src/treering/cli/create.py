"""``treering create``: make a table, or show what that would do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from treering.cli.options import DebugOption, JsonOption, NowOption, StoreOption

if TYPE_CHECKING:
    from treering.store import CreatePlan

FOLDER_SHARE: Final = 1.2
"""Bytes of a reading in a folder over those of an uncompressed row on Cassandra, as measured."""

FILE_BYTES_MIN: Final = 9 * 4_096
"""What a file of a segment takes with a single reading in it: nine pages, as measured."""

Outcome = Literal["made", "was there", "planned"]


def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the table.")],
    rate: Annotated[
        str,
        typer.Option("--rate", metavar="RATE", help="Readings a second of one series: 1/s, 4/h."),
    ],
    retention: Annotated[
        str,
        typer.Option(
            "--retention", metavar="TIME", help="How long readings stay readable: 90d, or forever."
        ),
    ],
    columns: Annotated[
        str, typer.Option("--columns", metavar="COLUMNS", help="name:type, more after commas.")
    ] = "value:double",
    precision: Annotated[
        str, typer.Option("--precision", metavar="UNIT", help="Of event time: ms, us or ns.")
    ] = "ms",
    bucket: Annotated[
        str | None, typer.Option("--bucket", metavar="WIDTH", help="Instead of the design's.")
    ] = None,
    window: Annotated[
        str | None, typer.Option("--window", metavar="TIME", help="Instead of the design's.")
    ] = None,
    gc_grace: Annotated[
        str | None, typer.Option("--gc-grace", metavar="TIME", help="Instead of the design's.")
    ] = None,
    finer: Annotated[
        str,
        typer.Option("--finer", metavar="floor|refuse", help="Times finer than the precision."),
    ] = "floor",
    future_limit: Annotated[
        str,
        typer.Option(
            "--future-limit", metavar="TIME", help="How far ahead of now readings may be."
        ),
    ] = "10m",
    replication: Annotated[
        str | None,
        typer.Option(
            "--replication",
            metavar="DC:N,…",
            help="Cassandra: make the keyspace if it is missing, such as dc1:3.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would run and the verdicts; do nothing.")
    ] = False,
    store: StoreOption = None,
    now: NowOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Create a table from what its readings are like.

    Bucket, TTL, window and grace follow from rate and retention: treering
    design shows how. The same call again finds the table there and is fine.

    Examples:

        treering create readings --rate 1/s --retention 90d --store ./plant

        treering create air --rate 4/h --retention 2y --columns temp:double

        treering create readings --rate 10/s --retention 30d --dry-run
    """
    from treering.cli.options import opened
    from treering.cli.output import print_json

    options = {} if replication is None else {"replication": _replication(replication, store)}
    choices: dict[str, Any] = {
        "rate": rate,
        "retention": retention,
        "columns": columns,
        "precision": precision,
        "bucket": bucket,
        "window": window,
        "gc_grace": gc_grace,
        "finer": finer,
        "future_limit": future_limit,
    }
    new_folder = missing_folder(store) if dry_run else None
    # What is not there cannot be asked: the plan is the same, and the steps are those of a folder.
    where = store if new_folder is None else "memory://"
    with opened(where, now=now, create=not dry_run, **options) as place:
        plan = place.plan_create(name, **choices)
        is_folder = place.engine_name != "cassandra"
        outcome: Outcome = "planned"
        if not dry_run:
            outcome = "was there" if name in place.tables() else "made"
            place.create_from(plan)
    if new_folder is not None:
        steps = (f"make a store in the folder {new_folder}", f"make the table {name} in it")
        plan = replace(plan, steps=steps)
    if as_json:
        print_json(_document(plan, outcome))
    else:
        _print(plan, outcome, is_folder=is_folder)


def missing_folder(store: str | None) -> str | None:
    """Return the folder of a store that does not exist yet; None for anything else."""
    place = store or ""
    is_folder = bool(place) and "://" not in place
    return place if is_folder and not Path(place).exists() else None


def _replication(text: str, store: str | None) -> dict[str, int]:
    from treering.errors import UsageError

    if not (store or "").lower().startswith("cassandra://"):
        raise UsageError(
            "a replication was named for a store that is not on Cassandra",
            hint="leave --replication out, or name a store as cassandra://host/keyspace",
        )
    pairs: dict[str, int] = {}
    for part in text.split(","):
        centre, _, replicas = part.strip().rpartition(":")
        if not centre or not replicas.isdecimal() or int(replicas) < 1 or centre in pairs:
            raise UsageError(f"{text!r} is not a replication", hint="use for instance dc1:3,dc2:3")
        pairs[centre] = int(replicas)
    return pairs


def _document(plan: CreatePlan, outcome: Outcome) -> dict[str, Any]:
    return {
        "table": plan.spec.name,
        "created": outcome == "made",
        "existed": outcome == "was there",
        "design": plan.design.to_json(),
        "steps": list(plan.steps),
    }


_HEADS: Final[dict[Outcome, str]] = {
    "made": "is made",
    "was there": "was there already, and is equal",
    "planned": "would be made",
}


def _print(plan: CreatePlan, outcome: Outcome, *, is_folder: bool) -> None:
    from rich.padding import Padding

    from treering.cli.output import print_rich
    from treering.cli.render_design import render_verdicts
    from treering.core.units import render_bytes, render_duration

    design = plan.design
    kept = "for ever" if design.ttl_s is None else f"for {render_duration(design.ttl_s)}"
    window = "no window"
    if design.window is not None:
        window = f"windows of {render_duration(design.window.length_s)}"
    print(
        f"table {plan.spec.name} {_HEADS[outcome]}: {design.bucket.value} buckets of "
        f"{render_bytes(design.bucket_bytes)}, kept {kept}, {window}"
    )
    if is_folder:
        print("\n".join(_folder_lines(plan)))
    if outcome == "planned":
        # Plain, not wrapped: statements are there to be copied.
        print("\nsteps", *map(_step, plan.steps), "\nverdicts", sep="\n")
    # When Cassandra would refuse a lifetime says nothing about a folder.
    left_out = {"ttl"} if is_folder else set()
    verdicts = [
        verdict
        for verdict in design.verdicts
        if verdict.severity in ("warning", "error")
        or (outcome == "planned" and verdict.id not in left_out)
    ]
    if verdicts:
        print_rich(Padding(render_verdicts(verdicts), (0, 0, 0, 2), expand=False))


def _folder_lines(plan: CreatePlan) -> Iterator[str]:
    """Yield what a reading takes: as a row, packed, and by the least that a file takes."""
    from treering.core.segment import segment_length_s
    from treering.core.sizing import TEXT_BYTES_DEFAULT
    from treering.core.units import render_bytes, render_count, render_duration

    design = plan.design
    load = design.workload
    cassandra = design.row_bytes * load.compression_ratio
    packed = sum(column.type.fixed_bytes or TEXT_BYTES_DEFAULT for column in load.columns)
    yield (
        f"a reading takes about {design.row_bytes * FOLDER_SHARE:.0f} B in a folder as a row, "
        f"at most about {packed} B packed,"
    )
    yield f"as all but the newest are (on Cassandra, compressed, {cassandra:.0f} B)"
    segment_s = segment_length_s(plan.spec)
    readings = max(load.rate_hz * segment_s * load.series_count, 1.0)
    if packed * readings < FILE_BYTES_MIN:
        yield (
            f"a file holds {render_duration(segment_s)} and has at least "
            f"{render_bytes(FILE_BYTES_MIN)}: {FILE_BYTES_MIN / readings:,.0f} B a reading of "
            f"{render_count(load.series_count, 'series', 'series')}"
        )


def _step(step: str) -> str:
    return f"{step};" if step.startswith("CREATE ") else step
