"""Roles and passwords, on a node that asks for them."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import treering
from tests.engine.contract import DAY_MS, NOW_MS, read_all, spec_of, write_of
from treering.core.listing import listing_of
from treering.doctor.live import collect_live
from treering.engine.cassandra import CassandraEngine
from treering.engine.cassandra.grants import Role, plan_grants
from treering.engine.cassandra.url import parse_url
from treering.store import Store
from treering.testing import LocalCassandra

SUPERUSER = {"TREERING_USERNAME": "cassandra", "TREERING_PASSWORD": "cassandra"}
READER = {"TREERING_USERNAME": "ada", "TREERING_PASSWORD": "hunter2"}


@pytest.fixture(scope="module")
def guarded(cassandra_programs: None) -> Iterator[LocalCassandra]:
    """A node with password login and permissions."""
    settings = {
        "authenticator": "PasswordAuthenticator",
        "authorizer": "CassandraAuthorizer",
        # A grant holds at once.
        "permissions_validity": "0ms",
        "roles_validity": "0ms",
        "credentials_validity": "0ms",
    }
    jvm = ("-Dcassandra.superuser_setup_delay_ms=0",)
    with LocalCassandra(yaml=settings, jvm=jvm) as node:
        yield node


def _connect_when_roles_exist(url: str) -> CassandraEngine:
    # The node makes its first role a moment after it starts to answer.
    deadline = time.monotonic() + 60
    while True:
        try:
            return CassandraEngine.connect(url, environ=SUPERUSER, replication={"datacenter1": 1})
        except treering.EngineError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def test_roles_do_what_they_may_and_refusals_name_the_role_and_no_password(
    guarded: LocalCassandra, caplog: pytest.LogCaptureFixture
) -> None:
    keyspace = f"login_{uuid.uuid4().hex[:8]}"
    url = guarded.url(keyspace)
    owner = _connect_when_roles_exist(url)
    try:
        spec = owner.create_table(spec_of())
        owner.submit_write(spec, write_of(spec, "s", [NOW_MS], value=[1.0])).result(30)
        link = owner._link
        link.run_ddl("CREATE ROLE ada WITH LOGIN = true AND PASSWORD = 'hunter2'", "a role")
        link.run_ddl(f"GRANT SELECT ON KEYSPACE {keyspace} TO ada", "a grant")
        caplog.set_level(logging.DEBUG, "treering")
        reader = CassandraEngine.connect(url, environ=READER)
        try:
            assert reader.load_table(spec.name) == spec
            assert read_all(reader, spec, "s", NOW_MS, NOW_MS + 1) == [(NOW_MS, 1.0)]
            refused = reader.submit_write(spec, write_of(spec, "s", [NOW_MS], value=[2.0]))
            with pytest.raises(treering.EngineError, match=r" s/.*ada") as caught:
                refused.result(30)
            assert not caught.value.retryable
            assert "GRANT" in caught.value.hint
            with pytest.raises(treering.EngineError, match="ada"):
                reader.create_table(spec_of())
        finally:
            reader.close()
    finally:
        owner.close()
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize(
    "environ",
    [{**READER, "TREERING_PASSWORD": "wrong-hunter2"}, {}],
    ids=["a wrong password", "no credentials"],
)
def test_failed_login_says_how_to_log_in(guarded: LocalCassandra, environ: dict[str, str]) -> None:
    with pytest.raises(treering.EngineError, match="log in") as caught:
        CassandraEngine.connect(guarded.url("plant"), environ=environ)
    assert "TREERING_PASSWORD" in caught.value.hint
    assert "hunter2" not in str(caught.value)
    assert not caught.value.retryable


def test_role_of_cqlshs_file_logs_in(
    guarded: LocalCassandra, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    owner = _connect_when_roles_exist(guarded.url("anywhere"))
    owner._link.run_ddl(
        "CREATE ROLE IF NOT EXISTS eve WITH LOGIN = true AND PASSWORD = 'hunter3'", "a role"
    )
    owner.close()
    file = tmp_path / "cqlshrc"
    file.write_text("[authentication]\nusername = eve\npassword = hunter3\n")
    file.chmod(0o600)
    with caplog.at_level(logging.DEBUG):
        engine = CassandraEngine.connect(
            guarded.url("anywhere"), environ={"TREERING_CQLSHRC": str(file)}
        )
        assert "hunter3" not in repr(engine) + str(vars(engine))
        engine.close()
    assert "hunter3" not in caplog.text


# What each role needs


Job = Callable[[Store, str], None]
"""What a role is for, done with a store and the name of a table that its owner made."""


def read_all_of(store: Store, name: str) -> None:
    """Do what a reader does."""
    table = store.table(name)
    assert list(table.series()) == ["s"]
    assert list(table.series(tags={"site": "north"})) == []
    assert len(table.read("s", "-90d")) == 1
    assert table.latest("s")["value"].tolist() == [1.0]
    assert table.info().series_count == 1
    with pytest.raises(treering.SeriesNotFoundError):
        table.read("nobody", "-1h")
    # What long reads and latest ask for where the index may be trusted.
    day = treering.Interval(_now_ms() - DAY_MS, _now_ms(), table.precision)
    listing = listing_of("s", day, (table.bucket,))
    assert store._engine.submit_listing(table.spec, listing).result(30).buckets


def write_new_series(store: Store, name: str) -> None:
    """Do what a writer does."""
    table = store.table(name)
    assert table.write("new", [_now_ms()], unit="ms", value=[2.0]).accepted == 1
    assert table.add_series("newer", bucket="hour", tags={"site": "north"}).widths


def run_the_place(store: Store, name: str) -> None:
    """Do what an admin does, to a table that somebody else made."""
    table = store.table(name)
    assert table.latest("s")["value"].tolist() == [1.0]
    write_new_series(store, name)
    store.create(f"{name}_own", rate="1/s", retention="30d")
    engine = store._engine
    assert isinstance(engine, CassandraEngine)
    engine._link.run_ddl(f"ALTER TABLE {engine._keyspace}.{name} WITH comment = 'x'", "altering")
    store.drop(f"{name}_own")
    store.drop(name)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _role_with(owner: CassandraEngine, grants: tuple[str, ...]) -> dict[str, str]:
    """Make a role with these grants, and return the environment that logs it in."""
    name = f"r_{uuid.uuid4().hex[:10]}"
    owner._link.run_ddl(
        f"CREATE ROLE {name} WITH LOGIN = true AND PASSWORD = '{name}'", "creating a role"
    )
    for grant in grants:
        owner._link.run_ddl(grant.replace(" TO somebody;", f" TO {name}"), "granting")
    return {"TREERING_USERNAME": name, "TREERING_PASSWORD": name}


@pytest.mark.parametrize("catalog", ["", "&catalog={keyspace}_meta"], ids=["beside", "elsewhere"])
@pytest.mark.parametrize(
    ("role", "job"),
    [("reader", read_all_of), ("writer", write_new_series), ("admin", run_the_place)],
)
def test_grants_of_a_role_suffice_and_none_of_them_can_be_left_out(
    guarded: LocalCassandra, role: Role, job: Job, catalog: str
) -> None:
    keyspace = f"g_{uuid.uuid4().hex[:8]}"
    url = guarded.url(keyspace) + catalog.format(keyspace=keyspace)
    owner = _connect_when_roles_exist(url)
    with Store(owner) as store:
        # The catalog is there before, so that nobody below owns a part of it.
        store.create("first", rate="1/s", retention="30d")
        for number in range(20):
            name = f"t{number}"
            grants = plan_grants(parse_url(url), name, role, "somebody")
            if number > len(grants):
                break
            table = store.create(name, rate="1/s", retention="30d")
            table.write("s", [_now_ms()], unit="ms", value=[1.0])
            left_out = grants[number] if number < len(grants) else ""
            given = tuple(grant for grant in grants if grant != left_out)
            environ = _role_with(owner, given)
            with Store(CassandraEngine.connect(url, environ=environ)) as theirs:
                if not left_out:
                    job(theirs, name)
                elif "CREATE ON KEYSPACE" in left_out and "_meta" in left_out:
                    _check_catalog_cannot_be_made(owner, guarded, keyspace, environ)
                else:
                    refused = _refusal_of(job, theirs, name)
                    assert environ["TREERING_USERNAME"] in refused, f"not needed: {left_out}"


def _refusal_of(job: Job, store: Store, name: str) -> str:
    try:
        job(store, name)
    except treering.EngineError as error:
        return str(error)
    return "nothing was refused"


def _check_catalog_cannot_be_made(
    owner: CassandraEngine, guarded: LocalCassandra, keyspace: str, environ: dict[str, str]
) -> None:
    # Only the first admin makes the catalog's tables: here those of another keyspace.
    second, role = f"{keyspace}_b", environ["TREERING_USERNAME"]
    owner._link.run_ddl(
        f"CREATE KEYSPACE {second} WITH replication = "
        "{'class': 'NetworkTopologyStrategy', 'datacenter1': 1}",
        "creating a keyspace",
    )
    owner._link.run_ddl(f"GRANT ALL ON KEYSPACE {second} TO {role}", "granting")
    url = f"{guarded.url(second)}&catalog={keyspace}_meta"
    with (
        Store(CassandraEngine.connect(url, environ=environ)) as store,
        pytest.raises(treering.EngineError, match=role),
    ):
        store.create("t", rate="1/s", retention="30d")


def test_a_role_that_may_read_little_is_told_what_the_doctor_could_not_see(
    guarded: LocalCassandra,
) -> None:
    keyspace, role = f"sick_{uuid.uuid4().hex[:8]}", f"eve_{uuid.uuid4().hex[:8]}"
    url = guarded.url(keyspace)
    owner = _connect_when_roles_exist(url)
    try:
        owner.create_table(spec_of("seen"))
        link = owner._link
        link.run_ddl(f"CREATE ROLE {role} WITH LOGIN = true AND PASSWORD = 'hunter2'", "a role")
        eve = {"TREERING_USERNAME": role, "TREERING_PASSWORD": "hunter2"}
        little = collect_live(url, environ=eve)
        link.run_ddl(f"GRANT SELECT ON KEYSPACE system_views TO {role}", "a grant")
        more = collect_live(url, environ=eve)
    finally:
        owner.close()
    (table,) = little.tables
    assert table.table == "seen"
    assert table.schema is not None
    assert table.schema.default_ttl_s
    told = {missing.what: missing.why for missing in little.missing}
    assert {"settings", "disk_usage", "snapshots"} <= told.keys()
    assert role in told["settings"]
    assert "GRANT" in told["settings"]
    assert "hunter2" not in str(little)
    left = {missing.what for missing in more.missing}
    assert "settings" not in left
    assert more.tables[0].nodes[0].settings["hinted_handoff_enabled"] == "true"
