"""What a table's files say about its schema: types without names of keys, and no options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from treering.doctor.facts import ColumnFacts, SchemaFacts
from treering.sstable.facts import SSTableFacts

_DEPTH_MAX: Final = 16
_SIMPLE: Final = {
    "AsciiType": "ascii",
    "BooleanType": "boolean",
    "ByteType": "tinyint",
    "BytesType": "blob",
    "CounterColumnType": "counter",
    "DateType": "timestamp",
    "DecimalType": "decimal",
    "DoubleType": "double",
    "DurationType": "duration",
    "FloatType": "float",
    "InetAddressType": "inet",
    "Int32Type": "int",
    "IntegerType": "varint",
    "LexicalUUIDType": "uuid",
    "LongType": "bigint",
    "ShortType": "smallint",
    "SimpleDateType": "date",
    "TimeType": "time",
    "TimeUUIDType": "timeuuid",
    "TimestampType": "timestamp",
    "UTF8Type": "text",
    "UUIDType": "uuid",
}
_COLLECTIONS: Final = {
    "ListType": "list",
    "SetType": "set",
    "MapType": "map",
    "TupleType": "tuple",
    "VectorType": "vector",
}


def cql_type_of(name: str, *, depth: int = 0) -> tuple[str, bool]:
    """Return the CQL type of a class of Cassandra, and whether it runs backwards.

    A type that is not known keeps the name of its class, as CQL writes custom types.

    >>> cql_type_of("org.apache.cassandra.db.marshal.ReversedType("
    ...             "org.apache.cassandra.db.marshal.TimestampType)")
    ('timestamp', True)
    """
    outer, bracket, rest = name.strip().partition("(")
    short = outer.rpartition(".")[2]
    if depth > _DEPTH_MAX or not bracket:
        return _SIMPLE.get(short, name.strip()), False
    inner = rest.removesuffix(")")
    if short == "ReversedType":
        return cql_type_of(inner, depth=depth + 1)[0], True
    if short == "FrozenType":
        return f"frozen<{cql_type_of(inner, depth=depth + 1)[0]}>", False
    if short in _COLLECTIONS:
        parts = [cql_type_of(part, depth=depth + 1)[0] for part in parts_of(inner)]
        return f"{_COLLECTIONS[short]}<{', '.join(parts)}>", False
    return name.strip(), False


def parts_of(text: str) -> list[str]:
    """Return what stands between the commas of the outermost level."""
    parts, level, start = [], 0, 0
    for place, char in enumerate(text):
        level += (char == "(") - (char == ")")
        if char == "," and level == 0:
            parts.append(text[start:place])
            start = place + 1
    return [*parts, text[start:]]


def schema_of_files(files: Sequence[SSTableFacts], table_id: str) -> SchemaFacts | None:
    """Return what the headers of files say; None without files.

    The newest file's key counts; columns are those of all files, since a file lists only the
    columns that it has.
    """
    if not files:
        return None
    newest = max(files, key=lambda file: (file.mtime_s or 0, file.path))
    outer, bracket, rest = newest.key_type.partition("(")
    is_composite = outer.rpartition(".")[2] == "CompositeType" and bool(bracket)
    key = parts_of(rest.removesuffix(")")) if is_composite else [newest.key_type]
    columns = {
        name: cql_type_of(kind)[0]
        for file in files
        for name, kind in (*file.static_columns, *file.regular_columns)
    }
    return SchemaFacts(
        table_id=table_id,
        partition_key=tuple(ColumnFacts(name="", type=cql_type_of(one)[0]) for one in key),
        clustering=tuple(_clustering(kind) for kind in newest.clustering_types),
        columns=tuple(ColumnFacts(name=name, type=kind) for name, kind in sorted(columns.items())),
        options=None,
    )


def _clustering(kind: str) -> ColumnFacts:
    name, is_descending = cql_type_of(kind)
    return ColumnFacts(name="", type=name, is_descending=is_descending)
