"""Problems that people had with what tools say about SSTables."""

from __future__ import annotations

import pytest

from tests.sstable.tool_text import deletion_in, number_in, parse_tool


@pytest.mark.parametrize(
    "printed",
    [
        "2147483647 (no tombstones)",
        "no tombstones (9223372036854775807)",
        "2147483647",
        "2147483647 (01/18/2038 21:14:07)",
    ],
    ids=["4.x", "5.0", "3.11", "an old tool that prints a date"],
)
def test_never_is_never_whatever_the_order(printed: str) -> None:
    assert deletion_in(printed) is None


@pytest.mark.parametrize(
    "printed",
    [
        "1582123535115908 (02/19/2020 14:45:35)",
        "02/19/2020 14:45:35 (1582123535115908)",
        "1582123535115908",
    ],
    ids=["4.x", "5.0", "3.11"],
)
def test_the_number_counts_and_never_the_date(printed: str) -> None:
    assert number_in(printed) == 1_582_123_535_115_908


def test_colours_do_not_matter() -> None:
    text = "SSTable: /d/nb-1-big\n\x1b[1;34mTTL min\x1b[0m: 86400 (1 day)\n"
    (tool,) = parse_tool(text).values()
    assert number_in(tool.fields["TTL min"]) == 86_400
