"""Deletions of the embedded engine outlive the process, and files of the first format take them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from tests.engine.contract import DAY_MS, NOW_MS, delete_of, read_all, spec_of, write_of
from treering.core.delete_plan import PartitionDelete
from treering.core.retention import plan_retention
from treering.core.table import TableSpec
from treering.core.units import DAY_S
from treering.engine.sqlite import SqliteEngine


def opened(folder: Path) -> SqliteEngine:
    """Return the engine of a folder."""
    return SqliteEngine(folder / "store")


def segments(folder: Path, spec: TableSpec) -> list[Path]:
    """Return the files of a table."""
    return sorted((folder / "store" / spec.name).glob("*.db"))


def remembered(path: Path) -> int:
    """Return how many deletions a file remembers."""
    connection = sqlite3.connect(path)
    try:
        return int(connection.execute("SELECT count(*) FROM deletions").fetchone()[0])
    finally:
        connection.close()


def test_late_write_stays_dead_after_the_store_was_opened_again(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    spec = engine.create_table(spec_of())
    engine.submit_delete(spec, delete_of(spec, "s", NOW_MS, NOW_MS + 10, 50)).result(30)
    engine.close()
    engine = opened(tmp_path)
    engine.submit_write(spec, write_of(spec, "s", [NOW_MS], 50, value=[1.0])).result(30)
    engine.submit_write(spec, write_of(spec, "s", [NOW_MS + 1], 51, value=[2.0])).result(30)
    assert read_all(engine, spec, "s", NOW_MS, NOW_MS + 10) == [(NOW_MS + 1, 2.0)]
    engine.close()


def test_deletion_spans_segments_and_covers_smaller_ones(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    # A segment of eight hours, three to a bucket.
    spec = engine.create_table(spec_of(retention_s=10 * DAY_S))
    day = NOW_MS - NOW_MS % DAY_MS
    times = [day + hour * 3_600_000 for hour in range(24)]
    engine.submit_write(spec, write_of(spec, "s", times, 10, value=range(24))).result(30)
    assert len(segments(tmp_path, spec)) == 3
    for hour in range(6):
        part = delete_of(spec, "s", times[hour], times[hour] + 1, 20 + hour)
        engine.submit_delete(spec, part).result(30)
    assert remembered(segments(tmp_path, spec)[0]) == 6
    whole = delete_of(spec, "s", day, day + 1, 30, is_whole=True)
    engine.submit_delete(spec, whole).result(30)
    assert [remembered(path) for path in segments(tmp_path, spec)] == [1, 1, 1]
    assert read_all(engine, spec, "s", day, day + DAY_MS) == []
    engine.close()


def test_file_of_the_first_format_takes_deletions(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    spec = engine.create_table(spec_of())
    engine.submit_write(spec, write_of(spec, "s", [NOW_MS], 10, value=[1.0])).result(30)
    engine.close()
    (path,) = segments(tmp_path, spec)
    connection = sqlite3.connect(path)
    connection.execute("DROP TABLE deletions")
    connection.close()
    engine = opened(tmp_path)
    assert read_all(engine, spec, "s", NOW_MS, NOW_MS + 1) == [(NOW_MS, 1.0)]
    delete = delete_of(spec, "s", NOW_MS, NOW_MS + 1, 10)
    assert isinstance(delete, PartitionDelete)
    engine.submit_delete(spec, delete).result(30)
    assert read_all(engine, spec, "s", NOW_MS, NOW_MS + 1) == []
    engine.close()


def test_files_keep_their_length_through_changes_of_the_retention(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    spec = engine.create_table(spec_of(retention_s=30 * DAY_S))
    times = [NOW_MS - day * DAY_MS for day in range(8)]
    for ts in times:
        engine.submit_write(spec, write_of(spec, "s", [ts], value=[1.0])).result(30)
    files = segments(tmp_path, spec)
    for days in (90, 10, 400):
        after = plan_retention(spec, days * DAY_S, now_s=NOW_MS // 1_000, is_by_ttl=False).after
        assert after.window_s != spec.window_s
        spec = engine.alter_table(spec, after)
        engine.close()
        engine = opened(tmp_path)
        for ts in times:
            engine.submit_write(spec, write_of(spec, "s", [ts + days], value=[2.0])).result(30)
            assert len(read_all(engine, spec, "s", ts, ts + days + 1)) >= 2
        assert segments(tmp_path, spec) == files
    assert engine.info(spec).problems == ()
    engine.close()
