"""Layouts: series ids and key columns give each other back, and what cannot be is refused."""

from __future__ import annotations

import json
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.core.bucket import bucket_of
from treering.core.bucket_form import BucketForm
from treering.core.layout import (
    BucketColumn,
    KeyColumn,
    KeyType,
    KeyValue,
    Layout,
    TimeColumn,
    TimeType,
    own_layout,
    quoted,
)
from treering.core.units import Precision
from treering.errors import UsageError

DAY = bucket_of(1_763_643_600_000, "day")
TIME = TimeColumn(name="ts", type=TimeType.BIGINT, unit="ms")
COLUMNS = (
    KeyColumn("kind", KeyType.TEXT),
    KeyColumn("id", KeyType.UUID),
    KeyColumn("line", KeyType.INT),
    KeyColumn("Key", KeyType.TEXT),
)


def layout_of(
    *series: KeyColumn, form: str | None = "epoch-ms", kind: KeyType = KeyType.BIGINT
) -> Layout:
    """Return a layout with these series columns."""
    bucket = None
    if form is not None:
        bucket = BucketColumn(name="b", type=kind, form=BucketForm.from_text(form))
    return Layout(keyspace="ks", table="t", series=series, bucket=bucket, time=TIME)


@given(
    st.text(st.characters(codec="utf-8"), max_size=20),
    st.uuids(),
    st.integers(-(2**31), 2**31 - 1),
    st.text(st.characters(codec="utf-8"), max_size=20),
)
def test_key_of_several_columns_comes_back_from_its_series_id(
    kind: str, uid: UUID, line: int, key: str
) -> None:
    layout = layout_of(*COLUMNS)
    values: tuple[KeyValue, ...] = (kind, uid, line, key)
    series = layout.series_of(values, DAY.width)
    assert series is not None
    assert layout.values_of(series) == values
    assert layout.key_of(series, DAY) == (*values, 1_763_596_800_000)


def test_parts_with_a_slash_are_escaped() -> None:
    layout = layout_of(COLUMNS[0], COLUMNS[3])
    assert layout.series_of(("a/b", "50%"), DAY.width) == "a%2Fb/50%25"
    assert layout.values_of("a%2Fb/50%25") == ("a/b", "50%")


def test_blanks_at_the_ends_of_a_part_are_escaped() -> None:
    layout = layout_of(COLUMNS[0], COLUMNS[3])
    assert layout.series_of((" a b ", " "), DAY.width) == "%20a b%20/%20"
    assert layout.values_of("%20a b%20/%20") == (" a b ", " ")
    for wrong in ("a%2fb/x", "a%41/x", "a%/x"):
        with pytest.raises(UsageError, match="escaped in another way"):
            layout.values_of(wrong)


@pytest.mark.parametrize(
    ("column", "text", "said"),
    [
        (COLUMNS[1], "pump-7", "takes uuid"),
        (COLUMNS[1], "0B1F3F8E-3F6D-4C0E-9A57-0D5B2F1C7E11", "not written as"),
        (COLUMNS[2], "007", "not written as"),
        (COLUMNS[2], str(2**31), "takes int"),
        (COLUMNS[2], "1.5", "takes int"),
    ],
)
def test_text_that_is_no_value_of_the_column_is_refused(
    column: KeyColumn, text: str, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        layout_of(column).values_of(text)


def test_single_text_is_the_series_id_as_it_is() -> None:
    layout = layout_of(COLUMNS[0])
    assert layout.values_of("a/b%2F") == ("a/b%2F",)
    assert layout.series_of(("a/b%2F",), DAY.width) == "a/b%2F"
    # What no series id can be has no name here.
    assert layout.series_of(("a\nb",), DAY.width) is None
    assert layout.series_of(("",), DAY.width) is None


def test_series_inside_the_bucket_text() -> None:
    layout = layout_of(form="{series}:{bucket}", kind=KeyType.TEXT)
    assert layout.key_of("s:42", DAY) == ("s:42:2025-11-20",)
    assert layout.series_of(("s:42:2025-11-20",), DAY.width) == "s:42"
    assert layout.series_of(("no bucket",), DAY.width) is None


def test_layout_without_any_series_is_refused() -> None:
    with pytest.raises(UsageError, match="which series"):
        layout_of()


@pytest.mark.parametrize(
    ("form", "kind"),
    [
        ("date", KeyType.TEXT),
        ("epoch-ms", KeyType.DATE),
        ("epoch-s", KeyType.TIMESTAMP),
        ("{series}:{bucket}", KeyType.INT),
        ("%Y%m%d", KeyType.UUID),
    ],
)
def test_form_that_a_column_cannot_hold_is_refused(form: str, kind: KeyType) -> None:
    with pytest.raises(UsageError, match="cannot hold the form"):
        layout_of(COLUMNS[0], form=form, kind=kind)


def test_digits_in_an_integer_column_are_a_number() -> None:
    assert layout_of(COLUMNS[0], form="%Y%m%d", kind=KeyType.INT).key_of("s", DAY) == (
        "s",
        20_251_120,
    )


@pytest.mark.parametrize(
    "layout",
    [
        layout_of(*COLUMNS),
        layout_of(COLUMNS[0], form=None),
        layout_of(form="{series}|%Y%m%d", kind=KeyType.TEXT),
        own_layout("readings", Precision.NS),
    ],
    ids=["several", "no bucket", "template", "own"],
)
def test_layout_comes_back_from_json(layout: Layout) -> None:
    assert Layout.from_json(json.loads(json.dumps(layout.to_json()))) == layout


def test_time_column_counts_in_its_own_unit() -> None:
    seconds = TimeColumn(name="t", type=TimeType.BIGINT, unit="s")
    assert (seconds.precision, seconds.step) == (Precision.MS, 1_000)
    assert TIME.step == 1
    with pytest.raises(UsageError, match="does not count 's'"):
        TimeColumn(name="t", type=TimeType.TIMESTAMP, unit="s")


@pytest.mark.parametrize(
    ("name", "written"),
    [("ts", "ts"), ("tempC", '"tempC"'), ("order", '"order"'), ('a"b', '"a""b"'), ("1st", '"1st"')],
)
def test_names_are_quoted_where_cql_needs_it(name: str, written: str) -> None:
    assert quoted(name) == written
