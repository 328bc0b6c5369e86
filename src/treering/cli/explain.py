"""``treering explain``: the plan of a read, without reading."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from treering.cli.options import (
    ChosenSeriesArgument,
    ColumnsOption,
    DebugOption,
    EndOption,
    FanOutOption,
    JsonOption,
    LimitOption,
    ListedOption,
    NowOption,
    OrderOption,
    PrefixOption,
    RowsOption,
    SeriesMaxOption,
    StartOption,
    StoreOption,
    TableArgument,
    TagOption,
    UnitOption,
)

if TYPE_CHECKING:
    from treering.core.read_plan import ReadPlan


def explain(
    table: TableArgument,
    start: StartOption,
    series: ChosenSeriesArgument = None,
    prefix: PrefixOption = None,
    tag: TagOption = None,
    series_max: SeriesMaxOption = None,
    end: EndOption = None,
    order: OrderOption = "asc",
    limit: LimitOption = None,
    column: ColumnsOption = None,
    time_unit: UnitOption = None,
    fan_out_max: FanOutOption = None,
    rows_max: RowsOption = None,
    listed: ListedOption = False,
    store: StoreOption = None,
    now: NowOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show what a read would touch: partitions, readings and bytes expected.

    Examples:

        treering explain readings pump-7 --start -90d --store ./plant
    """
    from treering.cli.options import (
        chosen_series,
        opened,
        parse_bound_text,
        parse_moment_text,
        stated,
    )
    from treering.cli.output import print_json
    from treering.core.render_plan import render_read_plan

    with opened(store, now=now) as place:
        target = place.table(table)
        plan = target.explain(
            chosen_series(target, series, prefix=prefix, tag=tag, series_max=series_max),
            parse_moment_text(start, time_unit),
            parse_bound_text(end, time_unit),
            order=order,  # type: ignore[arg-type]  # checked by the plan
            limit=limit,
            columns=column,
            unit=time_unit,
            listed=listed,
            **stated(fan_out_max=fan_out_max, rows_max=rows_max),
        )
    if as_json:
        print_json(_document(plan))
    else:
        print(render_read_plan(plan))


def _document(plan: ReadPlan) -> dict[str, Any]:
    from treering.core.times import render_ts

    precision = plan.spec.precision
    return {
        "table": plan.spec.name,
        "series": list(plan.series),
        "start": render_ts(plan.interval.start, precision),
        "end": render_ts(plan.interval.end, precision),
        "clipped": plan.is_clipped,
        "order": plan.order,
        "limit": plan.limit,
        "columns": [column.name for column in plan.columns],
        "bucket": plan.spec.width.value,
        "unlisted": plan.unlisted,
        "rows_estimate": plan.rows_estimate,
        "bytes_estimate": plan.bytes_estimate,
        "partitions": [
            {
                "name": read.name,
                "start": render_ts(read.start, precision),
                "end": render_ts(read.end, precision),
            }
            for read in plan.reads
        ],
    }
