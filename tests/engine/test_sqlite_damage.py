"""A damaged or foreign file is named, and costs only what is in it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.engine.contract import DAY_MS, NOW_MS, NOW_S, read_all, spec_of, write_of
from treering.core.read_plan import Order
from treering.core.segment import segment_length_s, segment_of
from treering.core.table import TableSpec
from treering.engine.sqlite import SqliteEngine
from treering.engine.sqlite.block_table import SealRules
from treering.errors import CorruptDataError, SchemaMismatchError, TreeringError

OLD_MS = NOW_MS - 5 * DAY_MS


def put(engine: SqliteEngine, spec: TableSpec, ts: int) -> None:
    engine.submit_write(spec, write_of(spec, "s", [ts], value=[1.0])).result()


def path_of(engine: SqliteEngine, spec: TableSpec, ts: int) -> Path:
    return engine._path(spec, segment_of(ts // 1_000, segment_length_s(spec)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a closed store: the table ``readings`` with two segments, and the table ``other``."""
    engine = SqliteEngine(tmp_path / "store")
    for name in ("readings", "other"):
        spec = engine.create_table(spec_of(name))
        put(engine, spec, NOW_MS)
        put(engine, spec, OLD_MS)
    engine.close()
    return tmp_path / "store"


@pytest.fixture
def engine(folder: Path) -> Iterator[SqliteEngine]:
    engine = SqliteEngine(folder)
    yield engine
    engine.close()


def statement(sql: str) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        connection = sqlite3.connect(path)
        connection.execute(sql)
        connection.commit()
        connection.close()

    return damage


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4_096:] = b"\xa5" * (len(content) - 4_096)
    path.write_bytes(content)


def other_database(path: Path) -> None:
    path.unlink()
    statement("CREATE TABLE t(x)")(path)


def not_utf_8(path: Path) -> None:
    content = path.read_bytes()
    assert b" write_us INTEGER" in content
    path.write_bytes(content.replace(b" write_us INTEGER", b" write_u\xe5 INTEGER"))


