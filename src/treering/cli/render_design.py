"""A design on the terminal: every step of the arithmetic, readable at 80 columns and in a pipe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from treering.core.choices import (
    GRACE_DEFAULT_S,
    GRACE_MAX_S,
    REPAIR_MARGIN_S,
    read_span_s_of,
)
from treering.core.design import Candidate, Design
from treering.core.expiry import HINT_WINDOW_S, refused_from_s, render_day
from treering.core.sizing import partition_overhead_bytes, row_parts
from treering.core.units import render_bytes, render_count, render_duration, render_rate
from treering.core.verdicts import Severity, Verdict

_STYLES: dict[Severity, str] = {
    "ok": "green",
    "notice": "cyan",
    "warning": "yellow",
    "error": "bold red",
}
_FITS = {"target": "within the target", "ceiling": "under the ceiling", "over": "over the ceiling"}


def render_design(design: Design) -> RenderableType:
    """Return a design as something that Rich prints: workload, arithmetic, verdicts."""
    sections = (
        ("Workload", _workload(design), ""),
        ("Row", _row(design), f"{design.row_bytes:g} B"),
        ("Bucket", _bucket(design), design.bucket.value),
        ("TTL", _ttl(design), "none" if design.ttl_s is None else f"{design.ttl_s:,} s"),
        ("Window", _window(design), "none" if design.window is None else design.window.text),
        ("Grace", _grace(design), f"{design.gc_grace_s:,} s"),
        ("Disk", _disk(design), render_bytes(design.disk_bytes)),
        ("Reads", _reads(design), render_count(design.read_partitions, "partition")),
    )
    parts: list[RenderableType] = []
    for title, lines, result in sections:
        mark = " (asked for)" if _is_overridden(design, title) else ""
        heading = Text(title, style="bold")
        if result:
            heading.append(f"  {result}{mark}")
        parts.append(heading)
        parts += [Padding(Text(line), (0, 0, 0, 2), expand=False) for line in lines]
    parts.append(Text("Candidates", style="bold"))
    parts.append(Padding(_candidates(design), (0, 0, 0, 2), expand=False))
    parts.append(Text("Verdicts", style="bold"))
    parts.append(Padding(render_verdicts(design.verdicts), (0, 0, 0, 2), expand=False))
    return Group(*parts)


def _is_overridden(design: Design, title: str) -> bool:
    names = {"Bucket": "bucket", "TTL": "ttl_s", "Window": "window", "Grace": "gc_grace_s"}
    return names.get(title) in design.choices.overridden


def _workload(design: Design) -> Iterator[str]:
    load = design.workload
    columns = ", ".join(f"{c.name} {c.type}" for c in load.columns)
    kept = "for ever" if load.retention_s is None else f"for {render_duration(load.retention_s)}"
    yield f"{render_rate(load.rate_hz)} a series of {columns}, kept {kept}"
    if load.peak_rate_hz is not None:
        yield f"{render_rate(load.peak_rate_hz)} at the peak, which sizes the bucket"
    server = f"Cassandra {load.cassandra}"
    if load.version.major >= 5:
        server += f" in storage mode {load.storage_mode}"
    yield f"{load.series_count:,} series on {server}, layout {design.layout}"


def _row(design: Design) -> Iterator[str]:
    load = design.workload
    if load.row_bytes is not None:
        yield "as stated; by the on-disk rules the columns would come to:"
    parts = row_parts(
        load.columns,
        has_ttl=design.ttl_s is not None,
        span_s=design.choices.file_span_s,
        text_bytes=load.text_bytes,
    )
    total = sum(part.size_bytes for part in parts)
    yield " + ".join(f"{part.what} {part.size_bytes}" for part in parts) + f" = {total} B"


def _bucket(design: Design) -> Iterator[str]:
    load, width = design.workload, design.bucket
    rate = render_rate(load.sizing_rate_hz)
    yield f"{rate} x {width.length_s:,} s = {design.rows_per_bucket:,} rows"
    yield (
        f"{design.rows_per_bucket:,} rows x {design.row_bytes:g} B = "
        f"{render_bytes(design.bucket_bytes)} uncompressed"
    )
    overhead = partition_overhead_bytes(width, version=load.version, mode=load.mode)
    yield f"(beside the rows a partition takes {overhead} B for its key and marks)"
    yield (
        f"target {render_bytes(load.partition_bytes_target)}, ceiling "
        f"{render_bytes(load.partition_bytes_max)} and {load.partition_cells_max:,} cells"
    )


def _ttl(design: Design) -> Iterator[str]:
    load = design.workload
    if design.ttl_s is None:
        yield "readings are kept for ever"
        return
    yield f"{render_duration(design.ttl_s)} = {design.ttl_s:,} s"
    day = render_day(refused_from_s(design.ttl_s, load.version, load.mode))
    yield f"writes with it would be refused from {day} on"


def _window(design: Design) -> Iterator[str]:
    window, ttl_s = design.window, design.ttl_s
    if window is None or ttl_s is None:
        yield "nothing expires, so no window ever drops"
        return
    length = render_duration(window.length_s)
    ratio = f"{ttl_s / window.length_s:.4g}"
    yield f"{render_duration(ttl_s)} / {length} = {ratio}: {window.count} windows"
    if design.strategy.value != "TWCS":
        yield f"used to round TTLs only: {design.strategy} has no windows"


def _grace(design: Design) -> Iterator[str]:
    load, grace = design.workload, render_duration(design.gc_grace_s)
    if "gc_grace_s" in design.choices.overridden:
        yield f"{grace} as asked for"
    elif design.ttl_s is not None and load.is_append_only:
        yield (
            f"{render_duration(design.ttl_s)} / 7 = {render_duration(design.ttl_s // 7)}, at least "
            f"{render_duration(HINT_WINDOW_S)} (hints), at most {render_duration(GRACE_MAX_S)}: "
            f"{grace}"
        )
    else:
        yield (
            f"{render_duration(GRACE_DEFAULT_S)}, or the repair interval and "
            f"{render_duration(REPAIR_MARGIN_S)} where that is more: {grace}"
        )


def _disk(design: Design) -> Iterator[str]:
    load, terms = design.workload, design.choices.disk_terms_s
    total_s = sum(seconds for _, seconds in terms)
    yield " + ".join(f"{what} {render_duration(seconds)}" for what, seconds in terms)
    yield f"= {total_s:,} s of readings"
    yield (
        f"x {render_rate(load.rate_hz)} x {design.row_bytes:g} B x {load.compression_ratio:g} "
        f"compressed = {render_bytes(design.choices.disk_bytes_per_series)} a series and replica"
    )
    replicas = render_count(load.replica_count, "replica")
    stated = "" if load.replication else " (replication not stated)"
    yield (
        f"x {load.series_count:,} series x {replicas}{stated} = {render_bytes(design.disk_bytes)}"
    )


def _reads(design: Design) -> Iterator[str]:
    span_s = read_span_s_of(design.workload)
    stated = "" if design.workload.read_span_s is not None else " (span not stated)"
    yield (
        f"a read of {render_duration(span_s)}{stated} touches at most {design.read_partitions:,}: "
        f"{render_duration(span_s)} / {design.bucket}, and the edges"
    )


def _candidates(design: Design) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("bucket", no_wrap=True)
    for name in ("rows", "bytes", "cells", "read"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    for candidate in design.candidates:
        is_chosen = candidate.bucket is design.bucket
        table.add_row(*_candidate(candidate, is_chosen), style="bold" if is_chosen else "")
    return table


def _candidate(candidate: Candidate, is_chosen: bool) -> tuple[str, ...]:
    return (
        candidate.bucket.value,
        f"{candidate.rows:,}",
        render_bytes(candidate.partition_bytes),
        f"{candidate.cells:,}",
        f"{candidate.read_partitions:,}",
        _FITS[candidate.fit] + (", chosen" if is_chosen else ""),
    )


def render_verdicts(verdicts: Iterable[Verdict]) -> Table:
    """Return verdicts as a table that wraps its reasons."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for verdict in verdicts:
        severity = Text(verdict.severity, style=_STYLES[verdict.severity])
        table.add_row(severity, verdict.id, Text(verdict.why))
    return table
