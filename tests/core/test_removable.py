"""Removable files: equal to the literal rule, and steady in time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.core.removable import FileLife, FileSet, RemovalRules
from treering.errors import UsageError


def naive(files: list[FileLife], rules: RemovalRules, now_s: int) -> list[bool]:
    """Transcribe CompactionController.getFullyExpiredSSTables step by step."""
    before_s = now_s - rules.gc_grace_s
    dropped = [False] * len(files)
    for instance in {file.instance for file in files}:
        chosen = [i for i, file in enumerate(files) if file.instance == instance]
        if rules.only_purge_repaired and any(not files[i].is_repaired for i in chosen):
            continue
        # The ranges of the candidates, merged; then whatever meets one of them and is not one.
        ranges: list[list[int]] = []
        for i in sorted(chosen, key=lambda i: files[i].first_token):
            if ranges and files[i].first_token <= ranges[-1][1]:
                ranges[-1][1] = max(ranges[-1][1], files[i].last_token)
            else:
                ranges.append([files[i].first_token, files[i].last_token])
        overlapping = [
            i
            for i, file in enumerate(files)
            if i not in chosen
            and any(file.first_token <= end and file.last_token >= start for start, end in ranges)
        ]
        oldest = float("inf")
        candidates = []
        for i in overlapping:
            deletion_s = files[i].max_deletion_s
            if deletion_s is None or deletion_s >= before_s:
                oldest = min(oldest, files[i].min_write_us)
        for i in chosen:
            deletion_s = files[i].max_deletion_s
            if deletion_s is not None and deletion_s < before_s:
                candidates.append(i)
            else:
                oldest = min(oldest, files[i].min_write_us)
        if rules.memtable_min_write_us is not None:
            oldest = min(oldest, rules.memtable_min_write_us)
        for i in candidates:
            dropped[i] = rules.ignores_overlaps or files[i].max_write_us < oldest
    return dropped


TIMES = st.integers(0, 40)
INSTANCES = st.sampled_from(["unrepaired", "repaired", "pending-1"])


@st.composite
def lives(draw: st.DrawFn) -> FileLife:
    """Draw files on a small grid, so that equal times and touching tokens are common."""
    first_us, last_us = sorted((draw(TIMES), draw(TIMES)))
    first, last = sorted((draw(TIMES), draw(TIMES)))
    instance = draw(INSTANCES)
    return FileLife(
        min_write_us=first_us,
        max_write_us=last_us,
        max_deletion_s=draw(st.none() | TIMES),
        first_token=first,
        last_token=last,
        instance=instance,
        is_repaired=instance == "repaired",
    )


FILES = st.lists(lives(), max_size=12)
RULES = st.builds(
    RemovalRules,
    gc_grace_s=st.integers(0, 5),
    memtable_min_write_us=st.none() | TIMES,
    only_purge_repaired=st.booleans(),
    ignores_overlaps=st.booleans(),
)
NOWS = st.integers(-5, 60)


@given(FILES, RULES, NOWS)
def test_the_removable_files_are_those_of_the_literal_rule(
    files: list[FileLife], rules: RemovalRules, now_s: int
) -> None:
    assert FileSet(files).removable(rules, now_s).tolist() == naive(files, rules, now_s)


@given(FILES, RULES, NOWS)
def test_a_file_is_removable_from_its_moment_on_and_never_before(
    files: list[FileLife], rules: RemovalRules, now_s: int
) -> None:
    at_s = FileSet(files).removable_at_s(rules)
    expected = [moment is not None and moment <= now_s for moment in at_s]
    assert expected == naive(files, rules, now_s)


@given(FILES, RULES, NOWS, st.integers(0, 60))
def test_time_alone_never_takes_a_removable_file_back(
    files: list[FileLife], rules: RemovalRules, now_s: int, later_s: int
) -> None:
    now = FileSet(files).removable(rules, now_s)
    assert not (now & ~FileSet(files).removable(rules, now_s + later_s)).any()


@given(FILES, RULES, NOWS)
def test_a_fully_expired_file_stays_exactly_where_something_is_named(
    files: list[FileLife], rules: RemovalRules, now_s: int
) -> None:
    rules = replace(rules, memtable_min_write_us=None, only_purge_repaired=False)
    some = FileSet(files)
    removable = some.removable(rules, now_s)
    for index, file in enumerate(files):
        blockers = some.blockers_of(index, rules, now_s, limit=len(files))
        before_s = now_s - rules.gc_grace_s
        if file.max_deletion_s is None or file.max_deletion_s >= before_s:
            assert not blockers
            continue
        assert bool(blockers) != removable[index]
        assert index not in blockers
        for blocker in blockers:
            deletion_s = files[blocker].max_deletion_s
            assert deletion_s is None or deletion_s >= before_s
            assert files[blocker].min_write_us <= file.max_write_us


@given(FILES, RULES, NOWS)
def test_files_go_once_their_blockers_are_taken_away(
    files: list[FileLife], rules: RemovalRules, now_s: int
) -> None:
    rules = replace(rules, memtable_min_write_us=None, only_purge_repaired=False)
    some = FileSet(files)
    for index in range(len(files)):
        blockers = set(some.blockers_of(index, rules, now_s, limit=len(files)))
        if blockers:
            left = [file for i, file in enumerate(files) if i not in blockers]
            place = index - sum(blocker < index for blocker in blockers)
            assert FileSet(left).removable(rules, now_s)[place]


@given(FILES, st.integers(0, 5))
def test_all_files_together_hold_a_file_until_it_is_removable(
    files: list[FileLife], grace_s: int
) -> None:
    rules = RemovalRules(gc_grace_s=grace_s)
    some = FileSet(files)
    everything = np.ones(len(files), dtype=np.bool_)
    assert some.held_until_s(rules, everything) == some.removable_at_s(rules)
    nothing = np.zeros(len(files), dtype=np.bool_)
    assert some.held_until_s(rules, nothing) == (0,) * len(files)


def test_the_file_that_holds_longest_is_named_first() -> None:
    files = FileSet(
        [
            FileLife(min_write_us=5, max_write_us=6, max_deletion_s=10),
            FileLife(min_write_us=1, max_write_us=9, max_deletion_s=30),
            FileLife(min_write_us=2, max_write_us=9, max_deletion_s=None),
            FileLife(min_write_us=7, max_write_us=9, max_deletion_s=40),
        ]
    )
    rules = RemovalRules(gc_grace_s=0)
    assert files.blockers_of(0, rules, 20, limit=9) == (2, 1)
    assert files.blockers_of(0, rules, 20, limit=1) == (2,)
    assert files.removable_at_s(rules) == (None, None, None, None)


def test_of_another_instance_only_files_with_the_same_tokens_block() -> None:
    expired = FileLife(
        min_write_us=5, max_write_us=6, max_deletion_s=10, first_token=0, last_token=9
    )
    live = FileLife(min_write_us=1, max_write_us=9, max_deletion_s=99, first_token=10, instance="r")
    rules = RemovalRules(gc_grace_s=0)
    assert FileSet([expired, live]).removable(rules, 50).tolist() == [True, False]
    touching = replace(live, first_token=9)
    assert FileSet([expired, touching]).removable(rules, 50).tolist() == [False, False]
    # Of its own instance a file blocks wherever its tokens lie.
    own = replace(live, instance="")
    assert FileSet([expired, own]).removable(rules, 50).tolist() == [False, False]


def test_no_files_are_no_trouble() -> None:
    none = FileSet([])
    assert len(none) == 0
    assert none.removable(RemovalRules(gc_grace_s=0), 0).tolist() == []
    assert none.removable_at_s(RemovalRules(gc_grace_s=0)) == ()


def test_a_file_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(UsageError, match="after its newest"):
        FileLife(min_write_us=2, max_write_us=1, max_deletion_s=None)
    with pytest.raises(UsageError, match="after its last"):
        FileLife(min_write_us=1, max_write_us=1, max_deletion_s=None, first_token=2, last_token=1)
    with pytest.raises(UsageError, match="grace"):
        RemovalRules(gc_grace_s=-1)
