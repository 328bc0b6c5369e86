"""JSON lines in: the quick way and the exact way agree; every refused line is named."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.formats.test_csv_file import imported, lines_of
from treering.errors import UsageError
from treering.formats.layout import FileMapping
from treering.importing import FileFormat

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**65), 2**65),
    st.floats(),
    st.sampled_from(["NaN", "Infinity", "-Infinity", "1.5", "", "x", 5.0, 5.5, 2**53 + 1]),
)
TIMES = st.sampled_from(
    ["2026-11-30T12:00:00Z", "2026-11-30T12:00:01.5+01:00", "2026-11-30", "never", None, 5, ""]
)
RECORDS = st.fixed_dictionaries(
    {"ts": TIMES},
    optional={
        "series": st.sampled_from(["a", "b", 7, None, ""]),
        "value": VALUES,
        "level": VALUES,
        "total": VALUES,
        "ok": VALUES,
        "note": VALUES,
        "other": VALUES,
    },
)
LINES = st.one_of(
    RECORDS.map(json.dumps), st.sampled_from(["", "{", "[1]", "5", '{"ts": 1} x', '"text"', "null"])
)


@settings(max_examples=60)
@given(st.lists(LINES, max_size=8))
def test_the_quick_way_and_the_exact_way_agree(lines: list[str]) -> None:
    first = '{"series": "a", "ts": "2026-11-30T11:00:00Z", "value": 1}'
    text = "\n".join([first, *lines]) + "\n"
    columns = "value:double,level:int,total:bigint,ok:boolean,note:text"
    quick = imported(text, columns=columns, chunk_lines=3, form=FileFormat.JSONL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "pyarrow", None)
        exact = imported(text, columns=columns, chunk_lines=3, form=FileFormat.JSONL)
    assert quick == exact


def test_each_refused_line_is_named_with_its_number_and_reason() -> None:
    text = (
        '{"series": "a", "ts": "2026-11-30T12:00:00Z", "value": 1}\n'
        "not json\n"
        "[1, 2]\n"
        '{"series": "a", "ts": "2026-11-30T12:00:01Z", "value": "2"}\n'
        '{"ts": "2026-11-30T12:00:01Z", "value": 2}\n'
        '{"series": "a", "ts": "2026-11-30T12:00:02Z", "value": "NaN"}\n'
    )
    rows, refused = imported(text, columns="value:double", form=FileFormat.JSONL)
    assert [row["value"] for row in rows] == [1.0, "NaN"]
    assert lines_of(refused) == [
        (2, "not a line of JSON: Expecting value: line 1 column 1 (char 0)"),
        (3, "not an object but a list"),
        (4, "'2' in the column 'value' is not a double"),
        (5, "no series id"),
    ]
    assert refused[0].fields == ("not json",)


@pytest.mark.parametrize(
    ("ts", "message"), [('"2026-11-30T12:00:00"', "have no zone"), ("5", "without a unit")]
)
def test_times_without_zone_or_unit_refuse_the_file(ts: str, message: str) -> None:
    text = f'{{"series": "a", "ts": {ts}, "value": 1}}\n'
    with pytest.raises(UsageError, match=message):
        imported(text, columns="value:double", form=FileFormat.JSONL)


def test_numbers_with_a_unit_are_times() -> None:
    text = '{"series": "a", "ts": 1764504000.25, "value": 1}\n'
    expected: list[dict[str, Any]] = [
        {"series": "a", "ts": "2025-11-30T12:00:00.250Z", "value": 1.0}
    ]
    mapping = FileMapping(time_unit="s")
    rows, _ = imported(text, columns="value:double", form=FileFormat.JSONL, mapping=mapping)
    assert rows == expected
