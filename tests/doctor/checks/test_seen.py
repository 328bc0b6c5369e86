"""A wrong ok is the worst that a doctor can say: what was not seen never makes a check ok."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.doctor.checks.tables import days, node, schema, sstable, table
from tests.doctor.checks.test_healthy import HEALTHY
from tests.doctor.checks.test_sick import SICK
from treering.doctor.checks import check_table
from treering.doctor.facts import ColumnFacts, NodeFacts, SchemaFacts, TableFacts
from treering.doctor.finding import CHECK_IDS, CheckId, Status
from treering.doctor.thresholds import Thresholds
from treering.sstable.facts import FileProblem, SSTableFacts

LIMITS: Final = Thresholds()
UNREAD: Final = FileProblem(
    path="/data/plant/readings-1/nb-9-big-Data.db",
    id="9",
    message="nb-9-big-Statistics.db cannot be read: Permission denied",
    kind="unreadable",
)
Loss = Callable[[TableFacts], TableFacts]


def of_schema(change: Callable[[SchemaFacts], SchemaFacts | None]) -> Loss:
    def lose(facts: TableFacts) -> TableFacts:
        return facts if facts.schema is None else replace(facts, schema=change(facts.schema))

    return lose


def of_nodes(change: Callable[[NodeFacts], NodeFacts]) -> Loss:
    return lambda facts: replace(facts, nodes=tuple(map(change, facts.nodes)))


def of_files(change: Callable[[SSTableFacts], SSTableFacts]) -> Loss:
    return of_nodes(
        lambda one: replace(one, files=None if one.files is None else tuple(map(change, one.files)))
    )


def without_option(name: str) -> Loss:
    return of_schema(
        lambda found: replace(
            found, options={k: v for k, v in (found.options or {}).items() if k != name}
        )
    )


def nameless(column: ColumnFacts) -> ColumnFacts:
    return replace(column, name="")


LOSSES: Final[dict[str, Loss]] = {
    "no schema": of_schema(lambda found: None),
    "the schema of the files alone": of_schema(
        lambda found: replace(
            found,
            options=None,
            partition_key=tuple(map(nameless, found.partition_key)),
            clustering=tuple(map(nameless, found.clustering)),
        )
    ),
    "no options": of_schema(lambda found: replace(found, options=None)),
    "no grace": without_option("gc_grace_seconds"),
    "no default TTL": without_option("default_time_to_live"),
    "no compaction options": without_option("compaction"),
    "no keys": of_files(lambda file: replace(file, first_key=None, last_key=None)),
    "no keys and no tokens": of_files(
        lambda file: replace(file, first_key=None, last_key=None, first_token=None, last_token=None)
    ),
    "no sizes": of_files(lambda file: replace(file, data_bytes=None)),
    "no files": of_nodes(lambda one: replace(one, files=None)),
    "one file of each node that cannot be read": of_nodes(
        lambda one: replace(
            one,
            files=None if one.files is None else one.files[1:],
            problems=(*one.problems, UNREAD) if one.files else one.problems,
        )
    ),
    "single files alone": of_nodes(
        lambda one: replace(
            one,
            files=None if one.files is None else one.files[:1],
            is_partial=bool(one.files),
        )
    ),
    "another node that says nothing": lambda facts: replace(
        facts, nodes=(*facts.nodes, NodeFacts(node="10.0.0.9", collected_at_s=0))
    ),
}
TABLES: Final = {**HEALTHY, **{name: facts for name, (facts, _) in SICK.items()}}


def statuses(facts: TableFacts) -> dict[CheckId, Status]:
    return {check.check: check.status for check in check_table(facts, LIMITS).checks}


def assert_no_new_ok(facts: TableFacts, less: TableFacts) -> None:
    before, after = statuses(facts), statuses(less)
    # What nodes measured of reads answers for the files of windows.
    counted = any(one.histograms is not None for one in facts.nodes)
    for check in CHECK_IDS if not counted else ("partitions", "drops", "disk"):
        if before[check] not in ("ok", "notice"):
            assert after[check] != "ok", (check, before[check])


@pytest.mark.parametrize("loss", LOSSES)
def test_without_one_fact_no_check_is_ok_that_was_not(loss: str) -> None:
    for facts in TABLES.values():
        assert_no_new_ok(facts, LOSSES[loss](facts))


@given(st.sampled_from(list(TABLES)), st.lists(st.sampled_from(list(LOSSES)), max_size=3))
def test_taking_facts_away_never_makes_a_check_ok(name: str, losses: list[str]) -> None:
    less = TABLES[name]
    for loss in losses:
        less = LOSSES[loss](less)
    assert_no_new_ok(TABLES[name], less)


@pytest.mark.parametrize("name", [name for name in HEALTHY if HEALTHY[name].nodes[0].files])
def test_a_file_that_cannot_be_read_leaves_all_checks_unknown(name: str) -> None:
    facts = LOSSES["one file of each node that cannot be read"](HEALTHY[name])
    assert statuses(facts) == dict.fromkeys(CHECK_IDS, "unknown")
    assert any("Permission denied" in line for line in check_table(facts, LIMITS).unseen)


def test_the_only_file_unread_is_no_table_without_partitions() -> None:
    facts = table(schema(), node((), problems=(UNREAD,)))
    report = check_table(facts, LIMITS)
    assert {check.status for check in report.checks} == {"unknown"}
    assert "no partition on disk yet" not in report.checks[0].summary
    assert "1 file could not be read" in report.checks[0].unknown


def test_a_note_that_lies_in_the_folder_hides_nothing() -> None:
    note = FileProblem(path="/data/plant/readings-1/n.txt", id="", message="n", kind="foreign")
    report = check_table(table(schema(), node(days(), problems=(note,))), LIMITS)
    assert report.is_healthy is True
    assert report.unseen == ()


def test_snapshots_that_cannot_be_listed_leave_disk_unknown_and_the_rest_known() -> None:
    path = f"/data/plant/readings-{'1' * 32}/snapshots"
    refused = FileProblem(path=path, id="", message="cannot be listed", kind="unreadable")
    facts = table(schema(), node(days(), problems=(refused,)))
    assert statuses(facts) == {
        "partitions": "ok",
        "sstables": "ok",
        "drops": "ok",
        "disk": "unknown",
    }


def test_a_single_file_does_not_tell_for_its_table() -> None:
    facts = table(schema(), node([sstable()], is_partial=True))
    (drops,) = (one for one in check_table(facts, LIMITS).checks if one.check == "drops")
    assert drops.unknown == (
        "1 single file was looked at, and the rest may keep others on disk: give the table's folder"
    )


def test_the_folder_of_a_table_that_nobody_knows_is_no_healthy_table() -> None:
    facts = replace(table(None, node(())), schema=None)
    assert {check.status for check in check_table(facts, LIMITS).checks} == {"unknown"}


def test_a_key_that_nobody_can_read_leaves_partitions_unknown_with_what_would_help() -> None:
    found = LOSSES["the schema of the files alone"](table(None, node(days(2))))
    partitions = check_table(found, LIMITS).checks[0]
    assert partitions.status == "unknown"
    assert "whether partitions end cannot be told" in partitions.unknown
    assert "--schema" in partitions.unknown
