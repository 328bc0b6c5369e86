"""What the caller of the doctor knows beside files, which hold no options: for check and watch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from treering.doctor.describe import DescribedTable

KNOWN_PANEL: Final = "What the files do not say"

SchemaOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--schema",
        metavar="FILE",
        help="What DESCRIBE TABLE, KEYSPACE or SCHEMA printed; again for more.",
        rich_help_panel=KNOWN_PANEL,
    ),
]
TtlOption = Annotated[
    str | None,
    typer.Option(
        "--ttl",
        metavar="TIME",
        help="default_time_to_live, or none.",
        rich_help_panel=KNOWN_PANEL,
    ),
]
GcGraceOption = Annotated[
    str | None,
    typer.Option(
        "--gc-grace", metavar="TIME", help="gc_grace_seconds.", rich_help_panel=KNOWN_PANEL
    ),
]
WindowOption = Annotated[
    str | None,
    typer.Option(
        "--window",
        metavar="TIME",
        help="The window of TimeWindowCompactionStrategy.",
        rich_help_panel=KNOWN_PANEL,
    ),
]


def described_in(paths: list[Path]) -> tuple[DescribedTable, ...]:
    """Return the tables that ``DESCRIBE`` printed into files."""
    from treering.doctor.describe import TEXT_MAX, parse_describe

    found: list[DescribedTable] = []
    for path in paths:
        with path.open(encoding="utf-8", errors="replace") as file:
            found += parse_describe(file.read(TEXT_MAX + 1), path=str(path))
    return tuple(found)


def options_of(ttl: str | None, gc_grace: str | None, window: str | None) -> dict[str, object]:
    """Return what was given of a table's options, as ``system_schema.tables`` has them."""
    from treering.core.units import parse_retention_s, parse_whole_s
    from treering.core.window import parse_window

    options: dict[str, object] = {}
    if ttl is not None:
        options["default_time_to_live"] = parse_retention_s(ttl) or 0
    if gc_grace is not None:
        options["gc_grace_seconds"] = parse_whole_s(gc_grace)
    if window is not None:
        size = parse_window(window, 1)
        options["compaction"] = {
            "class": "TimeWindowCompactionStrategy",
            "compaction_window_unit": size.unit,
            "compaction_window_size": str(size.size),
        }
    return options
