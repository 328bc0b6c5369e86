"""Print the same readings from a folder and from Cassandra, and say whether they are equal.

    python examples/same_readings.py ./plant "cassandra://127.0.0.1/plant?local_dc=datacenter1"
    python examples/same_readings.py ./plant --local-nodes 3

The second form starts nodes of its own, which needs Java 17 and Maven.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

import treering
from treering.testing import LocalCassandra

TABLE = "same_readings"


def write_and_read(where: str, now: np.datetime64) -> tuple[str, treering.Readings]:
    """Write a day of two series into a store and read the last three hours back."""
    options: dict[str, Any] = {}
    if where.startswith("cassandra://"):
        options["replication"] = {"datacenter1": 3}
    with treering.open(where, **options) as store:
        if TABLE in store.tables():
            store.drop(TABLE)
        table = store.create(
            TABLE, rate="1/min", retention="30d", columns="value:double,ok:boolean"
        )
        times = now - np.arange(1_440) * np.timedelta64(60, "s")
        for number, series in enumerate(("pump-7", "pump-8")):
            wave = 20 + number + np.sin(np.arange(1_440) / 60)
            table.write(series, times, value=wave.round(3), ok=wave > 20.5)
        found = table.read(["pump-7", "pump-8"], now - np.timedelta64(3, "h"))
        return store.engine_name, found


@contextlib.contextmanager
def second_store(arguments: argparse.Namespace) -> Iterator[str]:
    """Yield the URL that was named, or that of nodes started here."""
    if arguments.url is not None:
        yield arguments.url
        return
    with LocalCassandra(nodes=arguments.local_nodes) as cluster:
        yield cluster.url("plant")


def main() -> int:
    """Run the comparison; 0 where both stores gave the same readings."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("url", nargs="?")
    parser.add_argument("--local-nodes", type=int, default=3)
    arguments = parser.parse_args()
    now = np.datetime64("now", "ms")
    with second_store(arguments) as url:
        results = [write_and_read(where, now) for where in (arguments.folder, url)]
    for engine, readings in results:
        print(f"{engine}: {len(readings)} readings")
        for row in list(readings.rows())[::90]:
            print("  ", row)
    lists = [list(readings.rows()) for _, readings in results]
    is_same = lists[0] == lists[1] and len(lists[0]) == 362
    print("the same readings from both" if is_same else "the readings differ")
    return 0 if is_same else 1


if __name__ == "__main__":
    raise SystemExit(main())
