"""What the engine does for tables that others made."""

from __future__ import annotations

from collections.abc import Callable

from treering.core.foreign import ForeignTable, Sample
from treering.core.table import TableSpec
from treering.engine.cassandra.catalog import Catalog
from treering.engine.cassandra.foreign import read_foreign, read_sample, scan_series
from treering.engine.cassandra.link import Link
from treering.engine.protocol import SeriesScan


class CassandraAdopter:
    """Reads tables of others and enters them into a catalog; changes nothing of them.

    Args:
        link: The connection.
        catalog: Where they are entered.
        check_open: Raises where the engine was closed.
        seen: Takes note of a table that was entered.
    """

    def __init__(
        self,
        link: Link,
        catalog: Catalog,
        check_open: Callable[[], None],
        seen: Callable[[TableSpec], TableSpec],
    ) -> None:
        self._link = link
        self._catalog = catalog
        self._check_open = check_open
        self._seen = seen

    @property
    def keyspace(self) -> str:
        """Where a table is looked for whose keyspace is not said."""
        return self._catalog.keyspace

    def read_foreign(self, keyspace: str, table: str) -> ForeignTable:
        """Return the schema and options of a table that others made."""
        self._check_open()
        return read_foreign(self._link, keyspace, table)

    def read_sample(self, foreign: ForeignTable) -> Sample:
        """Return a bounded sample of its rows."""
        self._check_open()
        return read_sample(self._link, foreign)

    def plan_adopt(self, spec: TableSpec) -> tuple[str, ...]:
        """Return what :meth:`adopt_table` would do."""
        self._check_open()
        return self._catalog.plan_adopt(spec)

    def adopt_table(self, spec: TableSpec) -> TableSpec:
        """Enter a table of others into the catalog; the table itself is left as it is."""
        self._check_open()
        return self._seen(self._catalog.create(spec))

    def scan_series(self, spec: TableSpec, *, token: int | None, partitions_max: int) -> SeriesScan:
        """Go through partitions from a token on and return the series found."""
        self._check_open()
        return scan_series(
            self._link, self.keyspace, spec, token=token, partitions_max=partitions_max
        )
