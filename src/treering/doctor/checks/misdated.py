"""Findings on write times that TWCS cannot sort by, and on states of repair that split windows."""

from __future__ import annotations

from collections import defaultdict

from treering.core.times import render_instant
from treering.core.units import render_bytes, render_count, render_duration
from treering.doctor.checks.blockers import Held, held_by
from treering.doctor.checks.commands import FREE, nodetool
from treering.doctor.checks.node_files import NodeFiles
from treering.doctor.checks.wording import amount, names
from treering.doctor.checks.write_times import is_ahead, wrong_unit, wrong_unit_of
from treering.doctor.facts import TableFacts
from treering.doctor.finding import Cost, Finding
from treering.doctor.thresholds import Thresholds
from treering.sstable.facts import SSTableFacts


def find_misdated(facts: TableFacts, files: NodeFiles, thresholds: Thresholds) -> list[Finding]:
    """Return the findings on one node's write times and states of repair."""
    found = (
        _wrong_unit(facts, files),
        _future(facts, files, thresholds),
        _split(facts, files, thresholds),
    )
    return [finding for finding in found if finding is not None]


def _wrong_unit(facts: TableFacts, files: NodeFiles) -> Finding | None:
    units = [wrong_unit_of(files, file) for file in files.files]
    # Microseconds in a table that declares another unit are the declaration's fault, not theirs.
    some = tuple(i for i, unit in enumerate(units) if unit not in (None, "MICROSECONDS"))
    if not some:
        return None
    held = held_by(files, some)
    unit = str(units[some[-1]])
    file = files.files[some[-1]]
    example = file.max_write_us if wrong_unit(files, file.max_write_us) else file.min_write_us
    declared = "MICROSECONDS" if files.twcs is None else files.twcs.resolution
    window = ""
    if files.twcs is not None and example is not None and example == file.max_write_us:
        start = render_instant(files.twcs.window_start_s(example))
        window = f", which TWCS puts into the window of {start}"
    return Finding(
        id="write-time-unit",
        check="drops",
        severity="notice" if files.twcs is None else "warning",
        table=facts.name,
        node=files.node.node,
        evidence=f"{amount(files, some)} of {len(files.files)} hold write times in {unit.lower()}, "
        f"such as {example}{window}{_kept(files, held)}",
        cause=f"a client sends write times (USING TIMESTAMP, or its own generator) in "
        f"{unit.lower()}; the server takes them for {declared.lower()}",
        consequence="windows do not separate what is written now, so no file expires as a whole; "
        "and of two writes of a row the larger number wins: a delete in microseconds hides every "
        "later write in milliseconds for good. A file with one write time of 1970 keeps every file "
        "that expires before it",
        cure="send write times in microseconds, or none: the driver's own are right. Rows that are "
        "there keep theirs until their TTL ends. Risk: while both units are in use the larger "
        "number wins, whichever write came later",
        cost=FREE,
        facts={
            "unit": unit.lower(),
            "files": [files.files[index].path for index in some],
            "example": example,
            "delayed_files": len(held.delayed),
            "delayed_bytes": files.bytes_of(held.delayed),
        },
        impact_bytes=files.bytes_of(tuple({*some, *held.delayed})),
    )


def _kept(files: NodeFiles, held: Held) -> str:
    """Return what files with too small a write time keep, in words; empty for nothing."""
    if not held.delayed or files.twcs is None:
        return ""
    return f"; they keep {amount(files, held.delayed)} beyond their time"


def _future(facts: TableFacts, files: NodeFiles, thresholds: Thresholds) -> Finding | None:
    some = tuple(
        index
        for index, file in enumerate(files.files)
        if is_ahead(files, file, thresholds) and wrong_unit_of(files, file) is None
    )
    if not some:
        return None
    newest_s = max(files.seconds_of(files.files[index].max_write_us or 0) for index in some)
    return Finding(
        id="future-write",
        check="drops",
        severity="warning",
        table=facts.name,
        node=files.node.node,
        evidence=f"{amount(files, some)} with write times up to {render_instant(newest_s)}, "
        f"{render_duration(newest_s - files.now_s)} ahead of the clock ({names(files, some)})",
        cause="a client with a wrong clock, or one that sends event times of the future as write "
        "times; TWCS takes the newest window that it has seen for the current one, not the clock's",
        consequence="until the clock gets there every real window counts as past: each flush is "
        "merged with all of its window at once, and such a file waits for everything that is "
        "written before its time; later deletes and updates of its rows have no effect",
        cure="correct the client's clock, or stop sending write times. The rows go with their TTL; "
        "a restart forgets the newest window only when no file holds it any more. Risk: none",
        cost=FREE,
        facts={
            "ahead_s": newest_s - files.now_s,
            "files": [files.files[index].path for index in some],
        },
        impact_bytes=files.bytes_of(some),
    )


def _split(facts: TableFacts, files: NodeFiles, thresholds: Thresholds) -> Finding | None:
    """Return the finding on past windows whose files are partly repaired and partly not."""
    if files.twcs is None or files.ttl_s is None:
        return None
    states: dict[int, set[bool]] = defaultdict(set)
    for index, file in enumerate(files.files):
        is_settled = file.pending_repair is None and not file.is_transient
        if file.max_write_us is not None and is_settled and not files.is_expired[index]:
            start_s = files.twcs.window_start_s(file.max_write_us)
            states[start_s].add(file.repaired_at_ms is not None)
    past = sorted(states)[:-1]
    split = {start_s for start_s in past if len(states[start_s]) > 1}
    # A repair under way, or one since which a few windows passed, is no fault.
    if len(split) <= thresholds.split_windows_max or 2 * len(split) <= len(past):
        return None
    some = tuple(i for i, file in enumerate(files.files) if _start_s(files, file) in split)
    return Finding(
        id="repaired-split",
        check="drops",
        severity="warning",
        table=facts.name,
        node=files.node.node,
        evidence=f"{len(split)} of {render_count(len(past), 'past window')} have repaired beside "
        f"unrepaired files: {amount(files, some)}",
        cause="incremental repair (the default since 4.0; on 3.11 full repair as well) marks what "
        "it covered as repaired; files of the two states are never compacted together, and what "
        "was not covered stays unrepaired",
        consequence="each such window keeps two files for good, reads touch both, and one of them "
        "can keep expired files of the other state",
        cure="decide for one state: finish an incremental repair of all ranges on every replica, "
        "or use full repairs (--full) only, and set the files back with sstablerepairedset "
        "--is-unrepaired while the node is stopped. Risk: repair streams and compacts data",
        commands=(nodetool("repair", facts),),
        cost=_repair_cost(files),
        facts={"windows": sorted(split), "past_windows": len(past)},
        impact_bytes=files.bytes_of(some),
    )


def _start_s(files: NodeFiles, file: SSTableFacts) -> int | None:
    if files.twcs is None or file.max_write_us is None:
        return None
    return files.twcs.window_start_s(file.max_write_us)


def _repair_cost(files: NodeFiles) -> Cost:
    return Cost(
        text=f"reads {render_bytes(files.data_bytes)} on this node to compare, and splits files "
        "that are partly covered",
        rewritten_bytes=files.data_bytes,
        headroom_bytes=max((file.data_bytes or 0 for file in files.files), default=0),
    )
