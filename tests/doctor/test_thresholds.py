"""Thresholds: read from texts, and each of those of drops moves the line of its finding."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from tests.doctor.checks.expiring import DAY_S, NOW_S, schema, sstable, table, windows
from treering.doctor.checks import check_drops, check_sstables
from treering.doctor.facts import TableFacts
from treering.doctor.thresholds import Thresholds, parse_thresholds
from treering.errors import UsageError

STCS = {"class": "SizeTieredCompactionStrategy"}


def old_row() -> TableFacts:
    """Return windows that a row of ten days ago keeps, in the file of today."""
    first_s = NOW_S - 10 * DAY_S
    today = replace(windows(1)[0], min_write_us=first_s * 1_000_000)
    return table([replace(today, min_deletion_s=first_s + 30 * DAY_S), *windows(31)[1:]])


def ahead() -> TableFacts:
    """Return windows, one of which is two days ahead of the clock."""
    at_s = NOW_S + 2 * DAY_S
    return table([*windows(10), sstable(99, at_s, at_s + 60, max_write_us=at_s * 1_000_000)])


def split() -> TableFacts:
    """Return four windows, three past ones of which are half repaired."""
    files = windows(4)
    more = [replace(file, path=file.path + "x", repaired_at_ms=NOW_S * 1_000) for file in files[1:]]
    return table([*files, *more])


MOVED: dict[str, tuple[TableFacts, str, dict[str, Any]]] = {
    "an old row in a young file": (old_row(), "old-write-blocks", {"span_windows_max": 12}),
    "files that wait for it for long": (old_row(), "old-write-blocks", {"overdue_max_s": 10**8}),
    "a write time ahead of the clock": (ahead(), "future-write", {"ahead_max_s": 3 * DAY_S}),
    "windows in two states": (split(), "repaired-split", {"split_windows_max": 3}),
}


@pytest.mark.parametrize(("facts", "found", "moved"), MOVED.values(), ids=MOVED)
def test_a_threshold_of_drops_moves_the_line_of_its_finding(
    facts: TableFacts, found: str, moved: dict[str, Any]
) -> None:
    assert [one.id for one in check_drops(facts, Thresholds()).findings] == [found]
    assert check_drops(facts, Thresholds(**moved)).findings == ()


def test_thresholds_of_files_move_the_line_of_too_many() -> None:
    many = table([replace(windows(1)[0], path=f"/d/nb-{n}-big-Data.db") for n in range(40)])
    tiers = replace(many, schema=schema(STCS))
    for facts, moved in ((many, {"files_per_window_max": 9}), (tiers, {"files_in_tiers_max": 39})):
        assert "up to" in check_sstables(facts, Thresholds(**moved)).findings[0].evidence
    assert check_sstables(many, Thresholds(files_per_window_max=40)).findings == ()
    assert check_sstables(tiers, Thresholds()).findings == ()


def test_thresholds_are_read_with_their_units() -> None:
    given = ["overdue-max-s=2d", "ahead_max_s=5m", "throughput-bytes-per-s=16MiB/s"]
    assert parse_thresholds([*given, "split-windows-max=5"]) == Thresholds(
        overdue_max_s=2 * DAY_S,
        ahead_max_s=300,
        throughput_bytes_per_s=16 * 1_048_576,
        split_windows_max=5,
    )


@pytest.mark.parametrize("name", [field.name for field in fields(Thresholds)])
def test_every_threshold_refuses_what_is_no_number(name: str) -> None:
    with pytest.raises(UsageError):
        parse_thresholds([f"{name}=much"])
    with pytest.raises(UsageError):
        parse_thresholds([f"{name}="])
