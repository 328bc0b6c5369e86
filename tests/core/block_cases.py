"""Readings of every kind, for tests of blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from treering.core.columns import ColumnData
from treering.core.schema import ColumnType

INT64 = np.iinfo(np.int64)
# NaN with a payload, negative and signalling ones, both zeros, infinities, ends of the range.
HARD_DOUBLES = np.array(
    [
        0x7FF8000000000000,
        0x7FF80000DEADBEEF,
        0xFFF8000000000001,
        0x7FF0000000000001,
        0x8000000000000000,
        0,
        0x7FF0000000000000,
        0xFFF0000000000000,
        1,
        0x7FEFFFFFFFFFFFFF,
        0xFFEFFFFFFFFFFFFF,
    ],
    dtype=np.uint64,
).view(np.float64)


@dataclass(frozen=True)
class Readings:
    """What goes into a block."""

    ts: npt.NDArray[np.int64]
    columns: Mapping[str, ColumnData] = field(default_factory=dict)


def bits_of(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return floats as their bits, others as they are: NaN equals itself as bits."""
    if values.dtype.kind == "f":
        return values.view(f"i{values.dtype.itemsize}")
    return values


def assert_same(found: ColumnData, wanted: ColumnData) -> None:
    """Check that two columns are equal bit for bit where values are there."""
    assert found.values.dtype == wanted.values.dtype
    mask = wanted.mask()
    assert (found.mask() == mask).all()
    assert bits_of(found.values[mask]).tolist() == bits_of(wanted.values[mask]).tolist()


def times(count: int) -> st.SearchStrategy[npt.NDArray[np.int64]]:
    """Return ascending times: regular, jittered, with gaps, or anywhere in 64 bits."""
    anywhere = st.sets(st.integers(INT64.min, INT64.max), min_size=count, max_size=count).map(
        lambda ticks: np.array(sorted(ticks), dtype=np.int64)
    )
    regular = st.tuples(st.integers(-(2**50), 2**50), st.integers(1, 10**9)).map(
        lambda pair: pair[0] + pair[1] * np.arange(count, dtype=np.int64)
    )
    seeds = st.integers(0, 2**32 - 1).map(np.random.default_rng)
    jittered = seeds.map(
        lambda random: (
            1_763_596_800_000
            + 1_000 * (np.arange(count) + random.integers(0, 2, count).cumsum())
            + random.integers(-5, 6, count)
        )
    )
    return (anywhere if count <= 50 else jittered) | regular | jittered


def floats(count: int, dtype: Any) -> st.SearchStrategy[npt.NDArray[Any]]:
    """Return doubles or floats: any bits, decimals with exceptions, walks, constants."""
    dtype = np.dtype(dtype)
    seeds = st.integers(0, 2**32 - 1).map(np.random.default_rng)

    def decimals(pair: tuple[np.random.Generator, int]) -> npt.NDArray[Any]:
        random, digits = pair
        with np.errstate(over="ignore", invalid="ignore"):
            values = (random.integers(-(10**6), 10**6, count) / 10.0**digits).astype(dtype)
            hard = HARD_DOUBLES.astype(dtype) if dtype.itemsize == 4 else HARD_DOUBLES
        if random.random() < 0.5:
            places = random.integers(0, count, max(1, count // 20))
            values[places] = random.choice(hard, len(places))
        return values

    any_bits = seeds.map(lambda r: np.frombuffer(r.bytes(count * dtype.itemsize), dtype).copy())
    walks = seeds.map(lambda r: r.normal(0, 0.1, count).cumsum().astype(dtype))
    hard = seeds.map(lambda r: r.choice(HARD_DOUBLES.view(np.int64), count).view(np.float64))
    constant = st.sampled_from(HARD_DOUBLES.view(np.int64).tolist()).map(
        lambda bits: np.full(count, bits, dtype=np.int64).view(np.float64)
    )
    options = any_bits | walks | st.tuples(seeds, st.integers(0, 11)).map(decimals)
    return options | hard | constant if dtype.itemsize == 8 else options


def integers(count: int, dtype: Any) -> st.SearchStrategy[npt.NDArray[Any]]:
    """Return ints or bigints: anywhere in their range, counters, constants."""
    bounds = np.iinfo(dtype)
    seeds = st.integers(0, 2**32 - 1).map(np.random.default_rng)
    anywhere = seeds.map(lambda r: r.integers(bounds.min, bounds.max, count, dtype, endpoint=True))
    ends = seeds.map(lambda r: r.choice(np.array([bounds.min, bounds.max], dtype), count))
    counters = seeds.map(lambda r: r.integers(0, 10, count).cumsum().astype(dtype))
    constant = st.integers(int(bounds.min), int(bounds.max)).map(
        lambda value: np.full(count, value, dtype=dtype)
    )
    return anywhere | ends | counters | constant


def texts(count: int) -> st.SearchStrategy[npt.NDArray[Any]]:
    """Return texts: few that repeat, or all their own."""
    some = st.lists(st.text(st.characters(codec="utf-8"), max_size=8), min_size=1, max_size=6)

    def chosen(pair: tuple[list[str], int]) -> npt.NDArray[Any]:
        words, seed = pair
        values = np.empty(count, dtype=object)
        values[:] = [words[i] for i in np.random.default_rng(seed).integers(0, len(words), count)]
        return values

    def own(words: list[str]) -> npt.NDArray[Any]:
        values = np.empty(count, dtype=object)
        values[:] = [f"{words[i % len(words)]}{i}\0ü" for i in range(count)]
        return values

    return st.tuples(some, st.integers(0, 2**32 - 1)).map(chosen) | some.map(own)


def values_of(column_type: ColumnType, count: int) -> st.SearchStrategy[npt.NDArray[Any]]:
    """Return values of a type."""
    match column_type:
        case ColumnType.DOUBLE | ColumnType.FLOAT:
            return floats(count, column_type.dtype)
        case ColumnType.INT | ColumnType.BIGINT:
            return integers(count, column_type.dtype)
        case ColumnType.BOOLEAN:
            seeds = st.integers(0, 2**32 - 1).map(np.random.default_rng)
            share = st.sampled_from([0.0, 0.01, 0.5, 1.0])
            return st.tuples(seeds, share).map(lambda pair: pair[0].random(count) < pair[1])
        case _:
            return texts(count)


@st.composite
def columns_of(draw: st.DrawFn, count: int, column_type: ColumnType) -> ColumnData:
    """Draw a column, often with missing values."""
    values = draw(values_of(column_type, count))
    share = draw(st.sampled_from([None, None, 0.0, 0.02, 0.5, 0.98, 1.0]))
    if share is None:
        return ColumnData(values)
    present = np.random.default_rng(draw(st.integers(0, 99))).random(count) >= share
    if column_type is ColumnType.TEXT:
        values[~present] = None
    return ColumnData(values, None if present.all() else present)


@st.composite
def readings(draw: st.DrawFn, *, columns_max: int = 4) -> Readings:
    """Draw readings of a random schema."""
    count = draw(st.sampled_from([1, 2, 3, 7, 8, 9, 40, 257, 1_000]))
    types = draw(st.lists(st.sampled_from(ColumnType), max_size=columns_max))
    columns = {
        f"c{number}": draw(columns_of(count, column_type))
        for number, column_type in enumerate(types)
    }
    return Readings(draw(times(count)), columns)
