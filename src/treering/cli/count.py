"""``treering count``: how many readings there are, exactly."""

from __future__ import annotations

from treering.cli.options import (
    ChosenSeriesArgument,
    DebugOption,
    EndOption,
    FanOutOption,
    JsonOption,
    NowOption,
    PrefixOption,
    SeriesMaxOption,
    StartOption,
    StoreOption,
    TableArgument,
    TagOption,
    UnitOption,
)


def count(
    table: TableArgument,
    start: StartOption,
    series: ChosenSeriesArgument = None,
    prefix: PrefixOption = None,
    tag: TagOption = None,
    series_max: SeriesMaxOption = None,
    end: EndOption = None,
    time_unit: UnitOption = None,
    fan_out_max: FanOutOption = None,
    store: StoreOption = None,
    now: NowOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Count the readings of an interval, [start, end), partition by partition.

    Examples:

        treering count readings pump-7 --start -30d --store ./plant
    """
    from treering.cli.options import (
        chosen_series,
        opened,
        parse_bound_text,
        parse_moment_text,
        stated,
    )
    from treering.cli.output import print_json

    with opened(store, now=now) as place:
        target = place.table(table)
        rows = target.count(
            chosen_series(target, series, prefix=prefix, tag=tag, series_max=series_max),
            parse_moment_text(start, time_unit),
            parse_bound_text(end, time_unit),
            unit=time_unit,
            **stated(fan_out_max=fan_out_max),
        )
    if as_json:
        print_json({"table": table, "series": rows, "total": sum(rows.values())})
        return
    for name, readings in rows.items():
        print(f"{name} {readings}")
