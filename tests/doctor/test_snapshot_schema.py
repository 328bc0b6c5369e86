"""The schema.cql of snapshots: what files do not say, from when it is, and whose it is."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.doctor.made import NOW_S
from tests.sstable.record import recording
from treering.cli.main import app
from treering.core.times import render_instant
from treering.doctor.bundle import write_bundle
from treering.doctor.collect import Wanted, collect_targets
from treering.doctor.describe import parse_describe
from treering.doctor.facts import ClusterFacts, SchemaSource, TableFacts
from treering.doctor.join import join_tables

TABLE = (
    "CREATE TABLE IF NOT EXISTS samples.ttl (series text, bucket text, ts timestamp, "
    "value double, note text, PRIMARY KEY ((series, bucket), ts))\n    WITH ID = {id}\n"
    "    AND CLUSTERING ORDER BY (ts DESC)\n    AND default_time_to_live = 31536000\n"
    "    AND gc_grace_seconds = {grace}\n    AND read_repair = 'NONE'\n    AND compaction = "
    "{{'class': 'org.apache.cassandra.db.compaction.TimeWindowCompactionStrategy', "
    "'compaction_window_unit': 'DAYS', 'compaction_window_size': '12'}};\n"
)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Yield the folder of a table with files of a real node."""
    with recording("nb") as (root, _):
        table = next((root / "samples").glob("ttl-*"))
        yield Path(shutil.copytree(table, tmp_path / "samples" / table.name))


def snapshot(folder: Path, name: str, at_s: int, *, grace: int = 7, text: str = "") -> Path:
    """Add a snapshot as Cassandra 3.11 and 4.0 make it, whose time is that of its files."""
    made = folder / "snapshots" / name
    made.mkdir(parents=True)
    digits = folder.name[-32:]
    parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
    schema = made / "schema.cql"
    schema.write_text(text or TABLE.format(id="-".join(parts), grace=grace))
    os.utime(schema, (at_s, at_s))
    return made


def found_in(*targets: Path, **wanted: Any) -> TableFacts:
    options: dict[str, Any] = {"now_s": NOW_S, **wanted}
    live: Any = None
    (table,) = collect_targets([str(one) for one in targets], Wanted(**options), live=live).tables
    return table


def grace_and_source(table: TableFacts) -> tuple[int | None, SchemaSource | None]:
    assert table.schema is not None
    return table.schema.gc_grace_s, table.schema.source


def test_the_newest_snapshot_tells_the_options_and_the_names_of_the_key(folder: Path) -> None:
    snapshot(folder, "new", NOW_S - 60, grace=8)
    snapshot(folder, "old", NOW_S - 600)
    (folder / "snapshots" / "bare").mkdir()
    table = found_in(folder)
    assert grace_and_source(table) == (8, SchemaSource(snapshot="new", at_s=NOW_S - 60))
    assert table.schema is not None
    assert [column.name for column in table.schema.partition_key] == ["series", "bucket"]
    assert table.schema.table_id == folder.name[-32:]
    # Single files are not their folder, and say nothing of its snapshots.
    (file,) = folder.glob("*-Data.db")
    assert grace_and_source(found_in(file)) == (None, None)


def test_of_copies_the_manifest_says_when_they_were_taken(folder: Path) -> None:
    copied = snapshot(folder, "copied", NOW_S - 5)
    manifest = {"files": [], "created_at": "2026-11-30T19:37:18.364Z"}
    (copied / "manifest.json").write_text(json.dumps(manifest))
    made_s = 1_796_067_438
    assert grace_and_source(found_in(folder)) == (7, SchemaSource(snapshot="copied", at_s=made_s))
    snapshot(folder, "later", made_s + 1, grace=9)
    assert grace_and_source(found_in(folder))[0] == 9


@pytest.mark.parametrize(
    "manifest", ["", "[]", "[" * 100_000, '{"created_at": 5}', '{"created_at": "2026-11-30"}']
)
def test_a_manifest_that_says_nothing_leaves_the_time_of_the_file(
    manifest: str, folder: Path
) -> None:
    (snapshot(folder, "s", NOW_S - 5) / "manifest.json").write_text(manifest)
    assert grace_and_source(found_in(folder)) == (7, SchemaSource(snapshot="s", at_s=NOW_S - 5))


def test_a_snapshot_that_is_checked_itself_has_its_schema_beside(folder: Path) -> None:
    made = snapshot(folder, "s", NOW_S - 5)
    for file in folder.glob("nb-*"):
        shutil.copy2(file, made / file.name)
    assert grace_and_source(found_in(made)) == (7, SchemaSource(snapshot="s", at_s=NOW_S - 5))


