"""TLS: on a node that shows a certificate and asks for one, and against servers that lie."""

from __future__ import annotations

import contextlib
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import treering
from tests.cassandra_fixtures import skip_without_cassandra
from treering.engine.cassandra import CassandraEngine
from treering.testing import LocalCassandra
from treering.testing.tools import find_java

PASSWORD = "changeit"


@dataclass(frozen=True)
class Pair:
    """A certificate that signs itself, and its key."""

    cert: Path
    key: Path


def make_pair(folder: Path, name: str, *, san: str) -> Pair:
    """Make a certificate for an address; it is its own authority."""
    pair = Pair(folder / f"{name}.pem", folder / f"{name}.key")
    run(
        *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
        *("-keyout", str(pair.key), "-out", str(pair.cert), "-subj", f"/CN={name}"),
        *("-addext", f"subjectAltName={san}"),
    )
    return pair


def run(*command: str) -> None:
    """Run a tool that has to succeed."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{command[0]}: {done.stdout}{done.stderr}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for keys; without OpenSSL's command there are none."""
    if shutil.which("openssl") is None:
        skip_without_cassandra("there is no openssl")
    return tmp_path_factory.mktemp("tls")


@pytest.fixture(scope="module")
def node_pair(folder: Path) -> Pair:
    """The node's certificate, which names its address."""
    return make_pair(folder, "node", san="IP:127.0.0.1")


@pytest.fixture(scope="module")
def client_pair(folder: Path) -> Pair:
    """The certificate that the node trusts."""
    return make_pair(folder, "client", san="DNS:client.invalid")


@pytest.fixture(scope="module")
def other_pair(folder: Path) -> Pair:
    """A certificate that nobody trusts and that names another address."""
    return make_pair(folder, "other", san="IP:192.0.2.7")


@pytest.fixture(scope="module")
def node(
    cassandra_programs: None, folder: Path, node_pair: Pair, client_pair: Pair
) -> Iterator[LocalCassandra]:
    """A node that speaks TLS beside plain text, and takes no TLS client without a certificate."""
    keystore, truststore = folder / "node.p12", folder / "trust.p12"
    run(
        *("openssl", "pkcs12", "-export", "-in", str(node_pair.cert), "-inkey", str(node_pair.key)),
        *("-name", "node", "-out", str(keystore), "-passout", f"pass:{PASSWORD}"),
    )
    run(
        str(find_java().with_name("keytool")),
        *("-importcert", "-noprompt", "-alias", "client", "-file", str(client_pair.cert)),
        *("-keystore", str(truststore), "-storetype", "PKCS12", "-storepass", PASSWORD),
    )
    options = {
        "enabled": True,
        "optional": True,
        "require_client_auth": True,
        "store_type": "PKCS12",
        "keystore": str(keystore),
        "keystore_password": PASSWORD,
        "truststore": str(truststore),
        "truststore_password": PASSWORD,
    }
    with LocalCassandra(yaml={"client_encryption_options": options}) as ring:
        yield ring


