"""Files that grow batch by batch, in constant memory, and are there under their name only whole.

Rules of this file: what is written has a name of its own until it is complete and on disk; nothing
is left of what is not completed.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol

from treering.errors import UsageError, missing_extra
from treering.formats.export import render_csv
from treering.readings import Readings

ROW_GROUP_ROWS: Final = 250_000
"""Readings of a row group of Parquet unless the caller says otherwise."""

_NOTE_KEY: Final = b"treering"


class Sink(Protocol):
    """What takes batches of readings one after the other."""

    def add(self, readings: Readings) -> None:
        """Take a batch; those before it are not kept."""
        ...

    def finish(self) -> None:
        """Write what is still held, and the end of the file."""
        ...

    def close(self) -> None:
        """Let go of the file, also where it was not finished."""
        ...


class CsvSink:
    """Writes CSV: one header, then a line a reading."""

    def __init__(self, stream: BinaryIO, empty: Readings) -> None:
        self._stream = stream
        stream.write(next(render_csv(empty)).encode())

    def add(self, readings: Readings) -> None:
        """Write a batch's lines."""
        texts = render_csv(readings)
        next(texts)
        for text in texts:
            self._stream.write(text.encode())

    def finish(self) -> None:
        """Nothing is held."""

    def close(self) -> None:
        """Nothing is held."""


class ParquetSink:
    """Writes Parquet in row groups of one size.

    Args:
        stream: Where to.
        empty: A result without readings: the columns.
        row_group_rows: Readings of a row group.
        note: What the file says of itself, for whoever goes on with an export.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """

    def __init__(
        self, stream: BinaryIO, empty: Readings, row_group_rows: int, note: Mapping[str, Any]
    ) -> None:
        self._pa = pyarrow()
        schema = empty.to_arrow().schema.with_metadata({_NOTE_KEY: json.dumps(note).encode()})
        self._writer = parquet().ParquetWriter(stream, schema, compression="zstd")
        self._schema = schema
        self._row_group_rows = row_group_rows
        self._held: list[Any] = []
        self._rows = 0

    def add(self, readings: Readings) -> None:
        """Keep a batch, and write the row groups that are full."""
        self._held.append(readings.to_arrow())
        self._rows += len(readings)
        if self._rows >= self._row_group_rows:
            whole = self._rows - self._rows % self._row_group_rows
            table = self._joined()
            self._write(table.slice(0, whole))
            # A copy: a slice would keep all that was written in memory.
            rest = table.slice(whole)
            self._held = [self._pa.Table.from_batches(rest.to_batches(), rest.schema)]
            self._rows -= whole

    def finish(self) -> None:
        """Write the last row group and the file's footer."""
        if self._rows:
            self._write(self._joined())
        self._writer.close()

    def close(self) -> None:
        """Close the writer, which would do so later and complain that the file is gone."""
        self._writer.close()

    def _joined(self) -> Any:
        return self._pa.concat_tables(self._held).unify_dictionaries()

    def _write(self, table: Any) -> None:
        table = table.replace_schema_metadata(self._schema.metadata)
        self._writer.write_table(table, row_group_size=self._row_group_rows)


def pyarrow() -> Any:
    """Return pyarrow.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        return importlib.import_module("pyarrow")
    except ImportError as error:
        raise missing_extra("writing Parquet", "arrow") from error


def parquet() -> Any:
    """Return pyarrow's Parquet, with the same error."""
    pyarrow()
    return importlib.import_module("pyarrow.parquet")


def read_note(path: Path) -> Mapping[str, Any] | None:
    """Return what a Parquet file says of itself; None where it is none of an export.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """
    pa, pq = pyarrow(), parquet()
    try:
        metadata = pq.read_schema(path).metadata or {}
        note = json.loads(metadata.get(_NOTE_KEY, b"null"))
    except (pa.ArrowException, OSError, ValueError):
        return None
    return note if isinstance(note, dict) else None


@contextmanager
def whole_file(target: Path) -> Iterator[BinaryIO]:
    """Open a file that has its name only once it is complete and on disk.

    Raises:
        UsageError: Its folder is not there.
    """
    if not target.parent.is_dir():
        raise UsageError(
            f"there is no folder {target.parent} for {target.name}", hint="make it first"
        )
    growing = target.with_name(f".{target.name}.part")
    try:
        with growing.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        growing.replace(target)
    finally:
        with suppress(FileNotFoundError):
            growing.unlink()
