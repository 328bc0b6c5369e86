"""Tables of a ring of three, one node of which missed some rows and got them later.

Every round of writing is one file a table on each node, of rows as old as the round says: their
write time is then, and their TTL what is left of the table's, as if they had come in time. What
brings the missed rows is real: hints, read repair, repair.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final

from cassandra import ConsistencyLevel
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, Session
from cassandra.policies import WhiteListRoundRobinPolicy

from treering.sstable.facts import SSTableFacts
from treering.sstable_scan import scan_sstables
from treering.testing import LocalCassandra

HOUR_S: Final = 3_600
TTL_S: Final = 12 * HOUR_S
WINDOW_S: Final = 1_800
TWCS: Final = {
    "class": "TimeWindowCompactionStrategy",
    "compaction_window_unit": "MINUTES",
    "compaction_window_size": str(WINDOW_S // 60),
}
ROUNDS_S: Final = (10 * HOUR_S, 6 * HOUR_S, 3 * HOUR_S)
AWAY: Final = 2
"""The node that misses rows."""

# How old the rows are that it misses, and options of the table. Those that are repaired flush by
# themselves, so that each round is a file on every node.
TABLES: Final[dict[str, tuple[int, str]]] = {
    "hinted": (HOUR_S * 7 // 2, "read_repair = 'NONE'"),
    "read": (9 * HOUR_S, "read_repair = 'BLOCKING'"),
    "streamed": (9 * HOUR_S, "read_repair = 'NONE' AND memtable_flush_period_in_ms = 500"),
    "split": (9 * HOUR_S, "read_repair = 'NONE' AND memtable_flush_period_in_ms = 500"),
}
FLUSHED: Final = ("streamed", "split")
SERIES: Final = {"hinted": 24, "read": 24, "streamed": 24, "split": 200}
"""How many series a table has: of one so many that each node is the first replica of some."""

MISSED: Final = 6
BOUND_S: Final = 120.0


class LateWrites:
    """The tables of ``TABLES`` in a keyspace of a ring."""

    def __init__(self, ring: LocalCassandra, keyspace: str) -> None:
        self.ring, self.keyspace = ring, keyspace
        self.now_s = int(time.time())
        profiles = {
            EXEC_PROFILE_DEFAULT if node == 0 else node: ExecutionProfile(
                load_balancing_policy=WhiteListRoundRobinPolicy([ring.contact_points[node]]),
                request_timeout=60.0,
            )
            for node in (0, 1)
        }
        self._cluster = Cluster(
            list(ring.contact_points[:2]),
            port=ring.port,
            protocol_version=5,
            execution_profiles=profiles,
        )
        self.session: Session = self._cluster.connect()

    def close(self) -> None:
        """Drop the keyspace and close the session."""
        self.session.execute(f"DROP KEYSPACE {self.keyspace}")
        self._cluster.shutdown()

    def make(self) -> None:
        """Write what all have, then what one node misses, then bring it there in all ways."""
        self.ring.create_keyspace(self.keyspace)
        for name, (_, options) in TABLES.items():
            self.session.execute(
                f"CREATE TABLE {self.keyspace}.{name} (series text, day text, ts timestamp, "
                "value double, PRIMARY KEY ((series, day), ts)) WITH CLUSTERING ORDER BY (ts DESC) "
                f"AND default_time_to_live = {TTL_S} AND gc_grace_seconds = 10800 "
                f"AND {options} AND compaction = {TWCS}"
            )
        for age_s in ROUNDS_S:
            self.write(TABLES, age_s)
            self.ring.flush(self.keyspace, node=AWAY)
            self.wait(partial(self._is_in_a_file, age_s, (0, 1, AWAY)))
        self._write_missed()
        self.wait(lambda: self._is_in_a_file(TABLES["split"][0], (0, 1)))
        self.write(TABLES, 0)
        self._read_repair()
        self.ring.nodetool("repair", "-full", self.keyspace, "streamed")
        self.ring.nodetool("repair", "-pr", self.keyspace, "split")
        self.wait(self._has_hints)
        self.ring.flush(self.keyspace, node=AWAY)
        self.ring.nodetool("repair", self.keyspace, "hinted")
        self.wait(lambda: all(file.pending_repair is None for file in self.files()))

    def _write_missed(self) -> None:
        """Write what the node that is away misses: one table's rows leave hints, others' none."""
        others = [name for name in TABLES if name != "hinted"]
        self.ring.nodetool("disablehandoff", node=1)
        try:
            self.ring.pause(AWAY)
            try:
                for name in others:
                    self.write([name], TABLES[name][0], through=1)
                self.write(["hinted"], TABLES["hinted"][0], through=0)
                # When the hints are there, all that was sent has expired on its way.
                self.wait(lambda: any((self.ring.folder / "node0" / "hints").glob("*.hints")))
            finally:
                self.ring.resume(AWAY)
        finally:
            self.ring.nodetool("enablehandoff", node=1)
        self.wait(lambda: self.ring.nodetool("status").count("UN ") == 3)

    def write(self, names: Iterable[str], age_s: int, *, through: int | None = None) -> None:
        """Write a row of each series as if it had come in time.

        To all nodes; or a few of the series through one node, whoever else may get them.
        """
        at_s = self.now_s - age_s
        futures = []
        for name in names:
            statement = self.session.prepare(
                f"INSERT INTO {self.keyspace}.{name} (series, day, ts, value) VALUES (?, ?, ?, ?) "
                "USING TIMESTAMP ? AND TTL ?"
            )
            level = ConsistencyLevel.ALL if through is None else ConsistencyLevel.ONE
            statement.consistency_level = level
            rows = [
                (f"p{n}", self._day(age_s), at_s * 1_000, 1.5, at_s * 1_000_000, TTL_S - age_s)
                for n in range(SERIES[name] if through is None else MISSED)
            ]
            profile = through or EXEC_PROFILE_DEFAULT
            futures += [
                self.session.execute_async(statement, row, execution_profile=profile)
                for row in rows
            ]
        for future in futures:
            future.result()

    def files(self, *names: str) -> list[SSTableFacts]:
        """Return the files that the node that was away has, of some tables or of all."""
        return [file for file in self._files_of(AWAY) if not names or file.table in names]

    def _files_of(self, node: int) -> tuple[SSTableFacts, ...]:
        return scan_sstables(self.ring.data_folders(node), keyspace=self.keyspace).facts

    def folder(self) -> Path:
        """Return the data folder of the node that was away."""
        (folder,) = self.ring.data_folders(AWAY)
        return folder

    def _day(self, age_s: int) -> str:
        return time.strftime("%Y-%m-%d", time.gmtime(self.now_s - age_s))

    def _is_in_a_file(self, age_s: int, nodes: Iterable[int]) -> bool:
        """Return whether rows of an age are in a file of each table that flushes by itself."""
        at_us = (self.now_s - age_s) * 1_000_000
        return all(
            {file.table for file in self._files_of(node) if file.max_write_us == at_us}
            >= set(FLUSHED)
            for node in nodes
        )

    def _read_repair(self) -> None:
        query = self.session.prepare(
            f"SELECT value FROM {self.keyspace}.read WHERE series = ? AND day = ?"
        )
        query.consistency_level = ConsistencyLevel.ALL
        for n in range(MISSED):
            assert list(self.session.execute(query, (f"p{n}", self._day(TABLES["read"][0]))))

    def _has_hints(self) -> bool:
        """Return whether the node that was away has today's rows and those of hints in memory."""
        table = f"{self.keyspace}.hinted"
        lines = self.ring.nodetool("tablestats", table, node=AWAY).splitlines()
        (cells,) = [line.split(":")[1] for line in lines if "Memtable cell count" in line]
        return int(cells) >= SERIES["hinted"] + MISSED

    def wait(self, condition: Callable[[], Any]) -> None:
        """Wait until a condition holds."""
        end_s = time.monotonic() + BOUND_S
        while not condition():
            assert time.monotonic() < end_s, f"it did not come true within {BOUND_S} s"
            time.sleep(0.1)
