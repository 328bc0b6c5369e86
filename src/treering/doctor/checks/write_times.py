"""What the write times inside a file say about how they came there.

Rules of this file: a file is judged by its own numbers and by the table's lifetime and windows;
each file has one cause at most, the one that explains most comes first.
"""

from __future__ import annotations

import statistics
from typing import Final, Literal

from treering.core.units import MINUTE_S, render_duration
from treering.doctor.checks.expired import gone_before
from treering.doctor.checks.known import hint_window_s_of
from treering.doctor.checks.node_files import NodeFiles, is_true
from treering.doctor.checks.windows import state_of
from treering.doctor.facts import TableFacts
from treering.doctor.thresholds import Thresholds
from treering.sstable.facts import SSTableFacts

Unit = Literal["SECONDS", "MILLISECONDS", "MICROSECONDS", "NANOSECONDS"]

_UNIT_FROM: Final[tuple[tuple[int, Unit], ...]] = (
    # 1985 to 2286 in each unit; the ranges do not touch.
    (500_000_000, "SECONDS"),
    (500_000_000_000, "MILLISECONDS"),
    (500_000_000_000_000, "MICROSECONDS"),
    (500_000_000_000_000_000, "NANOSECONDS"),
)
_UNIT_SPAN: Final = 20  # 10,000,000,000 s are the year 2286, and twenty times 1985's.

Cause = Literal["write-time-unit", "no-ttl", "long-ttl", "future", "merged", "old-write"]


def unit_of(write_time: int) -> Unit | None:
    """Return the unit that makes a number a time between 1985 and 2286; None for none.

    >>> unit_of(1_700_000_000_000), unit_of(1_700_000_000_000_000), unit_of(1)
    ('MILLISECONDS', 'MICROSECONDS', None)
    """
    for start, unit in _UNIT_FROM:
        if start <= write_time < start * _UNIT_SPAN:
            return unit
    return None


def wrong_unit_of(files: NodeFiles, file: SSTableFacts) -> Unit | None:
    """Return the unit of a file's write times where it is not the one that the table declares."""
    return wrong_unit(files, file.min_write_us) or wrong_unit(files, file.max_write_us)


def wrong_unit(files: NodeFiles, write_time: int | None) -> Unit | None:
    """Return the unit of one write time where it is not the one that the table declares."""
    declared = "MICROSECONDS" if files.twcs is None else files.twcs.resolution
    unit = None if write_time is None else unit_of(write_time)
    return None if unit == declared else unit


def is_ahead(files: NodeFiles, file: SSTableFacts, thresholds: Thresholds) -> bool:
    """Return whether a file's newest write time lies in a window that has not begun."""
    if files.twcs is None or file.max_write_us is None:
        return False
    newest_s = files.seconds_of(file.max_write_us)
    if newest_s <= files.now_s + thresholds.ahead_max_s:
        return False
    return files.twcs.window_start_s(file.max_write_us) > files.now_s


def causes_of(files: NodeFiles, thresholds: Thresholds) -> tuple[Cause | None, ...]:
    """Return for each file what is unusual about it; None for nothing.

    Files of a table whose every file spans as many windows come from a memtable that is flushed
    as rarely: that is usual there.
    """
    spans_s = [files.span_s(file) for file in files.files]
    usual_s = statistics.median(spans_s) if len(spans_s) > 3 else 0
    wide_from_s = max(thresholds.span_windows_max * files.window_s, 3 * usual_s)
    return tuple(
        _cause_of(files, file, thresholds, is_wide=span_s > wide_from_s)
        for file, span_s in zip(files.files, spans_s, strict=True)
    )


def _cause_of(
    files: NodeFiles, file: SSTableFacts, thresholds: Thresholds, *, is_wide: bool
) -> Cause | None:
    if file.max_write_us is None or files.ttl_s is None:
        return None
    if wrong_unit_of(files, file) is not None:
        return "write-time-unit"
    if file.max_deletion_s is None:
        return "no-ttl"
    if files.twcs is None:
        return None
    if is_ahead(files, file, thresholds):
        return "future"
    newest_s = min(files.seconds_of(file.max_write_us), files.now_s)
    outlives = file.max_deletion_s > newest_s + files.ttl_s + files.slack_s()
    if outlives and file.max_ttl_s > files.ttl_s + files.slack_s():
        return "long-ttl"
    merged_from_s = int(thresholds.expired_bytes_ratio_max * files.ttl_s)
    if is_wide and files.span_s(file) > merged_from_s and is_spread(file, files):
        return "old-write" if are_older_beside(files, file) else "merged"
    return "old-write" if is_wide or outlives else None


def are_older_beside(files: NodeFiles, file: SSTableFacts) -> bool:
    """Return whether files that are older than a file hold some of the windows that it holds.

    Then no compaction of all files made it: that would have taken them too. Files of another
    state of repair or another folder are never compacted with it.
    """
    if file.min_write_us is None:
        return False
    first_s = files.seconds_of(file.min_write_us) + files.window_s
    return any(
        other.max_write_us is not None
        and files.seconds_of(other.max_write_us) >= first_s
        and is_older(other, file)
        and state_of(other) == state_of(file)
        for other in files.files
    )


def is_older(file: SSTableFacts, other: SSTableFacts) -> bool:
    """Return whether a file was written before another of its folder, as their ids say.

    Ids rise, both those that are numbers and those that begin with a time (``SSTableId``, 4.1 and
    5.0); the times of files change when they are copied.
    """
    return _order_of(file.id) < _order_of(other.id)


