"""The bucket widths of a series over time: which layout holds an event time.

Rules of this file: a history is the changes in order, empty for the table's width since ever; at a
change the wider bucket is clipped, so every instant lies in exactly one slice; a change becomes
true at an instant that no client can have written beyond without having seen it; a change that was
written too late for that is void, and everyone can tell by its write time.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from treering.core.bucket import (
    Bucket,
    BucketWidth,
    bucket_end_s,
    bucket_start_s,
    bucket_starts_s,
    count_buckets,
)
from treering.core.times import render_ts
from treering.core.units import Interval, Precision
from treering.errors import CorruptDataError, WidthError

LEASE_S: Final = 60.0
"""How long a client may go on with the widths that it read. All clients of a table share it."""

CLOCK_BOUND_S: Final = 5.0
"""How far a client's clock may be from the server's before the client refuses to write."""

CHANGES_MAX: Final = 64
"""The most changes of one series' width."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WidthSince:
    """A width, and the event time from which on it holds: epoch seconds; None is since ever."""

    width: BucketWidth
    since_s: int | None

    @property
    def text(self) -> str:
        """The width and its date, for people."""
        if self.since_s is None:
            return self.width.value
        return f"{self.width} from {render_ts(self.since_s * 1_000, Precision.MS)}"


History = tuple[WidthSince, ...]
"""Widths in order of time. Before the first that is dated, the table's width holds."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Event time ``[start, end)``, in ticks, that has one width."""

    width: BucketWidth
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class BucketSlice:
    """The part ``[start, end)``, in ticks, of a bucket."""

    bucket: Bucket
    start: int
    end: int


def check_history(history: History) -> History:
    """Return a history whose dates ascend.

    Raises:
        WidthError: They do not, or there are too many changes.
    """
    dates = [change.since_s for change in history]
    dated = [date for date in dates[1:] if date is not None]
    is_ordered = len(dated) == len(dates[1:]) and all(
        a is None or a < b for a, b in zip(dates, dated, strict=False)
    )
    if not is_ordered:
        raise WidthError(f"the dates of a series' widths do not ascend: {render_history(history)}")
    if len(history) > CHANGES_MAX:
        raise WidthError(
            f"a series would have {len(history)} widths, more than {CHANGES_MAX}",
            hint="start a new series",
        )
    return history


def render_history(history: History) -> str:
    """Return a history for people: ``day, then hour from 2025-11-20T13:00:00.000Z``."""
    return ", then ".join(change.text for change in history)


def history_to_text(history: History) -> str:
    """Return what the catalog keeps of a history."""
    return json.dumps([[change.width.value, change.since_s] for change in history])


def history_from_text(text: str | None) -> History:
    """Return the history that :func:`history_to_text` wrote; empty for None or empty text.

    Raises:
        CorruptDataError: Not the text of a history.
    """
    if not text:
        return ()
    try:
        return check_history(
            tuple(
                WidthSince(width=BucketWidth(width), since_s=None if date is None else int(date))
                for width, date in json.loads(text)
            )
        )
    except (TypeError, ValueError) as error:
        raise CorruptDataError(
            f"the catalog's widths of a series cannot be read: {text[:200]!r}",
            hint="restore the catalog from a backup",
            found=text,
        ) from error


def last_width(history: History, default: BucketWidth) -> BucketWidth:
    """Return the width that the newest event times have."""
    return history[-1].width if history else default


def all_widths(history: History, default: BucketWidth) -> tuple[BucketWidth, ...]:
    """Return every width of a series that some event time may have, each once."""
    first = () if history and history[0].since_s is None else (default,)
    return tuple(dict.fromkeys((*first, *(change.width for change in history))))


def pieces_of(interval: Interval, history: History, default: BucketWidth) -> Iterator[Piece]:
    """Yield the parts of an interval that have one width each, ascending, without a gap."""
    per_s = interval.precision.per_s
    start, width = interval.start, default
    for change in history:
        if change.since_s is not None:
            since = change.since_s * per_s
            if start < min(since, interval.end):
                yield Piece(width, start, min(since, interval.end))
            start = max(start, since)
        width = change.width
    if start < interval.end:
        yield Piece(width, start, interval.end)


def count_slices(interval: Interval, history: History, default: BucketWidth) -> int:
    """Return how many partitions a read of an interval touches, without building them."""
    if not history:
        return count_buckets(interval, default)
    return sum(
        count_buckets(Interval(piece.start, piece.end, interval.precision), piece.width)
        for piece in pieces_of(interval, history, default)
    )


