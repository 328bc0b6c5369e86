"""Which bucket form and width the rows of a table fit, and which rows contradict.

Rules of this file: a form fits only if it gives back the key of every sampled row from the row's
event time; candidates are tried from narrow to wide, and all that fit are returned.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from treering.core.bucket import Bucket, BucketWidth, bucket_of
from treering.core.bucket_form import BUCKET_MARK, SERIES_MARK, BucketForm, FormKind, render_pattern
from treering.core.foreign import ForeignColumn, ForeignTable, Sample, SampledPartition
from treering.core.layout import BucketColumn, KeyColumn, KeyType, KeyValue, Layout, TimeColumn
from treering.core.times import render_ts
from treering.errors import UsageError, WidthError

# Forms that tables in the field have, beside the widths' own texts.
_TEXTS: Final = (
    BUCKET_MARK,
    "%Y-%m-%dT%H:%M",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%d-%H-%M",
    "%Y%m%d%H%M",
    "%Y-%m-%dT%H",
    "%Y-%m-%d %H",
    "%Y-%m-%d-%H",
    "%Y-%m-%dT%H:00",
    "%Y-%m-%d %H:00",
    "%Y%m%d%H",
    "%Y%m%dT%H",
    "%Y-%m-%d",
    "%Y/%m/%d",
    "%Y%m%d",
    "%G-W%V",
    "%GW%V",
    "%G-%V",
    "%Y-%m",
    "%Y/%m",
    "%Y%m",
)
_NUMBERS: Final = ("%Y%m%d%H%M", "%Y%m%d%H", "%Y%m%d", "%G%V", "%Y%m")
_UNITS: Final = ("ms", "s", "us", "ns", "min", "h", "d")
_SEPARATORS: Final = ":_-#|/. "


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """A sampled row that is not in the bucket of its time."""

    series: str
    ts: int
    found: KeyValue | None
    expected: KeyValue | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A form and a width, with the rows that contradict them."""

    form: BucketForm
    width: BucketWidth
    misfits: tuple[Misfit, ...]

    @property
    def is_exact(self) -> bool:
        """Whether every row fits."""
        return not self.misfits


def bucket_fits(
    column: ForeignColumn,
    foreign: ForeignTable,
    sample: Sample,
    series: tuple[KeyColumn, ...],
    time: TimeColumn,
    *,
    form: BucketForm | None = None,
    width: BucketWidth | None = None,
) -> tuple[Fit, ...]:
    """Return every form and width that could be that of a column, with its misfits.

    Args:
        column: The column.
        foreign: The table.
        sample: Its rows.
        series: The columns of the series; none where the column's text has it.
        time: The event time.
        form: The form to check; all that the column's type can hold where None.
        width: The width to check; all that the form tells apart where None.

    Raises:
        UsageError: The column's type cannot hold the form that was stated.
    """
    if column.type not in set(KeyType):
        if form is None:
            return ()
        raise UsageError(f"the bucket column {column.name} has the type {column.type}")
    kind = KeyType(column.type)
    fits = []
    for candidate_width in [width] if width is not None else BucketWidth:
        forms = (
            [form]
            if form is not None
            else _candidates(column, kind, candidate_width, foreign, sample, series, time)
        )
        for candidate in forms:
            if candidate.tells_apart(candidate_width):
                bucket = BucketColumn(name=column.name, type=kind, form=candidate)
                fits.append(_checked(bucket, candidate_width, foreign, sample, series, time))
    return tuple(fit for fit in fits if fit is not None)


def _checked(
    bucket: BucketColumn,
    width: BucketWidth,
    foreign: ForeignTable,
    sample: Sample,
    series: tuple[KeyColumn, ...],
    time: TimeColumn,
) -> Fit | None:
    if not series and not bucket.form.has_series:
        return None
    layout = Layout(keyspace=None, table=foreign.name, series=series, bucket=bucket, time=time)
    misfits = []
    for partition in sample.partitions:
        key = _ordered(partition, foreign, layout)
        name = layout.series_of(key, width)
        for ts in partition.times:
            where = _bucket_at(ts, width, time)
            wanted = None if name is None or where is None else bucket.value_of(where, name)
            if wanted is None or wanted != key[-1]:
                shown = str(key[0]) if name is None else name
                misfits.append(Misfit(series=shown, ts=ts, found=key[-1], expected=wanted))
    return Fit(form=bucket.form, width=width, misfits=tuple(misfits))


