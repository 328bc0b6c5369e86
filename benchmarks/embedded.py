"""How fast does the embedded engine take in and give out history, in how many bytes a reading?

    python -m benchmarks embedded

Thirty series of a day each, one reading a second, a gauge with two decimals from a seed, written
series by series and read series by series; beside DuckDB, ArcticDB, SQLite with one row a reading,
and Parquet by pyarrow, each as its makers would have it written and read in bulk. A write ends when
it is on disk as the peer's own settings have it. Peers that are not installed are named and left
out (``pip install --group bench``).
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

import treering
from benchmarks.block_codec import START_MS, series_of
from benchmarks.measure import Result, best_s

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
            found = table.read(name, START_MS, unit="ms")
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


def run(*, series: int = 30, rows: int = 86_400, rounds: int = 3) -> list[Result]:
    """Write and read with the embedded engine and with every peer that is installed."""
    data = [(f"s{n}", ts, v) for n, (ts, v) in enumerate(series_of("gauge", series, rows))]
    mine = measure(ours, data, rounds)
    results = []
    for name, (module, opener) in PEERS.items():
        try:
            importlib.import_module(module)
        except ImportError:
            print(f"embedded: {name} is not installed and is left out", file=sys.stderr)
            continue
        theirs = measure(opener, data, rounds)
        budgets: Sequence[float | None] = BUDGETS.get(name, (None, None, None))
        for what, unit, us, them, budget in zip(
            ("ingest", "scan", "size"),
            ("readings/s", "readings/s", "readings/kB"),
            mine,
            theirs,
            budgets,
            strict=True,
        ):
            results.append(
                Result(
                    name=f"embedded: {what} of a gauge",
                    ours=us,
                    peer=them,
                    peer_name=name,
                    unit=unit,
                    budget=budget,
                )
            )
    return results


def measure(opener: Opener, data: Sequence[Series], rounds: int) -> tuple[float, float, float]:
    """Return readings a second in and out, and readings a kilobyte on disk once it is closed."""
    total = sum(len(ts) for _, ts, _ in data)
    in_s, out_s, size = [], [], 0
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            with ExitStack() as stack:
                place = stack.enter_context(opener(Path(folder)))

                def write(place: Place = place) -> None:
                    for one in data:
                        place.write(one)
                    place.settle()

                in_s.append(best_s(write, lambda none: None, rounds=1))
                check(place, data)

                def read(place: Place = place) -> int:
                    return sum(len(place.read(name)[0]) for name, _, _ in data)

                out_s.append(best_s(read, lambda count: _assert_all(count, total), rounds=rounds))
            size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
    return total / min(in_s), total / min(out_s), 1_000 * total / size


def check(place: Place, data: Sequence[Series]) -> None:
    """Check every reading before anything is timed with them."""
    for name, ts, values in data:
        found_ts, found = place.read(name)
        assert (found_ts == ts).all(), name
        # SQLite forgets the sign of -0.0, which is thus not held against it.
        assert (found == values).all(), name


def _assert_all(count: int, total: int) -> None:
    assert count == total
