"""Opening, creating and dropping: what is somebody else's is never touched."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.engine.contract import NOW_MS, NOW_S, read_all, spec_of, write_of
from treering.engine.sqlite import SqliteEngine
from treering.errors import (
    CorruptDataError,
    EngineError,
    SchemaMismatchError,
    StoreClosedError,
    UsageError,
)


def names_under(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_empty_folder_becomes_a_store(tmp_path: Path) -> None:
    SqliteEngine(tmp_path).close()
    assert names_under(tmp_path) == ["catalog.db"]
    SqliteEngine(tmp_path, create=False).close()


def test_missing_folder_is_made_with_its_parents(tmp_path: Path) -> None:
    SqliteEngine(tmp_path / "a" / "b ?#%41").close()
    assert (tmp_path / "a" / "b ?#%41" / "catalog.db").is_file()


def test_folder_without_a_store_is_refused_where_none_is_to_be_made(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(UsageError, match="no treering store"):
            SqliteEngine(folder, create=False)
    assert names_under(tmp_path) == []


def test_folder_of_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match=r"thesis\.txt"):
        SqliteEngine(tmp_path)
    assert names_under(tmp_path) == ["thesis.txt"]


def test_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "readings.csv"
    path.write_text("ts,value\n")
    with pytest.raises(UsageError, match="is a file"):
        SqliteEngine(path)
    assert path.read_text() == "ts,value\n"


def test_catalog_of_another_application_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    other = sqlite3.connect(path)
    other.execute("PRAGMA application_id=42")
    other.execute("CREATE TABLE books(title)")
    other.close()
    before = path.read_bytes()
    with pytest.raises(UsageError, match="another application"):
        SqliteEngine(tmp_path)
    assert names_under(tmp_path) == ["catalog.db"]
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"not a database, but long enough to be read" * 100])
def test_damaged_catalog_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "catalog.db").write_bytes(content)
    with pytest.raises(CorruptDataError, match=r"catalog\.db") as caught:
        SqliteEngine(tmp_path)
    assert caught.value.path == str(tmp_path / "catalog.db")


def test_catalog_of_a_newer_release_is_refused(tmp_path: Path) -> None:
    SqliteEngine(tmp_path).close()
    connection = sqlite3.connect(tmp_path / "catalog.db")
    connection.execute("PRAGMA user_version=9")
    connection.close()
    with pytest.raises(SchemaMismatchError, match="format 9") as caught:
        SqliteEngine(tmp_path)
    assert "upgrade" in caught.value.hint


@contextmanager
def ordinary_user() -> Iterator[Path]:
    """Yield a folder, with the rights of a user who is not the superuser."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        is_root = os.geteuid() == 0
        if is_root:
            os.seteuid(65_534)
        try:
            yield folder
        finally:
            if is_root:
                os.seteuid(0)
            for path in [folder, *folder.rglob("*")]:
                path.chmod(0o777)


def test_folder_without_permission_is_refused() -> None:
    with ordinary_user() as folder:
        closed = folder / "closed"
        closed.mkdir(mode=0o000)
        with pytest.raises(UsageError, match="permission denied"):
            SqliteEngine(closed)


def test_folder_that_cannot_be_written_is_an_engine_error() -> None:
    with ordinary_user() as folder:
        store = folder / "store"
        store.mkdir()
        store.chmod(0o555)
        with pytest.raises(EngineError, match="store"):
            SqliteEngine(store)
        assert names_under(store) == []


def test_store_that_became_read_only_says_so() -> None:
    with ordinary_user() as folder:
        engine = SqliteEngine(folder / "store")
        spec = engine.create_table(spec_of("readings"))
        (folder / "store" / "readings").chmod(0o555)
        write = write_of(spec, "s", [NOW_MS], value=[1.0])
        with pytest.raises(EngineError, match="readings") as caught:
            engine.submit_write(spec, write).result()
        assert "writable" in caught.value.hint
        engine.close()


def test_table_folder_that_cannot_be_entered_is_an_engine_error() -> None:
    with ordinary_user() as folder:
        engine = SqliteEngine(folder / "store")
        spec = engine.create_table(spec_of("readings"))
        (folder / "store" / "readings").chmod(0o000)
        write = write_of(spec, "s", [NOW_MS], value=[1.0])
        with pytest.raises(EngineError, match="readings"):
            engine.submit_write(spec, write).result()
        with pytest.raises(EngineError, match="readings"):
            read_all(engine, spec, "s", NOW_MS, NOW_MS + 1)
        with pytest.raises(EngineError, match="readings"):
            engine.expire(spec, now_s=NOW_S)
        (folder / "store" / "readings").chmod(0o777)
        engine.submit_write(spec, write).result()
        engine.close()


