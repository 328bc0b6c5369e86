"""Sizes of tables over time, kept in a store of treering's own, and what they say.

Rules of this file: live bytes alone decide, snapshots are told beside them; one sample is already
worth a prediction, from the deletion times of the files; what is kept is small and leaves by
itself.
"""

from __future__ import annotations

import csv
import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from treering.core.choices import GRACE_DEFAULT_S
from treering.core.expiry import EXPIRED_CHECK_S
from treering.core.times import parse_time
from treering.core.units import DAY_S, Precision, parse_bytes, render_duration
from treering.doctor.checks.known import ttl_s_of
from treering.doctor.checks.node_files import judge_nodes
from treering.doctor.checks.release import Curve, plan_release
from treering.doctor.checks.seen import BRINGS_SCHEMA
from treering.doctor.checks.windows import window_of
from treering.doctor.facts import TableFacts
from treering.doctor.sample import DiskSample, Sampled, sample_of
from treering.doctor.sawtooth import DiskShape, shape_of
from treering.errors import UsageError

if TYPE_CHECKING:
    from treering.readings import Readings
    from treering.store import Store
    from treering.table import Table

DISK_TABLE: Final = "disk"
"""The table of the store that holds the samples; a series is what :class:`Sampled` names."""

KEPT: Final = "730d"
CSV_ROWS_MAX: Final = 10_000_000
_COLUMNS: Final = {"live_bytes": "bigint", "files": "bigint", "snapshot_bytes": "bigint"}


def open_disk_table(store: Store, every_s: float) -> Table:
    """Return the table of samples, made where it is missing."""
    if DISK_TABLE in store.tables():
        return store.table(DISK_TABLE)
    rate = f"1/{render_duration(max(every_s, 60))}"
    return store.create(DISK_TABLE, rate=rate, retention=KEPT, columns=_COLUMNS)


def keep_samples(table: Table, samples: Iterable[DiskSample]) -> None:
    """Write samples; returns when they are durable. One at the same second counts once."""
    for sample in samples:
        values = {
            "live_bytes": [sample.live_bytes],
            "files": [sample.files],
            "snapshot_bytes": [sample.snapshot_bytes],
        }
        known = {name: value for name, value in values.items() if value != [None]}
        table.write(sample.of.series, [sample.time_s], known, unit="s")


def read_history(table: Table, of: Sampled) -> Readings:
    """Return all samples of a table that are kept."""
    return table.read(of.series, f"-{KEPT}", missing_ok=True, columns=["live_bytes"])


def history_of(readings: Readings) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return times in seconds and sizes of samples; samples of one second count once."""
    times = readings.ts // readings.precision.per_s
    sizes = readings.data["live_bytes"].values.astype(np.int64)
    order = np.argsort(times, kind="stable")
    times, first = np.unique(times[order], return_index=True)
    return times, sizes[order][first]


def parse_sizes_csv(path: Path) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return times in seconds and sizes of a CSV file with the columns ``time`` and ``bytes``.

    Times are ISO text with a zone or epoch seconds; sizes are bytes or such as ``12GB``.

    Raises:
        UsageError: Other columns, a line that cannot be read, or too many lines.
        OSError: The file cannot be read.
    """
    found: dict[int, int] = {}
    with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
        rows = csv.reader(file)
        names = [name.strip().lower() for name in next(rows, [])]
        if {"time", "bytes"} - set(names):
            raise UsageError(
                f"{path} has no columns time and bytes",
                hint="its first line must name them: time,bytes",
            )
        at = names.index("time"), names.index("bytes")
        for number, row in enumerate(rows, start=2):
            if not row:
                continue
            if number > CSV_ROWS_MAX:
                raise UsageError(f"{path} has more than {CSV_ROWS_MAX:,} lines")
            try:
                found[_seconds(row[at[0]].strip())] = parse_bytes(row[at[1]].strip())
            except (IndexError, UsageError) as error:
                raise UsageError(
                    f"{path}, line {number}: {','.join(row)[:80]!r} is no time and size",
                    hint="for instance 2026-11-30T14:00Z,120GB",
                ) from error
    times = np.array(sorted(found), dtype=np.int64)
    return times, np.array([found[int(time)] for time in times], dtype=np.int64)


