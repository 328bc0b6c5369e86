"""Bundles: the POSIX script over real files, Python's own, and archives of an enemy."""

from __future__ import annotations

import dataclasses
import gzip
import io
import json
import os
import shutil
import signal
import subprocess
import tarfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests import waiting
from tests.doctor.made import NOW_S, sstable
from tests.sstable.record import recording
from treering.doctor.bundle import collect_script, is_bundle, read_bundle, write_bundle
from treering.doctor.collect import Wanted, collect_targets
from treering.doctor.facts import ClusterFacts, NodeFacts, TableFacts
from treering.doctor.tar import Limits, read_tar
from treering.errors import CorruptDataError, UsageError
from treering.sstable.facts import SSTableFacts
from treering.sstable_scan import scan_sstables

wait_until = partial(waiting.wait_until, bound_s=60.0)
SECRETS = ("first_key", "last_key", "clustering_start", "clustering_end")
SHELLS = [["sh"], ["dash"], ["bash", "--posix"], ["busybox", "sh"]]

TABLESTATS = {
    "total_number_of_tables": 1,
    "samples": {
        "tables": {
            "ttl": {
                "sstable_count": 2,
                "top_size_partitions": {'pump-"42\\': "5 MiB", "b}]": ["x"]},
                "top_tombstone_partitions": None,
                "space_used_live": "77",
            }
        }
    },
}


@pytest.fixture(scope="module", params=["nb", "oa", "da"])
def data(request: pytest.FixtureRequest) -> Iterator[Path]:
    """Yield a data folder with files of a real node, and a snapshot."""
    with recording(request.param) as (root, _):
        table = next((root / "samples").glob("ttl-*"))
        snapshot = table / "snapshots" / "kept"
        snapshot.mkdir(parents=True)
        for file in table.glob("*-*-*-*"):
            shutil.copy2(
                file, snapshot / file.name.replace("-big-", "-big-").replace("-1-", "-77-")
            )
        system = root / "system" / f"peers-{'0' * 32}"
        shutil.copytree(table, system)
        yield root


def run_script(
    folder: Path, out: Path, *options: str, shell: tuple[str, ...] = ("sh",), exit_code: int = 0
) -> subprocess.CompletedProcess[str]:
    script = out.with_suffix(".sh")
    script.write_text(collect_script())
    tool = out.parent / "nodetool"
    stats = json.dumps(TABLESTATS)
    tool.write_text(
        f"#!/bin/sh\ncase \"$*\" in *tablestats*) cat '{out.parent}/stats.json' ;;"
        ' *version*) echo "ReleaseVersion: 5.0.8" ;; *) echo "said $*" ;; esac\n'
    )
    (out.parent / "stats.json").write_text(stats)
    tool.chmod(0o700)
    done = subprocess.run(
        [*shell, str(script), "-o", str(out), "-n", "10.0.0.7", *options, str(folder)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "NODETOOL": f"{tool} -h here"},
    )
    assert done.returncode == exit_code, done.stderr
    return done


