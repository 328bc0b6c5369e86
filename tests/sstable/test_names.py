"""What names of files and folders say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.errors import FormatError
from treering.sstable.names import (
    Descriptor,
    Place,
    is_transaction_log,
    parse_file_name,
    parse_toc,
    place_of,
    stem_of_prefix,
    table_of_folder,
)
from treering.sstable.version import version_of

HEX = "f1abadc0ecd711f1a8c2cd329a25054d"
UUID_ID = "3fw2_0tj4_46w3k2cpidnirvjy7k"


@pytest.mark.parametrize(
    ("name", "version", "id", "format", "component"),
    [
        ("nb-1-big-Data.db", "nb", "1", "big", "Data.db"),
        (f"nb-{UUID_ID}-big-TOC.txt", "nb", UUID_ID, "big", "TOC.txt"),
        (f"da-{UUID_ID}-bti-Partitions.db", "da", UUID_ID, "bti", "Partitions.db"),
        ("me-42-big-Digest.crc32", "me", "42", "big", "Digest.crc32"),
        ("nb-3-big-SAI+aa+idx+Meta.db", "nb", "3", "big", "SAI+aa+idx+Meta.db"),
        ("ks-events-ka-12-Statistics.db", "ka", "12", "big", "Statistics.db"),
    ],
)
def test_a_component_says_its_set(
    name: str, version: str, id: str, format: str, component: str
) -> None:
    wanted = Descriptor(version=version, id=id, format=format)
    assert parse_file_name(name) == (wanted, component)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "notes.txt",
        "nb-1-big",
        "nb--big-Data.db",
        "nb-x-big-Data.db",
        "manifest.json",
        "a" * 300,
    ],
)
def test_other_names_are_no_components(name: str) -> None:
    assert parse_file_name(name) is None


@given(st.text(max_size=300))
def test_any_name_is_answered(name: str) -> None:
    parse_file_name(name)
    is_transaction_log(name)
    table_of_folder(name)
    stem_of_prefix(name)
    place_of([name, name])
    parse_toc(name)


def test_a_stem_begins_every_name() -> None:
    parsed = parse_file_name(f"oa-{UUID_ID}-big-Data.db")
    assert parsed is not None
    assert parsed[0].stem == f"oa-{UUID_ID}-big"


@pytest.mark.parametrize(
    ("folders", "place"),
    [
        ("var/data/ks/t-HEX", Place(keyspace="ks", table="t", table_id=HEX)),
        ("t-HEX", Place(keyspace="", table="t", table_id=HEX)),
        ("ks/t-HEX/.by_value", Place(keyspace="ks", table="t.by_value", table_id=HEX)),
        (
            "ks/t-HEX/snapshots/s1",
            Place(keyspace="ks", table="t", table_id=HEX, kind="snapshot", snapshot="s1"),
        ),
        (
            "ks/t-HEX/snapshots/s1/.by_value",
            Place(keyspace="ks", table="t.by_value", table_id=HEX, kind="snapshot", snapshot="s1"),
        ),
        ("ks/t-HEX/backups", Place(keyspace="ks", table="t", table_id=HEX, kind="backup")),
        ("some/copy", Place(keyspace="", table="copy", table_id="")),
        ("", Place(keyspace="", table="", table_id="")),
    ],
)
def test_a_path_says_where_its_files_belong(folders: str, place: Place) -> None:
    parts = [part.replace("HEX", HEX) for part in folders.split("/") if part]
    assert place_of(parts) == place


def test_a_table_of_a_node_has_its_id_in_the_name() -> None:
    assert table_of_folder(f"readings-{HEX}") == ("readings", HEX)
    assert table_of_folder(f"readings-{HEX.upper()}") is None
    assert table_of_folder("readings") is None


@pytest.mark.parametrize(
    ("name", "is_log"),
    [
        ("nb_txn_flush_f1abadc0-ecd7-11f1-a8c2-cd329a25054d.log", True),
        ("mc_txn_compaction_f1abadc0-ecd7-11f1-a8c2-cd329a25054d.log", True),
        ("big-nb_txn_unknown_compaction_type_f1abadc0-ecd7-11f1-a8c2-cd329a25054d.log", True),
        ("nb_txn_flush_.log", False),
        ("system.log", False),
    ],
)
def test_transaction_logs_are_known_by_name(name: str, is_log: bool) -> None:
    assert is_transaction_log(name) is is_log


@pytest.mark.parametrize("name", ["me", "na", "nb", "oa"])
def test_versions_of_3_11_to_5_are_read(name: str) -> None:
    assert version_of(name, "big").name == name
    with pytest.raises(FormatError, match="is unknown here"):
        version_of(name, "bti")


@pytest.mark.parametrize(
    ("name", "who"), [("md", "3.11.4"), ("ma", "Cassandra 3.0"), ("ka", "Cassandra 2.1")]
)
def test_older_versions_are_named_and_refused(name: str, who: str) -> None:
    with pytest.raises(FormatError, match=f"format {name} of .*{who}.* is older") as refused:
        version_of(name, "big")
    assert "upgradesstables" in refused.value.hint


@pytest.mark.parametrize(("name", "format"), [("pa", "big"), ("ob", "big"), ("bb", "bti")])
def test_unknown_versions_are_named_and_refused(name: str, format: str) -> None:
    with pytest.raises(FormatError, match=f"format {name}-{format} is unknown"):
        version_of(name, format)


def test_a_toc_lists_components() -> None:
    assert parse_toc("Data.db\r\nTOC.txt\n\n") == {"Data.db", "TOC.txt"}
