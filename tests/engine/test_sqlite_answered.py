"""Blocks answer by their statistics: when, with what, and that no read by step tells."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import treering
from tests.engine.contract import ALL_TYPES, DAY_MS, NOW_MS, bits, delete_of, spec_of, write_of
from tests.engine.sealing import ALWAYS, END_S
from tests.engine.test_sqlite_sealing import (
    SPAN_MS,
    START_MS,
    body_of,
    damage,
    facts,
    seconds,
    segment_files,
)
from tests.pages import times_of
from treering.core.block import BlockStats
from treering.core.block_header import parse_header
from treering.core.bucket import bucket_of
from treering.core.read_plan import PartitionRead
from treering.core.table import TableSpec
from treering.engine.memory import MemoryEngine
from treering.engine.protocol import Engine, Page, PageRead
from treering.engine.sqlite import SqliteEngine
from treering.errors import CorruptDataError
from treering.store import Store


class WatchedEngine(SqliteEngine):
    """Keeps the pages that it gave, and seals before some of them, by a seed."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.pages: list[Page] = []
        self._random: random.Random | None = None

    def seal_between_pages(self, seed: int) -> None:
        """Begin to seal before some pages."""
        self._random = random.Random(seed)

    def submit_read(self, spec: TableSpec, read: PageRead) -> Future[Page]:
        if self._random is not None and self._random.random() < 0.4:
            assert self.seal(spec, now_s=END_S).problems == ()
        answer = super().submit_read(spec, read)
        if answer.exception() is None:
            self.pages.append(answer.result())
        return answer

    def taken(self) -> tuple[int, int]:
        """Return how many readings were unpacked and how many blocks answered, since last time."""
        pages, self.pages = self.pages, []
        return sum(map(len, pages)), sum(len(page.stats) for page in pages)


def clock() -> treering.ManualClock:
    """Return a clock that stands at the tests' present."""
    return treering.ManualClock(np.datetime64(NOW_MS, "ms"))


@pytest.fixture
def engine(tmp_path: Path) -> WatchedEngine:
    """Return an engine that seals nothing by itself."""
    engine = WatchedEngine(tmp_path / "store")
    engine.rules = replace(engine.rules, late_s=10**10)
    return engine


@pytest.fixture
def table(engine: WatchedEngine) -> Iterator[treering.Table]:
    """Yield a table with two days at 1/s: twelve blocks, each of four hours."""
    with Store(engine, clock=clock()) as store:
        table = store.create("readings", rate="1/s", retention="30d")
        for first in range(0, 2 * 86_400, 14_400):
            times = seconds(14_400, START_MS - DAY_MS + 1_000 * first)
            table.write("s", times, unit="ms", value=np.arange(first, first + 14_400, dtype=float))
        # A write may be cut inside of a span, and few readings of it be rows.
        engine.seal(table.spec, now_s=END_S + 10**10)
        assert facts(engine, table.spec) == (0, 12)
        yield table


def daily(table: treering.Table, *agg: str, start: int = START_MS - DAY_MS, **more: Any) -> Any:
    """Return what is asked of each day."""
    asked: dict[str, Any] = {"every": "1d", "agg": list(agg), "unit": "ms", **more}
    return table.read("s", start, START_MS + DAY_MS, **asked)


# When


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_blocks_inside_of_steps_are_not_unpacked(
    table: treering.Table, engine: WatchedEngine, order: str
) -> None:
    found = daily(table, "mean", "count", "first", order=order)
    assert engine.taken() == (0, 12)
    assert sorted(found["value_mean"].tolist()) == [43_199.5, 129_599.5]
    assert sorted(found["value_first"].tolist()) == [0.0, 86_400.0]
    assert found["value_count"].tolist() == [86_400, 86_400]


def test_blocks_that_reach_out_of_the_interval_or_a_step_are_unpacked(
    table: treering.Table, engine: WatchedEngine
) -> None:
    found = daily(table, "count", start=START_MS - DAY_MS + 1_000)
    assert engine.taken() == (14_399, 11)
    assert found["value_count"].tolist() == [86_399, 86_400]
    found = daily(table, "count", origin=START_MS + 1_000)
    assert engine.taken() == (2 * 14_400, 10)
    assert found["value_count"].tolist() == [1, 86_400, 86_399]
    found = daily(table, "count", every="5m")
    assert engine.taken() == (2 * 86_400, 0)
    assert found["value_count"].tolist() == [300] * 576


