"""The CQL of the engine: every statement that is sent, in one place.

Rules of this file: identifiers passed ``check_identifier`` before they came here, and stand
unquoted; everything that is a value is bound; every read and write is of one partition.
"""

# ruff: noqa: S608

from __future__ import annotations

from typing import Final
from uuid import UUID

from treering.core.layout import Layout, quoted
from treering.core.read_plan import Order
from treering.core.schema import Column
from treering.errors import UsageError

TABLES: Final = "treering_tables"
SERIES: Final = "treering_series"
BUCKETS: Final = "treering_buckets"
TAGS: Final = "treering_tags"
NAME_MAX: Final = 48
"""The longest name that Cassandra gives a keyspace or a table."""

KEYSPACE: Final = (
    "SELECT keyspace_name, replication, durable_writes "
    "FROM system_schema.keyspaces WHERE keyspace_name = ?"
)
# Everything, because versions differ in what they have: ``read_repair`` came with 4.0.
TABLE: Final = "SELECT * FROM system_schema.tables WHERE keyspace_name = ? AND table_name = ?"
COLUMNS: Final = (
    "SELECT column_name, type, kind, position, clustering_order "
    "FROM system_schema.columns WHERE keyspace_name = ? AND table_name = ?"
)
SCHEMA_LOCAL: Final = "SELECT schema_version FROM system.local"
SCHEMA_PEERS: Final = "SELECT rpc_address, schema_version FROM system.peers"
SERVER_CLOCK: Final = "SELECT toUnixTimestamp(now()) AS ms FROM system.local"
SETTING: Final = "SELECT value FROM system_views.settings WHERE name = ?"
DISK_USAGE: Final = (
    "SELECT mebibytes FROM system_views.disk_usage WHERE keyspace_name = ? AND table_name = ?"
)


def catalog_name(table: str, keyspace: str, catalog_keyspace: str) -> str:
    """Return the name of one of the catalog's tables.

    A catalog beside its readings has the plain name. One in another keyspace may stand there next
    to those of other keyspaces, so its tables carry the name of the keyspace that they are about.

    Raises:
        UsageError: The name would be longer than Cassandra takes.
    """
    if catalog_keyspace == keyspace:
        return table
    name = f"{table}_{keyspace}"
    if len(name) > NAME_MAX:
        raise UsageError(
            f"the catalog of {keyspace} cannot stand in {catalog_keyspace}: its table {name} would "
            f"have a name of {len(name)} characters, and Cassandra takes {NAME_MAX}",
            hint=f"keep the catalog in {keyspace} itself: leave catalog= out",
        )
    return name


def parse_catalog_name(name: str, table: str, catalog_keyspace: str) -> str | None:
    """Return which keyspace a catalog's table is about, by its name; None for any other table.

    The way back from :func:`catalog_name`.
    """
    if name == table:
        return catalog_keyspace
    about = name.removeprefix(f"{table}_")
    return None if about == name else about


def table_cql(keyspace: str, layout: Layout) -> str:
    """Return the full name of the table of a layout; ``keyspace`` is the store's own."""
    return f"{quoted(layout.keyspace or keyspace)}.{quoted(layout.table)}"


def insert_cql(keyspace: str, layout: Layout, columns: tuple[Column, ...], *, has_ttl: bool) -> str:
    """Return the statement of one reading: key, time, every column, write time and maybe TTL."""
    names = [quoted(column.name) for column in layout.key_columns]
    names += [quoted(layout.time.name), *(layout.cql_column(column.name) for column in columns)]
    ttl = " AND TTL ?" if has_ttl else ""
    return (
        f"INSERT INTO {table_cql(keyspace, layout)} ({', '.join(names)}) "
        f"VALUES ({', '.join('?' * len(names))}) USING TIMESTAMP ?{ttl}"
    )


def delete_cql(keyspace: str, layout: Layout, *, is_whole: bool) -> str:
    """Return the deletion of one partition: write time, key, and the range unless it is whole."""
    ts = quoted(layout.time.name)
    key = " AND ".join(f"{quoted(column.name)} = ?" for column in layout.key_columns)
    part = "" if is_whole else f" AND {ts} >= ? AND {ts} < ?"
    return f"DELETE FROM {table_cql(keyspace, layout)} USING TIMESTAMP ? WHERE {key}{part}"


