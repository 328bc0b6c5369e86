"""Run benchmarks and print their ratios: ``python -m benchmarks [NAME…]``."""

from __future__ import annotations

import importlib
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.measure import Result, show, write_results
from benchmarks.picture import draw_results

FOLDER = Path(__file__).parent
NAMES = (
    "rows_embedded",
    "memory_embedded",
    "embedded",
    "density",
    "writer",
    "block_codec",
    "aggregates",
    "rows_cassandra",
    "growth_cassandra",
    "index_cassandra",
    "catalog",
    "sstable_metadata",
)
BOUND_S = 15 * 60


def main(names: list[str]) -> int:
    """Run the named benchmarks, all by default; 1 if one failed, 2 for an unknown name.

    Only a whole run in which nothing failed replaces the results and the picture.
    """
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are {', '.join(NAMES)}", file=sys.stderr)
        return 2
    began_s = time.perf_counter()
    results, failed = run_all(names or NAMES, load)
    show(results)
    took_s = time.perf_counter() - began_s
    late = "" if took_s <= BOUND_S else f", more than the {BOUND_S:,} s that it may take"
    print(f"{len(results)} comparisons in {took_s:,.0f} s{late}")
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
        return 1
    if not names:
        keep(results, FOLDER)
    return 0


def run_all(
    names: Sequence[str], load: Callable[[str], Callable[[], list[Result]]]
) -> tuple[list[Result], list[str]]:
    """Run benchmarks one after the other; one that fails does not stop the others.

    Returns:
        The results, and the names of those that failed.
    """
    results: list[Result] = []
    failed: list[str] = []
    for name in names:
        began_s = time.perf_counter()
        try:
            results += load(name)()
        except Exception:  # noqa: BLE001  # shown, and the run fails at its end
            traceback.print_exc()
            failed.append(name)
        print(f"{name}: {time.perf_counter() - began_s:,.0f} s", file=sys.stderr, flush=True)
    return results, failed


def load(name: str) -> Callable[[], list[Result]]:
    """Return what runs a benchmark."""
    run: Callable[[], list[Result]] = importlib.import_module(f"benchmarks.{name}").run
    return run


def keep(results: Sequence[Result], folder: Path) -> None:
    """Write the results as JSON, and those with a budget as a picture."""
    write_results(results, folder / "results.json")
    draw_results(
        [result for result in results if result.budget is not None], folder / "results.png"
    )


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
