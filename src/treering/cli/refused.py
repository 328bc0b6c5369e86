"""The file of refused lines: it never takes the place of something that is not one of its kind.

Rules of this file: lines go to a file beside the one that was named, which takes its place only
when the import is through; what was there before is there until then, and after a failure.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from treering.errors import UsageError

if TYPE_CHECKING:
    from treering.formats.chunk import RefusedLine

    OnRefused = Callable[[RefusedLine, tuple[str, ...]], None]


def check_refused_path(path: Path, files: Sequence[str], *, force: bool) -> None:
    """Refuse to write refused lines over a file that is imported, or over one of another kind.

    Args:
        path: Where refused lines shall go.
        files: What is imported; ``-`` is standard input.
        force: Overwrite a file although it does not look like one of refused lines.

    Raises:
        UsageError: Says which file would be lost.
    """
    from treering.importing import REFUSED_HEADER

    for file in files:
        if file != "-" and _is_same(path, Path(file)):
            raise UsageError(
                f"the refused lines would overwrite {file}, which is imported",
                hint="name another file with --refused",
            )
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {path.parent} for the refused lines")
    if path.is_dir():
        raise UsageError(f"{path} is a folder", hint="name a file with --refused")
    if force or not path.is_file():
        return
    with path.open("rb") as stream:
        start = stream.read(len(REFUSED_HEADER))
    if start not in (b"", REFUSED_HEADER):
        raise UsageError(
            f"{path} is there already, and does not hold refused lines",
            hint="name another file with --refused, or overwrite this one with --force",
        )


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return os.path.realpath(one) == os.path.realpath(other)


@contextmanager
def refused_sink(
    path: Path | None, shown: Callable[[str], str], *, is_named: bool
) -> Iterator[Callable[[str], OnRefused | None]]:
    """Give a function that takes the refused lines of a file; they are there when it is left.

    Args:
        path: Where refused lines go; None where nobody wants them.
        shown: What people call a file.
        is_named: Whether lines name their file, because there are several.
    """
    if path is None:
        yield lambda _: None
        return
    from treering.importing import RefusedFile

    with _replacing(path) as stream:
        sink = RefusedFile(stream)

        def adder(file: str) -> Any:
            name = shown(file) if is_named else None
            return lambda refusal, names: sink.add(refusal, names, path=name)

        yield adder


@contextmanager
def _replacing(path: Path) -> Iterator[IO[str]]:
    if path.exists() and not path.is_file():
        # A pipe or a device has no place to take.
        with path.open("w", encoding="utf-8", newline="") as stream:
            yield stream
        return
    # A link stays a link: what it leads to is replaced.
    target = Path(os.path.realpath(path))
    with tempfile.NamedTemporaryFile(
        "w",
        encoding="utf-8",
        newline="",
        dir=target.parent,
        prefix=f".{target.name}.",
        delete=False,
    ) as stream:
        beside = Path(stream.name)
        try:
            yield stream
            stream.close()
            beside.chmod(target.stat().st_mode if target.exists() else 0o666 & ~_umask())
            beside.replace(target)
        except BaseException:
            with suppress(OSError):
                beside.unlink()
            raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
