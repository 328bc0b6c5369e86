"""The prepared statements of readings, found again without making their text.

Rules of this file: what is kept is of one value of a table, told by identity, so that a table that
was made anew or altered never meets the statements of the one before it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from treering.core.read_plan import Order
from treering.core.schema import Column
from treering.core.table import TableSpec
from treering.engine.cassandra.driver import PreparedStatement
from treering.engine.cassandra.link import Link
from treering.engine.cassandra.statements import insert_cql, select_cql


@dataclass(slots=True)
class _OfTable:
    """The statements of one table that were asked for."""

    spec: TableSpec
    inserts: dict[bool, PreparedStatement] = field(default_factory=dict)
    selects: dict[Order, tuple[tuple[Column, ...], PreparedStatement]] = field(default_factory=dict)


class PreparedReadings:
    """The statements that write and read the readings of a store's tables.

    Args:
        link: The connection.
        keyspace: The store's own.
    """

    def __init__(self, link: Link, keyspace: str) -> None:
        self._link = link
        self._keyspace = keyspace
        self._tables: dict[str, _OfTable] = {}

    def insert(self, spec: TableSpec, *, has_ttl: bool) -> PreparedStatement:
        """Return the statement that writes one reading.

        Cost:
            A request to every node the first time.
        """
        inserts = self._of(spec).inserts
        statement = inserts.get(has_ttl)
        if statement is None:
            cql = insert_cql(self._keyspace, spec.layout, spec.columns, has_ttl=has_ttl)
            statement = inserts[has_ttl] = self._link.prepare(cql)
        return statement

    def select(
        self, spec: TableSpec, columns: tuple[Column, ...], order: Order
    ) -> PreparedStatement:
        """Return the statement that reads a part of a partition.

        Cost:
            A request to every node the first time.
        """
        selects = self._of(spec).selects
        there = selects.get(order)
        if there is not None and there[0] is columns:
            return there[1]
        cql = select_cql(self._keyspace, spec.layout, columns, order)
        statement = self._link.prepare(cql, generation=spec.incarnation)
        selects[order] = columns, statement
        return statement

    def forget(self, name: str) -> None:
        """Forget a table that was dropped."""
        self._tables.pop(name, None)

    def _of(self, spec: TableSpec) -> _OfTable:
        there = self._tables.get(spec.name)
        if there is None or there.spec is not spec:
            there = self._tables[spec.name] = _OfTable(spec)
        return there
