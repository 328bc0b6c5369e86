"""How to connect: address before environment before cqlsh's file; passwords stay where they are."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from treering.engine.cassandra.cqlshrc import read_cqlshrc
from treering.engine.cassandra.settings import VARIABLES, Credentials, read_settings, read_url
from treering.engine.cassandra.tls import Tls, context_of
from treering.engine.cassandra.url import CassandraUrl
from treering.errors import UsageError

CQLSHRC = """
; comments stand so
[authentication]
username = bob
password = p%ss word
keyspace = ignored

[connection]
hostname = 10.9.9.9
port = 9999
ssl = true
request_timeout = 7
timeout = 3

[ssl]
certfile = ~/ca.pem
validate = true
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a home folder with a cqlshrc that only its owner may read."""
    folder = tmp_path / ".cassandra"
    folder.mkdir()
    file = folder / "cqlshrc"
    file.write_text(CQLSHRC)
    file.chmod(0o600)
    return tmp_path


def test_file_of_cqlsh_says_what_nothing_else_says(home: Path) -> None:
    settings = read_settings("cassandra:///plant", {"HOME": str(home)})
    assert settings.url == CassandraUrl(
        hosts=(("10.9.9.9", 9999),),
        keyspace="plant",
        timeout_s=7.0,
        connect_timeout_s=3.0,
        tls=Tls(ca="~/ca.pem", verify="ca"),
    )
    assert settings.credentials == Credentials("bob", "p%ss word")


def test_environment_wins_over_the_file_and_the_address_over_both(home: Path) -> None:
    environ = {
        "HOME": str(home),
        "TREERING_TIMEOUT": "5s",
        "TREERING_CA": "/env/ca.pem",
        "TREERING_CATALOG": "meta",
        "TREERING_CONSISTENCY": "one",
        "TREERING_VERIFY": "none",
        "TREERING_USERNAME": "ada",
        "TREERING_PASSWORD": "hunter2",
    }
    settings = read_settings("cassandra://h:1/plant?consistency=quorum&verify=host", environ)
    assert settings.url == CassandraUrl(
        hosts=(("h", 1),),
        keyspace="plant",
        consistency="QUORUM",
        timeout_s=5.0,
        connect_timeout_s=3.0,
        catalog="meta",
        tls=Tls(ca="/env/ca.pem", verify="host"),
    )
    assert settings.credentials == Credentials("ada", "hunter2")
    plain = read_settings("cassandra://h/plant?tls=false", {"HOME": str(home)})
    assert plain.url.tls is None
    assert plain.url.hosts == (("h", 9999),)


def test_password_is_never_taken_for_another_user_than_its_own(home: Path) -> None:
    with pytest.raises(UsageError, match="no password for the user 'ada'") as caught:
        read_settings("cassandra://ada@h/plant", {"HOME": str(home)})
    assert "p%ss" not in str(caught.value) + caught.value.hint
    settings = read_settings("cassandra://bob@h/plant", {"HOME": str(home)})
    assert settings.credentials == Credentials("bob", "p%ss word")


def test_credentials_file_that_the_cqlshrc_names_is_read(tmp_path: Path) -> None:
    login = tmp_path / "login"
    login.write_text("[PlainTextAuthProvider]\nusername = eve\npassword = secret\n")
    login.chmod(0o600)
    file = tmp_path / "rc"
    file.write_text(f"[authentication]\ncredentials = {login}\n")
    settings = read_settings("cassandra://h/plant", {"TREERING_CQLSHRC": str(file)})
    assert settings.credentials == Credentials("eve", "secret")


def test_certificates_in_the_file_mean_nothing_beside_no_tls(tmp_path: Path) -> None:
    file = tmp_path / "rc"
    file.write_text("[ssl]\ncertfile = /ca.pem\nvalidate = false\n")
    environ = {"TREERING_CQLSHRC": str(file)}
    assert read_settings("cassandra://h/plant", environ).url.tls is None
    wanted = read_settings("cassandra://h/plant?tls=true", environ).url.tls
    assert wanted == Tls(ca="/ca.pem", verify="none")


def test_tls_option_without_tls_means_that_it_is_wanted() -> None:
    assert read_url("cassandra://h/plant?ca=/ca.pem", {}).tls == Tls(ca="/ca.pem")
    assert read_url("cassandra://h/plant", {"TREERING_CA": "/ca.pem"}).tls == Tls(ca="/ca.pem")
    with pytest.raises(UsageError, match="tls=false and how to encrypt"):
        read_url("cassandra://h/plant?tls=false&ca=/ca.pem", {})


@pytest.mark.parametrize("named", ["", None])
def test_no_file_is_read_where_none_is_named(named: str | None, home: Path) -> None:
    environ = {} if named is None else {"TREERING_CQLSHRC": named, "HOME": str(home)}
    assert read_cqlshrc(environ) is None


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"TREERING_TIMEOUT": "soon"}, r"TREERING_TIMEOUT \(timeout\): .*soon"),
        ({"TREERING_CONSISTENCY": "ANY"}, r"TREERING_CONSISTENCY .*ANY"),
        ({"TREERING_CATALOG": "No Keyspace"}, r"TREERING_CATALOG .*No Keyspace"),
        ({"TREERING_TLS": "maybe"}, r"tls=maybe \(TREERING_TLS\)"),
        ({"TREERING_VERIFY": "hard", "TREERING_TLS": "true"}, r"TREERING_VERIFY .*hard"),
        ({"TREERING_KEY": "/k.pem"}, r"a key \(/k.pem\) and no certificate"),
        ({"TREERING_CQLSHRC": "/no/such/rc"}, r"TREERING_CQLSHRC names /no/such/rc"),
    ],
)
def test_wrong_value_names_where_it_stands(environ: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_settings("cassandra://h/plant", environ)


def test_every_option_of_an_address_has_its_variable() -> None:
    texts = {
        "local_dc": "dc7",
        "consistency": "ALL",
        "timeout": "9s",
        "connect_timeout": "2s",
        "catalog": "meta",
        "tls": "true",
        "ca": "/a",
        "cert": "/b",
        "key": "/c",
        "verify": "ca",
    }
    assert set(texts) == set(VARIABLES)
    by_environment = read_url(
        "cassandra://h/plant", {VARIABLES[name]: text for name, text in texts.items()}
    )
    query = "&".join(f"{name}={text}" for name, text in texts.items())
    assert by_environment == read_url(f"cassandra://h/plant?{query}", {})


def test_file_that_is_no_cqlshrc_is_named_by_line_and_its_words_are_not_repeated(
    tmp_path: Path,
) -> None:
    file = tmp_path / "rc"
    file.write_text("[authentication]\nusername = bob\npassword hunter2\n")
    with pytest.raises(UsageError, match="line 3") as caught:
        read_settings("cassandra://h/plant", {"TREERING_CQLSHRC": str(file)})
    assert caught.value.__cause__ is None
    assert "hunter2" not in str(caught.value) + caught.value.hint


def test_file_with_a_password_that_others_may_read_is_told(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (home / ".cassandra" / "cqlshrc").chmod(0o644)
    settings = read_settings("cassandra://h/plant", {"HOME": str(home)})
    assert "others may read it" in caplog.text
    assert "p%ss" not in caplog.text + repr(settings) + repr(read_cqlshrc({"HOME": str(home)}))


def test_passwords_stay_out_of_every_repr(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    environ = {"TREERING_USERNAME": "ada", "TREERING_PASSWORD": "hunter2"}
    settings = read_settings("cassandra://h/plant", environ)
    assert settings.credentials is not None
    assert "hunter2" not in f"{settings!r} {settings.credentials} {caplog.text}"


# TLS


@pytest.mark.parametrize(
    ("tls", "said"),
    [
        (Tls(ca="/no/ca.pem"), r"no file /no/ca.pem for TLS \(ca=\)"),
        (Tls(cert="/no/me.pem"), r"no file /no/me.pem for TLS \(cert=\)"),
    ],
)
def test_file_for_tls_that_is_not_there_is_named(tls: Tls, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        context_of(tls, {})


def test_file_for_tls_that_is_not_what_it_should_be_is_named(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("no certificate")
    with pytest.raises(UsageError, match=r"ca\.pem cannot be used for TLS \(ca=\)"):
        context_of(Tls(ca=str(file)), {})
    with pytest.raises(UsageError, match=r"ca\.pem cannot be used for TLS \(cert=\)"):
        context_of(Tls(cert=str(file)), {})


def test_unchecked_certificates_are_told(caplog: pytest.LogCaptureFixture) -> None:
    assert context_of(Tls(verify="ca"), {}).check_hostname is False
    assert caplog.text == ""
    context = context_of(Tls(verify="none"), {})
    assert context.verify_mode.name == "CERT_NONE"
    assert "verify=none" in caplog.text
