"""``treering delete`` and ``treering drop-series``: readings and series go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from treering.cli.options import (
    DebugOption,
    EndOption,
    FanOutOption,
    JsonOption,
    NowOption,
    SeriesArgument,
    StartOption,
    StoreOption,
    TableArgument,
    UnitOption,
)

if TYPE_CHECKING:
    from treering.core.delete_plan import DeletePlan

YesOption = Annotated[
    bool, typer.Option("--yes", help="Do it; without this, only the plan is shown.")
]
AllowOption = Annotated[
    bool,
    typer.Option("--allow-on-twcs", help="Accept tombstones in a table whose files leave whole."),
]


def delete(
    table: TableArgument,
    series: SeriesArgument,
    start: StartOption,
    end: EndOption = None,
    yes: YesOption = False,
    allow_on_twcs: AllowOption = False,
    time_unit: UnitOption = None,
    fan_out_max: FanOutOption = None,
    store: StoreOption = None,
    now: NowOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Delete the readings of an interval; shows what that does and costs until --yes.

    Examples:

        treering delete readings pump-7 --start 2026-01-01 --end 2026-01-02 --store ./plant

        treering delete readings pump-7 --start -2h --yes --store ./plant
    """
    from treering.cli.options import opened, parse_bound_text, parse_moment_text, stated

    first = parse_moment_text(start, time_unit)
    last = parse_bound_text(end, time_unit)
    limits = stated(fan_out_max=fan_out_max)
    with opened(store, now=now) as place:
        target = place.table(table)
        if yes:
            plan = target.delete(
                series, first, last, unit=time_unit, allow_on_twcs=allow_on_twcs, **limits
            ).plan
        else:
            plan = target.plan_delete(series, first, last, unit=time_unit, **limits)
    _show(plan, is_done=yes, as_json=as_json)


def drop_series(
    table: TableArgument,
    series: SeriesArgument,
    yes: YesOption = False,
    allow_on_twcs: AllowOption = False,
    look_back: Annotated[
        str | None,
        typer.Option(
            "--look-back", metavar="TIME", help="How far back; the retention, or ten years."
        ),
    ] = None,
    store: StoreOption = None,
    now: NowOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Delete all readings of series and take them off the list; shows the plan until --yes.

    Examples:

        treering drop-series readings pump-7 --yes --store ./plant
    """
    from treering.cli.options import opened

    with opened(store, now=now) as place:
        target = place.table(table)
        if yes:
            report = target.drop_series(series, allow_on_twcs=allow_on_twcs, look_back=look_back)
            plan = report.plan
        else:
            plan = target.plan_drop_series(series, look_back=look_back)
    _show(plan, is_done=yes, as_json=as_json)


def _show(plan: DeletePlan, *, is_done: bool, as_json: bool) -> None:
    from treering.cli.output import print_json, print_note
    from treering.core.delete_plan import render_delete_plan

    if as_json:
        print_json(_document(plan, is_done=is_done))
        return
    print(render_delete_plan(plan))
    if is_done:
        print("deleted")
    else:
        allow = " --allow-on-twcs" if plan.is_on_twcs else ""
        print_note(f"nothing was deleted: say --yes{allow} if that is meant")


def _document(plan: DeletePlan, *, is_done: bool) -> dict[str, Any]:
    from treering.core.times import render_ts

    precision = plan.spec.precision
    return {
        "table": plan.spec.name,
        "series": list(plan.series),
        "start": render_ts(plan.interval.start, precision),
        "end": render_ts(plan.interval.end, precision),
        "whole_partitions": plan.wholes,
        "part_partitions": plan.ranges,
        "rows_estimate": plan.rows_estimate,
        "on_twcs": plan.is_on_twcs,
        "costs": list(plan.costs),
        "deleted": is_done,
    }
