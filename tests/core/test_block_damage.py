"""A damaged block raises and never gives other readings, whatever the damage is."""

from __future__ import annotations

import pickle
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
import zstandard
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.core.block_cases import HARD_DOUBLES, Readings, assert_same, readings
from treering.core.block import pack_block, read_stats, unpack_block, unpack_columns
from treering.core.columns import ColumnData
from treering.errors import CorruptDataError, SchemaMismatchError

PLACE = "the block of series pump-7 from 2025-11-20T00:00Z in plant/readings/2025-11-20T000000Z.db"


def mixed_block() -> bytes:
    """Return a block with columns of every kind and jittered times."""
    random = np.random.default_rng(3)
    count = 200
    decimals = random.normal(20, 3, count).round(2)
    decimals[:: count // len(HARD_DOUBLES)] = np.resize(HARD_DOUBLES, 12)
    states = np.array(["on", "off", "fault"], dtype=object)[random.integers(0, 3, count)]
    names = np.array([f"text {n}" for n in range(count)], dtype=object)
    present = random.random(count) < 0.9
    return pack_block(
        np.arange(count, dtype=np.int64) * 1_000 + random.integers(-5, 6, count),
        {
            "decimals": ColumnData(decimals),
            "noise": ColumnData(random.normal(size=count), present),
            "counter": ColumnData(random.integers(0, 9, count).cumsum()),
            "int": ColumnData(random.integers(0, 9, count).astype(np.int32)),
            "flag": ColumnData(random.random(count) < 0.5, np.arange(count) > 9),
            "state": ColumnData(states),
            "name": ColumnData(names),
            "none": ColumnData(np.zeros(count), np.zeros(count, dtype=bool)),
            "same": ColumnData(np.full(count, 7.5)),
        },
    )


BLOCK = mixed_block()
PARTS = ("decimals", "noise", "counter", "int", "flag", "state", "name", "none", "same")


def read_all(block: bytes) -> None:
    """Read a block in every way."""
    read_stats(block, place=PLACE)
    unpack_columns(block, place=PLACE)
    unpack_block(block, place=PLACE)


def assert_refused(block: bytes) -> None:
    """Check that a block is refused as damaged, and that the place is named."""
    with pytest.raises(CorruptDataError) as caught:
        read_all(block)
    assert PLACE in str(caught.value)
    assert caught.value.place == PLACE
    assert caught.value.found
    assert caught.value.expected
    assert 0 <= caught.value.offset <= len(BLOCK)
    assert pickle.loads(pickle.dumps(caught.value)).place == PLACE


def test_every_bit_that_flips_is_found_out() -> None:
    random = np.random.default_rng(4)
    for byte in range(len(BLOCK)):
        damaged = bytearray(BLOCK)
        damaged[byte] ^= 1 << int(random.integers(8))
        with pytest.raises(CorruptDataError):
            read_all(bytes(damaged))


def test_a_block_cut_short_or_longer_is_found_out() -> None:
    for length in range(0, len(BLOCK), 7):
        assert_refused(BLOCK[:length])
    assert_refused(BLOCK + b"\0")


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200), st.integers(0, len(BLOCK) - 1), st.integers(0, 60))
@example(b"", 0, 0)
def test_bytes_put_anywhere_are_found_out(piece: bytes, at: int, replaced: int) -> None:
    damaged = BLOCK[:at] + piece + BLOCK[at + replaced :]
    if damaged != BLOCK:
        assert_refused(damaged)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=400))
def test_random_bytes_are_no_block(data: bytes) -> None:
    assert_refused(data)
    assert_refused(BLOCK[:4] + data)


def test_damage_in_one_column_leaves_the_others_readable() -> None:
    damaged = BLOCK[:-1] + bytes([BLOCK[-1] ^ 1])
    with pytest.raises(CorruptDataError, match="the column same at byte"):
        unpack_columns(damaged)
    assert_same(unpack_columns(damaged, ["noise"])["noise"], unpack_columns(BLOCK)["noise"])
    assert read_stats(damaged).count == 200


def resealed(block: bytes) -> bytes:
    """Return a block whose header has a right checksum, whatever it says."""
    (header_bytes,) = struct.unpack_from("<I", block, 8)
    crc = zlib.crc32(block[8:header_bytes], zlib.crc32(block[:4]))
    return block[:4] + struct.pack("<I", crc) + block[8:]


def test_a_newer_version_is_refused_and_named() -> None:
    newer = resealed(BLOCK[:3] + b"\2" + BLOCK[4:])
    for read in (read_stats, unpack_block, unpack_columns):
        with pytest.raises(SchemaMismatchError, match="codec 1, version 2") as caught:
            read(newer, place=PLACE)
        assert caught.value.hint == "upgrade treering"
        assert PLACE in str(caught.value)
    with pytest.raises(SchemaMismatchError, match="codec 9"):
        read_stats(resealed(BLOCK[:2] + b"\x09" + BLOCK[3:]))