def _ordered(
    partition: SampledPartition, foreign: ForeignTable, layout: Layout
) -> tuple[KeyValue, ...]:
    """Return the key's values in the layout's order."""
    names = [column.name for column in foreign.of_kind("partition_key")]
    values = dict(zip(names, partition.key, strict=True))
    found = (values[column.name] for column in layout.key_columns)
    return tuple("" if value is None else value for value in found)


def _bucket_at(ts: int, width: BucketWidth, time: TimeColumn) -> Bucket | None:
    try:
        return bucket_of(ts * time.step, width, time.precision)
    except WidthError:
        return None


def _candidates(
    column: ForeignColumn,
    kind: KeyType,
    width: BucketWidth,
    foreign: ForeignTable,
    sample: Sample,
    series: tuple[KeyColumn, ...],
    time: TimeColumn,
) -> Iterator[BucketForm]:
    match kind:
        case KeyType.TEXT:
            yield from _text_forms(column, width, foreign, sample, series, time)
        case KeyType.DATE:
            yield BucketForm(kind=FormKind.DATE)
        case KeyType.TIMESTAMP:
            yield BucketForm(kind=FormKind.EPOCH, unit="ms")
        case KeyType.INT | KeyType.BIGINT:
            for unit in _UNITS:
                yield BucketForm(kind=FormKind.EPOCH, unit=unit)
            for pattern in _NUMBERS:
                yield BucketForm(kind=FormKind.TEXT, pattern=pattern)
        case KeyType.UUID | KeyType.TIMEUUID:
            return


def _text_forms(
    column: ForeignColumn,
    width: BucketWidth,
    foreign: ForeignTable,
    sample: Sample,
    series: tuple[KeyColumn, ...],
    time: TimeColumn,
) -> Iterator[BucketForm]:
    """Yield the patterns by which the text of the first partition could hold its bucket.

    Asked is a row amid it: those at its ends may lie in another day, of another zone.
    """
    first = next((p for p in sample.partitions if p.times), None)
    if first is None:
        return
    names = [key.name for key in foreign.of_kind("partition_key")]
    value = str(first.key[names.index(column.name)])
    where = _bucket_at(first.times[len(first.times) // 2], width, time)
    known = None
    if series:
        layout = Layout(keyspace=None, table=foreign.name, series=series, bucket=None, time=time)
        known = layout.series_of(_ordered(first, foreign, layout), width)
    seen = set()
    for pattern in _TEXTS:
        if where is None:
            return
        text = render_pattern(pattern, where.start_s, width)
        before, found, after = value.rpartition(text)
        if not found:
            continue
        whole = _around(before, known) + pattern + _around(after, known)
        marks = whole.count(SERIES_MARK)
        if whole not in seen and (marks == 1 or (series and not marks)):
            seen.add(whole)
            yield BucketForm(kind=FormKind.TEXT, pattern=whole)


def _around(text: str, series: str | None) -> str:
    """Return what stands beside a bucket as a pattern: the series and its separator, or itself."""
    if series is not None:
        before, found, after = text.partition(series)
        return _literal(before) + (SERIES_MARK if found else "") + _literal(after)
    if not text:
        return ""
    core = text.strip(_SEPARATORS)
    before, _, after = text.partition(core)
    if not core:
        return _literal(text)
    return _literal(before) + SERIES_MARK + _literal(after)


def _literal(text: str) -> str:
    return text.replace("%", "%%")


def misfit_text(misfit: Misfit, time: TimeColumn) -> str:
    """Return a row that contradicts, for people."""
    when = render_ts(misfit.ts * time.step, time.precision)
    should = "has no bucket" if misfit.expected is None else f"belongs in {misfit.expected!r}"
    return f"the row of {misfit.series} at {when} is in {misfit.found!r} and {should}"
