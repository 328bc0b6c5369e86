"""CSV in: the quick way and the exact way agree; every refused line is named."""

from __future__ import annotations

import datetime as dt
import io
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treering
from treering.errors import UsageError
from treering.formats.chunk import RefusedLine
from treering.formats.csv_file import original_of, records_of
from treering.formats.export import json_rows
from treering.formats.layout import FileMapping
from treering.formats.lines import LINE_BYTES_MAX, LineBlock
from treering.importing import FileFormat, ImportOptions, run_import

NOW = "2026-11-30T14:00Z"
# Where the readings of these tests lie: a read of three centuries would touch too much.
SPANS = (
    ("1820-05-01", "1820-05-02"),
    ("1969-12-31", "1970-01-02"),
    ("1980-01-01", "2011-01-01"),
    ("2011-01-01", "2026-12-02"),
)
COLUMNS = "value:double,level:int,total:bigint,ok:boolean,note:text,small:float"


def imported(
    text: str | bytes,
    *,
    mapping: FileMapping | None = None,
    columns: str = COLUMNS,
    chunk_lines: int = 1_000,
    precision: str = "ms",
    form: FileFormat = FileFormat.CSV,
    finer: Any = "floor",
) -> tuple[list[dict[str, Any]], list[RefusedLine]]:
    """Import text into a table in memory; return its readings and the refused lines."""
    data = text.encode() if isinstance(text, str) else text
    refused: list[RefusedLine] = []
    options = ImportOptions(
        mapping=mapping or FileMapping(),
        chunk_lines=chunk_lines,
        on_refused=lambda line, _: refused.append(line),
    )
    with treering.open("memory://", clock=treering.ManualClock(NOW)) as store:
        table = store.create(
            "r", rate="1/h", retention=None, columns=columns, precision=precision, finer=finer
        )
        run_import(table, io.BytesIO(data), form, options, path="f.csv")
        names = list(table.series())
        rows = [
            row
            for start, end in SPANS
            for row in (json_rows(table.read(names, start, end, rows_max=10**12)) if names else ())
        ]
    return rows, refused


def lines_of(refused: list[RefusedLine]) -> list[tuple[int, str]]:
    return [(line.line, line.reason) for line in refused]


TIMES = st.sampled_from(
    [
        "2026-11-30T13:00:00Z",
        "2026-11-30 13:00:01.5Z",
        "2026-11-30T13:00:02.123456789+01:00",
        "2026-11-30T13:00+0100",
        "2026-11-30T13Z",
        "2026-11-30",
        "2026-11-30T13:00:03",
        "2026-02-30T13:00:00Z",
        "2026-11-30T24:00:00Z",
        "1969-12-31T23:59:59.999Z",
        "1820-05-01T00:00:00Z",
        "",
        "soon",
        " 2026-11-30T13:00:05Z",
    ]
)
FIELDS = st.sampled_from(
    [
        *(" ", " 1.5", " -0.0", "nan", "inf", "-Infinity", "1e400", "1e-400", "7", " 7 ", "07"),
        *("+7", "0x1F", "9007199254740993", ".", "é", "٣", "9223372036854775808", "3000000000"),
        *("5.0", "1_000", "1e3", "true", "False", "0", "1", "yes", "abc", '"quoted, text"', ""),
        *('"two\nlines"', '5" pipe', '""', '"a ""b"""', "NaN", "NA", "null", "2.5000000000000001"),
    ]
)
LINES = st.one_of(
    st.tuples(st.sampled_from(["a", "b", "", "x y"]), TIMES, *[FIELDS] * 6).map(",".join),
    st.sampled_from(["", "   ", "a,b", "a," * 9, '"never closed', "\tx"]),
)


