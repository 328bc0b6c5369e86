"""Adopting a table that others made: what its schema and a sample of its rows say it is.

Rules of this file: nothing is guessed from a name; a bucket form counts only where every sampled
row is in the bucket of its time, and what does not fit is named with a row; two forms that fit
alike are not chosen between.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from treering.core.adopt_bucket import Fit, bucket_fits, misfit_text
from treering.core.adopt_notes import notes_of
from treering.core.adopt_values import (
    RATE_DEFAULT_HZ,
    AdoptChoices,
    design_of,
    look_back_s_of,
    retention_s_of,
    value_columns,
)
from treering.core.bucket import BucketWidth
from treering.core.bucket_form import BucketForm
from treering.core.foreign import ForeignColumn, ForeignTable, Sample
from treering.core.layout import (
    SERIES_TYPES,
    BucketColumn,
    KeyColumn,
    KeyType,
    Layout,
    TimeColumn,
    TimeType,
)
from treering.core.schema import check_identifier
from treering.core.table import TableSpec
from treering.core.times import render_ts
from treering.core.units import PER_S, YEAR_S
from treering.core.workload import Workload
from treering.errors import SchemaMismatchError, UsageError

NO_BUCKET: Final = "none"
_PLAUSIBLE_FROM_S: Final = 315_532_800  # 1980-01-01


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptPlan:
    """What adopting a table would do.

    Attributes:
        spec: The table as the catalog would have it.
        left_out: Columns that are not read, each with the reason.
        notes: What follows from the table being others', in sentences.
        sampled_partitions: Partitions whose rows were looked at.
        sampled_rows: Rows whose bucket was checked.
        steps: What would be written, in order.
    """

    spec: TableSpec
    left_out: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    sampled_partitions: int
    sampled_rows: int
    steps: tuple[str, ...] = field(default=())

    @property
    def layout(self) -> Layout:
        """Where series, bucket, time and values stand."""
        return self.spec.layout


def plan_adopt(
    foreign: ForeignTable,
    sample: Sample,
    name: str,
    choices: AdoptChoices,
    *,
    now_s: int,
    keyspace: str,
    server: Mapping[str, Any],
) -> AdoptPlan:
    """Plan the adoption of a table.

    Args:
        foreign: Its schema and options.
        sample: Some of its rows.
        name: What it shall be called in the store.
        choices: What the caller says.
        now_s: The clock, epoch seconds.
        keyspace: The store's keyspace.
        server: Fields of a workload that follow from the server.

    Raises:
        UsageError: The schema does not fit, or more has to be said.
        SchemaMismatchError: A sampled row contradicts what was said; names it.
    """
    time = _time_column(foreign, sample, choices, now_s)
    series, bucket, width, said = _key_of(foreign, sample, choices, time)
    columns, renamed, left_out = value_columns(foreign, choices)
    rate_hz = choices.rate_hz or sample.rate_hz(PER_S[time.unit])
    load = Workload(
        rate_hz=rate_hz or RATE_DEFAULT_HZ,
        columns=columns,
        retention_s=retention_s_of(foreign, choices),
        precision=time.precision,
        **server,
    )
    design = design_of(foreign, load, width, now_s)
    look_back_s = look_back_s_of(choices, design, width)
    spec = TableSpec(
        name=check_identifier(name, "table"),
        design=design,
        finer=choices.finer,
        future_limit_s=choices.future_limit_s,
        index_trusted=False,
        adopted=Layout(
            keyspace=None if foreign.keyspace == keyspace else foreign.keyspace,
            table=foreign.name,
            series=series,
            bucket=bucket,
            time=time,
            renamed=renamed,
            look_back_s=look_back_s,
        ),
    )
    return AdoptPlan(
        spec=spec,
        left_out=left_out,
        notes=(
            *said,
            *notes_of(foreign, spec, sample, is_rate_known=rate_hz is not None),
        ),
        sampled_partitions=len(sample.partitions),
        sampled_rows=sample.row_count,
    )


# Event time


def _time_column(
    foreign: ForeignTable, sample: Sample, choices: AdoptChoices, now_s: int
) -> TimeColumn:
    clustering = foreign.of_kind("clustering")
    names = ", ".join(column.name for column in clustering)
    if not clustering:
        raise UsageError(
            f"the table {foreign.full_name} has no clustering column: each of its partitions is "
            "one row, not a series of readings",
            hint="only tables that cluster by event time can be adopted",
        )
    if len(clustering) > 1:
        raise UsageError(
            f"the table {foreign.full_name} clusters by {names}: its rows are not one an event "
            "time",
            hint="only tables whose one clustering column is the event time can be adopted",
        )
    (column,) = clustering
    if choices.time is not None and choices.time != column.name:
        raise UsageError(
            f"the table {foreign.full_name} clusters by {column.name}, not by {choices.time!r}",
            hint=f"the event time is the clustering column: --time {column.name}",
        )
    if column.type not in set(TimeType):
        raise UsageError(
            f"the clustering column {column.name} has the type {column.type}, which is no time "
            "that treering reads",
            hint=f"it reads {', '.join(TimeType)}",
        )
    kind = TimeType(column.type)
    unit = {TimeType.TIMESTAMP: "ms", TimeType.TIMEUUID: "us"}.get(kind, choices.time_unit)
    if choices.time_unit is not None and choices.time_unit != unit:
        raise UsageError(
            f"the time column {column.name} of type {column.type} counts {unit}, not "
            f"{choices.time_unit}"
        )
    if kind is TimeType.BIGINT:
        unit = _unit_of(column.name, sample, unit, now_s)
    assert unit is not None
    return TimeColumn(name=column.name, type=kind, unit=unit)


def _unit_of(name: str, sample: Sample, stated: str | None, now_s: int) -> str:
    """Return the unit in which the sampled times lie in years that readings come from."""
    ends = sample.time_ends
    if ends is None:
        if stated is None:
            raise UsageError(
                f"the table has no rows that would say what the time column {name} counts",
                hint="say --time-unit s, ms, us or ns",
            )
        return stated
    last_s = now_s + 10 * YEAR_S
    fitting = [
        unit
        for unit, per_s in PER_S.items()
        if _PLAUSIBLE_FROM_S * per_s <= ends[0] and ends[1] <= last_s * per_s
    ]
    if stated is not None and (not fitting or stated in fitting):
        return stated
    if len(fitting) == 1 and stated is None:
        return fitting[0]
    shown = "; ".join(f"in {u} it is {_moment(ends[0], u)}" for u in (*fitting, stated) if u)
    raise SchemaMismatchError(
        f"the time column {name} holds {ends[0]}, which does not say its unit: {shown}"
        if stated is None
        else f"the time column {name} does not count {stated}: {ends[0]} would be "
        f"{_moment(ends[0], stated)}; {shown}",
        hint="say the right --time-unit: s, ms, us or ns",
        found=ends[0],
    )


def _moment(ts: int, unit: str) -> str:
    precision = TimeColumn(name="t", type=TimeType.BIGINT, unit=unit).precision
    return render_ts(ts * precision.per_s // PER_S[unit], precision)


# Series and bucket


def _key_of(
    foreign: ForeignTable, sample: Sample, choices: AdoptChoices, time: TimeColumn
) -> tuple[tuple[KeyColumn, ...], BucketColumn | None, BucketWidth, tuple[str, ...]]:
    keys = foreign.of_kind("partition_key")
    names = [column.name for column in keys]
    bucket_name = _bucket_name(foreign, sample, choices, time)
    series_names = choices.series
    if series_names is None or list(series_names) == [bucket_name]:
        series_names = tuple(name for name in names if name != bucket_name)
    unknown = [name for name in series_names if name not in names]
    uncovered = [name for name in names if name not in {*series_names, bucket_name}]
    if unknown or uncovered:
        raise UsageError(
            f"the partition key of {foreign.full_name} is {', '.join(names)}: "
            + (f"{', '.join(unknown)} is not in it" if unknown else "")
            + (f"{', '.join(uncovered)} is neither series nor bucket" if uncovered else ""),
            hint="name every column of the partition key as --series or --bucket",
        )
    series = tuple(_series_column(foreign.column(name)) for name in series_names)
    if bucket_name is None:
        # Without a bucket the partition is the series; a read goes through it in months.
        return series, None, BucketWidth.MONTH, _unbucketed(foreign, sample, series, time)
    column = foreign.column(bucket_name)
    fit = _fit_of(column, foreign, sample, choices, series, time)
    bucket = BucketColumn(name=column.name, type=KeyType(column.type), form=fit.form)
    return series, bucket, fit.width, ()


def _bucket_name(
    foreign: ForeignTable, sample: Sample, choices: AdoptChoices, time: TimeColumn
) -> str | None:
    """Return the bucket's column: stated, or the one whose every sampled value fits."""
    if choices.bucket == NO_BUCKET:
        return None
    keys = foreign.of_kind("partition_key")
    if choices.bucket is not None:
        if choices.bucket not in [column.name for column in keys]:
            raise UsageError(
                f"the bucket column {choices.bucket!r} is not in the partition key of "
                f"{foreign.full_name}: {', '.join(column.name for column in keys)}",
                hint="name a column of the partition key, or none",
            )
        return choices.bucket
    stated = choices.series or ()
    open_ones = [column for column in keys if column.name not in stated] or (
        [keys[0]] if len(keys) == 1 else []
    )
    if not open_ones:
        return None
    if len(open_ones) == 1 and len(keys) > 1 and stated:
        return open_ones[0].name
    if not sample.row_count:
        raise UsageError(
            f"the table {foreign.full_name} has no rows that would say which column of its key "
            "is the bucket",
            hint="say --bucket, --bucket-form and --width, or --bucket none",
        )
    found = []
    for column in open_ones:
        series = tuple(KeyColumn(c.name, KeyType.TEXT) for c in keys if c.name != column.name)
        if any(fit.is_exact for fit in bucket_fits(column, foreign, sample, series, time)):
            found.append(column.name)
    if len(found) > 1:
        raise UsageError(
            f"{' and '.join(found)} of {foreign.full_name} could both be the bucket",
            hint="say --bucket",
        )
    if not found and len(keys) > 1:
        shown = [column.name for column in open_ones]
        raise SchemaMismatchError(
            f"no column of the partition key of {foreign.full_name} is a bucket of the event "
            f"time in all {sample.row_count} sampled rows: {', '.join(shown)}",
            hint="say --bucket with the column to see which row contradicts, or --bucket none",
        )
    return found[0] if found else None