def test_a_version_that_a_flipped_bit_made_is_damage() -> None:
    assert_refused(BLOCK[:3] + b"\2" + BLOCK[4:])


def with_header(change: Callable[[bytearray], None]) -> bytes:
    """Return the block with a changed header under a right checksum."""
    block = bytearray(BLOCK)
    change(block)
    return resealed(bytes(block))


@pytest.mark.parametrize(
    ("offset", "layout", "value"),
    [
        pytest.param(8, "<I", 2**32 - 1, id="a header longer than the block"),
        pytest.param(8, "<I", 3, id="a header shorter than its start"),
        pytest.param(12, "<I", 5, id="another length"),
        pytest.param(16, "<I", 0, id="no readings"),
        pytest.param(16, "<I", 199, id="fewer readings"),
        pytest.param(16, "<I", 201, id="more readings"),
        pytest.param(16, "<I", 2**32 - 1, id="readings without bound"),
        pytest.param(20, "<B", 3, id="an unknown precision"),
        pytest.param(21, "<B", 0, id="regular times with a chunk"),
        pytest.param(21, "<B", 2, id="times of another width"),
        pytest.param(21, "<B", 3, id="an unknown encoding of times"),
        pytest.param(22, "<H", 8, id="fewer columns"),
        pytest.param(22, "<H", 10, id="more columns"),
        pytest.param(22, "<H", 65_535, id="columns without bound"),
        pytest.param(24, "<q", 2**62, id="another first time"),
        pytest.param(32, "<q", 0, id="another last time"),
        pytest.param(40, "<Q", 2**63, id="another step"),
        pytest.param(48, "<I", 2**31, id="a chunk longer than the block"),
        pytest.param(57, "<B", 1, id="another type"),
        pytest.param(57, "<B", 6, id="an unknown type"),
        pytest.param(58, "<B", 1, id="a bitmap where there is none"),
        pytest.param(58, "<B", 2, id="a packed bitmap where there is none"),
        pytest.param(58, "<B", 3, id="all missing"),
        pytest.param(58, "<B", 4, id="an unknown validity"),
        pytest.param(59, "<B", 2, id="another encoding"),
        pytest.param(59, "<B", 6, id="decimals of another width"),
        pytest.param(59, "<B", 9, id="an encoding of another type"),
        pytest.param(59, "<B", 200, id="an unknown encoding"),
        pytest.param(60, "<B", 10, id="ten digits"),
        pytest.param(61, "<B", 1, id="a one where a zero belongs"),
        pytest.param(76, "<B", 255, id="a name that is no UTF-8"),
        pytest.param(56, "<B", 0, id="a column without a name"),
        pytest.param(62, "<H", 3, id="statistics of another length"),
        pytest.param(64, "<I", 1, id="a missing value that is there"),
        pytest.param(64, "<I", 2**32 - 1, id="missing values without bound"),
        pytest.param(68, "<I", 0, id="an empty chunk"),
    ],
)
def test_a_header_that_lies_under_a_right_checksum_is_found_out(
    offset: int, layout: str, value: int
) -> None:
    damaged = with_header(lambda block: struct.pack_into(layout, block, offset, value))
    assert_refused(damaged)


def test_a_column_that_comes_twice_is_found_out() -> None:
    data = ColumnData(np.arange(3.0))
    block = pack_block(np.arange(3, dtype=np.int64), {"aa": data, "ab": data})
    with pytest.raises(CorruptDataError, match="the column 'aa' again"):
        unpack_block(resealed(block.replace(b"ab", b"aa", 1)))


def with_chunk(values: Any, encoding: int | None, chunk: Callable[[bytes], bytes]) -> bytes:
    """Return a block of one column whose chunk is another, under right checksums."""
    data = ColumnData(np.asarray(values))
    block = pack_block(np.arange(len(data), dtype=np.int64), {"value": data})
    (header_bytes,) = struct.unpack_from("<I", block, 8)
    changed = chunk(block[header_bytes:])
    head = bytearray(block[:header_bytes])
    if encoding is not None:
        head[59] = encoding
    struct.pack_into("<II", head, 68, len(changed), zlib.crc32(changed))
    struct.pack_into("<I", head, 12, header_bytes + len(changed))
    return resealed(bytes(head) + changed)


NOISE = np.random.default_rng(5).normal(size=400)
TEXTS = np.array([f"text {n}" for n in range(40)], dtype=object)
STATES = np.array(["on", "off"] * 20, dtype=object)
DECIMALS = np.concatenate([NOISE.round(2), [np.nan]])


def frame(raw: bytes) -> bytes:
    """Return a zstd frame."""
    return zstandard.compress(raw)


def exceptions(raw: bytes) -> Callable[[bytes], bytes]:
    """Return what replaces a chunk's exceptions."""

    def replaced(chunk: bytes) -> bytes:
        (size,) = struct.unpack_from("<I", chunk)
        packed = frame(raw)
        return struct.pack("<I", len(packed)) + packed + chunk[4 + size :]

    return replaced