@settings(max_examples=60)
@given(st.lists(LINES, max_size=12), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_the_quick_way_and_the_exact_way_agree(lines: list[str], end: str, last: bool) -> None:
    header = "series,ts,value,level,total,ok,note,small"
    first = "a,2026-11-30T12:00:00Z,1,1,1,1,x,1"
    text = end.join([header, first, *lines]) + (end if last else "")
    quick = imported(text, chunk_lines=3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "pyarrow", None)
        exact = imported(text, chunk_lines=3)
    assert quick == exact


# Wall-clock times: what files without zones hold.
SIMPLE_TIMES = st.datetimes(
    min_value=dt.datetime(1980, 1, 2),  # noqa: DTZ001
    max_value=dt.datetime(2026, 1, 1),  # noqa: DTZ001
)


@settings(max_examples=20)
@given(
    st.lists(st.tuples(SIMPLE_TIMES, st.floats()), min_size=1, max_size=30),
    st.sampled_from([None, "%d.%m.%Y %H:%M:%S"]),
    st.sampled_from(["UTC", "America/Los_Angeles", "Europe/Berlin"]),
)
def test_local_times_mean_the_same_either_way(
    items: list[tuple[Any, float]], form: str | None, tz: str
) -> None:
    times = [t.strftime(form) if form else t.isoformat(timespec="seconds") for t, _ in items]
    text = "when,value\n" + "".join(f"{t},{v!r}\n" for t, (_, v) in zip(times, items, strict=True))
    mapping = FileMapping(time="when", series_name="s", tz=tz, time_format=form)
    quick = imported(text, mapping=mapping, columns="value:double")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "pyarrow", None)
        exact = imported(text, mapping=mapping, columns="value:double")
    assert quick == exact
    assert len(quick[0]) + len(quick[1]) > 0


@pytest.mark.parametrize("chunk_lines", [1, 2, 1_000])
def test_each_refused_line_is_named_with_its_number_and_reason(chunk_lines: int) -> None:
    text = (
        "series,ts,value\n"
        "a,2026-11-30T12:00:00Z,1\n"
        "\n"
        "a,2026-11-30T12:00:01Z,abc\n"
        "a,2026-11-30T12:00:02Z,2,3\n"
        "a,2026-13-30T12:00:02Z,2\n"
        'a,2026-11-30T12:00:03Z,"4\n'
        "a,2026-11-30T12:00:04Z,5\n"
        ",2026-11-30T12:00:05Z,6\n"
        "a,2026-11-30T12:00:06Z,\n"
    )
    rows, refused = imported(text, columns="value:double", chunk_lines=chunk_lines)
    assert [row["value"] for row in rows] == [1.0, 5.0]
    assert lines_of(refused) == [
        (4, "'abc' in the column 'value' is not a double"),
        (5, "4 fields where the header has 3"),
        (6, "'2026-13-30T12:00:02Z' is not a time: month must be in 1..12"),
        (7, "a quote is opened and never closed"),
        (9, "no series id"),
        (10, "no value in any column"),
    ]
    assert refused[0].fields == ("a", "2026-11-30T12:00:01Z", "abc")


def test_a_line_after_quoted_line_ends_keeps_its_number() -> None:
    text = 'series,ts,note\na,2026-11-30T12:00:00Z,"one\ntwo\nthree"\nb,never,x\n'
    rows, refused = imported(text, columns="note:text", chunk_lines=1)
    assert [row["note"] for row in rows] == ["one\ntwo\nthree"]
    assert [line.line for line in refused] == [5]


def test_a_line_that_is_not_utf8_is_refused_alone() -> None:
    text = b"series,ts,value\na,2026-11-30T12:00:00Z,1\n\xff\xfe,2026-11-30T12:00:00Z,2\n"
    rows, refused = imported(text, columns="value:double")
    assert len(rows) == 1
    assert lines_of(refused) == [(3, "the line is not UTF-8 text")]


def test_a_line_without_end_does_not_fill_memory() -> None:
    huge = b"x" * (3 * LINE_BYTES_MAX)
    text = b"series,ts,value\n" + huge + b"\na,2026-11-30T12:00:00Z,1\n"
    rows, refused = imported(text, columns="value:double")
    assert len(rows) == 1
    assert lines_of(refused) == [(2, "the line is longer than 1,048,576 bytes")]


