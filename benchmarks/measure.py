"""How the benchmarks time, compare and show."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.table import Table

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One comparison: ours and a peer's number on the same work, in the same run.

    Attributes:
        name: What was done.
        ours: Our number.
        peer: The peer's.
        peer_name: Who the peer is.
        unit: The unit of both; larger is better.
        budget: The least ratio that we hold ourselves to; None where there is none.
    """

    name: str
    ours: float
    peer: float
    peer_name: str
    unit: str
    budget: float | None = None

    @property
    def ratio(self) -> float:
        """How many times the peer's number ours is."""
        return self.ours / self.peer

    @property
    def is_met(self) -> bool:
        """Whether the ratio is at least the budget; also where there is none."""
        return self.budget is None or self.ratio >= self.budget


@dataclass(frozen=True, slots=True)
class Timing:
    """What some work took at best.

    Attributes:
        wall_s: Seconds on the clock.
        cpu_s: Seconds of this process's CPU, all threads together.
    """

    wall_s: float
    cpu_s: float


def best_of(work: Callable[[], T], check: Callable[[T], None], *, rounds: int = 3) -> Timing:
    """Return the shortest times of some rounds; each result is checked before it counts."""
    walls, cpus = [], []
    for _ in range(rounds):
        start, cpu = time.perf_counter(), time.process_time()
        result = work()
        walls.append(time.perf_counter() - start)
        cpus.append(time.process_time() - cpu)
        check(result)
    return Timing(min(walls), min(cpus))


def best_s(work: Callable[[], T], check: Callable[[T], None], *, rounds: int = 3) -> float:
    """Return the shortest time of some rounds in seconds, as :func:`best_of`."""
    return best_of(work, check, rounds=rounds).wall_s


def render_results(results: Sequence[Result]) -> Table:
    """Return the results as a table for people."""
    table = Table(title="ratios within this run")
    for heading in ("work", "ours", "peer", "beside", "ratio", "budget"):
        table.add_column(heading, justify="left" if heading in ("work", "beside") else "right")
    for result in results:
        table.add_row(
            result.name,
            f"{result.ours:,.0f} {result.unit}",
            f"{result.peer:,.0f} {result.unit}",
            result.peer_name,
            f"{result.ratio:.2f}x",
            "" if result.budget is None else f"{result.budget:.3g}x{_verdict(result)}",
        )
    return table


def _verdict(result: Result) -> str:
    return "" if result.is_met else " missed"


def write_results(results: Sequence[Result], path: Path) -> None:
    """Write the results as JSON rows."""
    rows = [{**asdict(result), "ratio": round(result.ratio, 3)} for result in results]
    path.write_text(json.dumps(rows, indent=2) + "\n")


def show(results: Sequence[Result]) -> None:
    """Print the results."""
    Console().print(render_results(results))
