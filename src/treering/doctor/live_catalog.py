"""A table of a running cluster in treering's catalogs: those of all keyspaces.

Rules of this file: nothing is written; an adopted table may stand in the catalog of another
keyspace, under another name.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from treering.core.schema import check_identifier
from treering.core.table import TableSpec
from treering.core.widths import last_width
from treering.doctor.catalogued import Catalogued
from treering.doctor.live import settings_of
from treering.engine.cassandra.catalog import Catalog
from treering.engine.cassandra.connect import open_link
from treering.engine.cassandra.link import Link
from treering.engine.cassandra.statements import TABLES, parse_catalog_name
from treering.errors import SchemaMismatchError, UsageError

_CATALOGS_MAX: Final = 100
_TABLES_MAX: Final = 1_000


def collect_catalog(
    url: str, *, keyspace: str, table: str, environ: Mapping[str, str] | None = None
) -> Catalogued | None:
    """Return what a catalog of treering knows of a table; None where none has it.

    Args:
        url: The cluster, as a store's address.
        keyspace: The table's keyspace.
        table: Its name on the server.
        environ: Where the login is; the process's where None.

    Raises:
        UsageError: A wrong address.
        SchemaMismatchError: The table is not any more what the catalog says.
        EngineError: No node answers, or one does not let the catalog be read.

    Cost:
        A connection; a few small reads for each table of a catalog until it is found, and two
        for each shard of its series.
    """
    settings, _ = settings_of(url, os.environ if environ is None else environ)
    link = open_link(settings, environ=environ)
    try:
        for catalog in _catalogs(link, keyspace):
            spec = _entry_of(catalog, keyspace, table)
            if spec is not None:
                return _known(catalog, spec)
    finally:
        link.close()
    return None


def _catalogs(link: Link, keyspace: str) -> Iterator[Catalog]:
    """Yield the catalogs of a cluster, that of a keyspace first."""
    rows = link.ask(
        "SELECT keyspace_name, table_name FROM system_schema.tables", what="looking for catalogs"
    )
    found = []
    for row in rows:
        place, name = row["keyspace_name"], row["table_name"]
        about = parse_catalog_name(name, TABLES, place)
        if about is None:
            continue
        try:
            found.append((check_identifier(about, "keyspace"), check_identifier(place, "keyspace")))
        except UsageError:
            continue  # No store has such a name.
    found.sort(key=lambda one: (keyspace not in one, one))
    for about, place in found[:_CATALOGS_MAX]:
        yield Catalog(link, about, catalog_keyspace=place)


def _entry_of(catalog: Catalog, keyspace: str, table: str) -> TableSpec | None:
    for name in sorted(catalog.names(), key=lambda name: name != table)[:_TABLES_MAX]:
        try:
            spec = catalog.load(name)
        except SchemaMismatchError:
            if (catalog.keyspace, name) == (keyspace, table):
                raise
            continue
        if spec is None:
            continue
        if (spec.layout.keyspace or catalog.keyspace, spec.layout.table) == (keyspace, table):
            return spec
    return None


def _known(catalog: Catalog, spec: TableSpec) -> Catalogued:
    histories = catalog.series.read_widths(spec, None).histories.values()
    widths = Counter(last_width(history, spec.width) for history in histories)
    del widths[spec.width]
    return Catalogued(spec=spec, series=catalog.series.count(spec), widths=widths)
