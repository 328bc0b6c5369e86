"""How many SSTables a second are read, beside one call of ``sstablemetadata`` on the same files?

    python -m benchmarks sstable_metadata

A real file of a node is copied under many ids; both read the same folder, one after the other, on
the same machine. The peer's time includes the start of its JVM, as every call of it does, with the
options that Cassandra's own script gives it.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from cassandra.cluster import Cluster
from cassandra.concurrent import execute_concurrent_with_args

from benchmarks.measure import Result, best_s
from treering.sstable_scan import SSTableScan, scan_sstables
from treering.testing import LocalCassandra

ROWS = 1_000
TTL_S = 30 * 86_400


def run(*, files: int = 1_000) -> list[Result]:
    """Start a node, have it write a file, copy it, and read all copies with both."""
    with LocalCassandra() as node, tempfile.TemporaryDirectory() as scratch:
        source = write_table(node)
        folder = copy_files(source, Path(scratch) / "bench" / source.name, files)
        return [compare(node, folder, files)]


def write_table(node: LocalCassandra) -> Path:
    """Write one SSTable of rows with a TTL and return its folder."""
    cluster = Cluster(node.contact_points, port=node.port, protocol_version=5)
    try:
        node.create_keyspace("bench")
        session = cluster.connect("bench")
        session.execute(
            "CREATE TABLE readings (series text, bucket text, ts timestamp, value double, "
            f"PRIMARY KEY ((series, bucket), ts)) WITH default_time_to_live = {TTL_S}"
        )
        insert = session.prepare(
            "INSERT INTO readings (series, bucket, ts, value) VALUES (?, '2025-11-20', ?, ?)"
        )
        rows = [(f"pump-{n % 50}", 1_763_596_800_000 + n, float(n)) for n in range(ROWS)]
        execute_concurrent_with_args(session, insert, rows, concurrency=50)
    finally:
        cluster.shutdown()
    node.nodetool("flush", "bench")
    (folder,) = (node.data_folders()[0] / "bench").glob("readings-*")
    return folder


def copy_files(source: Path, target: Path, count: int) -> Path:
    """Copy a folder's one SSTable under so many ids."""
    target.mkdir(parents=True)
    for path in source.iterdir():
        if path.is_file():
            for number in range(1, count + 1):
                shutil.copy(path, target / path.name.replace("nb-1-", f"nb-{number}-", 1))
    return target


def compare(node: LocalCassandra, folder: Path, files: int) -> Result:
    """Read all files with both."""
    paths = sorted(folder.glob("*-Data.db"))
    assert len(paths) == files

    def check_ours(scan: SSTableScan) -> None:
        assert not scan.problems
        assert len(scan.facts) == files
        assert all(facts.rows == ROWS and facts.max_ttl_s == TTL_S for facts in scan.facts)

    def check_peer(text: str) -> None:
        assert text.count(f"totalRows: {ROWS}\n") == files
        assert text.count("TTL max: 2592000 (30 days)") == files

    # A tenth of a second is at the mercy of whatever else runs: as much time for both, about.
    ours_s = best_s(lambda: scan_sstables([folder]), check_ours, rounds=20)
    peer_s = best_s(lambda: node.sstablemetadata(*paths, is_as_shipped=True), check_peer, rounds=3)
    return Result(
        name=f"metadata of {files:,} SSTables",
        ours=files / ours_s,
        peer=files / peer_s,
        unit="files/s",
        peer_name="sstablemetadata",
        budget=20,
    )
