"""Where a reading stands in a CQL table: which columns are series, bucket and event time.

Rules of this file: treering's own layout is one value among others, so own and adopted tables go
one way; a series id and the key columns that it stands for give each other back exactly.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, assert_never
from uuid import UUID

from treering.core.bucket import Bucket, BucketWidth
from treering.core.bucket_form import BUCKET_MARK, BucketForm, FormKind
from treering.core.schema import SERIES_BYTES_MAX, check_series, is_reserved
from treering.core.timeuuid import TIMEUUID_END_US, TIMEUUID_MIN_US
from treering.core.units import PER_S, Precision
from treering.errors import UsageError

KeyValue = str | int | UUID

_PLAIN: Final = re.compile(r"^[a-z][a-z0-9_]*$")
_JOIN: Final = "/"
# A blank at an end too: no series id starts or ends with one.
_ESCAPED: Final = re.compile(r"[%/\x00-\x1f\x7f]|^ | \Z")
_ESCAPE: Final = re.compile(r"%([0-9A-F]{2})")
_NAME_MAX: Final = 200
_PRECISIONS: Final = {"s": Precision.MS, **{precision.value: precision for precision in Precision}}


class KeyType(enum.StrEnum):
    """CQL types of key columns that treering can fill in."""

    TEXT = "text"
    UUID = "uuid"
    TIMEUUID = "timeuuid"
    INT = "int"
    BIGINT = "bigint"
    DATE = "date"
    TIMESTAMP = "timestamp"


SERIES_TYPES: Final = (KeyType.TEXT, KeyType.UUID, KeyType.TIMEUUID, KeyType.INT, KeyType.BIGINT)
_INT_BITS: Final = {KeyType.INT: 32, KeyType.BIGINT: 64}
_FORM_TYPES: Final[dict[FormKind, tuple[KeyType, ...]]] = {
    FormKind.TEXT: (KeyType.TEXT, KeyType.INT, KeyType.BIGINT),
    FormKind.DATE: (KeyType.DATE,),
    FormKind.EPOCH: (KeyType.INT, KeyType.BIGINT, KeyType.TIMESTAMP),
}


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A column of the partition key: its name and type."""

    name: str
    type: KeyType


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketColumn:
    """The column of the partition key that holds the bucket, and how."""

    name: str
    type: KeyType
    form: BucketForm

    def __post_init__(self) -> None:
        fitting = _FORM_TYPES[self.form.kind]
        is_ms = self.type is not KeyType.TIMESTAMP or self.form.unit == "ms"
        is_text = self.type is KeyType.TEXT or not self.form.has_series
        if self.type not in fitting or not is_ms or not is_text:
            raise UsageError(
                f"the bucket column {self.name!r} of type {self.type} cannot hold the form "
                f"{self.form.text!r}",
                hint=f"that form takes {', '.join(fitting)}"
                + ("" if is_ms else "; a timestamp is epoch-ms"),
            )

    def value_of(self, bucket: Bucket, series: str) -> KeyValue:
        """Return what stands in the column."""
        value = self.form.value_of(bucket, series)
        return int(value) if self.type in _INT_BITS else value


