"""What people pass to a write: arrays, scalars and frames of every library."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import sys
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.design_cases import planned
from treering.core.table import TableSpec
from treering.core.write_input import WriteInput
from treering.errors import MissingExtraError, UsageError
from treering.intake import input_of_series, inputs_of_frame, parse_zone

SPEC = TableSpec(
    name="readings",
    design=planned(columns="d:double,f:float,i:int,b:bigint,o:boolean,t:text", rate_hz=1 / 60),
)
DAY = "2025-11-20"
DAY_MS = 1_763_596_800_000


def of_frame(frame: Any, **options: Any) -> list[WriteInput]:
    options = {"time": "ts", "series": None, "columns": None, "unit": None, "tz": None} | options
    options.setdefault("series_name", None if options["series"] else "s")
    return list(inputs_of_frame(SPEC, frame, **options))


def one_of(frame: Any, **options: Any) -> WriteInput:
    (only,) = of_frame(frame, **options)
    return only


def values_of(found: WriteInput, name: str) -> list[Any]:
    return found.columns[name].to_list()


# One series


def test_one_time_with_one_value_each_is_one_reading() -> None:
    moment = dt.datetime(2025, 11, 20, tzinfo=dt.UTC)
    for time in (DAY, moment, moment.date(), np.datetime64(DAY), pd.Timestamp(moment)):
        found = input_of_series(SPEC, "s", time, {"d": 1.5, "t": None}, unit=None)
        assert found.ts.tolist() == [DAY_MS]
        assert (values_of(found, "d"), values_of(found, "t")) == ([1.5], [None])
    for number in (DAY_MS, np.int64(DAY_MS)):
        assert input_of_series(SPEC, "s", number, {"d": 1}, unit="ms").ts.tolist() == [DAY_MS]


@pytest.mark.parametrize(
    ("series", "times", "values", "words"),
    [
        ("s", [DAY], {}, "names no column"),
        ("s", [DAY], {"x": [1], "y": [1]}, "no column 'x', 'y'"),
        ("s", [DAY], {"d": [1, 2]}, "2 values for 1 times"),
        ("s", [DAY, DAY], {"d": [1, 2], "i": [1]}, "'i' has 1 values for 2 times"),
        ("s", [DAY], {"d": 1.5}, "was given float"),
        ("s", DAY, {"d": [1.5]}, "takes double, not list"),
        ("s", [DAY], {"t": "x"}, "was given str"),
        ("", [DAY], {"d": [1]}, "series id"),
        ("s", None, {"d": 1, "i": "x"}, "takes int, not str"),
        ("s", object(), {"d": [1]}, "object"),
    ],
)
def test_wrong_arguments_are_named(
    series: str, times: Any, values: dict[str, Any], words: str
) -> None:
    with pytest.raises((UsageError, TypeError), match=words):
        input_of_series(SPEC, series, times, values, unit=None)


def test_value_that_does_not_fit_marks_its_reading_only() -> None:
    found = input_of_series(
        SPEC, "s", [DAY] * 3, {"i": [1, 2**31, None], "b": [0.5, 1.0, 2.0]}, unit=None
    )
    assert found.unfit.tolist() == [True, True, False]
    assert found.timed.all()


# Frames

FRAME: dict[str, list[Any]] = {
    "d": [1.5, None, -0.0],
    "f": [0.5, None, 2.0],
    "i": [1, None, -(2**31)],
    "b": [2**53 + 1, None, 2**63 - 1],
    "o": [True, None, False],
    "t": ["a", None, "ä"],
}
TIMES = [dt.datetime(2025, 11, 20, hour, tzinfo=dt.UTC) for hour in (0, 1, 2)]
TIMES_MS = [DAY_MS, DAY_MS + 3_600_000, DAY_MS + 7_200_000]
PANDAS_TYPES = {"d": "Float64", "f": "Float32", "i": "Int32", "b": "Int64", "o": "boolean"}
PANDAS_TYPES["t"] = "string"


def as_pandas(extra: dict[str, Any] | None = None) -> pd.DataFrame:
    columns: dict[str, Any] = {"ts": pd.Series(TIMES), "sensor": pd.Categorical(["x", "y", "x"])}
    columns |= {name: pd.array(FRAME[name], dtype=PANDAS_TYPES[name]) for name in FRAME}  # type: ignore[call-overload]
    return pd.DataFrame(columns | (extra or {}))


def as_polars() -> pl.DataFrame:
    frame = pl.DataFrame({"ts": TIMES, "sensor": ["x", "y", "x"], **FRAME})
    return frame.with_columns(pl.col("sensor").cast(pl.Categorical))


def as_arrow() -> pa.Table:
    table = pa.table({"ts": TIMES, "sensor": ["x", "y", "x"], **FRAME})
    chunks = pa.concat_tables([table.slice(0, 1), table.slice(1)])
    return chunks.set_column(1, "sensor", chunks["sensor"].dictionary_encode())


def as_mapping() -> dict[str, Any]:
    return {"ts": TIMES, "sensor": ["x", "y", "x"], **FRAME}


FORMS: dict[str, Any] = {
    "pandas": as_pandas,
    "polars": as_polars,
    "arrow": as_arrow,
    "record batch": lambda: as_arrow().combine_chunks().to_batches()[0],
    "mapping": as_mapping,
}


@pytest.mark.parametrize("form", list(FORMS))
def test_frame_of_any_library_is_taken_exactly_with_its_nulls(form: str) -> None:
    found = one_of(FORMS[form]())
    assert found.ts.tolist() == TIMES_MS
    assert {name: values_of(found, name) for name in FRAME} == FRAME
    assert not found.unfit.any()


@pytest.mark.parametrize("form", list(FORMS))
def test_frame_is_grouped_by_series_in_order_of_appearance(form: str) -> None:
    x, y = of_frame(FORMS[form](), series="sensor")
    assert (x.series, y.series) == ("x", "y")
    assert x.ts.tolist() == [TIMES_MS[0], TIMES_MS[2]]
    assert x.index is not None
    assert x.index.tolist() == [0, 2]
    assert values_of(x, "b") == [2**53 + 1, 2**63 - 1]
    assert values_of(y, "b") == [None]


@given(st.lists(st.sampled_from("abcde"), max_size=20))
def test_grouping_keeps_every_row_once_and_in_order(names: list[str]) -> None:
    frame = {
        "ts": np.arange(len(names)).astype("datetime64[ms]"),
        "sensor": names,
        "i": list(range(len(names))),
    }
    groups = of_frame(frame, series="sensor")
    assert [group.series for group in groups] == list(dict.fromkeys(names))
    for group in groups:
        places = [place for place, name in enumerate(names) if name == group.series]
        assert group.ts.tolist() == values_of(group, "i") == places
        assert group.index is not None
        assert group.index.tolist() == places


def test_nan_of_a_plain_pandas_column_is_missing_and_of_an_array_a_value() -> None:
    # pandas itself does not tell them apart; Arrow and arrays do.
    assert values_of(one_of(pd.DataFrame({"ts": TIMES, "d": [1.0, math.nan, 2.0]})), "d")[1] is None
    mapping = one_of({"ts": TIMES, "d": np.array([1.0, math.nan, 2.0])})
    assert math.isnan(values_of(mapping, "d")[1])
    assert math.isnan(values_of(one_of(pa.table({"ts": TIMES, "d": [1.0, math.nan, 2.0]})), "d")[1])


def test_null_times_are_no_times_and_never_1970() -> None:
    arrow = pa.table({"ts": pa.array([None, DAY_MS], pa.int64()), "d": [1.0, 2.0]})
    found = one_of(arrow, unit="ms")
    assert (found.timed.tolist(), found.ts.tolist()) == ([False, True], [0, DAY_MS])
    stamps = pa.table(
        {"ts": pa.array([None, TIMES[0]], pa.timestamp("ns", "UTC")), "d": [1.0, 2.0]}
    )
    assert one_of(stamps).timed.tolist() == [False, True]
    texts = pa.table({"ts": [None, DAY], "d": [1.0, 2.0]})
    assert one_of(texts).timed.tolist() == [False, True]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("library", ["arrow", "pandas", "polars"])
def test_zone_less_times_of_a_frame_need_a_zone_in_every_unit(unit: str, library: str) -> None:
    table = pa.table(
        {"ts": pa.array([DAY_MS * 10**6], pa.timestamp("ns")).cast(pa.timestamp(unit)), "d": [1.0]}
    )
    frame: Any = table
    if library == "pandas":
        frame = table.to_pandas()
    elif library == "polars":
        frame = pl.from_arrow(table)
    with pytest.raises(UsageError, match="'ts' have no zone") as caught:
        one_of(frame)
    assert "Europe/Berlin" in caught.value.hint
    assert one_of(frame, tz="UTC").ts.tolist() == [DAY_MS]
    assert one_of(frame, tz="Europe/Berlin").ts.tolist() == [DAY_MS - 3_600_000]
    zoned = table.set_column(0, "ts", table["ts"].cast(pa.timestamp(unit, "America/New_York")))
    assert one_of(zoned).ts.tolist() == one_of(zoned, tz="Asia/Tokyo").ts.tolist() == [DAY_MS]


def test_zone_of_a_frame_holds_for_text_and_datetimes_without_one_too() -> None:
    naive = dt.datetime(2025, 7, 1, 12)  # noqa: DTZ001
    times = ["2025-07-01T12:00", naive, "2025-07-01T12:00Z", naive.replace(tzinfo=dt.UTC)]
    found = one_of({"ts": times, "d": [1.0] * 4}, tz="Europe/Berlin")
    noon_ms = 1_751_371_200_000
    assert found.ts.tolist() == [noon_ms - 7_200_000] * 2 + [noon_ms] * 2
    with pytest.raises(UsageError, match="zone"):
        one_of({"ts": times, "d": [1.0] * 4})


def test_each_row_has_the_offset_of_its_own_day() -> None:
    local = np.array(["2025-03-30T01:59:59.999", "2025-03-30T03:00", "2025-10-26T02:59"], "M8[ms]")
    found = one_of(pa.table({"ts": local, "d": [1.0, 2.0, 3.0]}), tz="Europe/Berlin")
    expected = np.array(
        ["2025-03-30T00:59:59.999", "2025-03-30T01:00", "2025-10-26T00:59"], "M8[ms]"
    )
    assert found.ts.tolist() == expected.astype(np.int64).tolist()
    skipped = pa.table({"ts": np.array(["2025-03-30T02:30"], "M8[ms]"), "d": [1.0]})
    with pytest.raises(UsageError, match="skips 2025-03-30T02:30"):
        one_of(skipped, tz="Europe/Berlin")


@pytest.mark.parametrize("year", ["1600-01-01", "2300-01-01"])
def test_years_that_nanoseconds_do_not_reach_keep_their_zone(year: str) -> None:
    frame = pa.table({"ts": np.array([year], "M8[ms]"), "d": [1.0]})
    utc = one_of(frame, tz="UTC").ts.tolist()
    moved = one_of(frame, tz="Asia/Kathmandu").ts.tolist()
    assert 5 * 3_600_000 < utc[0] - moved[0] < 6 * 3_600_000


def test_time_outside_the_calendar_is_refused_alone_in_any_zone() -> None:
    frame = pa.table(
        {"ts": pa.array([2**62, DAY_MS, -(2**62)], pa.timestamp("ms")), "d": [1.0] * 3}
    )
    for tz in ("UTC", "Europe/Berlin"):
        assert one_of(frame, tz=tz).timed.tolist() == [False, True, False]


def test_date_is_a_utc_day_in_every_frame() -> None:
    days = [dt.date(2025, 11, 20), None]
    for frame in (
        pa.table({"ts": days, "d": [1.0, 2.0]}),
        pl.DataFrame({"ts": days, "d": [1.0, 2.0]}),
    ):
        found = one_of(frame)
        assert found.ts.tolist() == [DAY_MS, 0]
        assert found.timed.tolist() == [True, False]


@pytest.mark.parametrize(
    ("values", "column", "words"),
    [
        ([decimal.Decimal("1.5")] * 3, "d", "takes double, not Decimal"),
        ([dt.date(2025, 1, 1)] * 3, "d", "takes double, not"),
        ([dt.timedelta(1)] * 3, "b", "takes bigint, not"),
        ([b"a"] * 3, "t", "takes text, not bytes"),
        ([[1.0]] * 3, "d", "takes double, not list"),
        ([True] * 3, "d", "takes double, not bool"),
        (["1"] * 3, "i", "takes int, not str"),
        ([1] * 3, "o", "takes boolean, not int64"),
    ],
)
@pytest.mark.parametrize(
    "library", [pa.table, pl.DataFrame, dict], ids=["arrow", "polars", "mapping"]
)
def test_column_of_the_wrong_type_is_named(
    library: Any, values: list[Any], column: str, words: str
) -> None:
    words = words.replace("int64", "int")
    with pytest.raises(UsageError, match=words):
        one_of(library({"ts": TIMES, column: values}))


def test_frame_columns_are_mapped_to_table_columns() -> None:
    frame = {"when": [DAY], "temp": [1.5], "d": [9.0], "other": ["x"]}
    found = one_of(frame, time="when", columns={"temp": "d"})
    assert {name: values_of(found, name) for name in found.columns} == {"d": [1.5]}


@pytest.mark.parametrize(
    ("frame", "options", "words"),
    [
        ({"d": [1.0]}, {}, "no column 'ts'"),
        ({"ts": [DAY], "d": [1.0]}, {"series": "sensor"}, "no column 'sensor'"),
        ({"ts": [DAY], "d": [1.0]}, {"series_name": None}, "neither was said"),
        ({"ts": [DAY], "d": [1.0]}, {"series": "d", "series_name": "s"}, "of one series"),
        ({"ts": [DAY], "x": [1.0]}, {}, "names no column"),
        ({"ts": [DAY], "d": [1.0]}, {"columns": {"x": "d"}}, "no column 'x'"),
        ({"ts": [DAY], "d": [1.0]}, {"columns": {"d": "x"}}, "no column 'x'"),
        ({"ts": [DAY], "d": [1], "i": [2]}, {"columns": {"d": "d", "i": "d"}}, "two columns"),
        ({"ts": [DAY], "d": [1.0, 2.0]}, {}, "2 values for 1 times"),
        ({"ts": [DAY], "d": [1.0], "n": ["a", "b"]}, {"series": "n"}, "2 values for 1 times"),
        (
            {"ts": [DAY], "d": [1.0], "n": [None]},
            {"series": "n"},
            "row 0 of the frame has no series",
        ),
        ({"ts": [DAY], "d": [1.0], "n": [""]}, {"series": "n"}, "series id"),
        ({"ts": [DAY], "d": [1.0], "n": [1.5]}, {"series": "n"}, "no series id but 1.5"),
        ({"ts": [DAY], "d": [1.0]}, {"tz": "Mars/Olympus"}, "'Mars/Olympus' is not a time zone"),
        ([1, 2], {}, "list is not a frame"),
        ("frame", {}, "str is not a frame"),
    ],
)
def test_wrong_frame_is_named(frame: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        of_frame(frame, **options)


def test_numbers_can_be_series_ids() -> None:
    names = [
        group.series for group in of_frame({"ts": [DAY] * 2, "d": [1, 2], "n": [7, 8]}, series="n")
    ]
    assert names == ["7", "8"]


@pytest.mark.parametrize("form", ["pandas", "polars", "arrow"])
def test_frame_without_rows_writes_nothing(form: str) -> None:
    frame = FORMS[form]()[:0]
    assert of_frame(frame, series="sensor") == []
    assert len(one_of(frame).ts) == 0


def test_frame_without_pyarrow_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = as_polars()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError) as caught:
        one_of(frame)
    assert caught.value.extra == "arrow"
    assert one_of(as_mapping()).ts.tolist() == TIMES_MS


@pytest.mark.parametrize("name", ["UTC", "utc", "Europe/Berlin", "America/New_York"])
def test_zone_is_found_by_name(name: str) -> None:
    assert dt.datetime(2025, 1, 1, tzinfo=parse_zone(name)).utcoffset() is not None


@pytest.mark.parametrize(
    "name", ["", "Nowhere", "../etc/passwd", "/etc/localtime", "Europe", "a\0b"]
)
def test_what_is_no_zone_is_named(name: str) -> None:
    with pytest.raises(UsageError, match="is not a time zone"):
        parse_zone(name)