def test_block_under_a_late_reading_is_unpacked_until_that_is_folded_in(
    table: treering.Table, engine: WatchedEngine
) -> None:
    table.write("s", [START_MS + 500], unit="ms", value=[1e6])
    found = daily(table, "max", "count")
    assert engine.taken() == (14_401, 11)
    assert found["value_max"].tolist() == [86_399.0, 1e6]
    engine.seal(table.spec, now_s=END_S + 10**10)
    again = daily(table, "max", "count")
    assert engine.taken() == (0, 12)
    assert again["value_max"].tolist() == found["value_max"].tolist()
    assert again["value_count"].tolist() == [86_400, 86_401]


def test_statistics_know_nothing_of_what_was_deleted(
    table: treering.Table, engine: WatchedEngine
) -> None:
    table.delete("s", START_MS, START_MS + 14_000_000, unit="ms")
    found = daily(table, "count", "first")
    assert engine.taken() == (0, 12)
    assert found["value_count"].tolist() == [86_400, 72_400]
    assert found["value_first"].tolist() == [0.0, 86_400.0 + 14_000]


def test_block_that_starts_with_nan_tells_its_mean_and_not_its_first(
    table: treering.Table, engine: WatchedEngine
) -> None:
    table.write("s", seconds(1_000), unit="ms", value=[math.nan] * 1_000)
    daily(table, "mean")
    assert engine.taken() == (0, 12)
    assert daily(table, "first")["value_first"].tolist() == [0.0, 87_400.0]
    assert engine.taken() == (14_400, 11)


def test_count_of_readings_that_were_asked_for_does_not_hide_a_series(
    engine: WatchedEngine,
) -> None:
    with Store(engine, clock=clock()) as store:
        table = store.create("readings", rate="1/s", retention="30d")
        start = START_MS - DAY_MS
        table.write("unlisted", seconds(600, start), unit="ms", value=[2.0] * 600)
        engine._opened.catalog.series.remove(table.spec, ("unlisted",))
        found = table.read("unlisted", start, unit="ms", every="1d", agg="sum")
        assert engine.taken() == (0, 1)
        assert found["value_sum"].tolist() == [1_200.0]


# Damage


def flip_bit(engine: WatchedEngine, table: treering.Table, place: int | None) -> None:
    """Flip a bit in the first block of the first day, in its values for None."""
    path = segment_files(engine, table.spec)[0]
    body = bytearray(body_of(path))
    if place is None:
        place = parse_header(bytes(body), place="", is_whole=True).columns["value"].offset
    body[place] ^= 1
    statement = "UPDATE blocks SET body = ? WHERE span_start = (SELECT min(span_start) FROM blocks)"
    damage(path, statement, bytes(body))


def test_header_has_a_checksum_of_its_own_and_readings_are_not_looked_at(
    table: treering.Table, engine: WatchedEngine
) -> None:
    wanted = daily(table, "mean")["value_mean"].tolist()
    flip_bit(engine, table, None)
    assert daily(table, "mean")["value_mean"].tolist() == wanted
    with pytest.raises(CorruptDataError, match="the block of s from"):
        daily(table, "mean", every="5m")


@pytest.mark.parametrize("place", [0, 5, 60, 90], ids=["magic", "checksum", "times", "statistics"])
def test_damaged_header_is_never_believed(
    table: treering.Table, engine: WatchedEngine, place: int
) -> None:
    flip_bit(engine, table, place)
    with pytest.raises(CorruptDataError, match="the block of s from"):
        daily(table, "mean")
    found = daily(table, "count", skip_damaged=True)
    assert sum(found["value_count"].tolist()) == 2 * 86_400 - 14_400
    (missing,) = found.missing
    assert missing.end - missing.start == SPAN_MS - 999


@pytest.mark.parametrize("body", [b"", b"TB", "text", 7], ids=repr)
def test_what_is_no_block_does_not_answer(
    table: treering.Table, engine: WatchedEngine, body: Any
) -> None:
    path = segment_files(engine, table.spec)[0]
    damage(path, "UPDATE blocks SET body = ? WHERE id = (SELECT min(id) FROM blocks)", body)
    with pytest.raises(CorruptDataError):
        daily(table, "mean")


def test_statistics_of_another_block_are_not_taken(
    table: treering.Table, engine: WatchedEngine
) -> None:
    path = segment_files(engine, table.spec)[0]
    other = "(SELECT body FROM blocks ORDER BY span_start DESC LIMIT 1)"
    damage(path, f"UPDATE blocks SET body = {other} WHERE id = (SELECT min(id) FROM blocks)")
    with pytest.raises(CorruptDataError, match="the block of s from"):
        daily(table, "mean")


# Laws