@pytest.fixture(scope="module")
def made(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the bundle that the script makes of a data folder, without keys."""
    out = tmp_path_factory.mktemp("made") / "b.tar.gz"
    run_script(data, out)
    return out


def scanned(root: Path) -> dict[str, SSTableFacts]:
    return {
        facts.path: facts for facts in scan_sstables([root]).facts if facts.keyspace != "system"
    }


def blanked(facts: SSTableFacts) -> SSTableFacts:
    return dataclasses.replace(
        facts,
        first_key=None,
        last_key=None,
        first_token=None,
        last_token=None,
        clustering_start=None,
        clustering_end=None,
    )


def values_of(facts: SSTableFacts) -> Iterator[bytes]:
    """Yield what must not leave: keys, and clustering values that no histogram has by chance."""
    bounds = (facts.clustering_start, facts.clustering_end)
    clustering = [value for bound in bounds if bound is not None for value in bound.values]
    for value in (facts.first_key, facts.last_key, *clustering):
        if value is not None and len(value) - value.count(0) >= 5:
            yield value


def test_the_script_brings_every_fact_but_keys_and_clustering_values(
    data: Path, made: Path
) -> None:
    bundle = read_bundle(made)
    assert bundle.scan is not None
    expected = {path: blanked(facts) for path, facts in scanned(data).items()}
    found = {facts.path: facts for facts in bundle.scan.facts}
    assert len(expected) >= 10
    assert found.keys() == expected.keys()
    for path, facts in expected.items():
        # Summary.db stays behind, and with it its size.
        kept = dataclasses.replace(found[path], disk_bytes=facts.disk_bytes)
        assert kept == facts
    assert bundle.scan.problems == ()
    assert (bundle.node, bundle.left_out) == ("10.0.0.7", ())
    assert bundle.nodetool["version.txt"] == "ReleaseVersion: 5.0.8\n"
    assert any(name.startswith("tablehistograms.samples.ttl") for name in bundle.nodetool)


def test_no_key_and_no_clustering_value_is_in_a_bundle(data: Path, made: Path) -> None:
    secrets = {value for facts in scanned(data).values() for value in values_of(facts)}
    assert len(secrets) >= 8
    # Names of folders may hold what is a value too; contents may not.
    contents = {member.parts: member.data for member in read_tar(made)}
    leaks = {
        (parts[-1], secret)
        for parts, content in contents.items()
        for secret in secrets
        if secret in content and parts[-1].endswith((".db", ".json"))
    }
    assert leaks == set()


def test_top_partitions_of_tablestats_stay_behind(made: Path) -> None:
    document = json.loads(read_bundle(made).nodetool["tablestats.json"])
    expected = json.loads(json.dumps(TABLESTATS))
    expected["samples"]["tables"]["ttl"]["top_size_partitions"] = None
    assert document == expected


def test_with_keys_everything_comes(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "b.tar.gz"
    run_script(data, out, "--with-keys")
    bundle = read_bundle(out)
    assert bundle.scan is not None
    assert {facts.path: facts for facts in bundle.scan.facts} == scanned(data)
    assert "pump" in bundle.nodetool["tablestats.json"]


def test_snapshots_come_as_names_and_sizes(data: Path, made: Path) -> None:
    bundle = read_bundle(made)
    assert bundle.scan is not None
    (found,) = [one for one in bundle.scan.snapshots if one.keyspace == "samples"]
    (expected,) = scan_sstables([data / "samples"]).snapshots
    assert found == expected
    assert found.dropped_bytes > 0


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
def test_the_script_runs_in_any_shell(shell: list[str], tmp_path: Path) -> None:
    if shutil.which(shell[0]) is None:
        pytest.skip(f"{shell[0]} is not installed")
    with recording("nb") as (root, _):
        table = next((root / "samples").glob("ttl-*"))
        run_script(table, tmp_path / "b.tar.gz", shell=tuple(shell))
        bundle = read_bundle(tmp_path / "b.tar.gz")
        assert bundle.scan is not None
        assert {facts.path for facts in bundle.scan.facts} == set(scanned(table))


@pytest.mark.parametrize("depth", ["samples", "samples/ttl-*"])
def test_a_keyspace_or_a_table_may_be_given(depth: str, tmp_path: Path) -> None:
    with recording("nb") as (root, _):
        (folder,) = root.glob(depth)
        run_script(folder, tmp_path / "b.tar.gz")
        bundle = read_bundle(tmp_path / "b.tar.gz")
        assert bundle.scan is not None
        assert {(one.path, one.table) for one in bundle.scan.facts} == {
            (one.path, one.table) for one in scanned(folder).values()
        }


def test_a_file_whose_keys_cannot_be_told_is_left_out_and_named(tmp_path: Path) -> None:
    with recording("nb") as (root, _):
        table = next((root / "samples").glob("ttl-*"))
        (statistics,) = table.glob("*-Statistics.db")
        statistics.write_bytes(b"pump-1" * 100)
        run_script(root, tmp_path / "b.tar.gz", exit_code=3)
        bundle = read_bundle(tmp_path / "b.tar.gz")
        (line,) = bundle.left_out
        assert str(statistics) in line
        assert bundle.scan is not None
        assert bundle.scan.problems == ()
        assert not [one for one in bundle.scan.facts if one.path.startswith(f"{table}/")]
        # Its table knows of it, so that no check is ok without it.
        wanted = Wanted(now_s=bundle.made_at_s, keyspace="samples", table="ttl")
        live: Any = None
        found = collect_targets([str(tmp_path / "b.tar.gz")], wanted, live=live)
        ((problem,),) = [node.problems for node in found.tables[0].nodes]
        assert (problem.path, problem.kind) == (str(statistics), "unreadable")
        assert found.unseen == ()


@pytest.mark.parametrize("what", ["empty", "missing"])
def test_a_wrong_folder_is_said(what: str, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    if what == "empty":
        folder.mkdir()
    done = run_script(folder, tmp_path / "b.tar.gz", exit_code=1)
    assert str(folder) in done.stderr


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Path]:
    """Yield the folder of a table, in a folder with no more than that."""
    with recording("nb") as (root, _):
        yield next((root / "samples").glob("ttl-*"))


def test_the_script_replaces_a_file_only_where_it_is_told_to(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "b.tar.gz"
    out.write_text("mine")
    done = run_script(table, out, exit_code=2)
    assert f"{out} is there already" in done.stderr
    assert "--overwrite" in done.stderr
    assert out.read_text() == "mine"
    run_script(table, out, "--overwrite")
    assert read_bundle(out).scan is not None
    assert_nothing_half(tmp_path)


def assert_nothing_half(folder: Path) -> None:
    """Fail where a run of the script left something beside what it was to make."""
    left = {path.name for path in folder.iterdir()}
    assert left <= {"b.tar.gz", "b.tar.sh", "nodetool", "stats.json", "scratch", "started"}


def test_a_file_that_appears_while_the_script_runs_is_not_replaced(
    table: Path, tmp_path: Path
) -> None:
    out = tmp_path / "b.tar.gz"
    tool = tmp_path / "appears"
    tool.write_text(f"#!/bin/sh\necho mine >'{out}'\n")
    tool.chmod(0o700)
    script = tmp_path / "b.tar.sh"
    script.write_text(collect_script())
    done = subprocess.run(
        ["sh", str(script), "-o", str(out), str(table)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "NODETOOL": str(tool)},
    )
    assert done.returncode == 2
    assert "is there already" in done.stderr
    assert out.read_text() == "mine\n"
    tool.unlink()
    assert_nothing_half(tmp_path)


@pytest.mark.parametrize("place", ["no/such/b.tar.gz", "."])
def test_a_bundle_that_cannot_be_written_is_said_before_anything_is_read(
    place: str, table: Path, tmp_path: Path
) -> None:
    script = tmp_path / "b.tar.sh"
    script.write_text(collect_script())
    done = subprocess.run(
        ["sh", str(script), "--overwrite", "-o", str(tmp_path / place), str(table)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == (2 if place == "." else 1)
    assert done.stderr.startswith("error: ")
    assert "reading" not in done.stderr
    assert_nothing_half(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
def test_a_script_that_is_interrupted_leaves_nothing_and_ends_what_it_ran(
    shell: list[str], number: signal.Signals, table: Path, tmp_path: Path
) -> None:
    if shutil.which(shell[0]) is None:
        pytest.skip(f"{shell[0]} is not installed")
    scratch, started, out = tmp_path / "scratch", tmp_path / "started", tmp_path / "b.tar.gz"
    scratch.mkdir()
    tool = tmp_path / "nodetool"
    tool.write_text(f"#!/bin/sh\necho $$ >'{started}.new'\nmv '{started}.new' '{started}'\n")
    with tool.open("a") as lines:
        lines.write("exec sleep 50\n")
    tool.chmod(0o700)
    script = tmp_path / "b.tar.sh"
    script.write_text(collect_script())
    environ = {**os.environ, "NODETOOL": str(tool), "TMPDIR": str(scratch)}
    with subprocess.Popen(
        [*shell, str(script), "-o", str(out), str(table)], stderr=subprocess.PIPE, env=environ
    ) as running:
        wait_until(started.exists)
        assert list(scratch.iterdir())
        running.send_signal(number)
        running.communicate(timeout=30)
    assert running.returncode == 128 + number
    wait_until(lambda: not is_running(int(started.read_text())))
    assert not out.exists()
    assert list(scratch.iterdir()) == []
    assert_nothing_half(tmp_path)


def is_running(pid: int) -> bool:
    """Return whether a process is there and has not ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


# --- made by Python


def facts() -> ClusterFacts:
    node = NodeFacts(node="10.0.0.1", collected_at_s=NOW_S, files=(sstable(),))
    table = TableFacts(keyspace="plant", table="readings", schema=None, nodes=(node,))
    return ClusterFacts(target="/data", tables=(table,))


def test_python_writes_tokens_and_no_keys(tmp_path: Path) -> None:
    out = tmp_path / "b.tar.gz"
    write_bundle(out, facts(), made_at_s=NOW_S, with_keys=False)
    bundle = read_bundle(out)
    assert bundle.facts is not None
    (file,) = bundle.facts.tables[0].nodes[0].files or ()
    assert (file.first_token, file.first_key) == (-5, None)
    text = gzip.decompress(out.read_bytes())
    assert b"secret" not in text
    assert b"secret-a".hex().encode() not in text


def test_python_brings_keys_where_they_are_asked_for(tmp_path: Path) -> None:
    out = tmp_path / "b.tar.gz"
    write_bundle(out, facts(), made_at_s=NOW_S, with_keys=True)
    assert read_bundle(out).facts == facts()


def test_a_bundle_that_is_there_is_not_replaced(tmp_path: Path) -> None:
    out = tmp_path / "b.tar.gz"
    out.write_text("mine")
    with pytest.raises(UsageError, match="is there already"):
        write_bundle(out, facts(), made_at_s=NOW_S, with_keys=False)
    assert out.read_text() == "mine"
    assert not is_bundle(out)
    write_bundle(out, facts(), made_at_s=NOW_S, with_keys=False, overwrite=True)
    assert is_bundle(out)


# --- of an enemy

MANIFEST = ("treering-bundle/manifest", b"format=1\nmade_at_s=5\nnode=n\nkeys=blanked\n")


def archive(path: Path, *members: tuple[str, bytes], **header: Any) -> Path:
    """Write an archive; header fields are of its last member."""
    with tarfile.open(path, "w:gz", format=tarfile.GNU_FORMAT) as out:
        for number, (name, content) in enumerate(members):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            if number == len(members) - 1:
                for key, value in header.items():
                    setattr(info, key, value)
            out.addfile(info, io.BytesIO(content))
    return path


@pytest.mark.parametrize(
    "name",
    [
        "/etc/passwd",
        "treering-bundle/../../etc/passwd",
        "treering-bundle/data/0/ks/t-1/../../../../x",
        "treering-bundle/data/0/ks/" + "a/" * 30 + "x",
        "elsewhere/x",
        "treering-bundle/data/x/ks/t-1/f",
        "treering-bundle/data/0/ks/t-1/" + "n" * 3_000,
    ],
)
def test_a_member_that_would_land_elsewhere_is_refused(name: str, tmp_path: Path) -> None:
    path = archive(tmp_path / "b.tar.gz", MANIFEST, (name, b"evil"))
    with pytest.raises(CorruptDataError, match=r"b\.tar\.gz is no bundle"):
        read_bundle(path)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, b"S", b"V"])
