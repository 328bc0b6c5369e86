"""Check "drops": every cause is found, and only it; a healthy table yields nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.doctor.checks import test_healthy
from tests.doctor.checks.expiring import (
    DAY_S,
    FOLDER,
    GB,
    GRACE_S,
    HOUR_S,
    NOW_S,
    TTL_S,
    TWCS,
    drop_times,
    ids,
    only,
    schema,
    sstable,
    table,
    windows,
)
from treering.core.choices import appended_grace_s
from treering.core.ddl import render_comment
from treering.core.design import plan_design
from treering.core.schema import parse_columns
from treering.core.window import plan_window
from treering.core.workload import Workload
from treering.doctor.checks.disk import check_disk
from treering.doctor.checks.drops import check_drops, verdicts_of
from treering.doctor.facts import TableFacts
from treering.doctor.thresholds import Thresholds
from treering.sstable.facts import FileProblem, SSTableFacts

LIMITS = Thresholds()
UCS = {"class": "org.apache.cassandra.db.compaction.UnifiedCompactionStrategy"}
STCS = {"class": "org.apache.cassandra.db.compaction.SizeTieredCompactionStrategy"}
TODAY_S = NOW_S - NOW_S % DAY_S


def ours() -> TableFacts:
    """Return a table as treering makes it, with readings that came late."""
    load = Workload(rate_hz=1.0, columns=parse_columns("value:double"), retention_s=30 * DAY_S)
    design = plan_design(load, now_s=NOW_S)
    about = schema(comment=render_comment(design), gc_grace_seconds=design.gc_grace_s)
    files = windows(31)
    # Late readings carry what remains of their retention, and an ordinary write time.
    late = sstable(90, TODAY_S - 5 * DAY_S, TODAY_S - 5 * DAY_S + 99, ttl_s=DAY_S)
    return table([*files, late], about)


def jittery() -> TableFacts:
    """Return windows whose files share a few seconds of write time with their neighbours."""
    files = [
        replace(file, min_write_us=(file.min_write_us or 0) - 5_000_000) for file in windows(31)
    ]
    return table(files)


def rarely_flushed() -> TableFacts:
    """Return a slow table in narrow windows: each memtable spans many of them."""
    hourly = TWCS | {"compaction_window_unit": "HOURS"}
    return table(windows(30), schema(hourly))


HEALTHY: dict[str, Callable[[], TableFacts]] = {
    "rows written steadily": lambda: table(windows(31)),
    "a few seconds of overlap between windows": jittery,
    "a young table": lambda: table(windows(3)),
    "an empty table": lambda: table([]),
    "a table of ours": ours,
    "a slow table in narrow windows": rarely_flushed,
    "UCS without TTL": lambda: table(
        windows(9, ttl_s=0), schema(UCS, default_time_to_live=0, gc_grace_seconds=10 * DAY_S)
    ),
    "a repair that has just begun": lambda: table(
        [
            replace(file, repaired_at_ms=NOW_S * 1_000) if index > 1 else file
            for index, file in enumerate(windows(31))
        ]
    ),
    "hints of an hour in a file of today": lambda: table(
        [*windows(31)[1:], sstable(1, TODAY_S - HOUR_S, NOW_S)]
    ),
}


ELSEWHERE = test_healthy.HEALTHY
UNKNOWN = ["a table that only its files describe", "nothing but a name"]
OTHERS = [case for case in ELSEWHERE if case not in UNKNOWN]


@pytest.mark.parametrize("case", HEALTHY)
def test_a_healthy_table_yields_no_finding(case: str) -> None:
    facts = HEALTHY[case]()
    for check in (check_drops, check_disk):
        checked = check(facts, LIMITS)
        assert ids(checked) == []
        assert checked.status == "ok"
        assert checked.summary


@pytest.mark.parametrize("case", [*OTHERS, *UNKNOWN])
def test_what_other_checks_call_healthy_is_healthy_here(case: str) -> None:
    facts = ELSEWHERE[case]
    for check in (check_drops, check_disk):
        assert ids(check(facts, LIMITS)) == []
        assert check(facts, LIMITS).status == ("unknown" if case in UNKNOWN else "ok")


@given(
    retention_s=st.integers(1_200, 400 * DAY_S),
    phase=st.floats(0, 1),
    overlap_s=st.integers(0, 30),
    is_known=st.booleans(),
)
def test_a_table_that_drops_its_windows_in_time_is_healthy_at_any_moment(
    retention_s: int, phase: float, overlap_s: int, is_known: bool
) -> None:
    window, grace_s = plan_window(retention_s), appended_grace_s(retention_s)
    length_s = window.length_s
    now_s = TODAY_S - TODAY_S % length_s + int(phase * (length_s - 1)) + 1
    files: list[SSTableFacts] = []
    start_s = now_s - now_s % length_s
    # From today back until a window whose last row has expired, with grace and a look for it.
    while start_s + length_s + retention_s + grace_s + 600 > now_s:
        last_s = min(start_s + length_s - 1, now_s)
        file = sstable(len(files), start_s - overlap_s, last_s, ttl_s=retention_s, mtime_s=last_s)
        files.append(file)
        start_s -= length_s
    about = schema(
        {
            "class": TWCS["class"],
            "compaction_window_unit": window.unit,
            "compaction_window_size": str(window.size),
        },
        default_time_to_live=retention_s,
        gc_grace_seconds=grace_s,
    )
    facts = table(files, about, collected_at_s=now_s, is_memtable_known=is_known)
    assert ids(check_drops(facts, LIMITS)) == []
    assert ids(check_disk(facts, LIMITS)) == []


def old_row(**given: Any) -> SSTableFacts:
    """Return the file of today with one old write time."""
    values = {"min_write_us": (TODAY_S - 25 * DAY_S) * 1_000_000}
    return sstable(1, TODAY_S, NOW_S, **(values | given))


def blocked_by_old(**options: Any) -> TableFacts:
    """Return windows that read repair or a hint keeps: the file of today holds old rows."""
    today = old_row(min_deletion_s=TODAY_S - 25 * DAY_S + TTL_S)
    return table([today, *windows(31)[1:]], schema(**options))


def test_a_row_without_ttl_keeps_what_has_expired() -> None:
    files = windows(40)
    bad = replace(files[38], max_deletion_s=None)
    facts = table([*files[:38], bad, files[39]])
    finding = only(check_drops(facts, LIMITS))
    assert (finding.id, finding.severity) == ("no-ttl-blocks", "critical")
    assert "1 file has rows without a TTL (nb-39-big-Data.db)" in finding.evidence
    assert "garbagecollect -g CELL plant readings" in finding.commands[1]
    # Days 31 to 37 have expired and are kept; day 39 is older than the blocker and may go.
    assert finding.facts["blocked_files"] == 7
    assert finding.facts["freed_bytes"] == 8 * GB
    by_path = {verdict.path: verdict for verdict in verdicts_of(facts, LIMITS)}
    assert by_path[files[36].path].blocked_by == (bad.path,)
    assert by_path[files[36].path].removable_at_s is None
    assert by_path[files[39].path].removable == "unless the memtable holds older writes"


def test_a_row_without_ttl_is_told_before_anything_has_expired() -> None:
    files = windows(5)
    facts = table([*files[:4], replace(files[4], max_deletion_s=None, max_ttl_s=0)])
    finding = only(check_drops(facts, LIMITS))
    assert (finding.id, finding.severity) == ("no-ttl-blocks", "warning")
    assert "nothing has expired yet; they will keep 4 other files" in finding.evidence


def test_rows_without_ttl_in_ucs_are_a_finding_where_they_keep_expired_files() -> None:
    files = windows(40)
    healthy = table([*files[:30], replace(files[30], max_deletion_s=None)], schema(UCS))
    assert ids(check_drops(healthy, LIMITS)) == []
    held = table([*files, sstable(99, TODAY_S - 60 * DAY_S, NOW_S, ttl_s=0)], schema(UCS))
    assert ids(check_drops(held, LIMITS)) == ["no-ttl-blocks"]


@pytest.mark.parametrize(
    ("options", "origin", "words", "commands"),
    [
        (
            {"read_repair": "BLOCKING"},
            "read repair",
            "read_repair is BLOCKING",
            ("ALTER TABLE plant.readings WITH read_repair = 'NONE';",),
        ),
        ({"read_repair": "NONE"}, "unknown", "read_repair is NONE", ()),
        (
            {"read_repair": None, "read_repair_chance": 0.1, "dclocal_read_repair_chance": 0.0},
            "read repair",
            "chance is 0.1",
            (
                "ALTER TABLE plant.readings WITH read_repair_chance = 0.0 AND "
                "dclocal_read_repair_chance = 0.0;",
            ),
        ),
    ],
)
def test_an_old_write_in_a_young_file_is_explained_by_the_options(
    options: dict[str, Any], origin: str, words: str, commands: tuple[str, ...]
) -> None:
    facts = blocked_by_old(**options)
    assert facts.schema is not None
    assert facts.schema.options is not None
    kept = {key: value for key, value in facts.schema.options.items() if value is not None}
    facts = replace(facts, schema=replace(facts.schema, options=kept))
    finding = only(check_drops(facts, LIMITS))
    assert (finding.id, finding.severity) == ("old-write-blocks", "warning")
    assert finding.facts["origin"] == origin
    assert words in finding.cause
    assert finding.commands == commands
    assert finding.facts["delayed_files"] > 20


def test_old_rows_within_the_hint_window_come_by_hint() -> None:
    # With windows of minutes, a hint of two hours spans many windows.
    short = TWCS | {
        "compaction_window_unit": "MINUTES",
        "compaction_window_size": "5",
        "expired_sstable_check_frequency_seconds": "60",
    }
    files = [
        sstable(age + 1, NOW_S - 300 * (age + 1), NOW_S - 300 * age - 1, ttl_s=2 * HOUR_S)
        for age in range(24)
    ]
    hinted = replace(
        files[0],
        min_write_us=(NOW_S - 6_600) * 1_000_000,
        min_deletion_s=NOW_S - 6_600 + 2 * HOUR_S,
    )
    about = schema(short, default_time_to_live=2 * HOUR_S, gc_grace_seconds=3 * HOUR_S)
    finding = only(check_drops(table([hinted, *files[1:]], about), LIMITS))
    assert finding.id == "old-write-blocks"
    assert finding.facts["origin"] == "hint"
    assert "switching read repair off" not in finding.cure
    # A hint is not applied any more when the grace has passed since it was made.
    about = schema(short, default_time_to_live=2 * HOUR_S, gc_grace_seconds=600)
    finding = only(check_drops(table([hinted, *files[1:]], about), LIMITS))
    assert finding.facts["origin"] == "unknown"


@pytest.mark.parametrize(
    ("mode", "origin", "words"),
    [
        ("NONE", "hint", "fit a node that was away for longer than 3h"),
        ("BLOCKING", "read repair", "or hints for a node that was away for longer than 3h"),
    ],
)
def test_old_rows_within_the_grace_may_be_hints_of_a_long_outage(
    mode: str, origin: str, words: str
) -> None:
    first_s = TODAY_S - 5 * DAY_S
    today = old_row(min_write_us=first_s * 1_000_000, min_deletion_s=first_s + TTL_S)
    about = schema(read_repair=mode, gc_grace_seconds=6 * DAY_S)
    found = check_drops(table([today, *windows(31)[1:]], about), LIMITS).findings
    finding = next(one for one in found if one.id == "old-write-blocks")
    assert finding.facts["origin"] == origin
    assert words in finding.cause


def test_where_hints_are_off_or_never_applied_they_are_no_cause() -> None:
    first_s = TODAY_S - 5 * DAY_S
    today = old_row(min_write_us=first_s * 1_000_000, min_deletion_s=first_s + TTL_S)
    off = table([today, *windows(31)[1:]], settings={"hinted_handoff_enabled": "false"})
    zero = table([today, *windows(31)[1:]], schema(gc_grace_seconds=0))
    for facts, words in ((off, "no node makes hints"), (zero, "no hint is applied with a grace")):
        found = check_drops(facts, LIMITS).findings
        (finding,) = [one for one in found if one.id == "old-write-blocks"]
        assert finding.facts["origin"] == "unknown"
        assert words in finding.cause


def test_that_a_file_was_repaired_is_no_cause_of_its_old_rows() -> None:
    # A repair marks files and streams others, each with the write times that it had.
    today = old_row(repaired_at_ms=NOW_S * 1_000, min_deletion_s=TODAY_S - 25 * DAY_S + TTL_S)
    finding = only(check_drops(table([today, *windows(31)[1:]]), LIMITS))
    assert finding.facts["origin"] == "unknown"
    assert "repair" not in finding.cause.replace("read_repair", "")


def test_a_repair_of_a_table_with_change_data_capture_writes_old_rows_again() -> None:
    finding = only(check_drops(blocked_by_old(cdc=True), LIMITS))
    assert finding.facts["origin"] == "repair"
    assert "change data capture" in finding.cause


def test_a_back_dated_write_is_told_by_its_expiry() -> None:
    # Written now with a time of 25 days ago: it expires a whole TTL from now.
    finding = only(
        check_drops(table([old_row(min_deletion_s=TODAY_S + TTL_S), *windows(31)[1:]]), LIMITS)
    )
    assert finding.id == "old-write-blocks"
    assert finding.facts["origin"] == "back-dated"
    assert "USING TIMESTAMP" in finding.cause
    assert finding.commands == ()


def test_an_import_with_old_write_times_keeps_the_windows_since() -> None:
    first_s = TODAY_S - 28 * DAY_S
    late = sstable(
        80,
        first_s,
        first_s + HOUR_S,
        min_deletion_s=TODAY_S + TTL_S,
        max_deletion_s=NOW_S + TTL_S,
        deletions=drop_times(TODAY_S + TTL_S, NOW_S + TTL_S),
        mtime_s=NOW_S,
    )
    finding = only(check_drops(table([*windows(31), late]), LIMITS))
    assert finding.id == "old-write-blocks"
    assert finding.facts["origin"] == "back-dated"
    assert "nb-80-big-Data.db" in finding.evidence


def test_a_major_compaction_is_told_from_an_old_write() -> None:
    merged = sstable(1, TODAY_S - 29 * DAY_S, NOW_S, data_bytes=30 * GB)
    finding = only(check_drops(table([merged]), LIMITS))
    assert finding.id == "major-compaction"
    assert "spans 30 windows of 1 DAYS" in finding.evidence
    assert finding.impact_bytes == 30 * GB


def test_a_wide_file_that_came_beside_older_ones_is_no_major_compaction() -> None:
    # As a repair streams it from a replica whose memtable held all of these days.
    streamed = sstable(99, TODAY_S - 12 * DAY_S, NOW_S, mtime_s=NOW_S)
    finding = only(check_drops(table([*windows(31), streamed]), LIMITS))
    assert finding.id == "old-write-blocks"
    assert finding.facts["origin"] == "repair"
    assert "streamed by a repair or a rebuild, or loaded; or" in finding.cause
    # Where it is the older one, it is what a compaction of all files leaves.
    merged = replace(streamed, id="0")
    assert ids(check_drops(table([*windows(31), merged]), LIMITS)) == ["major-compaction"]


def test_what_keeps_fully_expired_files_is_named_without_windows() -> None:
    today = old_row(min_write_us=(TODAY_S - 80 * DAY_S) * 1_000_000)
    finding = only(check_drops(table([today, *windows(70)[1:]], schema(UCS)), LIMITS))
    assert (finding.id, finding.severity) == ("expired-not-reached", "warning")
    assert "have fully expired and are kept by nb-1-big-Data.db" in finding.evidence


def test_files_that_ucs_could_drop_are_left_behind_and_not_unreached() -> None:
    finding = only(check_drops(table(windows(70), schema(UCS)), LIMITS))
    assert finding.id == "expired-not-reached"
    assert "could have gone since" in finding.evidence
    assert "switched off" in finding.cause


def test_repaired_beside_unrepaired_in_most_windows_is_a_finding() -> None:
    both = [
        replace(file, path=file.path.replace("nb-", "nb-9"), repaired_at_ms=NOW_S * 1_000)
        for file in windows(31)
    ]
    finding = only(check_drops(table([*windows(31), *both]), LIMITS))
    assert finding.id == "repaired-split"
    assert "30 of 30 past windows" in finding.evidence
    assert finding.commands == ("nodetool repair plant readings",)


SESSION = "5f0bb7d0-cc00-11f1-8000-000000000000"
REPAIRED_MS = NOW_S * 1_000


def of_state(files: list[SSTableFacts], **state: Any) -> list[SSTableFacts]:
    """Return files in a state of repair, in the same folder under other names."""
    return [
        replace(file, path=file.path.replace("nb-", "nb-9"), id=f"9{file.id}", **state)
        for file in files
    ]


def removable(facts: TableFacts, files: list[SSTableFacts]) -> list[str]:
    paths = {file.path for file in files}
    return sorted({one.removable for one in verdicts_of(facts, LIMITS) if one.path in paths})


@pytest.mark.parametrize(
    "state",
    [{"repaired_at_ms": REPAIRED_MS}, {"pending_repair": SESSION}],
    ids=["repaired", "of a pending session"],
)
def test_an_unrepaired_file_keeps_expired_ones_of_another_state_where_their_tokens_meet(
    state: dict[str, Any],
) -> None:
    kept = of_state(windows(40), **state)
    expired = kept[32:]
    old = old_row(min_write_us=(TODAY_S - 60 * DAY_S) * 1_000_000)
    facts = table([old, *kept[1:]], is_memtable_known=True)
    assert removable(facts, expired) == ["no"]
    by_path = {one.path: one for one in verdicts_of(facts, LIMITS)}
    assert by_path[expired[0].path].blocked_by == (old.path,)
    held = [one for one in check_drops(facts, LIMITS).findings if one.id == "old-write-blocks"]
    assert [(one.severity, one.facts["blocked_files"]) for one in held] == [("warning", 9)]
    # Of other tokens it is nothing to them, and in their own state it is wherever it lies.
    apart = replace(old, first_token=2**62 + 1, last_token=2**62 + 9)
    assert removable(table([apart, *kept[1:]], is_memtable_known=True), expired) == ["yes"]
    (own,) = of_state([apart], **state)
    assert removable(table([own, *kept[1:]], is_memtable_known=True), expired) == ["no"]


def test_a_repaired_file_keeps_expired_unrepaired_ones() -> None:
    files = windows(40)
    (old,) = of_state(
        [old_row(min_write_us=(TODAY_S - 60 * DAY_S) * 1_000_000)], repaired_at_ms=REPAIRED_MS
    )
    facts = table([*files, old], is_memtable_known=True)
    assert removable(facts, files[32:]) == ["no"]
    assert "old-write-blocks" in ids(check_drops(facts, LIMITS))
    without = table(files, is_memtable_known=True)
    assert removable(without, files[32:]) == ["yes"]


def test_what_a_session_holds_is_not_repaired_yet_where_only_repaired_data_is_purged() -> None:
    about = schema(TWCS | {"only_purge_repaired_tombstones": "true"})
    done = [replace(file, repaired_at_ms=REPAIRED_MS) for file in windows(40)]
    held = [replace(file, pending_repair=SESSION) for file in windows(40)]
    for files, wanted in ((done, ["yes"]), (held, ["no"])):
        facts = table(files, about, is_memtable_known=True)
        assert removable(facts, files[32:]) == wanted
    finding = only(check_drops(table(held, about), LIMITS))
    assert finding.id == "only-purge-repaired"
    assert "40 of 40 files are not repaired" in finding.evidence


def test_what_a_session_holds_beside_repaired_files_is_no_split_before_its_end() -> None:
    files = [replace(file, repaired_at_ms=REPAIRED_MS) for file in windows(31)]
    facts = table([*files, *of_state(windows(31), pending_repair=SESSION)])
    assert ids(check_drops(facts, LIMITS)) == []


def test_files_in_two_data_folders_are_no_split() -> None:
    other = [replace(file, path=file.path.replace("/data/", "/data2/")) for file in windows(31)]
    assert ids(check_drops(table([*windows(31), *other]), LIMITS)) == []


def test_only_purging_what_is_repaired_keeps_what_is_not() -> None:
    about = schema(TWCS | {"only_purge_repaired_tombstones": "true"})
    finding = only(check_drops(table(windows(50), about), LIMITS))
    assert (finding.id, finding.severity) == ("only-purge-repaired", "critical")
    assert "50 of 50 files are not repaired; 19 of them have fully expired" in finding.evidence
    assert finding.commands == (
        "ALTER TABLE plant.readings WITH compaction = {'class': 'TimeWindowCompactionStrategy', "
        "'compaction_window_unit': 'DAYS', 'compaction_window_size': '1'};",
    )
    repaired = [
        replace(file, repaired_at_ms=1) if index else file for index, file in enumerate(windows(31))
    ]
    assert ids(check_drops(table(repaired, about), LIMITS)) == []


def test_a_future_dated_file_is_found() -> None:
    ahead_s = NOW_S + 400 * DAY_S
    future = sstable(77, TODAY_S, NOW_S, max_write_us=ahead_s * 1_000_000)
    finding = only(check_drops(table([future, *windows(31)[1:]]), LIMITS))
    assert finding.id == "future-write"
    assert "400d ahead" in finding.evidence
    # Clocks are never quite the same.
    near = sstable(77, TODAY_S, NOW_S, max_write_us=(NOW_S + 1_800) * 1_000_000)
    assert ids(check_drops(table([near, *windows(31)[1:]]), LIMITS)) == []


@pytest.mark.parametrize(
    ("factor", "unit"), [(1, "seconds"), (1_000, "milliseconds"), (10**9, "nanoseconds")]
)
def test_write_times_in_another_unit_are_found(factor: int, unit: str) -> None:
    files = [
        sstable(
            n,
            TODAY_S,
            NOW_S,
            min_write_us=TODAY_S * factor,
            max_write_us=NOW_S * factor,
            min_deletion_s=TODAY_S + TTL_S,
            max_deletion_s=NOW_S + TTL_S,
        )
        for n in range(3)
    ]
    finding = only(check_drops(table(files), LIMITS))
    assert finding.id == "write-time-unit"
    assert f"hold write times in {unit}" in finding.evidence


def test_one_client_with_milliseconds_keeps_the_files_of_all_others() -> None:
    files = [replace(file, min_write_us=NOW_S * 1_000) for file in windows(31)]
    finding = only(check_drops(table(files), LIMITS))
    assert finding.id == "write-time-unit"
    assert f"milliseconds, such as {NOW_S * 1_000}; they keep 28 files" in finding.evidence


def test_a_wrong_declaration_is_left_to_the_check_of_options() -> None:
    about = schema(TWCS | {"timestamp_resolution": "MILLISECONDS"})
    assert ids(check_drops(table(windows(31), about), LIMITS)) == []


def test_a_unit_that_the_table_declares_is_right() -> None:
    about = schema(TWCS | {"timestamp_resolution": "MILLISECONDS"})
    files = [
        replace(
            file,
            min_write_us=(file.min_write_us or 0) // 1_000,
            max_write_us=(file.max_write_us or 0) // 1_000,
        )
        for file in windows(31)
    ]
    assert ids(check_drops(table(files, about), LIMITS)) == []


def test_ten_days_of_grace_on_a_ttl_of_a_day_are_too_long() -> None:
    hourly = TWCS | {"compaction_window_unit": "HOURS"}
    about = schema(hourly, default_time_to_live=DAY_S, gc_grace_seconds=10 * DAY_S)
    files = [
        sstable(age, NOW_S - HOUR_S * (age + 1), NOW_S - HOUR_S * age - 1, ttl_s=DAY_S)
        for age in range(11 * 24)
    ]
    facts = table(files, about)
    finding = only(check_drops(facts, LIMITS))
    assert finding.id == "long-grace"
    assert "gc_grace_seconds is 10d on a TTL of 1d" in finding.evidence
    assert finding.commands == ("ALTER TABLE plant.readings WITH gc_grace_seconds = 12342;",)
    assert finding.facts["freed_bytes"] > 200 * GB
    assert ids(check_disk(facts, LIMITS)) == []


def test_a_grace_for_deletes_is_left_alone() -> None:
    about = schema(default_time_to_live=DAY_S, gc_grace_seconds=10 * DAY_S)
    files = windows(3, ttl_s=DAY_S, has_partition_deletions=True)
    assert ids(check_drops(table(files, about), LIMITS)) == []


def test_size_tiered_compaction_with_a_ttl_is_a_notice_and_a_warning_where_much_has_expired() -> (
    None
):
    young = only(check_drops(table(windows(9), schema(STCS)), LIMITS))
    assert (young.id, young.severity) == ("stcs-with-ttl", "notice")
    big = sstable(9, NOW_S - 70 * DAY_S, NOW_S, data_bytes=60 * GB)
    old = only(check_drops(table([big], schema(STCS)), LIMITS))
    assert (old.id, old.severity) == ("stcs-with-ttl", "warning")
    assert "TimeWindowCompactionStrategy" in old.commands[0]
    assert "read_repair" not in old.commands[0]
    blocking = only(check_drops(table([big], schema(STCS, read_repair="BLOCKING")), LIMITS))
    # Else read repair on windows were the finding that the cure makes.
    assert blocking.commands[0].endswith("AND read_repair = 'NONE';")
    chances = {"read_repair_chance": 0.0, "dclocal_read_repair_chance": 0.1}
    about = schema(STCS, **chances)
    assert about.options is not None
    options = {name: value for name, value in about.options.items() if name != "read_repair"}
    older = only(check_drops(table([big], replace(about, options=options)), LIMITS))
    assert older.commands[0].endswith(
        "AND read_repair_chance = 0.0 AND dclocal_read_repair_chance = 0.0;"
    )
    assert old.cost.headroom_bytes == 60 * GB


def test_expired_rows_that_ucs_does_not_come_by_are_found() -> None:
    big = sstable(9, NOW_S - 70 * DAY_S, NOW_S, data_bytes=60 * GB)
    finding = only(check_drops(table([big], schema(UCS)), LIMITS))
    assert (finding.id, finding.severity) == ("expired-not-reached", "warning")
    assert finding.cost.rewritten_bytes == 60 * GB
    assert (finding.cost.duration_s or 0) > 60


def test_files_that_nothing_keeps_and_nobody_drops_are_found() -> None:
    facts = table(windows(40))
    finding = only(check_drops(facts, LIMITS))
    assert (finding.id, finding.severity) == ("expired-not-reached", "warning")
    assert "could have gone" in finding.evidence
    stopped = replace(facts, nodes=(replace(facts.nodes[0], is_memtable_known=True),))
    assert ids(check_drops(stopped, LIMITS)) == []
    assert {v.removable for v in verdicts_of(stopped, LIMITS) if v.is_fully_expired} == {"yes"}


def test_aggressive_expiration_means_that_nothing_blocks() -> None:
    about = schema(TWCS | {"unsafe_aggressive_sstable_expiration": "true"}, read_repair="BLOCKING")
    facts = table([old_row(), *windows(31)[1:]], about)
    assert ids(check_drops(facts, LIMITS)) == []


def test_rows_with_a_longer_ttl_are_no_back_dated_write() -> None:
    long = sstable(60, TODAY_S - 20 * DAY_S, TODAY_S - 20 * DAY_S + 60, ttl_s=300 * DAY_S)
    assert ids(check_drops(table([*windows(31), long]), LIMITS)) == []


def test_names_that_need_quotes_have_them_in_commands() -> None:
    facts = replace(blocked_by_old(read_repair="BLOCKING"), keyspace="Plant", table="select")
    finding = only(check_drops(facts, LIMITS))
    assert finding.commands == ('ALTER TABLE "Plant"."select" WITH read_repair = \'NONE\';',)


def test_without_options_files_are_judged_and_never_called_healthy() -> None:
    facts = replace(table(windows(31)), schema=replace(schema(), options=None))
    checked = check_drops(facts, LIMITS)
    assert checked.status == "unknown"
    assert "grace of ten days: give the cluster's URL" in checked.unknown
    held = sstable(99, TODAY_S - 60 * DAY_S, TODAY_S - 60 * DAY_S + 9, ttl_s=0)
    sick = replace(facts, nodes=table([*windows(50), held]).nodes)
    assert ids(check_drops(sick, LIMITS)) == ["no-ttl-blocks"]


def test_without_files_nothing_is_known() -> None:
    checked = check_drops(table(None), LIMITS)
    assert checked.status == "unknown"
    assert "the files of 10.0.0.1 were not seen" in checked.unknown
    assert verdicts_of(table(None), LIMITS) == ()
    assert check_disk(table(None), LIMITS).status == "unknown"


def test_a_file_that_could_not_be_read_leaves_the_check_unknown() -> None:
    problem = FileProblem(path=f"{FOLDER}/x", id="1", message="cut short", kind="corrupt")
    checked = check_drops(table(windows(3), problems=(problem,)), LIMITS)
    assert checked.status == "unknown"
    assert "1 file could not be read" in checked.unknown


def test_verdicts_name_windows_and_moments() -> None:
    verdicts = verdicts_of(table(windows(3)), LIMITS)
    assert [verdict.window_start_s for verdict in verdicts] == [
        TODAY_S - 2 * DAY_S,
        TODAY_S - DAY_S,
        TODAY_S,
    ]
    assert verdicts[0].window.endswith(verdicts[1].window.split(" to ")[0])
    assert verdicts[2].removable_at_s == NOW_S - 60 + TTL_S + GRACE_S + 1
    assert not verdicts[0].is_fully_expired
    assert verdicts_of(table(windows(3), schema(UCS)), LIMITS)[0].window == ""


def test_every_finding_says_all_that_a_reader_needs() -> None:
    facts = blocked_by_old(read_repair="BLOCKING")
    for finding in check_drops(facts, LIMITS).findings:
        assert "\n" not in finding.evidence
        for text in (finding.evidence, finding.cause, finding.consequence, finding.cure):
            assert len(text) > 40
        assert finding.cost.text
        assert finding.impact_bytes > 0
