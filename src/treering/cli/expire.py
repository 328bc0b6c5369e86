"""``treering expire``: let what is past the retention leave."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from treering.cli.options import DebugOption, JsonOption, NowOption, StoreOption, TableArgument

if TYPE_CHECKING:
    from treering.engine.protocol import ExpireReport


def expire(
    table: TableArgument,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would go; remove nothing.")
    ] = False,
    store: StoreOption = None,
    now: NowOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Remove whole files that the retention has passed.

    On Cassandra the server does that by itself, and this says what it can drop now.

    Examples:

        treering expire readings --dry-run --store ./plant

        treering expire readings --now 2026-06-01 --store ./plant
    """
    from treering.cli.options import opened
    from treering.cli.output import print_json, print_rich

    with opened(store, now=now) as place:
        report = place.table(table).expire(dry_run=dry_run)
    if as_json:
        print_json(_document(table, report))
    else:
        print_rich(*render_expiry(report, is_dry_run=dry_run))


def _document(table: str, report: ExpireReport) -> dict[str, Any]:
    from treering.core.times import render_instant

    return {
        "table": table,
        "removed": report.is_removed,
        "bytes": report.bytes,
        "note": report.note,
        "removals": [
            {
                "name": removal.name,
                "start": render_instant(removal.start_s),
                "end": render_instant(removal.end_s),
                "bytes": removal.bytes,
            }
            for removal in report.removals
        ],
    }


def render_expiry(report: ExpireReport, *, is_dry_run: bool) -> list[Any]:
    """Return what left, or would leave, as parts that Rich prints."""
    from rich.text import Text

    from treering.cli.output import render_table
    from treering.core.times import render_instant
    from treering.core.units import render_bytes, render_count

    count = len(report.removals)
    what = render_count(count, "part")
    is_known = any(removal.bytes is not None for removal in report.removals)
    size = f", {render_bytes(report.bytes)}" if is_known else ""
    if not count:
        parts: list[Any] = ["nothing is past the retention as a whole"]
    elif report.is_removed:
        parts = [f"{what} left{size}"]
    else:
        verb = "would leave" if is_dry_run else "can leave"
        parts = [f"{what} {verb}{size}"]
    if count:
        names = ("name", "from", "to", "size")[: 4 if is_known else 3]
        rows = [
            [
                removal.name,
                render_instant(removal.start_s),
                render_instant(removal.end_s),
                "" if removal.bytes is None else render_bytes(removal.bytes),
            ][: len(names)]
            for removal in report.removals
        ]
        parts.append(render_table(names, rows, right=3))
    if report.note:
        parts.append(Text(report.note))
    return parts