def _seconds(text: str) -> int:
    if text.lstrip("+-").isdecimal() and len(text) < 15:
        return int(text)
    return parse_time(text, now_ts=0, precision=Precision.MS) // 1_000


# --- what the samples say


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What is known of one table's disk.

    Attributes:
        of: Of what the samples are.
        times_s: Of the samples, epoch seconds, rising.
        sizes_bytes: As many.
        shape: What they say.
        curve: What of the files of now will be left; None where no file was seen.
        snapshot_bytes: What snapshots alone keep now; None where nobody looked.
        assumed: What the curve takes for the grace that nobody knows, in words; else empty.
    """

    of: Sampled
    times_s: tuple[int, ...]
    sizes_bytes: tuple[int, ...]
    shape: DiskShape
    curve: Curve | None = None
    snapshot_bytes: int | None = None
    assumed: str = ""


def watched_of(
    of: Sampled,
    times_s: npt.ArrayLike,
    sizes_bytes: npt.ArrayLike,
    *,
    facts: TableFacts | None = None,
    due_after_s: int | None = None,
) -> Watched:
    """Return what samples and the files of now say about a table."""
    due_s = due_after_s
    if due_s is None and facts is not None:
        due_s = due_after_s_of(facts)
    sample = None if facts is None else sample_of(facts)
    grace_s, assumed = (None, "") if facts is None else assumed_grace_of(facts, due_after_s)
    return Watched(
        of=of,
        times_s=tuple(np.asarray(times_s, dtype=np.int64).tolist()),
        sizes_bytes=tuple(np.asarray(sizes_bytes, dtype=np.int64).tolist()),
        shape=shape_of(times_s, sizes_bytes, due_after_s=due_s),
        curve=None if facts is None or sample is None else predicted_curve(facts, grace_s=grace_s),
        snapshot_bytes=None if sample is None else sample.snapshot_bytes,
        assumed=assumed,
    )


def due_after_s_of(facts: TableFacts) -> int | None:
    """Return how long a reading stays on disk at the most: TTL, grace, window and the check."""
    schema, ttl_s = facts.schema, ttl_s_of(facts)
    if schema is None or not ttl_s or schema.gc_grace_s is None:
        return None
    window = window_of(schema, ttl_s)
    window_s = DAY_S if window is None else window.length_s
    return ttl_s + schema.gc_grace_s + window_s + EXPIRED_CHECK_S


def assumed_grace_of(facts: TableFacts, due_after_s: int | None) -> tuple[int | None, str]:
    """Return the grace that a prediction takes where nobody knows it, and that in words.

    None stands for the table's own or, where that is not known, for Cassandra's default.
    """
    if facts.schema is not None and facts.schema.gc_grace_s is not None:
        source = facts.schema.source
        return None, "" if source is None else f"with its options {source.text}"
    ttl_s = ttl_s_of(facts)
    if due_after_s is None or ttl_s is None:
        default = render_duration(GRACE_DEFAULT_S)
        return None, (
            f"with a grace of {default}, Cassandra's default, since the table's is not known: give "
            f"{BRINGS_SCHEMA}, or --gc-grace"
        )
    window = window_of(facts.schema, ttl_s)
    grace_s = max(due_after_s - ttl_s - (0 if window is None else window.length_s), 0)
    return grace_s, f"with a grace of {render_duration(grace_s)}, as --due-after leaves for it"


def predicted_curve(facts: TableFacts, *, grace_s: int | None = None) -> Curve | None:
    """Return what of the files of all nodes will be left, and when; None without files.

    Args:
        facts: The table.
        grace_s: The grace; None for the table's own, or Cassandra's default.
    """
    curves = [
        plan_release(
            files,
            rules=None if grace_s is None else replace(files.rules, gc_grace_s=grace_s),
        )
        for files in judge_nodes(facts)
    ]
    return _summed(curves) if curves else None


def _summed(curves: Sequence[Curve]) -> Curve:
    leaving: dict[int, int] = defaultdict(int)
    for curve in curves:
        for before, after in itertools.pairwise(curve):
            leaving[after[0]] += before[1] - after[1]
    left = sum(curve[0][1] for curve in curves)
    steps = [(max(curve[0][0] for curve in curves), left)]
    for at_s in sorted(leaving):
        left -= leaving[at_s]
        steps.append((max(at_s, steps[0][0]), left))
    return tuple(steps)
