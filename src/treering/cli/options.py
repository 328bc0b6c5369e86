"""Options that several commands share, and the store they name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from treering.clock import Clock
    from treering.store import Store
    from treering.table import Table

_SHARED = "Everywhere"

TableArgument = Annotated[str, typer.Argument(metavar="TABLE", help="The table.")]
SeriesArgument = Annotated[
    list[str], typer.Argument(metavar="SERIES…", help="One series id, or several.")
]
ChosenSeriesArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[SERIES…]", help="One series id, or several; else --prefix or --tag."),
]
PrefixOption = Annotated[
    str | None, typer.Option("--prefix", metavar="TEXT", help="Series whose ids start so.")
]
TagOption = Annotated[
    list[str] | None,
    typer.Option("--tag", metavar="NAME=VALUE", help="Series that have it; again for more."),
]
SeriesMaxOption = Annotated[
    int | None,
    typer.Option(
        "--series-max", min=1, metavar="N", help="The most series by --prefix and --tag; 1,000."
    ),
]
StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        envvar="TREERING_URL",
        metavar="PLACE",
        help="A folder, or cassandra://host[:port][,host…]/keyspace?local_dc=…",
        rich_help_panel=_SHARED,
    ),
]
JsonOption = Annotated[
    bool,
    typer.Option("--json", help="Print one JSON document.", rich_help_panel=_SHARED),
]
DebugOption = Annotated[
    bool,
    typer.Option("--debug", help="Show a traceback with an error.", rich_help_panel=_SHARED),
]
NowOption = Annotated[
    str | None,
    typer.Option(
        "--now",
        metavar="TIME",
        help="Take this as the present, such as 2026-01-01T00:00Z.",
        rich_help_panel=_SHARED,
    ),
]
StartOption = Annotated[
    str,
    typer.Option("--start", metavar="TIME", help="First event time wanted: ISO text or -7d."),
]
EndOption = Annotated[
    str | None,
    typer.Option("--end", metavar="TIME", help="First event time not wanted; all if left out."),
]
OrderOption = Annotated[
    str, typer.Option("--order", metavar="asc|desc", help="By event time within a series.")
]
LimitOption = Annotated[
    int | None, typer.Option("--limit", metavar="N", help="At most so many readings a series.")
]
ColumnsOption = Annotated[
    list[str] | None,
    typer.Option("--column", metavar="NAME", help="A column wanted; again for more. All if none."),
]
FanOutOption = Annotated[
    int | None,
    typer.Option("--fan-out-max", min=1, metavar="N", help="The most partitions to touch; 10,000."),
]
RowsOption = Annotated[
    int | None,
    typer.Option(
        "--rows-max", min=1, metavar="N", help="The most readings to expect; 200 million."
    ),
]
ListedOption = Annotated[
    bool,
    typer.Option("--listed", help="Ask the index which buckets exist; leave out the others."),
]
UnitOption = Annotated[
    str | None,
    typer.Option("--time-unit", metavar="UNIT", help="The unit of --start and --end as integers."),
]


@contextmanager
def opened(
    place: str | None, *, now: str | None = None, create: bool = False, **options: Any
) -> Iterator[Store]:
    """Open the store of a command and close it again.

    Args:
        place: A folder or URL; None is refused with a hint.
        now: What counts as the present; the clock by default.
        create: Whether a folder that does not exist is made.
        **options: For the engine.
    """
    from treering.store import open_store

    with open_store(place, clock=clock_of(now), create=create, **options) as store:
        yield store


def clock_of(now: str | None) -> Clock:
    """Return a clock that stands at ``now``, or the machine's."""
    from treering.clock import ManualClock, system_clock

    return system_clock if now is None else ManualClock(now)


def parse_bound_text(text: str | None, unit: str | None) -> str | int | None:
    """Return the time of an option that bounds an interval; None where it was left out.

    Raises:
        UsageError: An integer without a unit.
    """
    return None if text is None else parse_moment_text(text, unit)


def parse_moment_text(text: str, unit: str | None) -> str | int:
    """Return a time of an option: an integer where it is one and a unit says of what.

    Raises:
        UsageError: An integer without a unit.
    """
    from treering.errors import UsageError

    if not text.strip().lstrip("+-").isdecimal():
        return text
    if unit is None:
        raise UsageError(
            f"the integer time {text} has no unit",
            hint="say --time-unit s, ms, us or ns, or use text such as 2025-11-20T13:00Z",
        )
    return int(text)


def check_one_of(**flags: bool) -> None:
    """Refuse options that exclude each other, rather than ignore one.

    Args:
        **flags: Whether each was given, by its name.

    Raises:
        UsageError: More than one was.
    """
    from treering.errors import UsageError

    given = [f"--{name}" for name, is_given in flags.items() if is_given]
    if len(given) > 1:
        raise UsageError(
            f"{' and '.join(given)} exclude each other", hint="leave out all but one of them"
        )


def chosen_series(
    table: Table,
    names: Sequence[str] | None,
    *,
    prefix: str | None,
    tag: list[str] | None,
    series_max: int | None,
) -> Sequence[str]:
    """Return the series of a command: those named, or those that a prefix and tags choose.

    Raises:
        UsageError: Both were said, or neither.
        SeriesNotFoundError: No series is so.
        FanOutTooWideError: More series than the bound.
    """
    from treering.cli.add_series import parse_tags
    from treering.errors import SeriesNotFoundError, UsageError
    from treering.table_series import render_choice

    is_choice = prefix is not None or bool(tag)
    if names and (is_choice or series_max is not None):
        raise UsageError(
            "series were named, and --prefix, --tag or --series-max said too",
            hint="name the series, or have them chosen",
        )
    if names:
        return names
    if not is_choice:
        raise UsageError(
            "no series was named", hint="name one or several, or choose by --prefix or --tag"
        )
    tags = parse_tags(tag)
    found = table.find_series(prefix or "", tags, **stated(series_max=series_max))
    if not found:
        choice = render_choice(prefix or "", tags)
        raise SeriesNotFoundError(
            f"none of the series of {table.name!r}{choice}"
            if choice
            else f"the table {table.name!r} has no series",
            hint=f"treering series {table.name} lists all, also by --prefix and --tag",
        )
    return found


def stated(**limits: int | None) -> dict[str, Any]:
    """Return the options that were given, so that what is left out keeps the library's default."""
    return {name: value for name, value in limits.items() if value is not None}


def parse_pairs(pairs: list[str] | None, example: str) -> dict[str, str] | None:
    """Return ``a=b`` texts as a mapping; None where there are none.

    Raises:
        UsageError: Not of that form, or a name twice.
    """
    from treering.errors import UsageError

    if not pairs:
        return None
    mapping: dict[str, str] = {}
    for pair in pairs:
        # The file's column may hold an equals sign; the table's cannot.
        name, equals, to = pair.rpartition("=")
        if not equals or not name or not to or name in mapping:
            raise UsageError(f"{pair!r} is not a pair of names", hint=f"for instance {example}")
        mapping[name] = to
    return mapping
