"""How long things took, counted in a bounded number of steps.

Rules of this file: pure; a duration costs a few integer operations and no memory, however many
there are; a quantile is at most an eighth above the true one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

SUB_BITS: Final = 3
"""Each power of two of microseconds is cut into 2**3 equal steps."""

_OCTAVES: Final = 32  # 2**32 microseconds are 72 minutes; what is longer counts into the last step.
STEPS: Final = _OCTAVES << SUB_BITS
_SUBS: Final = 1 << SUB_BITS


def step_of(duration_us: int) -> int:
    """Return the step that a duration is counted in, from 0 to ``STEPS - 1``."""
    if duration_us < 1:
        return 0
    octave = duration_us.bit_length() - 1
    sub = (duration_us << SUB_BITS >> octave) & (_SUBS - 1)
    return min((octave << SUB_BITS) + sub, STEPS - 1)


def end_of_step_us(step: int) -> float:
    """Return the first duration above a step, in microseconds."""
    octave, sub = step >> SUB_BITS, step & (_SUBS - 1)
    return float((_SUBS + sub + 1) * 2.0 ** (octave - SUB_BITS))


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyStats:
    """How long things took.

    Attributes:
        count: How many.
        total_s: All together.
        p50_s: Half of them took at most that, within an eighth above; 0.0 where there are none.
        p99_s: Of a hundred, ninety-nine took at most that, within an eighth above.
        max_s: The longest.
        counts: How many fell into each step of the histogram.
    """

    count: int
    total_s: float
    p50_s: float
    p99_s: float
    max_s: float
    counts: tuple[int, ...] = field(repr=False)

    def within(self, octave: int) -> int:
        """Return how many took less than ``2**octave`` microseconds."""
        return sum(self.counts[: octave << SUB_BITS])


class Histogram:
    """Counts durations. Not safe to use from several threads at once."""

    def __init__(self) -> None:
        self._counts = [0] * STEPS
        self._count = 0
        self._total_s = 0.0
        self._max_s = 0.0

    def add(self, duration_s: float) -> None:
        """Count one duration."""
        self._counts[step_of(int(duration_s * 1e6))] += 1
        self._count += 1
        self._total_s += duration_s
        self._max_s = max(self._max_s, duration_s)

    def stats(self) -> LatencyStats:
        """Return what was counted so far."""
        return LatencyStats(
            count=self._count,
            total_s=self._total_s,
            p50_s=self._quantile_s(50),
            p99_s=self._quantile_s(99),
            max_s=self._max_s,
            counts=tuple(self._counts),
        )

    def _quantile_s(self, percent: int) -> float:
        # The smallest duration that so many of a hundred do not exceed, in whole numbers.
        wanted = -(-self._count * percent // 100)
        seen = 0
        for step, count in enumerate(self._counts):
            seen += count
            if count and seen >= wanted:
                return min(end_of_step_us(step) / 1e6, self._max_s)
        return 0.0
