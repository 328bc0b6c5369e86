"""The part of the Cassandra engine that keeps series, their tags and widths."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from treering.core.bucket import BucketWidth
from treering.core.series import SeriesRecord, check_tags, records_of
from treering.core.table import TableSpec
from treering.core.widths import LEASE_S
from treering.engine.cassandra.catalog import Catalog
from treering.engine.cassandra.link import Link
from treering.engine.protocol import WidthNews


class SeriesPart:
    """What :class:`CassandraEngine` does with series, by way of its catalog."""

    _link: Link
    _catalog: Catalog

    def _check_open(self) -> None:
        raise NotImplementedError

    def _check_table(self, spec: TableSpec) -> None:
        raise NotImplementedError

    def add_series(
        self, spec: TableSpec, series: Iterable[str | SeriesRecord]
    ) -> tuple[SeriesRecord, ...]:
        """List series durably, each entered by one conditional write; return what is listed."""
        self._check_table(spec)
        return self._catalog.series.add(spec, records_of(series))

    def load_series(
        self, spec: TableSpec, names: tuple[str, ...], *, lease_s: float = LEASE_S
    ) -> dict[str, SeriesRecord]:
        """Return the records of those that are listed."""
        self._check_table(spec)
        return self._catalog.series.load(spec, names, lease_s=lease_s)

    def series(
        self, spec: TableSpec, *, prefix: str = "", tags: Mapping[str, str] | None = None
    ) -> Iterator[str]:
        """Yield the listed series that start with ``prefix`` and have all ``tags``, sorted."""
        self._check_table(spec)
        return self._catalog.series.names(spec, prefix=prefix, tags=check_tags(tags))

    def has_series(self, spec: TableSpec, name: str) -> bool:
        """Return whether a series is listed."""
        return bool(self.load_series(spec, (name,)))

    def set_tags(self, spec: TableSpec, name: str, tags: Mapping[str, str]) -> SeriesRecord:
        """Replace the tags of a listed series by a conditional write."""
        self._check_table(spec)
        return self._catalog.series.set_tags(spec, name, check_tags(tags))

    def set_width(
        self,
        spec: TableSpec,
        name: str,
        width: BucketWidth,
        *,
        now_s: float,
        lease_s: float = LEASE_S,
    ) -> SeriesRecord:
        """Change the width of a listed series from a date on, by a conditional write."""
        self._check_table(spec)

        def later_s() -> float:
            return max(now_s, self._link.server_time_s())

        return self._catalog.series.set_width(spec, name, width, now_s=later_s, lease_s=lease_s)

    def read_widths(
        self, spec: TableSpec, seen: Any = None, *, lease_s: float = LEASE_S
    ) -> WidthNews:
        """Return the histories that changed, shard by shard."""
        self._check_table(spec)
        return self._catalog.series.read_widths(spec, seen, lease_s=lease_s)

    def check_durable(self, spec: TableSpec) -> None:
        """Refuse a table in a keyspace whose writes do not pass through the commit log."""
        self._check_table(spec)
        self._catalog.check_durable(spec)

    def server_time_s(self) -> float | None:
        """Return a coordinator's clock."""
        self._check_open()
        return self._link.server_time_s()

    def remove_series(self, spec: TableSpec, series: tuple[str, ...]) -> None:
        """Take series off the list, durably. The index keeps its marks: they cost a query."""
        self._check_table(spec)
        self._catalog.series.remove(spec, series)
