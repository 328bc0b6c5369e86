"""Numbers inside a block: pcodec, with the order of differences chosen, and decimals as integers.

Rules of this file: what is packed comes back bit for bit, which is checked while packing wherever
arithmetic is involved; pcodec is given an array of the right size to fill, never the choice.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
from pcodec import ChunkConfig, DeltaSpec, standalone

from treering.core.block_damage import BlockDamage
from treering.core.block_frames import pack_frame, pack_sized, unpack_frame, unpack_sized
from treering.core.block_setting import Setting

EXPONENT_MAX: Final = 9

# Doubles hold every integer below this one.
_WHOLE_MAX: Final = 2**53
_POWERS: Final = 10.0 ** np.arange(EXPONENT_MAX + 1)

# Where one value in sixteen is no decimal, keeping them apart (12 bytes each before zstd) costs
# more than pcodec gains on the rest.
_EXCEPTIONS_SHARE: Final = 16
_PROBES: Final = 64

# The sample: pieces from all over the block, so that a slow drift shows, each long enough for a
# trend to show.
_PIECES: Final = 4
_PIECE_ROWS: Final = 192
_SAMPLE_LEVEL: Final = 3
_ORDERS: Final = (1, 0, 2)

_INT32: Final = np.iinfo(np.int32)


def little(values: npt.NDArray[Any]) -> bytes:
    """Return the values' bytes, little-endian."""
    return values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes()


def from_little(raw: bytes, dtype: np.dtype[Any], count: int) -> npt.NDArray[Any]:
    """Return a writable array of ``count`` values.

    Raises:
        BlockDamage: Another number of bytes.
    """
    if len(raw) != count * dtype.itemsize:
        raise BlockDamage(found=f"{len(raw)} bytes of values", expected=f"{count * dtype.itemsize}")
    return np.frombuffer(raw, dtype.newbyteorder("<")).astype(dtype)