def name_of_bytes(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA writable_schema=ON")
    connection.execute("UPDATE sqlite_master SET name = x'6d657461' WHERE name = 'meta'")
    connection.commit()
    connection.close()


DAMAGES = [
    pytest.param(lambda path: path.write_bytes(b""), "application id", id="emptied"),
    pytest.param(lambda path: path.write_bytes(b"x" * 9_000), "not a database", id="another file"),
    pytest.param(lambda path: path.write_bytes(path.read_bytes()[:5_000]), "", id="cut off"),
    pytest.param(flip, "", id="overwritten"),
    pytest.param(other_database, "application id", id="another application's database"),
    pytest.param(statement("DROP TABLE readings"), "readings", id="without its table"),
    pytest.param(not_utf_8, "UTF-8", id="a table's text is no UTF-8"),
    pytest.param(name_of_bytes, "", id="a table's name is no text"),
    pytest.param(
        statement("UPDATE meta SET value = CAST(x'ff' AS TEXT) WHERE key = 'store'"),
        "UTF-8",
        id="a value is no UTF-8",
    ),
    pytest.param(
        statement("UPDATE meta SET value = '0' WHERE key = 'start_s'"), "start_s 0", id="moved here"
    ),
    pytest.param(
        statement("UPDATE meta SET value = 'x' WHERE key = 'store'"), "store x", id="other store's"
    ),
]


@pytest.mark.parametrize(("damage", "found"), DAMAGES)
def test_damaged_segment_is_named_and_everything_else_lives_on(
    folder: Path, engine: SqliteEngine, damage: Callable[[Path], None], found: str
) -> None:
    spec, other = engine.load_table("readings"), engine.load_table("other")
    assert spec is not None
    assert other is not None
    path = path_of(engine, spec, OLD_MS)
    damage(path)
    with pytest.raises(CorruptDataError, match=path.name) as caught:
        read_all(engine, spec, "s", OLD_MS, OLD_MS + 1)
    assert caught.value.path == str(path)
    assert found in caught.value.found
    assert caught.value.expected
    with pytest.raises(CorruptDataError, match=path.name):
        put(engine, spec, OLD_MS)
    assert len(read_all(engine, spec, "s", NOW_MS, NOW_MS + 1)) == 1
    put(engine, spec, NOW_MS + 1)
    assert len(read_all(engine, other, "s", OLD_MS, OLD_MS + 1)) == 1
    assert engine.table_names() == ("other", "readings")
    (problem,) = engine.info(spec).problems
    assert path.name in problem
    assert len(engine.info(spec).parts) == 2
    assert engine.info(other).problems == ()


def test_damaged_segment_still_expires(folder: Path, engine: SqliteEngine) -> None:
    spec = engine.load_table("readings")
    assert spec is not None
    path = path_of(engine, spec, OLD_MS)
    path.write_bytes(b"x" * 9_000)
    report = engine.expire(spec, now_s=NOW_S + 27 * 86_400)
    assert [removal.name for removal in report.removals] == [path.name]
    assert not path.exists()
    assert engine.info(spec).problems == ()


def test_segment_that_was_replaced_by_a_good_one_is_used_again(
    folder: Path, engine: SqliteEngine
) -> None:
    spec = engine.load_table("readings")
    assert spec is not None
    path = path_of(engine, spec, OLD_MS)
    backup = path.read_bytes()
    path.write_bytes(b"x" * 9_000)
    with pytest.raises(CorruptDataError):
        read_all(engine, spec, "s", OLD_MS, OLD_MS + 1)
    path.write_bytes(backup)
    assert len(read_all(engine, spec, "s", OLD_MS, OLD_MS + 1)) == 1


def test_damage_inside_a_file_is_found_by_a_thorough_look(folder: Path) -> None:
    engine = SqliteEngine(folder, rules=SealRules(is_on=False))
    spec = engine.load_table("readings")
    assert spec is not None
    for step in range(40):
        times = [OLD_MS + 1 + step * 100 + n for n in range(100)]
        engine.submit_write(spec, write_of(spec, "s", times, value=[1.0] * 100)).result()
    engine.close()
    path = path_of(engine, spec, OLD_MS)
    content = bytearray(path.read_bytes())
    content[-4_096:] = b"\xa5" * 4_096
    path.write_bytes(content)
    again = SqliteEngine(folder)
    (problem,) = again.info(spec, is_thorough=True).problems
    assert path.name in problem
    again.close()


@pytest.mark.parametrize(("order", "off_ms"), [("asc", 50), ("asc", -DAY_MS), ("desc", 50)])
def test_event_time_that_a_damaged_page_puts_out_of_order_is_found_out(
    folder: Path, order: Order, off_ms: int
) -> None:
    engine = SqliteEngine(folder, rules=SealRules(is_on=False))
    spec = engine.load_table("readings")
    assert spec is not None
    for step in (1, 2, 3):
        put(engine, spec, OLD_MS + step)
    engine.close()
    path = path_of(engine, spec, OLD_MS)
    content, kept = path.read_bytes(), (OLD_MS + 2).to_bytes(6, "big")
    assert content.count(kept) == 1
    path.write_bytes(content.replace(kept, (OLD_MS + 2 + off_ms).to_bytes(6, "big")))
    again = SqliteEngine(folder)
    with pytest.raises(CorruptDataError, match="event times out of order"):
        read_all(again, spec, "s", OLD_MS, OLD_MS + 100, order=order)
    assert len(read_all(again, spec, "s", NOW_MS, NOW_MS + 1)) == 1
    again.close()


def test_segment_of_a_newer_release_is_refused(folder: Path, engine: SqliteEngine) -> None:
    spec = engine.load_table("readings")
    assert spec is not None
    statement("PRAGMA user_version=7")(path_of(engine, spec, OLD_MS))
    with pytest.raises(SchemaMismatchError, match="format 7"):
        read_all(engine, spec, "s", OLD_MS, OLD_MS + 1)


def test_stranger_among_the_segments_is_listed_and_left_alone(
    folder: Path, engine: SqliteEngine
) -> None:
    spec = engine.load_table("readings")
    assert spec is not None
    (folder / "readings" / "notes.txt").write_text("mine")
    (problem,) = engine.info(spec).problems
    assert "notes.txt" in problem
    assert len(read_all(engine, spec, "s", NOW_MS, NOW_MS + 1)) == 1
    engine.expire(spec, now_s=NOW_S + 10**8)
    assert (folder / "readings" / "notes.txt").read_text() == "mine"


def test_folder_in_the_place_of_a_segment_is_named(folder: Path, engine: SqliteEngine) -> None:
    spec = engine.load_table("readings")
    assert spec is not None
    path = path_of(engine, spec, OLD_MS)
    path.unlink()
    path.mkdir()
    with pytest.raises(TreeringError, match=path.name):
        read_all(engine, spec, "s", OLD_MS, OLD_MS + 1)
    (problem,) = engine.info(spec).problems
    assert path.name in problem
