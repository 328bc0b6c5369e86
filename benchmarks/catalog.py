"""What does the catalog of many series cost: entering, starting, renewing a lease, finding by tag?

    python -m benchmarks catalog

Every tenth series has a width of its own; all have three tags. The size of the largest partition of
the catalog, as the node has it on disk, is printed and scaled to a million series.
"""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Iterator

import treering
from benchmarks.measure import Result, best_s
from benchmarks.nodes import bench_node
from treering.core.series import SeriesRecord
from treering.leases import LeaseTerms, SeriesLease
from treering.testing import LocalCassandra

MILLION = 1_000_000


def records_of(table: treering.Table, count: int) -> Iterator[SeriesRecord]:
    """Yield series with three tags each; every tenth deviates from the table's width."""
    for number in range(count):
        tags = {"site": f"site-{number % 100}", "kind": f"kind-{number % 7}", "unit": "celsius"}
        yield table.plan_series(
            f"plant-{number % 100}/sensor-{number:07d}",
            bucket="hour" if number % 10 == 0 else None,
            tags=tags,
        )


def run(*, series: int = 100_000, single: int = 200) -> list[Result]:
    """Start a node, enter series, and measure what a client does with them."""
    with bench_node() as node:
        with treering.open(node.url("bench"), replication={"datacenter1": 1}) as store:
            table = store.create("readings", rate="1/s", retention="90d")
            results = [measure_entering(table, series, single)]
            results += measure_holding(table, store, series)
        node.nodetool("flush", "bench")
        print_sizes(node, series)
    return results


def measure_entering(table: treering.Table, series: int, single: int) -> Result:
    """Compare entering many at once with one at a time."""
    records = list(records_of(table, series))
    began_s = time.perf_counter()
    for start in range(0, series, 5_000):
        assert len(table.add_many_series(records[start : start + 5_000])) > 0
    bulk_s = time.perf_counter() - began_s
    began_s = time.perf_counter()
    for number in range(single):
        table.add_series(f"single-{number}", tags={"kind": "single"})
    single_s = time.perf_counter() - began_s
    return Result(
        name="catalog: enter series",
        ours=series / bulk_s,
        peer=single / single_s,
        peer_name="one at a time",
        unit="series/s",
    )


def measure_holding(table: treering.Table, store: treering.Store, series: int) -> list[Result]:
    """Compare a start with a renewal, and a search by tag with a walk over all series."""
    spec, engine = table.spec, store._engine
    tracemalloc.start()
    began_s = time.perf_counter()
    lease = SeriesLease(spec, engine, LeaseTerms())
    lease.widths_to_read([], 0)
    start_s = time.perf_counter() - began_s
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert lease.deviating == -(-series // 10)

    def renew() -> int:
        lease.forget()
        lease.widths_to_read([], 0)
        return lease.deviating

    renew_s = best_s(renew, lambda count: _check(count == lease.deviating))
    tags = {"site": "site-42", "unit": "celsius"}
    found = [name for name in table.series() if name.startswith("plant-42/")]
    tag_s = best_s(lambda: list(table.series(tags=tags)), lambda names: _check(names == found))
    walk_s = best_s(
        lambda: sum(1 for _ in table.series()), lambda count: _check(count >= series), rounds=1
    )
    print(
        f"start-up {start_s:.2f} s for {lease.deviating:,} deviating series, {held / 1e6:.1f} MB "
        f"held; renewal {renew_s * 1e3:.0f} ms, 64 small reads and one of the clock a minute"
    )
    return [
        Result(
            name="catalog: renew a lease",
            ours=1 / renew_s,
            peer=1 / start_s,
            peer_name="reading all widths",
            unit="times/s",
        ),
        Result(
            name="catalog: one series of a hundred by tag",
            ours=1 / tag_s,
            peer=1 / walk_s,
            peer_name="walking all series",
            unit="times/s",
        ),
    ]


def print_sizes(node: LocalCassandra, series: int) -> None:
    """Print the largest partition of each table of the catalog, also scaled to a million series."""
    stats = json.loads(node.nodetool("tablestats", "-F", "json", "bench"))
    for name, table in stats["bench"]["tables"].items():
        if name in ("treering_series", "treering_tags"):
            largest = int(table["compacted_partition_maximum_bytes"])
            scaled = largest * MILLION / series
            print(f"{name}: largest partition {largest:,} B; at a million {scaled / 1e6:.1f} MB")


def _check(holds: bool) -> None:
    assert holds, "a result is not what it should be"
