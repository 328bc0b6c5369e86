"""How many rows a second does the embedded engine take in and give out, beside plain SQLite?

    python -m benchmarks rows_embedded

The peer writes the same readings with ``executemany`` into one table of one file, in transactions
as large and as durable as ours, and reads them with ``fetchall`` into arrays. Nothing is sealed:
these are live readings; ``embedded`` measures history.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

import treering
from benchmarks.measure import Result, best_s
from treering.engine.sqlite.block_table import SealRules

Series = tuple[str, np.ndarray[Any, np.dtype[np.int64]], np.ndarray[Any, Any]]


def series_of(count: int, rows: int) -> Iterator[Series]:
    """Yield series of one reading a second up to now, two decimals, from a seed."""
    random = np.random.default_rng(2)
    now_ms = int(np.datetime64("now", "ms").astype(np.int64))
    times = now_ms - np.arange(rows, dtype=np.int64)[::-1] * 1_000
    for number in range(count):
        yield f"s{number}", times, random.normal(20, 3, rows).round(2)


def run(*, series: int = 10, rows: int = 86_400) -> list[Result]:
    """Write and read with the embedded engine and with plain SQLite, and compare."""
    data = list(series_of(series, rows))
    with tempfile.TemporaryDirectory() as folder:
        ours_in, ours_out = ours(data, Path(folder) / "ours")
        peer_in, peer_out = peer(data, Path(folder) / "peer.db")
    name = "plain sqlite3, one table"
    return [
        Result(
            name="embedded: write rows", ours=ours_in, peer=peer_in, peer_name=name, unit="rows/s"
        ),
        Result(
            name="embedded: read rows", ours=ours_out, peer=peer_out, peer_name=name, unit="rows/s"
        ),
    ]


def ours(data: list[Series], folder: Path) -> tuple[float, float]:
    """Return rows a second in and out of the embedded engine."""
    total = sum(len(times) for _, times, _ in data)
    with treering.open(folder, rules=SealRules(is_on=False)) as store:
        table = store.create("readings", rate="1/s", retention="90d")

        def write() -> int:
            return sum(
                table.write(name, times, unit="ms", value=values).accepted
                for name, times, values in data
            )

        def check(count: int) -> None:
            assert count == total

        def read() -> int:
            found = [table.read(name, "-30d") for name, _, _ in data]
            for part, (_, times, values) in zip(found, data, strict=True):
                assert (part.ts == times).all()
                assert (part["value"] == values).all()
            return sum(map(len, found))

        return total / best_s(write, check, rounds=1), total / best_s(read, check)


def peer(data: list[Series], path: Path) -> tuple[float, float]:
    """Return rows a second in and out of one plain SQLite table."""
    total = sum(len(times) for _, times, _ in data)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute(
            "CREATE TABLE readings (series TEXT, ts INTEGER, value REAL, "
            "PRIMARY KEY (series, ts)) WITHOUT ROWID"
        )

        def write() -> int:
            for name, times, values in data:
                rows = (
                    (name, ts, v) for ts, v in zip(times.tolist(), values.tolist(), strict=True)
                )
                with connection:
                    connection.executemany("INSERT INTO readings VALUES (?, ?, ?)", rows)
            return int(connection.execute("SELECT count(*) FROM readings").fetchone()[0])

        def read() -> int:
            count = 0
            for name, times, values in data:
                rows = connection.execute(
                    "SELECT ts, value FROM readings WHERE series = ? ORDER BY ts", (name,)
                ).fetchall()
                ts, found = (np.array(column) for column in zip(*rows, strict=True))
                assert (ts == times).all()
                assert (found == values).all()
                count += len(ts)
            return count

        def check(count: int) -> None:
            assert count == total

        return total / best_s(write, check, rounds=1), total / best_s(read, check)