@pytest.mark.parametrize(
    ("values", "encoding", "chunk"),
    [
        pytest.param(NOISE, None, lambda chunk: b"", id="no numbers"),
        pytest.param(NOISE, None, lambda chunk: chunk[:-9], id="numbers cut short"),
        pytest.param(NOISE, 2, lambda chunk: chunk, id="too few bytes"),
        pytest.param(NOISE, 1, lambda chunk: b"", id="a constant of nothing"),
        pytest.param(DECIMALS, None, lambda chunk: chunk[:3], id="decimals cut short"),
        pytest.param(
            DECIMALS, None, lambda chunk: b"\xff" * 4 + chunk[4:], id="exceptions without bound"
        ),
        pytest.param(DECIMALS, None, exceptions(b""), id="no exceptions"),
        pytest.param(DECIMALS, None, exceptions(b"12345"), id="half an exception"),
        pytest.param(
            DECIMALS, None, exceptions(struct.pack("<Id", 401, 0)), id="an exception beyond the end"
        ),
        pytest.param(
            DECIMALS,
            None,
            exceptions(struct.pack("<IIdd", 5, 5, 0, 0)),
            id="two exceptions in one place",
        ),
        pytest.param(DECIMALS, None, exceptions(bytes(2**20)), id="more exceptions than values"),
        pytest.param(TEXTS, None, lambda chunk: b"no zstd", id="no zstd"),
        pytest.param(TEXTS, None, lambda chunk: chunk + b"\0", id="bytes after zstd"),
        pytest.param(TEXTS, None, lambda chunk: frame(b""), id="no texts"),
        pytest.param(
            TEXTS, None, lambda chunk: frame(b"\xff" * 160), id="lengths of texts without bound"
        ),
        pytest.param(
            TEXTS, None, lambda chunk: frame(b"\1\0\0\0" * 40 + b"\xff" * 40), id="no UTF-8"
        ),
        pytest.param(
            TEXTS, None, lambda chunk: frame(b"\1\0\0\0" * 40 + b"x" * 41), id="text left over"
        ),
        pytest.param(STATES, None, lambda chunk: frame(b"\0\0\0\0"), id="an empty dictionary"),
        pytest.param(STATES, None, lambda chunk: frame(b"\1"), id="half a dictionary"),
        pytest.param(
            STATES, None, lambda chunk: frame(b"\xff\xff\xff\xff"), id="a dictionary without bound"
        ),
        pytest.param(
            STATES,
            None,
            lambda chunk: frame(b"\1\0\0\0\1\0\0\0x" + b"\1" * 40),
            id="a text that the dictionary has not",
        ),
        pytest.param(np.arange(40) % 2 == 0, 7, lambda chunk: b"\0", id="too few bits"),
        pytest.param(
            np.arange(41) % 2 == 0, 7, lambda chunk: b"\xff" * 6, id="bits after the last"
        ),
        pytest.param(np.arange(40) % 2 == 0, 1, lambda chunk: b"\7", id="a boolean of seven"),
    ],
)
def test_a_chunk_that_lies_under_a_right_checksum_is_found_out(
    values: Any, encoding: int | None, chunk: Callable[[bytes], bytes]
) -> None:
    assert_refused(with_chunk(values, encoding, chunk))


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([NOISE, DECIMALS, np.arange(400) ** 2, TEXTS]))
def test_codecs_never_end_the_process_on_bytes_they_did_not_make(seed: int, values: Any) -> None:
    random = np.random.default_rng(seed)

    def spoiled(chunk: bytes) -> bytes:
        changed = bytearray(chunk)
        for place in random.integers(0, len(chunk), int(random.integers(1, 4))):
            changed[place] = int(random.integers(256))
        return bytes(changed)

    block = with_chunk(values, None, spoiled)
    # A checksum that was made for these bytes vouches for them: some are numbers still.
    with suppress(CorruptDataError):
        assert len(unpack_block(block, place=PLACE).columns["value"]) == len(values)


def test_a_frame_that_claims_much_allocates_little() -> None:
    bomb = zstandard.compress(bytes(200 * 2**20))
    block = with_chunk(TEXTS, None, lambda chunk: bomb)
    tracemalloc.start()
    assert_refused(block)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * 2**20


@settings(max_examples=100, deadline=None)
@given(readings(), st.data())
def test_one_flipped_bit_never_gives_other_readings(given_: Readings, data: st.DataObject) -> None:
    block = pack_block(given_.ts, given_.columns)
    bit = data.draw(st.integers(0, 8 * len(block) - 1))
    damaged = bytearray(block)
    damaged[bit // 8] ^= 1 << (bit % 8)
    with pytest.raises(CorruptDataError):
        read_all(bytes(damaged))
