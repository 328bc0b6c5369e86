"""What a table is to the store: a design with a name and the choices a store needs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, cast

from treering.core.bucket import BucketWidth
from treering.core.design import Design
from treering.core.layout import Layout, own_layout
from treering.core.schema import Column, check_identifier
from treering.core.units import Precision, parse_duration_s, render_duration
from treering.errors import SchemaMismatchError, UsageError

CATALOG_FORMAT: Final = 2
"""The catalog format that this release writes; a newer one is refused, never guessed at.

Format 2 marks the buckets that exist: a release that writes without marks must not write there.
"""

CATALOG_PREFIX: Final = "treering_"
"""How the catalog's own tables are named; no table of readings is."""

FUTURE_LIMIT: Final = "10m"
FUTURE_LIMIT_S: Final = 600

Finer = Literal["floor", "refuse"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSpec:
    """A table: its design, and how it treats input.

    Attributes:
        name: Identifier of the table.
        design: The decision that the table was made from.
        finer: What becomes of times finer than the precision: floored and counted, or refused.
        future_limit_s: How far ahead of now a reading may be.
        incarnation: Counts the tables of this name that there have been; part of the table's id.
        index_trusted: Whether every bucket that holds an acknowledged reading is listed, so that
            others need not be read: only where treering alone writes, from the table's start.
        segment_s: Length of the embedded engine's files where it no longer follows from the window,
            because the retention was changed; seconds.
        adopted: Where readings stand in a table that treering did not make; None for its own.
    """

    name: str
    design: Design
    finer: Finer = "floor"
    future_limit_s: int = FUTURE_LIMIT_S
    incarnation: int = 0
    index_trusted: bool = True
    segment_s: int | None = None
    adopted: Layout | None = None

    def __post_init__(self) -> None:
        check_identifier(self.name, "table")
        if self.name.startswith(CATALOG_PREFIX):
            raise UsageError(
                f"the table name {self.name!r} starts as the catalog's own do",
                hint=f"choose a name that does not start with {CATALOG_PREFIX}",
            )
        if self.finer not in ("floor", "refuse"):
            raise UsageError(f"finer={self.finer!r} is not known", hint="use 'floor' or 'refuse'")
        if self.future_limit_s < 0:
            raise UsageError(f"the future limit cannot be negative: {self.future_limit_s} s")
        self._check_layout()

    def _check_layout(self) -> None:
        layout = self.layout
        if self.is_adopted and self.index_trusted:
            raise UsageError(f"others write to {self.name!r}: its list of buckets cannot be whole")
        if layout.time.precision is not self.precision:
            raise UsageError(
                f"the time column of {self.name!r} counts {layout.time.unit}, which is not the "
                f"precision {self.precision}"
            )
        if layout.bucket is not None:
            layout.bucket.form.check_width(self.width)

    @property
    def layout(self) -> Layout:
        """Where readings stand in the table on the server."""
        return self.adopted or own_layout(self.name, self.precision)

    @property
    def is_adopted(self) -> bool:
        """Whether others made the table, and may write to it: what is listed is not all."""
        return self.adopted is not None

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of values."""
        return self.design.workload.columns

    @property
    def precision(self) -> Precision:
        """The precision of event time."""
        return self.design.workload.precision

    @property
    def width(self) -> BucketWidth:
        """How every series of this table cuts time."""
        return self.design.bucket

    @property
    def retention_s(self) -> int | None:
        """How long a reading stays readable after its event time; None is for ever."""
        return self.design.workload.retention_s

    @property
    def default_ttl_s(self) -> int | None:
        """The table's ``default_time_to_live``; None where readings never expire."""
        return self.design.ttl_s

    @property
    def window_s(self) -> int | None:
        """The length of a TWCS window; None where nothing expires."""
        return None if self.design.window is None else self.design.window.length_s

    def column(self, name: str) -> Column:
        """Return the column of that name.

        Raises:
            UsageError: The table has no such column.
        """
        for column in self.columns:
            if column.name == name:
                return column
        raise UsageError(
            f"the table {self.name!r} has no column {name!r}",
            hint=f"its columns are {', '.join(column.name for column in self.columns)}",
        )

    def selected(self, names: Sequence[str] | None) -> tuple[Column, ...]:
        """Return the columns of those names, in that order; all where None."""
        if names is None:
            return self.columns
        if not names or isinstance(names, str):
            raise UsageError(
                f"a read needs at least one column, not {names!r}",
                hint="pass a list of names, such as ['value']",
            )
        return tuple(self.column(name) for name in dict.fromkeys(names))

    def oldest_ts(self, now_ts: int) -> int:
        """Return the first event time that is still inside the retention."""
        if self.retention_s is None:
            return self.precision.ts_min
        return max(now_ts - self.retention_s * self.precision.per_s, self.precision.ts_min)

    def with_incarnation(self, incarnation: int) -> TableSpec:
        """Return this table as the catalog's n-th of its name."""
        return replace(self, incarnation=incarnation)

    def check_same_as(self, wanted: TableSpec) -> None:
        """Refuse a second table of this name that would differ.

        Raises:
            SchemaMismatchError: Names each difference.
        """
        there, asked = self._identity(), wanted._identity()
        differences = [
            f"{key}: {there[key]}, not {asked[key]}" for key in there if there[key] != asked[key]
        ]
        if differences:
            raise SchemaMismatchError(
                f"the table {self.name!r} exists with another design: {'; '.join(differences)}",
                hint="open it as it is, drop it first, or choose another name",
                differences=tuple(differences),
            )

    def _identity(self) -> dict[str, object]:
        # What decides where readings are, what they are and how long they stay; not the workload.
        return {
            "columns": ", ".join(f"{column.name}:{column.type}" for column in self.columns),
            "precision": str(self.precision),
            "bucket": str(self.width),
            "retention": _length(self.retention_s),
            "TTL": _length(self.default_ttl_s),
            "window": _length(self.window_s),
            "finer": self.finer,
            "future limit": _length(self.future_limit_s),
            "layout": None if self.adopted is None else json.dumps(self.adopted.to_json()),
        }

    def to_json(self) -> dict[str, Any]:
        """Return the catalog's record of this table."""
        later = {} if self.segment_s is None else {"segment_s": self.segment_s}
        record = {
            **later,
            "format": CATALOG_FORMAT,
            "name": self.name,
            "design": self.design.to_json(),
            "finer": self.finer,
            "future_limit_s": self.future_limit_s,
            "incarnation": self.incarnation,
            "index_trusted": self.index_trusted,
        }
        return record if self.adopted is None else {**record, "layout": self.adopted.to_json()}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> TableSpec:
        """Return the table of a catalog record.

        Raises:
            SchemaMismatchError: Written by a newer release, or not a record of a table.
        """
        check_format(record.get("format"), f"the table {record.get('name')!r}")
        try:
            return cls(
                name=record["name"],
                design=Design.from_json(record["design"]),
                finer=cast(Finer, record["finer"]),
                future_limit_s=int(record["future_limit_s"]),
                incarnation=int(record["incarnation"]),
                # Tables of format 1 were written to without marks.
                index_trusted=record.get("index_trusted") is True,
                segment_s=record.get("segment_s"),
                adopted=Layout.from_json(record["layout"]) if record.get("layout") else None,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise SchemaMismatchError(
                f"the catalog's record of the table {record.get('name')!r} cannot be read: {error}",
                hint="restore the catalog from a backup, or create the table again",
            ) from error


def check_unchanged(found: TableSpec, before: TableSpec, after: TableSpec) -> None:
    """Refuse a change of a table that another process has changed since it was planned.

    Raises:
        SchemaMismatchError: The catalog has neither what it was nor what it shall be.
    """
    if found not in (before, after):
        raise SchemaMismatchError(
            f"the table {before.name!r} was changed by another process meanwhile",
            hint="look at it again, then do the same once more if it is still wanted",
        )


def _length(seconds: int | None) -> str:
    if seconds is None:
        return "none"
    text = render_duration(seconds)
    # What is shown with two units only may hide the difference that it is there to show.
    is_whole = parse_duration_s(text) == seconds
    return text if is_whole else f"{seconds:,} s"


def check_format(found: object, what: str) -> None:
    """Refuse a catalog format that this release does not know.

    Raises:
        SchemaMismatchError: The format is newer, or not a number.
    """
    if not isinstance(found, int) or found < 1:
        raise SchemaMismatchError(f"{what} has no readable catalog format: {found!r}")
    if found > CATALOG_FORMAT:
        raise SchemaMismatchError(
            f"{what} has catalog format {found}; this release reads up to {CATALOG_FORMAT}",
            hint="upgrade treering",
        )
