"""How fast does the embedded engine take in and give out history, in how many bytes a reading?

    python -m benchmarks embedded

Thirty series of a day each, one reading a second, a gauge with two decimals from a seed, and one
real recording of a pulse sensor; written series by series and read series by series; beside DuckDB,
ArcticDB, SQLite with one row a reading, and Parquet by pyarrow, each as its makers would have it
written and read in bulk. A write ends when it is on disk as the peer's own settings have it. All
take turns, round by round, so that what else the machine does meets all of them. Peers that are not
installed are named and left out (``pip install --group bench``).
"""

from __future__ import annotations

import importlib
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

import treering
from benchmarks.block_codec import START_MS, series_of
from benchmarks.measure import Result, best_s
from benchmarks.pulse import pulse_from

Series = tuple[str, npt.NDArray[np.int64], npt.NDArray[np.float64]]
Found = tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]

# Ratios that the design holds ingest, scan and size to.
BUDGETS: Final = {
    "DuckDB": (1.3, 2.0, 1.3),
    "ArcticDB": (0.65, 1.0, 6.0),
}


@dataclass(frozen=True, slots=True)
class Place:
    """An open database of one benchmark.

    Attributes:
        write: Takes a series in, durably.
        read: Gives a series out.
        settle: Ends the writing, as closing the database would.
    """

    write: Callable[[Series], None]
    read: Callable[[str], Found]
    settle: Callable[[], None] = lambda: None


TURNS_S: Final = 12.0
"""After so many seconds a database has shown what it can do."""

Opener = Callable[[Path], AbstractContextManager[Place]]


@contextmanager
def ours(folder: Path) -> Iterator[Place]:
    """Open a table of treering's."""
    clock = treering.ManualClock(np.datetime64(START_MS, "ms") + np.timedelta64(2, "D"))
    with treering.open(folder / "store", clock=clock) as store:
        table = store.create("readings", rate="1/s", retention="90d")

        def write(series: Series) -> None:
            name, ts, values = series
            report = table.write(name, ts, unit="ms", value=values)
            assert report.accepted == len(ts)

        def read(name: str) -> Found:
            # Times that jitter begin a little earlier.
            found = table.read(name, START_MS - 1_000, unit="ms")
            return found.ts, found["value"]

        yield Place(write, read)


@contextmanager
def duckdb(folder: Path) -> Iterator[Place]:
    """Open a table of DuckDB's, on one thread as we are."""
    duck: Any = importlib.import_module("duckdb")
    arrow: Any = importlib.import_module("pyarrow")
    connection = duck.connect(str(folder / "duck.db"), config={"threads": 1})
    connection.execute("CREATE TABLE readings(series VARCHAR, ts BIGINT, value DOUBLE)")

    def write(series: Series) -> None:
        name, ts, values = series
        batch = arrow.table({"ts": ts, "value": values})
        connection.register("batch", batch)
        connection.execute("INSERT INTO readings SELECT ?, ts, value FROM batch", [name])
        connection.unregister("batch")

    def read(name: str) -> Found:
        found = connection.execute(
            "SELECT ts, value FROM readings WHERE series = ? ORDER BY ts", [name]
        ).fetchnumpy()
        return found["ts"], found["value"]

    try:
        yield Place(write, read, lambda: connection.execute("CHECKPOINT") and None)
    finally:
        connection.close()


@contextmanager
def arcticdb(folder: Path) -> Iterator[Place]:
    """Open a library of ArcticDB's in LMDB; an index of times, as it wants."""
    arctic: Any = importlib.import_module("arcticdb")
    pandas: Any = importlib.import_module("pandas")
    library = arctic.Arctic(f"lmdb://{folder / 'arctic'}?map_size=2GB").create_library("readings")

    def write(series: Series) -> None:
        name, ts, values = series
        index = pandas.DatetimeIndex(ts.astype("datetime64[ms]").astype("datetime64[ns]"))
        library.write(name, pandas.DataFrame({"value": values}, index=index))

    def read(name: str) -> Found:
        frame = library.read(name).data
        ts = frame.index.to_numpy().astype("datetime64[ns]").astype(np.int64) // 1_000_000
        return ts, frame["value"].to_numpy()

    yield Place(write, read)


@contextmanager
def sqlite(folder: Path) -> Iterator[Place]:
    """Open a table of SQLite's with one row a reading, committed as durably as ours."""
    import sqlite3

    connection = sqlite3.connect(folder / "peer.db")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(
        "CREATE TABLE readings (series TEXT, ts INTEGER, value REAL, PRIMARY KEY (series, ts)) "
        "WITHOUT ROWID"
    )

    def write(series: Series) -> None:
        name, ts, values = series
        rows = ((name, t, v) for t, v in zip(ts.tolist(), values.tolist(), strict=True))
        with connection:
            connection.executemany("INSERT INTO readings VALUES (?, ?, ?)", rows)

    def read(name: str) -> Found:
        rows = connection.execute(
            "SELECT ts, value FROM readings WHERE series = ? ORDER BY ts", (name,)
        ).fetchall()
        ts, values = zip(*rows, strict=True)
        return np.array(ts), np.array(values)

    def settle() -> None:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    try:
        yield Place(write, read, settle)
    finally:
        connection.close()


