"""``treering set-retention``: keep readings longer, or not as long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from treering.cli.options import DebugOption, JsonOption, NowOption, StoreOption, TableArgument

if TYPE_CHECKING:
    from treering.core.retention import RetentionPlan


def set_retention(
    table: TableArgument,
    retention: Annotated[
        str, typer.Argument(metavar="RETENTION", help="How long a reading stays, such as 30d.")
    ],
    yes: Annotated[
        bool, typer.Option("--yes", help="Do it; without this, only the plan is shown.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show the plan, whatever else is said.")
    ] = False,
    window: Annotated[
        str | None,
        typer.Option("--window", metavar="LENGTH", help="A window instead of the derived one."),
    ] = None,
    gc_grace: Annotated[
        str | None,
        typer.Option("--gc-grace", metavar="LENGTH", help="A grace instead of the derived one."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Do it although a verdict is an error.")
    ] = False,
    store: StoreOption = None,
    now: NowOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Change how long readings are kept; shows what that does, costs and leaves until --yes.

    Examples:

        treering set-retention readings 30d --store ./plant

        treering set-retention readings 30d --yes --store ./plant
    """
    from treering.cli.options import opened
    from treering.cli.output import print_json, print_note
    from treering.core.retention import render_retention_plan

    is_done = yes and not dry_run
    with opened(store, now=now) as place:
        target = place.table(table)
        if is_done:
            plan = target.set_retention(retention, window=window, gc_grace=gc_grace, force=force)
        else:
            plan = target.plan_retention(retention, window=window, gc_grace=gc_grace)
    if as_json:
        print_json(_document(plan, is_done=is_done))
        return
    print(render_retention_plan(plan))
    if is_done:
        print("done")
    elif plan.steps:
        print_note("nothing was changed: say --yes if that is meant")


def _document(plan: RetentionPlan, *, is_done: bool) -> dict[str, Any]:
    from treering.core.times import render_instant

    return {
        "table": plan.before.name,
        "retention_s": plan.after.retention_s,
        "changes": [{"name": n, "before": old, "after": new} for n, old, new in plan.changes],
        "steps": list(plan.steps),
        "costs": list(plan.costs),
        "unchanged": list(plan.unchanged),
        "complete": render_instant(plan.complete_s),
        "verdicts": [verdict.to_json() for verdict in plan.after.design.verdicts],
        "done": is_done,
    }
