"""Tables from the output of ``DESCRIBE TABLE``, ``KEYSPACE`` or ``SCHEMA``.

Rules of this file: text of strangers, read token by token in one pass; what is not a CREATE TABLE
is passed over; a CREATE TABLE that cannot be understood is an error that names its line, never a
guess.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from treering.doctor.facts import ColumnFacts, SchemaFacts
from treering.errors import UsageError

TEXT_MAX: Final = 16 * 1_048_576
"""The most characters that are read."""

_TOKEN = re.compile(
    r"""
    (?P<blank>\s+|--[^\n]*|//[^\n]*|/\*.*?\*/)
  | (?P<string>'(?:[^']|'')*'|\$\$.*?\$\$)
  | (?P<quoted>"(?:[^"]|"")+")
  | (?P<uuid>[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12})
  | (?P<number>-?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)
  | (?P<word>\w+)
  | (?P<mark>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_NESTING_MAX: Final = 32


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int

    @property
    def word(self) -> str:
        """The text of a word in capitals; empty for what is none."""
        return self.text.upper() if self.kind == "word" else ""

    @property
    def name(self) -> str | None:
        """The identifier that this is, as the server keeps it; None for what is none."""
        match self.kind:
            case "word":
                return self.text.lower()
            case "quoted":
                return self.text[1:-1].replace('""', '"')
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedTable:
    """A table as ``DESCRIBE`` prints it; the keyspace is empty where it does not say."""

    keyspace: str
    table: str
    schema: SchemaFacts


def parse_describe(text: str, *, path: str) -> tuple[DescribedTable, ...]:
    """Return every table that a text creates, in its order.

    Args:
        text: What cqlsh printed, or DDL by hand.
        path: Where it came from, for errors.

    Raises:
        UsageError: No CREATE TABLE in it, one that cannot be understood, or too long a text.
    """
    if len(text) > TEXT_MAX:
        raise UsageError(
            f"{path} has {len(text):,} characters; {TEXT_MAX:,} are read",
            hint="give the output of DESCRIBE TABLE",
        )
    reader = _Reader(text, path)
    tables = []
    while not reader.is_at_end:
        if reader.takes("CREATE", "TABLE"):
            tables.append(_table(reader))
        elif reader.takes("ALTER", "TABLE"):
            _alter(reader, tables)
        else:
            reader.skip()
    if not tables:
        raise UsageError(
            f"{path} has no CREATE TABLE",
            hint="give the output of cqlsh -e 'DESCRIBE TABLE keyspace.table'",
        )
    return tuple(tables)


class _Reader:
    """Tokens, one after another, with their place for errors."""

    def __init__(self, text: str, path: str) -> None:
        self._text = text
        self._path = path
        self._tokens = [
            _Token(match.lastgroup or "mark", match[0], match.start())
            for match in _TOKEN.finditer(text)
            if match.lastgroup != "blank"
        ]
        self._tokens.append(_Token("end", "", len(text)))
        self._place = 0

    @property
    def is_at_end(self) -> bool:
        return self._tokens[self._place].kind == "end"

    @property
    def next(self) -> _Token:
        return self._tokens[self._place]

    def skip(self) -> _Token:
        token = self._tokens[self._place]
        if token.kind != "end":
            self._place += 1
        return token

    def takes(self, *words: str) -> bool:
        """Go past these words or marks where all of them come next."""
        ahead = self._tokens[self._place : self._place + len(words)]
        if [token.word or token.text for token in ahead] != list(words):
            return False
        self._place += len(words)
        return True

    def expect(self, *words: str) -> None:
        if not self.takes(*words):
            raise self.wrong(f"{' '.join(words)} should come")

    def name(self) -> str:
        name = self.next.name
        if name is None:
            raise self.wrong("a name should come")
        self.skip()
        return name

    def wrong(self, what: str) -> UsageError:
        line = self._text.count("\n", 0, self.next.at) + 1
        found = self.next.text[:20] or "the end"
        return UsageError(
            f"{self._path}, line {line}: {what}, not {found!r}",
            hint="give the output of cqlsh -e 'DESCRIBE TABLE keyspace.table' as it was printed",
        )


def _table(reader: _Reader) -> DescribedTable:
    reader.takes("IF", "NOT", "EXISTS")
    keyspace, table = "", reader.name()
    if reader.takes("."):
        keyspace, table = table, reader.name()
    reader.expect("(")
    columns: dict[str, str] = {}
    partition_key: list[str] = []
    clustering: list[str] = []
    while True:
        if reader.takes("PRIMARY", "KEY"):
            partition_key, clustering = _primary_key(reader)
        else:
            name = reader.name()
            columns[name] = _type(reader)
            if _column_options(reader):
                partition_key = [name]
        if not reader.takes(","):
            break
    reader.expect(")")
    options, descending = _options(reader)
    table_id = str(options.pop("id", "")).replace("-", "").lower()
    unknown = [name for name in (*partition_key, *clustering) if name not in columns]
    if unknown or not partition_key:
        raise reader.wrong(f"the key of {table} names columns that it has")
    in_key = {*partition_key, *clustering}
    schema = SchemaFacts(
        table_id=table_id,
        partition_key=tuple(ColumnFacts(name=name, type=columns[name]) for name in partition_key),
        clustering=tuple(
            ColumnFacts(name=name, type=columns[name], is_descending=name in descending)
            for name in clustering
        ),
        columns=tuple(
            ColumnFacts(name=name, type=kind)
            for name, kind in columns.items()
            if name not in in_key
        ),
        options=options,
    )
    return DescribedTable(keyspace=keyspace, table=table, schema=schema)


def _alter(reader: _Reader, tables: list[DescribedTable]) -> None:
    """Take a column out of a table that was created above, or one in.

    A snapshot's schema creates a table with the columns that it had and drops them, or adds again
    what was dropped once; whatever else is altered is passed over.
    """
    keyspace, table = "", reader.skip().name
    if reader.takes("."):
        keyspace, table = table or "", reader.skip().name
    is_dropped = reader.takes("DROP")
    if not is_dropped and not reader.takes("ADD"):
        return
    name = reader.skip().name
    if name is None:
        return
    added = () if is_dropped else (ColumnFacts(name=name, type=_type(reader)),)
    for place, one in enumerate(tables):
        if (one.keyspace, one.table) == (keyspace, table):
            kept = tuple(column for column in one.schema.columns if column.name != name)
            schema = dataclasses.replace(one.schema, columns=(*kept, *added))
            tables[place] = dataclasses.replace(one, schema=schema)


def _primary_key(reader: _Reader) -> tuple[list[str], list[str]]:
    reader.expect("(")
    partition: list[str] = []
    if reader.takes("("):
        partition.append(reader.name())
        while reader.takes(","):
            partition.append(reader.name())
        reader.expect(")")
    else:
        partition.append(reader.name())
    clustering = []
    while reader.takes(","):
        clustering.append(reader.name())
    reader.expect(")")
    return partition, clustering


def _type(reader: _Reader, depth: int = 0) -> str:
    if depth > _NESTING_MAX:
        raise reader.wrong("a type should end")
    token = reader.next
    if token.kind == "string":
        reader.skip()
        return token.text[1:-1]
    if token.kind == "number":
        reader.skip()
        return token.text  # The length of a vector.
    name = reader.name()
    if reader.takes("."):
        name = f"{name}.{reader.name()}"
    if not reader.takes("<"):
        return name
    inner = [_type(reader, depth + 1)]
    while reader.takes(","):
        inner.append(_type(reader, depth + 1))
    reader.expect(">")
    return f"{name}<{', '.join(inner)}>"


def _column_options(reader: _Reader) -> bool:
    """Go past what follows a column's type; return whether it is the whole primary key."""
    is_key = False
    depth = 0
    while depth or not (reader.next.kind == "mark" and reader.next.text in ",)"):
        if reader.is_at_end:
            raise reader.wrong("a column should end")
        if not depth and reader.takes("PRIMARY", "KEY"):
            is_key = True
            continue
        text = reader.skip().text
        depth += (text == "(") - (text == ")")
    return is_key


def _options(reader: _Reader) -> tuple[dict[str, object], set[str]]:
    options: dict[str, object] = {}
    descending: set[str] = set()
    if reader.takes("WITH"):
        while True:
            if reader.takes("CLUSTERING", "ORDER", "BY"):
                descending = _clustering_order(reader)
            elif not reader.takes("COMPACT", "STORAGE"):
                name = reader.name()
                reader.expect("=")
                options[name] = _value(reader)
            if not reader.takes("AND"):
                break
    if not reader.takes(";") and not reader.is_at_end:
        raise reader.wrong("the statement should end")
    return options, descending


def _clustering_order(reader: _Reader) -> set[str]:
    descending = set()
    reader.expect("(")
    while True:
        name = reader.name()
        if reader.takes("DESC"):
            descending.add(name)
        else:
            reader.takes("ASC")
        if not reader.takes(","):
            break
    reader.expect(")")
    return descending


def _value(reader: _Reader) -> object:
    if reader.takes("{"):
        return _map(reader)
    token = reader.skip()
    match token.kind:
        case "string":
            return _string(token.text)
        case "number":
            return _number(token.text)
        case "uuid":
            return token.text
        case "word" if token.word in ("TRUE", "FALSE"):
            return token.word == "TRUE"
        case "word":
            return token.text
    raise reader.wrong("a value should come")


def _map(reader: _Reader) -> Mapping[str, str]:
    values: dict[str, str] = {}
    while not reader.takes("}"):
        key = str(_value(reader))
        reader.expect(":")
        value = _value(reader)
        values[key] = str(value).lower() if isinstance(value, bool) else str(value)
        if not reader.takes(",") and reader.next.text != "}":
            raise reader.wrong("a comma or } should come")
    return values


def _string(text: str) -> str:
    return text[2:-2] if text.startswith("$$") else text[1:-1].replace("''", "'")


def _number(text: str) -> int | float:
    return int(text) if text.lstrip("-").isdecimal() and len(text) < 20 else float(text)
