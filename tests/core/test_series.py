"""Series records: tags are text, bounded, and their order never matters."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.core.bucket import BucketWidth
from treering.core.series import (
    TAGS_MAX,
    SeriesRecord,
    check_same_series,
    check_tags,
    records_of,
    render_tags,
    tags_from_text,
    tags_to_text,
)
from treering.core.widths import WidthSince
from treering.errors import CorruptDataError, UsageError

TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="="), min_size=1)
TAGS = st.dictionaries(TEXT.map(lambda text: text[:20]), TEXT.map(lambda text: text[:50]))


@given(tags=TAGS.filter(lambda tags: len(tags) <= TAGS_MAX))
def test_tags_survive_the_catalog_whatever_their_order(tags: dict[str, str]) -> None:
    backwards = dict(reversed(list(tags.items())))
    assert tags_to_text(tags) == tags_to_text(backwards)
    assert tags_from_text(tags_to_text(tags)) == tags
    assert SeriesRecord(name="s", tags=tags) == SeriesRecord(name="s", tags=backwards)


@pytest.mark.parametrize(
    "tags",
    [
        {"a": 1},
        {"a": 1.0},
        {"a": True},
        {"a": None},
        {1: "a"},
        {"": "a"},
        {"a": ""},
        {"a=b": "c"},
        {"a": "\n"},
        {"a": "\ud800"},
        {"a" * 101: "b"},
        {"a": "b" * 257},
        {str(number): "x" for number in range(TAGS_MAX + 1)},
        ["a"],
    ],
)
def test_tags_that_are_not_bounded_text_are_refused(tags: Any) -> None:
    with pytest.raises(UsageError):
        check_tags(tags)


@pytest.mark.parametrize("text", ["{", '{"a": 1}', '["a"]'])
def test_damaged_tags_are_named(text: str) -> None:
    with pytest.raises(CorruptDataError, match="tags"):
        tags_from_text(text)


def test_ids_and_records_are_one_list_without_repeats() -> None:
    own = SeriesRecord(name="b", tags={"x": "1"})
    assert records_of(["a", own, "b", "a"]) == (SeriesRecord(name="a"), own)
    assert own.has_tags({"x": "1"})
    assert own.has_tags({})
    assert not own.has_tags({"x": "1", "y": "2"})
    assert render_tags({"b": "2", "a": "1"}) == "a=1, b=2"


def test_series_that_is_there_with_another_width_or_tags_is_named() -> None:
    hour = (WidthSince(width=BucketWidth.HOUR, since_s=None),)
    there = SeriesRecord(name="s", tags={"a": "1"}, widths=hour)
    assert check_same_series(there, SeriesRecord(name="s")) == there
    assert check_same_series(there, SeriesRecord(name="s", tags={"a": "1"}, widths=hour)) == there
    with pytest.raises(UsageError, match="a=1"):
        check_same_series(there, SeriesRecord(name="s", tags={"a": "2"}))
    day = (WidthSince(width=BucketWidth.DAY, since_s=None),)
    with pytest.raises(UsageError, match="width") as caught:
        check_same_series(there, SeriesRecord(name="s", widths=day))
    assert "set_bucket" in caught.value.hint