def test_a_byte_order_mark_is_no_part_of_the_first_name() -> None:
    rows, _ = imported(
        b"\xef\xbb\xbfseries,ts,value\na,2026-11-30T12:00:00Z,1\n", columns="value:double"
    )
    assert len(rows) == 1


def test_times_finer_than_the_table_can_be_refused() -> None:
    text = "series,ts,value\na,2026-11-30T12:00:00.0005Z,1\na,2026-11-30T12:00:00.5Z,2\n"
    rows, refused = imported(text, columns="value:double", finer="refuse")
    assert [row["value"] for row in rows] == [2.0]
    assert lines_of(refused) == [(2, "finer than the table's precision")]


@pytest.mark.parametrize(
    ("field", "unit", "expected"),
    [
        ("1764504000", "s", "2025-11-30T12:00:00.000Z"),
        ("1764504000.25", "s", "2025-11-30T12:00:00.250Z"),
        ("1764504000123", "ms", "2025-11-30T12:00:00.123Z"),
        ("1764504000123456", "us", "2025-11-30T12:00:00.123Z"),
        ("-1", "ms", "1969-12-31T23:59:59.999Z"),
        ("1.764504e9", "s", "2025-11-30T12:00:00.000Z"),
    ],
)
def test_times_as_numbers_have_the_stated_unit(field: str, unit: str, expected: str) -> None:
    text = f"series,ts,value\na,{field},1\n"
    rows, _ = imported(text, columns="value:double", mapping=FileMapping(time_unit=unit))
    assert rows == [{"series": "a", "ts": expected, "value": 1.0}]


