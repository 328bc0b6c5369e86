"""The address of a store on Cassandra: text to value and back, without the driver.

Rules of this file: a password never stands in an address, and never reaches a message, a repr or
a log; what is not understood is refused by name, nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

from treering.core.schema import check_identifier
from treering.core.units import parse_duration_s
from treering.engine.cassandra.tls import VERIFY_DEFAULT, Tls, parse_verify
from treering.errors import UsageError

SCHEME: Final = "cassandra"
PORT_DEFAULT: Final = 9042
TIMEOUT_DEFAULT_S: Final = 10.0
CONNECT_TIMEOUT_DEFAULT_S: Final = 5.0
CONSISTENCY_DEFAULT: Final = "LOCAL_QUORUM"
CONSISTENCIES: Final = (
    "LOCAL_QUORUM",
    "QUORUM",
    "ALL",
    "LOCAL_ONE",
    "ONE",
    "TWO",
    "THREE",
)
"""What reads and writes both take; EACH_QUORUM is for writes alone, ANY loses readings."""

OPTION_NAMES: Final = (
    *("local_dc", "consistency", "timeout", "connect_timeout", "catalog"),
    *("tls", "ca", "cert", "key", "verify"),
)
"""The options of an address."""

Stated = Mapping[str, tuple[str, str]]
"""Texts by option, each with where it stands: what holds where the address does not say."""

_TLS_FILES: Final = ("ca", "cert", "key", "verify")
_TRUTH: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_ADDRESS: Final = "the address of the store"
_EXAMPLE: Final = "cassandra://10.0.0.5,10.0.0.6/plant?local_dc=dc1"


@dataclass(frozen=True, slots=True, kw_only=True)
class CassandraUrl:
    """Where a store is.

    Attributes:
        hosts: Contact points: host and port.
        keyspace: The keyspace.
        user: The user to log in as; None where the environment says, or nobody logs in.
        local_dc: The datacentre to talk to; None to take that of the contact points.
        consistency: How many replicas a read or a write waits for.
        timeout_s: How long a request may take.
        connect_timeout_s: How long to wait for a node to take a connection.
        catalog: The keyspace of the catalog; None for that of the readings.
        tls: How connections are encrypted; None where they are not.
    """

    hosts: tuple[tuple[str, int], ...]
    keyspace: str
    user: str | None = None
    local_dc: str | None = None
    consistency: str = CONSISTENCY_DEFAULT
    timeout_s: float = TIMEOUT_DEFAULT_S
    connect_timeout_s: float = CONNECT_TIMEOUT_DEFAULT_S
    catalog: str | None = None
    tls: Tls | None = None

    def __post_init__(self) -> None:
        check_identifier(self.keyspace, "keyspace")
        if not self.hosts:
            raise UsageError("a Cassandra store needs a host", hint=f"for instance {_EXAMPLE}")
        if self.consistency not in CONSISTENCIES:
            raise UsageError(
                f"the consistency {self.consistency!r} is not one that reads and writes both take",
                hint=f"use one of {', '.join(CONSISTENCIES)}",
            )
        for timeout_s in (self.timeout_s, self.connect_timeout_s):
            if timeout_s <= 0:
                raise UsageError(f"a timeout is above 0 s, not {timeout_s:g} s")
        if self.catalog is not None:
            check_identifier(self.catalog, "keyspace")

    @property
    def where(self) -> str:
        """The hosts as people say them: ``10.0.0.5:9042, 10.0.0.6:9042``."""
        return ", ".join(_render_host(host, port) for host, port in self.hosts)


def is_cassandra_url(text: str) -> bool:
    """Return whether the text names a store on Cassandra, well-formed or not."""
    return text.partition(":")[0].lower() == SCHEME and "://" in text


def parse_url(text: str, *layers: Stated) -> CassandraUrl:
    """Return the store that ``cassandra://[user@]host[:port][,host…]/keyspace?…`` names.

    Args:
        text: The address.
        layers: What holds for options that the address does not state, the stronger one first.

    Raises:
        UsageError: Another scheme, no host, a port that is none, no keyspace, a password, or an
            unknown, repeated or malformed option; the password is not repeated.
    """
    parts = urlsplit(text)
    if parts.scheme.lower() != SCHEME:
        raise UsageError(
            f"the scheme of a Cassandra store is {SCHEME}, not {parts.scheme!r}",
            hint=f"for instance {_EXAMPLE}",
        )
    stated: tuple[Stated, ...] = (_options_of(parts), *layers)
    user, hosts = _user_and_hosts(parts, stated)
    keyspace = _keyspace_of(parts)
    fields: dict[str, object] = {}
    for name in ("local_dc", "catalog", "consistency", "timeout", "connect_timeout"):
        said, source = _first(stated, name)
        if said is None:
            continue
        with _named(name, source):
            field, value = _field_of(name, said)
            # Checked one by one, so that what is wrong is named with where it stands.
            CassandraUrl(hosts=hosts, keyspace=keyspace, **{field: value})  # type: ignore[arg-type]
            fields[field] = value
    return CassandraUrl(
        hosts=hosts,
        keyspace=keyspace,
        user=user,
        tls=_tls_of(stated),
        **fields,  # type: ignore[arg-type]
    )


def _field_of(name: str, text: str) -> tuple[str, object]:
    match name:
        case "timeout" | "connect_timeout":
            return f"{name}_s", parse_duration_s(text)
        case "consistency":
            return name, text.upper()
        case _:
            return name, text


def _first(stated: tuple[Stated, ...], name: str) -> tuple[str | None, str]:
    return next((layer[name] for layer in stated if name in layer), (None, ""))


@contextmanager
def _named(name: str, source: str) -> Iterator[None]:
    """Have an error say where the text stands, unless that is the address itself."""
    try:
        yield
    except UsageError as error:
        if source == _ADDRESS:
            raise
        raise UsageError(f"{source} ({name}): {error.message}", hint=error.hint) from error


def _tls_of(stated: tuple[Stated, ...]) -> Tls | None:
    if not _is_tls_wanted(stated):
        return None
    texts = {name: _first(stated, name) for name in _TLS_FILES}
    verify, source = texts["verify"]
    with _named("verify", source):
        checked = VERIFY_DEFAULT if verify is None else parse_verify(verify)
    return Tls(ca=texts["ca"][0], cert=texts["cert"][0], key=texts["key"][0], verify=checked)


def _is_tls_wanted(stated: tuple[Stated, ...]) -> bool:
    # The first place that says anything decides; files for TLS without tls= mean that it is wanted.
    for layer in stated:
        if "tls" in layer:
            text, source = layer["tls"]
            if text.lower() not in _TRUTH:
                raise UsageError(f"tls={text} ({source}) is neither true nor false")
            if not _TRUTH[text.lower()] and source == _ADDRESS and set(layer) & set(_TLS_FILES):
                raise UsageError(
                    "the address of the store says tls=false and how to encrypt",
                    hint="leave out tls=false, or ca=, cert=, key= and verify=",
                )
            return _TRUTH[text.lower()]
        if set(layer) & set(_TLS_FILES):
            return True
    return False


def render_url(url: CassandraUrl) -> str:
    """Return the address for people and for :func:`parse_url`; there is no secret in it."""
    user = "" if url.user is None else quote(url.user, safe="") + "@"
    hosts = ",".join(_render_host(host, port) for host, port in url.hosts)
    options: dict[str, str] = {}
    if url.local_dc is not None:
        options["local_dc"] = url.local_dc
    if url.consistency != CONSISTENCY_DEFAULT:
        options["consistency"] = url.consistency
    if url.timeout_s != TIMEOUT_DEFAULT_S:
        options["timeout"] = f"{url.timeout_s:.3f}s"
    if url.connect_timeout_s != CONNECT_TIMEOUT_DEFAULT_S:
        options["connect_timeout"] = f"{url.connect_timeout_s:.3f}s"
    if url.catalog is not None:
        options["catalog"] = url.catalog
    if url.tls is not None:
        options |= _render_tls(url.tls)
    query = f"?{urlencode(options)}" if options else ""
    return f"{SCHEME}://{user}{hosts}/{url.keyspace}{query}"


def _render_tls(tls: Tls) -> dict[str, str]:
    stated = {"tls": "true", "ca": tls.ca, "cert": tls.cert, "key": tls.key}
    if tls.verify != VERIFY_DEFAULT:
        stated["verify"] = tls.verify
    return {name: text for name, text in stated.items() if text is not None}


def _user_and_hosts(
    parts: SplitResult, stated: tuple[Stated, ...]
) -> tuple[str | None, tuple[tuple[str, int], ...]]:
    before, at, after = parts.netloc.rpartition("@")
    if ":" in before:
        raise UsageError(
            "the address of the store holds a password",
            hint="leave it out and set TREERING_USERNAME and TREERING_PASSWORD: addresses end up "
            "in logs and shell histories",
        )
    after = after or _first(stated, "hosts")[0] or ""
    if not after:
        raise UsageError("the address of the store names no host", hint=f"as in {_EXAMPLE}")
    port, source = _first(stated, "port")
    with _named("port", source):
        port_default = PORT_DEFAULT if port is None else _parse_port(port, after)
    hosts = tuple(dict.fromkeys(_parse_host(host, port_default) for host in after.split(",")))
    return (unquote(before) or None) if at else None, hosts


def _parse_host(text: str, port_default: int) -> tuple[str, int]:
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        port = rest.removeprefix(":") if rest else None
    else:
        host, colon, rest = text.partition(":")
        port = rest if colon else None
    if not host or any(char.isspace() for char in host):
        raise UsageError(
            f"{text!r} is not a host of a Cassandra store", hint=f"for instance {_EXAMPLE}"
        )
    return host, port_default if port is None else _parse_port(port, host)


def _parse_port(port: str, host: str) -> int:
    if not (port.isascii() and port.isdigit() and 1 <= int(port) <= 65_535):
        raise UsageError(
            f"{port!r} is not a port of the host {host!r}",
            hint="use a number from 1 to 65535; an IPv6 address stands in brackets",
        )
    return int(port)


def _render_host(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _keyspace_of(parts: SplitResult) -> str:
    keyspace = parts.path.strip("/")
    if not keyspace:
        raise UsageError(
            "the address of the store names no keyspace", hint=f"put it last, as in {_EXAMPLE}"
        )
    return check_identifier(keyspace, "keyspace")


def _options_of(parts: SplitResult) -> dict[str, tuple[str, str]]:
    if parts.fragment:
        raise UsageError(f"the address of the store ends in #{parts.fragment}, which means nothing")
    options: dict[str, tuple[str, str]] = {}
    for key, value in parse_qsl(parts.query, keep_blank_values=True):
        if key not in OPTION_NAMES:
            hint = f"use {', '.join(OPTION_NAMES)}"
            if "pass" in key.lower():
                hint = "a password belongs into TREERING_PASSWORD"
            raise UsageError(f"the address of the store has the unknown option {key!r}", hint=hint)
        if key in options or not value:
            problem = "stands twice" if key in options else "is empty"
            raise UsageError(f"the option {key!r} of the store's address {problem}")
        options[key] = (value, _ADDRESS)
    return options
