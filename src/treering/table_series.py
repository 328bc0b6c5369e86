"""The verbs of a table that concern its series: adding, finding, tags and widths."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Final

from treering.core.bucket import FAN_OUT_MAX, BucketWidth
from treering.core.design import width_for_rate
from treering.core.schema import check_series
from treering.core.series import SeriesRecord, check_same_series, check_tags, render_tags
from treering.core.similar import hints_for_series
from treering.core.units import parse_rate_hz
from treering.core.widths import WidthSince
from treering.errors import FanOutTooWideError, SeriesNotFoundError, UsageError

if TYPE_CHECKING:
    from treering.core.table import TableSpec
    from treering.leases import SeriesLease
    from treering.table_context import TableContext

SERIES_MAX: Final = 1_000
"""The most series that a search by prefix and tags returns unless the caller says otherwise."""


class SeriesVerbs:
    """What a table does with its series; a part of :class:`~treering.Table`."""

    _spec: TableSpec
    _context: TableContext
    _lease: SeriesLease

    def add_series(
        self,
        name: str,
        *,
        rate: str | float | None = None,
        bucket: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> SeriesRecord:
        """Enter a series before its first reading, with tags and a bucket width of its own.

        A series that is only written needs no such call. The same call again is fine.

        Args:
            name: The series id.
            rate: How many readings it has, such as ``10/s``: its width follows by the arithmetic
                of the table's design.
            bucket: Its width by name, instead of by a rate.
            tags: What describes it, text to text: 16 at most.

        Returns:
            What the catalog has of the series.

        Raises:
            UsageError: It is there with other tags or another width.
            DesignError: No partition at that rate stays under the ceiling.

        Cost:
            One or two conditional writes.
        """
        return self.add_many_series([self.plan_series(name, rate=rate, bucket=bucket, tags=tags)])[
            0
        ]

    def plan_series(
        self,
        name: str,
        *,
        rate: str | float | None = None,
        bucket: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> SeriesRecord:
        """Return what :meth:`add_series` would enter, without entering it."""
        if rate is not None and bucket is not None:
            raise UsageError("a series was given both a rate and a bucket", hint="leave one out")
        width = self._spec.width
        if rate is not None:
            width = width_for_rate(self._spec.design, parse_rate_hz(rate))
        elif bucket is not None:
            width = BucketWidth.from_text(bucket)
        is_own = width is not self._spec.width
        if is_own:
            self._check_widths_are_ours()
        widths = (WidthSince(width=width, since_s=None),) if is_own else ()
        return SeriesRecord(name=check_series(name), tags=check_tags(tags), widths=widths)

    def _check_widths_are_ours(self) -> None:
        if self._spec.is_adopted:
            raise UsageError(
                f"others write to {self._spec.name!r} too, all in buckets of one "
                f"{self._spec.width}: no series of it can have another width",
                hint="move its readings to a table of treering's own",
            )

    def add_many_series(self, series: Iterable[SeriesRecord]) -> tuple[SeriesRecord, ...]:
        """Enter many series at once; each is a record of :meth:`plan_series`.

        Raises:
            UsageError: One is there with other tags or another width; the others are entered.
        """
        wanted = tuple(series)
        there = self._lease.enter(wanted, self._now_ts())
        there_by_name = {record.name: record for record in there}
        return tuple(check_same_series(there_by_name[one.name], one) for one in wanted)

    def series_record(self, name: str) -> SeriesRecord:
        """Return what the catalog has of a series: its tags, and its widths over time.

        Raises:
            SeriesNotFoundError: The table has no such series.
        """
        found = self._context.engine.load_series(
            self._spec, (check_series(name),), lease_s=self._lease.terms.length_s
        )
        if name not in found:
            raise self._not_found(name)
        return found[name]

    def set_tags(self, name: str, tags: Mapping[str, str]) -> SeriesRecord:
        """Replace the tags of a series.

        Raises:
            SeriesNotFoundError: The table has no such series.
        """
        self._lease.check_durable()
        return self._context.engine.set_tags(self._spec, check_series(name), check_tags(tags))

    def set_bucket(self, name: str, bucket: str) -> SeriesRecord:
        """Change the bucket width of a series from a date on; what is there stays where it is.

        The date is the next boundary of the narrower width after now, the table's future limit
        and two leases of a minute, so that every client knows of it in time. Reads see both
        layouts, without a gap and without a duplicate.

        Args:
            name: The series id.
            bucket: The width wanted.

        Returns:
            The series with its widths over time; the last one says from when on.

        Raises:
            SeriesNotFoundError: The table has no such series.
            WidthError: No such width, or another change is pending.
            EngineTimeoutError: The outcome is unknown; doing it again is safe.
        """
        self._check_widths_are_ours()
        self._lease.check_durable()
        record = self._context.engine.set_width(
            self._spec,
            check_series(name),
            BucketWidth.from_text(bucket),
            now_s=self._context.clock() / 1_000_000_000,
            lease_s=self._lease.terms.length_s,
        )
        self._lease.forget()
        return record

    def series(self, prefix: str = "", tags: Mapping[str, str] | None = None) -> Iterator[str]:
        """Yield the ids of all series that start with ``prefix`` and have ``tags``, sorted.

        Args:
            prefix: How the ids start.
            tags: Tags that a series must have all, such as ``{"site": "north"}``.

        Cost:
            Reads the list of series as it is consumed; with tags only the entries of the rarest
            of them.
        """
        return self._context.engine.series(self._spec, prefix=prefix, tags=check_tags(tags))

    def find_series(
        self,
        prefix: str = "",
        tags: Mapping[str, str] | None = None,
        *,
        series_max: int = SERIES_MAX,
    ) -> tuple[str, ...]:
        """Return what :meth:`series` yields, all at once and never more than a bound.

        Args:
            prefix: How the ids start.
            tags: Tags that a series must have all, such as ``{"site": "north"}``.
            series_max: The most series; where there are more, none is returned.

        Raises:
            FanOutTooWideError: More than ``series_max`` series are so.

        Cost:
            As :meth:`series`, up to one more than ``series_max``.
        """
        if isinstance(series_max, bool) or not isinstance(series_max, int) or series_max < 1:
            raise UsageError(
                f"a bound of series is a whole number of at least 1, not {series_max!r}",
                hint="leave series_max out for the usual bound",
            )
        names = tuple(islice(self.series(prefix, tags), series_max + 1))
        if len(names) > series_max:
            raise FanOutTooWideError(
                f"more than {series_max:,} series of {self._spec.name!r}"
                f"{render_choice(prefix, tags) or ' are there'}",
                hint="choose fewer by a longer prefix or more tags, or raise series_max",
                cli_hint="choose fewer by a longer --prefix or more --tag, or raise --series-max",
                series_max=series_max,
            )
        return names

    def _now_ts(self) -> int:
        raise NotImplementedError

    def _not_found(self, name: str) -> SeriesNotFoundError:
        return SeriesNotFoundError(
            f"the table {self._spec.name!r} has no series {name!r}",
            **hints_for_series(name, self._spec.name, lambda prefix: self.series(prefix=prefix)),
            series=name,
        )


def render_choice(prefix: str, tags: Mapping[str, str] | None) -> str:
    """Return how series were chosen, for the end of a sentence; empty where all were."""
    said = [f"start with {prefix!r}"] if prefix else []
    said += [f"have {render_tags(tags)}"] if tags else []
    return f" {' and '.join(said)}" if said else ""


def series_names(series: str | Iterable[str], *, fan_out_max: int | None = None) -> tuple[str, ...]:
    """Return the ids of a read, each once.

    Args:
        series: What was asked for.
        fan_out_max: The most partitions of the read, where the caller may state that.

    Raises:
        UsageError: None, or not ids.
        FanOutTooWideError: More than that, or 10,000; no more than that are looked at.
    """
    if not isinstance(series, str) and not isinstance(series, Iterable):
        raise UsageError(
            f"a series id is text, not {series!r}", hint="pass one id, or a list of ids"
        )
    series_max = FAN_OUT_MAX if fan_out_max is None else fan_out_max
    more = "" if fan_out_max is None else ", or raise fan_out_max"
    names: dict[str, None] = {}
    for name in (series,) if isinstance(series, str) else series:
        names[check_series(name)] = None
        if len(names) > series_max:
            raise FanOutTooWideError(
                f"the read is of more than {series_max:,} series, and each is a partition at least",
                hint=f"read fewer series at once{more}",
                cli_hint=f"read fewer series at once{more.replace('fan_out_max', '--fan-out-max')}",
            )
    if not names:
        raise UsageError(
            "a read needs at least one series", hint="no series has such an id, prefix or tags"
        )
    return tuple(names)
