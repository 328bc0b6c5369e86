"""``treering doctor watch``: sample, keep, say; no decisions here."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from treering.cli.doctor_known import (
    GcGraceOption,
    SchemaOption,
    TtlOption,
    WindowOption,
    described_in,
    options_of,
)
from treering.cli.options import DebugOption, JsonOption, NowOption

if TYPE_CHECKING:
    from treering.doctor.collect import Wanted
    from treering.doctor.facts import TableFacts
    from treering.doctor.watch import Watched
    from treering.table import Table


def watch(
    targets: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TARGET…]", help="As for check; without one, what is kept."),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option("--store", metavar="FOLDER", help="Where samples are kept."),
    ] = None,
    every: Annotated[
        str, typer.Option("--every", metavar="TIME", help="How often a sample is taken.")
    ] = "1h",
    once: Annotated[bool, typer.Option("--once", help="Take one sample and stop.")] = False,
    csv: Annotated[
        Path | None,
        typer.Option(
            "--csv", metavar="FILE", help="Sizes from a file instead, with columns time,bytes."
        ),
    ] = None,
    due_after: Annotated[
        str | None,
        typer.Option(
            "--due-after",
            metavar="TIME",
            help="How long a reading stays on disk: TTL + grace + window, where not known.",
        ),
    ] = None,
    keyspace: Annotated[
        str | None, typer.Option("--keyspace", metavar="KEYSPACE", help="Only this keyspace.")
    ] = None,
    table: Annotated[
        str | None, typer.Option("--table", metavar="TABLE", help="Only this table.")
    ] = None,
    nodetool: Annotated[
        str | None,
        typer.Option("--nodetool", metavar="TEMPLATE", help="As for check."),
    ] = None,
    timeout: Annotated[
        str, typer.Option("--timeout", metavar="TIME", help="The longest that one node may take.")
    ] = "60s",
    schema: SchemaOption = None,
    ttl: TtlOption = None,
    gc_grace: GcGraceOption = None,
    window: WindowOption = None,
    png: Annotated[
        Path | None, typer.Option("--png", metavar="FILE", help="Also draw the sizes as PNG.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Also write a page.")
    ] = None,
    now: NowOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Sample what tables take on disk, and say whether it comes back.

    A sawtooth is healthy; a staircase means that expired data stays. From the
    first sample on, the deletion times of the files say what will leave when.
    It says so after every sample, until Ctrl-C ends it.

    Exit codes: 0 done, 3 a size could not be told or is of some datacentres
    alone, 1 nothing could be looked at.

    Examples:

        treering doctor watch /var/lib/cassandra/data --store ./disk --every 1h

        treering doctor watch --csv sizes.csv --due-after 31d
    """
    from treering.cli.failures import INCOMPLETE
    from treering.cli.options import clock_of
    from treering.core.units import parse_duration_s, parse_whole_s
    from treering.doctor.collect import Wanted
    from treering.errors import UsageError

    due_s = None if due_after is None else parse_whole_s(due_after)
    if csv is not None:
        if targets or store is not None:
            raise UsageError("--csv goes with no target and no --store", hint="leave them out")
        _show([_of_csv(csv, due_s)], None, png=png, html=html, as_json=as_json)
        return
    if store is None:
        raise UsageError("watch needs --store or --csv", hint="for instance --store ./disk")
    every_s = parse_duration_s(every)
    if every_s < 1:
        raise UsageError(f"a sample every {every} is too often", hint="use --every 1min or more")
    wanted = Wanted(
        now_s=0,
        keyspace=keyspace,
        table=table,
        described=described_in(schema or []),
        options=options_of(ttl, gc_grace, window),
    )
    with ExitStack() as stack:
        kept = _opened(stack, store, every_s, create=bool(targets))

        def look() -> bool:
            facts: list[TableFacts] = []
            is_whole = True
            if targets:
                at = replace(wanted, now_s=clock_of(now)() // 1_000_000_000)
                facts, is_whole = _sampled(kept, targets, at, nodetool=nodetool, timeout=timeout)
            found = _watched(kept, facts, wanted, due_s)
            _show(found, kept, png=png, html=html, as_json=as_json)
            return is_whole

        if once or not targets:
            if not look():
                raise typer.Exit(INCOMPLETE)
            return
        _go_on(look, every_s, store)


def _go_on(look: Callable[[], bool], every_s: float, store: str) -> None:
    """Look again and again; Ctrl-C is how it ends, and no failure."""
    from treering.cli.output import print_note

    try:
        while True:
            look()
            sys.stdout.flush()  # Whoever reads it in a pipe sees every sample at once.
            time.sleep(every_s)
    except KeyboardInterrupt:
        print_note(f"stopped; what is kept: treering doctor watch --store {shlex.quote(store)}")


def _opened(stack: ExitStack, place: str, every_s: float, *, create: bool) -> Table:
    from treering.doctor.watch import open_disk_table
    from treering.store import open_store

    return open_disk_table(stack.enter_context(open_store(place, create=create)), every_s)


def _sampled(
    kept: Table, targets: list[str], wanted: Wanted, *, nodetool: str | None, timeout: str
) -> tuple[list[TableFacts], bool]:
    """Take and keep one sample of every table, and return whether all was seen.

    A target or a table that fails is told, the rest stands.
    """
    from treering.cli.doctor import collected_of
    from treering.cli.output import print_note
    from treering.core.units import render_bytes, render_count
    from treering.doctor.sample import sample_of, why_no_sample
    from treering.doctor.watch import keep_samples

    collected = collected_of(targets, wanted, nodetool=nodetool, timeout=timeout)
    samples = [one for one in map(sample_of, collected.tables) if one is not None]
    keep_samples(kept, samples)
    for line in collected.unseen:
        print_note(f"not seen: {line}")
    for one in collected.tables:
        if why := why_no_sample(one):
            print_note(f"no size of {one.name} is kept: {why}")
            for node in one.nodes:
                for problem in node.problems:
                    print_note(f"not seen: {problem.path}: {problem.message}")
    total = render_bytes(sum(one.live_bytes for one in samples))
    print_note(f"kept {render_count(len(samples), 'sample')}, {total} live")
    is_whole = not collected.unseen and len(samples) == len(collected.tables)
    is_whole = is_whole and not any(one.of.datacenters for one in samples)
    return list(collected.tables), is_whole


def _watched(
    kept: Table, facts: list[TableFacts], wanted: Wanted, due_s: int | None
) -> list[Watched]:
    from treering.doctor.sample import Sampled, sampled_of
    from treering.doctor.watch import history_of, read_history, watched_of
    from treering.errors import UsageError

    by_name = {sampled_of(one).series: one for one in facts}
    names = sorted(by_name) or sorted(name for name in kept.series() if _is_wanted(name, wanted))
    if not names:
        raise UsageError(
            "there is no sample yet", hint="name a target, such as /var/lib/cassandra/data"
        )
    return [
        watched_of(
            of,
            *history_of(read_history(kept, of)),
            facts=by_name.get(of.series),
            due_after_s=due_s,
        )
        for of in map(Sampled.from_series, names)
    ]


def _is_wanted(name: str, wanted: Wanted) -> bool:
    from treering.doctor.sample import Sampled

    keyspace, _, table = Sampled.from_series(name).table.partition(".")
    return wanted.keyspace in (None, keyspace) and wanted.table in (None, table)


def _of_csv(path: Path, due_s: int | None) -> Watched:
    from treering.doctor.sample import Sampled
    from treering.doctor.watch import parse_sizes_csv, watched_of

    return watched_of(Sampled(table=path.name), *parse_sizes_csv(path), due_after_s=due_s)


def _show(
    found: list[Watched],
    kept: Table | None,
    *,
    png: Path | None,
    html: Path | None,
    as_json: bool,
) -> None:
    from treering.cli.output import print_json
    from treering.doctor.render_watch import draw_png, render_watch_html, watch_to_json

    if png is not None:
        draw_png(found, png)
    if html is not None:
        html.write_text(render_watch_html(found), encoding="utf-8")
    if as_json:
        print_json(watch_to_json(found))
    else:
        _print(found)


def _print(found: list[Watched]) -> None:
    from treering.doctor.render_watch import render_picture, render_watch
    from treering.errors import MissingExtraError

    for one in found:
        print(render_watch(one))
        if sys.stdout.isatty():
            try:
                picture = render_picture(one)
            except MissingExtraError:
                continue
            if picture:
                print(picture)
