"""Folders as they are found: whole, broken, changing, hostile."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import tempfile
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.sstable.record import recording
from tests.sstable.tables import KEYSPACE
from tests.sstable.test_transactions import record
from treering.sstable.facts import FileProblem, SSTableFacts
from treering.sstable.names import Place, place_of
from treering.sstable.statistics import STATISTICS_BYTES_MAX
from treering.sstable_files import list_folder, open_folder, read_set
from treering.sstable_scan import scan_sstables

NOBODY = 65_534


@pytest.fixture(scope="module")
def kept() -> Iterator[Path]:
    """Return the data folder of a recording; nobody writes to it."""
    with recording("nb") as (folder, _):
        yield folder


@pytest.fixture
def data(kept: Path, tmp_path: Path) -> Path:
    """Return a data folder with two tables of a recording, to be broken."""
    for table in ("ttl", "mixed"):
        (source,) = (kept / KEYSPACE).glob(f"{table}-*")
        shutil.copytree(source, tmp_path / "data" / KEYSPACE / source.name)
    return tmp_path / "data"


def folder_of(data: Path, table: str) -> Path:
    """Return a table's folder."""
    (found,) = (data / KEYSPACE).glob(f"{table}-*")
    return found


def file_of(data: Path, component: str) -> Path:
    """Return a component of the table ``ttl``."""
    (found,) = folder_of(data, "ttl").glob(f"*-{component}")
    return found


def only_problem(data: Path) -> FileProblem:
    """Return the one problem of table ``ttl``; table ``mixed`` stands."""
    scan = scan_sstables([data])
    assert [facts.table for facts in scan.facts] == ["mixed"]
    (problem,) = scan.problems
    return problem


def test_every_kind_of_target_is_taken(data: Path) -> None:
    table = folder_of(data, "ttl")
    for target in (data.parent, data, data / KEYSPACE):
        scan = scan_sstables([target])
        assert [facts.table for facts in scan.facts] == ["mixed", "ttl"]
        assert [place.table for place in scan.tables] == ["mixed", "ttl"]
    for path in (table, *table.glob("*-Data.db"), *table.glob("*-TOC.txt")):
        scan = scan_sstables([str(path)])
        assert [facts.path for facts in scan.facts] == [str(file_of(data, "Data.db"))]
        assert not scan.problems
    both = scan_sstables([data, table, table / "nb-1-big-Data.db"])
    assert len(both.facts) == len(both.tables) == 2


def test_facts_have_sizes_and_place(data: Path) -> None:
    (facts,) = scan_sstables([folder_of(data, "ttl")]).facts
    files = [path for path in folder_of(data, "ttl").iterdir() if path.is_file()]
    assert (facts.keyspace, facts.table, facts.id) == (KEYSPACE, "ttl", "1")
    assert len(facts.table_id) == 32
    assert facts.data_bytes == file_of(data, "Data.db").stat().st_size
    assert facts.disk_bytes == sum(path.stat().st_size for path in files)
    assert facts.mtime_s == int(file_of(data, "Data.db").stat().st_mtime)


def test_keyspace_and_table_choose(data: Path) -> None:
    assert [f.table for f in scan_sstables([data], table="ttl").facts] == ["ttl"]
    assert len(scan_sstables([data], keyspace=KEYSPACE).facts) == 2
    none = scan_sstables([data], keyspace="other")
    assert not none.facts
    assert not none.problems


def test_files_without_a_tables_folder_are_read(data: Path, tmp_path: Path) -> None:
    folder_of(data, "ttl").rename(tmp_path / "copied")
    (facts,) = scan_sstables([tmp_path / "copied"]).facts
    assert (facts.keyspace, facts.table, facts.table_id) == ("", "copied", "")


def test_a_folder_that_holds_none_is_said(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "notes.txt").write_text("x")
    scan = scan_sstables([tmp_path, tmp_path / "missing", tmp_path / "etc" / "notes.txt"])
    assert [problem.kind for problem in scan.problems] == ["foreign", "unreadable", "foreign"]
    assert "is it a data folder?" in scan.problems[0].message
    assert "does not exist" in scan.problems[1].message
    assert "no component" in scan.problems[2].message


def test_an_empty_table_is_no_problem(data: Path) -> None:
    for path in folder_of(data, "ttl").iterdir():
        path.unlink()
    scan = scan_sstables([data])
    assert not scan.problems
    assert [place.table for place in scan.tables] == ["mixed", "ttl"]


