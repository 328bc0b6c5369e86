"""Leases: widths are read again in time, and a clock that is off writes nothing."""

from __future__ import annotations

from typing import Any

import pytest

import treering
from tests.engine.contract import NOW_MS, NOW_S, spec_of
from treering.core.bucket import BucketWidth
from treering.core.series import SeriesRecord
from treering.core.table import TableSpec
from treering.core.widths import WidthSince
from treering.engine.memory import MemoryEngine
from treering.leases import LeaseTerms, SeriesLease

HOUR = (WidthSince(width=BucketWidth.HOUR, since_s=None),)


class Counting(MemoryEngine):
    """Counts the requests to the catalog, and has a clock of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[Any] = []
        self.loads: list[tuple[str, ...]] = []
        self.clock_s: float | None = None
        self.looks = 0
        self.is_durable = True

    def check_durable(self, spec: TableSpec) -> None:
        self.looks += 1
        if not self.is_durable:
            raise treering.UsageError("durable_writes = false", hint="ALTER KEYSPACE")

    def read_widths(self, spec: TableSpec, seen: Any = None, **options: Any) -> Any:
        self.reads.append(seen)
        return super().read_widths(spec, seen, **options)

    def load_series(self, spec: TableSpec, names: tuple[str, ...], **options: Any) -> Any:
        self.loads.append(names)
        return super().load_series(spec, names, **options)

    def server_time_s(self) -> float | None:
        return self.clock_s


class Times:
    """Clocks that are set by hand."""

    def __init__(self) -> None:
        self.elapsed = 0.0
        self.wall = float(NOW_S)

    def terms(self) -> LeaseTerms:
        return LeaseTerms(elapsed_s=lambda: self.elapsed, wall_s=lambda: self.wall)


@pytest.fixture
def engine() -> Counting:
    return Counting()


@pytest.fixture
def times() -> Times:
    return Times()


@pytest.fixture
def spec(engine: Counting) -> TableSpec:
    return engine.create_table(spec_of("leased"))


def test_widths_are_held_for_one_lease_and_then_read_again(
    engine: Counting, spec: TableSpec, times: Times
) -> None:
    lease = SeriesLease(spec, engine, times.terms())
    engine.add_series(spec, [SeriesRecord(name="s", widths=HOUR)])
    assert lease.widths_to_write(["s", "t"], NOW_MS) == {"s": HOUR}
    times.elapsed = 59.9
    lease.widths_to_write(["s"], NOW_MS + 59_900)
    assert len(engine.reads) == 1
    times.elapsed = 60.0
    lease.widths_to_write(["s"], NOW_MS + 59_900)
    assert engine.reads == [None, 1]


def test_present_that_runs_past_the_lease_reads_again_whatever_the_other_clock_says(
    engine: Counting, spec: TableSpec, times: Times
) -> None:
    lease = SeriesLease(spec, engine, times.terms())
    lease.widths_to_write(["s"], NOW_MS)
    lease.widths_to_write(["s"], NOW_MS + 59_999)
    assert len(engine.reads) == 1
    lease.widths_to_write(["s"], NOW_MS + 60_000)
    assert len(engine.reads) == 2


def test_ordinary_series_are_not_held(engine: Counting, spec: TableSpec, times: Times) -> None:
    engine.add_series(spec, [f"s{number}" for number in range(1_000)])
    lease = SeriesLease(spec, engine, times.terms())
    lease.widths_to_write([], NOW_MS)
    assert lease.deviating == 0
    assert not lease.is_known("s1")


def test_new_names_are_looked_for_once(engine: Counting, spec: TableSpec, times: Times) -> None:
    lease = SeriesLease(spec, engine, times.terms())
    engine.add_series(spec, ["s"])
    for _ in range(3):
        assert lease.widths_to_read(["s"], NOW_MS) == {}
    assert engine.loads == [("s",)]
    lease.widths_to_read(["never"], NOW_MS)
    lease.widths_to_read(["never"], NOW_MS)
    assert engine.loads[1:] == [("never",), ("never",)]
    lease.forget(["s"])
    lease.widths_to_read(["s"], NOW_MS)
    assert engine.loads[-1] == ("s",)


def test_series_entered_during_the_lease_is_read_where_it_lies(
    engine: Counting, spec: TableSpec, times: Times
) -> None:
    lease = SeriesLease(spec, engine, times.terms())
    lease.widths_to_read(["other"], NOW_MS)
    engine.add_series(spec, [SeriesRecord(name="s", widths=HOUR)])
    assert lease.widths_to_read(["s"], NOW_MS) == {"s": HOUR}


@pytest.mark.parametrize("off_s", [-5.1, 5.1, 3_600.0])
def test_clock_that_is_off_reads_and_writes_nothing(
    engine: Counting, spec: TableSpec, times: Times, off_s: float
) -> None:
    lease = SeriesLease(spec, engine, times.terms())
    engine.clock_s = times.wall - off_s
    lease.widths_to_read(["s"], NOW_MS)
    with pytest.raises(treering.EngineError, match="clock") as caught:
        lease.widths_to_write(["s"], NOW_MS)
    assert ("ahead" if off_s > 0 else "behind") in str(caught.value)
    times.wall -= off_s
    assert lease.widths_to_write(["s"], NOW_MS) == {}


def test_clock_within_the_bound_writes(engine: Counting, spec: TableSpec, times: Times) -> None:
    lease = SeriesLease(spec, engine, times.terms())
    engine.clock_s = times.wall + 4.9
    assert lease.widths_to_write(["s"], NOW_MS) == {}


def test_whether_writes_are_durable_is_looked_at_once_a_lease_and_until_they_are(
    engine: Counting, spec: TableSpec, times: Times
) -> None:
    lease = SeriesLease(spec, engine, times.terms())
    lease.widths_to_read(["s"], NOW_MS)
    assert engine.looks == 0
    engine.is_durable = False
    for _ in range(2):
        with pytest.raises(treering.UsageError, match="durable_writes"):
            lease.widths_to_write(["s"], NOW_MS)
        with pytest.raises(treering.UsageError, match="durable_writes"):
            lease.enter(["s"], NOW_MS)
    assert not engine.has_series(spec, "s")
    engine.is_durable = True
    for elapsed_s, looks in ((0.0, 5), (59.9, 5), (60.0, 6)):
        times.elapsed = elapsed_s
        lease.widths_to_write(["s"], NOW_MS + 60_000)
        assert engine.looks == looks