def test_links_devices_and_odd_members_are_refused(kind: bytes, tmp_path: Path) -> None:
    path = archive(
        tmp_path / "b.tar.gz",
        MANIFEST,
        ("treering-bundle/x", b""),
        type=kind,
        linkname="/etc/passwd",
    )
    with pytest.raises(CorruptDataError, match="no plain file"):
        read_bundle(path)


def test_a_member_twice_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path / "b.tar.gz", MANIFEST, MANIFEST)
    with pytest.raises(CorruptDataError, match="twice"):
        read_bundle(path)


def test_a_bomb_is_stopped_at_the_limit(tmp_path: Path) -> None:
    path = archive(tmp_path / "b.tar.gz", MANIFEST, ("treering-bundle/x", bytes(50_000_000)))
    assert path.stat().st_size < 200_000
    with pytest.raises(CorruptDataError, match="bytes"):
        read_bundle(path, limits=Limits(member_bytes=1_000_000))
    with pytest.raises(CorruptDataError, match="more than"):
        read_bundle(path, limits=Limits(total_bytes=10_000_000))


@pytest.mark.parametrize(
    "listing",
    [
        b"99999999999999999999\tnb-1-big-Data.db\n",
        b"5\t../../../x-Data.db\n",
        b"5\t/etc/x\n",
        b"-1\tnb-1-big-Data.db\n",
        b"no numbers here\n",
    ],
)
def test_a_listing_that_cannot_be_is_refused(listing: bytes, tmp_path: Path) -> None:
    table = f"treering-bundle/data/0/ks/t-{'0' * 32}"
    path = archive(tmp_path / "b.tar.gz", MANIFEST, (f"{table}/listing", listing))
    with pytest.raises(CorruptDataError, match=r"b\.tar\.gz is no bundle"):
        read_bundle(path)