@pytest.mark.parametrize(
    ("text", "mapping", "message", "hint"),
    [
        ("", {}, "f.csv is empty", "names of its columns"),
        ("\n\n", {}, "f.csv has no header in line 1", "names of its columns"),
        ("a,b\n1,2\n", {}, "none of the columns of 'r'", "--column"),
        ("series,value\na,1\n", {}, "no column 'ts' for the event times", "--time"),
        ("ts,value\n2026-11-30,1\n", {}, "no column 'series'", "--series-name"),
        ("series,ts,value\na,2026-11-30T12:00,1\n", {}, "'ts' of f.csv have no zone", "--tz"),
        ("series,ts,value\na,1764504000,1\n", {}, "numbers without a unit", "--time-unit"),
        ("ts,ts,value\n", {"series_name": "a"}, "2 columns named 'ts'", "different names"),
        ("series,ts,v\n", {"columns": {"x": "value"}}, "no column 'x' for the values", "--column"),
        ("series,ts,v\n", {"columns": {"v": "nope"}}, "'r' has no column 'nope'", "columns are"),
        (
            "series;ts;value\na;2026-11-30;1\n",
            {},
            "is one column, 'series;ts;value'",
            "--delimiter ';'",
        ),
        ("series\tts\tvalue\n", {}, "is one column", "--delimiter '\\t'"),
        ("series,ts,value\n", {"delimiter": ";"}, "not separated by ';'", "--delimiter ','"),
        (b"\xff\xfes\x00", {}, "UTF-16", "iconv"),
    ],
)
def test_a_file_that_cannot_be_taken_is_refused_as_a_whole(
    text: str | bytes, mapping: dict[str, Any], message: str, hint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        imported(text, mapping=FileMapping(**mapping), columns="value:double")
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_a_hour_that_the_clock_skips_is_refused_and_one_it_shows_twice_is_the_first() -> None:
    text = "ts,value\n2010-03-14T02:00,1\n2010-03-14T03:00,2\n2010-11-07T01:00,3\n"
    mapping = FileMapping(series_name="s", tz="America/Los_Angeles")
    rows, refused = imported(text, mapping=mapping, columns="value:double")
    assert [row["ts"] for row in rows] == ["2010-03-14T10:00:00.000Z", "2010-11-07T08:00:00.000Z"]
    assert [line.line for line in refused] == [2]
    assert "the clock of America/Los_Angeles skips 2010-03-14T02:00:00" in refused[0].reason


def test_other_delimiters_and_names_are_taken_as_stated() -> None:
    text = "sensor;when;Temp °C\na;2026-11-30T12:00Z;1.5\n"
    mapping = FileMapping(time="when", series="sensor", columns={"Temp °C": "value"}, delimiter=";")
    rows, _ = imported(text, mapping=mapping, columns="value:double")
    assert rows == [{"series": "a", "ts": "2026-11-30T12:00:00.000Z", "value": 1.5}]


PLAIN = st.lists(st.sampled_from(["x", "1.5", "", 'in"side']), min_size=3, max_size=3)
RECORDS = st.one_of(
    PLAIN.map(lambda fields: ("plain", fields)),
    st.tuples(PLAIN, st.integers(0, 2)).map(
        lambda pair: (
            "stray",
            [('"q' if i == pair[1] else "") + f.replace('"', "") for i, f in enumerate(pair[0])],
        )
    ),
    st.tuples(PLAIN, st.integers(0, 2), st.integers(1, 3)).map(
        lambda three: (
            "quoted",
            [
                '"' + "l,\n" * three[2] + '"' if i == three[1] else f.replace('"', "")
                for i, f in enumerate(three[0])
            ],
        )
    ),
)


@settings(max_examples=200)
@given(st.lists(RECORDS, max_size=9), st.integers(1, 500))
def test_every_record_has_the_number_of_its_line_whatever_quotes_stand_around(
    records: list[tuple[str, list[str]]], first_line: int
) -> None:
    text, line = "", first_line
    expected: list[tuple[int, str, list[str] | None]] = []
    for kind, fields in records:
        record = ",".join(fields) + "\n"
        value = [f.removeprefix('"').removesuffix('"') if "\n" in f else f for f in fields]
        expected.append((line, kind, None if kind == "stray" else value))
        text += record
        line += record.count("\n")
    block = LineBlock(first_line, [part.encode() for part in text.splitlines(keepends=True)])
    found = list(records_of(block, ",", 3))
    assert [number for number, _ in found] == [number for number, _, _ in expected]
    original = original_of(block, ",", 3)
    for (number, got), (_, kind, wanted) in zip(found, expected, strict=True):
        assert isinstance(got, str) == (kind == "stray"), number
        assert wanted is None or got == wanted
        raw = block.lines[number - first_line].decode().rstrip("\n")
        assert original(number) == ((raw,) if wanted is None else tuple(wanted))


def test_a_stray_quote_spoils_no_line_behind_it_though_a_later_one_holds_a_quote_too() -> None:
    lines = ["a,2026-11-30T13:00:00Z,1"] * 15
    lines += ['a,"2026-11-30T13:00:01Z,2', 'a,2026-11-30T13:00:02Z,"3', "b,2026-11-30T13:00:00Z,4"]
    rows, refused = imported("series,ts,value\n" + "\n".join(lines) + "\n", columns="value:double")
    assert [line.line for line in refused] == [17, 18]
    assert [row["series"] for row in rows] == ["a", "b"]


class CountingLines(list[bytes]):
    """A list that counts how many lines were asked of it."""

    asked = 0

    def __getitem__(self, place: Any) -> Any:
        self.asked += len(range(*place.indices(len(self)))) if isinstance(place, slice) else 1
        return super().__getitem__(place)


def test_looking_a_refused_line_up_costs_no_more_the_more_lines_stand_around() -> None:
    lines = CountingLines(b"a,1,2\n" for _ in range(10_000))
    original = original_of(LineBlock(1, lines), ",", 3)
    assert all(original(line) == ("a", "1", "2") for line in range(1, 10_001, 100))
    assert 100 <= lines.asked < 1_000
