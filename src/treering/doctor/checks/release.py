"""When disk comes back: the curve of bytes as files leave, as things are and after a cure.

Rules of this file: nothing new is written meanwhile, so a curve says what of today's bytes is
left; a file leaves when it may, and one look for expired files later.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import replace

from treering.core.removable import FileLife, FileSet, RemovalRules
from treering.doctor.checks.node_files import NodeFiles, life_of

Curve = tuple[tuple[int, int], ...]
"""Moments, epoch seconds, with the bytes on disk from then on; the first is now."""


def plan_release(
    files: NodeFiles, *, rules: RemovalRules | None = None, cured: Collection[int] = ()
) -> Curve:
    """Return how the bytes of a node's files leave, if nothing is written or after a cure.

    Args:
        files: The files.
        rules: The rules after the cure, such as another grace; None for those of today.
        cured: Files that were cured of rows without TTL or of old write times: each then leaves
            with the window of its newest write, and is in the way of nothing older.

    Returns:
        Moments with the bytes left from then on; the last has what never leaves.
    """
    rules = files.rules if rules is None else rules
    lives = files.lives
    if cured:
        lives = FileSet(
            [
                _cured(files, index) if index in cured else life_of(file)
                for index, file in enumerate(files.files)
            ]
        )
    leaving: dict[int, int] = defaultdict(int)
    for file, at_s in zip(files.files, lives.removable_at_s(rules), strict=True):
        if at_s is not None:
            leaving[max(at_s, files.now_s) + files.check_s] += file.data_bytes or 0
    left = files.data_bytes
    curve = [(files.now_s, left)]
    for at_s in sorted(leaving):
        left -= leaving[at_s]
        curve.append((at_s, left))
    return tuple(curve)


def left_at(curve: Curve, at_s: int) -> int:
    """Return the bytes of a curve that are left at a moment."""
    return min((left for moment_s, left in curve if moment_s <= at_s), default=curve[0][1])


def freed_soon(
    files: NodeFiles, *, rules: RemovalRules | None = None, cured: Collection[int] = ()
) -> int:
    """Return how many bytes more are free after a cure than without, at the next look for files."""
    soon_s = files.now_s + files.check_s
    return left_at(plan_release(files), soon_s) - left_at(
        plan_release(files, rules=rules, cured=cured), soon_s
    )


def _cured(files: NodeFiles, index: int) -> FileLife:
    file, life = files.files[index], life_of(files.files[index])
    if file.max_write_us is None or files.ttl_s is None:
        return life
    last_s = files.seconds_of(file.max_write_us) + files.ttl_s
    if life.max_deletion_s is not None:
        last_s = min(last_s, life.max_deletion_s)
    return replace(life, min_write_us=life.max_write_us, max_deletion_s=last_s)
