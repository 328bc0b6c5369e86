"""Facts of a table that others made: its schema, its options, and some of its rows."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from treering.core.layout import KeyValue
from treering.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignColumn:
    """A column as ``system_schema.columns`` has it.

    Attributes:
        name: Its name, as written.
        type: Its CQL type.
        kind: ``partition_key``, ``clustering``, ``regular`` or ``static``.
        position: Its place in the key; -1 outside it.
    """

    name: str
    type: str
    kind: str
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignTable:
    """A table as the server describes it.

    Attributes:
        keyspace: Its keyspace.
        name: Its name.
        columns: All columns.
        default_ttl_s: ``default_time_to_live``; 0 for none.
        gc_grace_s: ``gc_grace_seconds``.
        compaction_class: The strategy's class, without its package.
        window_s: The length of a TWCS window; None for other strategies.
    """

    keyspace: str
    name: str
    columns: tuple[ForeignColumn, ...]
    default_ttl_s: int
    gc_grace_s: int
    compaction_class: str
    window_s: int | None

    @property
    def full_name(self) -> str:
        """Keyspace and table."""
        return f"{self.keyspace}.{self.name}"

    def of_kind(self, kind: str) -> tuple[ForeignColumn, ...]:
        """Return the columns of one kind, in the order of the key or by name."""
        found = [column for column in self.columns if column.kind == kind]
        return tuple(sorted(found, key=lambda column: (column.position, column.name)))

    def column(self, name: str) -> ForeignColumn:
        """Return the column of that name.

        Raises:
            UsageError: There is none.
        """
        for column in self.columns:
            if column.name == name:
                return column
        raise UsageError(
            f"the table {self.full_name} has no column {name!r}",
            hint=f"it has {', '.join(column.name for column in self.columns)}",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledPartition:
    """Some rows of one partition.

    Attributes:
        key: Values of the partition key, in its order; None where the type is not one that
            treering reads in keys.
        times: Clustering values from the first row on, then from the last: integers as the
            column counts (a timeuuid in microseconds).
    """

    key: tuple[KeyValue | None, ...]
    times: tuple[int, ...]

    def shown(self, foreign: ForeignTable, name: str) -> str:
        """Return one value of the key for people."""
        names = [column.name for column in foreign.of_kind("partition_key")]
        return repr(self.key[names.index(name)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Some partitions of a table."""

    partitions: tuple[SampledPartition, ...] = ()

    @property
    def row_count(self) -> int:
        """How many rows there are."""
        return sum(len(partition.times) for partition in self.partitions)

    @property
    def time_ends(self) -> tuple[int, int] | None:
        """The first and the last event time; None without rows."""
        times = [time for partition in self.partitions for time in partition.times]
        return (min(times), max(times)) if times else None

    def rate_hz(self, per_s: int) -> float | None:
        """Return readings a second by the median gap between neighbours; None where none are."""
        gaps = list(self._gaps())
        return per_s / statistics.median(gaps) if gaps else None

    def _gaps(self) -> Iterator[int]:
        # Times come from both ends of a partition: only gaps within one end are between
        # neighbours, and the one jump between the ends does not move a median.
        for partition in self.partitions:
            times = sorted(set(partition.times))
            yield from (b - a for a, b in itertools.pairwise(times))
