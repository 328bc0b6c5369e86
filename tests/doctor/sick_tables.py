"""Tables on a real node, each with one illness, and some that are well; all are made at once.

Every round of writing is one file a table, of rows as old as the round says: their write time is
then, and their TTL what is left of the table's, as if they had come in time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from cassandra import OperationTimedOut, WriteTimeout
from cassandra.cluster import Session
from cassandra.concurrent import execute_concurrent_with_args
from cassandra.query import PreparedStatement

import treering
from treering.testing import LocalCassandra

MINUTE_S, HOUR_S, DAY_S = 60, 3_600, 86_400
AGES_S: Final = (96 * HOUR_S, 72 * HOUR_S, 48 * HOUR_S, 24 * HOUR_S, 0)
LAST: Final = len(AGES_S) - 1
GRACE_S: Final = 3 * HOUR_S
BOUND_S: Final = 120.0
TRIES: Final = 10
WRITE_LATE: Final = (WriteTimeout, OperationTimedOut)


def windows(unit: str, size: int, **more: str) -> dict[str, str]:
    """Return the options of TWCS."""
    return {
        "class": "TimeWindowCompactionStrategy",
        "compaction_window_unit": unit,
        "compaction_window_size": str(size),
        **more,
    }


@dataclass(frozen=True, kw_only=True)
class Made:
    """How a table is declared.

    Attributes:
        ttl_s: Its default TTL; 0 for none.
        compaction: Its compaction options.
        grace_s: Its grace.
        key: Its partition key.
    """

    ttl_s: int
    compaction: dict[str, str]
    grace_s: int = GRACE_S
    key: str = "(series, day)"


DAILY: Final = windows("DAYS", 1)
UNIFIED: Final = {"class": "UnifiedCompactionStrategy"}
TIERED: Final = {"class": "SizeTieredCompactionStrategy"}
# Those whose rows have to be past TTL and grace within a test have a grace of a second.
TABLES: Final = {
    "well": Made(ttl_s=30 * DAY_S, compaction=DAILY),
    "well_ucs": Made(ttl_s=0, compaction=UNIFIED),
    "well_ucs_ttl": Made(ttl_s=30 * DAY_S, compaction=UNIFIED),
    "well_stcs": Made(ttl_s=0, compaction=TIERED),
    "unbounded": Made(ttl_s=90 * DAY_S, compaction=windows("DAYS", 3), key="series"),
    "over_partitioned": Made(ttl_s=30 * DAY_S, compaction=DAILY, key="(series, hour)"),
    "no_ttl": Made(ttl_s=2 * DAY_S, compaction=windows("HOURS", 4), grace_s=1),
    "back_dated": Made(ttl_s=30 * DAY_S, compaction=DAILY),
    "long_grace": Made(ttl_s=DAY_S, compaction=windows("HOURS", 2), grace_s=10 * DAY_S),
    "stcs": Made(ttl_s=DAY_S, compaction=TIERED, grace_s=1),
    # Rows of all ages are in one file, of which a fifth live; it is sick in a while.
    "ucs_mixed": Made(ttl_s=DAY_S, compaction=UNIFIED, grace_s=1),
    # A row of today whose write time is old keeps files that have fully expired.
    "ucs_kept": Made(ttl_s=DAY_S, compaction=UNIFIED, grace_s=1),
    "merged": Made(ttl_s=12 * DAY_S, compaction=DAILY),
    "windows_720": Made(ttl_s=30 * DAY_S, compaction=windows("HOURS", 1)),
    "snapshots": Made(
        ttl_s=2 * DAY_S,
        compaction=windows("HOURS", 4, expired_sstable_check_frequency_seconds="1"),
        grace_s=1,
    ),
    "millis": Made(ttl_s=30 * DAY_S, compaction=DAILY),
}
OURS: Final = "ours"
FAST_ROWS: Final = 1_200
MANY_SERIES: Final = 105


class SickTables:
    """The tables of ``TABLES``, and one that treering made, in a keyspace of a node."""

    def __init__(self, node: LocalCassandra, session: Session, keyspace: str) -> None:
        self.node, self.session, self.keyspace = node, session, keyspace
        self.now_s = int(time.time())
        self.url = node.url(keyspace)

    def make(self) -> None:
        """Make the tables, write their rows round by round, and do what makes them sick."""
        for name, made in TABLES.items():
            self._create(name, made)
        self.node.nodetool("disableautocompaction", self.keyspace)
        with treering.open(self.url) as store:
            store.create(OURS, retention="90d", rate="1/s", columns={"value": "double"})
            table = store.table(OURS)
            for number, age_s in enumerate(AGES_S):
                self._write_round(number, age_s)
                if age_s == 0:
                    times = [(self.now_s - second) * 1_000 for second in range(120)]
                    table.write("p0", times, unit="ms", value=[1.0] * len(times))
                self.node.flush(self.keyspace)
        for series in range(3):
            self.session.execute(
                f"SELECT * FROM {self.keyspace}.well WHERE series = %s AND day = %s LIMIT 5",
                (f"p{series}", time.strftime("%Y-%m-%d", time.gmtime(self.now_s))),
            )
        self.node.nodetool("compact", self.keyspace, "merged")
        self.node.nodetool("snapshot", "-t", "before", "-cf", "snapshots", self.keyspace)
        before = self._files("snapshots")
        self.node.nodetool("enableautocompaction", self.keyspace, "snapshots")
        self._wait(lambda: self._files("snapshots") == before - 3)

    def _create(self, name: str, made: Made) -> None:
        bucket = "" if made.key == "series" else f"{made.key.strip('()').split(', ')[1]} text, "
        self.session.execute(
            f"CREATE TABLE {self.keyspace}.{name} (series text, {bucket}ts timestamp, "
            f"value double, PRIMARY KEY ({made.key}, ts)) WITH CLUSTERING ORDER BY (ts DESC) "
            f"AND default_time_to_live = {made.ttl_s} AND gc_grace_seconds = {made.grace_s} "
            f"AND read_repair = 'NONE' AND compaction = {made.compaction}"
        )

    def _write_round(self, number: int, age_s: int) -> None:
        for name, made in TABLES.items():
            rows = list(self._rows(name, made, number, age_s))
            if not rows:
                continue
            marks = ", ".join("?" * len(rows[0][:-2]))
            columns = "series, ts, value" if made.key == "series" else "series, {}, ts, value"
            columns = columns.format(made.key.strip("()").split(", ")[-1])
            statement = self.session.prepare(
                f"INSERT INTO {self.keyspace}.{name} ({columns}) VALUES ({marks}) "
                "USING TIMESTAMP ? AND TTL ?"
            )
            self._send(statement, rows)

    def _send(self, statement: PreparedStatement, rows: list[tuple[Any, ...]]) -> None:
        """Write rows; those that a busy node was too slow for again, which is the same write."""
        for _ in range(TRIES):
            results = execute_concurrent_with_args(
                self.session, statement, rows, concurrency=64, raise_on_first_error=False
            )
            failed = [result.result_or_exc for result in results if not result.success]
            rows = [row for row, result in zip(rows, results, strict=True) if not result.success]
            if not rows:
                return
            if not all(isinstance(error, WRITE_LATE) for error in failed):
                raise failed[0]
        raise failed[0]

    def _rows(self, name: str, made: Made, number: int, age_s: int) -> Iterator[tuple[Any, ...]]:
        if name == "unbounded":
            # One a second, which a year makes into gigabytes.
            if number == LAST:
                for second in range(FAST_ROWS):
                    yield self._row(made, "fast", second)
            return
        if name == "over_partitioned":
            for hour in range(24):
                for series in range(MANY_SERIES):
                    yield self._row(made, f"p{series}", age_s + HOUR_S * hour)
            return
        if name == "ucs_mixed":
            ages_s: tuple[int, ...] = AGES_S if number == LAST else ()
        else:
            ages_s = (age_s,)
        for series in range(3):
            for second in range(0, 30, 10):
                for one_s in ages_s:
                    in_ms = _is_in_ms(name, number)
                    yield self._row(made, f"p{series}", one_s + second, in_ms=in_ms)
        if name == "no_ttl" and number == 0:
            yield (*self._row(made, "p1", age_s + 5)[:-1], 0)
        if name in ("back_dated", "ucs_kept") and number == LAST:
            yield (*self._row(made, "p1", 90 * HOUR_S)[:-1], made.ttl_s)

    def _row(self, made: Made, series: str, age_s: int, *, in_ms: bool = False) -> tuple[Any, ...]:
        at_s = self.now_s - age_s
        text = time.strftime("%Y-%m-%dT%H", time.gmtime(at_s))
        bucket = {"series": (), "(series, day)": (text[:10],), "(series, hour)": (text,)}[made.key]
        ttl_s = 0 if not made.ttl_s else max(made.ttl_s - age_s, 1)
        write_time = at_s * (1_000 if in_ms else 1_000_000)
        return (series, *bucket, at_s * 1_000, 1.5, write_time, ttl_s)

    def _files(self, name: str) -> int:
        (folder,) = self.node.data_folders()
        return sum(1 for _ in (folder / self.keyspace).glob(f"{name}-*/*-Data.db"))

    def _wait(self, condition: Callable[[], bool]) -> None:
        ends_s = time.monotonic() + BOUND_S
        while not condition():
            assert time.monotonic() < ends_s, f"it did not come true within {BOUND_S} s"
            time.sleep(0.1)


def _is_in_ms(name: str, number: int) -> bool:
    return name == "millis" and number >= LAST - 1
