"""Whether a key has a bucket: by type, by what stands in it, by name, or nobody knows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.doctor.checks.tables import (
    DAY_S,
    HOUR_S,
    MINUTE_S,
    NOW_S,
    days,
    node,
    ours,
    planned,
    schema,
    sstable,
    table,
)
from treering.doctor.checks.key_shape import key_shape_of, split_key
from treering.doctor.facts import ColumnFacts, SchemaFacts


def composite(*values: bytes) -> bytes:
    """Return a partition key of several columns as Cassandra serializes it."""
    return b"".join(len(value).to_bytes(2, "big") + value + b"\0" for value in values)


KEYS = {
    "series text, bucket text": ("bucketed", None),
    "sensor text, day date": ("bucketed", DAY_S),
    "sensor text, d date": ("bucketed", DAY_S),
    "host text, start timestamp": ("bucketed", None),
    "sensor text, yyyymmdd int": ("bucketed", None),
    "sensor text, hourBucket bigint": ("bucketed", HOUR_S),
    "entity text, key text, partition bigint": ("bucketed", None),
    "series text": ("unbucketed", None),
    "tenant uuid, device int": ("unbucketed", None),
    "key blob": ("unknown", None),
    "key frozen<list<text>>": ("unknown", None),
}


@pytest.mark.parametrize(("key", "wanted"), KEYS.items(), ids=KEYS)
def test_names_and_types_tell(key: str, wanted: tuple[str, int | None]) -> None:
    found = key_shape_of(table(schema(key=key)))
    assert (found.shape, found.width_s) == wanted


def test_a_series_whose_name_ends_like_a_word_for_time_is_no_bucket() -> None:
    assert key_shape_of(table(schema(key="weather text, holiday text"))).shape == "unbucketed"


@pytest.mark.parametrize(
    ("clustering", "shape"),
    [
        ("ts timestamp desc", "unbucketed"),
        ("name text, at timeuuid", "unbucketed"),
        ("event_time bigint", "unbucketed"),
        ("span_id bigint", "not a series"),
        ("name text", "not a series"),
        ("", "not a series"),
    ],
)
def test_only_a_clustering_time_makes_a_series(clustering: str, shape: str) -> None:
    assert key_shape_of(table(schema(key="series text", clustering=clustering))).shape == shape


def test_the_design_in_the_comment_says_the_width() -> None:
    found = key_shape_of(ours(planned()))
    assert (found.shape, found.width_s) == ("bucketed", DAY_S)


VALUES = {
    "a day": (b"2026-11-27", DAY_S),
    "a day behind the series": (b"pump-7:2026-11-27", DAY_S),
    "a day without dashes": (b"20261127", DAY_S),
    "an hour": (b"2026-11-27T13", HOUR_S),
    "a quarter": (b"2026-11-27T13:15/15min", MINUTE_S),
    "a week": (b"2026-W47", 7 * DAY_S),
    "a month": (b"2026-11", 31 * DAY_S),
}


@pytest.mark.parametrize(("value", "width_s"), VALUES.values(), ids=VALUES)
def test_texts_in_the_keys_of_files_tell_a_bucket_of_any_name(value: bytes, width_s: int) -> None:
    key = composite(b"pump-7", value)
    facts = table(schema(key="a text, b text"), node([sstable(first_key=key, last_key=key)]))
    found = key_shape_of(facts)
    assert (found.shape, found.width_s) == ("bucketed", width_s)


NUMBERS = {
    "20261127": "bucketed",
    "202611": "bucketed",
    str((NOW_S - 3 * DAY_S) // DAY_S): "bucketed",
    str(NOW_S * 1_000): "bucketed",
    "7": "unbucketed",
    "123456789": "unbucketed",
}


@pytest.mark.parametrize(("number", "shape"), NUMBERS.items(), ids=NUMBERS)
def test_integers_near_to_the_write_times_tell_a_bucket(number: str, shape: str) -> None:
    key = composite(b"pump-7", int(number).to_bytes(8, "big"))
    facts = table(schema(key="a text, b bigint"), node([sstable(first_key=key, last_key=key)]))
    assert key_shape_of(facts).shape == shape


def test_one_key_that_holds_no_time_is_enough_to_say_no() -> None:
    keys = [composite(b"pump-7", b"2026-11-27"), composite(b"pump-7", b"north")]
    files = [sstable(id=str(i), first_key=key, last_key=key) for i, key in enumerate(keys)]
    assert key_shape_of(table(schema(key="a text, b text"), node(files))).shape == "unbucketed"


FILES_ONLY = SchemaFacts(
    table_id="",
    partition_key=(ColumnFacts(name="key", type="text"),),
    clustering=(ColumnFacts(name="column1", type="timestamp"),),
    columns=(),
    options=None,
)


def test_without_names_and_keys_nobody_knows() -> None:
    assert key_shape_of(table(FILES_ONLY)).shape == "unknown"


def test_files_months_apart_with_the_same_partitions_have_no_bucket() -> None:
    files = [
        sstable(id=str(n), start_s=NOW_S - n * DAY_S, first_token=-5, last_token=9)
        for n in (100, 60, 1)
    ]
    assert key_shape_of(table(FILES_ONLY, node(files))).shape == "unbucketed"
    near = [replace(file, first_token=i, last_token=90) for i, file in enumerate(files)]
    assert key_shape_of(table(FILES_ONLY, node(near))).shape == "unknown"
    assert key_shape_of(table(FILES_ONLY, node(days(30, first_token=1, last_token=2)))).shape == (
        "unknown"
    )


@given(st.lists(st.binary(max_size=40), min_size=2, max_size=5))
def test_keys_come_apart_as_they_were_put_together(values: list[bytes]) -> None:
    assert split_key(composite(*values), len(values)) == tuple(values)


@given(st.binary(max_size=60), st.integers(min_value=1, max_value=6))
def test_no_key_breaks_the_reader(key: bytes, parts: int) -> None:
    found = split_key(key, parts)
    assert found is None or len(found) == parts
