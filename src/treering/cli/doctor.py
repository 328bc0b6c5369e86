"""``treering doctor``: parse, collect, check, render."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from treering.cli.doctor_known import (
    KNOWN_PANEL,
    GcGraceOption,
    SchemaOption,
    TtlOption,
    WindowOption,
    described_in,
    options_of,
)
from treering.cli.doctor_watch import watch
from treering.cli.options import DebugOption, JsonOption, NowOption

if TYPE_CHECKING:
    from treering.doctor.collect import Collected, Wanted
    from treering.doctor.facts import ClusterFacts
    from treering.doctor.report import Diagnosis
    from treering.doctor.thresholds import Thresholds

_OUTPUT: Final = "Output"

doctor = typer.Typer(
    help="Check tables for what makes them ill: four checks, with the cause and the cure.",
    no_args_is_help=True,
)
TargetsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="TARGET…",
        help="cassandra://host[:port][,host…], data folders (NODE=FOLDER names their node) or "
        "bundles, mixed.",
    ),
]
KeyspaceOption = Annotated[
    str | None, typer.Option("--keyspace", metavar="KEYSPACE", help="Only this keyspace.")
]
TableOption = Annotated[
    str | None,
    typer.Option("--table", metavar="TABLE", help="Only this table, also as KEYSPACE.TABLE."),
]
NodetoolOption = Annotated[
    str | None,
    typer.Option(
        "--nodetool",
        metavar="TEMPLATE",
        help='How nodetool is called, such as "ssh {node} nodetool".',
    ),
]
TimeoutOption = Annotated[
    str,
    typer.Option("--timeout", metavar="TIME", help="The longest that one node may take."),
]


@doctor.command("check")
def check(
    targets: TargetsArgument,
    keyspace: KeyspaceOption = None,
    table: TableOption = None,
    fail_on: Annotated[
        str,
        typer.Option(
            "--fail-on",
            metavar="SEVERITY",
            help="Exit with 4 from notice, warning or critical on, or never.",
        ),
    ] = "warning",
    nodetool: NodetoolOption = None,
    timeout: TimeoutOption = "60s",
    threshold: Annotated[
        list[str] | None,
        typer.Option(
            "--threshold",
            metavar="NAME=VALUE",
            help="Where a number becomes a finding; again for more.",
        ),
    ] = None,
    schema: SchemaOption = None,
    ttl: TtlOption = None,
    gc_grace: GcGraceOption = None,
    window: WindowOption = None,
    flushed: Annotated[
        bool,
        typer.Option(
            "--flushed",
            help="Nothing is in memtables: the nodes are stopped or drained.",
            rich_help_panel=KNOWN_PANEL,
        ),
    ] = False,
    output: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="text, json or prometheus.",
            rich_help_panel=_OUTPUT,
        ),
    ] = "text",
    html: Annotated[
        Path | None,
        typer.Option(
            "--html",
            metavar="FILE",
            help="Also write a page with pictures.",
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    now: NowOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Check any table with a clustering time; nothing is written to a cluster.

    Four checks: partitions are bounded, reads touch few files, expired files
    really go, disk comes back in time.

    Exit codes: 0 nothing at or above --fail-on, 3 a check is unknown or
    something could not be seen, 4 findings, 1 nothing could be looked at.

    Examples:

        treering doctor check /var/lib/cassandra/data --keyspace plant

        treering doctor check cassandra://10.0.0.5?local_dc=dc1 /var/lib/cassandra/data

        treering doctor check bundle-*.tar.gz --html report.html
    """
    from treering.cli.options import clock_of
    from treering.doctor.check import diagnose
    from treering.doctor.collect import Wanted
    from treering.doctor.report import exit_code_of

    style = _style(output, as_json=as_json)
    severity = _severity(fail_on)
    limits = _thresholds(threshold or [])
    keyspace, table = _table_of(keyspace, table)
    now_s = clock_of(now)() // 1_000_000_000
    wanted = Wanted(
        now_s=now_s,
        keyspace=keyspace,
        table=table,
        described=described_in(schema or []),
        options=options_of(ttl, gc_grace, window),
        is_memtable_known=flushed,
    )
    collected = collected_of(targets, wanted, nodetool=nodetool, timeout=timeout)
    diagnosis = diagnose(collected, limits)
    if html is not None:
        _write_page(html, diagnosis, collected, now_s, limits)
    _print(diagnosis, style)
    raise typer.Exit(exit_code_of(diagnosis, severity))


