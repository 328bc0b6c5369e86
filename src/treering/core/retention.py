"""Changing a table's retention: what is derived again, what it costs, what it does not change.

Rules of this file: the bucket stays, because it says where readings are; the embedded engine's
files keep their length, because it says which file they are in; readings keep the lifetime that
they were written with, so a change is never complete at once, and the plan says when it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from treering.core.bucket import Bucket
from treering.core.design import Design, Overrides, plan_design
from treering.core.expiry import EXPIRED_CHECK_S, render_day
from treering.core.segment import segment_length_s
from treering.core.table import TableSpec
from treering.core.units import Interval, render_bytes, render_duration
from treering.core.widths import History, last_width, slices_between
from treering.core.window import Window
from treering.core.workload import Strategy
from treering.errors import UsageError

SPEC_LEASE_S: Final = 60
"""How long a process goes on with the table as it has read it from the catalog."""

REMARKED_MAX: Final = 16
"""The most buckets of a series that are marked again, the newest ones, when the retention grows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPlan:
    """A change of a table's retention, planned.

    Attributes:
        before: The table as it is.
        after: The table as it will be.
        steps: The statements or steps that the engine would run, in order; none where nothing is
            left to do.
        changes: Name, value before and value after of everything that changes.
        costs: What the change costs, each in one sentence.
        unchanged: What it does not change, each in one sentence.
        complete_s: From when the new retention holds fully, epoch seconds.
    """

    before: TableSpec
    after: TableSpec
    steps: tuple[str, ...] = ()
    changes: tuple[tuple[str, str, str], ...]
    costs: tuple[str, ...]
    unchanged: tuple[str, ...]
    complete_s: int

    @property
    def grows(self) -> bool:
        """Whether readings are to be kept longer."""
        return (self.after.retention_s or 0) > (self.before.retention_s or 0)


def plan_retention(
    spec: TableSpec,
    retention_s: int | None,
    *,
    now_s: int,
    is_by_ttl: bool,
    window: Window | None = None,
    gc_grace_s: int | None = None,
) -> RetentionPlan:
    """Plan a change of a table's retention.

    TTL, window and grace are derived again; a grace or a strategy that the user named when the
    table was made stays named.

    Args:
        spec: The table.
        retention_s: The new retention.
        now_s: The clock, epoch seconds.
        is_by_ttl: Whether readings die by a lifetime that they carry (Cassandra), or by the age of
            their file (the embedded engine).
        window: A window instead of the derived one.
        gc_grace_s: A grace instead of the derived one.

    Raises:
        UsageError: From or to a retention without end.
        DesignError: The design with the new retention is refused.
    """
    if retention_s is None or spec.retention_s is None:
        raise UsageError(
            f"the retention of {spec.name} cannot change "
            + ("to for ever" if retention_s is None else "from for ever to one with an end")
            + ": readings with and without a lifetime in one table keep each other's files on disk",
            hint="make a new table with that retention and copy what is wanted",
        )
    after = _after(spec, retention_s, now_s, window, gc_grace_s)
    before_s, is_growing = spec.retention_s, retention_s > spec.retention_s
    if is_growing:
        complete_s = now_s + SPEC_LEASE_S + retention_s
    elif retention_s == before_s:
        complete_s = now_s
    elif is_by_ttl:
        complete_s = _last_gone_s(spec, now_s)
    else:
        complete_s = now_s + SPEC_LEASE_S
    return RetentionPlan(
        before=spec,
        after=after,
        changes=_changes(spec.design, after.design),
        costs=_costs(spec.design, after.design, is_by_ttl),
        unchanged=_unchanged(spec, after, now_s, complete_s, is_by_ttl),
        complete_s=complete_s,
    )


def _after(
    spec: TableSpec, retention_s: int, now_s: int, window: Window | None, gc_grace_s: int | None
) -> TableSpec:
    choices = spec.design.choices
    named = choices.overridden
    if gc_grace_s is None and "gc_grace_s" in named:
        gc_grace_s = choices.gc_grace_s
    overrides = Overrides(
        bucket=spec.width,
        window=window,
        gc_grace_s=gc_grace_s,
        strategy=choices.strategy if "strategy" in named else None,
        unsafe_aggressive_expiration=choices.unsafe_aggressive_expiration,
    )
    load = replace(spec.design.workload, retention_s=retention_s)
    design = plan_design(load, now_s=now_s, overrides=overrides, has_blocks=choices.has_blocks)
    if retention_s == spec.retention_s and not _changes(spec.design, design):
        return spec
    return replace(spec, design=design, segment_s=segment_length_s(spec))


def _changes(before: Design, after: Design) -> tuple[tuple[str, str, str], ...]:
    old, new = _shown(before), _shown(after)
    return tuple((name, old[name], new[name]) for name in old if old[name] != new[name])


