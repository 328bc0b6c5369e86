"""Roles and passwords, on a node that asks for them."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterator

import pytest

import treering
from tests.engine.contract import NOW_MS, read_all, spec_of, write_of
from treering.engine.cassandra import CassandraEngine
from treering.testing import LocalCassandra

SUPERUSER = {"TREERING_USERNAME": "cassandra", "TREERING_PASSWORD": "cassandra"}
READER = {"TREERING_USERNAME": "ada", "TREERING_PASSWORD": "hunter2"}


@pytest.fixture(scope="module")
def guarded(cassandra_programs: None) -> Iterator[LocalCassandra]:
    """A node with password login and permissions."""
    settings = {"authenticator": "PasswordAuthenticator", "authorizer": "CassandraAuthorizer"}
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
            with pytest.raises(treering.EngineError, match=r"write of s/.*ada") as caught:
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