def _series_column(column: ForeignColumn) -> KeyColumn:
    if column.type not in set(map(str, SERIES_TYPES)):
        raise UsageError(
            f"the series column {column.name} has the type {column.type}",
            hint=f"a series is of {', '.join(SERIES_TYPES)}",
        )
    return KeyColumn(column.name, KeyType(column.type))


def _fit_of(
    column: ForeignColumn,
    foreign: ForeignTable,
    sample: Sample,
    choices: AdoptChoices,
    series: tuple[KeyColumn, ...],
    time: TimeColumn,
) -> Fit:
    form = None if choices.form is None else BucketForm.from_text(choices.form)
    if form is not None and choices.width is not None:
        form.check_width(choices.width)
    fits = bucket_fits(column, foreign, sample, series, time, form=form, width=choices.width)
    if not sample.row_count:
        if form is None or choices.width is None:
            raise UsageError(
                f"the table {foreign.full_name} has no rows that would say what stands in "
                f"{column.name}",
                hint="say --bucket-form, such as {bucket}, date or epoch-ms, and --width",
            )
        return Fit(form=form, width=choices.width, misfits=())
    exact = [fit for fit in fits if fit.is_exact]
    if not exact:
        raise _no_fit(column, foreign, sample, fits, time)
    widths = sorted({fit.width for fit in exact}, key=list(BucketWidth).index)
    if len(widths) > 1:
        raise UsageError(
            f"the {sample.row_count} sampled rows of {foreign.full_name} fit buckets of the "
            f"widths {', '.join(widths)} alike",
            hint="say --width",
            widths=tuple(map(str, widths)),
        )
    return exact[0]