def truncate(path: Path) -> None:
    """Cut off the second half of a file."""
    os.truncate(path, path.stat().st_size // 2)


def link(path: Path) -> None:
    """Put a link to itself in a file's place."""
    path.unlink()
    path.symlink_to(path.name)


def pipe(path: Path) -> None:
    """Put a pipe that nobody writes to in a file's place."""
    path.unlink()
    os.mkfifo(path)


def grow(path: Path) -> None:
    """Make a file larger than any of its kind, without using the disk."""
    os.truncate(path, STATISTICS_BYTES_MAX + 1)


def fill(path: Path) -> None:
    """Overwrite a file with other bytes."""
    path.write_bytes(b"other " * 100)


@pytest.mark.parametrize(
    ("component", "harm", "kind", "message"),
    [
        ("Statistics.db", truncate, "corrupt", "Statistics.db"),
        ("Statistics.db", fill, "corrupt", "checksum"),
        ("Statistics.db", grow, "corrupt", "at most 8,388,608 are read"),
        ("Statistics.db", link, "foreign", "symbolic link"),
        ("Statistics.db", pipe, "foreign", "no regular file"),
        ("Statistics.db", Path.unlink, "incomplete", "nb-1-big has no Statistics.db"),
        ("CompressionInfo.db", truncate, "corrupt", "CompressionInfo.db"),
        ("CompressionInfo.db", Path.unlink, "incomplete", "no CompressionInfo.db"),
        ("Summary.db", fill, "corrupt", "Summary.db"),
        ("Data.db", truncate, "corrupt", "Data.db is cut off"),
        ("Data.db", Path.unlink, "incomplete", "no Data.db"),
        ("Index.db", Path.unlink, "incomplete", "no Index.db"),
        ("TOC.txt", Path.unlink, "incomplete", "no TOC.txt: it is being written"),
    ],
)
def test_a_broken_file_is_one_problem_and_the_rest_stands(
    data: Path, component: str, harm: Callable[[Path], None], kind: str, message: str
) -> None:
    harm(file_of(data, component))
    problem = only_problem(data)
    assert (problem.kind, problem.id) == (kind, "1")
    assert message in problem.message
    assert problem.path.endswith("nb-1-big-Data.db")


@pytest.mark.parametrize("component", ["Filter.db", "Digest.crc32"])
def test_what_cassandra_makes_anew_may_be_missing(data: Path, component: str) -> None:
    file_of(data, component).unlink()
    scan = scan_sstables([data])
    assert len(scan.facts) == 2
    assert not scan.problems


def test_a_summary_that_is_missing_leaves_the_keys_unknown(data: Path) -> None:
    file_of(data, "Summary.db").unlink()
    (facts,) = scan_sstables([folder_of(data, "ttl")]).facts
    assert (facts.first_key, facts.last_token) == (None, None)


@pytest.mark.parametrize(("version", "kind"), [("md", "older"), ("pa", "unknown")])
def test_other_versions_are_named(data: Path, version: str, kind: str) -> None:
    for path in folder_of(data, "ttl").iterdir():
        path.rename(path.with_name(path.name.replace("nb", version, 1)))
    problem = only_problem(data)
    assert problem.kind == "unsupported"
    assert kind in problem.message
    assert version in problem.message


def test_memory_stays_small_beside_a_large_file(data: Path) -> None:
    os.truncate(file_of(data, "Summary.db"), 1 << 30)
    os.truncate(file_of(data, "CompressionInfo.db"), 1 << 30)
    os.truncate(file_of(data, "Statistics.db"), 1 << 30)
    tracemalloc.start()
    scan = scan_sstables([data])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(scan.problems) == 1
    assert peak < 4 << 20


def test_foreign_files_are_said_once_each(data: Path) -> None:
    (folder_of(data, "mixed") / "notes.txt").write_text("x")
    (folder_of(data, "mixed") / "manifest.json").write_text("{}")
    (folder_of(data, "mixed") / "nb-1-big-Statistics.db.tmp").write_text("half")
    scan = scan_sstables([data])
    assert len(scan.facts) == 2
    assert [problem.message for problem in scan.problems] == ["notes.txt is no file of Cassandra"]


def test_links_to_folders_are_said_and_not_followed(data: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "other"
    folder_of(data, "ttl").rename(elsewhere)
    (data / KEYSPACE / "ttl-0").symlink_to(elsewhere)
    (data / KEYSPACE / "loop").symlink_to(data)
    (folder_of(data, "mixed") / "snapshots").symlink_to(data)
    scan = scan_sstables([data])
    assert [facts.table for facts in scan.facts] == ["mixed"]
    assert len(scan.problems) == 3
    assert all("symbolic link, which is not followed" in p.message for p in scan.problems)
    assert not scan.snapshots


@contextlib.contextmanager
def without_rights() -> Iterator[None]:
    """Let permissions count, for the user root too."""
    if os.geteuid():
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_what_may_not_be_read_is_said(data: Path) -> None:
    with tempfile.TemporaryDirectory() as open_folder:
        os.chmod(open_folder, 0o755)
        shutil.move(data, open_folder)
        place = Path(open_folder) / "data"
        file_of(place, "Statistics.db").chmod(0)
        folder_of(place, "mixed").chmod(0)
        snapshots = folder_of(place, "ttl") / "snapshots"
        snapshots.mkdir(exist_ok=True)
        snapshots.chmod(0)
        with without_rights():
            scan = scan_sstables([place])
        folder_of(place, "mixed").chmod(0o755)
        snapshots.chmod(0o755)
    assert [problem.kind for problem in scan.problems] == ["unreadable"] * 3
    assert all("Permission denied" in problem.message for problem in scan.problems)
    told = {problem.message.partition(" cannot")[0] for problem in scan.problems}
    assert "snapshots" in told
    assert any(name.endswith("-Statistics.db") for name in told)


def test_a_file_that_has_vanished_is_no_problem(data: Path) -> None:
    folder = folder_of(data, "ttl")
    (files,) = list_folder(str(folder)).sets.values()
    file_of(data, "Statistics.db").unlink()
    with open_folder(str(folder)) as opened:
        assert read_set(opened, Place(keyspace="", table="", table_id=""), files) is None


@pytest.mark.parametrize("component", ["Statistics.db", "CompressionInfo.db", "Summary.db"])
@pytest.mark.parametrize("listed_bytes", [0, 1, 8_191, 8_192, 1 << 40])
def test_a_file_that_has_changed_its_length_is_read_as_it_is(
    data: Path, component: str, listed_bytes: int
) -> None:
    (wanted,) = scan_sstables([folder_of(data, "ttl")]).facts
    (files,) = list_folder(str(folder_of(data, "ttl"))).sets.values()
    files.sizes[component] = listed_bytes
    with open_folder(str(folder_of(data, "ttl"))) as opened:
        found = read_set(opened, place_of(opened.path.split("/")), files)
    assert isinstance(found, SSTableFacts)
    assert dataclasses.replace(found, disk_bytes=wanted.disk_bytes) == wanted


@pytest.mark.parametrize("component", ["Statistics.db", "CompressionInfo.db", "Summary.db"])
@pytest.mark.parametrize("harm", [link, pipe])
def test_a_file_that_has_become_another_kind_is_said(
    data: Path, component: str, harm: Callable[[Path], None]
) -> None:
    (files,) = list_folder(str(folder_of(data, "ttl"))).sets.values()
    harm(file_of(data, component))
    with open_folder(str(folder_of(data, "ttl"))) as opened:
        found = read_set(opened, Place(keyspace="", table="", table_id=""), files)
    assert isinstance(found, FileProblem)
    assert found.kind == "unreadable"


def test_a_folder_that_has_become_a_link_is_not_followed(data: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder_of(data, "ttl"))
    with pytest.raises(NotADirectoryError):
        list_folder(str(tmp_path / "link"))


def compaction(folder: Path, old: int) -> Iterator[None]:
    """Replace an SSTable by its copy, file by file, as a compaction does; yield in between."""
    new = old + 1
    log = folder / "nb_txn_compaction_f1abadc0-ecd7-11f1-a8c2-cd329a25054d.log"
    log.write_text(record("ADD", f"/node/{folder.name}/nb-{new}-big-", 0, 8) + "\n")
    yield
    names = sorted(path.name for path in folder.glob(f"nb-{old}-big-*"))
    names.sort(key="nb-%d-big-TOC.txt".__mod__(old).__eq__)  # The table of contents comes last.
    for name in names:
        shutil.copy(folder / name, folder / name.replace(f"nb-{old}-", f"nb-{new}-", 1))
        yield
    with log.open("a") as lines:
        lines.write(record("REMOVE", f"/node/{folder.name}/nb-{old}-big-", 9, 8) + "\n")
    yield
    with log.open("a") as lines:
        lines.write(record("COMMIT", "", 10, 0) + "\n")
    yield
    for name in sorted(names, key=f"nb-{old}-big-Data.db".__ne__):
        (folder / name).unlink()
        yield
    log.unlink()
    yield


def test_at_every_moment_of_a_compaction_one_file_is_live(data: Path) -> None:
    folder = folder_of(data, "ttl")
    ids = []
    for _ in compaction(folder, 1):
        scan = scan_sstables([folder])
        assert not scan.problems
        (facts,) = scan.facts
        ids.append(facts.id)
    assert ids == sorted(ids)
    assert ids.count("1") == 10  # The log, eight components, what is removed.
    assert ids.count("2") == 10  # The commit, eight components, no log.


def test_compactions_beside_a_scan_are_no_problem(data: Path) -> None:
    folder = folder_of(data, "ttl")
    done = threading.Event()

    def compact() -> None:
        try:
            for number in range(1, 60):
                for _ in compaction(folder, number):
                    pass
        finally:
            done.set()

    thread = threading.Thread(target=compact)
    thread.start()
    try:
        scans = 0
        while not done.is_set() or not scans:
            assert not scan_sstables([folder]).problems
            scans += 1
    finally:
        thread.join()
    assert [facts.id for facts in scan_sstables([folder]).facts] == ["60"]


def test_a_snapshot_tells_what_it_alone_keeps(data: Path) -> None:
    folder = folder_of(data, "ttl")
    snapshot = folder / "snapshots" / "before"
    (snapshot / ".by_value").mkdir(parents=True)
    for path in list(folder.glob("nb-1-*")):
        os.link(path, snapshot / path.name)
        os.link(path, snapshot / path.name.replace("nb-1-", "nb-7-"))
        os.link(path, snapshot / ".by_value" / path.name)
    (snapshot / "manifest.json").write_text("{}")
    one = sum(path.stat().st_size for path in folder.glob("nb-1-*"))
    (found,) = scan_sstables([data]).snapshots
    assert (found.name, found.keyspace, found.table) == ("before", KEYSPACE, "ttl")
    assert (found.files, found.dropped_ids) == (2, ("7",))
    assert found.bytes == 3 * one + 2
    assert found.dropped_bytes == 2 * one  # The index is gone as well.
    assert not found.is_backup


def test_a_snapshot_of_a_dropped_table_is_all_that_is_left(data: Path) -> None:
    folder = folder_of(data, "ttl")
    snapshot = folder / "snapshots" / "dropped-1764000000000-ttl"
    snapshot.mkdir(parents=True)
    for path in list(folder.glob("nb-1-*")):
        path.rename(snapshot / path.name)
    scan = scan_sstables([data])
    (found,) = scan.snapshots
    assert found.dropped_bytes == found.bytes
    assert found.dropped_ids == ("1",)
    assert not scan.problems


def test_backups_are_told_apart_and_empty_ones_left_out(data: Path) -> None:
    folder = folder_of(data, "ttl")
    (folder / "backups").mkdir()
    assert not scan_sstables([data]).snapshots
    for path in list(folder.glob("nb-1-*")):
        os.link(path, folder / "backups" / path.name)
    (found,) = scan_sstables([data]).snapshots
    assert found.is_backup
    assert found.dropped_ids == ()


def test_a_snapshot_given_as_the_target_is_read(data: Path) -> None:
    folder = folder_of(data, "ttl")
    snapshot = folder / "snapshots" / "s"
    snapshot.mkdir(parents=True)
    for path in list(folder.glob("nb-1-*")):
        os.link(path, snapshot / path.name)
    scan = scan_sstables([snapshot])
    assert [(facts.keyspace, facts.table) for facts in scan.facts] == [(KEYSPACE, "ttl")]
    assert not scan.snapshots


def test_collected_metadata_needs_no_data(data: Path) -> None:
    wanted = ("Statistics.db", "TOC.txt", "CompressionInfo.db")
    for path in list(folder_of(data, "ttl").iterdir()):
        if not path.name.endswith(wanted):
            path.unlink()
    assert scan_sstables([folder_of(data, "ttl")]).problems[0].kind == "incomplete"
    (facts,) = scan_sstables([folder_of(data, "ttl")], needs_data=False).facts
    assert (facts.data_bytes, facts.disk_bytes, facts.mtime_s) == (None, None, None)
    assert facts.rows == 300
    assert facts.uncompressed_bytes is not None
