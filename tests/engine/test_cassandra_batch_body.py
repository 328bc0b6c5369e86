"""The bodies of batches are the bytes that the driver itself would write."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.core.bucket import bucket_of
from treering.core.columns import column_from_list
from treering.core.schema import Column, ColumnType, parse_columns
from treering.core.write_plan import PartitionWrite

pytest.importorskip("cassandra", reason="cassandra-driver is not installed")

from cassandra import ConsistencyLevel, cqltypes
from cassandra.protocol import BatchMessage, ColumnMetadata, _ProtocolHandler
from cassandra.query import UNSET_VALUE, BatchStatement, BatchType, PreparedStatement

from treering.engine.cassandra.batch_body import BATCH_ROWS_MAX, batch_bodies
from treering.engine.cassandra.driver import RawProtocolHandler, batch_of_body

# scylla-driver, which may be installed in place of the other one, wants the protocol's features.
FEATURES: tuple[Any, ...] = ()
if find_spec("cassandra.protocol_features") is not None:
    FEATURES = (import_module("cassandra.protocol_features").ProtocolFeatures(),)

COLUMNS = parse_columns("d:double,f:float,i:int,b:bigint,o:boolean,t:text")
TYPES = {
    ColumnType.DOUBLE: cqltypes.DoubleType,
    ColumnType.FLOAT: cqltypes.FloatType,
    ColumnType.INT: cqltypes.Int32Type,
    ColumnType.BIGINT: cqltypes.LongType,
    ColumnType.BOOLEAN: cqltypes.BooleanType,
    ColumnType.TEXT: cqltypes.UTF8Type,
}
VALUES = {
    ColumnType.DOUBLE: st.floats(),
    ColumnType.FLOAT: st.floats(width=32),
    ColumnType.INT: st.integers(-(2**31), 2**31 - 1),
    ColumnType.BIGINT: st.integers(-(2**63), 2**63 - 1),
    ColumnType.BOOLEAN: st.booleans(),
    ColumnType.TEXT: st.text(st.characters(codec="utf-8"), max_size=10),
}
SERIES = "ä"
BUCKET = bucket_of(0, "day")
WRITE_US = 1_700_000_000_000_000
ID = bytes(range(16))
Rows = dict[int, list[Any]]


@st.composite
def writes(draw: st.DrawFn) -> tuple[tuple[Column, ...], Rows, frozenset[str], int | None]:
    """Return columns, rows, names of columns that the write does not have, and a TTL."""
    columns = tuple(draw(st.lists(st.sampled_from(COLUMNS), unique=True, min_size=1)))
    has_missing = draw(st.booleans())
    value = [
        st.none() | VALUES[column.type] if has_missing else VALUES[column.type]
        for column in columns
    ]
    times = st.integers(-(2**63), 2**63 - 1)
    rows = draw(st.dictionaries(times, st.tuples(*value).map(list), min_size=1, max_size=20))
    absent = frozenset(draw(st.sets(st.sampled_from([column.name for column in columns]))))
    return columns, rows, absent, draw(st.none() | st.integers(1, 2**31 - 1))


def write_of(
    columns: tuple[Column, ...], rows: Rows, absent: frozenset[str], ttl_s: int | None
) -> PartitionWrite:
    """Return a write of rows; its bucket is any."""
    data = {
        column.name: column_from_list([row[index] for row in rows.values()], column.type)
        for index, column in enumerate(columns)
        if column.name not in absent
    }
    return PartitionWrite(
        series=SERIES,
        bucket=BUCKET,
        ts=np.array(list(rows), dtype=np.int64),
        columns=data,
        write_us=WRITE_US,
        ttl_s=ttl_s,
    )


def numbers_of(count: int) -> PartitionWrite:
    """Return a write of whole numbers in one column."""
    return write_of(COLUMNS[:1], {ts: [float(ts)] for ts in range(count)}, frozenset(), None)


def prepared_of(columns: tuple[Column, ...], ttl_s: int | None, version: int) -> Any:
    """Return the statement of a write, as the server describes it."""
    kinds = [("series", cqltypes.UTF8Type), ("bucket", cqltypes.UTF8Type)]
    kinds += [("ts", cqltypes.LongType), *((c.name, TYPES[c.type]) for c in columns)]
    kinds += [("[timestamp]", cqltypes.LongType)]
    kinds += [] if ttl_s is None else [("[ttl]", cqltypes.Int32Type)]
    described = [ColumnMetadata("plant", "readings", name, kind) for name, kind in kinds]
    return PreparedStatement(described, ID, [0, 1], "INSERT", None, version, None, None)


def encoded(handler: Any, batch: Any, version: int) -> bytes:
    """Return the frame of a batch, made as a session makes it."""
    keyspace = batch.keyspace if version >= 5 else None
    message = BatchMessage(
        batch.batch_type,
        batch._statements_and_parameters,
        ConsistencyLevel.LOCAL_QUORUM,
        ConsistencyLevel.SERIAL,
        WRITE_US + 1,
        keyspace,
    )
    frame: bytes = handler.encode_message(message, 7, version, None, False, *FEATURES)
    return frame


@given(drawn=writes(), version=st.sampled_from([4, 5]))
def test_frames_are_the_drivers_own_bytes(drawn: Any, version: int) -> None:
    columns, rows, absent, ttl_s = drawn
    prepared = prepared_of(columns, ttl_s, version)
    theirs = BatchStatement(BatchType.UNLOGGED)
    for ts, values in rows.items():
        cells = [
            UNSET_VALUE if value is None or column.name in absent else value
            for column, value in zip(columns, values, strict=True)
        ]
        tail = [WRITE_US] if ttl_s is None else [WRITE_US, ttl_s]
        theirs.add(prepared.bind([SERIES, BUCKET.text, ts, *cells, *tail]))
    (body,) = batch_bodies(write_of(columns, rows, absent, ttl_s), columns, ID)
    key = [SERIES.encode(), BUCKET.text.encode()]
    ours = batch_of_body(prepared, key, body.rows, body.body)
    assert (ours.routing_key, ours.keyspace) == (theirs.routing_key, theirs.keyspace)
    assert encoded(RawProtocolHandler, ours, version) == encoded(_ProtocolHandler, theirs, version)


def test_messages_of_the_driver_itself_stay_as_they_are() -> None:
    prepared = prepared_of(COLUMNS[:1], None, 5)
    batch = BatchStatement(BatchType.UNLOGGED)
    batch.add(prepared.bind([SERIES, BUCKET.text, 0, 1.0, WRITE_US]))
    assert encoded(RawProtocolHandler, batch, 5) == encoded(_ProtocolHandler, batch, 5)


@given(drawn=writes(), bytes_max=st.integers(100, 5_000))
def test_batches_stay_within_their_bytes_and_lose_no_row(drawn: Any, bytes_max: int) -> None:
    columns, rows, absent, ttl_s = drawn
    write = write_of(columns, rows, absent, ttl_s)
    (whole,) = batch_bodies(write, columns, ID)
    batches = list(batch_bodies(write, columns, ID, bytes_max=bytes_max))
    assert b"".join(bytes(batch.body) for batch in batches) == bytes(whole.body)
    assert sum(len(batch) for batch in batches) == len(rows)
    assert all(len(batch.body) <= bytes_max or len(batch) == 1 for batch in batches)


def test_batch_has_no_more_rows_than_the_protocol_counts() -> None:
    batches = list(batch_bodies(numbers_of(70_000), COLUMNS[:1], ID, bytes_max=2**40))
    assert [len(batch) for batch in batches] == [BATCH_ROWS_MAX, 70_000 - BATCH_ROWS_MAX]


def test_write_without_readings_makes_no_batch() -> None:
    assert list(batch_bodies(numbers_of(0), COLUMNS[:1], ID)) == []
