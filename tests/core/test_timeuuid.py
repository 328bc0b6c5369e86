"""Times in version 1 UUIDs, against the standard library's own reading of them."""

from __future__ import annotations

import uuid

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from treering.core.timeuuid import (
    TIMEUUID_END_US,
    TIMEUUID_MIN_US,
    times_of_timeuuids,
    timeuuid_bound,
    timeuuids_of,
)

TIMES = st.integers(TIMEUUID_MIN_US, TIMEUUID_END_US - 1)
EPOCH = uuid.UUID("13814000-1dd2-11b2-8000-000000000000").time


@given(st.lists(TIMES, min_size=1))
def test_uuid_of_a_time_is_of_version_1_and_gives_it_back(times: list[int]) -> None:
    made = timeuuids_of(np.array(times, dtype=np.int64))
    for item, ts in zip((uuid.UUID(bytes=b) for b in made), times, strict=True):
        assert (item.version, item.variant) == (1, uuid.RFC_4122)
        assert item.time - EPOCH == ts * 10
    back = times_of_timeuuids(np.frombuffer(b"".join(made), dtype="V16"))
    assert back.tolist() == times


def test_one_time_has_one_uuid_whose_node_is_no_machine() -> None:
    first, second = timeuuids_of(np.array([5, 5], dtype=np.int64))
    assert first == second
    assert uuid.UUID(bytes=first).node >> 40 & 1


@given(st.uuids(version=1))
def test_any_uuid_is_floored_to_microseconds(item: uuid.UUID) -> None:
    (ts,) = times_of_timeuuids(np.frombuffer(item.bytes, dtype="V16")).tolist()
    assert ts == (item.time - EPOCH) // 10


@given(TIMES, st.uuids(version=1))
def test_bound_divides_uuids_as_cassandra_orders_them(ts: int, item: uuid.UUID) -> None:
    def order(value: uuid.UUID) -> tuple[int, list[int]]:
        # TimeUUIDType: the time first, then the rest as signed bytes.
        return value.time, [b - 256 if b > 127 else b for b in value.bytes[8:]]

    bound = uuid.UUID(bytes=timeuuid_bound(ts))
    (found,) = times_of_timeuuids(np.frombuffer(item.bytes, dtype="V16")).tolist()
    assert (order(item) >= order(bound)) == (found >= ts)


def test_bound_outside_the_range_is_the_nearest_inside() -> None:
    assert timeuuid_bound(-(2**62)) == timeuuid_bound(TIMEUUID_MIN_US)
    assert timeuuid_bound(2**62) == timeuuid_bound(TIMEUUID_END_US - 1)
