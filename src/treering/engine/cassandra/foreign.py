"""Reading a table that others made: its schema, a bounded sample of its rows, its series.

Rules of this file: nothing here writes; every statement has a LIMIT or a page size, and the number
of statements is bounded; keys and times stay integers, as the columns hold them.
"""

# ruff: noqa: S608

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from typing import Final

import numpy as np

from treering.core.foreign import ForeignColumn, ForeignTable, Sample, SampledPartition
from treering.core.layout import KeyColumn, KeyType, KeyValue, TimeType, quoted
from treering.core.table import TableSpec
from treering.core.timeuuid import times_of_timeuuids
from treering.core.units import DAY_S, HOUR_S, MINUTE_S
from treering.engine.cassandra import statements
from treering.engine.cassandra.driver import BoundStatement, ConsistencyLevel, RawPage
from treering.engine.cassandra.keys import decode_value
from treering.engine.cassandra.link import Link
from treering.engine.cassandra.statements import table_cql
from treering.engine.protocol import SeriesScan
from treering.errors import CorruptDataError, SchemaMismatchError, UsageError

PLACES: Final = 8
"""At how many places of the ring a sample starts."""

PARTITIONS_A_PLACE: Final = 8
ROWS_AN_END: Final = 25
SCAN_PAGE: Final = 1_000

_TOKEN_MIN: Final = -(2**63)
_TOKEN_END: Final = 2**63
# The driver's own timeout comes first.
_SPARE_S: Final = 5.0
_SIZE: Final = struct.Struct(">i")
_WINDOW_S: Final = {"DAYS": DAY_S, "HOURS": HOUR_S, "MINUTES": MINUTE_S}
_TIMES: Final = frozenset(TimeType)


def read_foreign(link: Link, keyspace: str, table: str) -> ForeignTable:
    """Return a table's schema and options.

    Raises:
        UsageError: There is no such table.
        SchemaMismatchError: It counts, or is a materialized view's.
    """
    what = f"reading the schema of {keyspace}.{table}"
    one = ConsistencyLevel.ONE
    found = next(link.query(statements.TABLE, keyspace, table, what=what, consistency=one), None)
    if found is None:
        raise UsageError(
            f"there is no table {keyspace}.{table} on {link.where}",
            hint="names are case-sensitive; see DESCRIBE TABLES in cqlsh",
        )
    rows = link.query(statements.COLUMNS, keyspace, table, what=what, consistency=one)
    columns = tuple(
        ForeignColumn(
            name=row["column_name"], type=row["type"], kind=row["kind"], position=row["position"]
        )
        for row in rows
    )
    counters = [column.name for column in columns if column.type == "counter"]
    if counters:
        raise SchemaMismatchError(
            f"the table {keyspace}.{table} counts ({', '.join(counters)}): it holds no readings",
            hint="tables of counters cannot be adopted",
        )
    compaction = dict(found["compaction"] or {})
    return ForeignTable(
        keyspace=keyspace,
        name=table,
        columns=columns,
        default_ttl_s=found["default_time_to_live"] or 0,
        gc_grace_s=found["gc_grace_seconds"],
        compaction_class=str(compaction.get("class", "")).rpartition(".")[2],
        window_s=_window_s(compaction),
    )


def _window_s(compaction: Mapping[str, str]) -> int | None:
    if not compaction.get("class", "").endswith("TimeWindowCompactionStrategy"):
        return None
    unit = compaction.get("compaction_window_unit", "DAYS").upper()
    return int(compaction.get("compaction_window_size", "1")) * _WINDOW_S.get(unit, DAY_S)


def read_sample(link: Link, foreign: ForeignTable) -> Sample:
    """Return rows from both ends of some partitions, spread over the ring.

    Cost:
        At most 8 bounded range reads, and two single-partition reads for each of at most 64
        partitions.
    """
    return _Sampler(link, foreign).read()


