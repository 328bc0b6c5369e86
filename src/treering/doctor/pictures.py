"""Pictures of a table as inline SVG: its files, its disk to come, its partitions.

Rules of this file: numbers alone reach the drawing; every text is escaped; the number of shapes
is bounded whatever the number of files.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final, Literal

from treering.core.units import DAY_S, TIME_END_S, TIME_MIN_S, render_bytes
from treering.doctor.finding import FileVerdict

Kind = Literal["live", "removable", "waiting", "blocked", "blocker"]
"""Live; expired and free to go; the memtable decides; expired and kept; what keeps others."""

FILES_SHOWN: Final = 400

_WIDTH: Final = 960
_LEFT: Final = 110
_RIGHT: Final = 20
_TOP: Final = 10
_AXIS: Final = 34
_TICKS: Final = 6
_SIZES_SHOWN: Final = 1_000
_BAR_MAX: Final = 14.0
_FILES_HEIGHT: Final = 360


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskStep:
    """From this moment on a table takes so many bytes."""

    time_s: int
    bytes: int


def kinds_of(files: Sequence[FileVerdict]) -> dict[tuple[str, str], Kind]:
    """Return what each file is, by node and path; one that keeps others is a blocker first."""
    blockers = {(file.node, path) for file in files for path in file.blocked_by}
    kinds: dict[tuple[str, str], Kind] = {}
    for file in files:
        key = (file.node, file.path)
        if key in blockers:
            kinds[key] = "blocker"
        elif not file.is_fully_expired:
            kinds[key] = "live"
        elif file.removable == "yes":
            kinds[key] = "removable"
        else:
            kinds[key] = "blocked" if file.removable == "no" else "waiting"
    return kinds


def plan_disk(files: Iterable[FileVerdict], *, now_s: int) -> tuple[DiskStep, ...]:
    """Return what the files of now take until the last of them is gone, if nothing is written.

    Files that may go already stand in the first step, since the server takes them at its next
    look; files that never go are in every step.
    """
    known = [file for file in files if file.data_bytes is not None]
    left = sum(file.data_bytes or 0 for file in known)
    steps = [DiskStep(time_s=now_s, bytes=left)]
    timed = [file for file in known if file.removable_at_s is not None]
    for file in sorted(timed, key=lambda one: one.removable_at_s or 0):
        left -= file.data_bytes or 0
        moment = max(file.removable_at_s or 0, now_s)
        if steps[-1].time_s == moment and len(steps) > 1:
            steps.pop()
        steps.append(DiskStep(time_s=moment, bytes=left))
    return tuple(steps)


# --- drawing


def draw_files(files: Sequence[FileVerdict], *, now_s: int) -> str:
    """Return files as bars on the axis of write time, a row each, the oldest window on top."""
    kinds = kinds_of(files)
    drawn = [file for file in files if file.min_write_us is not None]
    drawn = _most_telling(drawn, kinds)
    if not drawn:
        return ""
    drawn.sort(key=lambda file: (file.max_write_us or 0, file.node, file.path))
    spans = [((f.min_write_us or 0) / 1e6, (f.max_write_us or 0) / 1e6) for f in drawn]
    first = min(start for start, _ in spans)
    last = max(max(end for _, end in spans), first + 1)
    place = _scale(first, last)
    step = min(_BAR_MAX, _FILES_HEIGHT / len(drawn))
    height = step * len(drawn)
    parts = [_time_axis(first, last, height)]
    starts = {f.window_start_s for f in drawn if f.window_start_s is not None}
    parts += [
        f'<line class="window" x1="{place(start):.1f}" x2="{place(start):.1f}" '
        f'y1="{_TOP}" y2="{_TOP + height:.1f}"/>'
        for start in sorted(starts)
        if first <= start <= last
    ]
    for row, (file, (start, end)) in enumerate(zip(drawn, spans, strict=True)):
        x, wide = place(start), max(place(end) - place(start), 1.5)
        parts.append(
            f'<rect class="{kinds[file.node, file.path]}" x="{x:.1f}" '
            f'y="{_TOP + row * step:.1f}" width="{wide:.1f}" height="{max(step * 0.8, 0.6):.1f}">'
            f"<title>{_told(file, kinds[file.node, file.path])}</title></rect>"
        )
    if first <= now_s <= last:
        parts.append(_mark(place(now_s), height, "now"))
    return _svg(parts, height)


def draw_disk(steps: Sequence[DiskStep]) -> str:
    """Return bytes over time as steps; nothing where the first step is all there is."""
    if len(steps) < 2:
        return ""
    first = steps[0].time_s
    last = max(steps[-1].time_s, first + 1)
    last += (last - first) // 20 + 1
    height = 180.0
    top = max(max(step.bytes for step in steps), 1)
    x, y = _scale(first, last), _height(top, height)
    points = [f"{x(first):.1f},{y(steps[0].bytes):.1f}"]
    for before, step in itertools.pairwise(steps):
        points += [
            f"{x(step.time_s):.1f},{y(before.bytes):.1f}",
            f"{x(step.time_s):.1f},{y(step.bytes):.1f}",
        ]
    points.append(f"{x(last):.1f},{y(steps[-1].bytes):.1f}")
    parts = [_time_axis(first, last, height), *_byte_axis(top, height)]
    parts.append(f'<polyline class="disk" points="{" ".join(points)}"/>')
    return _svg(parts, height)


def draw_sizes(times_s: Sequence[int], sizes_bytes: Sequence[int]) -> str:
    """Return sizes over time as a line; nothing with fewer than two.

    Of many samples the least and the largest of each of a thousand equal parts are drawn.
    """
    if len(times_s) < 2:
        return ""
    height = 180.0
    top = max(*sizes_bytes, 1)
    x, y = _scale(times_s[0], times_s[-1]), _height(top, height)
    part = -(-len(times_s) // _SIZES_SHOWN)
    kept: list[int] = []
    for start in range(0, len(times_s), part):
        some = range(start, min(start + part, len(times_s)))
        ends = {min(some, key=sizes_bytes.__getitem__), max(some, key=sizes_bytes.__getitem__)}
        kept += sorted(ends)
    points = " ".join(f"{x(times_s[at]):.1f},{y(sizes_bytes[at]):.1f}" for at in kept)
    parts = [_time_axis(times_s[0], times_s[-1], height), *_byte_axis(top, height)]
    return _svg([*parts, f'<polyline class="disk" points="{points}"/>'], height)


def draw_partitions(bars: Sequence[tuple[int, int]], *, limit_bytes: int) -> str:
    """Return how many partitions have which size, on a logarithmic axis.

    Args:
        bars: Upper bound in bytes and how many, rising; those without any left out.
        limit_bytes: Where a partition is too large.
    """
    bars = [(bound, count) for bound, count in bars if count > 0 and bound > 0]
    if not bars:
        return ""
    low = math.log(min(bars[0][0], limit_bytes) / 1.5)
    high = math.log(max(bars[-1][0], limit_bytes) * 1.5)
    place = _scale(low, high)
    height = 180.0
    top = max(count for _, count in bars)
    y = _height(top, height)
    parts = []
    for bound, count in bars:
        # The bounds of Cassandra's histograms rise by a fifth.
        x = place(math.log(bound / 1.2))
        kind = "blocker" if bound / 1.2 >= limit_bytes else "live"
        parts.append(
            f'<rect class="{kind}" x="{x:.1f}" y="{y(count):.1f}" '
            f'width="{max(place(math.log(bound)) - x - 0.5, 1):.1f}" '
            f'height="{max(_TOP + height - y(count), 1):.1f}">'
            f"<title>{count:,} up to {render_bytes(bound)}</title></rect>"
        )
    parts += [_axis_line(height), *_size_ticks(low, high, place, height)]
    parts += [_tick_left(y(top), f"{top:,}"), _mark(place(math.log(limit_bytes)), height, "limit")]
    return _svg(parts, height)


def _most_telling(
    files: list[FileVerdict], kinds: dict[tuple[str, str], Kind]
) -> list[FileVerdict]:
    order: tuple[Kind, ...] = ("blocker", "blocked", "waiting", "removable", "live")
    if len(files) <= FILES_SHOWN:
        return list(files)
    return sorted(files, key=lambda file: order.index(kinds[file.node, file.path]))[:FILES_SHOWN]


def _told(file: FileVerdict, kind: Kind) -> str:
    size = "" if file.data_bytes is None else f", {render_bytes(file.data_bytes)}"
    gone = "never" if file.max_deletion_s is None else render_moment(file.max_deletion_s)
    window = f", window {file.window}" if file.window else ""
    return escape(f"{file.node} {file.path}: {kind}{size}{window}, expires {gone}")


def render_moment(time_s: float) -> str:
    """Return an instant as ISO text in UTC; outside of the years 1 to 9999 as seconds."""
    if not TIME_MIN_S <= time_s < TIME_END_S:
        return f"{time_s:.0f} s"
    moment = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=int(time_s))
    return moment.strftime("%Y-%m-%dT%H:%MZ")


def _scale(first: float, last: float) -> Callable[[float], float]:
    room = _WIDTH - _LEFT - _RIGHT
    return lambda value: _LEFT + room * (value - first) / (last - first)


def _height(top: float, height: float) -> Callable[[float], float]:
    return lambda value: _TOP + height * (1 - value / top)


def _time_axis(first: float, last: float, height: float) -> str:
    place = _scale(first, last)
    parts = [_axis_line(height)]
    for number in range(_TICKS):
        moment = first + (last - first) * (number + 0.5) / _TICKS
        text = render_moment(moment)
        if last - first > 10 * DAY_S:
            text = text.partition("T")[0]
        parts.append(_tick_below(place(moment), height, text))
    return "".join(parts)


def _byte_axis(top: float, height: float) -> list[str]:
    y = _height(top, height)
    return [_tick_left(y(share * top), render_bytes(share * top)) for share in (0.0, 0.5, 1.0)]


def _size_ticks(
    low: float, high: float, place: Callable[[float], float], height: float
) -> Iterable[str]:
    powers = range(math.ceil(low / math.log(10)), math.floor(high / math.log(10)) + 1)
    for power in powers:
        yield _tick_below(place(power * math.log(10)), height, render_bytes(10.0**power))


def _axis_line(height: float) -> str:
    y = _TOP + height
    return f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'


def _tick_below(x: float, height: float, text: str) -> str:
    y = _TOP + height
    return (
        f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{y:.1f}" y2="{y + 4:.1f}"/>'
        f'<text x="{x:.1f}" y="{y + 18:.1f}" text-anchor="middle">{escape(text)}</text>'
    )


def _tick_left(y: float, text: str) -> str:
    return f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{escape(text)}</text>'


def _mark(x: float, height: float, text: str) -> str:
    return (
        f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{_TOP + height:.1f}"/>'
        f'<text x="{x + 4:.1f}" y="{_TOP + 10}">{escape(text)}</text>'
    )


def _svg(parts: Iterable[str], height: float) -> str:
    whole = f"{height + _TOP + _AXIS:.0f}"
    return f'<svg viewBox="0 0 {_WIDTH} {whole}" role="img">{"".join(parts)}</svg>'
