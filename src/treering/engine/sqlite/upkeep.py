"""Expiry and inspection of a table's segments.

Rules of this file: a segment goes as a whole or stays; it goes under its own write lock and the
catalog's, so that no acknowledged reading goes with it; a damaged segment can still expire.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from treering.core.segment import Segment, is_segment_expired, segment_length_s
from treering.core.table import TableSpec
from treering.core.times import render_ts
from treering.engine.protocol import ExpireReport, Removal, TableInfo
from treering.engine.sqlite.catalog import Catalog
from treering.engine.sqlite.database import size_on_disk, unlink_database
from treering.engine.sqlite.failures import corrupt, translated
from treering.engine.sqlite.folder import remove_litter, segments_in, strangers_in
from treering.engine.sqlite.layout import segment_name
from treering.engine.sqlite.pool import SegmentPool
from treering.engine.sqlite.segment_file import SegmentFile
from treering.errors import CorruptDataError, TreeringError

SegmentOpener = Callable[[TableSpec, Segment], SegmentFile | None]


def run_expire(
    table: Path,
    spec: TableSpec,
    *,
    now_s: int,
    dry_run: bool,
    catalog: Catalog,
    pool: SegmentPool,
    open_segment: SegmentOpener,
) -> ExpireReport:
    """Remove every segment of a table that the retention has passed.

    Raises:
        StoreBusyError: A writer held a segment for longer than the bounded wait; what was removed
            before stays removed, and the next run goes on.
    """
    removals = []
    for segment in _segments(table, spec):
        if not is_segment_expired(segment, now_s=now_s, retention_s=spec.retention_s):
            continue
        path = table / segment_name(segment.start_s)
        removal = Removal(
            name=path.name,
            start_s=segment.start_s,
            end_s=segment.end_s,
            bytes=size_on_disk(path),
        )
        if dry_run or _remove(path, spec, segment, catalog, pool, open_segment):
            removals.append(removal)
    if not dry_run:
        remove_litter(table, catalog)
    return ExpireReport(removals=tuple(removals), is_removed=not dry_run)


def _segments(table: Path, spec: TableSpec) -> list[Segment]:
    length_s = segment_length_s(spec)
    return [Segment(start_s, start_s + length_s) for start_s in segments_in(table)]


def _remove(
    path: Path,
    spec: TableSpec,
    segment: Segment,
    catalog: Catalog,
    pool: SegmentPool,
    open_segment: SegmentOpener,
) -> bool:
    with pool.lease(path) as slot:
        try:
            file = slot.current(lambda: open_segment(spec, segment))
            is_removed = file is not None and file.remove(catalog.locked)
        except CorruptDataError:
            # Nothing can be read from it or written to it, so no lock is needed either.
            slot.drop()
            with catalog.locked(), translated(path, "removing"):
                is_removed = path.exists()
                unlink_database(path)
        slot.drop()
    return is_removed


def inspect_table(
    table: Path,
    spec: TableSpec,
    *,
    series_count: int,
    open_segment: SegmentOpener,
    is_thorough: bool,
) -> TableInfo:
    """Return what a table has on disk, a row a segment, and every file that is not usable."""
    parts: list[dict[str, Any]] = []
    problems = [f"{table / name} is not a segment of treering" for name in strangers_in(table)]
    for segment in _segments(table, spec):
        path = table / segment_name(segment.start_s)
        part: dict[str, Any] = {
            "segment": path.name,
            "start": _shown(segment.start_s, spec),
            "end": _shown(segment.end_s, spec),
            "bytes": size_on_disk(path),
        }
        try:
            part.update(_facts(path, spec, segment, open_segment, is_thorough, problems))
        except TreeringError as error:
            problems.append(error.message)
        readings = part.pop("readings", None)
        if readings:
            part["bytes_a_reading"] = round(part["bytes"] / readings, 2)
        parts.append(part)
    return TableInfo(
        series_count=series_count,
        disk_bytes=sum(part["bytes"] for part in parts),
        parts=tuple(parts),
        problems=tuple(problems),
    )


def _facts(
    path: Path,
    spec: TableSpec,
    segment: Segment,
    open_segment: SegmentOpener,
    is_thorough: bool,
    problems: list[str],
) -> dict[str, Any]:
    file = open_segment(spec, segment)
    if file is None:
        return {}
    try:
        damage = file.integrity_check() if is_thorough else ""
        if damage:
            raise corrupt(path, found=f"damage ({damage})", expected="an intact SQLite file")
        if is_thorough:
            problems += file.damaged_blocks()
        return file.facts()
    finally:
        file.close()


def _shown(second: int, spec: TableSpec) -> str:
    return render_ts(second * spec.precision.per_s, spec.precision)
