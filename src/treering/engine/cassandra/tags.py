"""Which series have a tag: an index beside the list of series, sharded as that is.

Rules of this file: an entry is written before the series says that it has the tag, and removed
after it says that it has not, so the index may have an entry too many and never one too few; a
combination of tags takes no room of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from treering.core.table import TableSpec
from treering.engine.cassandra.link import Link
from treering.engine.cassandra.statements import CatalogStatements

CANDIDATES_MAX: Final = 100
"""How many series of an index are looked at with one request."""

IN_FLIGHT_MAX: Final = 32
"""How many entries are written side by side for one shard."""

_COUNTED_MAX: Final = 500


class TagIndex:
    """The index of all tables of one keyspace."""

    def __init__(self, link: Link, statements: CatalogStatements) -> None:
        self._link = link
        self._cql = statements

    def add(self, spec: TableSpec, shard: int, tags: Mapping[str, Mapping[str, str]]) -> None:
        """Enter series under each of their tags, side by side.

        Args:
            spec: The table.
            shard: The shard of the series.
            tags: The tags of each series.
        """
        entries = [
            (spec.name, spec.incarnation, tag, value, shard, series)
            for series, its in tags.items()
            for tag, value in its.items()
        ]
        what = f"indexing the tags of {len(tags)} series of {spec.name}"
        for start in range(0, len(entries), IN_FLIGHT_MAX):
            self._link.write_all(self._cql.add_tag, entries[start : start + IN_FLIGHT_MAX], what)

    def remove(self, spec: TableSpec, shard: int, series: str, tags: Mapping[str, str]) -> None:
        """Remove a series from under tags that it has no more."""
        for tag, value in tags.items():
            self._link.write(
                self._cql.remove_tag,
                *(spec.name, spec.incarnation, tag, value, shard, series),
                what=f"indexing the tags of {series} of {spec.name}",
            )

    def rarest(self, spec: TableSpec, tags: Mapping[str, str]) -> tuple[str, str]:
        """Return the tag that the fewest series have, by one shard, counted up to a bound."""
        if len(tags) == 1:
            return next(iter(tags.items()))

        def count(pair: tuple[str, str]) -> int:
            rows = self._link.query(
                self._cql.count_tag,
                *(spec.name, spec.incarnation, *pair, 0, _COUNTED_MAX),
                what=f"counting series of {spec.name} by tag",
            )
            return sum(1 for _ in rows)

        return min(tags.items(), key=count)

    def candidates(
        self, spec: TableSpec, shard: int, prefix: str, pair: tuple[str, str]
    ) -> Iterator[list[str]]:
        """Yield the series of a shard that may have a tag, by code point, some at a time."""
        rows = self._link.query(
            self._cql.list_tag,
            *(spec.name, spec.incarnation, *pair, shard, prefix),
            what=f"listing the series of {spec.name} by tag",
        )
        some: list[str] = []
        for row in rows:
            if not row["series"].startswith(prefix):
                break
            some.append(row["series"])
            if len(some) == CANDIDATES_MAX:
                yield some
                some = []
        if some:
            yield some

    def drop(self, table: str, incarnation: int, shard: int, tag: str, value: str) -> None:
        """Remove all entries of a tag in a shard."""
        self._link.write(
            self._cql.drop_tag,
            *(table, incarnation, tag, value, shard),
            what=f"removing the tags of {table} from the catalog",
        )