def test_files_of_a_peta_byte_take_no_disk(tmp_path: Path) -> None:
    table = f"treering-bundle/data/0/ks/t-{'0' * 32}"
    listing = b"1000000000000\tnb-1-big-Data.db\n5\tnb-1-big-TOC.txt\n"
    toc = b"Data.db\nStatistics.db\n"
    path = archive(
        tmp_path / "b.tar.gz",
        MANIFEST,
        (f"{table}/listing", listing),
        (f"{table}/nb-1-big-TOC.txt", toc),
    )
    scan = read_bundle(path).scan
    assert scan is not None
    (problem,) = scan.problems
    assert "no Statistics.db" in problem.message


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x1f\x8b",
        b"\x1f\x8b" + b"\0" * 40,
        b"x" * 5_000,
        gzip.compress(b"x" * 5_000, mtime=0),
        gzip.compress(bytes(1_024), mtime=0),
    ],
    ids=["empty", "a magic", "no gzip", "text", "text inside", "zeros inside"],
)
def test_what_is_no_archive_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "b.tar.gz"
    path.write_bytes(content)
    with pytest.raises(CorruptDataError, match=r"b\.tar\.gz"):
        read_bundle(path)


@pytest.mark.parametrize(
    "manifest", [b"", b"format=2\nmade_at_s=5", b"format=1", b"format=1\nmade_at_s=-5"]
)
def test_a_manifest_of_another_kind_is_refused(manifest: bytes, tmp_path: Path) -> None:
    path = archive(tmp_path / "b.tar.gz", ("treering-bundle/manifest", manifest))
    with pytest.raises(CorruptDataError):
        read_bundle(path)