def _no_fit(
    column: ForeignColumn,
    foreign: ForeignTable,
    sample: Sample,
    fits: tuple[Fit, ...],
    time: TimeColumn,
) -> SchemaMismatchError:
    best = min(fits, key=lambda fit: len(fit.misfits), default=None)
    what = f"{column.name} of {foreign.full_name}"
    hint = "say another --bucket-form or --width; buckets are cut in UTC"
    if best is None:
        return SchemaMismatchError(
            f"no bucket form that treering knows is that of {what}: it holds "
            f"{sample.partitions[0].shown(foreign, column.name)}, type {column.type}",
            hint="say --bucket-form, such as {series}:{bucket}, %Y%m%d, date or epoch-ms",
        )
    shown = "; ".join(misfit_text(misfit, time) for misfit in best.misfits[:3])
    return SchemaMismatchError(
        f"{what} is not the {best.width} of the event time as {best.form.text!r} in "
        f"{len(best.misfits)} of {sample.row_count} sampled rows: {shown}",
        hint=hint,
        misfits=tuple(misfit_text(misfit, time) for misfit in best.misfits),
    )


def _unbucketed(
    foreign: ForeignTable, sample: Sample, series: tuple[KeyColumn, ...], time: TimeColumn
) -> tuple[str, ...]:
    notes = [
        "Without a bucket a partition holds a whole series and grows for as long as it is written."
    ]
    for column in series:
        others = tuple(other for other in series if other != column)
        known = bucket_fits(foreign.column(column.name), foreign, sample, others, time)
        exact = next((fit for fit in known if fit.is_exact), None)
        if exact is not None and others:
            notes.append(
                f"{column.name} looks like a bucket ({exact.width}, {exact.form.text}), and is "
                f"taken as a part of the series id: say --bucket {column.name} if it is one."
            )
    return tuple(notes)
