"""On a real node, the files that the doctor calls removable are those that leave, file by file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from cassandra.cluster import Session

from treering.doctor.checks import check_drops, verdicts_of
from treering.doctor.facts import NodeFacts, SchemaFacts, TableFacts
from treering.doctor.finding import FileVerdict
from treering.doctor.thresholds import Thresholds
from treering.sstable_scan import scan_sstables
from treering.testing import LocalCassandra

WINDOWS: Final = 5
LIVE: Final = WINDOWS - 1
TTL_S: Final = 3_600
BOUND_S: Final = 180.0
TWCS: Final = {
    "class": "TimeWindowCompactionStrategy",
    "compaction_window_unit": "MINUTES",
    "compaction_window_size": "1",
    "expired_sstable_check_frequency_seconds": "1",
}
TABLES: Final = ("healthy", "eternal", "back_dated", "equal", "unrepaired", "unflushed")
STEADY: Final = ("even", "merged", "dated", "repaired")
"""Tables whose rows expire an hour after their write time, in windows twelve minutes apart."""

AGES_S: Final = (48 * 60, 36 * 60, 24 * 60, 12 * 60, 0)
MAYBE: Final = "unless the memtable holds older writes"


class Tables:
    """Tables of one keyspace on a node, with a file a window; compaction waits until it is told."""

    def __init__(self, node: LocalCassandra, session: Session, keyspace: str) -> None:
        self.node, self.session, self.keyspace = node, session, keyspace
        first_s = int(time.time()) - 60 * (WINDOWS + 2)
        self.first_us = (first_s - first_s % 60) * 1_000_000
        self.compaction = {name: dict(TWCS) for name in (*TABLES, *STEADY)}
        self.compaction["unrepaired"]["only_purge_repaired_tombstones"] = "true"
        for name in self.compaction:
            session.execute(
                f"CREATE TABLE {keyspace}.{name} (k int, ts int, v int, PRIMARY KEY (k, ts)) "
                f"WITH gc_grace_seconds = 0 AND default_time_to_live = {TTL_S} "
                f"AND compaction = {self.compaction[name]}"
            )
        node.nodetool("disableautocompaction", keyspace)

    def us(self, window: int, second: int) -> int:
        """Return a write time in a window."""
        return self.first_us + (60 * window + second) * 1_000_000

    def write(self, name: str, ts: int, write_us: int, ttl_s: int) -> None:
        """Write one row."""
        self.session.execute(
            f"INSERT INTO {self.keyspace}.{name} (k, ts, v) VALUES (0, {ts}, 0) "
            f"USING TIMESTAMP {write_us} AND TTL {ttl_s}"
        )

    def write_steadily(self, name: str, ts: int, age_s: int) -> None:
        """Write a row as if it had come some time ago: it expires an hour after that."""
        write_us = (int(time.time()) - age_s) * 1_000_000
        self.write(name, ts, write_us, TTL_S - age_s)

    def flush(self) -> None:
        """Write all memtables to files."""
        self.node.nodetool("flush", self.keyspace)

    def compact(self) -> None:
        """Let the server look for files, and for what has expired."""
        self.node.nodetool("disableautocompaction", self.keyspace)
        self.node.nodetool("enableautocompaction", self.keyspace)

    def facts(self, name: str) -> TableFacts:
        """Return what the doctor knows of a table now."""
        (folder,) = self.node.data_folders()
        scan = scan_sstables([folder], keyspace=self.keyspace, table=name)
        assert scan.problems == ()
        options = {
            "compaction": self.compaction[name],
            "default_time_to_live": TTL_S,
            "gc_grace_seconds": 0,
        }
        return TableFacts(
            keyspace=self.keyspace,
            table=name,
            schema=SchemaFacts(
                table_id="", partition_key=(), clustering=(), columns=(), options=options
            ),
            nodes=(NodeFacts(node="", collected_at_s=int(time.time()), files=scan.facts),),
        )

    def verdicts(self, name: str) -> tuple[FileVerdict, ...]:
        """Return what becomes of a table's files, by window."""
        return verdicts_of(self.facts(name), Thresholds())

    def removable(self, name: str) -> set[str]:
        """Return the files that may go if the memtable does not keep them."""
        return {verdict.path for verdict in self.verdicts(name) if verdict.removable == MAYBE}

    def paths(self, name: str) -> set[str]:
        """Return the files that are there."""
        (folder,) = self.node.data_folders()
        return {str(path) for path in Path(folder, self.keyspace).glob(f"{name}-*/*-Data.db")}

    def wait(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds."""
        end_s = time.monotonic() + BOUND_S
        while not condition():
            assert time.monotonic() < end_s, f"the condition did not hold within {BOUND_S} s"
            time.sleep(0.2)


@pytest.fixture(scope="module")
def tables(cassandra_node: LocalCassandra, cassandra_session: Session) -> Iterator[Tables]:
    """Tables of five windows each; of six of them the last lives and the others have expired."""
    keyspace = f"drops_{time.time_ns():x}"
    cassandra_session.execute(
        f"CREATE KEYSPACE {keyspace} WITH replication = "
        "{'class': 'NetworkTopologyStrategy', 'datacenter1': 1}"
    )
    try:
        made = Tables(cassandra_node, cassandra_session, keyspace)
        for window in range(WINDOWS):
            for name in TABLES:
                for second in (10, 40):
                    ttl_s = TTL_S if window == LIVE else 1
                    made.write(name, 100 * window + second, made.us(window, second), ttl_s)
            for name in STEADY:
                for second in (0, 20):
                    made.write_steadily(name, 100 * window + second, AGES_S[window] + second)
            if window == 1:
                made.write("eternal", 999, made.us(1, 20), 0)
            if window == LIVE:
                made.write("back_dated", 999, made.us(1, 50), TTL_S)
                made.write("equal", 999, made.us(2, 40), TTL_S)
                made.write("dated", 999, (int(time.time()) - 2_400) * 1_000_000, TTL_S)
                made.write_steadily("repaired", 999, 2_400)
            made.flush()
        made.write("unflushed", 999, made.us(2, 5), TTL_S)
        yield made
    finally:
        cassandra_session.execute(f"DROP KEYSPACE {keyspace}")


# The windows that may go, by table.
EXPECTED: Final = {
    "healthy": {0, 1, 2, 3},
    "eternal": {0},
    "back_dated": {0, 1},
    "equal": {0, 1},
    "unrepaired": set(),
    "unflushed": {0, 1, 2, 3},
}


def test_the_files_that_are_removable_are_those_that_leave_and_cures_help(tables: Tables) -> None:
    check_that_the_removable_leave(tables)
    check_that_causes_are_told_apart(tables)
    check_that_cures_help(tables)


def check_that_the_removable_leave(tables: Tables) -> None:
    """Compare, file by file, what the doctor calls removable with what the node drops."""

    def all_expired() -> bool:
        return sum(v.is_fully_expired for v in tables.verdicts("healthy")) == LIVE

    tables.wait(all_expired)
    verdicts = {name: tables.verdicts(name) for name in TABLES}
    for name in TABLES:
        starts = [verdict.window_start_s for verdict in verdicts[name]]
        assert starts == [tables.us(window, 0) // 1_000_000 for window in range(WINDOWS)]
        windows = {i for i, verdict in enumerate(verdicts[name]) if verdict.removable == MAYBE}
        assert windows == EXPECTED[name], name
    before = {name: tables.paths(name) for name in TABLES}
    removable = {name: tables.removable(name) for name in TABLES}
    # The memtable of one table holds a row as old as window 2, which no file can tell.
    kept = {v.path for v in verdicts["unflushed"][2:]}
    removable["unflushed"] -= kept

    tables.compact()
    tables.wait(lambda: all(tables.paths(n) == before[n] - removable[n] for n in TABLES))
    # It has looked at all of them, some time ago, and nothing more has left.
    tables.compact()
    assert {name: tables.paths(name) for name in TABLES} == {
        name: before[name] - removable[name] for name in TABLES
    }
    blocked = {v.path: v.blocked_by for v in verdicts["eternal"] if v.blocked_by}
    assert blocked == {
        verdicts["eternal"][window].path: (verdicts["eternal"][1].path,) for window in (2, 3)
    }


def check_that_causes_are_told_apart(tables: Tables) -> None:
    """Compare what the doctor finds with what was done to each table."""
    tables.node.nodetool("compact", tables.keyspace, "merged")
    checked = {name: check_drops(tables.facts(name), Thresholds()).findings for name in STEADY}
    assert {name: [one.id for one in found] for name, found in checked.items()} == {
        "even": [],
        "merged": ["major-compaction"],
        "dated": ["old-write-blocks"],
        "repaired": ["old-write-blocks"],
    }
    assert checked["dated"][0].facts["origin"] == "back-dated"
    assert checked["repaired"][0].facts["origin"] == "read repair"


def check_that_cures_help(tables: Tables) -> None:
    """Do what two findings advise, and see the files go."""
    tables.node.nodetool("disableautocompaction", tables.keyspace)
    found = {
        name: [one.id for one in check_drops(tables.facts(name), Thresholds()).findings]
        for name in TABLES
    }
    assert found["healthy"] == []
    assert found["eternal"] == ["no-ttl-blocks"]
    assert found["unrepaired"] == ["only-purge-repaired"]

    # The row that never expires is deleted, and the files are written again without it.
    tables.session.execute(f"DELETE FROM {tables.keyspace}.eternal WHERE k = 0 AND ts = 999")
    tables.flush()
    kept = tables.facts("unflushed")
    assert [v.removable for v in verdicts_of(kept, Thresholds())][:2] == ["no", "no"]
    tables.node.nodetool("garbagecollect", "-g", "CELL", tables.keyspace, "eternal")
    (node,) = tables.facts("eternal").nodes
    assert all(file.max_deletion_s is not None for file in node.files or ())

    compaction = {k: v for k, v in TWCS.items() if k != "only_purge_repaired_tombstones"}
    tables.session.execute(
        f"ALTER TABLE {tables.keyspace}.unrepaired WITH compaction = {compaction}"
    )
    tables.compaction["unrepaired"] = compaction
    tables.node.nodetool("disableautocompaction", tables.keyspace)
    removable = tables.removable("unrepaired")
    before = tables.paths("unrepaired")
    assert len(removable) == LIVE
    tables.compact()
    tables.wait(lambda: tables.paths("unrepaired") == before - removable)
