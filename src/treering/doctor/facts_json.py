"""Facts as JSON, and back from JSON of strangers.

Rules of this file: the dataclasses of facts are the schema, so a new fact needs no code here; what
comes back is checked type by type, and unknown or missing keys are refused; keys and clustering
values leave only where they are asked for.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from treering.doctor.facts import ClusterFacts
from treering.errors import CorruptDataError
from treering.sstable.facts import DropTimeHistogram, EstimatedHistogram, SSTableFacts

FORMAT: Final = 1
"""The version of the document; a newer one is refused."""

_DEPTH_MAX: Final = 32
_INT_MAX: Final = 2**127
_SECRETS: Final = ("first_key", "last_key", "clustering_start", "clustering_end")


def cluster_to_json(facts: ClusterFacts, *, with_keys: bool = False) -> dict[str, Any]:
    """Return facts as a JSON document.

    Args:
        facts: What was collected.
        with_keys: Whether partition keys and clustering values leave too; tokens always do.
    """
    return {"format": FORMAT, "facts": _to_json(facts, with_keys)}


def cluster_of_json(document: object, *, path: str) -> ClusterFacts:
    """Return the facts of a document.

    Args:
        document: As ``json.loads`` returned it.
        path: Where it came from, for errors.

    Raises:
        CorruptDataError: Not such a document, or of a newer version.
    """
    try:
        if not isinstance(document, dict) or "facts" not in document:
            raise _WrongShapeError("there is no 'facts'")
        if document.get("format") != FORMAT:
            raise _WrongShapeError(f"format {document.get('format')!r:.20} is not {FORMAT}")
        facts: ClusterFacts = _reader(ClusterFacts)(document["facts"], 0)
    except _WrongShapeError as error:
        raise CorruptDataError(
            f"{path} does not hold facts of the doctor: {error}",
            hint="collect it again with treering doctor collect of this version",
            path=path,
        ) from error
    return facts


class _WrongShapeError(Exception):
    """What is wrong, without the place."""


def _to_json(value: Any, with_keys: bool) -> Any:
    match value:
        case EstimatedHistogram():
            pairs = zip(value.offsets.tolist(), value.counts.tolist(), strict=True)
            return {"pairs": [list(pair) for pair in pairs], "overflow": value.overflow}
        case DropTimeHistogram():
            pairs = zip(value.points_s.tolist(), value.counts.tolist(), strict=True)
            return {"pairs": [list(pair) for pair in pairs]}
        case bytes():
            return value.hex()
        case float() if not math.isfinite(value):
            return None
        case Mapping():
            return {str(key): _to_json(one, with_keys) for key, one in value.items()}
        case tuple() | list():
            return [_to_json(one, with_keys) for one in value]
        case None | bool() | int() | float() | str():
            return value
    if not dataclasses.is_dataclass(value):
        return str(value)
    hidden = _SECRETS if isinstance(value, SSTableFacts) and not with_keys else ()
    return {
        field.name: None
        if field.name in hidden
        else _to_json(getattr(value, field.name), with_keys)
        for field in dataclasses.fields(value)
    }


Reader = Callable[[object, int], Any]


@functools.cache
def _reader(kind: Any) -> Reader:
    """Return the function that takes a value of JSON as one of this type."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is EstimatedHistogram:
        return _estimated
    if kind is DropTimeHistogram:
        return _drop_times
    if dataclasses.is_dataclass(kind):
        return _fields_reader(kind)
    if origin in (Union, types.UnionType):
        return _optional_reader(arguments)
    if origin is tuple:
        return _tuple_reader(arguments)
    if origin is Literal:
        return _literal_reader(arguments)
    if origin is not None and issubclass(origin, Mapping):
        return _mapping_reader(arguments[1])
    return _SIMPLE[kind]


def _fields_reader(kind: Any) -> Reader:
    hints = get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind)]
    needed = {
        field.name
        for field in dataclasses.fields(kind)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    }

    def read(value: object, depth: int) -> Any:
        if not isinstance(value, dict) or not needed <= set(value):
            raise _WrongShapeError(f"{kind.__name__} has not the keys that it should have")
        if depth > _DEPTH_MAX:
            raise _WrongShapeError("it is nested too deeply")
        given = {
            name: _reader(hints[name])(value[name], depth + 1) for name in names if name in value
        }
        try:
            return kind(**given)
        except ValueError as error:
            raise _WrongShapeError(str(error)) from error

    return read


