"""``treering series``: the series of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from treering.cli.options import (
    DebugOption,
    JsonOption,
    PrefixOption,
    StoreOption,
    TableArgument,
    TagOption,
)

if TYPE_CHECKING:
    from treering.engine.protocol import SeriesScan


def series(
    table: TableArgument,
    prefix: PrefixOption = None,
    tag: TagOption = None,
    scan: Annotated[
        bool,
        typer.Option("--scan", help="First find series of an adopted table by its partitions."),
    ] = False,
    scan_max: Annotated[
        int | None,
        typer.Option("--scan-max", min=1, metavar="N", help="Partitions of one scan; 100,000."),
    ] = None,
    scan_from: Annotated[
        int | None,
        typer.Option("--scan-from", metavar="TOKEN", help="Where the last scan stopped."),
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """List the series of a table, one a line.

    Examples:

        treering series readings --prefix pump- --store ./plant

        treering series readings --tag site=north --tag kind=fan --store ./plant

        treering series telemetry --scan --scan-max 10000
    """
    from treering.cli.add_series import parse_tags
    from treering.cli.failures import INCOMPLETE
    from treering.cli.options import opened, stated
    from treering.cli.output import print_json, print_note

    with opened(store) as place:
        target = place.table(table)
        found = None
        if scan or scan_max is not None or scan_from is not None:
            found = target.scan_series(token=scan_from, **stated(partitions_max=scan_max))
        names = target.series(prefix=prefix or "", tags=parse_tags(tag))
        if as_json:
            extra = {} if found is None else {"scan": _scan_document(found)}
            print_json({"table": table, "series": list(names), **extra})
        else:
            for name in names:
                print(name)
            if found is not None:
                print_note(_scan_text(found))
    if found is not None and found.next_token is not None:
        raise typer.Exit(INCOMPLETE)


def _scan_document(scan: SeriesScan) -> dict[str, Any]:
    return {
        "found": len(scan.series),
        "partitions": scan.partitions,
        "unnamed": scan.unnamed,
        "next_token": scan.next_token,
    }


def _scan_text(scan: SeriesScan) -> str:
    text = f"{len(scan.series):,} series in {scan.partitions:,} partitions"
    if scan.unnamed:
        text += f"; {scan.unnamed:,} partitions have no series id that treering takes"
    if scan.next_token is None:
        return f"{text}; that was all"
    return f"{text}; go on with --scan-from={scan.next_token}"