class _Sampler:
    """Reads a sample of one table."""

    def __init__(self, link: Link, foreign: ForeignTable) -> None:
        self._link = link
        self._what = f"reading a sample of {foreign.full_name}"
        self._table = f"{quoted(foreign.keyspace)}.{quoted(foreign.name)}"
        self._keys = foreign.of_kind("partition_key")
        self._time = next(iter(foreign.of_kind("clustering")), None)

    def read(self) -> Sample:
        if self._time is None or self._time.type not in _TIMES:
            return Sample()
        keys = dict.fromkeys(self._some_keys())
        partitions = (
            SampledPartition(key=tuple(map(self._key_value, range(len(key)), key)), times=times)
            for key in keys
            if (times := self._times_of(key))
        )
        return Sample(partitions=tuple(partitions))

    def _key_value(self, place: int, cell: bytes) -> KeyValue | None:
        column = self._keys[place]
        if column.type not in set(KeyType):
            return None
        return decode_value(cell, KeyColumn(column.name, KeyType(column.type)))

    def _some_keys(self) -> Iterator[tuple[bytes, ...]]:
        names = ", ".join(quoted(column.name) for column in self._keys)
        cql = (
            f"SELECT DISTINCT {names} FROM {self._table} "
            f"WHERE token({names}) >= ? LIMIT {PARTITIONS_A_PLACE}"
        )
        for place in range(PLACES):
            start = _TOKEN_MIN + place * (2**64 // PLACES)
            token = start.to_bytes(8, "big", signed=True)
            for row in self._rows(cql, [token]):
                yield tuple(cell or b"" for cell in row)

    def _times_of(self, key: tuple[bytes, ...]) -> tuple[int, ...]:
        assert self._time is not None
        ts = quoted(self._time.name)
        where = " AND ".join(f"{quoted(column.name)} = ?" for column in self._keys)
        cells: dict[bytes, None] = {}
        for order in ("ASC", "DESC"):
            cql = (
                f"SELECT {ts} FROM {self._table} WHERE {where} "
                f"ORDER BY {ts} {order} LIMIT {ROWS_AN_END}"
            )
            cells |= dict.fromkeys(row[0] or b"" for row in self._rows(cql, list(key)))
        return tuple(self._time_value(cell) for cell in cells if cell)

    def _time_value(self, cell: bytes) -> int:
        assert self._time is not None
        if self._time.type == TimeType.TIMEUUID:
            return int(times_of_timeuuids(np.frombuffer(cell, dtype="V16"))[0])
        return int.from_bytes(cell, "big", signed=True)

    def _rows(self, cql: str, values: list[bytes]) -> list[list[bytes | None]]:
        return raw_rows(fetch_page(self._link, cql, values, self._what))


def fetch_page(
    link: Link,
    cql: str,
    values: list[bytes],
    what: str,
    *,
    fetch_size: int | None = None,
    cursor: bytes | None = None,
) -> RawPage:
    """Return one page of raw rows.

    Raises:
        EngineError: It could not be read.
    """
    try:
        bound = BoundStatement(link.prepare(cql), fetch_size=fetch_size or SCAN_PAGE)
        bound.values = values
        # By callback: the driver's result set takes what is no list of rows for an empty one.
        settled: Future[RawPage] = Future()
        link.send(bound, cursor=cursor).add_callbacks(settled.set_result, settled.set_exception)
        page = settled.result(link.timeout_s + _SPARE_S)
    except Exception as error:
        raise link.error_of(error, what) from error
    if page.error is not None:
        raise CorruptDataError(f"{what}: a page could not be read: {page.error}") from page.error
    return page


def raw_rows(page: RawPage) -> list[list[bytes | None]]:
    """Return the cells of a page's rows."""
    rows, body, position = [], bytes(page.body), 0
    for _ in range(page.count):
        row: list[bytes | None] = []
        for _ in page.columns:
            size = _SIZE.unpack_from(body, position)[0]
            position += _SIZE.size
            row.append(None if size < 0 else body[position : position + size])
            position += max(size, 0)
        rows.append(row)
    return rows


def scan_series(
    link: Link, keyspace: str, spec: TableSpec, *, token: int | None, partitions_max: int
) -> SeriesScan:
    """Return the series of the partitions from a token of the ring on.

    Args:
        link: The connection.
        keyspace: The store's keyspace.
        spec: The table.
        token: Where to start; None for the start of the ring.
        partitions_max: After how many partitions to stop, rounded up to a page.

    Cost:
        A range read of keys for each 1,000 partitions; on a table with many rows that goes
        through all files.
    """
    layout = spec.layout
    names = ", ".join(quoted(column.name) for column in layout.key_columns)
    order = ", ".join(_token_columns(link, keyspace, spec))
    cql = (
        f"SELECT DISTINCT {names}, token({order}) FROM {table_cql(keyspace, layout)} "
        f"WHERE token({order}) >= ?"
    )
    what = f"scanning the series of {spec.name}"
    start = (_TOKEN_MIN if token is None else token).to_bytes(8, "big", signed=True)
    series: dict[str, None] = {}
    partitions = unnamed = 0
    cursor, last, is_complete = None, None, False
    while not is_complete and partitions < partitions_max:
        page = fetch_page(link, cql, [start], what, cursor=cursor)
        rows = raw_rows(page)
        for row in rows:
            key = _key_of_row(row, layout.key_columns)
            name = None if key is None else layout.series_of(key, spec.width)
            if name is None:
                unnamed += 1
            else:
                series[name] = None
        partitions += len(rows)
        last = rows[-1][-1] if rows else last
        cursor, is_complete = page.cursor, page.cursor is None
    # A stop is after whole partitions: their tokens are not looked at again.
    after = int.from_bytes(last or b"", "big", signed=True) + 1
    return SeriesScan(
        series=tuple(series),
        partitions=partitions,
        unnamed=unnamed,
        next_token=None if is_complete or after == _TOKEN_END else after,
    )


def _key_of_row(
    row: list[bytes | None], columns: tuple[KeyColumn, ...]
) -> tuple[KeyValue, ...] | None:
    try:
        return tuple(
            decode_value(cell or b"", column) for cell, column in zip(row, columns, strict=False)
        )
    except CorruptDataError:
        return None


def _token_columns(link: Link, keyspace: str, spec: TableSpec) -> list[str]:
    """Return the columns of the partition key in the table's own order."""
    place = (spec.layout.keyspace or keyspace, spec.layout.table)
    foreign = read_foreign(link, *place)
    return [quoted(column.name) for column in foreign.of_kind("partition_key")]