def test_a_schema_of_another_table_or_of_a_dropped_one_is_not_taken(folder: Path) -> None:
    other = TABLE.format(id=f"{'0' * 8}-0000-0000-0000-{'0' * 12}", grace=5)
    snapshot(folder, "dropped", NOW_S, text=other)
    unnamed = TABLE.replace("WITH ID = {id}\n    AND ", "WITH ").format(grace=6)
    snapshot(folder, "elsewhere", NOW_S, text=unnamed.replace("samples.ttl", "samples.plain"))
    assert grace_and_source(found_in(folder)) == (None, None)
    # A schema by hand, without an id, is the table's by its name.
    snapshot(folder, "ours", NOW_S, text=unnamed)
    assert grace_and_source(found_in(folder))[0] == 6


@pytest.mark.parametrize("odd", ["text", "link", "fifo", "long", "folder"])
def test_a_schema_that_cannot_be_understood_is_named_and_an_older_one_is_taken(
    odd: str, folder: Path, tmp_path: Path
) -> None:
    snapshot(folder, "old", 1_000)
    schema = snapshot(folder, "odd", NOW_S) / "schema.cql"
    schema.unlink()
    match odd:
        case "text":
            schema.write_text("CREATE TABLE samples.ttl (a int")
        case "link":
            (tmp_path / "x").write_text(TABLE.format(id="0", grace=5))
            schema.symlink_to(tmp_path / "x")
        case "fifo":
            os.mkfifo(schema)
        case "long":
            schema.touch()
            os.truncate(schema, 2**40)
        case "folder":
            schema.mkdir()
    table = found_in(folder)
    assert grace_and_source(table) == (7, SchemaSource(snapshot="old", at_s=1_000))
    (missing,) = [one for one in table.missing if "schema.cql" in one.what]
    assert missing.what == str(schema)
    assert missing.why


def test_a_table_without_files_is_not_taken_for_living_because_of_its_snapshot(
    folder: Path,
) -> None:
    snapshot(folder, "dropped-1-ttl", NOW_S)
    for file in folder.glob("nb-*"):
        file.unlink()
    assert found_in(folder).schema is None


def test_what_is_told_now_goes_before_a_snapshot_and_a_newer_one_before_an_older(
    folder: Path, tmp_path: Path
) -> None:
    snapshot(folder, "s", NOW_S)
    (one,) = parse_describe(
        TABLE.format(id=folder.name[-32:], grace=1).replace(
            "WITH ID = " + folder.name[-32:] + "\n    AND", "WITH"
        ),
        path="s.cql",
    )
    assert grace_and_source(found_in(folder, described=(one,))) == (1, None)
    kept = found_in(folder)
    assert kept.schema is not None
    told = dataclasses.replace(kept, schema=dataclasses.replace(kept.schema, source=None))
    old = dataclasses.replace(
        kept,
        schema=dataclasses.replace(kept.schema, source=SchemaSource(snapshot="old", at_s=5)),
    )

    def joined(*tables: TableFacts) -> SchemaSource | None:
        found = [ClusterFacts(target="t", tables=(table,)) for table in tables]
        return grace_and_source(join_tables(found)[0])[1]

    assert joined(kept, told) is None
    assert joined(old, kept) == SchemaSource(snapshot="s", at_s=NOW_S)
    # What the caller says is of now as well, option by option.
    given = found_in(folder, options={"gc_grace_seconds": 3})
    assert given.schema is not None
    assert (given.schema.gc_grace_s, given.schema.default_ttl_s) == (3, 31_536_000)


def test_a_folder_alone_is_judged_with_the_options_of_its_snapshot_and_says_so(
    folder: Path, tmp_path: Path
) -> None:
    def check(target: Path, *options: str, exit_code: int) -> str:
        result = CliRunner().invoke(app, ["doctor", "check", str(target), *options])
        assert result.exit_code == exit_code, f"{result.stdout}\n{result.stderr}"
        return result.stdout

    assert "schema.cql" not in check(folder, exit_code=3)
    at_s = NOW_S - 5
    snapshot(folder, "daily", at_s, grace=864_000)
    page = tmp_path / "page.html"
    text = " ".join(check(folder, "--html", str(page), exit_code=0).split())
    assert text.startswith("samples.ttl: healthy")
    said = f"options as of {render_instant(at_s)}, by schema.cql of the snapshot daily"
    assert said in text
    assert said in page.read_text()
    (one,) = json.loads(check(folder, "--json", exit_code=0))["tables"]
    assert one["schema_from"] == {"snapshot": "daily", "at_s": at_s}
    # It goes into a bundle as well, and the bundle's check says the same.
    out = tmp_path / "b.tar.gz"
    facts = ClusterFacts(target="t", tables=(found_in(folder),))
    write_bundle(out, facts, made_at_s=NOW_S, with_keys=True)
    assert said in " ".join(check(out, exit_code=0).split())
    disk = ["doctor", "watch", str(folder), "--store", str(tmp_path / "disk"), "--once"]
    assert f"with its {said}" in " ".join(CliRunner().invoke(app, disk).stdout.split())
