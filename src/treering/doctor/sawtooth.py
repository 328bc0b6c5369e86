"""Does disk come back? Sawtooth or staircase, from sizes over time. Pure.

Rules of this file: what leaves shows as a fall, and what never leaves as a rise of the lowest
points between falls; before the first file is due nobody can tell, and then it says so; sizes are
of live files alone, since snapshots and the rest of a volume say nothing about expiry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from treering.core.units import DAY_S, render_bytes, render_count, render_duration
from treering.errors import UsageError

Kind = Literal["sawtooth", "staircase", "filling", "flat", "unknown"]
"""Disk comes back; it does not; nothing is due yet; nothing moves; too few samples."""

SAMPLES_MIN: Final = 8
_FLAT_SHARE: Final = 0.02
_FALL_SHARE: Final = 0.01
_SEGMENTS: Final = 6
_SEGMENT_SAMPLES: Final = 3
GROWTH_SHARE_MAX: Final = 0.1
"""How much of its own level the lower edge may rise over the time that was watched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskShape:
    """How the size of a table went.

    Attributes:
        kind: What it looks like.
        samples: How many there are.
        span_s: From the first to the last.
        falls: Times that the size fell by more than a hundredth of the largest.
        fallen_bytes: What left in them.
        risen_bytes: What came.
        low_growth_bytes_per_day: How fast the lowest points rise; None where nobody can tell.
        why: One line with the numbers.
    """

    kind: Kind
    samples: int
    span_s: int
    falls: int
    fallen_bytes: int
    risen_bytes: int
    low_growth_bytes_per_day: float | None
    why: str


def shape_of(
    times_s: npt.ArrayLike, sizes_bytes: npt.ArrayLike, *, due_after_s: int | None = None
) -> DiskShape:
    """Return whether disk came back over some samples.

    Args:
        times_s: Rising, epoch seconds, shape (n,).
        sizes_bytes: Of live files, shape (n,).
        due_after_s: How long a reading stays on disk at the most, as TTL, grace and window say;
            None where that is not known.

    Raises:
        UsageError: Times that do not rise, negative sizes, or unequal lengths.
    """
    times = np.asarray(times_s, dtype=np.float64)
    sizes = np.asarray(sizes_bytes, dtype=np.float64)
    _check(times, sizes)
    span_s = int(times[-1] - times[0]) if len(times) else 0
    steps = np.diff(sizes)
    top = float(sizes.max(initial=0.0))
    falls = steps[steps < -_FALL_SHARE * top] if top else steps[:0]
    fallen, risen = int(-falls.sum()), int(steps[steps > 0].sum())
    growth = _low_growth(times, sizes)
    kind = _kind(sizes, span_s, falls=len(falls), growth=growth, due_after_s=due_after_s)
    return DiskShape(
        kind=kind,
        samples=len(times),
        span_s=span_s,
        falls=len(falls),
        fallen_bytes=fallen,
        risen_bytes=risen,
        low_growth_bytes_per_day=None if growth is None else growth * DAY_S,
        why=_why(kind, len(times), span_s, (len(falls), fallen, risen), growth, due_after_s),
    )


def _check(times: npt.NDArray[np.float64], sizes: npt.NDArray[np.float64]) -> None:
    if times.ndim != 1 or times.shape != sizes.shape:
        raise UsageError(f"{times.shape} times cannot have {sizes.shape} sizes")
    if not (np.isfinite(times).all() and np.isfinite(sizes).all()):
        raise UsageError("a time or a size is no number")
    if (np.diff(times) <= 0).any():
        raise UsageError("the times of samples must rise", hint="give each time once, in order")
    if (sizes < 0).any():
        raise UsageError("a size is below zero")


def _low_growth(times: npt.NDArray[np.float64], sizes: npt.NDArray[np.float64]) -> float | None:
    """Return how fast the lower edge rises, bytes a second; None with too few samples.

    The lower edge is the least size of each of a few equal parts of the time; the slope is the
    median of the slopes between all pairs of them, so that one odd part does not decide.
    """
    if len(times) < SAMPLES_MIN:
        return None
    parts = min(_SEGMENTS, len(times) // _SEGMENT_SAMPLES)
    edges = np.linspace(times[0], times[-1], parts + 1)
    part = np.clip(np.searchsorted(edges, times, side="right") - 1, 0, parts - 1)
    lows = [
        (float(times[place]), float(sizes[place]))
        for number in range(parts)
        if len(some := np.flatnonzero(part == number))
        for place in [some[int(np.argmin(sizes[some]))]]
    ]
    slopes = [
        (later[1] - earlier[1]) / (later[0] - earlier[0])
        for place, earlier in enumerate(lows)
        for later in lows[place + 1 :]
    ]
    return float(np.median(slopes)) if slopes else None


def _kind(
    sizes: npt.NDArray[np.float64],
    span_s: int,
    *,
    falls: int,
    growth: float | None,
    due_after_s: int | None,
) -> Kind:
    if growth is None:
        return "unknown"
    level = float(np.median(sizes))
    if float(sizes.max() - sizes.min()) <= _FLAT_SHARE * max(level, 1.0):
        return "flat"
    is_growing = growth * span_s > GROWTH_SHARE_MAX * max(level, 1.0)
    if not is_growing:
        return "sawtooth" if falls else "flat"
    # What grows may be filling up to its level; only past that time is it a staircase.
    if due_after_s is None:
        return "staircase" if falls else "unknown"
    return "staircase" if span_s > due_after_s else "filling"


def _why(
    kind: Kind,
    samples: int,
    span_s: int,
    moved: tuple[int, int, int],
    growth: float | None,
    due_after_s: int | None,
) -> str:
    falls, fallen, risen = moved
    if growth is None:
        count = render_count(samples, "sample")
        return f"{count} over {render_duration(span_s)}; {SAMPLES_MIN} are needed to tell"
    seen = (
        f"{render_count(samples, 'sample')} over {render_duration(span_s)}: "
        f"{render_bytes(risen)} came and {render_bytes(fallen)} left in "
        f"{render_count(falls, 'fall')}"
    )
    low = f"the lowest points rise by {render_bytes(max(growth, 0) * DAY_S)} a day"
    match kind:
        case "filling":
            assert due_after_s is not None
            return f"{seen}; {low}; nothing has to leave before {render_duration(due_after_s)}"
        case "unknown":
            return f"{seen}; {low}; whether anything had to leave is not known: give --due-after"
        case "sawtooth" | "staircase" | "flat":
            return f"{seen}; {low}"


def render_prediction(curve: Sequence[tuple[int, int]]) -> str:
    """Return in words what of the files of now will be left, and when.

    Args:
        curve: Moments, epoch seconds, with the bytes from then on; the first is now.
    """
    now_s, total = curve[0]
    last_s, left = curve[-1]
    if not total:
        return "there is nothing on disk"
    if left == total:
        return f"none of the {render_bytes(total)} of now will ever leave"
    half_s = next(moment for moment, size in curve if size <= (total + left) / 2)
    kept = f"; {render_bytes(left)} never leave" if left else ""
    return (
        f"of the {render_bytes(total)} of now {render_bytes(total - left)} leave by themselves, "
        f"half of them within {render_duration(max(half_s - now_s, 1))}, "
        f"all within {render_duration(max(last_s - now_s, 1))}{kept}"
    )
