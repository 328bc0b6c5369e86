"""What can be chosen of a writer."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Literal

from treering.core.units import parse_bytes, parse_duration_s
from treering.core.write_plan import Refusal
from treering.errors import UsageError

BATCH_ROWS_MAX: Final = 50_000
"""The most readings of one batch: enough that its cost is that of its readings."""

BYTES_MIN: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterOptions:
    """What can be chosen of a writer.

    Attributes:
        linger: How long a reading waits at most for others to join its batch.
        max_bytes: The most bytes that readings may take in memory.
        max_rows: The most readings in memory.
        block_s: How long an append waits, in seconds, while there is no room.
        close_s: How long closing waits for what is still to be written, in seconds.
        on_refused: Is called with each refused reading, on the writer's own thread.
        spool: A folder that keeps readings until they are written, through crashes too.
        spool_bytes: The most bytes of readings in the spool.
        spool_sync: ``append``: an append returns when its reading is on disk. ``linger``: it
            returns at once, and a crash may cost what was appended within the last linger.
    """

    linger: str | dt.timedelta = "1s"
    max_bytes: str | int = 64_000_000
    max_rows: int = 1_000_000
    block_s: float = 30.0
    close_s: float = 30.0
    on_refused: Callable[[Refusal], object] | None = None
    spool: str | os.PathLike[str] | None = None
    spool_bytes: str | int = 1_000_000_000
    spool_sync: Literal["append", "linger"] = "append"

    def __post_init__(self) -> None:
        if self.spool_sync not in ("append", "linger"):
            raise UsageError(
                f"spool_sync={self.spool_sync!r} is not known", hint="use 'append' or 'linger'"
            )
        if self.linger_s < 0 or self.block_s < 0 or self.close_s < 0:
            raise UsageError("linger, block_s and close_s cannot be negative")
        if self.max_rows < 1:
            raise UsageError(f"max_rows must be at least 1, not {self.max_rows}")
        for name, size_bytes in (
            ("max_bytes", self.memory_bytes_max),
            ("spool_bytes", self.spool_bytes_max),
        ):
            if size_bytes < BYTES_MIN:
                raise UsageError(
                    f"{name} must be at least {BYTES_MIN:,}, not {size_bytes:,}",
                    hint="a writer needs room for a few readings; 64 MB is the default",
                )

    @classmethod
    def from_mapping(cls, options: Mapping[str, Any]) -> WriterOptions:
        """Return the options of a call.

        Raises:
            UsageError: One that is not known, or not what it should be.
        """
        known = [field.name for field in fields(cls)]
        unknown = sorted(set(options) - set(known))
        if unknown:
            raise UsageError(
                f"a writer has no option {', '.join(unknown)}", hint=f"it has {', '.join(known)}"
            )
        return cls(**options)

    @property
    def linger_s(self) -> float:
        """How long a reading waits for others, in seconds."""
        return float(parse_duration_s(self.linger))

    @property
    def memory_bytes_max(self) -> int:
        """The bound on memory, in bytes."""
        return parse_bytes(self.max_bytes)

    @property
    def spool_bytes_max(self) -> int:
        """The bound on the spool, in bytes."""
        return parse_bytes(self.spool_bytes)

    @property
    def batch_rows_max(self) -> int:
        """A batch goes out when it has as many readings: others can gather meanwhile."""
        return max(1, min(BATCH_ROWS_MAX, self.max_rows // 4))

    @property
    def batch_bytes_max(self) -> int:
        """A batch goes out when it has as many bytes."""
        return self.memory_bytes_max // 4
