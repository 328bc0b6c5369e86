"""What a table was when a snapshot of it was taken: the schema.cql in the snapshot's folder.

Rules of this file: Cassandra writes the whole schema of the table into each snapshot, which is what
files alone do not say; it is as old as the snapshot, so whoever takes it says from when it is; one
that is of another table, or cannot be understood, is never taken.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from treering.doctor.describe import TEXT_MAX, parse_describe
from treering.doctor.facts import SchemaFacts, SchemaSource
from treering.errors import TreeringError
from treering.sstable.names import MANIFEST_FILE, SCHEMA_FILE
from treering.sstable_files import open_folder, read_bounded

_MANIFEST_BYTES_MAX: Final = 4 * 1_048_576
_TRIED_MAX: Final = 16
"""So many that cannot be understood are looked at, the newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSchema:
    """What was found.

    Attributes:
        schema: Of the newest snapshot whose schema can be understood; None without one.
        problems: Newer ones that cannot, each path with the reason.
    """

    schema: SchemaFacts | None
    problems: tuple[tuple[str, str], ...] = ()


def schema_of_snapshots(
    folders: Iterable[str], *, keyspace: str, table: str, table_id: str
) -> SnapshotSchema:
    """Return the newest schema of a table that the folders of its snapshots hold.

    Mirrors ``ColumnFamilyStore.writeSnapshotSchema`` and ``SnapshotManifest``: Cassandra 3.11 to
    5.0 write ``schema.cql``; from 4.1 on ``manifest.json`` says when.

    Args:
        folders: Of snapshots; one without a schema is passed over.
        keyspace: The table's keyspace.
        table: Its name.
        table_id: Its id, 32 hexadecimal digits: a schema of another id is of a dropped table.

    Cost:
        Two small reads a snapshot, and one of a schema.
    """
    dated = [(at_s, folder) for folder in folders if (at_s := _taken_at_s(folder)) is not None]
    problems = []
    for at_s, folder in sorted(dated, reverse=True)[:_TRIED_MAX]:
        try:
            schema = _schema_in(folder, keyspace, table, table_id)
        except (TreeringError, OSError) as error:
            problems.append((os.path.join(folder, SCHEMA_FILE), str(error)))
            continue
        if schema is not None:
            source = SchemaSource(snapshot=os.path.basename(folder), at_s=at_s)
            return SnapshotSchema(
                schema=dataclasses.replace(schema, source=source), problems=tuple(problems)
            )
    return SnapshotSchema(schema=None, problems=tuple(problems))


def _taken_at_s(folder: str) -> int | None:
    """Return when a snapshot was taken; None where its folder has no schema.

    A copy of a folder may have new times, so what the manifest says goes before.
    """
    try:
        changed_s = int(os.lstat(os.path.join(folder, SCHEMA_FILE)).st_mtime)
    except OSError:
        return None
    try:
        with open_folder(folder) as opened:
            text = read_bounded(opened, MANIFEST_FILE, bytes_max=_MANIFEST_BYTES_MAX)
        made = dt.datetime.fromisoformat(json.loads(text)["created_at"])
    except (OSError, TreeringError, ValueError, TypeError, LookupError, RecursionError):
        return changed_s
    return changed_s if made.tzinfo is None else int(made.timestamp())


def _schema_in(folder: str, keyspace: str, table: str, table_id: str) -> SchemaFacts | None:
    """Return the schema of a table in a folder; None where it is of another one."""
    with open_folder(folder) as opened:
        data = read_bounded(opened, SCHEMA_FILE, bytes_max=TEXT_MAX)
    for one in parse_describe(data.decode("utf-8", "replace"), path=SCHEMA_FILE):
        is_same = (one.keyspace, one.table) == (keyspace, table)
        if is_same and one.schema.table_id in ("", table_id):
            return dataclasses.replace(one.schema, table_id=table_id)
    return None
