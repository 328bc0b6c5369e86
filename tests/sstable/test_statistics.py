"""Statistics.db that is changed, cut off or made up: a value or a clear error, within bounds."""

from __future__ import annotations

import functools
import struct
import tracemalloc

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.sstable.craft import STATS, join, split
from tests.sstable.record import RECORDINGS, recording
from treering.errors import CorruptDataError
from treering.sstable.cursor import Cursor
from treering.sstable.statistics import HEADER, Statistics, parse_statistics
from treering.sstable.version import FormatVersion, version_of

NB = version_of("nb", "big")
ME = version_of("me", "big")
MEMORY_MAX = 2 << 20
"""Of a file of some kB, and the numbers made from it."""


@functools.cache
def good(name: str) -> tuple[tuple[FormatVersion, bytes], ...]:
    """Return the Statistics.db of every file of a recording."""
    with recording(name) as (folder, _):
        paths = sorted(folder.rglob("*-Statistics.db"))
        files = []
        for path in paths:
            version, _, format, _ = path.name.split("-")
            files.append((version_of(version, format), path.read_bytes()))
        return tuple(files)


@functools.cache
def all_files() -> tuple[tuple[FormatVersion, bytes], ...]:
    """Return the Statistics.db of every recording, and one without checksums."""
    return (*(file for name in RECORDINGS for file in good(name)), without_checksums())


def without_checksums() -> tuple[FormatVersion, bytes]:
    """Return a file as ``me`` has it: of ``nb``, without what came between the two."""
    _, data = next(file for file in good("nb") if file[0].name == "nb")
    parts = split(data)
    # Between the intervals and the host's id there are two flags more in nb.
    parts[STATS] = parts[STATS][:-19] + parts[STATS][-17:]
    return ME, join(parts, has_checksums=False)


def value_or_error(data: bytes, version: FormatVersion) -> Statistics | None:
    """Parse within bounds; None for what is refused in clear words."""
    tracemalloc.start()
    try:
        found = parse_statistics(data, version)
    except CorruptDataError as refused:
        found, error = None, str(refused)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < MEMORY_MAX
    if found is None:
        assert "Statistics.db" in error
        assert "corrupt" in error
    else:
        assert found.stats.partition_bytes.count >= 0
        assert found.stats.deletions.count >= 0
    return found


def test_what_me_lacks_is_absent() -> None:
    version, data = without_checksums()
    found = parse_statistics(data, version)
    newer = parse_statistics(good("nb")[0][1], NB)
    assert found.header == newer.header
    assert found.stats == newer.stats


@given(st.data())
def test_a_flipped_byte_is_noticed_where_there_are_checksums(data: st.DataObject) -> None:
    version, raw = data.draw(st.sampled_from([f for f in all_files() if f[0].has_checksums]))
    at = data.draw(st.integers(0, len(raw) - 1))
    flipped = bytearray(raw)
    flipped[at] ^= data.draw(st.integers(1, 255))
    found = value_or_error(bytes(flipped), version)
    # The estimate of how many keys there are is the one part that is not read.
    compaction_at, stats_at = (int.from_bytes(raw[n : n + 4], "big") for n in (20, 28))
    assert found is None or compaction_at <= at < stats_at


@given(st.data())
def test_a_file_that_is_cut_off_is_refused(data: st.DataObject) -> None:
    version, raw = data.draw(st.sampled_from(all_files()))
    # The last bytes of the header without checksums are a column's type, which may be shorter.
    length = data.draw(st.integers(0, len(raw) - 1))
    assert value_or_error(raw[:length], version) is None


@given(st.data())
def test_changed_components_with_right_checksums_do_no_harm(data: st.DataObject) -> None:
    version, raw = data.draw(st.sampled_from(all_files()))
    parts = split(raw, has_checksums=version.has_checksums)
    ordinal = data.draw(st.sampled_from([0, STATS, HEADER]))
    body = bytearray(parts[ordinal])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, max(len(body) - 1, 0)))
        patch = data.draw(st.sampled_from(HOSTILE) | st.binary(max_size=9))
        body[at : at + len(patch)] = patch
    parts[ordinal] = bytes(body)
    value_or_error(join(parts, has_checksums=version.has_checksums), version)


HOSTILE = [struct.pack(">i", n) for n in (-1, 0, 2**31 - 1, -(2**31))] + [
    struct.pack(">q", n) for n in (-1, 2**63 - 1, -(2**63), 1 << 48)
]
HOSTILE += [b"\xff" * 9, b"\xfe" * 9, struct.pack(">d", float("nan")), b"\x7f\xf0" + bytes(6)]


@given(st.binary(max_size=600), st.sampled_from(["me", "nb", "oa"]))
@example(struct.pack(">i", 2**31 - 1), "me")
@example(struct.pack(">iii", 1, 2, 12) + struct.pack(">i", 2**31 - 1), "me")
def test_random_bytes_are_refused(raw: bytes, name: str) -> None:
    assert value_or_error(raw, version_of(name, "big")) is None


@given(st.binary(max_size=300), st.sampled_from([0, STATS, HEADER]))
def test_random_components_are_a_value_or_an_error(body: bytes, ordinal: int) -> None:
    for version, raw in (good("nb")[0], good("oa")[0], without_checksums()):
        parts = split(raw, has_checksums=version.has_checksums) | {ordinal: body}
        value_or_error(join(parts, has_checksums=version.has_checksums), version)


@pytest.mark.parametrize("missing", [0, STATS, HEADER])
def test_a_missing_component_is_named(missing: int) -> None:
    version, raw = good("nb")[0]
    parts = split(raw)
    del parts[missing]
    with pytest.raises(CorruptDataError, match=r"it has no (VALIDATION|STATS|HEADER) component"):
        parse_statistics(join(parts), version)


def test_files_share_the_bounds_of_their_histograms() -> None:
    one, two = (parse_statistics(data, version).stats for version, data in good("nb")[:2])
    assert one.partition_bytes.offsets is two.partition_bytes.offsets
    assert not one.partition_bytes.offsets.flags.writeable
    assert not one.partition_bytes.counts.flags.writeable
    assert not np.shares_memory(one.partition_bytes.counts, two.partition_bytes.counts)


def test_a_wrong_checksum_says_where() -> None:
    version, raw = good("nb")[0]
    with pytest.raises(CorruptDataError, match=f"HEADER.*checksum at byte {len(raw) - 4} is"):
        parse_statistics(raw[:-1] + bytes([raw[-1] ^ 1]), version)


@pytest.mark.parametrize(
    ("raw", "number"),
    [
        ("00", 0),
        ("7f", 127),
        ("8080", 128),
        ("bfff", 16_383),
        ("c04000", 16_384),
        ("fe80000000000000", 0x80000000000000),
        ("ff8000000000000000", 1 << 63),
        ("ffffffffffffffffff", (1 << 64) - 1),
    ],
)
def test_vints_have_as_many_more_bytes_as_leading_ones(raw: str, number: int) -> None:
    cursor = Cursor(bytes.fromhex(raw), "x")
    assert (cursor.vint(), cursor.left) == (number, 0)
    skipping = Cursor(bytes.fromhex(raw), "x")
    skipping.skip_vint()
    assert skipping.left == 0


@given(st.binary(max_size=12))
def test_any_bytes_are_a_vint_or_cut_off(raw: bytes) -> None:
    cursor = Cursor(raw, "x")
    try:
        assert 0 <= cursor.vint() < 1 << 64
    except CorruptDataError:
        assert len(raw) < 9
