"""What the user states about a table, and the choices that they override."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Literal

from treering.core.bucket import BucketWidth
from treering.core.schema import Column, ColumnType
from treering.core.server import ServerVersion, StorageMode
from treering.core.sizing import TEXT_BYTES_DEFAULT
from treering.core.units import DAY_S, Precision
from treering.core.window import Window
from treering.errors import DesignError

COMPRESSION_RATIO_DEFAULT: Final = 0.5
"""Compressed over uncompressed size where nothing is stated: cautious for LZ4 on rows."""

READ_SPAN_DEFAULT_S: Final = DAY_S
"""The event time of a typical read where nothing is stated."""


class Strategy(enum.StrEnum):
    """Compaction strategies that a design chooses from."""

    TWCS = "TWCS"
    UCS = "UCS"
    STCS = "STCS"

    @property
    def class_name(self) -> str:
        """The name that the table option takes."""
        return {
            Strategy.TWCS: "TimeWindowCompactionStrategy",
            Strategy.UCS: "UnifiedCompactionStrategy",
            Strategy.STCS: "SizeTieredCompactionStrategy",
        }[self]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What a table has to carry; every default that matters is stated in the design's text.

    Attributes:
        rate_hz: Mean readings a second of one series.
        columns: The columns of values.
        retention_s: How long a reading must stay readable; None for ever.
        peak_rate_hz: Readings a second at the busiest; the bucket is sized by it.
        row_bytes: Uncompressed bytes of a row; None to compute them from the columns.
        late_s: How late readings may arrive: write time minus event time.
        late_fraction: The share of readings (0 to 1) that arrive later than one window.
        read_span_s: Event time that a typical read covers.
        series_count: How many series the table holds.
        replication: Pairs of datacentre and replicas; empty where not stated.
        deletes: Whether readings are deleted before they expire.
        overwrites: Whether readings are written again with other values.
        repair_every_s: How often a repair completes; None where not stated.
        cassandra: Version of the server.
        storage_mode: ``storage_compatibility_mode`` of Cassandra 5.
        precision: How finely event time is kept.
        compression_ratio: Compressed over uncompressed size, above 0 and up to 1.
        text_bytes: Bytes of a text value.
        partition_bytes_target: The budget that a partition should stay within.
        partition_bytes_max: The ceiling; a larger partition is refused.
        partition_cells_max: The ceiling in cells.
    """

    rate_hz: float
    columns: tuple[Column, ...]
    retention_s: int | None
    peak_rate_hz: float | None = None
    row_bytes: float | None = None
    late_s: float | None = None
    late_fraction: float | None = None
    read_span_s: float | None = None
    series_count: int = 1
    replication: tuple[tuple[str, int], ...] = ()
    deletes: bool = False
    overwrites: bool = False
    repair_every_s: int | None = None
    cassandra: str = "5.0"
    storage_mode: str = "CASSANDRA_4"
    precision: Precision = Precision.MS
    compression_ratio: float = COMPRESSION_RATIO_DEFAULT
    text_bytes: int = TEXT_BYTES_DEFAULT
    partition_bytes_target: int = 10_000_000
    partition_bytes_max: int = 100_000_000
    partition_cells_max: int = 2_000_000

    def __post_init__(self) -> None:
        if isinstance(self.replication, Mapping):
            object.__setattr__(self, "replication", tuple(self.replication.items()))
        if self.precision not in set(Precision):
            raise DesignError(f"{self.precision!r} is not a precision", hint="use ms, us or ns")
        object.__setattr__(self, "precision", Precision(self.precision))
        self._check_numbers()
        ServerVersion.from_text(self.cassandra)
        if self.storage_mode not in set(StorageMode):
            raise DesignError(
                f"{self.storage_mode!r} is not a storage mode",
                hint=f"use one of {', '.join(StorageMode)}",
            )
        if not self.columns:
            raise DesignError("a table needs a column of values", hint="such as value:double")
        if self.peak_rate_hz is not None and self.peak_rate_hz < self.rate_hz:
            raise DesignError(
                f"the peak rate {self.peak_rate_hz:g}/s is below the mean rate {self.rate_hz:g}/s",
                hint="state the busiest rate as the peak, or leave it out",
            )
        if self.partition_bytes_target > self.partition_bytes_max:
            raise DesignError(
                f"the partition target {self.partition_bytes_target:,} B is above the ceiling "
                f"{self.partition_bytes_max:,} B",
                hint="lower the target or raise the ceiling",
            )

    def _check_numbers(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in _NOT_NUMBERS or (value is None and field.name != "rate_hz"):
                continue
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            # How late readings are may be nothing; every other number is above zero.
            is_low = is_number and (value < 0 if field.name in _MAY_BE_ZERO else value <= 0)
            if not is_number or is_low or not math.isfinite(value):
                raise DesignError(
                    f"{value!r} is not a positive number for {_words_of(field.name)}",
                    hint=f"state a number above 0 ({field.name}=)",
                    cli_hint="state a number above 0",
                )
        for name, value in (
            ("compression_ratio", self.compression_ratio),
            ("late_fraction", self.late_fraction),
        ):
            if value is not None and value > 1:
                raise DesignError(
                    f"{value!r} is above 1, which {_words_of(name)} cannot be",
                    hint=f"state a share between 0 and 1 ({name}=)",
                    cli_hint="state a share between 0 and 1",
                )
        for centre, replicas in self.replication:
            if not centre or isinstance(replicas, bool) or replicas < 1:
                raise DesignError(
                    f"the datacentre {centre!r} has {replicas} replicas",
                    hint="use for instance dc1:3,dc2:3",
                )

    @property
    def version(self) -> ServerVersion:
        """The server's version, parsed."""
        return ServerVersion.from_text(self.cassandra)

    @property
    def mode(self) -> StorageMode:
        """The storage mode, parsed."""
        return StorageMode(self.storage_mode)

    @property
    def sizing_rate_hz(self) -> float:
        """The rate that partitions are sized by: the peak where one is stated."""
        return self.peak_rate_hz if self.peak_rate_hz is not None else self.rate_hz

    @property
    def replica_count(self) -> int:
        """Replicas over all datacentres; 1 where replication was not stated."""
        return sum(replicas for _, replicas in self.replication) or 1

    @property
    def is_single_replica(self) -> bool:
        """Whether replication was stated, and no datacentre has a second replica."""
        return self.replica_count == 1 and bool(self.replication)

    @property
    def is_append_only(self) -> bool:
        """Whether readings are neither deleted nor written again."""
        return not (self.deletes or self.overwrites)

    def to_json(self) -> dict[str, Any]:
        """Return what differs from the defaults, as JSON values."""
        values: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in _REQUIRED or value != field.default:
                values[field.name] = value
        values["columns"] = {column.name: str(column.type) for column in self.columns}
        if self.replication:
            values["replication"] = dict(self.replication)
        if "precision" in values:
            values["precision"] = str(self.precision)
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Workload:
        """Return the workload that :meth:`to_json` wrote.

        Raises:
            DesignError: A field is unknown, missing, or has an impossible value.
        """
        values = dict(values)
        try:
            values["columns"] = tuple(
                Column(name, ColumnType(kind)) for name, kind in values["columns"].items()
            )
            values["replication"] = tuple(dict(values.get("replication", {})).items())
            values["precision"] = Precision(values.get("precision", Precision.MS))
            return cls(**values)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, DesignError):
                raise
            raise DesignError(f"not the JSON of a workload: {error}") from error


