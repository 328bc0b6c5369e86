"""Reading values one after another from bytes that may be anything.

Rules of this file: nothing is taken that is not there, and a count is checked against what is left
before anything is made of it, so memory stays in proportion to the bytes.
"""

from __future__ import annotations

import struct
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from treering.errors import CorruptDataError

_U16_BYTES: Final = 2
_I32_BYTES: Final = 4
_U64_MASK: Final = (1 << 64) - 1
_UUID_BYTES: Final = 16


class Cursor:
    """A place in some bytes that only moves on.

    Args:
        data: The whole file, or its beginning.
        name: What the bytes are, for messages.
        start: Where to begin.
        end: The first byte that must not be read; None for the end of the data.
    """

    __slots__ = ("at", "data", "end", "name")

    def __init__(self, data: bytes, name: str, start: int = 0, end: int | None = None) -> None:
        self.data = data
        self.name = name
        self.at = start
        self.end = len(data) if end is None else end

    @property
    def left(self) -> int:
        """How many bytes are left."""
        return self.end - self.at

    def skip(self, count: int) -> Self:
        """Move on by so many bytes, which must be there."""
        self.take(count)
        return self

    def take(self, count: int) -> bytes:
        """Return the next bytes.

        Raises:
            CorruptDataError: Fewer are left.
        """
        at = self.at
        if not 0 <= count <= self.end - at:
            raise self.cut_off(count)
        self.at = at + count
        return self.data[at : self.at]

    def unpack(self, form: struct.Struct) -> tuple[Any, ...]:
        """Return the values of a fixed form."""
        at = self.at
        if form.size > self.end - at:
            raise self.cut_off(form.size)
        self.at = at + form.size
        return form.unpack_from(self.data, at)

    def array(self, form: np.dtype[Any], count: int) -> npt.NDArray[Any]:
        """Return the next numbers as they lie in the data, not to be written to."""
        at = self.at
        size = count * form.itemsize
        if not 0 <= size <= self.end - at:
            raise self.cut_off(size)
        self.at = at + size
        return np.frombuffer(self.data, form, count, at)

    def byte(self) -> int:
        """Return the next byte."""
        at = self.at
        if at >= self.end:
            raise self.cut_off(1)
        self.at = at + 1
        return self.data[at]

    def i32(self) -> int:
        """Return a signed integer of four bytes."""
        at = self.at
        if self.end - at < _I32_BYTES:
            raise self.cut_off(_I32_BYTES)
        self.at = at + _I32_BYTES
        return int.from_bytes(self.data[at : self.at], "big", signed=True)

    def vint(self) -> int:
        """Return an unsigned integer of one to nine bytes."""
        at = self.at
        if at >= self.end:
            raise self.cut_off(1)
        first = self.data[at]
        self.at = at + 1
        if first < 0x80:  # Most are short: this way of reading them is the fast one.
            return first
        extra = 8 - (first ^ 0xFF).bit_length()
        high = first & (0xFF >> extra) if extra < 8 else 0
        return (high << (8 * extra) | int.from_bytes(self.take(extra), "big")) & _U64_MASK

    def skip_vint(self) -> None:
        """Move on by such an integer."""
        if self.at >= self.end:
            raise self.cut_off(1)
        self.skip(9 - (self.data[self.at] ^ 0xFF).bit_length())

    def count(self, what: str, number: int, *, each: int) -> int:
        """Return a number of things, of which each takes at least ``each`` bytes.

        Raises:
            CorruptDataError: Negative, or more than the bytes that are left can hold.
        """
        if not 0 <= number * each <= self.end - self.at:
            raise self.corrupt(f"{number} {what} cannot follow in the {self.left} bytes left")
        return number

    def short_bytes(self) -> bytes:
        """Return bytes with their length, of two bytes, before them."""
        return self.short_list(1)[0]

    def short_list(self, count: int) -> tuple[bytes, ...]:
        """Return so many of those that ``short_bytes`` returns."""
        values = []
        at = self.at
        for _ in range(count):
            start = at + _U16_BYTES
            at = start + int.from_bytes(self.data[at:start], "big")
            if at > self.end:
                raise self.cut_off(at - self.at)
            values.append(self.data[start:at])
        self.at = at
        return tuple(values)

    def vint_bytes(self) -> bytes:
        """Return bytes with their length, a vint, before them."""
        return self.take(self.vint())

    def utf(self) -> str:
        """Return text with its length, of two bytes, before it."""
        return self._text(self.short_bytes())

    def vint_text(self) -> str:
        """Return text with its length, a vint, before it."""
        return self._text(self.vint_bytes())

    def optional_uuid(self) -> str | None:
        """Return a UUID after a byte that says whether it is there."""
        if not self.byte():
            return None
        text = self.take(_UUID_BYTES).hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def corrupt(self, what: str, **facts: Any) -> CorruptDataError:
        """Return the error that names this place."""
        return CorruptDataError(
            f"{self.name} is corrupt at byte {self.at}: {what}", offset=self.at, **facts
        )

    def cut_off(self, count: int) -> CorruptDataError:
        """Return the error for bytes that are not there."""
        return self.corrupt(
            f"{count} more bytes are needed and {self.left} are left",
            expected=count,
            found=self.left,
        )

    def _text(self, raw: bytes) -> str:
        try:
            return raw.decode()
        except UnicodeDecodeError as wrong:
            raise self.corrupt("text that is not UTF-8 ends here") from wrong