def _optional_reader(arguments: tuple[Any, ...]) -> Reader:
    (inner,) = (one for one in arguments if one is not type(None))
    read_inner = _reader(inner)
    return lambda value, depth: None if value is None else read_inner(value, depth)


def _tuple_reader(arguments: tuple[Any, ...]) -> Reader:
    is_open = arguments[-1] is Ellipsis
    readers = [_reader(one) for one in arguments if one is not Ellipsis]

    def read(value: object, depth: int) -> Any:
        if not isinstance(value, list) or not (is_open or len(value) == len(readers)):
            raise _WrongShapeError("a list is missing, or has the wrong length")
        some = readers * len(value) if is_open else readers
        return tuple(one(item, depth + 1) for one, item in zip(some, value, strict=True))

    return read


def _literal_reader(arguments: tuple[Any, ...]) -> Reader:
    def read(value: object, depth: int) -> Any:
        if not isinstance(value, str) or value not in arguments:
            raise _WrongShapeError(f"{value!r:.40} is none of {arguments}")
        return value

    return read


def _mapping_reader(inner: Any) -> Reader:
    read_inner = _reader(inner)

    def read(value: object, depth: int) -> Any:
        if not isinstance(value, dict):
            raise _WrongShapeError("a mapping is missing")
        return {key: read_inner(one, depth + 1) for key, one in value.items()}

    return read


def _pairs(value: object, is_time: bool) -> tuple[list[tuple[Any, int]], int]:
    if not isinstance(value, dict) or not isinstance(value.get("pairs"), list):
        raise _WrongShapeError("a histogram has no pairs")
    pairs = []
    for pair in value["pairs"]:
        if not isinstance(pair, list) or len(pair) != 2:
            raise _WrongShapeError("a histogram has something that is no pair")
        place = _float(pair[0], 0) if is_time else _i64(pair[0])
        pairs.append((place, _i64(pair[1])))
    return pairs, _int(value.get("overflow", 0), 0)


def _estimated(value: object, depth: int) -> EstimatedHistogram:
    pairs, overflow = _pairs(value, is_time=False)
    try:
        return EstimatedHistogram.from_pairs(pairs, overflow=overflow)
    except ValueError as error:
        raise _WrongShapeError(str(error)) from error


def _drop_times(value: object, depth: int) -> DropTimeHistogram:
    pairs, _ = _pairs(value, is_time=True)
    try:
        return DropTimeHistogram.from_pairs(pairs)
    except ValueError as error:
        raise _WrongShapeError(str(error)) from error


def _i64(value: object) -> int:
    number = _int(value, 0)
    if not -(2**63) <= number < 2**63:
        raise _WrongShapeError("a number is too large")
    return number


def _int(value: object, depth: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > _INT_MAX:
        raise _WrongShapeError(f"{type(value).__name__} where a whole number should be")
    return value


def _float(value: object, depth: int) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _WrongShapeError(f"{type(value).__name__} where a number should be")
    if isinstance(value, int) and abs(value) > _INT_MAX:
        raise _WrongShapeError("a number is too large")
    return float(value)


def _bool(value: object, depth: int) -> bool:
    if not isinstance(value, bool):
        raise _WrongShapeError(f"{type(value).__name__} where true or false should be")
    return value


def _str(value: object, depth: int) -> str:
    if not isinstance(value, str):
        raise _WrongShapeError(f"{type(value).__name__} where text should be")
    return value


def _bytes(value: object, depth: int) -> bytes:
    try:
        return bytes.fromhex(_str(value, depth))
    except ValueError as error:
        raise _WrongShapeError("text that is not hexadecimal") from error


def _option(value: object, depth: int) -> object:
    """Take an option of a table: plain values and mappings of them, to a bounded depth."""
    if depth > _DEPTH_MAX:
        raise _WrongShapeError("it is nested too deeply")
    if isinstance(value, dict):
        return {str(key): _option(one, depth + 1) for key, one in value.items()}
    if isinstance(value, list):
        return tuple(_option(one, depth + 1) for one in value)
    return value


_SIMPLE: Final[dict[Any, Reader]] = {
    int: _int,
    float: _float,
    bool: _bool,
    str: _str,
    bytes: _bytes,
    object: _option,
}
