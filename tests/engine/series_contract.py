"""What every engine promises about series, tags and widths, and what users see of them."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import treering
from tests.engine.contract import DAY_MS, NOW_MS, NOW_S, fresh_name, spec_of
from treering.core.bucket import BucketWidth
from treering.core.series import SeriesRecord
from treering.core.table import TableSpec
from treering.core.widths import WidthSince
from treering.engine.protocol import Engine
from treering.store import Store

HOUR, DAY = BucketWidth.HOUR, BucketWidth.DAY
EVER_HOUR = (WidthSince(width=HOUR, since_s=None),)


class SeriesContract:
    """Promises of the engine. Subclasses give the fixture ``engine``."""

    @pytest.fixture
    def engine(self) -> Iterator[Engine]:
        """Yield an open engine; it may hold tables of other tests."""
        raise NotImplementedError

    @pytest.fixture
    def spec(self, engine: Engine) -> TableSpec:
        """Return a table of day buckets."""
        return engine.create_table(spec_of(fresh_name("series")))

    def test_series_is_listed_with_its_tags_and_widths(
        self, engine: Engine, spec: TableSpec
    ) -> None:
        pump = SeriesRecord(name="pump", tags={"b": "2", "a": "1"}, widths=EVER_HOUR)
        assert engine.add_series(spec, ["plain", pump]) == (SeriesRecord(name="plain"), pump)
        assert engine.load_series(spec, ("pump", "plain", "none")) == {
            "pump": pump,
            "plain": SeriesRecord(name="plain"),
        }

    def test_series_that_is_there_stays_as_it_is(self, engine: Engine, spec: TableSpec) -> None:
        first = SeriesRecord(name="s", tags={"a": "1"}, widths=EVER_HOUR)
        engine.add_series(spec, [first])
        other = SeriesRecord(name="s", tags={"a": "2"})
        assert engine.add_series(spec, [other, "t"]) == (first, SeriesRecord(name="t"))
        assert list(engine.series(spec)) == ["s", "t"]

    def test_racing_callers_find_one_record(self, engine: Engine, spec: TableSpec) -> None:
        start = threading.Barrier(4)

        def add(number: int) -> SeriesRecord:
            start.wait(30)
            wanted = SeriesRecord(name="raced", tags={"by": str(number)}, widths=EVER_HOUR)
            return engine.add_series(spec, [wanted])[0]

        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(add, range(4)))
        assert len({record.tags["by"] for record in found}) == 1
        assert engine.read_widths(spec).histories == {"raced": EVER_HOUR}
        assert list(engine.series(spec, tags=found[0].tags)) == ["raced"]

    def test_only_deviating_series_are_in_the_widths(self, engine: Engine, spec: TableSpec) -> None:
        engine.add_series(spec, [f"plain-{number}" for number in range(150)])
        own = [SeriesRecord(name=f"own-{number}", widths=EVER_HOUR) for number in range(120)]
        engine.add_series(spec, own)
        news = engine.read_widths(spec)
        assert news.histories == {record.name: EVER_HOUR for record in own}
        assert engine.read_widths(spec, news.seen).histories == {}
        engine.add_series(spec, [SeriesRecord(name="later", widths=EVER_HOUR)])
        assert engine.read_widths(spec, news.seen).histories == {"later": EVER_HOUR}

    def test_width_changes_at_a_date_that_every_client_knows_in_time(
        self, engine: Engine, spec: TableSpec
    ) -> None:
        engine.add_series(spec, ["s"])
        seen = engine.read_widths(spec).seen
        record = engine.set_width(spec, "s", HOUR, now_s=NOW_S)
        (change,) = record.widths
        assert change.width is HOUR
        assert change.since_s is not None
        assert change.since_s % 3_600 == 0
        assert change.since_s > NOW_S + spec.future_limit_s + 120
        assert engine.read_widths(spec, seen).histories == {"s": record.widths}
        assert engine.load_series(spec, ("s",)) == {"s": record}

    def test_second_change_waits_for_the_first_and_a_repeat_is_free(
        self, engine: Engine, spec: TableSpec
    ) -> None:
        engine.add_series(spec, ["s"])
        record = engine.set_width(spec, "s", HOUR, now_s=NOW_S)
        assert engine.set_width(spec, "s", HOUR, now_s=NOW_S + 1) == record
        with pytest.raises(treering.WidthError, match="pending"):
            engine.set_width(spec, "s", BucketWidth.MINUTES_15, now_s=NOW_S + 60)
        later_s = NOW_S + DAY_MS // 1_000
        back = engine.set_width(spec, "s", DAY, now_s=later_s)
        assert [change.width for change in back.widths] == [HOUR, DAY]
        # The narrower width decides: the first day is clipped there.
        assert back.widths[1].since_s == ((later_s + 720) // 3_600 + 1) * 3_600

    def test_series_that_is_not_listed_has_no_width_and_no_tags(
        self, engine: Engine, spec: TableSpec
    ) -> None:
        with pytest.raises(treering.SeriesNotFoundError, match="never"):
            engine.set_width(spec, "never", HOUR, now_s=NOW_S)
        with pytest.raises(treering.SeriesNotFoundError, match="never"):
            engine.set_tags(spec, "never", {"a": "1"})
        assert list(engine.series(spec)) == []

    def test_series_are_found_by_all_their_tags(self, engine: Engine, spec: TableSpec) -> None:
        tags = [{"site": "north" if number % 2 else "south"} for number in range(250)]
        for number in range(0, 250, 50):
            tags[number]["kind"] = "pump"
            tags[number + 1]["kind"] = "pump"
        records = [SeriesRecord(name=f"s{number:03d}", tags=one) for number, one in enumerate(tags)]
        engine.add_series(spec, records)
        north = [record.name for record in records if record.tags["site"] == "north"]
        assert list(engine.series(spec, tags={"site": "north"})) == north
        both = {"kind": "pump", "site": "north"}
        assert list(engine.series(spec, tags=both)) == [f"s{n:03d}" for n in range(1, 250, 50)]
        assert list(engine.series(spec, prefix="s1", tags=both)) == ["s101", "s151"]
        assert list(engine.series(spec, tags={"site": "west"})) == []
        assert list(engine.series(spec, tags={"site": "north", "kind": "fan"})) == []

    def test_tags_that_change_are_found_as_they_are(self, engine: Engine, spec: TableSpec) -> None:
        engine.add_series(spec, [SeriesRecord(name="s", tags={"site": "north", "kind": "pump"})])
        record = engine.set_tags(spec, "s", {"site": "south", "kind": "pump"})
        assert record.tags == {"kind": "pump", "site": "south"}
        assert list(engine.series(spec, tags={"site": "north"})) == []
        assert list(engine.series(spec, tags={"site": "south"})) == ["s"]
        assert engine.set_tags(spec, "s", {}).tags == {}
        assert list(engine.series(spec, tags={"kind": "pump"})) == []
        assert list(engine.series(spec)) == ["s"]

    def test_removed_series_leaves_no_tag_and_no_width(
        self, engine: Engine, spec: TableSpec
    ) -> None:
        engine.add_series(spec, [SeriesRecord(name="s", tags={"a": "1"}, widths=EVER_HOUR), "t"])
        seen = engine.read_widths(spec).seen
        engine.remove_series(spec, ("s", "t", "never"))
        assert list(engine.series(spec)) == []
        assert list(engine.series(spec, tags={"a": "1"})) == []
        assert engine.read_widths(spec, seen).histories == {"s": ()}
        assert engine.add_series(spec, ["s"]) == (SeriesRecord(name="s"),)

    def test_dropped_table_leaves_no_series_tag_or_width(self, engine: Engine) -> None:
        first = engine.create_table(spec_of(fresh_name("dropped")))
        tagged = SeriesRecord(name="s", tags={"a": "1"}, widths=EVER_HOUR)
        engine.add_series(first, [tagged])
        engine.drop_table(first)
        second = engine.create_table(spec_of(first.name))
        assert list(engine.series(second, tags={"a": "1"})) == []
        assert engine.load_series(second, ("s",)) == {}
        assert engine.read_widths(second).histories == {}


class SeriesStoreContract:
    """What users see. Subclasses give the fixture ``store``."""

    @pytest.fixture
    def clock(self) -> treering.ManualClock:
        """Return a clock that stands at the tests' present."""
        return treering.ManualClock(dt.datetime.fromtimestamp(NOW_S, dt.UTC))

    @pytest.fixture
    def store(self, clock: treering.ManualClock) -> Iterator[Store]:
        """Yield an open store on ``clock``."""
        raise NotImplementedError

    @pytest.fixture
    def table(self, store: Store) -> treering.Table:
        """Return a table of day buckets and 30 days."""
        return store.create(fresh_name("readings"), rate="1/s", retention="30d")

    def test_width_follows_from_the_rate_by_the_designs_arithmetic(
        self, table: treering.Table
    ) -> None:
        fast = table.add_series("fast", rate="10/s", tags={"site": "north"})
        assert [change.width for change in fast.widths] == ["6h"]
        assert table.add_series("same", rate="1/s").widths == ()
        assert table.add_series("fast", rate="10/s", tags={"site": "north"}) == fast
        with pytest.raises(treering.UsageError, match="another bucket width"):
            table.add_series("same", rate="300/s")
        with pytest.raises(treering.UsageError, match="site=north"):
            table.add_series("fast", tags={"site": "south"})
        with pytest.raises(treering.DesignError, match="ceiling"):
            table.add_series("huge", rate="10000000/s")

    def test_series_of_its_own_width_reads_what_it_wrote(self, table: treering.Table) -> None:
        table.add_series("fast", bucket="hour")
        times = np.arange(NOW_MS - 3 * DAY_MS, NOW_MS, 600_000)
        for name in ("fast", "plain"):
            table.write(name, times, unit="ms", value=times.astype(float))
            assert table.read(name, "-4d").ts.tolist() == times.tolist()
        plan = table.explain(["fast", "plain"], "-2d")
        widths = {read.series: read.bucket.width for read in plan.reads}
        assert widths == {"fast": "hour", "plain": "day"}
        assert "hour" in treering.render_read_plan(plan)
        assert table.latest("fast", 3).ts.tolist() == times[:-4:-1].tolist()

    def test_both_layouts_are_read_without_gap_or_duplicate(
        self, table: treering.Table, clock: treering.ManualClock
    ) -> None:
        table.write("s", [NOW_MS - 1], unit="ms", value=[1.0])
        (change,) = table.set_bucket("s", "hour").widths
        assert change.since_s is not None
        since_ms = change.since_s * 1_000
        clock.set(dt.datetime.fromtimestamp(change.since_s + 7_200, dt.UTC))
        times = [since_ms - 3_600_000, since_ms - 1, since_ms, since_ms + 1, since_ms + 5_400_000]
        table.write("s", times, unit="ms", value=[float(ts) for ts in times])
        plan = table.explain("s", "-2d")
        assert {read.bucket.width for read in plan.reads} == {"day", "hour"}
        everything = [NOW_MS - 1, *times]
        assert table.read("s", "-2d").ts.tolist() == everything
        assert table.read("s", "-2d", order="desc").ts.tolist() == everything[::-1]
        assert table.latest("s", 6).ts.tolist() == everything[::-1]
        assert "hour from" in treering.render_read_plan(plan)
        assert table.series_record("s").widths == (change,)

    def test_second_client_sees_the_change_before_it_is_true(
        self, store: Store, table: treering.Table, clock: treering.ManualClock
    ) -> None:
        other = Store(store._engine, clock=clock).table(table.name)
        other.write("s", [NOW_MS], unit="ms", value=[1.0])
        (change,) = table.set_bucket("s", "hour").widths
        assert change.since_s is not None
        assert {r.bucket.width for r in other.explain("s", "-1d").reads} == {"day"}
        clock.set(dt.datetime.fromtimestamp(change.since_s + 1, dt.UTC))
        since_ms = change.since_s * 1_000
        other.write("s", [since_ms], unit="ms", value=[2.0])
        assert table.read("s", since_ms, since_ms + 1, unit="ms")["value"].tolist() == [2.0]

    def test_series_that_another_client_enters_is_written_where_it_belongs(
        self, store: Store, table: treering.Table, clock: treering.ManualClock
    ) -> None:
        table.write("old", [NOW_MS], unit="ms", value=[0.0])
        other = Store(store._engine, clock=clock).table(table.name)
        other.add_series("new", bucket="hour")
        table.write("new", [NOW_MS], unit="ms", value=[1.0])
        assert other.read("new", "-1d")["value"].tolist() == [1.0]
        other.add_series("newer", bucket="15min")
        other.write("newer", [NOW_MS], unit="ms", value=[2.0])
        assert table.read("newer", "-1d")["value"].tolist() == [2.0]
        assert table.latest("newer")["value"].tolist() == [2.0]

    def test_reads_by_tag_find_every_series_once(self, table: treering.Table) -> None:
        for number in range(4):
            name = f"pump-{number}"
            table.add_series(name, tags={"site": "north" if number < 3 else "south"})
            table.write(name, [NOW_MS], unit="ms", value=[float(number)])
        found = table.read(table.series(tags={"site": "north"}), "-1d")
        assert found.series == ("pump-0", "pump-1", "pump-2")
        assert found["value"].tolist() == [0.0, 1.0, 2.0]
        assert list(table.series(prefix="pump-2", tags={"site": "north"})) == ["pump-2"]
        with pytest.raises(treering.UsageError, match="at least one"):
            table.read(table.series(tags={"site": "west"}), "-1d")
        with pytest.raises(treering.FanOutTooWideError, match="more than 2 series"):
            table.read(table.series(), "-1d", fan_out_max=2)

    @pytest.mark.parametrize(
        "tags",
        [{"a": 1}, {"a": 1.0}, {"a": None}, {1: "a"}, {"": "a"}, {"a": ""}, {"a": "x" * 257}],
    )
    def test_tags_that_are_not_text_make_no_series(
        self, table: treering.Table, tags: dict[str, str]
    ) -> None:
        with pytest.raises(treering.UsageError):
            table.add_series("s", tags=tags)
        assert list(table.series()) == []

    def test_order_of_tags_makes_no_second_series(self, table: treering.Table) -> None:
        table.add_series("s", tags={"a": "1", "b": "2"})
        assert table.add_series("s", tags={"b": "2", "a": "1"}).name == "s"
        assert list(table.series(tags={"b": "2", "a": "1"})) == ["s"]
        assert list(table.series()) == ["s"]