def test_what_crashes_left_long_ago_is_cleared_away(tmp_path: Path) -> None:
    engine = SqliteEngine(tmp_path)
    spec = engine.create_table(spec_of("readings"))
    engine.submit_write(spec, write_of(spec, "s", [NOW_MS], value=[1.0])).result()
    old = [
        tmp_path / "readings" / ".new.2025-11-20T000000Z.db.1-ab",
        tmp_path / "readings" / "2025-11-20T000000Z.db-wal",
    ]
    fresh = tmp_path / "readings" / ".new.2025-11-23T000000Z.db.1-cd"
    for path in [*old, fresh]:
        path.write_bytes(b"x")
    for path in old:
        os.utime(path, (1_700_000_000, 1_700_000_000))
    engine.expire(spec, now_s=NOW_S)
    assert [path.exists() for path in [*old, fresh]] == [False, False, True]
    assert engine.info(spec).problems == ()
    assert len(read_all(engine, spec, "s", NOW_MS, NOW_MS + 1)) == 1
    engine.close()


def test_table_of_a_newer_release_is_refused_and_others_live_on(tmp_path: Path) -> None:
    engine = SqliteEngine(tmp_path)
    engine.create_table(spec_of("older"))
    engine.create_table(spec_of("newer"))
    engine.close()
    connection = sqlite3.connect(tmp_path / "catalog.db")
    connection.execute(
        "UPDATE tables SET record = json_set(record, '$.format', 99) WHERE name = 'newer'"
    )
    connection.commit()
    connection.close()
    engine = SqliteEngine(tmp_path)
    assert engine.table_names() == ("newer", "older")
    assert engine.load_table("older") is not None
    with pytest.raises(SchemaMismatchError, match="newer"):
        engine.load_table("newer")
    engine.close()


def test_table_whose_folder_is_missing_is_named(tmp_path: Path) -> None:
    engine = SqliteEngine(tmp_path)
    engine.create_table(spec_of("readings"))
    (tmp_path / "readings").rmdir()
    with pytest.raises(SchemaMismatchError, match="missing"):
        engine.load_table("readings")
    engine.close()


def test_drop_removes_the_files(tmp_path: Path) -> None:
    engine = SqliteEngine(tmp_path)
    spec = engine.create_table(spec_of("readings"))
    engine.submit_write(spec, write_of(spec, "s", [NOW_MS], value=[1.0])).result()
    assert (tmp_path / "readings").is_dir()
    engine.drop_table(spec)
    engine.close()
    assert names_under(tmp_path) == ["catalog.db"]


def test_files_of_an_interrupted_drop_never_come_back(tmp_path: Path) -> None:
    engine = SqliteEngine(tmp_path)
    spec = engine.create_table(spec_of("readings"))
    engine.submit_write(spec, write_of(spec, "s", [NOW_MS], value=[1.0])).result()
    engine.close()
    # As a crash leaves it: the entry is gone, the folder is not.
    connection = sqlite3.connect(tmp_path / "catalog.db")
    connection.execute("UPDATE tables SET record = NULL")
    connection.commit()
    connection.close()
    engine = SqliteEngine(tmp_path)
    assert engine.table_names() == ()
    again = engine.create_table(spec_of("readings"))
    assert read_all(engine, again, "s", NOW_MS, NOW_MS + 1) == []
    assert not (tmp_path / "readings").exists()
    assert (tmp_path / "readings.2").is_dir()
    engine.close()


def test_folder_of_a_stranger_in_the_store_stays(tmp_path: Path) -> None:
    engine = SqliteEngine(tmp_path)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "keep.txt").write_text("mine")
    engine.drop_table(engine.create_table(spec_of("readings")))
    engine.close()
    assert (tmp_path / "notes" / "keep.txt").read_text() == "mine"


def test_table_dropped_by_another_user_of_the_store_is_said_to_be_dropped(tmp_path: Path) -> None:
    one, other = SqliteEngine(tmp_path), SqliteEngine(tmp_path)
    spec = one.create_table(spec_of("readings"))
    write = write_of(spec, "s", [NOW_MS], value=[1.0])
    one.add_series(spec, ("s",))
    one.submit_write(spec, write).result()
    other.drop_table(spec)
    again = other.create_table(spec_of("readings"))
    with pytest.raises(SchemaMismatchError, match="dropped"):
        one.submit_write(spec, write).result()
    with pytest.raises(SchemaMismatchError, match="dropped"):
        read_all(one, spec, "s", NOW_MS, NOW_MS + 1)
    with pytest.raises(SchemaMismatchError, match="dropped"):
        one.add_series(spec, ("s",))
    assert read_all(other, again, "s", NOW_MS, NOW_MS + 1) == []
    one.close()
    other.close()


def test_closed_engine_says_so(tmp_path: Path) -> None:
    engine = SqliteEngine(tmp_path)
    spec = engine.create_table(spec_of("readings"))
    engine.close()
    engine.close()
    with pytest.raises(StoreClosedError):
        engine.table_names()
    with pytest.raises(StoreClosedError):
        engine.submit_write(spec, write_of(spec, "s", [NOW_MS], value=[1.0])).result()