def _shown(design: Design) -> dict[str, str]:
    return {
        "retention": render_duration(design.retention_s or 0),
        "default TTL": render_duration(design.ttl_s or 0),
        "window": "none" if design.window is None else design.window.text,
        "gc grace": render_duration(design.gc_grace_s),
    }


def _costs(before: Design, after: Design, is_by_ttl: bool) -> tuple[str, ...]:
    old, new = before.window, after.window
    if not is_by_ttl:
        return ("The catalog is changed in one transaction; no file is touched.",)
    costs = ["The statement itself rewrites nothing."]
    if old is None or new is None or after.strategy is not Strategy.TWCS:
        return tuple(costs)
    size = render_bytes(before.disk_bytes)
    if new.length_s > old.length_s:
        costs.append(
            f"Windows grow from {old.text} to {new.text}: files of old windows that now fall into "
            f"one are compacted together, so up to all of the table ({size} by the design, over "
            "the stated series and replicas) is read and written once, in the background."
        )
    elif new.length_s < old.length_s:
        costs.append(
            f"Windows shrink from {old.text} to {new.text}: closed windows are one file each and "
            "are not compacted again; they keep their old length and leave at the end of it."
        )
    if after.disk_bytes > before.disk_bytes:
        costs.append(
            f"The disk grows from {size} to {render_bytes(after.disk_bytes)} by the design."
        )
    return tuple(costs)


def _last_gone_s(spec: TableSpec, now_s: int) -> int:
    """Return when the last reading written so far has left the disk, with its window."""
    held_s = (spec.default_ttl_s or 0) + spec.design.gc_grace_s + (spec.window_s or 0)
    return now_s + SPEC_LEASE_S + held_s + EXPIRED_CHECK_S


def _unchanged(
    spec: TableSpec, after: TableSpec, now_s: int, complete_s: int, is_by_ttl: bool
) -> tuple[str, ...]:
    old, new = (render_duration(s.retention_s or 0) for s in (spec, after))
    if spec.retention_s == after.retention_s:
        return ()
    is_growing = (after.retention_s or 0) > (spec.retention_s or 0)
    follow = f"Processes that have the table open follow within {SPEC_LEASE_S} s."
    if is_growing and is_by_ttl:
        return (
            f"Readings that are there keep the lifetime of {old} that they were written with; "
            "what has died does not come back.",
            f"{new} hold for what is written from {SPEC_LEASE_S} s after the change on, so a read "
            f"over all of it is complete from {render_day(complete_s)} on.",
            follow,
        )
    if is_growing:
        return (
            "Files that have expired and gone do not come back; what is still on disk is readable "
            f"again, and a read over {new} is complete from {render_day(complete_s)} on.",
            follow,
        )
    clipped = f"Reads see {new} at once, and other processes within {SPEC_LEASE_S} s."
    if not is_by_ttl:
        length = render_duration(segment_length_s(spec))
        return (
            clipped,
            f"Files keep their length of {length}; what is past the new retention leaves with the "
            "next expire.",
        )
    words = [
        clipped,
        f"Readings that are there keep the lifetime of {old} that they were written with: none of "
        "them leaves the disk earlier.",
    ]
    if after.design.strategy is Strategy.TWCS:
        words.append(
            "A file leaves only after every older one has expired, and now the older ones live "
            f"longer: the disk stays as full as it is until about {render_day(complete_s)}, then "
            "falls to what the new retention needs."
        )
    return tuple(words)


def buckets_to_mark(spec: TableSpec, now_s: int, history: History = ()) -> tuple[Bucket, ...]:
    """Return the newest buckets that writers of a series may be at while the retention grows.

    A writer that does not know of the change yet marks a bucket for the old retention, while the
    server already gives its readings the new one; so these are marked anew first.
    """
    end_s = now_s + spec.future_limit_s + 2 * SPEC_LEASE_S
    width = last_width(history, spec.width)
    back_s = min(spec.window_s or 0, (REMARKED_MAX - 1) * width.length_s)
    per_s = spec.precision.per_s
    around = Interval((now_s - back_s) * per_s, end_s * per_s, spec.precision)
    slices = slices_between(around, history, spec.width)
    return tuple(piece.bucket for piece in slices)[-REMARKED_MAX:]


def render_retention_plan(plan: RetentionPlan) -> str:
    """Return a plan in words."""
    name = plan.before.name
    if not plan.steps and not plan.changes:
        return f"{name} has that retention; nothing is left to do"
    lines = [f"set the retention of {name}"]
    lines += [f"  {what}: {old} → {new}" for what, old, new in plan.changes]
    for title, texts in (
        ("steps", plan.steps),
        ("cost", plan.costs),
        ("what it does not change", plan.unchanged),
    ):
        if texts:
            lines += [title, *(f"  {line}" for text in texts for line in text.splitlines())]
    return "\n".join(lines)
