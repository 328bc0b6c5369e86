"""Lines of a file in blocks of bounded size, each line with its number.

Rules of this file: memory is bounded whatever the file holds; a block ends where a line ends, and
not inside a quoted field as long as that field stays within a bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, Final

from treering.errors import UsageError

LINE_BYTES_MAX: Final = 1 << 20
"""A longer line is refused, without keeping it."""

BLOCK_BYTES_MAX: Final = 32 << 20
_QUOTED_LINES_MAX: Final = 1_000

UTF8_BOM: Final = b"\xef\xbb\xbf"
_OTHER_BOMS: Final = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class LineBlock:
    """Consecutive lines.

    Attributes:
        first_line: The number of the first, from 1.
        lines: The lines with their ends; one that is too long is empty.
        overlong: Places of lines that are too long.
    """

    first_line: int
    lines: list[bytes]
    overlong: frozenset[int] = field(default=frozenset())

    @property
    def size_bytes(self) -> int:
        """Bytes of all lines."""
        return sum(map(len, self.lines))


class LineReader:
    """Reads a binary stream line by line, counting.

    Args:
        stream: The file; only ``readline`` is asked of it.
        path: The file, for messages.
    """

    def __init__(self, stream: BinaryIO, path: str) -> None:
        self._stream = stream
        self._path = path
        self._next_line = 1
        self._bytes = 0

    @property
    def bytes_read(self) -> int:
        """How far into the file the reader is."""
        return self._bytes

    def blocks(self, lines_max: int, *, quoted: bool) -> Iterator[LineBlock]:
        """Yield the rest of the file in blocks.

        Args:
            lines_max: Lines a block.
            quoted: Whether a quoted field may hold line ends, so that a block must not end there.
        """
        while True:
            block = self._block(lines_max, quoted)
            if not block.lines:
                return
            yield block

    def _block(self, lines_max: int, quoted: bool) -> LineBlock:
        first = self._next_line
        lines: list[bytes] = []
        overlong: list[int] = []
        size = quotes = 0
        while size < BLOCK_BYTES_MAX:
            is_open = quoted and quotes % 2 == 1
            if len(lines) >= lines_max + (_QUOTED_LINES_MAX if is_open else 0):
                break
            line = self._line()
            if line is None:
                overlong.append(len(lines))
                line = b"\n"
            elif not line:
                break
            lines.append(line)
            size += len(line)
            if quoted:
                quotes += line.count(b'"')
        return LineBlock(first, lines, frozenset(overlong))

    def _line(self) -> bytes | None:
        """Return the next line, nothing at the end, or None for one that is too long."""
        line = self._stream.readline(LINE_BYTES_MAX)
        self._bytes += len(line)
        if line:
            self._next_line += 1
        if len(line) < LINE_BYTES_MAX or line.endswith(b"\n"):
            return self._without_mark(line) if self._next_line == 2 else line
        while rest := self._stream.readline(LINE_BYTES_MAX):
            self._bytes += len(rest)
            if rest.endswith(b"\n"):
                break
        return None

    def _without_mark(self, line: bytes) -> bytes:
        if line.startswith(_OTHER_BOMS):
            raise UsageError(
                f"{self._path} is UTF-16 text; files of readings are UTF-8",
                hint="convert it first, for instance with iconv -f UTF-16 -t UTF-8",
            )
        return line.removeprefix(UTF8_BOM)
