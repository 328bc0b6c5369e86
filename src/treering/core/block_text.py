"""Text inside a block: a dictionary where texts repeat, and zstd over all of it.

Rules of this file: all text of a column is bounded, packing and unpacking alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from treering.core.block_damage import BlockDamage
from treering.core.block_frames import pack_frame, unpack_frame
from treering.core.block_numbers import from_little, little
from treering.core.block_setting import Setting
from treering.errors import UsageError

TEXT_BYTES_MAX: Final = 64 * 2**20
"""The most bytes of UTF-8 that one column of a block holds: 1 KiB a reading of the largest."""

_U32: Final = np.dtype(np.uint32)
_CODES_8: Final = 256


def pack_texts(texts: Sequence[Any], setting: Setting) -> tuple[bool, bytes]:
    """Return whether texts are packed by a dictionary, and the chunk.

    Raises:
        UsageError: A value that is no text, or too much text.
    """
    encoded = [_encoded(text) for text in texts]
    codes_of: dict[bytes, int] = {}
    codes = [codes_of.setdefault(text, len(codes_of)) for text in encoded]
    # A code takes at most two bytes and every length four, so this is where a dictionary pays.
    has_dictionary = 2 * len(codes_of) <= len(encoded)
    raw = _with_lengths(list(codes_of) if has_dictionary else encoded)
    if has_dictionary:
        raw = len(codes_of).to_bytes(4, "little") + raw
        raw += little(np.array(codes, dtype=_code_dtype(len(codes_of))))
    return has_dictionary, pack_frame(raw, setting.zstd_level)


def _encoded(text: Any) -> bytes:
    if not isinstance(text, str):
        raise UsageError(
            f"a text column of a block holds {type(text).__name__}, not text",
            hint="convert the values first, or mark them missing",
        )
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"a text that is not Unicode cannot be packed: {error.reason}",
            hint="replace lone surrogates first",
        ) from error


def _code_dtype(texts: int) -> np.dtype[Any]:
    return np.dtype(np.uint8) if texts <= _CODES_8 else np.dtype(np.uint16)


def _with_lengths(texts: list[bytes]) -> bytes:
    joined = b"".join(texts)
    if len(joined) > TEXT_BYTES_MAX:
        raise UsageError(
            f"a block's column would hold {len(joined):,} bytes of text, more than "
            f"{TEXT_BYTES_MAX:,}",
            hint="put fewer readings into one block",
        )
    lengths = np.fromiter(map(len, texts), _U32, len(texts))
    return little(lengths) + joined


def unpack_texts(chunk: bytes, *, has_dictionary: bool, count: int) -> npt.NDArray[Any]:
    """Return ``count`` texts as an object array; equal ones of a dictionary share memory.

    Raises:
        BlockDamage: Not what :func:`pack_texts` makes.
    """
    raw = unpack_frame(chunk, bytes_max=TEXT_BYTES_MAX + 6 * count + 4)
    if not has_dictionary:
        texts, rest = _take_texts(raw, count)
        if rest:
            raise BlockDamage(found=f"{len(rest)} bytes after the texts", expected="none")
        return texts
    known = int.from_bytes(raw[:4], "little")
    if not 1 <= known <= count or len(raw) < 4:
        raise BlockDamage(found=f"a dictionary of {known} texts", expected=f"1 to {count}")
    texts, rest = _take_texts(raw[4:], known)
    codes = from_little(rest, _code_dtype(known), count)
    if int(codes.max()) >= known:
        raise BlockDamage(found=f"the text number {int(codes.max())}", expected=f"below {known}")
    return np.take(texts, codes)


def _take_texts(raw: bytes, count: int) -> tuple[npt.NDArray[Any], bytes]:
    lengths = from_little(raw[: 4 * count], _U32, count)
    edges = np.cumsum(lengths, dtype=np.int64) + 4 * count
    if int(edges[-1]) > len(raw):
        raise BlockDamage(
            found=f"lengths of {int(edges[-1]) - 4 * count} bytes",
            expected=f"at most {len(raw) - 4 * count}",
        )
    texts = np.empty(count, dtype=object)
    start = 4 * count
    try:
        for index, end in enumerate(edges.tolist()):
            texts[index] = raw[start:end].decode()
            start = end
    except UnicodeDecodeError as error:
        raise BlockDamage(found=f"no UTF-8 ({error.reason})", expected="UTF-8") from error
    return texts, raw[start:]
