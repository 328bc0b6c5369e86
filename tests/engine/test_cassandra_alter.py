"""A change of the retention that is cut short keeps readings long enough, and can be completed."""

from __future__ import annotations

import datetime as dt
import time
import uuid
from collections.abc import Iterator

import pytest

import treering
from tests.engine.contract import fresh_name
from treering.core.retention import buckets_to_mark
from treering.core.units import DAY_S
from treering.engine.cassandra import CassandraEngine
from treering.engine.cassandra.catalog import Catalog
from treering.errors import UnavailableError
from treering.store import Store
from treering.testing import LocalCassandra


@pytest.fixture(scope="module")
def url(cassandra_node: LocalCassandra) -> str:
    """The address of a keyspace that the tests of this module share."""
    return cassandra_node.url(f"alter_{uuid.uuid4().hex[:8]}")


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with treering.open(url, replication={"datacenter1": 1}) as store:
        yield store


def options(store: Store, table: treering.Table) -> tuple[int, str]:
    """Return the default lifetime and the window that the server has."""
    engine = store._engine
    assert isinstance(engine, CassandraEngine)
    found = engine._catalog._table_row(table.name)
    assert found is not None
    compaction = found["compaction"]
    window = f"{compaction['compaction_window_size']} {compaction['compaction_window_unit']}"
    return found["default_time_to_live"], window


@pytest.fixture
def present_ms() -> int:
    """The present by the clock that these stores go by, like the server."""
    return time.time_ns() // 1_000_000


class CutError(UnavailableError):
    """The process ends here."""


@pytest.mark.parametrize("days", [10, 90], ids=["shorter", "longer"])
@pytest.mark.parametrize("step", ["_enter_change", "run_ddl"])
def test_change_that_is_cut_short_never_lets_readings_die_early_and_is_completed(
    store: Store, monkeypatch: pytest.MonkeyPatch, days: int, step: str
) -> None:
    table = store.create(fresh_name("cut"), rate="1/s", retention="30d")
    before = options(store, table)
    assert before == (30 * DAY_S, "1 DAYS")

    def cut(*_: object, **__: object) -> None:
        raise CutError("the process ends here")

    engine = store._engine
    assert isinstance(engine, CassandraEngine)
    with monkeypatch.context() as patch:
        target: object = Catalog if step == "_enter_change" else engine._link
        patch.setattr(target, step, cut)
        with pytest.raises(CutError):
            table.set_retention(f"{days}d")
    promised = store.table(table.name).spec.retention_s
    assert promised is not None
    assert options(store, table)[0] >= promised
    table.set_retention(f"{days}d")
    assert store.table(table.name).spec.retention_s == days * DAY_S
    assert options(store, table) == (days * DAY_S, "3 DAYS" if days == 90 else "8 HOURS")
    assert table.info().problems == ()
    assert table.set_retention(f"{days}d").steps == ()


def test_what_is_written_after_the_change_lives_as_long_as_it_says(
    store: Store, present_ms: int
) -> None:
    table = store.create(fresh_name("lives"), rate="1/s", retention="30d")
    engine = store._engine
    assert isinstance(engine, CassandraEngine)

    def lifetime(ts: int) -> int:
        bucket = treering.bucket_of(ts, table.bucket)
        rows = engine._link.query(
            f"SELECT TTL(value) AS ttl FROM {engine._keyspace}.{table.name} "
            "WHERE series = ? AND bucket = ? AND ts = ?",
            *("s", bucket.text, ts),
            what="reading a lifetime",
        )
        return int(next(rows)["ttl"])

    assert table.write("s", [present_ms], unit="ms", value=[1.0]).accepted == 1
    table.set_retention("90d")
    assert table.write("s", [present_ms + 1], unit="ms", value=[1.0]).accepted == 1
    # The first keeps what it was written with; a minute is lost on the way at most.
    assert 30 * DAY_S - 600 < lifetime(present_ms) <= 30 * DAY_S
    assert 90 * DAY_S - 600 < lifetime(present_ms + 1) <= 90 * DAY_S


def test_longer_retention_marks_the_newest_buckets_anew(store: Store, present_ms: int) -> None:
    table = store.create(fresh_name("marks"), rate="1/s", retention="30d")
    assert table.write("s", [present_ms], unit="ms", value=[1.0]).accepted == 1
    engine = store._engine
    assert isinstance(engine, CassandraEngine)

    table.set_retention("90d")
    rows = engine._link.query(
        f"SELECT start FROM {engine._keyspace}.treering_buckets "
        "WHERE table_name = ? AND incarnation = ? AND series = ? AND era = ''",
        *(table.name, table.spec.incarnation, "s"),
        what="listing marks",
    )
    listed = {int(row["start"].replace(tzinfo=dt.UTC).timestamp()) for row in rows}
    wanted = {bucket.start_s for bucket in buckets_to_mark(table.spec, int(time.time()))}
    assert len(wanted) >= 4
    assert wanted <= listed