_REQUIRED: Final = frozenset({"rate_hz", "columns", "retention_s"})
_UNITS: Final = ("_s", "_hz")


def _words_of(name: str) -> str:
    """Return the name of a field as people say it."""
    if name == "late_s":
        return "the lateness"
    for unit in _UNITS:
        name = name.removesuffix(unit)
    return "the " + name.replace("_", " ")


_MAY_BE_ZERO: Final = frozenset({"late_s", "late_fraction"})
_NOT_NUMBERS: Final = frozenset(
    {
        "columns",
        "replication",
        "deletes",
        "overwrites",
        "cassandra",
        "storage_mode",
        "precision",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """Choices that the user makes instead of the design; each is judged by a verdict.

    Attributes:
        bucket: A bucket width; ``"none"`` asks for one partition a series, which is refused with
            its size.
        window: A compaction window; its count is taken anew from the retention.
        gc_grace_s: ``gc_grace_seconds``; 0 has to be named here, it is never chosen.
        ttl_s: The table's default TTL, where it shall differ from the retention.
        strategy: A compaction strategy.
        timestamp_resolution: The TWCS option; anything but MICROSECONDS is refused, because
            drivers write microseconds.
        unsafe_aggressive_expiration: Drop expired files without looking at overlaps.
    """

    bucket: BucketWidth | Literal["none"] | None = None
    window: Window | None = None
    gc_grace_s: int | None = None
    ttl_s: int | None = None
    strategy: Strategy | None = None
    timestamp_resolution: str | None = None
    unsafe_aggressive_expiration: bool = False

    def __post_init__(self) -> None:
        # Names are as good as members: a plain "hour" becomes the width.
        if self.bucket is not None and self.bucket != "none":
            object.__setattr__(self, "bucket", BucketWidth.from_text(self.bucket))
        if self.strategy is not None:
            if self.strategy not in set(Strategy):
                raise DesignError(
                    f"{self.strategy!r} is not a compaction strategy",
                    hint=f"use one of {', '.join(Strategy)}",
                )
            object.__setattr__(self, "strategy", Strategy(self.strategy))
        if self.gc_grace_s is not None and self.gc_grace_s < 0:
            raise DesignError(f"gc grace is {self.gc_grace_s} s; it cannot be negative")
        resolution = self.timestamp_resolution
        if resolution is not None and resolution.upper() != "MICROSECONDS":
            raise DesignError(
                f"timestamp_resolution {resolution!r} does not fit what clients write: drivers "
                "send write times in microseconds, whatever the precision of the event time",
                hint="leave the option out; read in another unit, windows hold a thousandth or a "
                "thousand times of what they should",
            )