class TimeType(enum.StrEnum):
    """CQL types of the clustering column that holds event time."""

    TIMESTAMP = "timestamp"
    BIGINT = "bigint"
    TIMEUUID = "timeuuid"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeColumn:
    """The clustering column that holds event time.

    Attributes:
        name: Its name.
        type: Its CQL type.
        unit: What it counts: s, ms, us or ns since 1970. A timeuuid counts as us.
    """

    name: str
    type: TimeType
    unit: str

    def __post_init__(self) -> None:
        fitting = {TimeType.TIMESTAMP: ("ms",), TimeType.TIMEUUID: ("us",)}
        if self.unit not in fitting.get(self.type, tuple(PER_S)):
            raise UsageError(
                f"the time column {self.name!r} of type {self.type} does not count {self.unit!r}",
                hint=f"its unit is {' or '.join(fitting.get(self.type, tuple(PER_S)))}",
            )

    @property
    def precision(self) -> Precision:
        """The precision that its readings have in treering: seconds count as milliseconds."""
        return _PRECISIONS[self.unit]

    @property
    def step(self) -> int:
        """Ticks of the precision in one unit of the column."""
        return self.precision.per_s // PER_S[self.unit]

    @property
    def range(self) -> tuple[int, int]:
        """The first tick that the column can hold, and the first after all that it can."""
        if self.type is TimeType.TIMEUUID:
            return TIMEUUID_MIN_US, TIMEUUID_END_US
        return self.precision.ts_min, self.precision.ts_end


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a CQL table holds readings.

    Attributes:
        keyspace: The table's keyspace; None for the store's own.
        table: The table's name.
        series: The columns that the series id stands for; none where the bucket's text has it.
        bucket: The column of the bucket; None where a partition holds a whole series.
        time: The column of event time.
        renamed: Pairs of a column of values and its name on the server, where they differ.
        look_back_s: How far ``latest`` steps back unless it is told; None for the retention.
    """

    keyspace: str | None
    table: str
    series: tuple[KeyColumn, ...]
    bucket: BucketColumn | None
    time: TimeColumn
    renamed: tuple[tuple[str, str], ...] = ()
    look_back_s: int | None = None

    def __post_init__(self) -> None:
        has_template = self.bucket is not None and self.bucket.form.has_series
        if not self.series and not has_template:
            raise UsageError(
                "nothing of the partition key says which series a reading is of",
                hint="name the series columns, or a bucket form with {series} in it",
            )
        for column in self.series:
            if column.type not in SERIES_TYPES:
                raise UsageError(
                    f"the series column {column.name!r} has the type {column.type}",
                    hint=f"a series is of {', '.join(SERIES_TYPES)}",
                )

    @property
    def key_columns(self) -> tuple[KeyColumn, ...]:
        """The columns of the partition key, series first."""
        if self.bucket is None:
            return self.series
        return (*self.series, KeyColumn(self.bucket.name, self.bucket.type))

    @property
    def series_text(self) -> str:
        """How a series id is made, for people."""
        names = [f"{{{column.name}}}" for column in self.series]
        if not names and self.bucket is not None:
            return f"the {{series}} in {self.bucket.name}"
        return _JOIN.join(names)

    def key_of(self, series: str, bucket: Bucket) -> tuple[KeyValue, ...]:
        """Return the values of :attr:`key_columns` for one partition.

        Raises:
            UsageError: The text is not a series id of this table.
        """
        values = self.values_of(series)
        return values if self.bucket is None else (*values, self.bucket.value_of(bucket, series))

    def values_of(self, series: str) -> tuple[KeyValue, ...]:
        """Return the values of the series columns.

        Raises:
            UsageError: The text is not a series id of this table.
        """
        if len(self.series) <= 1:
            return tuple(_parse_value(series, column, series) for column in self.series)
        parts = series.split(_JOIN)
        if len(parts) != len(self.series):
            raise UsageError(
                f"the series id {series!r} has {len(parts)} parts, not {len(self.series)}",
                hint=f"write {self.series_text}, with %2F for a / and %25 for a % inside a part",
            )
        return tuple(
            _parse_value(_unescaped(part, series), column, series)
            for part, column in zip(parts, self.series, strict=True)
        )

    def series_of(self, key: tuple[KeyValue, ...], width: BucketWidth) -> str | None:
        """Return the series id of a partition; None where it has none that treering can name."""
        if not self.series:
            assert self.bucket is not None
            series = self.bucket.form.series_of(str(key[0]), width)
        elif len(self.series) == 1:
            series = str(key[0])
        else:
            series = _JOIN.join(_escaped(str(value)) for value in key[: len(self.series)])
        try:
            return None if series is None else check_series(series)
        except UsageError:
            return None

    def cql_column(self, name: str) -> str:
        """Return the name on the server of a column of values, as CQL takes it."""
        return quoted(dict(self.renamed).get(name, name))

    def to_json(self) -> dict[str, Any]:
        """Return the layout as JSON values; :meth:`from_json` takes it back."""
        bucket = self.bucket
        return {
            "keyspace": self.keyspace,
            "table": self.table,
            "series": {column.name: str(column.type) for column in self.series},
            "bucket": bucket
            and {"column": bucket.name, "type": str(bucket.type), "form": bucket.form.text},
            "time": {
                "column": self.time.name,
                "type": str(self.time.type),
                "unit": self.time.unit,
            },
            "renamed": dict(self.renamed),
            "look_back_s": self.look_back_s,
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Layout:
        """Return the layout that :meth:`to_json` wrote.

        Raises:
            KeyError, TypeError, ValueError: Something is missing or impossible.
        """
        bucket, time = values["bucket"], values["time"]
        return cls(
            keyspace=values["keyspace"],
            table=values["table"],
            series=tuple(KeyColumn(n, KeyType(kind)) for n, kind in values["series"].items()),
            bucket=bucket
            and BucketColumn(
                name=bucket["column"],
                type=KeyType(bucket["type"]),
                form=BucketForm.from_text(bucket["form"]),
            ),
            time=TimeColumn(
                name=time["column"], type=TimeType(time["type"]), unit=str(time["unit"])
            ),
            renamed=tuple(values["renamed"].items()),
            look_back_s=values["look_back_s"],
        )


@lru_cache(maxsize=1024)
def own_layout(table: str, precision: Precision) -> Layout:
    """Return the layout of a table that treering makes."""
    is_ms = precision is Precision.MS
    return Layout(
        keyspace=None,
        table=table,
        series=(KeyColumn("series", KeyType.TEXT),),
        bucket=BucketColumn(
            name="bucket",
            type=KeyType.TEXT,
            form=BucketForm(kind=FormKind.TEXT, pattern=BUCKET_MARK),
        ),
        time=TimeColumn(
            name="ts",
            type=TimeType.TIMESTAMP if is_ms else TimeType.BIGINT,
            unit=precision.value,
        ),
    )


def quoted(name: str) -> str:
    """Return an identifier as CQL takes it: bare where that is the same, else in quotes.

    Raises:
        UsageError: No identifier can be that.
    """
    if _PLAIN.fullmatch(name) and not is_reserved(name):
        return name
    if not 1 <= len(name) <= _NAME_MAX or "\x00" in name:
        raise UsageError(f"{name!r} is not a name that CQL takes")
    return '"' + name.replace('"', '""') + '"'


def _escaped(part: str) -> str:
    return _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", part)


def _unescaped(part: str, series: str) -> str:
    text = _ESCAPE.sub(lambda match: chr(int(match[1], 16)), part)
    if _escaped(text) != part:
        raise UsageError(
            f"the series id {series!r} has the part {part!r}, which is escaped in another way",
            hint=f"write {_escaped(text)}: %2F stands for a / and %25 for a %",
        )
    return text


def _parse_value(text: str, column: KeyColumn, series: str) -> KeyValue:
    """Return a series column's value; only the one text that reading it back would give."""
    value: KeyValue
    try:
        match column.type:
            case KeyType.TEXT:
                value = text
            case KeyType.UUID | KeyType.TIMEUUID:
                value = UUID(text)
            case KeyType.INT | KeyType.BIGINT:
                value = int(text)
                if (
                    not -(2 ** (_INT_BITS[column.type] - 1))
                    <= value
                    < 2 ** (_INT_BITS[column.type] - 1)
                ):
                    raise ValueError(text)
            case KeyType.DATE | KeyType.TIMESTAMP:
                raise ValueError(column.type)
            case _:
                assert_never(column.type)
    except ValueError as error:
        raise UsageError(
            f"the series id {series!r} is not of this table: its column {column.name!r} "
            f"takes {column.type}, not {text!r}",
            hint="list the series that are known with series()",
            series=series,
        ) from error
    if str(value) != text:
        raise UsageError(
            f"the series id {series!r} is not written as the column {column.name!r} reads back",
            hint=f"write {value}",
            series=series,
        )
    if len(text.encode()) > SERIES_BYTES_MAX:
        raise UsageError(f"the series id {series[:40]!r}… is too long")
    return value
