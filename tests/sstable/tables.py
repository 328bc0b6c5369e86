"""Tables of every kind that the file reader meets, written to a real node and flushed at once."""

from __future__ import annotations

import datetime as dt
import decimal
import ipaddress
import uuid
from collections.abc import Container, Iterator
from typing import TYPE_CHECKING, Final

from treering.testing import LocalCassandra

if TYPE_CHECKING:
    from cassandra.cluster import Session

KEYSPACE: Final = "samples"
YEAR_S: Final = 365 * 86_400
_ROW: Final = "(series text, bucket text, ts timestamp, value double, note text, "

# What each table is made of, and the statements that fill it.
SCHEMA: Final = {
    "ttl": _ROW
    + "PRIMARY KEY ((series, bucket), ts)) WITH CLUSTERING ORDER BY (ts DESC) "
    + f"AND default_time_to_live = {YEAR_S}",
    "plain": _ROW
    + "site text STATIC, tags map<text, text>, flag boolean, small smallint, "
    + "PRIMARY KEY ((series, bucket), ts)) WITH compression = {'enabled': false} "
    + "AND bloom_filter_fp_chance = 0.3",
    "deletes": _ROW + "PRIMARY KEY ((series, bucket), ts, note))",
    "partitions": _ROW + "PRIMARY KEY ((series, bucket), ts))",
    "mixed": _ROW + "PRIMARY KEY (series, ts))",
    "expired": _ROW + "PRIMARY KEY (series, ts)) WITH gc_grace_seconds = 0",
    "keys": "(id int PRIMARY KEY, value bigint) "
    "WITH compression = {'class': 'DeflateCompressor', 'chunk_length_in_kb': 4}",
    "types": "(id uuid, a text, b int, c uuid, d date, e time, f inet, g decimal, h varint, "
    "i smallint, j boolean, k frozen<tuple<int, text>>, l double, m blob, value int, "
    "PRIMARY KEY (id, a, b, c, d, e, f, g, h, i, j, k, l, m)) "
    "WITH CLUSTERING ORDER BY (a DESC, b ASC, c DESC, d ASC, e ASC, f ASC, g ASC, h ASC, i ASC, "
    "j DESC, k ASC, l DESC, m ASC)",
    "counts": "(id text PRIMARY KEY, hits counter)",
    "spread": "(id int, ts bigint, value double, PRIMARY KEY (id, ts))",
    "leveled": "(id int PRIMARY KEY, value text) "
    "WITH compaction = {'class': 'LeveledCompactionStrategy'}",
    "indexed": "(id int PRIMARY KEY, value text)",
}

# What only 5.0 has.
SCHEMA_5: Final = {
    "sharded": "(id int PRIMARY KEY, value text) WITH compaction = "
    "{'class': 'UnifiedCompactionStrategy', 'base_shard_count': 2, 'min_sstable_size': '0B'}",
}


def statements() -> Iterator[str]:
    """Yield what fills the tables."""
    for n in range(300):
        yield (
            f"INSERT INTO ttl (series, bucket, ts, value, note) "
            f"VALUES ('s{n % 7}', '2025-11-{n % 3 + 1:02}', {1_764_000_000_000 + n}, {n / 8}, 'x')"
        )
    for n in range(40):
        yield (
            f"INSERT INTO plain (series, bucket, ts, value, note, site, tags, flag, small) VALUES "
            f"('s{n % 3}', 'b', {n * 1_000}, {n}, 'note {n}', 'north', {{'k{n}': 'v'}}, true, {n})"
        )
    yield from _deletes()
    for n in range(4):
        where = f"series = 'p{n}' AND bucket = 'b'"
        yield f"DELETE FROM partitions USING TIMESTAMP {n + 5} WHERE {where}"
    for n in range(30):
        ttl = f"USING TTL {(n + 1) * 86_400}" if n % 3 else ""
        yield f"INSERT INTO mixed (series, ts, value) VALUES ('m{n % 2}', {n}, {n}) {ttl}"
        seconds = 1 if n % 2 else 10 * YEAR_S
        yield (
            f"INSERT INTO expired (series, ts, value) VALUES ('e', {n}, {n}) USING TTL {seconds} "
            f"AND TIMESTAMP {1_600_000_000_000_000 + n}"
        )
        yield f"INSERT INTO keys (id, value) VALUES ({n}, {n})"
        yield f"UPDATE counts SET hits = hits + {n} WHERE id = 'c{n % 4}'"
        ttl_s = YEAR_S + n * 9_999
        yield f"INSERT INTO spread (id, ts, value) VALUES ({n}, {n}, {n}) USING TTL {ttl_s}"
        yield f"INSERT INTO leveled (id, value) VALUES ({n}, '{'x' * n}')"
        yield f"INSERT INTO sharded (id, value) VALUES ({n}, 'v')"
        yield f"INSERT INTO indexed (id, value) VALUES ({n}, 'v{n % 3}')"
    # More drop times than the histogram has room for.
    for n in range(260):
        yield (
            f"INSERT INTO spread (id, ts, value) VALUES (99, {n}, {n}) "
            f"USING TTL {86_400 + n * n * 131}"
        )


