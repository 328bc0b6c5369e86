"""Addresses of stores on Cassandra: what they mean, and that no secret survives in them."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.engine.cassandra.tls import Tls
from treering.engine.cassandra.url import (
    CONSISTENCIES,
    CassandraUrl,
    is_cassandra_url,
    parse_url,
    render_url,
)
from treering.errors import UsageError


def test_shortest_address_takes_the_defaults() -> None:
    assert parse_url("cassandra://10.0.0.5/plant") == CassandraUrl(
        hosts=(("10.0.0.5", 9042),), keyspace="plant"
    )


def test_address_names_hosts_user_datacentre_consistency_and_timeout() -> None:
    url = parse_url(
        "cassandra://ada%40ops@a,b:9043,[fe80::1]:9044/plant"
        "?local_dc=dc1&consistency=local_one&timeout=1500ms"
    )
    assert url == CassandraUrl(
        hosts=(("a", 9042), ("b", 9043), ("fe80::1", 9044)),
        keyspace="plant",
        user="ada@ops",
        local_dc="dc1",
        consistency="LOCAL_ONE",
        timeout_s=1.5,
    )


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("http://h/plant", "scheme"),
        ("cassandra://", "no host"),
        ("cassandra:///plant", "no host"),
        ("cassandra://h", "no keyspace"),
        ("cassandra://h/", "no keyspace"),
        ("cassandra://h/Plant", "Plant"),
        ("cassandra://h/a/b", "a/b"),
        ("cassandra://h:x/plant", "'x' is not a port"),
        ("cassandra://h:0/plant", "'0' is not a port"),
        ("cassandra://h:70000/plant", "'70000' is not a port"),
        ("cassandra://h:/plant", "'' is not a port"),
        ("cassandra://a,,b/plant", "'' is not a host"),
        ("cassandra://h/plant?dc=dc1", "'dc'"),
        ("cassandra://h/plant?password=x", "'password'"),
        ("cassandra://h/plant?local_dc=a&local_dc=b", "twice"),
        ("cassandra://h/plant?local_dc=", "is empty"),
        ("cassandra://h/plant?consistency=EACH_QUORUM", "EACH_QUORUM"),
        ("cassandra://h/plant?consistency=ANY", "ANY"),
        ("cassandra://h/plant?timeout=soon", "soon"),
        ("cassandra://h/plant?timeout=0s", "above 0"),
        ("cassandra://h/plant?connect_timeout=-1s", "-1s"),
        ("cassandra://h/plant?catalog=No", "No"),
        ("cassandra://h/plant?tls=perhaps", "tls=perhaps"),
        ("cassandra://h/plant?verify=perhaps", "verify=perhaps"),
        ("cassandra://h/plant?key=/k", "no certificate"),
        ("cassandra://h/plant#here", "#here"),
    ],
)
def test_wrong_address_is_refused_by_name(text: str, named: str) -> None:
    with pytest.raises(UsageError, match=named.replace("?", r"\?")):
        parse_url(text)


def test_password_in_an_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(UsageError) as caught:
        parse_url("cassandra://ada:hunter2@h/plant")
    assert "hunter2" not in str(caught.value) + caught.value.hint
    assert "TREERING_PASSWORD" in caught.value.hint


def test_only_addresses_of_cassandra_are_taken_for_such() -> None:
    assert is_cassandra_url("Cassandra://h/plant")
    assert not is_cassandra_url("./cassandra")
    assert not is_cassandra_url("memory://")


PATHS = st.none() | st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
HOSTS = st.text(string.ascii_lowercase + string.digits + "-.", min_size=1, max_size=20)


@given(
    url=st.builds(
        CassandraUrl,
        hosts=st.lists(
            st.tuples(HOSTS | st.just("::1"), st.integers(1, 65_535)),
            min_size=1,
            max_size=4,
            unique=True,
        ).map(tuple),
        keyspace=st.from_regex(r"[a-z][a-z0-9_]{0,47}", fullmatch=True),
        user=st.none() | st.text(st.characters(codec="utf-8"), min_size=1, max_size=20),
        local_dc=st.none() | st.text(st.characters(codec="utf-8"), min_size=1, max_size=20),
        consistency=st.sampled_from(CONSISTENCIES),
        timeout_s=st.integers(1, 3_600_000).map(lambda ms: ms / 1_000),
        connect_timeout_s=st.integers(1, 60_000).map(lambda ms: ms / 1_000),
        catalog=st.none() | st.from_regex(r"[a-z][a-z0-9_]{0,47}", fullmatch=True),
        tls=st.none()
        | st.builds(
            Tls,
            ca=PATHS,
            cert=st.text(st.characters(codec="utf-8"), min_size=1, max_size=20),
            key=PATHS,
            verify=st.sampled_from(["host", "ca", "none"]),
        ),
    )
)
def test_rendered_address_is_parsed_back(url: CassandraUrl) -> None:
    assert parse_url(render_url(url)) == url
