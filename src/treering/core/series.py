"""A series as the catalog knows it: its id, its tags, its widths.

Rules of this file: a series is its id, tags only describe it, so no order or type of a tag ever
makes a second series; tags are text to text and bounded, and what is not text is refused instead
of being turned into it (1 and 1.0 would be one to some and two to others).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from treering.core.schema import check_series
from treering.core.widths import History, check_history
from treering.errors import CorruptDataError, UsageError

TAGS_MAX: Final = 16
TAG_NAME_BYTES_MAX: Final = 100
TAG_VALUE_BYTES_MAX: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesRecord:
    """A series of a table.

    Attributes:
        name: The series id.
        tags: What describes it, text to text, by name.
        widths: How it cut event time over time, oldest first; empty for the table's width since
            ever.
    """

    name: str
    tags: Mapping[str, str] = field(default_factory=dict)
    widths: History = ()

    def __post_init__(self) -> None:
        check_series(self.name)
        object.__setattr__(self, "tags", check_tags(self.tags))
        check_history(self.widths)

    def has_tags(self, wanted: Mapping[str, str]) -> bool:
        """Return whether the series has all of these tags."""
        return all(self.tags.get(name) == value for name, value in wanted.items())


def records_of(series: Iterable[str | SeriesRecord]) -> tuple[SeriesRecord, ...]:
    """Return records of series that are given as records or by their ids; each id once."""
    records: dict[str, SeriesRecord] = {}
    for one in series:
        record = one if isinstance(one, SeriesRecord) else SeriesRecord(name=one)
        records.setdefault(record.name, record)
    return tuple(records.values())


def check_tags(tags: Mapping[str, str] | None) -> dict[str, str]:
    """Return tags in order of their names.

    Raises:
        UsageError: Not text to text, empty, too long, too many, or with a control character.
    """
    if tags is None:
        return {}
    if not isinstance(tags, Mapping):
        raise UsageError(f"tags are a mapping of text to text, not {tags!r}")
    if len(tags) > TAGS_MAX:
        raise UsageError(f"a series has at most {TAGS_MAX} tags, not {len(tags)}")
    for name, value in tags.items():
        _check_text(name, "name", TAG_NAME_BYTES_MAX)
        _check_text(value, f"value of the tag {name!r}", TAG_VALUE_BYTES_MAX)
        if "=" in name:
            raise UsageError(f"the tag {name!r} has an equals sign in its name")
    return dict(sorted(tags.items()))


def _check_text(text: Any, what: str, bytes_max: int) -> None:
    if not isinstance(text, str):
        raise UsageError(
            f"the {what} is not text but {type(text).__name__}: {text!r}",
            hint="write it as text, such as '1'",
        )
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        size = 0
    if not 1 <= size <= bytes_max or any(ord(c) < 32 or ord(c) == 127 for c in text):
        raise UsageError(
            f"{text[:40]!r} cannot be the {what}",
            hint=f"use 1 to {bytes_max} bytes of text without control characters",
        )


def tags_to_text(tags: Mapping[str, str]) -> str:
    """Return tags as text, the same whatever their order."""
    return json.dumps(dict(sorted(tags.items())), ensure_ascii=False)


def tags_from_text(text: str) -> dict[str, str]:
    """Return the tags that :func:`tags_to_text` wrote.

    Raises:
        CorruptDataError: Not the text of tags.
    """
    try:
        return check_tags(json.loads(text) if text else None)
    except ValueError as error:
        raise CorruptDataError(
            f"the catalog's tags of a series cannot be read: {text[:200]!r}",
            hint="restore the catalog from a backup",
            found=text,
        ) from error


def render_tags(tags: Mapping[str, str]) -> str:
    """Return tags for people: ``site=north, type=pump``."""
    return ", ".join(f"{name}={value}" for name, value in sorted(tags.items()))


def check_same_series(there: SeriesRecord, wanted: SeriesRecord) -> SeriesRecord:
    """Return the record that is there if it is the one that was wanted.

    Raises:
        UsageError: It has other tags, or another width.
    """
    if wanted.tags and there.tags != wanted.tags:
        raise UsageError(
            f"the series {there.name!r} is there with the tags {render_tags(there.tags) or 'none'}",
            hint="change them with set_tags",
        )
    if wanted.widths and (
        not there.widths or there.widths[-1].width is not wanted.widths[-1].width
    ):
        raise UsageError(
            f"the series {there.name!r} is there with another bucket width",
            hint=f"change it from a date on: set_bucket({there.name!r}, "
            f"'{wanted.widths[-1].width}')",
        )
    return there
