"""Tables that a plain client made and fills, adopted, read and written on a real node."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

import treering
from tests.engine.contract import NOW_MS
from treering.store import Store
from treering.testing import LocalCassandra

if TYPE_CHECKING:
    from cassandra.cluster import Session

DAY_MS = 86_400_000
NOW = dt.datetime.fromtimestamp(NOW_MS / 1_000, dt.UTC)
DEVICE = uuid.UUID("0b1f3f8e-3f6d-4c0e-9a57-0d5b2f1c7e11")
ENTITY = uuid.UUID("6a1f9d10-c0ff-11ee-8f3e-8b2c7a1d9e55")  # A version 1 UUID.


@pytest.fixture(scope="module")
def keyspace(cassandra_node: LocalCassandra, cassandra_session: Session) -> Iterator[str]:
    """Yield a keyspace of others, which the tests of this module share."""
    name = f"others_{uuid.uuid4().hex[:8]}"
    cassandra_session.execute(
        f"CREATE KEYSPACE {name} WITH replication = "
        "{'class': 'NetworkTopologyStrategy', 'datacenter1': 1}"
    )
    yield name
    cassandra_session.execute(f"DROP KEYSPACE {name}")


@pytest.fixture
def store(
    cassandra_keyspace: str,
) -> Iterator[Store]:
    """Yield a store of its own keyspace, with the clock at noon of today."""
    clock = treering.ManualClock(NOW.isoformat())
    with treering.open(cassandra_keyspace, clock=clock) as opened:
        yield opened


def day_of(ms: int) -> str:
    """Return the UTC day of a time, as other clients write it."""
    return dt.datetime.fromtimestamp(ms / 1_000, dt.UTC).strftime("%Y-%m-%d")


def moment(ms: int) -> dt.datetime:
    """Return a time as the plain client takes it."""
    return dt.datetime.fromtimestamp(ms / 1_000, dt.UTC)


def times_back(count: int, step_ms: int) -> list[int]:
    """Return times from now back, oldest first."""
    return [NOW_MS - step_ms * back for back in reversed(range(count))]


def pairs_of(readings: treering.Readings, column: str = "value") -> list[tuple[int, Any]]:
    """Return (event time, value) of readings."""
    return list(zip(readings.ts.tolist(), readings[column].tolist(), strict=True))


def shape_of(session: Session, keyspace: str, table: str) -> list[Any]:
    """Return what the server says about a table."""
    where = f"WHERE keyspace_name = '{keyspace}' AND table_name = '{table}'"
    columns = session.execute(f"SELECT * FROM system_schema.columns {where}")
    options = session.execute(f"SELECT * FROM system_schema.tables {where}")
    return [*map(str, columns), *map(str, options)]


def test_sensor_data_whose_key_is_series_and_day_in_one_text(
    cassandra_session: Session, keyspace: str, store: Store
) -> None:
    table = f"{keyspace}.sensor_data"
    cassandra_session.execute(
        f"CREATE TABLE {table} (sensor_day text, event_time timestamp, value double, unit text, "
        "raw blob, PRIMARY KEY (sensor_day, event_time)) "
        "WITH CLUSTERING ORDER BY (event_time DESC) AND default_time_to_live = 2592000"
    )
    times = times_back(60, 3_600_000)
    insert = cassandra_session.prepare(
        f"INSERT INTO {table} (sensor_day, event_time, value, unit) VALUES (?, ?, ?, ?)"
    )
    for place, ts in enumerate(times):
        for sensor in ("sensor_42", "sensor:7"):
            key = f"{sensor}:{day_of(ts)}"
            cassandra_session.execute(insert, (key, moment(ts), float(place), "C"))
    before = shape_of(cassandra_session, keyspace, "sensor_data")

    plan = store.plan_adopt(table)
    assert plan.layout.bucket is not None
    assert plan.layout.bucket.form.text == "{series}:{bucket}"
    assert (plan.spec.width, plan.spec.retention_s) == ("day", 2_592_000)
    assert dict(plan.left_out) == {"raw": "treering does not read blob"}
    assert store.tables() == ()

    t = store.adopt(plan)
    expected = [(ts, float(place)) for place, ts in enumerate(times)]
    for sensor in ("sensor_42", "sensor:7"):
        assert pairs_of(t.read(sensor, "-5d")) == expected
    assert pairs_of(t.latest("sensor_42", 3)) == expected[:-4:-1]
    assert len(t.read("sensor_43", "-5d")) == 0
    t.write("sensor_42", moment(NOW_MS + 1_000), {"value": 99.0, "unit": "K"})
    row = cassandra_session.execute(
        f"SELECT value, unit, TTL(value) AS ttl FROM {table} WHERE sensor_day = %s AND "
        "event_time = %s",
        (f"sensor_42:{day_of(NOW_MS)}", moment(NOW_MS + 1_000)),
    ).one()
    assert (row.value, row.unit) == (99.0, "K")
    assert 0 < row.ttl <= 2_592_000 + 600
    assert shape_of(cassandra_session, keyspace, "sensor_data") == before


def test_readings_of_a_uuid_by_day_text(
    cassandra_session: Session, keyspace: str, store: Store
) -> None:
    table = f"{keyspace}.readings"
    cassandra_session.execute(
        f"CREATE TABLE {table} (sensor_id uuid, bucket text, ts timestamp, temperature double, "
        "humidity float, PRIMARY KEY ((sensor_id, bucket), ts)) "
        "WITH CLUSTERING ORDER BY (ts DESC)"
    )
    insert = cassandra_session.prepare(
        f"INSERT INTO {table} (sensor_id, bucket, ts, temperature) VALUES (?, ?, ?, ?)"
    )
    times = times_back(50, 3_600_000)
    for place, ts in enumerate(times):
        cassandra_session.execute(insert, (DEVICE, day_of(ts), moment(ts), float(place)))

    t = store.adopt(table, name="climate")
    got = t.read(str(DEVICE), "-4d")
    assert pairs_of(got, "temperature") == [(ts, float(n)) for n, ts in enumerate(times)]
    assert not got.data["humidity"].mask().any()
    with pytest.raises(treering.UsageError, match="takes uuid, not 'pump-7'"):
        t.read("pump-7", "-4d")
    with pytest.raises(treering.UsageError, match="not written as"):
        t.write(str(DEVICE).upper(), moment(NOW_MS), temperature=1.0)
    t.write(str(DEVICE), moment(NOW_MS + 5_000), temperature=-1.5)
    rows = cassandra_session.execute(
        f"SELECT ts, temperature, humidity, TTL(temperature) AS ttl FROM {table} "
        "WHERE sensor_id = %s AND bucket = %s LIMIT 1",
        (DEVICE, day_of(NOW_MS)),
    ).one()
    assert (rows.temperature, rows.humidity, rows.ttl) == (-1.5, None, None)
    assert list(t.series()) == [str(DEVICE)]


def test_device_and_date(cassandra_session: Session, keyspace: str, store: Store) -> None:
    table = f"{keyspace}.by_day"
    cassandra_session.execute(
        f"CREATE TABLE {table} (device_id text, day date, reading_time timestamp, "
        "value double, PRIMARY KEY ((device_id, day), reading_time))"
    )
    insert = cassandra_session.prepare(
        f"INSERT INTO {table} (device_id, day, reading_time, value) VALUES (?, ?, ?, ?)"
    )
    times = times_back(40, 5_400_000)
    for place, ts in enumerate(times):
        cassandra_session.execute(insert, ("d-1", day_of(ts), moment(ts), float(place)))

    t = store.adopt(table, series="device_id", bucket="day", time="reading_time", values=["value"])
    assert t.bucket == "day"
    assert pairs_of(t.read("d-1", "-4d")) == [(ts, float(n)) for n, ts in enumerate(times)]
    # A day long ago, where nothing of ours is listed: every bucket of the interval is read.
    old = NOW_MS - 400 * DAY_MS
    cassandra_session.execute(insert, ("d-1", day_of(old), moment(old), 7.0))
    assert pairs_of(t.read("d-1", "-401d", "-399d")) == [(old, 7.0)]
    assert pairs_of(t.read("d-1", "-401d", limit=1)) == [(old, 7.0)]
    cassandra_session.execute(insert, ("silent", day_of(old), moment(old), 8.0))
    assert len(t.latest("silent")) == 0
    assert pairs_of(t.latest("silent", look_back="500d")) == [(old, 8.0)]
    t.write("d-1", moment(old - DAY_MS), value=6.5)
    row = cassandra_session.execute(
        f"SELECT value FROM {table} WHERE device_id = 'd-1' AND day = %s",
        (day_of(old - DAY_MS),),
    ).one()
    assert row.value == 6.5


THINGSBOARD = (
    "entity_type text, entity_id timeuuid, key text, partition bigint, ts bigint, "
    "bool_v boolean, str_v text, long_v bigint, dbl_v double, json_v text, "
    "PRIMARY KEY ((entity_type, entity_id, key, partition), ts)"
)


def month_ms(ms: int) -> int:
    """Return the start of the UTC month of a time."""
    start = moment(ms).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return int(start.timestamp()) * 1_000


def test_thingsboard_values_by_month(
    cassandra_session: Session, keyspace: str, store: Store
) -> None:
    table = f"{keyspace}.ts_kv_cf"
    cassandra_session.execute(f"CREATE TABLE {table} ({THINGSBOARD})")
    insert = cassandra_session.prepare(
        f"INSERT INTO {table} (entity_type, entity_id, key, partition, ts, dbl_v) "
        "VALUES (?, ?, ?, ?, ?, ?)"
    )
    times = times_back(80, DAY_MS)
    for place, ts in enumerate(times):
        for key in ("temperature", "flow m3/h"):
            values = ("DEVICE", ENTITY, key, month_ms(ts), ts, place / 2)
            cassandra_session.execute(insert, values)

    plan = store.plan_adopt(table, name="telemetry")
    assert plan.layout.bucket is not None
    assert (plan.layout.bucket.name, plan.layout.bucket.form.text) == ("partition", "epoch-ms")
    assert (plan.spec.width, plan.layout.time.unit) == ("month", "ms")
    assert plan.layout.series_text == "{entity_type}/{entity_id}/{key}"
    t = store.adopt(plan)
    assert store.table("telemetry").spec == t.spec
    series = f"DEVICE/{ENTITY}/temperature"
    assert pairs_of(t.read(series, "-90d"), "dbl_v") == [(ts, n / 2) for n, ts in enumerate(times)]
    assert len(t.read(f"DEVICE/{ENTITY}/flow m3%2Fh", "-90d")) == 80
    with pytest.raises(treering.UsageError, match="has 4 parts, not 3"):
        t.read(f"DEVICE/{ENTITY}/flow m3/h", "-90d")
    t.write(series, moment(NOW_MS + 2_000), long_v=12, str_v="on", bool_v=True)
    row = cassandra_session.execute(
        f"SELECT ts, long_v, str_v, bool_v, dbl_v FROM {table} WHERE entity_type = 'DEVICE' AND "
        "entity_id = %s AND key = 'temperature' AND partition = %s ORDER BY ts DESC LIMIT 1",
        (ENTITY, month_ms(NOW_MS)),
    ).one()
    assert tuple(row) == (NOW_MS + 2_000, 12, "on", True, None)


def test_wrong_guesses_are_refused_with_the_row_that_contradicts(
    cassandra_session: Session, keyspace: str, store: Store
) -> None:
    table = f"{keyspace}.guessed"
    cassandra_session.execute(f"CREATE TABLE {table} ({THINGSBOARD})")
    insert = cassandra_session.prepare(
        f"INSERT INTO {table} (entity_type, entity_id, key, partition, ts, dbl_v) "
        "VALUES ('DEVICE', ?, 'k', ?, ?, 1.0)"
    )
    ts = month_ms(NOW_MS) + 3 * DAY_MS + 1_000
    for place in range(20):
        at = ts - place * DAY_MS
        cassandra_session.execute(insert, (ENTITY, month_ms(at), at))
    with pytest.raises(treering.SchemaMismatchError, match=r"not the day of the event time") as day:
        store.adopt(table, width="day")
    assert f"DEVICE/{ENTITY}/k" in str(day.value)
    assert f"belongs in {ts // DAY_MS * DAY_MS}" in "; ".join(day.value.misfits)
    with pytest.raises(treering.SchemaMismatchError, match=r"does not count us.*would be 1970-01"):
        store.adopt(table, time_unit="us")
    with pytest.raises(treering.SchemaMismatchError, match="as 'epoch-s' in 20 of 20"):
        store.adopt(table, bucket_form="epoch-s", width="month")
    with pytest.raises(treering.SchemaMismatchError, match=r"no bucket form|not the"):
        store.adopt(table, bucket="key")
    with pytest.raises(treering.UsageError, match="is neither series nor bucket"):
        store.adopt(table, series=["entity_id", "key"], bucket="partition")
    with pytest.raises(treering.UsageError, match="clusters by ts, not by 'partition'"):
        store.adopt(table, time="partition")
    with pytest.raises(treering.UsageError, match="there is no table"):
        store.adopt(f"{keyspace}.nowhere")
    assert store.tables() == ()


def test_row_in_the_wrong_bucket_is_named(
    cassandra_session: Session, keyspace: str, store: Store
) -> None:
    table = f"{keyspace}.local_days"
    cassandra_session.execute(
        f"CREATE TABLE {table} (s text, day text, at timestamp, value double, "
        "PRIMARY KEY ((s, day), at))"
    )
    insert = cassandra_session.prepare(
        f"INSERT INTO {table} (s, day, at, value) VALUES ('s', ?, ?, 1.0)"
    )
    for hours in range(48):
        ts = NOW_MS - hours * 3_600_000
        # Days of a zone two hours east of Greenwich.
        cassandra_session.execute(insert, (day_of(ts + 7_200_000), moment(ts)))
    with pytest.raises(treering.SchemaMismatchError) as refused:
        store.adopt(table, bucket="day")
    assert f"at {day_of(NOW_MS - DAY_MS)}T22:00:00.000Z" in "; ".join(refused.value.misfits)
    assert "in 4 of 48 sampled rows" in str(refused.value)
    assert "UTC" in refused.value.hint


def test_times_in_timeuuids_and_series_without_a_bucket(
    cassandra_session: Session, keyspace: str, store: Store
) -> None:
    from cassandra.util import uuid_from_time

    table = f"{keyspace}.events"
    cassandra_session.execute(
        f'CREATE TABLE {table} (line int, id timeuuid, "Level" int, PRIMARY KEY (line, id))'
    )
    insert = cassandra_session.prepare(f'INSERT INTO {table} (line, id, "Level") VALUES (?, ?, ?)')
    times = times_back(70, DAY_MS)
    for place, ts in enumerate(times):
        cassandra_session.execute(insert, (-3, uuid_from_time(ts / 1_000), place))
    t = store.adopt(table)
    assert t.spec.layout.bucket is None
    assert t.precision == "us"
    expected = [(ts * 1_000, n) for n, ts in enumerate(times)]
    assert pairs_of(t.read("-3", "-80d"), "level") == expected
    assert pairs_of(t.read("-3", "-80d", order="desc", limit=2), "level") == expected[:-3:-1]
    start, end = moment(times[3]), moment(times[5])
    assert pairs_of(t.read("-3", start, end), "level") == expected[3:5]
    for _ in range(2):
        t.write("-3", moment(NOW_MS + 1_000), level=-9)
    assert pairs_of(t.latest("-3", 2), "level") == [((NOW_MS + 1_000) * 1_000, -9), expected[-1]]
    assert cassandra_session.execute(f"SELECT count(*) FROM {table}").one()[0] == 71


def test_deletion_takes_what_was_meant_and_never_a_whole_unbucketed_series(
    cassandra_session: Session, keyspace: str, store: Store
) -> None:
    table = f"{keyspace}.whole_series"
    cassandra_session.execute(
        f"CREATE TABLE {table} (s text, at timestamp, value double, PRIMARY KEY (s, at))"
    )
    insert = cassandra_session.prepare(f"INSERT INTO {table} (s, at, value) VALUES ('s', ?, 1.0)")
    times = times_back(100, DAY_MS)
    for ts in times:
        cassandra_session.execute(insert, (moment(ts),))
    t = store.adopt(table)
    assert t.spec.layout.bucket is None
    # More than two whole months, which are no partitions of their own here.
    t.delete("s", moment(times[5]), moment(times[90]))
    assert t.read("s", "-200d").ts.tolist() == times[:5] + times[90:]


def test_seconds_count_and_finer_times_are_floored_or_refused(
    cassandra_session: Session, keyspace: str, store: Store
) -> None:
    table = f"{keyspace}.seconds"
    cassandra_session.execute(
        f"CREATE TABLE {table} (s text, hour int, t bigint, value double, "
        "PRIMARY KEY ((s, hour), t))"
    )
    insert = cassandra_session.prepare(
        f"INSERT INTO {table} (s, hour, t, value) VALUES ('s', ?, ?, ?)"
    )
    for back in range(100):
        second = NOW_MS // 1_000 - back * 100
        cassandra_session.execute(insert, (second // 3_600, second, float(back)))
    t = store.adopt(table, name="floored")
    assert t.spec.layout.bucket is not None
    assert (t.bucket, t.spec.layout.bucket.form.text) == ("hour", "epoch-h")
    assert t.spec.design.workload.rate_hz == pytest.approx(0.01)
    report = t.write("s", moment(NOW_MS + 1_500), value=5.0)
    assert (report.accepted, report.floored) == (1, 1)
    # An end inside a second takes that second in, a start inside one leaves it out.
    assert pairs_of(t.read("s", moment(NOW_MS - 500), moment(NOW_MS + 1_500))) == [
        (NOW_MS, 0.0),
        (NOW_MS + 1_000, 5.0),
    ]
    strict = store.adopt(table, name="strict", finer="refuse")
    (refusal,) = strict.write("s", moment(NOW_MS + 1_500), value=5.0).refused
    assert refusal.reason is treering.Reason.FINER


def test_adopted_table_is_left_alone_by_drop_and_can_be_adopted_again(
    cassandra_session: Session, keyspace: str, store: Store
) -> None:
    table = f"{keyspace}.kept"
    cassandra_session.execute(
        f"CREATE TABLE {table} (s text, month text, at timestamp, value double, "
        "PRIMARY KEY ((s, month), at))"
    )
    with pytest.raises(treering.UsageError, match="no rows that would say"):
        store.adopt(table)
    said = {"series": "s", "bucket": "month", "bucket_form": "{bucket}", "width": "month"}
    t = store.adopt(table, **said)
    assert store.adopt(table, **said).spec == t.spec
    t.write("s", moment(NOW_MS), value=1.0)
    with pytest.raises(treering.SchemaMismatchError, match="layout:"):
        store.adopt(table, **said, values={"v": "value"})
    assert t.info().problems == ()
    cassandra_session.execute(f"ALTER TABLE {table} WITH default_time_to_live = 60")
    assert "default_time_to_live is 60" in t.info().problems[0]
    with pytest.raises(treering.UsageError, match="are those of who made it"):
        t.set_retention("7d")
    cassandra_session.execute(f"ALTER TABLE {table} RENAME s TO sensor")
    with pytest.raises(treering.SchemaMismatchError, match="the column s is missing"):
        store.table("kept")
    cassandra_session.execute(f"ALTER TABLE {table} RENAME sensor TO s")
    store.drop("kept")
    assert store.tables() == ()
    assert cassandra_session.execute(f"SELECT value FROM {table}").one().value == 1.0
    assert store.adopt(table, **said).spec.incarnation == 2


def test_scan_finds_the_series_of_others_in_bounded_steps(
    cassandra_session: Session, keyspace: str, store: Store
) -> None:
    table = f"{keyspace}.many"
    cassandra_session.execute(
        f"CREATE TABLE {table} (s text, day text, at timestamp, value double, "
        "PRIMARY KEY ((s, day), at))"
    )
    insert = cassandra_session.prepare(
        f"INSERT INTO {table} (s, day, at, value) VALUES (?, ?, ?, 1.0)"
    )
    names = [f"pump-{number:04d}" for number in range(1_300)]
    requests = []
    for back in (0, DAY_MS + 3_600_000):
        at = NOW_MS - back
        requests += [(insert, (name, day_of(at), moment(at))) for name in names]
    requests.append((insert, ("bad\nname", day_of(NOW_MS), moment(NOW_MS))))
    for future in [cassandra_session.execute_async(*request) for request in requests]:
        future.result()
    t = store.adopt(table)
    assert list(t.series()) == []
    token, found, partitions, unnamed, steps = None, set(), 0, 0, 0
    while steps == 0 or token is not None:
        scan = t.scan_series(token=token, partitions_max=500)
        found |= set(scan.series)
        partitions, unnamed = partitions + scan.partitions, unnamed + scan.unnamed
        token, steps = scan.next_token, steps + 1
    assert (len(found), partitions, unnamed) == (1_300, 2_601, 1)
    assert steps == 3
    assert list(t.series()) == names
    assert list(t.series(prefix="pump-000")) == names[:10]
    own = store.create("own", rate="1/s", retention="30d")
    with pytest.raises(treering.UsageError, match="treering's own"):
        own.scan_series()