def test_facts_nested_too_deeply_are_refused(tmp_path: Path) -> None:
    deep = ("treering-bundle/facts.json", b"[" * 100_000)
    with pytest.raises(CorruptDataError):
        read_bundle(archive(tmp_path / "b.tar.gz", MANIFEST, deep))


def test_every_cut_of_an_archive_is_refused_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    path = tmp_path / "whole.tar.gz"
    write_bundle(path, facts(), made_at_s=NOW_S, with_keys=False)
    whole = path.read_bytes()
    cut = tmp_path / "b.tar.gz"
    for length in range(0, len(whole) - 9, 37):
        cut.write_bytes(whole[:length])
        with pytest.raises(CorruptDataError):
            read_bundle(cut)
    assert list(scratch.iterdir()) == []


def test_what_nodetool_printed_is_in_the_facts_of_a_table(tmp_path: Path) -> None:
    with recording("nb") as (root, _):
        table = next((root / "samples").glob("ttl-*"))
        run_script(table, tmp_path / "b.tar.gz")
    wanted = Wanted(now_s=NOW_S)
    found = collect_targets([str(tmp_path / "b.tar.gz")], wanted, live=lambda *_: facts())
    (node,) = found.tables[0].nodes
    assert node.version == "5.0.8"
    assert node.stats is not None
    assert (node.stats.sstable_count, node.stats.live_bytes) == (2, 77)
    # The nodetool of this test does not know the table's histograms.
    assert any("tablehistograms" in line for line in found.missing)