@doctor.command("collect")
def collect(
    targets: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TARGET…]", help="As for check: folders, clusters, bundles."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="FILE", help="The bundle; one there is not replaced."),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a file that is there.")
    ] = False,
    script: Annotated[
        bool,
        typer.Option("--script", help="Print a POSIX script that does it where no Python is."),
    ] = False,
    node: Annotated[
        str | None,
        typer.Option("--node", metavar="NAME", help="What the folders' node is called; this host."),
    ] = None,
    with_keys: Annotated[
        bool,
        typer.Option(
            "--with-keys", help="Partition keys and clustering values too, not tokens alone."
        ),
    ] = False,
    keyspace: KeyspaceOption = None,
    table: TableOption = None,
    nodetool: NodetoolOption = None,
    timeout: TimeoutOption = "60s",
    now: NowOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Put what check needs into one file, to be checked elsewhere.

    Examples:

        treering doctor collect /var/lib/cassandra/data -o node1.tar.gz

        treering doctor collect --script > collect.sh
    """
    from treering.cli.failures import INCOMPLETE
    from treering.cli.options import clock_of
    from treering.cli.output import print_json, print_note
    from treering.core.units import render_bytes, render_count
    from treering.doctor.bundle import collect_script, write_bundle
    from treering.doctor.collect import NOT_SEEN, Wanted
    from treering.doctor.facts import ClusterFacts, Missing
    from treering.errors import UsageError

    if script:
        if targets or out is not None or as_json:
            raise UsageError(
                "--script goes with no target, no --out and no --json",
                hint="give targets and -o to the script",
            )
        sys.stdout.write(collect_script())
        return
    if not targets or out is None:
        raise UsageError(
            "collect needs a target and --out",
            hint="for instance treering doctor collect /var/lib/cassandra/data -o node1.tar.gz",
        )
    keyspace, table = _table_of(keyspace, table)
    now_s = clock_of(now)() // 1_000_000_000
    wanted = Wanted(now_s=now_s, keyspace=keyspace, table=table, node=node or socket.gethostname())
    collected = collected_of(targets, wanted, nodetool=nodetool, timeout=timeout)
    facts = ClusterFacts(
        target=", ".join(targets),
        tables=collected.tables,
        missing=tuple(Missing(node="", what=NOT_SEEN, why=line) for line in collected.unseen),
    )
    write_bundle(out, facts, made_at_s=now_s, with_keys=with_keys, overwrite=overwrite)
    if as_json:
        print_json(
            {
                "file": str(out),
                "bytes": out.stat().st_size,
                "tables": [one.name for one in collected.tables],
                "with_keys": with_keys,
                "unseen": list(collected.unseen),
            }
        )
    else:
        print_note(
            f"{out} holds {render_count(len(collected.tables), 'table')}, "
            f"{render_bytes(out.stat().st_size)}, {'with' if with_keys else 'without'} keys"
        )
    for line in collected.unseen:
        print_note(f"not seen: {line}")
    if collected.unseen:
        raise typer.Exit(INCOMPLETE)


doctor.command("watch")(watch)


def collected_of(
    targets: list[str], wanted: Wanted, *, nodetool: str | None, timeout: str
) -> Collected:
    """Return the tables of targets, with progress; raises where nothing could be looked at."""
    from treering.core.units import parse_duration_s
    from treering.doctor.collect import collect_targets
    from treering.doctor.nodetool_run import NodetoolCommand
    from treering.errors import UsageError

    timeout_s = parse_duration_s(timeout)
    if timeout_s <= 0:
        raise UsageError(f"a wait of {timeout} ends before it begins", hint="use --timeout 60s")
    command = None if nodetool is None else NodetoolCommand.from_text(nodetool)

    def live(url: str, wanted: Wanted) -> ClusterFacts:
        from treering.doctor.live import collect_live

        return collect_live(
            url,
            keyspace=wanted.keyspace,
            table=wanted.table,
            nodetool=command,
            timeout_s=timeout_s,
        )

    with _progress() as advance:
        collected = collect_targets(targets, wanted, live=live, progress=advance)
    if not collected.tables and collected.errors:
        raise _joined(collected)
    if not collected.tables and wanted.named:
        raise UsageError(f"no target has the {wanted.named}", hint="names are case-sensitive")
    return collected


def _joined(collected: Collected) -> Exception:
    """Return what went wrong with all targets as one error, wrong usage where all of it is."""
    from treering.errors import TreeringError, UsageError

    if len(collected.errors) == 1:
        return collected.errors[0]
    text = "nothing could be looked at: " + "; ".join(collected.unseen)
    hint = str(getattr(collected.errors[0], "hint", ""))
    if all(isinstance(error, UsageError) for error in collected.errors):
        return UsageError(text, hint=hint)
    return TreeringError(text)


@contextmanager
def _progress() -> Iterator[Callable[[str], None] | None]:
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status("looking") as status:
        yield lambda target: status.update(f"looking at {escape(target)}")


def _style(output: str, *, as_json: bool) -> str:
    from treering.errors import UsageError

    if output not in ("text", "json", "prometheus"):
        raise UsageError(f"{output!r} is not a format", hint="use text, json or prometheus")
    if as_json and output == "prometheus":
        raise UsageError(
            "--json and --format prometheus exclude each other", hint="leave out one of them"
        )
    return "json" if as_json else output


def _severity(text: str) -> Any:
    from treering.doctor.finding import SEVERITIES
    from treering.errors import UsageError

    if text not in (*SEVERITIES, "never"):
        raise UsageError(
            f"{text!r} is not a severity", hint=f"use one of {', '.join(SEVERITIES)}, never"
        )
    return text


def _table_of(keyspace: str | None, table: str | None) -> tuple[str | None, str | None]:
    from treering.errors import UsageError

    if table is None or "." not in table:
        return keyspace, table
    above, _, name = table.partition(".")
    if keyspace not in (None, above):
        raise UsageError(
            f"the table {table} is not in the keyspace {keyspace}",
            hint="leave out --keyspace",
        )
    return above, name


def _thresholds(pairs: list[str]) -> Thresholds:
    from treering.doctor.thresholds import parse_thresholds

    return parse_thresholds(pairs)


def _write_page(
    path: Path, diagnosis: Diagnosis, collected: Collected, now_s: int, limits: Thresholds
) -> None:
    from treering.doctor.html import render_html

    facts = {table.name: table for table in collected.tables}
    page = render_html(diagnosis, facts, now_s=now_s, thresholds=limits)
    path.write_text(page, encoding="utf-8")


def _print(diagnosis: Diagnosis, style: str) -> None:
    from treering.cli.output import print_json
    from treering.doctor.prometheus import render_prometheus
    from treering.doctor.report import jsonable, render_text, report_to_json

    if style == "json":
        print_json(jsonable(report_to_json(diagnosis)))
    elif style == "prometheus":
        sys.stdout.write(render_prometheus(diagnosis))
    else:
        print(render_text(diagnosis, width=_width()))


def _width() -> int:
    import shutil

    # In a pipe 80 columns, as everywhere.
    return min(shutil.get_terminal_size((80, 24)).columns, 120) if sys.stdout.isatty() else 80