@contextmanager
def parquet(folder: Path) -> Iterator[Place]:
    """Keep a Parquet file a series: deltas for times, split bytes for values, zstd."""
    arrow: Any = importlib.import_module("pyarrow")
    files: Any = importlib.import_module("pyarrow.parquet")

    def write(series: Series) -> None:
        name, ts, values = series
        files.write_table(
            arrow.table({"ts": ts, "value": values}),
            folder / f"{name}.parquet",
            compression="zstd",
            use_dictionary=False,
            column_encoding={"ts": "DELTA_BINARY_PACKED", "value": "BYTE_STREAM_SPLIT"},
        )

    def read(name: str) -> Found:
        found = files.read_table(folder / f"{name}.parquet", use_threads=False)
        return found["ts"].to_numpy(), found["value"].to_numpy()

    yield Place(write, read)


PEERS: Final[dict[str, tuple[str, Opener]]] = {
    "DuckDB": ("duckdb", duckdb),
    "ArcticDB": ("arcticdb", arcticdb),
    "SQLite, a row a reading": ("sqlite3", sqlite),
    "Parquet by pyarrow": ("pyarrow", parquet),
}


@dataclass(slots=True)
class Best:
    """The best times of one database so far, and what it takes on disk.

    Attributes:
        in_s: To take everything in.
        out_s: To give everything out.
        size_bytes: On disk, once it is closed.
        spent_s: What all rounds took together.
    """

    in_s: float = math.inf
    out_s: float = math.inf
    size_bytes: int = 0
    spent_s: float = 0.0


def run(*, series: int = 30, rows: int = 86_400, rounds: int = 5) -> list[Result]:
    """Write and read with the embedded engine and with every peer that is installed."""
    gauge = [(f"s{n}", ts, v) for n, (ts, v) in enumerate(series_of("gauge", series, rows))]
    results = compare("a gauge", gauge, rounds, BUDGETS)
    pulse = pulse_from(START_MS)
    if pulse is not None:
        results += compare("a pulse sensor", [("s", *pulse)], 3 * rounds, {})
    return results


def compare(
    what: str, data: Sequence[Series], rounds: int, budgets: Mapping[str, Sequence[float]]
) -> list[Result]:
    """Return how the embedded engine compares with every peer on some series."""
    best = take_turns({"": ours, **installed()}, data, rounds)
    mine = best.pop("")
    total = sum(len(ts) for _, ts, _ in data)
    return [
        Result(
            name=f"embedded: {measure} of {what}",
            ours=total / us,
            peer=total / them,
            peer_name=name,
            unit=unit,
            budget=budget,
        )
        for name, theirs in best.items()
        for measure, unit, us, them, budget in zip(
            ("ingest", "scan", "size"),
            ("readings/s", "readings/s", "readings/kB"),
            (mine.in_s, mine.out_s, mine.size_bytes / 1_000),
            (theirs.in_s, theirs.out_s, theirs.size_bytes / 1_000),
            budgets.get(name, (None, None, None)),
            strict=True,
        )
    ]


def installed() -> dict[str, Opener]:
    """Return the peers that are installed."""
    found = {}
    for name, (module, opener) in PEERS.items():
        try:
            importlib.import_module(module)
        except ImportError:
            print(f"embedded: {name} is not installed and is left out", file=sys.stderr)
        else:
            found[name] = opener
    return found


def take_turns(
    openers: Mapping[str, Opener], data: Sequence[Series], rounds: int
) -> dict[str, Best]:
    """Have all write and read everything, one after the other, again and again.

    One that is slow sits out once it has had its time.
    """
    best = {name: Best() for name in openers}
    for _ in range(rounds):
        for name, opener in openers.items():
            if best[name].spent_s < TURNS_S:
                began_s = time.perf_counter()
                take_a_turn(opener, data, best[name])
                best[name].spent_s += time.perf_counter() - began_s
    return best


def take_a_turn(opener: Opener, data: Sequence[Series], best: Best) -> None:
    """Write everything to a new folder, check it, and read it; keep what was best."""
    total = sum(len(ts) for _, ts, _ in data)
    with tempfile.TemporaryDirectory() as folder:
        with opener(Path(folder)) as place:

            def write() -> None:
                for one in data:
                    place.write(one)
                place.settle()

            def read() -> int:
                return sum(len(place.read(name)[0]) for name, _, _ in data)

            best.in_s = min(best.in_s, best_s(write, lambda none: None, rounds=1))
            check(place, data)
            best.out_s = min(
                best.out_s, best_s(read, lambda count: _assert_all(count, total), rounds=2)
            )
        files = [path for path in Path(folder).rglob("*") if path.is_file()]
        best.size_bytes = sum(path.stat().st_size for path in files)


def check(place: Place, data: Sequence[Series]) -> None:
    """Check every reading before anything is timed with them."""
    for name, ts, values in data:
        found_ts, found = place.read(name)
        assert (found_ts == ts).all(), name
        # SQLite forgets the sign of -0.0, which is thus not held against it.
        assert (found == values).all(), name


def _assert_all(count: int, total: int) -> None:
    assert count == total
