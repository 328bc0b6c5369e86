"""Event times inside a block: a straight line, and what lies beside it.

Rules of this file: arithmetic is modulo 2**64, so that times at both ends of 64 bits pack like any
other; what is unpacked is checked to ascend from the first to the last time that the header says.
"""

from __future__ import annotations

import enum
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from treering.core.block_damage import BlockDamage
from treering.core.block_numbers import is_ascending, narrowed, pack_pco, unpack_pco
from treering.core.block_setting import Setting

# A step is measured over this many readings, so that jitter of single ones does not show in it.
_LAG: Final = 64
_STEPS_MAX: Final = 255
_WORD: Final = 2**64


class TimeEncoding(enum.IntEnum):
    """How event times are packed."""

    LINE = 0
    """Exactly ``first + i * step``; no bytes."""
    BESIDE_LINE_32 = 1
    """What is left of ``first + i * step``, as 32-bit integers by pcodec."""
    BESIDE_LINE_64 = 2
    """The same, as 64-bit integers."""


_DTYPES: Final[dict[TimeEncoding, np.dtype[Any]]] = {
    TimeEncoding.BESIDE_LINE_32: np.dtype(np.int32),
    TimeEncoding.BESIDE_LINE_64: np.dtype(np.int64),
}


def pack_times(ts: npt.NDArray[np.int64], setting: Setting) -> tuple[TimeEncoding, int, bytes]:
    """Return how ascending times are packed: encoding, step in ticks, and chunk."""
    if len(ts) == 1:
        return TimeEncoding.LINE, 0, b""
    steps = np.diff(ts.view(np.uint64))
    if bool((steps == steps[0]).all()):
        return TimeEncoding.LINE, int(steps[0]), b""
    step = _step_of(ts)
    beside = narrowed((ts.view(np.uint64) - _line(int(ts[0]), step, len(ts))).view(np.int64))
    is_narrow = beside.dtype.itemsize == 4
    encoding = TimeEncoding.BESIDE_LINE_32 if is_narrow else TimeEncoding.BESIDE_LINE_64
    return encoding, step, pack_pco(beside, setting)


def _step_of(ts: npt.NDArray[np.int64]) -> int:
    """Return the ordinary step: the median, so that gaps do not count."""
    lag = max(1, min(_LAG, len(ts) // 4))
    words = ts.view(np.uint64)
    lengths = words[lag:] - words[:-lag]
    median = np.sort(lengths[:: max(1, len(lengths) // _STEPS_MAX)])
    return (int(median[len(median) // 2]) + lag // 2) // lag


def _line(first: int, step: int, count: int) -> npt.NDArray[np.uint64]:
    line = np.arange(count, dtype=np.uint64)
    line *= np.uint64(step)
    line += np.uint64(first % _WORD)
    return line


def _regular(chunk: bytes, first: int, last: int, step: int, count: int) -> npt.NDArray[np.int64]:
    # Whole numbers of any size: a line that reaches its last time ascends, if its step does.
    if chunk or (count > 1 and not step) or first + step * (count - 1) != last:
        raise BlockDamage(
            found=f"{count} regular times from {first} by {step}, {len(chunk)} bytes",
            expected=f"ascending ones up to {last}, no bytes",
        )
    return _line(first, step, count).view(np.int64)


def unpack_times(
    chunk: bytes, *, encoding: int, first: int, last: int, step: int, count: int
) -> npt.NDArray[np.int64]:
    """Return event times.

    Raises:
        BlockDamage: They do not ascend from ``first`` to ``last``, or the chunk is none.
    """
    if encoding == TimeEncoding.LINE:
        return _regular(chunk, first, last, step, count)
    line = _line(first, step, count)
    match encoding:
        case TimeEncoding.BESIDE_LINE_32 | TimeEncoding.BESIDE_LINE_64:
            beside = unpack_pco(chunk, _DTYPES[TimeEncoding(encoding)], count)
            line += beside.astype(np.int64, copy=False).view(np.uint64)
        case _:
            raise BlockDamage(found=f"the time encoding {encoding}", expected="0, 1 or 2")
    ts = line.view(np.int64)
    if int(ts[0]) != first or int(ts[-1]) != last or not is_ascending(ts):
        raise BlockDamage(
            found=f"times from {int(ts[0])} to {int(ts[-1])}",
            expected=f"ascending ones from {first} to {last}",
        )
    return ts
