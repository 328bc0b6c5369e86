"""Sealing: when readings become blocks, what stays rows, and that no read tells the difference."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import treering
from tests.engine.contract import (
    ALL_TYPES,
    DAY_MS,
    NOW_MS,
    delete_of,
    read_all,
    spec_of,
    write_of,
)
from tests.engine.sealing import ALWAYS, END_S
from treering.core.read_plan import PartitionRead
from treering.core.segment import segment_length_s
from treering.core.span import span_length_s
from treering.core.table import TableSpec
from treering.engine.memory import MemoryEngine
from treering.engine.protocol import Engine, PageRead
from treering.engine.sqlite import SqliteEngine
from treering.engine.sqlite.block_table import SealRules
from treering.errors import CorruptDataError, SchemaMismatchError

ROWS = SealRules(is_on=False)
START_MS = NOW_MS - NOW_MS % DAY_MS - 2 * DAY_MS
SPAN_MS = 4 * 3_600_000


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[SqliteEngine]:
    engine = SqliteEngine(tmp_path / "store")
    yield engine
    engine.close()


@pytest.fixture
def spec(engine: SqliteEngine) -> TableSpec:
    """Return a table of one reading a second: spans of four hours."""
    spec = engine.create_table(spec_of("readings"))
    assert span_length_s(spec) * 1_000 == SPAN_MS
    return spec


def put(
    engine: SqliteEngine, spec: TableSpec, times: list[int], value: float, write_us: int
) -> None:
    write = write_of(spec, "s", times, write_us, value=[value] * len(times))
    engine.submit_write(spec, write).result()


def facts(engine: SqliteEngine, spec: TableSpec) -> tuple[int, int]:
    """Return how many rows and blocks a table has."""
    parts = engine.info(spec).parts
    return sum(part["rows"] for part in parts), sum(part["blocks"] for part in parts)


def segment_files(engine: SqliteEngine, spec: TableSpec) -> list[Path]:
    return sorted((engine.folder / spec.name).glob("*.db"))


def value_of(path: Path, statement: str) -> Any:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(statement).fetchone()[0]
    finally:
        connection.close()


def seconds(count: int, start: int = START_MS) -> list[int]:
    return [start + 1_000 * step for step in range(count)]


# When


def test_many_readings_of_a_span_are_a_block_at_once_and_few_are_rows(
    engine: SqliteEngine, spec: TableSpec
) -> None:
    engine.rules = replace(engine.rules, late_s=10**10)
    put(engine, spec, seconds(5_000), 1.0, 10)
    assert facts(engine, spec) == (0, 1)
    put(engine, spec, seconds(400, START_MS + SPAN_MS), 1.0, 10)
    assert facts(engine, spec) == (400, 1)


def test_rows_of_closed_spans_are_sealed_and_those_of_open_ones_wait(tmp_path: Path) -> None:
    engine = SqliteEngine(tmp_path, rules=replace(SealRules(), bulk_rows=10**9))
    spec = engine.create_table(spec_of("readings"))
    with_rows = SqliteEngine(tmp_path, rules=ROWS)
    put(with_rows, spec, seconds(100), 1.0, 10)
    put(with_rows, spec, seconds(100, START_MS + SPAN_MS), 1.0, 10)
    end_s = START_MS // 1_000 + SPAN_MS // 1_000
    assert engine.seal(spec, now_s=end_s + 3_599).readings == 0
    report = engine.seal(spec, now_s=end_s + 3_600)
    assert (report.readings, report.blocks) == (100, 1)
    assert facts(engine, spec) == (100, 1)
    assert engine.seal(spec, now_s=END_S).readings == 100
    assert facts(engine, spec) == (0, 2)
    assert engine.seal(spec, now_s=END_S).readings == 0
    with_rows.close()
    engine.close()


@pytest.mark.parametrize("when", ["after a write", "on close", "by the next process"])
def test_sealing_happens_by_itself(tmp_path: Path, when: str) -> None:
    old = START_MS - 20 * DAY_MS
    rows = SqliteEngine(tmp_path, rules=ROWS)
    spec = rows.create_table(spec_of("readings"))
    put(rows, spec, seconds(100, old), 1.0, 10)
    rows.close()
    engine = SqliteEngine(tmp_path)
    if when == "by the next process":
        put(engine, spec, [NOW_MS], 1.0, 10)
    else:
        put(engine, spec, [old + 200_000], 1.0, 10)
    if when == "on close":
        put(engine, spec, seconds(100, old + SPAN_MS), 1.0, 10)
    for _ in range(3):
        put(engine, spec, [NOW_MS + 1], 1.0, 10)
    engine.close()
    look = SqliteEngine(tmp_path, rules=ROWS)
    path = segment_files(look, spec)[0]
    assert value_of(path, "SELECT count(*) FROM readings") == 0
    assert value_of(path, "SELECT count(*) FROM blocks") == (2 if when == "on close" else 1)
    look.close()


def test_few_readings_of_a_span_stay_rows(engine: SqliteEngine, spec: TableSpec) -> None:
    put(engine, spec, seconds(31), 1.0, 10)
    engine.seal(spec, now_s=END_S)
    assert facts(engine, spec) == (31, 0)
    put(engine, spec, [START_MS + 31_000], 1.0, 10)
    engine.seal(spec, now_s=END_S)
    assert facts(engine, spec) == (0, 1)


# What is kept


def test_late_readings_stand_beside_their_block_and_win_by_their_write_time(
    engine: SqliteEngine, spec: TableSpec
) -> None:
    engine.rules = replace(engine.rules, late_s=10**10)
    times = seconds(3_000)
    put(engine, spec, times, 1.0, 10)
    put(engine, spec, [times[5], times[7] + 1], 2.0, 11)
    put(engine, spec, [times[6], times[8] + 1], 3.0, 9)
    wanted = dict.fromkeys(times, 1.0) | {times[5]: 2.0, times[7] + 1: 2.0, times[8] + 1: 3.0}

    def found() -> dict[int, float]:
        return dict(read_all(engine, spec, "s", START_MS, START_MS + SPAN_MS))

    assert facts(engine, spec) == (4, 1)
    assert found() == wanted
    engine.seal(spec, now_s=END_S + 10**10)
    assert facts(engine, spec) == (0, 1)
    assert found() == wanted
    # The block knows each cell's write time: a replay from a spool may carry an old one.
    put(engine, spec, [times[5], times[6]], 4.0, 10)
    assert found() == wanted | {times[6]: 4.0}


def test_write_times_of_every_cell_survive_sealing(tmp_path: Path) -> None:
    engine = SqliteEngine(tmp_path, rules=ALWAYS)
    spec = engine.create_table(spec_of(columns="temp:double,hum:double,note:text"))
    times = [START_MS + step for step in range(12)]
    for step, ts in enumerate(times):
        one = write_of(spec, "s", [ts], 100 + step, temp=[1.0])
        other = write_of(spec, "s", [ts], 200 - step, hum=[2.0], note=["a"])
        engine.submit_writes(spec, (one, other)).result()
    assert engine.seal(spec, now_s=END_S).readings > 0
    for step, ts in enumerate(times):
        older = write_of(spec, "s", [ts], 99 + step, temp=[8.0], hum=[9.0])
        newer = write_of(spec, "s", [ts], 201 - step, hum=[3.0])
        engine.submit_writes(spec, (older, newer)).result()
    engine.seal(spec, now_s=END_S)
    assert facts(engine, spec)[0] == 0
    assert read_all(engine, spec, "s", START_MS, START_MS + 100) == [
        (ts, 1.0, 3.0, "a") for ts in times
    ]
    engine.close()


def test_first_block_marks_the_file_and_keeps_the_length_of_spans(
    engine: SqliteEngine, spec: TableSpec, tmp_path: Path
) -> None:
    put(engine, spec, seconds(10), 1.0, 10)
    (path,) = segment_files(engine, spec)
    assert value_of(path, "PRAGMA user_version") == 1
    put(engine, spec, seconds(2_000), 1.0, 10)
    assert value_of(path, "PRAGMA user_version") == 2
    assert value_of(path, "SELECT value FROM meta WHERE key = 'span_s'") == "14400"
    engine.close()
    again = SqliteEngine(tmp_path / "store", rules=replace(ALWAYS, block_rows_max=65_536))
    put(again, spec, [START_MS + 500], 2.0, 20)
    again.seal(spec, now_s=END_S)
    assert facts(again, spec) == (0, 1)
    assert len(read_all(again, spec, "s", START_MS, START_MS + SPAN_MS)) == 2_001
    again.close()


def test_open_connection_sees_the_first_block_of_another(tmp_path: Path) -> None:
    one, other = SqliteEngine(tmp_path, rules=ROWS), SqliteEngine(tmp_path, rules=ROWS)
    spec = one.create_table(spec_of("readings"))
    put(one, spec, seconds(50), 1.0, 10)
    assert len(read_all(other, spec, "s", START_MS, START_MS + DAY_MS)) == 50
    one.seal(spec, now_s=END_S)
    assert facts(one, spec) == (0, 1)
    assert len(read_all(other, spec, "s", START_MS, START_MS + DAY_MS)) == 50
    put(other, spec, [START_MS], 5.0, 20)
    assert read_all(other, spec, "s", START_MS, START_MS + 1) == [(START_MS, 5.0)]
    one.close()
    other.close()


def test_reads_beside_a_sealer_never_miss_a_reading_nor_see_one_twice(tmp_path: Path) -> None:
    rows = SqliteEngine(tmp_path, rules=ROWS)
    spec = rows.create_table(spec_of("readings"))
    times = seconds(3_000)
    put(rows, spec, times, 1.0, 10)
    is_done = threading.Event()

    def seal() -> int:
        sealer, blocks = SqliteEngine(tmp_path, rules=ALWAYS), 0
        try:
            for step in range(15):
                put(sealer, spec, times[step::40], 1.0, 11 + step)
                blocks += sealer.seal(spec, now_s=END_S).blocks
        finally:
            sealer.close()
            is_done.set()
        return blocks

    with ThreadPoolExecutor(1) as pool:
        sealing = pool.submit(seal)
        looks = 0
        while looks < 3 or not is_done.is_set():
            found = read_all(rows, spec, "s", START_MS, times[-1] + 1, rows_max=10_000)
            assert [row[0] for row in found] == times
            looks += 1
        assert sealing.result(60) > 15
    rows.close()


def test_span_of_more_readings_than_a_block_holds_is_cut(
    engine: SqliteEngine, spec: TableSpec
) -> None:
    times = [START_MS + 100 * step for step in range(100_000)]
    engine.submit_write(spec, write_of(spec, "s", times, 10, value=times)).result()
    assert facts(engine, spec) == (0, 2)
    put(engine, spec, [times[0] + 1, times[-1] + 1], 1.0, 10)
    engine.seal(spec, now_s=END_S)
    assert facts(engine, spec) == (0, 2)
    more = [times[-1] + 2 + step for step in range(2_000)]
    engine.submit_write(spec, write_of(spec, "s", more, 10, value=more)).result()
    assert facts(engine, spec) == (0, 3)
    times += more
    found = read_all(engine, spec, "s", START_MS, times[-1] + 2, rows_max=30_000)
    assert [row[0] for row in found] == sorted([*times, times[0] + 1, times[99_999] + 1])


def test_more_text_than_a_block_holds_is_cut_too(engine: SqliteEngine) -> None:
    spec = engine.create_table(spec_of("texts", columns="note:text"))
    engine.rules = replace(engine.rules, bulk_rows=50)
    texts = [f"{step}" + "x" * 2**20 for step in range(70)]
    engine.submit_write(spec, write_of(spec, "s", seconds(70), note=texts)).result()
    assert facts(engine, spec) == (0, 2)
    assert [row[1] for row in read_all(engine, spec, "s", START_MS, START_MS + DAY_MS)] == texts


def test_space_of_sealed_rows_is_given_back(tmp_path: Path) -> None:
    rows = SqliteEngine(tmp_path, rules=ROWS)
    spec = rows.create_table(spec_of("readings"))
    put(rows, spec, seconds(40_000), 1.0, 10)
    rows.close()
    (path,) = segment_files(rows, spec)
    before = path.stat().st_size
    engine = SqliteEngine(tmp_path)
    report = engine.seal(spec, now_s=END_S)
    assert report.bytes_before >= before
    engine.close()
    assert value_of(path, "PRAGMA freelist_count") == 0
    assert path.stat().st_size < before / 10


# Deletions


@pytest.mark.parametrize("write_us", [9, 10, 11])
def test_deletion_takes_cells_out_of_blocks(
    engine: SqliteEngine, spec: TableSpec, write_us: int
) -> None:
    times = seconds(40_000)
    put(engine, spec, times, 1.0, 10)
    start, end = times[10], times[30_000]
    engine.submit_delete(spec, delete_of(spec, "s", start, end, write_us)).result()
    found = read_all(engine, spec, "s", START_MS, times[-1] + 1, rows_max=7_000)
    kept = [ts for ts in times if write_us < 10 or not start <= ts < end]
    assert [row[0] for row in found] == kept
    put(engine, spec, times[:50], 2.0, write_us)
    late = read_all(engine, spec, "s", START_MS, times[50])
    assert len(late) == (10 if write_us >= 10 else 50)


def test_listing_and_edges_know_readings_in_blocks(engine: SqliteEngine, spec: TableSpec) -> None:
    times = seconds(20_000)
    put(engine, spec, times, 1.0, 10)
    assert facts(engine, spec)[0] == 0
    with engine._held(spec, _segment(spec)) as file:
        assert file is not None
        for start, end in [
            (times[0], times[-1]),
            (times[5] + 1, times[700]),
            (times[-1] + 1, 2**60),
        ]:
            inside = [ts for ts in times if start <= ts < end]
            oldest = file.edge_ts("s", start=start, end=end, is_newest=False)
            newest = file.edge_ts("s", start=start, end=end, is_newest=True)
            assert (oldest, newest) == ((inside[0], inside[-1]) if inside else (None, None))


def _segment(spec: TableSpec) -> Any:
    from treering.core.segment import segment_of

    return segment_of(START_MS // 1_000, segment_length_s(spec))


# Damage


def damage(path: Path, statement: str, *values: Any) -> None:
    connection = sqlite3.connect(path)
    connection.execute(statement, values)
    connection.commit()
    connection.close()


def body_of(path: Path) -> bytes:
    return bytes(value_of(path, "SELECT body FROM blocks ORDER BY span_start LIMIT 1"))


def with_damage(engine: SqliteEngine, spec: TableSpec, kind: str) -> Path:
    """Write two spans and damage the block of the first."""
    noise = np.random.default_rng(3).normal(size=20_000).tolist()
    engine.submit_write(spec, write_of(spec, "s", seconds(20_000), 10, value=noise)).result()
    (path,) = segment_files(engine, spec)
    body = bytearray(body_of(path))
    if kind == "flipped":
        body[len(body) // 2] ^= 1
    elif kind == "cut off":
        del body[-100:]
    elif kind == "emptied":
        body = bytearray()
    elif kind == "newer":
        body[3] = 9
        import struct
        import zlib

        (size,) = struct.unpack_from("<I", body, 8)
        checksum = zlib.crc32(bytes(body[8:size]), zlib.crc32(bytes(body[:4])))
        struct.pack_into("<I", body, 4, checksum)
    statement = "UPDATE blocks SET body = ? WHERE span_start = (SELECT min(span_start) FROM blocks)"
    if kind == "another's":
        last = "SELECT body FROM blocks ORDER BY span_start DESC LIMIT 1"
        body = bytearray(value_of(path, last))
    damage(path, statement, bytes(body))
    return path


@pytest.mark.parametrize("kind", ["flipped", "cut off", "emptied", "another's", "newer"])
def test_damaged_block_is_named_and_costs_only_what_is_in_it(
    engine: SqliteEngine, spec: TableSpec, kind: str
) -> None:
    path = with_damage(engine, spec, kind)
    error = SchemaMismatchError if kind == "newer" else CorruptDataError
    with pytest.raises(error, match="the block of s from") as caught:
        read_all(engine, spec, "s", START_MS, START_MS + DAY_MS)
    assert path.name in str(caught.value)
    if kind == "newer":
        assert "version 9" in str(caught.value)
    later = START_MS + SPAN_MS
    assert len(read_all(engine, spec, "s", later, later + DAY_MS)) == 20_000 - 14_400
    # Writes into its span are kept beside it, many or few, and sealing leaves them there.
    put(engine, spec, [START_MS + 1], 2.0, 20)
    put(engine, spec, seconds(2_000, START_MS + 500), 2.0, 20)
    (problem,) = engine.seal(spec, now_s=END_S).problems
    assert "the block of s from" in problem
    assert facts(engine, spec) == (2_001, 2)
    delete = delete_of(spec, "s", START_MS, START_MS + 10, 30)
    with pytest.raises(error):
        engine.submit_delete(spec, delete).result()
    assert engine.info(spec).problems == ()
    (problem,) = engine.info(spec, is_thorough=True).problems
    assert "the block of s from" in problem
    assert path.name in problem


@pytest.mark.parametrize("kind", ["flipped", "newer"])
def test_read_that_skips_damage_names_what_it_leaves_out(tmp_path: Path, kind: str) -> None:
    clock = treering.ManualClock(np.datetime64(NOW_MS, "ms"))
    with treering.open(tmp_path / "store", clock=clock) as store:
        table = store.create("readings", rate="1/s", retention="30d")
        engine = table._context.engine
        assert isinstance(engine, SqliteEngine)
        with_damage(engine, table.spec, kind)
        late = START_MS + 5_000
        table.write("s", [late], unit="ms", value=[7.0])
        for order in ("asc", "desc"):
            found = table.read("s", START_MS, unit="ms", order=order, skip_damaged=True)
            (missing,) = found.missing
            assert (missing.start, missing.end) == (START_MS, START_MS + SPAN_MS - 999)
            kept = [late, *seconds(20_000 - 14_400, START_MS + SPAN_MS)]
            assert found.ts.tolist() == sorted(kept, reverse=order == "desc")
        error = SchemaMismatchError if kind == "newer" else CorruptDataError
        with pytest.raises(error, match="the block of s"):
            table.read("s", START_MS, unit="ms")


@pytest.mark.parametrize(
    "said",
    [
        pytest.param("first = last + 100000000000", id="it begins after its span"),
        pytest.param("first = span_start - 1", id="it begins before its span"),
        pytest.param("last = first - 1", id="it ends before it begins"),
        pytest.param("last = last + 86400000", id="it ends after its span"),
        pytest.param("count = 0", id="it has no readings"),
        pytest.param("first = 'x'", id="its first time is none"),
    ],
)
def test_block_of_which_the_file_says_what_cannot_be_true_is_not_left_out_in_silence(
    tmp_path: Path, said: str
) -> None:
    clock = treering.ManualClock(np.datetime64(NOW_MS, "ms"))
    with treering.open(tmp_path / "store", clock=clock) as store:
        table = store.create("readings", rate="1/s", retention="30d")
        engine = table._context.engine
        assert isinstance(engine, SqliteEngine)
        path = with_damage(engine, table.spec, "none")
        first = "span_start = (SELECT min(span_start) FROM blocks)"
        damage(path, f"UPDATE blocks SET {said} WHERE {first}")
        asks: list[dict[str, Any]] = [{}, {"order": "desc"}, {"every": "1d", "agg": "count"}]
        for ask in asks:
            with pytest.raises(CorruptDataError, match="the block of s from"):
                table.read("s", START_MS, unit="ms", **ask)
        found = table.read("s", START_MS, unit="ms", skip_damaged=True)
        (missing,) = found.missing
        assert (missing.start, missing.end) == (START_MS, START_MS + SPAN_MS + 1)
        assert len(found) == 20_000 - 14_400
        put(engine, table.spec, [START_MS + 1], 2.0, 20)
        (problem,) = engine.seal(table.spec, now_s=END_S).problems
        assert "the block of s from" in problem


def leads_elsewhere(path: Path, entry: bytes, to: int) -> None:
    """Let an entry of an index, which ends with the number of its row, lead to another row."""
    content = path.read_bytes()
    assert content.count(entry) == 1
    path.write_bytes(content.replace(entry, entry[:-1] + bytes([to])))


@pytest.mark.parametrize("index", ["series", "blocks"])
def test_damaged_index_never_gives_readings_of_another_series(
    engine: SqliteEngine, spec: TableSpec, index: str
) -> None:
    for name in ("one", "two", "three"):
        write = write_of(spec, name, seconds(1_000), 10, value=[1.0] * 1_000)
        engine.submit_write(spec, write).result()
    (path,) = segment_files(engine, spec)
    span_start = int(value_of(path, "SELECT min(span_start) FROM blocks"))
    engine.close()
    # As SQLite keeps an entry: the types of its parts, then these; the last one is the row.
    if index == "series":
        leads_elsewhere(path, b"\x03\x13\x01two\x02", 3)
    else:
        entry = b"\x04\x01\x05\x01\x02" + span_start.to_bytes(6, "big") + b"\x02"
        leads_elsewhere(path, entry, 3)
    again = SqliteEngine(engine.folder)
    with pytest.raises(CorruptDataError, match=path.name):
        read_all(again, spec, "two", START_MS, START_MS + DAY_MS)
    assert len(read_all(again, spec, "three", START_MS, START_MS + DAY_MS)) == 1_000
    problems = again.info(spec, is_thorough=True).problems
    assert path.name in problems[0]
    again.close()


def test_read_that_skips_damage_does_without_a_damaged_file(tmp_path: Path) -> None:
    clock = treering.ManualClock(np.datetime64(NOW_MS, "ms"))
    with treering.open(tmp_path / "store", clock=clock) as store:
        table = store.create("readings", rate="1/s", retention="30d", bucket="day")
        old = START_MS - 9 * DAY_MS
        table.write("s", [old, START_MS], unit="ms", value=[1.0, 2.0])
        engine = table._context.engine
        assert isinstance(engine, SqliteEngine)
        damaged = segment_files(engine, table.spec)[0]
    damaged.write_bytes(b"x" * 9_000)
    with treering.open(tmp_path / "store", clock=clock) as store:
        table = store.table("readings")
        found = table.read("s", old, unit="ms", skip_damaged=True)
        assert found.ts.tolist() == [START_MS]
        # Named by bucket, whatever was read together.
        assert found.missing[0].start == old
        for part in found.missing:
            within = part.bucket.interval(table.spec.precision)
            assert within.start <= part.start < part.end <= within.end


@given(
    late=st.lists(st.integers(-5, 30_005), max_size=20),
    inside=st.tuples(st.integers(-10, 30_010), st.integers(-10, 30_010)),
)
@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_count_of_blocks_and_rows_is_exact(
    engine: SqliteEngine, late: list[int], inside: tuple[int, int]
) -> None:
    engine.rules = replace(engine.rules, late_s=10**10)
    spec = engine.create_table(spec_of("counted"))
    engine.drop_table(spec)
    spec = engine.create_table(spec_of("counted"))
    put(engine, spec, seconds(30_000), 1.0, 10)
    for step in late:
        put(engine, spec, [START_MS + 500 * step], 2.0, 20)
    assert facts(engine, spec)[1] == 3
    times = {*seconds(30_000), *(START_MS + 500 * step for step in late)}
    start, end = (START_MS + 1_000 * edge for edge in sorted(inside))
    found = 0
    for day in range(-1, 2):
        bucket = write_of(spec, "s", [START_MS + day * DAY_MS], value=[1.0]).bucket
        within = bucket.interval(spec.precision)
        part = PartitionRead("s", bucket, max(start, within.start), min(end, within.end))
        request = PageRead(
            partition=part, order="asc", columns=spec.columns, rows_max=7, is_count=True
        )
        found += len(engine.submit_read(spec, request).result())
    assert found == sum(start <= ts < end for ts in times)


def test_damage_of_the_length_of_spans_is_named(engine: SqliteEngine, spec: TableSpec) -> None:
    put(engine, spec, seconds(2_000), 1.0, 10)
    (path,) = segment_files(engine, spec)
    damage(path, "DELETE FROM meta WHERE key = 'span_s'")
    engine.close()
    again = SqliteEngine(engine.folder)
    with pytest.raises(CorruptDataError, match=path.name):
        read_all(again, spec, "s", START_MS, START_MS + DAY_MS)
    again.close()


# Beside the memory engine

_step = st.one_of(
    st.tuples(
        st.just("write"),
        st.integers(0, 40),
        st.integers(1, 12),
        st.integers(1, 4),
        st.sampled_from("dt"),
    ),
    st.tuples(st.just("delete"), st.integers(0, 40), st.integers(1, 20), st.integers(1, 4)),
    st.tuples(st.just("seal")),
)


@given(
    steps=st.lists(_step, max_size=15),
    order=st.sampled_from(["asc", "desc"]),
    rows_max=st.integers(1, 9),
    bulk_rows=st.sampled_from([1, 4, 10**9]),
    inside=st.tuples(st.integers(0, 45), st.integers(0, 45)),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_writes_deletions_and_seals_read_like_the_memory_engine(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[Any, ...]],
    order: Any,
    rows_max: int,
    bulk_rows: int,
    inside: tuple[int, int],
) -> None:
    rules = replace(ALWAYS, bulk_rows=bulk_rows, span_s=1)
    sealing = SqliteEngine(tmp_path_factory.mktemp("store"), rules=rules)
    spec = spec_of("model", columns=ALL_TYPES)
    engines: list[Engine] = [MemoryEngine(), sealing]
    specs = [engine.create_table(spec) for engine in engines]
    for step in steps:
        for engine, of in zip(engines, specs, strict=True):
            if step[0] == "write":
                _, start, count, us, column = step
                times = [START_MS + 100 * (start + n) for n in range(count)]
                values = [str(us) if column == "t" else float(us)] * count
                engine.submit_write(of, write_of(of, "s", times, us, **{column: values})).result()
            elif step[0] == "delete":
                first = START_MS + 100 * step[1]
                delete = delete_of(of, "s", first, first + 100 * step[2], step[3])
                engine.submit_delete(of, delete).result()
            elif isinstance(engine, SqliteEngine):
                assert engine.seal(of, now_s=END_S).problems == ()
    start, end = (START_MS + 100 * edge for edge in sorted(inside))
    found = [
        read_all(engine, of, "s", start, end, order=order, rows_max=rows_max)
        for engine, of in zip(engines, specs, strict=True)
    ]
    assert repr(found[0]) == repr(found[1])
    sealing.close()
