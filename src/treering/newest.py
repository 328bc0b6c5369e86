"""The newest readings of series: by the index of buckets, or bucket by bucket where there is none.

Rules of this file: all series that lack readings go on side by side; a step starts where the one
before ended, so that no partition is read twice for the same event times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from treering.core.bucket import bucket_of
from treering.core.listing import ListedSearch
from treering.core.read_plan import PartitionRead, ReadPlan
from treering.core.units import Interval
from treering.fanout.steps import Steps
from treering.reading import Reading
from treering.readings import Part, Readings

STEP_BUCKETS: Final = 256
"""How many buckets a step without an index goes back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestSearch:
    """A search for the newest readings of some series.

    Attributes:
        names: The series.
        count: How many readings of each.
        interval: The event time to search, from its end backwards.
        reading: The call.
        plan_of: Plans a read, newest first: series, interval and limit.
    """

    names: tuple[str, ...]
    count: int
    interval: Interval
    reading: Reading
    plan_of: Callable[[Sequence[str], Interval, int], ReadPlan]

    def run(self) -> Steps[dict[str, list[Part]]]:
        """Return the newest readings of each series, newest first."""
        taken = _Taken(self.names, self.count)
        if self.reading.spec.index_trusted:
            yield from self._run_listed(taken)
        else:
            yield from self._run_walk(taken)
        return taken.parts

    def _run_listed(self, taken: _Taken) -> Steps[None]:
        def reads_of(name: str, inside: Interval) -> Sequence[PartitionRead]:
            return self.plan_of([name], inside, self.count).reads

        widths = self.reading.widths_of(self.names)
        search = ListedSearch(self.names, self.interval, widths, reads_of)
        while listings := search.listings(taken.lacking):
            answers = yield from self.reading.list(listings)
            reads = search.reads(answers)
            if reads:
                nothing = replace(self.interval, end=self.interval.start)
                plan = self.plan_of(list(answers), nothing, max(taken.lacking.values()))
                plan = replace(plan, interval=self.interval, reads=reads)
                taken.add((yield from self.reading.run(plan)))

    def _run_walk(self, taken: _Taken) -> Steps[None]:
        end = self.interval.end
        while taken.lacking and end > self.interval.start:
            start = self._step_back(end, list(taken.lacking))
            inside = Interval(start, end, self.interval.precision)
            plan = self.plan_of(list(taken.lacking), inside, max(taken.lacking.values()))
            taken.add((yield from self.reading.run(plan)))
            end = start

    def _step_back(self, end: int, names: Sequence[str]) -> int:
        spec, oldest = self.reading.spec, self.interval.start
        per_s = spec.precision.per_s
        widths = {width for every in self.reading.widths_of(names).values() for width in every}
        narrowest = min(widths, key=lambda width: width.length_s)
        length = (STEP_BUCKETS - 1) * narrowest.length_s * per_s
        bucket = bucket_of(max(end - 1 - length, oldest), narrowest, spec.precision)
        return max(bucket.start_s * per_s, oldest)


class _Taken:
    """Readings that were found, and how many are lacking."""

    def __init__(self, names: Sequence[str], count: int) -> None:
        self.parts: dict[str, list[Part]] = {name: [] for name in names}
        self.lacking = dict.fromkeys(names, count)

    def add(self, step: Readings) -> None:
        """Take the readings of a step, no more of each series than it lacks."""
        for name, part in _parts_of(step):
            rows = min(len(part[0]), self.lacking.get(name, 0))
            if rows:
                data = {key: column.take(slice(rows)) for key, column in part[1].items()}
                self.parts[name].append((part[0][:rows], data))
                self.lacking[name] -= rows
        self.lacking = {name: left for name, left in self.lacking.items() if left}


def _parts_of(step: Readings) -> Iterator[tuple[str, Part]]:
    for name, part in step.split():
        yield name, (part.ts, part.data)