def slices_between(
    interval: Interval, history: History, default: BucketWidth
) -> Iterator[BucketSlice]:
    """Yield the slices of buckets that tile an interval, ascending: each instant lies in one.

    Args:
        interval: Half-open event time.
        history: The widths of the series.
        default: The table's width.

    Cost:
        One partition read per element.
    """
    per_s = interval.precision.per_s
    for piece in pieces_of(interval, history, default):
        start_s = bucket_start_s(piece.start // per_s, piece.width)
        while start_s * per_s < piece.end:
            end_s = bucket_end_s(start_s, piece.width)
            yield BucketSlice(
                Bucket(start_s, end_s, piece.width),
                max(start_s * per_s, piece.start),
                min(end_s * per_s, piece.end),
            )
            start_s = end_s


def width_at(ts: int, history: History, default: BucketWidth, precision: Precision) -> BucketWidth:
    """Return the width that holds an event time."""
    return next(iter(pieces_of(Interval(ts, ts + 1, precision), history, default))).width


@dataclass(frozen=True, slots=True)
class Placed:
    """Where event times go: the array twin of :func:`width_at`.

    Attributes:
        piece: Index into ``widths`` for each event time, int64.
        start_s: The start of its bucket, epoch seconds, int64.
        widths: The widths of the pieces, in order of time.
    """

    piece: npt.NDArray[np.int64]
    start_s: npt.NDArray[np.int64]
    widths: tuple[BucketWidth, ...]


def place(
    ts: npt.NDArray[np.int64], history: History, default: BucketWidth, precision: Precision
) -> Placed:
    """Return the piece and the bucket of every event time, in ticks of ``precision``."""
    if not history:
        starts = bucket_starts_s(ts, default, precision)
        return Placed(np.zeros(len(ts), dtype=np.int64), starts, (default,))
    dated = [change for change in history if change.since_s is not None]
    first = history[0].width if history[0].since_s is None else default
    widths = (first, *(change.width for change in dated))
    since = np.array([change.since_s for change in dated], dtype=np.int64)
    # Whole seconds: an event time is at or after a whole second if its floor is.
    piece = np.searchsorted(since, ts // precision.per_s, side="right").astype(np.int64)
    starts = np.empty(len(ts), dtype=np.int64)
    for index in np.unique(piece).tolist():
        inside = piece == index
        starts[inside] = bucket_starts_s(ts[inside], widths[index], precision)
    return Placed(piece, starts, widths)


# Changing a width


def earliest_since_s(
    now_s: float, old: BucketWidth, new: BucketWidth, *, future_limit_s: int, lease_s: float
) -> int:
    """Return from which event time on a change that is made now can hold, in epoch seconds.

    The next boundary of the narrower width after now, the future limit and two leases: one for
    the clients that read the old width just before, one for the change itself to be written.
    """
    narrower = min(old, new, key=lambda width: width.length_s)
    first_s = math.ceil(now_s + 2 * lease_s) + future_limit_s
    return bucket_end_s(bucket_start_s(first_s, narrower), narrower)


def is_void(change: WidthSince, written_us: int, *, future_limit_s: int, lease_s: float) -> bool:
    """Return whether a change was written too late for its date, by the server's write time.

    A client that read the widths just before may write up to its reading time, the future limit
    and a lease; its clock and the server's may differ by the bound, in both directions.
    """
    if change.since_s is None:
        return False
    last_s = change.since_s - future_limit_s - lease_s - 2 * CLOCK_BOUND_S
    return written_us > last_s * 1_000_000


def valid_history(
    history: History, written_us: int, *, future_limit_s: int, lease_s: float
) -> History:
    """Return a history without its newest change where that is void: to everyone it never was."""
    if history and is_void(history[-1], written_us, future_limit_s=future_limit_s, lease_s=lease_s):
        return history[:-1]
    return history


def is_pending(history: History, now_s: float) -> bool:
    """Return whether the last change has not taken effect yet."""
    last_s = history[-1].since_s if history else None
    return last_s is not None and last_s > now_s


def plan_width(
    history: History,
    width: BucketWidth,
    default: BucketWidth,
    *,
    now_s: float,
    future_limit_s: int,
    lease_s: float,
) -> History:
    """Return the history with a change to ``width``; the same where that is the last one already.

    Args:
        history: The widths of the series, void changes left out.
        width: The width wanted.
        default: The table's width.
        now_s: The server's clock, epoch seconds.
        future_limit_s: How far ahead of now a reading may be.
        lease_s: How long a client may go on with the widths that it read.

    Raises:
        WidthError: Another change is pending, or there were too many.
    """
    old = last_width(history, default)
    if old is width:
        return history
    if is_pending(history, now_s):
        last_s = history[-1].since_s
        raise WidthError(
            f"a change to {history[-1].text} is pending, and a second cannot be made before it",
            hint="wait until then, and set the width again",
            pending_since_s=last_s,
        )
    since_s = earliest_since_s(now_s, old, width, future_limit_s=future_limit_s, lease_s=lease_s)
    return check_history((*history, WidthSince(width=width, since_s=since_s)))
