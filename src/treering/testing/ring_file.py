"""``ring.json``: what a ring's folder says about the ring, so that another process can go on."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from treering.errors import CorruptDataError
from treering.testing.config import RingPlan
from treering.testing.node import LocalNode

_NAME: Final = "ring.json"
_FORMAT: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RingFile:
    """A ring's plan, and per node the process id that was last started; ``None`` if ended."""

    plan: RingPlan
    pids: tuple[int | None, ...]

    def nodes(self, folder: Path) -> tuple[LocalNode, ...]:
        """Return the ring's nodes, running or not."""
        return tuple(
            LocalNode(self.plan, index, folder, pid) for index, pid in enumerate(self.pids)
        )

    def write(self, folder: Path) -> None:
        """Replace the folder's file in one step."""
        facts = {"format": _FORMAT, "plan": self.plan.to_json(), "pids": list(self.pids)}
        part = folder / f"{_NAME}.part"
        part.write_text(json.dumps(facts, indent=2) + "\n")
        os.replace(part, folder / _NAME)


def read_ring_file(folder: Path) -> RingFile | None:
    """Return what the folder says; ``None`` where no ring was ever started in it.

    Raises:
        CorruptDataError: The file is there and cannot be read.
    """
    path = folder / _NAME
    try:
        text = path.read_text()
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        facts = json.loads(text)
        if facts["format"] != _FORMAT:
            raise ValueError(f"format {facts['format']}, expected {_FORMAT}")
        return RingFile(plan=RingPlan.from_json(facts["plan"]), pids=tuple(facts["pids"]))
    except (ValueError, KeyError, TypeError) as broken:
        raise CorruptDataError(
            f"{path} does not describe a ring: {broken}",
            hint=f"remove {folder} if its data is not needed",
            path=str(path),
        ) from broken


def remove_ring_file(folder: Path) -> None:
    """Forget the folder's ring."""
    (folder / _NAME).unlink(missing_ok=True)
