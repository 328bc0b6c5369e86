"""A batch as bytes, exactly, and back; a damaged one is found out.

Layout, little-endian: ``TRB1``, CRC-32 of the rest, length of the header, the header as JSON, then
the arrays in the order of the header. Text is its UTF-8 length by value (-1: missing), then all
values.
"""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from treering.core.batch import Batch
from treering.core.columns import ColumnData
from treering.core.schema import ColumnType
from treering.core.table import TableSpec

_MAGIC: Final = b"TRB1"
_HEAD: Final = struct.Struct("<4sII")


def encode_batch(batch: Batch) -> bytes:
    """Return a batch as bytes."""
    header = {
        "write_us": batch.write_us,
        "first_index": batch.first_index,
        "rows": len(batch),
        "bytes": batch.bytes,
        "series": batch.series,
        "columns": {name: data.present is not None for name, data in batch.columns.items()},
    }
    parts = [_little(batch.codes), _little(batch.ts), _little(batch.flags)]
    for data in batch.columns.values():
        if data.present is not None:
            parts.append(data.present.tobytes())
        parts.append(_encode_values(data))
    text = json.dumps(header, ensure_ascii=False).encode()
    body = b"".join([text, *parts])
    crc = zlib.crc32(len(text).to_bytes(4, "little") + body)
    return _HEAD.pack(_MAGIC, crc, len(text)) + body


def _little(values: npt.NDArray[Any]) -> bytes:
    return values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes()


def _encode_values(data: ColumnData) -> bytes:
    if data.values.dtype != object:
        return _little(data.values)
    texts = [None if text is None else text.encode() for text in data.to_list()]
    lengths = np.array([-1 if text is None else len(text) for text in texts], dtype=np.int32)
    return _little(lengths) + b"".join(text for text in texts if text)


def decode_batch(payload: bytes, spec: TableSpec) -> Batch:
    """Return the batch of bytes that :func:`encode_batch` made.

    Raises:
        ValueError: Damaged, or of another format or table.
    """
    if len(payload) < _HEAD.size:
        raise ValueError(f"{len(payload)} bytes are too few")
    magic, crc, text_bytes = _HEAD.unpack_from(payload)
    if magic != _MAGIC:
        raise ValueError(f"it begins with {magic!r}, not {_MAGIC!r}")
    if zlib.crc32(payload[8:]) != crc:
        raise ValueError("its checksum does not match")
    start = _HEAD.size + text_bytes
    header = json.loads(payload[_HEAD.size : start])
    types = {column.name: column.type for column in spec.columns}
    reader = _Reader(payload, start, header["rows"])
    return Batch(
        write_us=header["write_us"],
        first_index=header["first_index"],
        series=tuple(header["series"]),
        codes=reader.take(np.dtype(np.uint32)),
        ts=reader.take(np.dtype(np.int64)),
        flags=reader.take(np.dtype(np.uint8)),
        columns={
            name: reader.take_column(types[name], has_missing)
            for name, has_missing in header["columns"].items()
            if _is_known(name, types)
        },
        bytes=header["bytes"],
    )


def _is_known(name: str, types: dict[str, ColumnType]) -> bool:
    if name not in types:
        raise ValueError(f"it has the column {name!r}, which the table has not")
    return True


class _Reader:
    """Takes arrays from bytes, one after the other."""

    def __init__(self, payload: bytes, start: int, rows: int) -> None:
        self._payload = payload
        self._at = start
        self._rows = rows

    def take(self, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        little = dtype.newbyteorder("<")
        values = np.frombuffer(self._payload, little, self._rows, self._at)
        self._at += values.nbytes
        return values.astype(dtype, copy=False)

    def take_column(self, column_type: ColumnType, has_missing: bool) -> ColumnData:
        present = self.take(np.dtype(np.bool_)) if has_missing else None
        if column_type is not ColumnType.TEXT:
            return ColumnData(self.take(column_type.dtype), present)
        values = np.empty(self._rows, dtype=object)
        for row, length in enumerate(self.take(np.dtype(np.int32)).tolist()):
            if length >= 0:
                values[row] = self._payload[self._at : self._at + length].decode()
                self._at += length
        return ColumnData(values, present)
