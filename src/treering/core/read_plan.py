"""Which partitions a read touches, decided before anything is sent.

Rules of this file: every instant is read from exactly one partition, whatever widths a series
has had; everything is clipped to the retention; a plan over its limits is refused by arithmetic,
before memory is used for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from treering.core.bucket import FAN_OUT_MAX, Bucket, fan_out_error
from treering.core.schema import Column
from treering.core.table import TableSpec
from treering.core.times import render_ts
from treering.core.units import Interval
from treering.core.widths import BucketSlice, History, count_slices, slices_between
from treering.errors import FanOutTooWideError, UsageError

Order = Literal["asc", "desc"]

ROWS_MAX: Final = 200_000_000
"""The most readings, by the design's rate, that one read may be expected to return."""

# What a reading takes in memory beside its values: the event time.
_TIME_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class PartitionRead:
    """The part of one partition that a read wants.

    Attributes:
        series: The series id.
        bucket: The bucket of the partition.
        start: First event time wanted, in ticks of the table's precision.
        end: First event time not wanted.
    """

    series: str
    bucket: Bucket
    start: int
    end: int

    @property
    def name(self) -> str:
        """The partition as people say it: ``pump-7/2025-11-20``."""
        return f"{self.series}/{self.bucket.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPlan:
    """A read, planned: what it touches, in the order in which results are wanted.

    Attributes:
        spec: The table.
        series: The series wanted, in order, each once.
        interval: The event time wanted, after clipping to the retention.
        asked: The event time asked for.
        order: ``asc`` or ``desc`` by event time within each series.
        limit: The most readings a series; None for all.
        columns: The columns wanted.
        reads: Every partition read; series by series, each in ``order``.
        rows_estimate: Readings expected by the design's rate.
        bytes_estimate: Bytes that the result is expected to take in memory.
        unlisted: How many partitions were left out because the index of buckets does not list
            them; None where it was not asked.
        widths: The widths of the series that do not simply have the table's.
    """

    spec: TableSpec
    series: tuple[str, ...]
    interval: Interval
    asked: Interval
    order: Order
    limit: int | None
    columns: tuple[Column, ...]
    reads: tuple[PartitionRead, ...]
    rows_estimate: int
    bytes_estimate: int
    unlisted: int | None = None
    widths: Mapping[str, History] = field(default_factory=dict)

    @property
    def fan_out(self) -> int:
        """How many partitions this read may touch."""
        return len(self.reads)

    def overlap(self, part: PartitionRead) -> Iterator[PartitionRead]:
        """Yield what a stretch of one series is in the partitions of this plan."""
        for read in self.reads:
            start, end = max(read.start, part.start), min(read.end, part.end)
            if read.series == part.series and start < end:
                yield replace(read, start=start, end=end)

    @property
    def is_clipped(self) -> bool:
        """Whether the retention cut off a part of what was asked for."""
        return self.interval != self.asked

    @property
    def is_all_expired(self) -> bool:
        """Whether all of what was asked for is older than the retention."""
        return self.interval.is_empty and self.asked.end > self.asked.start


def plan_read(
    spec: TableSpec,
    series: Sequence[str],
    interval: Interval,
    *,
    now_ts: int,
    order: Order = "asc",
    limit: int | None = None,
    columns: Sequence[str] | None = None,
    fan_out_max: int = FAN_OUT_MAX,
    rows_max: int = ROWS_MAX,
    widths: Mapping[str, History] | None = None,
) -> ReadPlan:
    """Plan a read of an interval of one or several series.

    Args:
        spec: The table.
        series: Series ids; one that stands twice is read once.
        interval: Event time in the table's precision.
        now_ts: The present, in the table's precision; what is older than the retention then is
            not read.
        order: By event time within each series.
        limit: The most readings a series.
        columns: Names of the columns wanted; all where None.
        fan_out_max: The most partitions, over all series.
        rows_max: The most readings expected, where there is no limit.
        widths: The widths of the series that do not simply have the table's.

    Raises:
        UsageError: A reversed interval, an unknown column or order, a limit below one, a series id
            that the table cannot have.
        FanOutTooWideError: Too many partitions or readings; says what would fit.
    """
    _check_request(interval, order, limit, spec)
    chosen = spec.selected(columns)
    clipped = interval.clipped(spec.oldest_ts(now_ts), spec.precision.ts_end)
    names = tuple(dict.fromkeys(series))
    for name in names:
        spec.layout.values_of(name)
    own = {name: widths[name] for name in names if widths and widths.get(name)}
    count = count_slices(clipped, (), spec.width) * (len(names) - len(own))
    count += sum(count_slices(clipped, history, spec.width) for history in own.values())
    if count > fan_out_max:
        raise fan_out_error(clipped, spec.width, count, fan_out_max, series_count=len(names))
    rows = _estimate_rows(spec, clipped, len(names), limit)
    if rows > rows_max:
        raise FanOutTooWideError(
            f"the read is expected to return {rows:,} readings, more than {rows_max:,}",
            hint="read a shorter interval, set a limit, or raise rows_max",
            cli_hint="read a shorter interval, set a --limit, or raise --rows-max",
            rows_estimate=rows,
        )
    shared = tuple(slices_between(clipped, (), spec.width)) if len(own) < len(names) else ()
    reads = tuple(
        PartitionRead(name, part.bucket, part.start, part.end)
        for name in names
        for part in _ordered(
            tuple(slices_between(clipped, own[name], spec.width)) if name in own else shared,
            order,
        )
    )
    row_bytes = _TIME_BYTES + sum(column.type.dtype.itemsize for column in chosen)
    return ReadPlan(
        spec=spec,
        series=names,
        interval=clipped,
        asked=interval,
        order=order,
        limit=limit,
        columns=chosen,
        reads=reads,
        rows_estimate=rows,
        bytes_estimate=rows * row_bytes,
        widths=own,
    )


def _check_request(interval: Interval, order: str, limit: int | None, spec: TableSpec) -> None:
    if interval.precision is not spec.precision:
        raise UsageError(
            f"an interval in {interval.precision} was asked of a table in {spec.precision}"
        )
    if interval.end < interval.start:
        raise UsageError(
            f"the interval is reversed: it starts {render_ts(interval.start, spec.precision)} "
            f"and ends {render_ts(interval.end, spec.precision)}",
            hint="give the earlier time first; the order of results is order='desc'",
            cli_hint="give the earlier time to --start; the order of results is --order desc",
        )
    if order not in ("asc", "desc"):
        raise UsageError(f"order={order!r} is not known", hint="use 'asc' or 'desc'")
    if limit is not None and (type(limit) is not int or limit < 1):
        raise UsageError(
            f"a limit is a whole number of at least 1, not {limit!r}",
            hint="leave the limit out to read all",
        )


def _estimate_rows(spec: TableSpec, interval: Interval, series: int, limit: int | None) -> int:
    rows = int(interval.length_s * spec.design.workload.rate_hz + 0.999999)
    if limit is not None:
        rows = min(rows, limit)
    return rows * series


def _ordered(slices: tuple[BucketSlice, ...], order: Order) -> tuple[BucketSlice, ...]:
    return slices if order == "asc" else slices[::-1]
