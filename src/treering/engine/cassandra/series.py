"""The series of a table, listed in the catalog and sharded by hash, so that no partition grows.

Rules of this file: a series is listed durably before a reading of it is acknowledged; listing one
again is free, on the server and, once seen, here.
"""

from __future__ import annotations

import heapq
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Final

from treering.core.table import TableSpec
from treering.engine.cassandra.driver import BatchStatement, BatchType
from treering.engine.cassandra.link import Link
from treering.engine.cassandra.statements import CatalogStatements

SHARDS: Final = 16
"""Over how many partitions the series of a new table are spread; the catalog keeps the number."""

_BATCH_MAX: Final = 100
_KNOWN_MAX: Final = 1_000_000


def shard_of(series: str, shards: int) -> int:
    """Return the shard that lists a series; the same on every machine."""
    return zlib.crc32(series.encode()) % shards


class SeriesList:
    """The series of all tables of one keyspace.

    Args:
        link: The connection.
        statements: The catalog's CQL.
        shards_of: Over how many shards the series of a table are spread.
    """

    def __init__(
        self, link: Link, statements: CatalogStatements, shards_of: Callable[[TableSpec], int]
    ) -> None:
        self._link = link
        self._cql = statements
        self._shards_of = shards_of
        # What was listed already; forgotten when it grows past its bound.
        self._known: set[tuple[str, int, str]] = set()

    def add(self, spec: TableSpec, series: tuple[str, ...]) -> None:
        """List series durably; those that were seen before cost nothing."""
        keys = {name: (spec.name, spec.incarnation, name) for name in series}
        new = [name for name, key in keys.items() if key not in self._known]
        if not new:
            return
        what = f"listing {len(new)} series of {spec.name}"
        try:
            prepared = self._link.prepare(self._cql.add_series)
            for shard, names in self._by_shard(spec, new):
                self._link.send(self._batch_of(prepared, spec, shard, names)).result()
        except Exception as error:
            raise self._link.error_of(error, what, is_write=True) from error
        if len(self._known) + len(new) > _KNOWN_MAX:
            self._known = set()
        self._known.update(keys[name] for name in new)

    def _by_shard(self, spec: TableSpec, names: list[str]) -> Iterator[tuple[int, list[str]]]:
        count = self._shards_of(spec)
        shards: dict[int, list[str]] = {}
        for name in names:
            shards.setdefault(shard_of(name, count), []).append(name)
        for shard, inside in shards.items():
            for start in range(0, len(inside), _BATCH_MAX):
                yield shard, inside[start : start + _BATCH_MAX]

    def _batch_of(
        self, prepared: Any, spec: TableSpec, shard: int, names: list[str]
    ) -> BatchStatement:
        batch = BatchStatement(BatchType.UNLOGGED, consistency_level=self._link.catalog_consistency)
        batch.is_idempotent = True
        for name in names:
            batch.add(prepared, (spec.name, spec.incarnation, shard, name))
        return batch

    def has(self, spec: TableSpec, series: str) -> bool:
        """Return whether a series is listed."""
        if (spec.name, spec.incarnation, series) in self._known:
            return True
        rows = self._link.query(
            self._cql.has_series,
            *(spec.name, spec.incarnation, shard_of(series, self._shards_of(spec)), series),
            what=f"looking for the series {series} of {spec.name}",
        )
        return next(rows, None) is not None

    def names(self, spec: TableSpec, *, prefix: str = "") -> Iterator[str]:
        """Yield the listed series that start with ``prefix``, by code point.

        Cost:
            One partition read a shard, and more pages as they are needed.
        """
        shards = range(self._shards_of(spec))
        return heapq.merge(*(self._names_of_shard(spec, shard, prefix) for shard in shards))

    def _names_of_shard(self, spec: TableSpec, shard: int, prefix: str) -> Iterator[str]:
        # CQL orders text by its UTF-8 bytes, which is the order of code points.
        rows = self._link.query(
            self._cql.list_series,
            *(spec.name, spec.incarnation, shard, prefix),
            what=f"listing the series of {spec.name}",
        )
        for row in rows:
            if not row["series"].startswith(prefix):
                return
            yield row["series"]

    def count(self, spec: TableSpec) -> int:
        """Return how many series are listed."""
        return sum(
            row["n"]
            for shard in range(self._shards_of(spec))
            for row in self._link.query(
                self._cql.count_series,
                *(spec.name, spec.incarnation, shard),
                what=f"counting the series of {spec.name}",
            )
        )

    def remove(self, spec: TableSpec, series: tuple[str, ...]) -> None:
        """Take series off the list, durably."""
        shards = self._shards_of(spec)
        for name in series:
            self._known.discard((spec.name, spec.incarnation, name))
            self._link.write(
                self._cql.remove_series,
                *(spec.name, spec.incarnation, shard_of(name, shards), name),
                what=f"removing the series {name} of {spec.name} from the catalog",
            )

    def drop(self, name: str, incarnation: int, shards: int) -> None:
        """Remove the list of a table's series."""
        for shard in range(shards):
            self._link.write(
                self._cql.drop_series,
                *(name, incarnation, shard),
                what=f"removing the series of {name} from the catalog",
            )
