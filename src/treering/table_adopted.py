"""The verb that only an adopted table has."""

from __future__ import annotations

from treering.adopting import SCAN_PARTITIONS_MAX, scan_into_catalog
from treering.core.table import TableSpec
from treering.engine.protocol import SeriesScan
from treering.table_context import TableContext


class AdoptedVerbs:
    """Finds series that others write; a part of :class:`treering.Table`."""

    _spec: TableSpec
    _context: TableContext

    def scan_series(
        self, *, token: int | None = None, partitions_max: int = SCAN_PARTITIONS_MAX
    ) -> SeriesScan:
        """Find series of an adopted table by going through its partitions, and list them.

        Args:
            token: Where an earlier scan stopped: its ``next_token``; None for the start.
            partitions_max: After how many partitions to stop.

        Raises:
            UsageError: The table is treering's own: its series are listed already.

        Cost:
            Reads the key of every partition on the way.
        """
        return scan_into_catalog(self._context.engine, self._spec, token, partitions_max)
