"""How findings name files, amounts and moments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

from treering.core.times import render_instant
from treering.core.units import render_bytes, render_count, render_duration
from treering.doctor.checks.node_files import NodeFiles

_NAMED: Final = 3


def amount(files: NodeFiles, some: Sequence[int]) -> str:
    """Return how many files these are, and their bytes."""
    return f"{render_count(len(some), 'file')} ({render_bytes(files.bytes_of(some))})"


def names(files: NodeFiles, some: Sequence[int]) -> str:
    """Return the names of some files: three at most, and how many more."""
    found = [PurePath(files.files[index].path).name for index in some[:_NAMED]]
    more = len(some) - len(found)
    return ", ".join(found) + (f" and {more} more" if more else "")


def until(at_s: int | None) -> str:
    """Return a moment; None is never."""
    return "the end of time" if at_s is None else render_instant(at_s)


def from_now(files: NodeFiles, at_s: int) -> str:
    """Return a moment with how far away it is."""
    return f"{render_duration(max(at_s - files.now_s, 0))}, on {render_instant(at_s)}"
