"""The node that benchmarks run against."""

from __future__ import annotations

import os
from typing import Final

from treering.testing import LocalCassandra

HEAP_MB_MAX: Final = 4_096
_MB: Final = 1_048_576


def bench_node() -> LocalCassandra:
    """Return a node with a quarter of the machine's memory as its heap, 4 GB at most.

    A quarter, up to 8 GB, is what Cassandra's own start script gives a node. In the small heap of
    a test node collecting garbage is most of what it does, and hides what a client costs.
    """
    memory_mb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // _MB
    return LocalCassandra(heap_mb=max(512, min(memory_mb // 4, HEAP_MB_MAX)))