class Some:
    """Lets blocks answer by when they begin."""

    def __init__(self, length: int, every: int) -> None:
        self._length = length
        self._every = every

    def may_answer(self, first_ts: Any, last_ts: Any) -> Any:
        assert len(first_ts) > 0
        assert (first_ts <= last_ts).all()
        return first_ts // self._length % 5 != 1

    def answers(self, blocks: Sequence[BlockStats]) -> Any:
        assert len(blocks) > 0
        return np.array([block.first_ts // self._length % self._every == 0 for block in blocks])


NUMBERS = st.none() | st.sampled_from(
    [0.0, -0.0, math.nan, math.inf, -math.inf, 0.1, 1.7e308, -3.0]
)
SLOW = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
_value = st.fixed_dictionaries(
    {"d": NUMBERS, "i": st.none() | st.integers(-3, 3), "t": st.none() | st.sampled_from("xy")}
)
_step = st.one_of(
    st.tuples(st.just("write"), st.integers(0, 60), st.lists(_value, min_size=1, max_size=12)),
    st.tuples(st.just("delete"), st.integers(0, 60), st.integers(1, 20)),
    st.tuples(st.just("seal")),
)


def run_step(engine: Engine, spec: TableSpec, step: tuple[Any, ...], write_us: int) -> None:
    """Write, delete or seal."""
    if step[0] == "write":
        _, first, rows = step
        times = [START_MS + TICK_MS * (first + place) for place in range(len(rows))]
        by_bucket: dict[Any, list[int]] = {}
        for place, ts in enumerate(times):
            by_bucket.setdefault(bucket_of(ts, spec.width, spec.precision), []).append(place)
        for places in by_bucket.values():
            columns = {name: [rows[place][name] for place in places] for name in ("d", "i", "t")}
            inside = [times[place] for place in places]
            engine.submit_write(spec, write_of(spec, "s", inside, write_us, **columns)).result()
    elif step[0] == "delete":
        start, end = (START_MS + TICK_MS * edge for edge in (step[1], step[1] + step[2]))
        while start < end:
            bucket = bucket_of(start, spec.width, spec.precision).interval(spec.precision)
            until = min(end, bucket.end)
            engine.submit_delete(spec, delete_of(spec, "s", start, until, write_us)).result()
            start = until
    elif isinstance(engine, SqliteEngine):
        assert engine.seal(spec, now_s=END_S).problems == ()


TICK_MS = 3_600_000 * 3 // 4
"""Readings lie 45 minutes apart: about two days are written to, over midnight of any zone."""


@given(
    steps=st.lists(_step, max_size=12),
    seed=st.integers(0, 9),
    bulk_rows=st.sampled_from([1, 4, 10**9]),
    span_h=st.sampled_from([2, 6, 24]),
    page_rows=st.integers(1, 20),
    inside=st.tuples(st.integers(-5, 75), st.integers(-5, 75)),
    asked=st.fixed_dictionaries(
        {
            "order": st.sampled_from(["asc", "desc"]),
            "empty": st.sampled_from(["absent", "null"]),
            "of": st.sampled_from(
                [
                    {"every": "1d", "tz": "America/New_York"},
                    {"every": "1d", "tz": "Asia/Kathmandu"},
                    {"every": "6h"},
                    {"every": "7h", "origin": "2020-01-01T00:30Z"},
                    {"every": "30d"},
                ]
            ),
            "what": st.sampled_from(
                [
                    (["d"], ["mean", "min", "max"]),
                    (["d", "i"], ["mean", "min", "max", "sum", "count", "first", "last"]),
                    (["i", "t"], ["count"]),
                    (["d", "t"], ["count", "first", "last"]),
                ]
            ),
        }
    ),
)
@settings(max_examples=60, deadline=None, suppress_health_check=SLOW)
def test_reads_by_step_are_bit_for_bit_those_of_the_memory_engine(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[Any, ...]],
    seed: int,
    bulk_rows: int,
    span_h: int,
    page_rows: int,
    inside: tuple[int, int],
    asked: dict[str, Any],
) -> None:
    rules = replace(ALWAYS, bulk_rows=bulk_rows, span_s=span_h * 3_600)
    sealing = WatchedEngine(tmp_path_factory.mktemp("store"), rules=rules)
    columns, agg = asked["what"]
    start, end = (START_MS + TICK_MS * edge for edge in sorted(inside))
    shown = []
    with ExitStack() as opened:
        patch = opened.enter_context(pytest.MonkeyPatch.context())
        for kind in (MemoryEngine, SqliteEngine):
            patch.setattr(kind, "page_rows_max", page_rows)
        for engine in (MemoryEngine(), sealing):
            store = opened.enter_context(Store(engine, clock=clock()))
            table = store.create("model", rate="32/d", retention="30d", columns=ALL_TYPES)
            table.add_series("s")
            for number, step in enumerate(steps):
                run_step(engine, table.spec, step, 10 + number)
            sealing.seal_between_pages(seed)
            found = table.read(
                "s",
                start,
                end,
                unit="ms",
                columns=columns,
                agg=agg,
                order=asked["order"],
                empty=asked["empty"],
                **asked["of"],
            )
            values = {
                column.name: list(map(bits, found[column.name].tolist())) for column in found.schema
            }
            shown.append((found.ts.tolist(), values))
    assert shown[0] == shown[1]


@given(
    rows=st.lists(_value, min_size=20, max_size=36),
    steps=st.lists(_step, max_size=6),
    seed=st.integers(0, 9),
    rows_max=st.integers(1, 9),
    order=st.sampled_from(["asc", "desc"]),
    inside=st.tuples(st.integers(0, 35), st.integers(0, 35)),
    chosen=st.integers(2, 4),
)
@settings(max_examples=60, deadline=None, suppress_health_check=SLOW)
def test_pages_and_their_blocks_hold_each_reading_once_whichever_blocks_answer(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[Any, ...]],
    rows: list[Any],
    seed: int,
    rows_max: int,
    order: Any,
    inside: tuple[int, int],
    chosen: int,
) -> None:
    rules = replace(ALWAYS, bulk_rows=4, span_s=6 * 3_600)
    sealing, memory = WatchedEngine(tmp_path_factory.mktemp("store"), rules=rules), MemoryEngine()
    spec = spec_of("model", columns=ALL_TYPES, rate_hz=32 / 86_400)
    specs = [engine.create_table(spec) for engine in (memory, sealing)]
    for number, step in enumerate([("write", 0, rows), ("seal",), *steps]):
        run_step(memory, specs[0], step, 10 + number)
        run_step(sealing, specs[1], step, 10 + number)
    sealing.seal_between_pages(seed)
    bucket = bucket_of(START_MS, spec.width, spec.precision)
    within = bucket.interval(spec.precision)
    start, end = (START_MS + TICK_MS * edge for edge in sorted(inside))
    part = PartitionRead("s", bucket, max(start, within.start), min(end, within.end))
    columns = tuple(column for column in spec.columns if column.name in "di")

    request = PageRead(partition=part, order=order, columns=columns, rows_max=rows_max)
    whole = memory.submit_read(specs[0], replace(request, rows_max=1_000)).result()
    wanted = sorted(times_of(whole).tolist())
    check_pages(sealing, specs[1], replace(request, answers=Some(TICK_MS, chosen)), wanted)
    sealing.close()


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_blocks_behind_the_last_reading_of_a_page_are_left_to_the_next(
    table: treering.Table, engine: WatchedEngine, order: Any
) -> None:
    spec = table.spec
    bucket = bucket_of(START_MS, spec.width, spec.precision)
    part = PartitionRead("s", bucket, START_MS, START_MS + DAY_MS)
    request = PageRead(
        partition=part,
        order=order,
        columns=spec.columns,
        rows_max=5_000,
        answers=Some(SPAN_MS, 2),
    )
    check_pages(engine, spec, request, seconds(86_400))
    # Which spans of a day these are depends on the day.
    spans = [START_MS // SPAN_MS + place for place in range(6)]
    answering = sum(span % 5 != 1 and span % 2 == 0 for span in spans)
    assert answering in (2, 3)
    assert engine.taken() == ((6 - answering) * 14_400, answering)


def check_pages(engine: Engine, spec: TableSpec, request: PageRead, wanted: list[int]) -> None:
    """Assert that pages in order and their blocks hold each time once."""
    times, stats = pages_of(engine, spec, request)
    assert times == sorted(times, reverse=request.order == "desc")
    held = list(times)
    for block in stats:
        covered = [ts for ts in wanted if block.first_ts <= ts <= block.last_ts]
        assert (covered[0], covered[-1], len(covered)) == (
            block.first_ts,
            block.last_ts,
            block.count,
        )
        held += covered
    assert sorted(held) == wanted


def pages_of(
    engine: Engine, spec: TableSpec, request: PageRead
) -> tuple[list[int], list[BlockStats]]:
    """Return the times and the blocks of all pages, each page after the one before."""
    times: list[int] = []
    stats: list[BlockStats] = []
    while True:
        page = engine.submit_read(spec, request).result()
        assert len(page) <= request.rows_max
        times += times_of(page).tolist()
        stats += page.stats
        if page.cursor is None:
            return times, stats
        request = replace(request, cursor=page.cursor)
