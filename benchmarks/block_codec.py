"""How many bytes does a block take a reading, and how fast is it packed and unpacked?

    python -m benchmarks block_codec

Thirty series of a day each, one reading a second, from a seed: a gauge with two decimals, a
counter, the gauge with times that jitter by 5 ms, and full-precision noise; in blocks of 3,600,
8,192 and 65,536 readings, one setting for all. Beside them stands what VictoriaMetrics 1.79 took
for such series after merging (0.77, 0.55, 1.41 and 6.13 bytes a reading), and the speed of zstd at
level 3 on the same arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import zstandard

from benchmarks.measure import Result, best_s
from treering.core.block import pack_block, read_stats, unpack_block
from treering.core.block_setting import Purpose
from treering.core.columns import ColumnData

Readings = tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]

START_MS = 1_763_596_800_000
JITTER_MS = 5
BLOCK_ROWS = (3_600, 8_192, 65_536)
VICTORIA_METRICS = {"gauge": 0.77, "counter": 0.55, "jitter": 1.41, "noise": 6.13}


def series_of(kind: str, count: int, rows: int) -> Iterator[Readings]:
    """Yield series of one reading a second, from a seed."""
    random = np.random.default_rng(2)
    regular = START_MS + np.arange(rows, dtype=np.int64) * 1_000
    for _ in range(count):
        walk = 20 + random.normal(0, 0.1, rows).cumsum()
        match kind:
            case "gauge":
                yield regular, walk.round(2)
            case "counter":
                yield regular, random.integers(0, 10, rows).cumsum().astype(np.float64)
            case "jitter":
                yield regular + random.integers(-JITTER_MS, JITTER_MS + 1, rows), walk.round(2)
            case _:
                yield regular, walk


def run(*, series: int = 30, rows: int = 86_400, purpose: Purpose = Purpose.BULK) -> list[Result]:
    """Pack and unpack every kind of series in every size of block."""
    results = []
    for kind in VICTORIA_METRICS:
        data = list(series_of(kind, series, rows))
        for block_rows in BLOCK_ROWS:
            results += measure(kind, data, min(block_rows, rows), purpose)
    return results


def measure(kind: str, data: list[Readings], block_rows: int, purpose: Purpose) -> list[Result]:
    """Return density and speed of one kind of series in blocks of one size."""
    cut = [
        (ts[at : at + block_rows], values[at : at + block_rows])
        for ts, values in data
        for at in range(0, len(ts), block_rows)
    ]
    total = sum(len(ts) for ts, _ in cut)
    blocks: list[bytes] = []

    def pack() -> list[bytes]:
        blocks[:] = [
            pack_block(ts, {"value": ColumnData(values)}, purpose=purpose) for ts, values in cut
        ]
        return blocks

    def check_blocks(found: list[bytes]) -> None:
        for block, (ts, values) in zip(found, cut, strict=True):
            unpacked = unpack_block(block)
            assert (unpacked.ts == ts).all()
            assert (bits(unpacked.columns["value"].values) == bits(values)).all()

    # Block by block, as a read does it: no more than one is held.
    def unpack() -> int:
        return sum(len(unpack_block(block).ts) for block in blocks)

    def check_count(count: int) -> None:
        assert count == total

    def overview() -> int:
        return sum(read_stats(block).columns["value"].count for block in blocks)

    pack_s = best_s(pack, check_blocks)
    unpack_s = best_s(unpack, check_count)
    overview_s = best_s(overview, check_count)
    zstd_in_s, zstd_out_s = zstd_s(cut)
    name = f"block: {kind}, {block_rows:,} a block"
    budget = 1 / 1.05 if kind != "noise" else None
    return [
        Result(
            name=f"{name}: density",
            ours=1_000 * total / sum(map(len, blocks)),
            peer=1_000 / VICTORIA_METRICS[kind],
            peer_name="VictoriaMetrics 1.79",
            unit="readings/kB",
            budget=budget,
        ),
        result(f"{name}: pack", total / pack_s, total / zstd_in_s, "zstd level 3"),
        result(f"{name}: unpack", total / unpack_s, total / zstd_out_s, "zstd level 3"),
        result(f"{name}: overview", total / overview_s, total / unpack_s, "unpacking all"),
    ]


def result(name: str, ours: float, peer: float, peer_name: str) -> Result:
    """Return a comparison of speeds."""
    return Result(name=name, ours=ours, peer=peer, peer_name=peer_name, unit="readings/s")


def bits(values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return doubles as their bits."""
    return values.view(np.int64)


def zstd_s(cut: list[Readings]) -> tuple[float, float]:
    """Return how long zstd takes for the same arrays, in and out."""
    arrays = [array.tobytes() for pair in cut for array in pair]

    def timed(work: Callable[[bytes], bytes], items: list[bytes]) -> float:
        def check(found: list[Any]) -> None:
            assert len(found) == len(arrays)

        return best_s(lambda: [work(item) for item in items], check)

    in_s = timed(zstandard.ZstdCompressor(level=3).compress, arrays)
    frames = [zstandard.ZstdCompressor(level=3).compress(array) for array in arrays]
    return in_s, timed(zstandard.ZstdDecompressor().decompress, frames)
