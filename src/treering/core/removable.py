"""Which files may leave the disk whole, which files keep them there, and until when.

Rules of this file: one rule, ``CompactionController.getFullyExpiredSSTables``, the same from 3.11
to 5.0, on arrays, so that thousands of files are judged many times over. A file is removable when
it is fully expired and its newest write time is older, strictly, than the oldest write time of
everything that is not: the files of its own strategy instance wherever their tokens lie, the
memtables, and those files of other instances whose tokens meet the ones of its instance.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from treering.core.expiry import gc_before_s
from treering.errors import UsageError

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

TOKEN_MIN: Final = -(2**63)
TOKEN_MAX: Final = 2**63 - 1
_LAST: Final = 2**63 - 1
"""Inside arrays, a deletion time or an instant that never comes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLife:
    """What decides when a file may leave.

    Attributes:
        min_write_us: Oldest write time inside, in the unit of the table's writers.
        max_write_us: Newest write time inside, likewise.
        max_deletion_s: When its last cell expires, epoch seconds; None where one never does.
        first_token: Token of its first partition.
        last_token: Token of its last partition, inclusive.
        instance: Which strategy instance compacts it: a repair state in a data folder. Files of
            different instances are never compacted together.
        is_repaired: Whether it counts as repaired.
    """

    min_write_us: int
    max_write_us: int
    max_deletion_s: int | None
    first_token: int = TOKEN_MIN
    last_token: int = TOKEN_MAX
    instance: Hashable = ""
    is_repaired: bool = False

    def __post_init__(self) -> None:
        if self.min_write_us > self.max_write_us:
            raise UsageError(
                f"a file's oldest write time, {self.min_write_us}, is after its newest, "
                f"{self.max_write_us}"
            )
        if self.first_token > self.last_token:
            raise UsageError(
                f"a file's first token, {self.first_token}, is after its last, {self.last_token}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalRules:
    """What beside the files decides.

    Attributes:
        gc_grace_s: The table's ``gc_grace_seconds``.
        memtable_min_write_us: Oldest write time in any memtable; None where none holds a write.
        only_purge_repaired: Option ``only_purge_repaired_tombstones``: what is not repaired stays.
        ignores_overlaps: ``unsafe_aggressive_sstable_expiration``, in effect: no file blocks.
    """

    gc_grace_s: int
    memtable_min_write_us: int | None = None
    only_purge_repaired: bool = False
    ignores_overlaps: bool = False

    def __post_init__(self) -> None:
        if self.gc_grace_s < 0:
            raise UsageError(f"a grace of {self.gc_grace_s} s is no length of time")


class FileSet:
    """The live files of one table on one node, as arrays.

    Args:
        files: In any order; results keep it.
    """

    def __init__(self, files: Sequence[FileLife]) -> None:
        self._deletion_s = _ints(
            _LAST if file.max_deletion_s is None else file.max_deletion_s for file in files
        )
        self._min_us = _ints(file.min_write_us for file in files)
        self._max_us = _ints(file.max_write_us for file in files)
        self._first = _ints(file.first_token for file in files)
        self._last = _ints(file.last_token for file in files)
        self._is_repaired = np.array([file.is_repaired for file in files], dtype=np.bool_)
        numbers: dict[Hashable, int] = {}
        self._instance = _ints(numbers.setdefault(file.instance, len(numbers)) for file in files)
        self._members = tuple(
            np.flatnonzero(self._instance == number) for number in range(len(numbers))
        )
        # What may keep an instance's files, from the oldest write time on; sorted once for all
        # the moments that are asked about.
        self._by_age = tuple(self._watched_by(members) for members in self._members)

    def __len__(self) -> int:
        return len(self._min_us)

    def removable(self, rules: RemovalRules, now_s: int) -> Bools:
        """Return which files the server may drop at ``now_s``, shape (n,).

        Mirrors ``CompactionController.getFullyExpiredSSTables``, 3.11 to 5.0, with all files of
        an instance as candidates, which is what TWCS and UCS ask.
        """
        expired = self._expired(rules, now_s)
        result = np.zeros(len(self), dtype=np.bool_)
        for members, by_age in zip(self._members, self._by_age, strict=True):
            if not self._may_purge(members, rules):
                continue
            gone = expired[members]
            if not rules.ignores_overlaps:
                oldest_us = self._oldest_live_us(by_age, expired, rules)
                gone = gone & (self._max_us[members] < oldest_us)
            result[members] = gone
        return result

    def removable_at_s(self, rules: RemovalRules) -> tuple[int | None, ...]:
        """Return from when on the server may drop each file, if nothing is written or rewritten.

        The first second at which :meth:`removable` holds; it then holds for ever. None where that
        never comes: a cell without TTL, a memtable with older writes, an instance that is not
        repaired where only repaired data is purged. Files that leave before are still counted for
        the tokens that their instance covers, so with several instances on one node the true
        moment may be earlier.
        """
        result: list[int | None] = [None] * len(self)
        for members, by_age in zip(self._members, self._by_age, strict=True):
            if not self._may_purge(members, rules):
                continue
            last_s = self._deletion_s[members]
            if not rules.ignores_overlaps:
                last_s = self._latest_s(members, by_age)
                if rules.memtable_min_write_us is not None:
                    is_held = self._max_us[members] >= rules.memtable_min_write_us
                    last_s = np.where(is_held, _LAST, last_s)
            for index, deletion_s in zip(members.tolist(), last_s.tolist(), strict=True):
                if deletion_s != _LAST:
                    result[index] = deletion_s + rules.gc_grace_s + 1
        return tuple(result)

    def held_until_s(self, rules: RemovalRules, by: Bools) -> tuple[int | None, ...]:
        """Return until when some of the files, and nothing else, would keep each file.

        Args:
            rules: Of them only the grace counts.
            by: Which files are looked at as blockers, shape (n,).

        Returns:
            The second after grace of the last deletion time among those that stand in a file's
            way, itself included where it is one of them; 0 where none does; None for ever.
        """
        result: list[int | None] = [0] * len(self)
        for members, by_age in zip(self._members, self._by_age, strict=True):
            last_s = self._latest_s(members, by_age[by[by_age]])
            for index, deletion_s in zip(members.tolist(), last_s.tolist(), strict=True):
                if deletion_s == _LAST:
                    result[index] = None
                elif deletion_s != -_LAST:
                    result[index] = deletion_s + rules.gc_grace_s + 1
        return tuple(result)

    def blockers_of(
        self, index: int, rules: RemovalRules, now_s: int, *, limit: int
    ) -> tuple[int, ...]:
        """Return the files that keep a file at ``now_s``, the one that holds it longest first.

        Args:
            index: The file; one that is not fully expired has no blockers.
            rules: As above.
            now_s: The moment, epoch seconds.
            limit: The most that are returned.
        """
        expired = self._expired(rules, now_s)
        if rules.ignores_overlaps or not expired[index]:
            return ()
        by_age = self._by_age[int(self._instance[index])]
        reach = np.searchsorted(self._min_us[by_age], self._max_us[index], side="right")
        older = by_age[:reach]
        found = older[~expired[older]]
        longest_first = found[np.argsort(-self._deletion_s[found], kind="stable")]
        return tuple(longest_first[:limit].tolist())

    def _expired(self, rules: RemovalRules, now_s: int) -> Bools:
        # The array twin of expiry.is_fully_expired: strictly before, and never is never.
        before_s = gc_before_s(now_s, rules.gc_grace_s)
        expired: Bools = (self._deletion_s < before_s) & (self._deletion_s != _LAST)
        return expired

    def _may_purge(self, members: Ints, rules: RemovalRules) -> bool:
        return not rules.only_purge_repaired or bool(self._is_repaired[members].all())

    def _oldest_live_us(self, by_age: Ints, expired: Bools, rules: RemovalRules) -> int:
        live = by_age[~expired[by_age]]
        oldest_us = int(self._min_us[live[0]]) if len(live) else None
        both = (oldest_us, rules.memtable_min_write_us)
        # With nothing live at all, Cassandra's bound is Long.MAX_VALUE.
        return min((us for us in both if us is not None), default=_LAST)

    def _latest_s(self, members: Ints, by_age: Ints) -> Ints:
        """Return the last deletion time among those files that stand in each member's way."""
        reach = np.searchsorted(self._min_us[by_age], self._max_us[members], side="right")
        latest_s = np.maximum.accumulate(self._deletion_s[by_age])
        return np.concatenate([_ints([-_LAST]), latest_s])[reach]

    def _watched_by(self, members: Ints) -> Ints:
        """Return the members and the files of other instances whose tokens meet theirs, by age.

        Mirrors ``ColumnFamilyStore.getOverlappingLiveSSTables``: the members' token ranges are
        merged first.
        """
        by_first = members[np.argsort(self._first[members], kind="stable")]
        reached = np.maximum.accumulate(self._last[by_first])
        # A file meets the merged ranges where a member that starts at or before its end reaches
        # its start.
        starting = np.searchsorted(self._first[by_first], self._last, side="right")
        meets = (starting > 0) & (reached[np.maximum(starting - 1, 0)] >= self._first)
        meets[members] = True
        watched = np.flatnonzero(meets)
        return watched[np.argsort(self._min_us[watched], kind="stable")]


def _ints(values: Iterable[int]) -> Ints:
    return np.array(list(values), dtype=np.int64)