def _order_of(id_text: str) -> tuple[bool, int, str]:
    """Return what sorts ids: numbers first, since a server begins with them."""
    if not id_text.isdecimal():
        return True, 0, id_text
    digits = id_text.lstrip("0")  # A stranger's number may have more digits than an int takes.
    return False, len(digits), digits


def is_spread(file: SSTableFacts, files: NodeFiles) -> bool:
    """Return whether most rows of a file are of other windows than its last two."""
    if file.max_deletion_s is None or not file.deletions.count:
        return False
    # From the last point and not the last second: points are rounded up.
    earlier = gone_before(file, int(file.deletions.points_s[-1]) - 2 * files.window_s)
    return earlier / file.deletions.count >= 0.5


Origin = Literal["back-dated", "repair", "read repair", "hint", "unknown"]


def origin_of(facts: TableFacts, files: NodeFiles, file: SSTableFacts) -> tuple[Origin, str]:
    """Return what most likely brought an old write time into a young file, and why.

    A cell that a hint, a read or a repair brings keeps its own expiry, so it expires at its write
    time and TTL. One that was written with ``USING TIMESTAMP`` expires at the clock and TTL.

    What a repair streams lies in files of its own, each with the times of its source, so that a
    file was repaired says nothing. Only tables with CDC write it to the memtable, as the streams of
    ``CassandraStreamReceiver`` do (4.0 to 5.0; ``StreamReceiveTask`` in 3.11).
    """
    assert file.min_write_us is not None
    if _is_back_dated(files, file, files.seconds_of(file.min_write_us)):
        return "back-dated", (
            "its rows expire later than their write time and TTL allow, so they were written with "
            "a time of their own (USING TIMESTAMP, or a driver that sends one)"
        )
    if is_spread(file, files) and are_older_beside(files, file):
        return "repair", (
            "most of its rows are of windows that older files beside it hold as well, so it came "
            "in whole, as wide as its source was: streamed by a repair or a rebuild, or loaded; or "
            "it was flushed after hints or read repair had brought more than was written; or the "
            "table had another strategy before TWCS"
        )
    if _has_cdc(facts):
        return "repair", (
            "the table has change data capture, so a repair writes what it brings to the memtable; "
            "a hint or read repair does the same"
        )
    return _of_mutation(facts, files, file)


def _has_cdc(facts: TableFacts) -> bool:
    options = {} if facts.schema is None else facts.schema.options or {}
    return is_true(str(options.get("cdc") or ""))


def _of_mutation(facts: TableFacts, files: NodeFiles, file: SSTableFacts) -> tuple[Origin, str]:
    """Return whether a hint or read repair brought an old write time, by its age.

    Hints are made while a node is away for less than the hint window, and applied while they are
    younger than the grace (``hints/Hint``, 3.11 to 5.0), however long the node was away.
    """
    reads, why_reads = read_repair_of(facts)
    age_s, slack_s = files.span_s(file), 2 * files.window_s
    made_s, grace_s = hint_window_s_of(facts), files.rules.gc_grace_s
    is_hint = made_s is not None and grace_s > 0 and age_s <= grace_s + slack_s
    if made_s is not None and is_hint and age_s <= made_s + slack_s:
        also = f", or read repair ({why_reads})" if reads else ""
        return "hint", f"the old rows are no older than hints are made for{also}"
    if made_s is not None and is_hint:
        away = (
            f"a node that was away for longer than {render_duration(made_s)}: it gets the hints of "
            "that time when it is back, unless they are older than gc_grace_seconds"
        )
        if reads:
            return "read repair", f"{why_reads}; or hints for {away}"
        return "hint", f"{why_reads}, and the old rows fit {away}"
    no_hint = "the rows are older than any hint may be"
    if made_s is None:
        no_hint = "no node makes hints"
    elif grace_s == 0:
        no_hint = "no hint is applied with a grace of 0"
    if reads:
        return "read repair", f"{why_reads}, and {no_hint}"
    return "unknown", (
        f"{why_reads}, and {no_hint}: a write with a time of its own (USING TIMESTAMP) whose TTL "
        "was cut to match, or a file that was brought in from elsewhere"
    )


def _is_back_dated(files: NodeFiles, file: SSTableFacts, oldest_s: int) -> bool:
    slack_s = 2 * files.window_s + MINUTE_S
    # Where the earliest expiry in the file is later than its oldest row's can be.
    is_late = file.min_deletion_s is not None and (
        file.min_deletion_s > oldest_s + max(file.max_ttl_s, 1) + slack_s
    )
    newest_s = files.seconds_of(file.max_write_us or 0)
    outlives = file.max_deletion_s is not None and (
        file.max_deletion_s > newest_s + file.max_ttl_s + slack_s
    )
    return is_late or outlives


def read_repair_of(facts: TableFacts) -> tuple[bool, str]:
    """Return whether the table's options let a read write old rows again, and what they say."""
    options = {} if facts.schema is None else facts.schema.options or {}
    mode = options.get("read_repair")
    if mode is not None:
        is_on = str(mode).upper() != "NONE"
        return is_on, f"read_repair is {mode}"
    chances = [options.get("read_repair_chance"), options.get("dclocal_read_repair_chance")]
    known = [float(chance) for chance in chances if isinstance(chance, (int, float))]
    if known:
        return any(known), f"its read repair chance is {max(known):g}"
    return True, "nothing says that read repair is off"
