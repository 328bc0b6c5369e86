"""Run benchmarks and print their ratios: ``python -m benchmarks [NAME…]``."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from benchmarks.measure import Result, show, write_results

NAMES = (
    "rows_embedded",
    "rows_cassandra",
    "index_cassandra",
    "writer",
    "catalog",
    "block_codec",
    "sstable_metadata",
    "aggregates",
)


def main(names: list[str]) -> int:
    """Run the named benchmarks, all by default; 2 for an unknown name."""
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are {', '.join(NAMES)}", file=sys.stderr)
        return 2
    results: list[Result] = []
    for name in names or NAMES:
        results += importlib.import_module(f"benchmarks.{name}").run()
    show(results)
    if not names:
        write_results(results, Path(__file__).parent / "results.json")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