def _deletes() -> Iterator[str]:
    where = "series = 'd' AND bucket = 'b'"
    for n in range(20):
        yield (
            "INSERT INTO deletes (series, bucket, ts, note, value) "
            f"VALUES ('d', 'b', {n}, 'n{n}', {n})"
        )
    yield f"DELETE value FROM deletes WHERE {where} AND ts = 3 AND note = 'n3'"
    yield f"DELETE FROM deletes WHERE {where} AND ts = 5 AND note = 'n5'"
    yield f"DELETE FROM deletes WHERE {where} AND ts = 7"
    yield f"DELETE FROM deletes WHERE {where} AND ts > 10 AND ts < 14"
    yield f"DELETE FROM deletes WHERE {where} AND ts >= 17"
    yield "DELETE FROM deletes WHERE series = 'gone' AND bucket = 'b'"


def _is_of(statement: str, table: str, schema: Container[str]) -> bool:
    return table not in schema and statement.startswith(f"INSERT INTO {table} ")


def make_tables(ring: LocalCassandra, session: Session, keyspace: str = KEYSPACE) -> None:
    """Make, fill and flush every table; compact one, and keep a snapshot of another."""
    session.execute(
        f"CREATE KEYSPACE {keyspace} WITH replication = "
        "{'class': 'SimpleStrategy', 'replication_factor': 1}"
    )
    session.set_keyspace(keyspace)
    schema = SCHEMA | SCHEMA_5 if ring.version >= "5" else SCHEMA
    for table, columns in schema.items():
        session.execute(f"CREATE TABLE {table} {columns}")
    session.execute("CREATE INDEX by_value ON indexed (value)")
    wanted = [statement for statement in statements() if not _is_of(statement, "sharded", schema)]
    for future in [session.execute_async(statement) for statement in wanted]:
        future.result()
    session.execute(
        "INSERT INTO types (id, a, b, c, d, e, f, g, h, i, j, k, l, m, value) VALUES "
        "(%s, 'é', 1, %s, '2025-11-20', '13:00:00', %s, %s, 123456789012345678901, 7, true, "
        "(1, 'x'), 2.5, 0xcafe, 1)",
        (uuid.UUID(int=1), uuid.UUID(int=2), ipaddress.ip_address("::1"), decimal.Decimal("1.5")),
    )
    session.execute(
        "INSERT INTO types (id, a, b, c, d, e, f, g, h, i, j, k, l, m, value) VALUES "
        "(%s, '', 2, %s, %s, '01:00:00', '10.0.0.1', -3, 0, -7, false, "
        "(null, 'y'), -2.5, 0x, 1)",
        (uuid.UUID(int=9), uuid.UUID(int=3), dt.date(1969, 1, 1)),
    )
    session.execute(f"DELETE FROM types WHERE id = {uuid.UUID(int=5)} AND a = 'zzz' AND b > 3")
    ring.nodetool("flush", keyspace)
    # A flush compresses as fast as it can; a compaction does it as the table says.
    ring.nodetool("compact", keyspace, "leveled", "keys")
    ring.nodetool("snapshot", "-t", "kept", keyspace)
