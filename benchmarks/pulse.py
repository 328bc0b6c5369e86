"""A real recording: a pulse sensor on a finger, read sixty times a second for eleven minutes.

It comes with the package heartpy (MIT licence), of which nothing else is used. Its times are those
of a computer's clock that ticks every 15.6 ms, with gaps; its values are whole numbers.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

PACKAGE = "heartpy"
FILE = "data/data3.csv"


def pulse_from(start_ms: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]] | None:
    """Return times in milliseconds, each once, and values; None where it is not installed.

    Args:
        start_ms: To when the first reading is moved.
    """
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        print(f"the recording of {PACKAGE} is not installed and is left out", file=sys.stderr)
        return None
    rows: Any = np.genfromtxt(
        Path(spec.origin).parent / FILE, delimiter=",", skip_header=1, dtype="M8[ms],f8"
    )
    # Two readings of one tick: the later one counts.
    ts, at = np.unique(rows["f0"][::-1].astype(np.int64), return_index=True)
    return ts - ts[0] + start_ms, rows["f1"][::-1][at]