def narrowed(values: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """Return 64-bit integers as 32-bit ones where all fit: they pack smaller and faster."""
    if _INT32.min <= int(values.min()) and int(values.max()) <= _INT32.max:
        return values.astype(np.int32)
    return values


def pack_pco(values: npt.NDArray[Any], setting: Setting) -> bytes:
    """Return numbers packed by pcodec under the order of differences that packs them smallest.

    pcodec chooses an order itself, but on blocks of a few thousand it often misses the best.
    """
    values = np.ascontiguousarray(values)
    if setting.is_thorough or len(values) <= _PIECES * _PIECE_ROWS:
        return min((_compress(values, order, setting.pco_level) for order in _ORDERS), key=len)
    sample = _sample_of(values)
    order = min(_ORDERS, key=lambda order: len(_compress(sample, order, _SAMPLE_LEVEL)))
    return _compress(values, order, setting.pco_level)


def _compress(values: npt.NDArray[Any], order: int, level: int) -> bytes:
    spec = DeltaSpec.no_op() if order == 0 else DeltaSpec.try_consecutive(order)
    packed = standalone.simple_compress(
        values, ChunkConfig(compression_level=level, delta_spec=spec)
    )
    return bytes(packed)


def _sample_of(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    last = len(values) - _PIECE_ROWS
    starts = [last * piece // (_PIECES - 1) for piece in range(_PIECES)]
    return np.concatenate([values[start : start + _PIECE_ROWS] for start in starts])


def unpack_pco(packed: bytes, dtype: np.dtype[Any], count: int) -> npt.NDArray[Any]:
    """Return ``count`` numbers.

    Raises:
        BlockDamage: pcodec makes something else of it, or nothing.
    """
    values = np.empty(count, dtype=dtype)
    try:
        progress = standalone.simple_decompress_into(packed, values)
    except (RuntimeError, TypeError, ValueError, MemoryError) as error:
        raise BlockDamage(found=f"no {dtype} of pcodec ({error})", expected=str(count)) from error
    except BaseException as error:
        # pcodec's panics are no Exception; they must not end a program that reads a bad block.
        if type(error).__name__ != "PanicException":
            raise
        raise BlockDamage(found=f"no {dtype} of pcodec", expected=str(count)) from error
    if progress.n_processed != count or not progress.finished:
        raise BlockDamage(
            found=f"{'' if progress.finished else 'more than '}{progress.n_processed} values",
            expected=str(count),
        )
    return values


def pack_decimals(
    values: npt.NDArray[Any], setting: Setting
) -> tuple[int, npt.NDArray[Any], bytes] | None:
    """Return floats that are decimals in truth, as integers of ``10**-exponent``.

    Values that are none (NaN, infinities, -0.0, a few with more digits) are kept beside, by place.

    Returns:
        The exponent, the integers (32 or 64 bits) and the chunk; None where too many values are
        no decimals of up to 9 digits after the point.
    """
    found = _exponent_of(values)
    if found is None:
        return None
    exponent, whole, wrong = found
    places = np.flatnonzero(wrong)
    exceptions = b""
    if len(places):
        # What stands at the place of an exception is arbitrary; its neighbour packs best.
        whole[places] = whole[_neighbours(places, len(whole))]
        raw = little(places.astype(np.uint32)) + little(values[places])
        exceptions = pack_frame(raw, setting.zstd_level)
    integers = narrowed(whole)
    return exponent, integers, pack_sized(exceptions) + pack_pco(integers, setting)


def _neighbours(places: npt.NDArray[np.intp], count: int) -> npt.NDArray[np.intp]:
    """Return for each place the nearest one before it that is no exception, else the first."""
    ordinary = np.ones(count, dtype=np.bool_)
    ordinary[places] = False
    before = np.maximum.accumulate(np.where(ordinary, np.arange(count), -1))[places]
    return np.where(before < 0, int(np.argmax(ordinary)), before)


def _exponent_of(
    values: npt.NDArray[Any],
) -> tuple[int, npt.NDArray[np.int64], npt.NDArray[np.bool_]] | None:
    """Return the smallest exponent under which all but few values are whole, and which are not."""
    exceptions_max = len(values) // _EXCEPTIONS_SHARE
    exponent = _probe(values[:: max(1, len(values) // _PROBES)], 0)
    while exponent is not None:
        whole, wrong = _scaled(values, exponent)
        if np.count_nonzero(wrong) <= exceptions_max:
            return exponent, whole, wrong
        # The probes were whole by chance; those that are not decide where to go on.
        exponent = _probe(values[wrong][:_PROBES], exponent + 1)
    return None


def _probe(values: npt.NDArray[Any], lowest: int) -> int | None:
    """Return the smallest exponent from ``lowest`` under which most values are whole."""
    powers = _POWERS[lowest:]
    with np.errstate(over="ignore", invalid="ignore"):
        whole = np.rint(values.astype(np.float64)[:, None] * powers)
        is_same = (whole / powers).astype(values.dtype) == values[:, None]
        is_same &= np.abs(whole) < _WHOLE_MAX
    # Half of the probes may be exceptions: the whole block has the last word.
    good = np.flatnonzero(is_same.sum(axis=0) * 2 >= len(values))
    return None if len(good) == 0 else lowest + int(good[0])


def _scaled(
    values: npt.NDArray[Any], exponent: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    bits = np.dtype(f"i{values.dtype.itemsize}")
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = np.rint(values.astype(np.float64, copy=False) * _POWERS[exponent])
        too_big = ~(np.abs(scaled) < _WHOLE_MAX)
        if too_big.any():
            scaled[too_big] = 0.0
        whole = scaled.astype(np.int64)
    back = from_decimals(whole, exponent, values.dtype)
    return whole, (back.view(bits) != values.view(bits)) | too_big


def from_decimals(whole: npt.NDArray[Any], exponent: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return integers of ``10**-exponent`` as floats: one division of doubles, rounded once."""
    values: npt.NDArray[Any] = (
        np.divide(whole, _POWERS[exponent], dtype=np.float64)
        if exponent
        else whole.astype(np.float64)
    )
    if values.dtype == dtype:
        return values
    with np.errstate(over="ignore"):
        return values.astype(dtype)


def unpack_decimals(
    chunk: bytes, *, exponent: int, integer: np.dtype[Any], dtype: np.dtype[Any], count: int
) -> npt.NDArray[Any]:
    """Return what :func:`pack_decimals` packed.

    Raises:
        BlockDamage: An exponent beyond 9, exceptions out of place, or what pcodec cannot read.
    """
    if exponent > EXPONENT_MAX:
        raise BlockDamage(found=f"the exponent {exponent}", expected=f"at most {EXPONENT_MAX}")
    exceptions, packed = unpack_sized(chunk)
    values = from_decimals(unpack_pco(packed, integer, count), exponent, dtype)
    if exceptions:
        _put_exceptions(values, exceptions)
    return values


def _put_exceptions(values: npt.NDArray[Any], frame: bytes) -> None:
    each = 4 + values.dtype.itemsize
    raw = unpack_frame(frame, bytes_max=len(values) * each)
    count, rest = divmod(len(raw), each)
    if rest or not count:
        raise BlockDamage(found=f"{len(raw)} bytes of exceptions", expected=f"some of {each} each")
    places = from_little(raw[: 4 * count], np.dtype(np.uint32), count).astype(np.intp)
    if not is_ascending(places) or int(places[-1]) >= len(values):
        raise BlockDamage(found="exceptions out of place", expected="ascending places")
    values[places] = from_little(raw[4 * count :], values.dtype, count)


def is_ascending(values: npt.NDArray[Any]) -> bool:
    """Return whether each value is larger than the one before."""
    return bool((values[1:] > values[:-1]).all())


def is_constant(values: npt.NDArray[Any]) -> bool:
    """Return whether all values have the bits of the first."""
    bits = values.view(np.dtype(f"i{values.dtype.itemsize}"))
    # The last value gives most others away without looking at all.
    return bool(bits[0] == bits[-1]) and bool((bits == bits[0]).all())