def select_cql(keyspace: str, layout: Layout, columns: tuple[Column, ...], order: Order) -> str:
    """Return the read of a part of one partition: event time, then ``columns``."""
    ts = quoted(layout.time.name)
    names = ", ".join([ts, *(layout.cql_column(column.name) for column in columns)])
    key = " AND ".join(f"{quoted(column.name)} = ?" for column in layout.key_columns)
    return (
        f"SELECT {names} FROM {table_cql(keyspace, layout)} "
        f"WHERE {key} AND {ts} >= ? AND {ts} < ? ORDER BY {ts} {order.upper()}"
    )


class CatalogStatements:
    """The statements of one keyspace's catalog.

    Attributes:
        tables_name: The table that lists the tables.
        series_name: The table that lists their series.
        buckets_name: The table that lists the buckets that exist.
        tags_name: The table that lists series by their tags.
    """

    def __init__(self, keyspace: str, catalog_keyspace: str | None = None) -> None:
        place = catalog_keyspace or keyspace
        self.tables_name = catalog_name(TABLES, keyspace, place)
        self.series_name = catalog_name(SERIES, keyspace, place)
        self.buckets_name = catalog_name(BUCKETS, keyspace, place)
        self.tags_name = catalog_name(TAGS, keyspace, place)
        tables, series = f"{place}.{self.tables_name}", f"{place}.{self.series_name}"
        of_shard = "WHERE table_name = ? AND incarnation = ? AND shard = ?"
        self.list_tables = f"SELECT name, state FROM {tables}"
        self.read_table = (
            f"SELECT name, format, incarnation, state, shards, record FROM {tables} WHERE name = ?"
        )
        self.created = f"SELECT WRITETIME(record) AS write_us FROM {tables} WHERE name = ?"
        self.claim_new = (
            f"INSERT INTO {tables} (format, incarnation, state, shards, record, name) "
            "VALUES (?, ?, ?, ?, ?, ?) IF NOT EXISTS"
        )
        self.claim_again = (
            f"UPDATE {tables} SET format = ?, incarnation = ?, state = ?, shards = ?, record = ? "
            "WHERE name = ? IF state = ? AND incarnation = ?"
        )
        self.set_state = (
            f"UPDATE {tables} SET state = ? WHERE name = ? IF state = ? AND incarnation = ?"
        )
        self.set_record = (
            f"UPDATE {tables} SET record = ? WHERE name = ? "
            "IF state = ? AND incarnation = ? AND record = ?"
        )
        # Rows of version 0 are the series; those from 1 on are the log of their widths.
        of_series = f"{of_shard} AND version = 0 AND series"
        found = "series, tags, widths, WRITETIME(widths) AS written_us"
        self.enter_series = (
            f"INSERT INTO {series} (table_name, incarnation, shard, version, series, tags, widths) "
            "VALUES (?, ?, ?, 0, ?, ?, ?) IF NOT EXISTS"
        )
        self.find_series = f"SELECT {found} FROM {series} {of_series} IN ?"
        self.list_series = f"SELECT series FROM {series} {of_series} >= ?"
        self.count_series = f"SELECT COUNT(*) AS n FROM {series} {of_shard} AND version = 0"
        self.tags_of_shard = f"SELECT tags FROM {series} {of_shard} AND version = 0"
        self.drop_series = f"DELETE FROM {series} {of_shard}"
        self.remove_series = f"DELETE FROM {series} {of_series} = ? IF EXISTS"
        marks = f"{place}.{self.buckets_name}"
        self.mark_bucket = (
            f"INSERT INTO {marks} (table_name, incarnation, series, era, start, width) "
            "VALUES (?, ?, ?, ?, ?, ?) USING TIMESTAMP ?"
        )
        self.mark_bucket_for = f"{self.mark_bucket} AND TTL ?"
        of_era = "WHERE table_name = ? AND incarnation = ? AND series = ? AND era = ?"
        self.list_buckets = {
            is_newest_first: f"SELECT start, width FROM {marks} {of_era} "
            f"AND start >= ? AND start < ? ORDER BY start {order} LIMIT ?"
            for is_newest_first, order in ((True, "DESC"), (False, "ASC"))
        }
        # Marks carry their expiry as write time, so a deletion needs a later one still.
        self.drop_buckets = f"DELETE FROM {marks} USING TIMESTAMP {2**62} {of_era}"
        self.set_tags = f"UPDATE {series} SET tags = ? {of_series} = ? IF tags = ?"
        self.set_widths = f"UPDATE {series} SET widths = ? {of_series} = ? IF widths = ?"
        self.read_head = f"SELECT head FROM {series} {of_shard} LIMIT 1"
        self.set_head = f"UPDATE {series} SET head = ? {of_shard} IF head = ?"
        self.log_widths = (
            f"INSERT INTO {series} (table_name, incarnation, shard, version, series, widths) "
            "VALUES (?, ?, ?, ?, ?, ?)"
        )
        self.read_widths = (
            "SELECT version, series, widths, WRITETIME(widths) AS written_us "
            f"FROM {series} {of_shard} AND version > ?"
        )
        tags = f"{place}.{self.tags_name}"
        of_tag = "WHERE table_name = ? AND incarnation = ? AND tag = ? AND value = ? AND shard = ?"
        self.add_tag = (
            f"INSERT INTO {tags} (table_name, incarnation, tag, value, shard, series) "
            "VALUES (?, ?, ?, ?, ?, ?)"
        )
        self.list_tag = f"SELECT series FROM {tags} {of_tag} AND series >= ?"
        self.count_tag = f"SELECT series FROM {tags} {of_tag} LIMIT ?"
        self.remove_tag = f"DELETE FROM {tags} {of_tag} AND series = ?"
        self.drop_tag = f"DELETE FROM {tags} {of_tag}"
        self._keyspace = keyspace
        self._tables, self._series, self._buckets, self._tags = tables, series, marks, tags

    def create_tables(self, table_id: UUID) -> str:
        """Return the statement that makes the catalog's list of tables."""
        return (
            f"CREATE TABLE IF NOT EXISTS {self._tables} (\n"
            "  name text PRIMARY KEY,\n  format int,\n  incarnation int,\n  state text,\n"
            "  shards int,\n  record text\n"
            f") WITH ID = {table_id}\n  AND comment = 'tables of treering'"
        )

    def create_series(self, table_id: UUID) -> str:
        """Return the statement that makes the catalog's list of series."""
        return (
            f"CREATE TABLE IF NOT EXISTS {self._series} (\n"
            "  table_name text,\n  incarnation int,\n  shard int,\n  version int,\n"
            "  series text,\n  head int static,\n  tags frozen<map<text, text>>,\n"
            "  widths text,\n"
            "  PRIMARY KEY ((table_name, incarnation, shard), version, series)\n"
            f") WITH ID = {table_id}\n  AND comment = 'series of treering tables'"
        )

    def create_buckets(self, table_id: UUID) -> str:
        """Return the statement that makes the catalog's index of buckets that exist."""
        return (
            f"CREATE TABLE IF NOT EXISTS {self._buckets} (\n"
            "  table_name text,\n  incarnation int,\n  series text,\n  era text,\n"
            "  start timestamp,\n  width text,\n"
            "  PRIMARY KEY ((table_name, incarnation, series, era), start, width)\n"
            f") WITH ID = {table_id}\n  AND CLUSTERING ORDER BY (start DESC, width ASC)\n"
            "  AND comment = 'buckets of treering tables that may hold readings'"
        )

    def create_tags(self, table_id: UUID) -> str:
        """Return the statement that makes the catalog's index of tags."""
        return (
            f"CREATE TABLE IF NOT EXISTS {self._tags} (\n"
            "  table_name text,\n  incarnation int,\n  tag text,\n  value text,\n"
            "  shard int,\n  series text,\n"
            "  PRIMARY KEY ((table_name, incarnation, tag, value, shard), series)\n"
            f") WITH ID = {table_id}\n  AND comment = 'series of treering tables by tag'"
        )

    def drop_table(self, name: str) -> str:
        """Return the statement that drops a table with its readings."""
        return f"DROP TABLE IF EXISTS {self._keyspace}.{name}"