def test_readings_travel_over_tls_with_certificates_on_both_sides(
    node: LocalCassandra, node_pair: Pair, client_pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = node.url("tls_plant")
    files = f"ca={node_pair.cert}&cert={client_pair.cert}&key={client_pair.key}"
    with treering.open(f"{url}&{files}", replication={"datacenter1": 1}) as store:
        table = store.create("readings", rate="1/s", retention="30d")
        table.write("s", [time.time_ns() // 1_000_000], unit="ms", value=[1.5])
        assert table.latest("s")["value"].tolist() == [1.5]
    # The same by the environment alone, and the connection is encrypted in truth.
    monkeypatch.setenv("TREERING_CA", str(node_pair.cert))
    monkeypatch.setenv("TREERING_CERT", str(client_pair.cert))
    monkeypatch.setenv("TREERING_KEY", str(client_pair.key))
    engine = CassandraEngine.connect(url)
    try:
        assert engine.table_names() == ("readings",)
        sockets = [
            connection._socket
            for holder in engine._link.session.cluster.get_connection_holders()
            for connection in holder.get_connections()
        ]
        assert sockets
        assert all(isinstance(one, ssl.SSLSocket) and one.version() for one in sockets)
    finally:
        engine.close()


def test_node_of_another_authority_is_refused_with_the_reason(
    node: LocalCassandra, other_pair: Pair, client_pair: Pair
) -> None:
    files = f"ca={other_pair.cert}&cert={client_pair.cert}&key={client_pair.key}"
    began_s = time.monotonic()
    with pytest.raises(treering.EngineError, match="does not trust the certificate") as caught:
        treering.open(f"{node.url('tls_plant')}&{files}")
    assert time.monotonic() - began_s < 30
    assert "ca=" in caught.value.hint
    assert not caught.value.retryable


def test_client_whose_certificate_the_node_does_not_know_is_refused(
    node: LocalCassandra, node_pair: Pair, other_pair: Pair
) -> None:
    for more in ("", f"&cert={other_pair.cert}&key={other_pair.key}"):
        with pytest.raises(treering.EngineError) as caught:
            treering.open(f"{node.url('tls_plant')}&ca={node_pair.cert}&timeout=3s{more}")
        assert f"127.0.0.1:{node.port}" in str(caught.value)
        assert "TLS" in str(caught.value) + caught.value.hint


# Servers that are none: what is checked is seen before a word of CQL is said.


@contextlib.contextmanager
def server_with(pair: Pair | None) -> Iterator[int]:
    """Yield the port of a server that shakes hands, in TLS or not at all, and says nothing."""
    context = None
    if pair is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair.cert, pair.key)
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=_shake_hands, args=(server, context), daemon=True)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            # Closing alone does not wake a thread that waits for a client.
            server.shutdown(socket.SHUT_RDWR)
            thread.join(30)


def _shake_hands(server: socket.socket, context: ssl.SSLContext | None) -> None:
    while True:
        try:
            client, _ = server.accept()
        except OSError:
            return
        with client, contextlib.suppress(OSError):
            if context is None:
                client.sendall(b"no TLS here, and no CQL")
            else:
                context.wrap_socket(client, server_side=True).close()


def test_certificate_of_another_address_is_refused_unless_only_the_authority_counts(
    other_pair: Pair,
) -> None:
    with server_with(other_pair) as port:
        url = f"cassandra://127.0.0.1:{port}/plant?ca={other_pair.cert}&timeout=2s"
        with pytest.raises(treering.EngineError, match="does not trust") as caught:
            CassandraEngine.connect(url, environ={})
        assert "verify=ca" in caught.value.hint
        # Trusted then, and found to speak no CQL.
        with pytest.raises(treering.EngineError) as caught:
            CassandraEngine.connect(f"{url}&verify=ca", environ={})
        assert "does not trust" not in str(caught.value)


def test_server_that_speaks_no_tls_is_told_apart(other_pair: Pair) -> None:
    with server_with(None) as port:
        url = f"cassandra://127.0.0.1:{port}/plant?ca={other_pair.cert}&timeout=2s"
        with pytest.raises(treering.EngineError, match="no way to talk TLS") as caught:
            CassandraEngine.connect(url, environ={})
    assert "speak TLS" in caught.value.hint


def test_encrypted_key_needs_its_passphrase_and_nobody_is_asked(
    folder: Path, client_pair: Pair
) -> None:
    locked = folder / "locked.key"
    run(
        *("openssl", "rsa", "-aes256", "-in", str(client_pair.key), "-out", str(locked)),
        *("-passout", "pass:open sesame"),
    )
    url = f"cassandra://127.0.0.1:1/plant?cert={client_pair.cert}&key={locked}&timeout=1s"
    with pytest.raises(treering.UsageError, match="passphrase is needed") as caught:
        CassandraEngine.connect(url, environ={})
    assert "TREERING_KEY_PASSWORD" in caught.value.hint
    with pytest.raises(treering.UsageError, match="passphrase is wrong") as caught:
        CassandraEngine.connect(url, environ={"TREERING_KEY_PASSWORD": "open barley"})
    assert "barley" not in str(caught.value) + caught.value.hint
    with pytest.raises(treering.UnavailableError, match="refused"):
        CassandraEngine.connect(url, environ={"TREERING_KEY_PASSWORD": "open sesame"})
