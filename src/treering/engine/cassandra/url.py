"""The address of a store on Cassandra: text to value and back, without the driver.

Rules of this file: a password never stands in an address, and never reaches a message, a repr or
a log; what is not understood is refused by name, nothing is guessed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

from treering.core.schema import check_identifier
from treering.core.units import parse_duration_s
from treering.errors import UsageError

SCHEME: Final = "cassandra"
PORT_DEFAULT: Final = 9042
TIMEOUT_DEFAULT_S: Final = 10.0
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

_KEYS: Final = ("local_dc", "consistency", "timeout")
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
    """

    hosts: tuple[tuple[str, int], ...]
    keyspace: str
    user: str | None = None
    local_dc: str | None = None
    consistency: str = CONSISTENCY_DEFAULT
    timeout_s: float = TIMEOUT_DEFAULT_S

    def __post_init__(self) -> None:
        check_identifier(self.keyspace, "keyspace")
        if not self.hosts:
            raise UsageError("a Cassandra store needs a host", hint=f"for instance {_EXAMPLE}")
        if self.consistency not in CONSISTENCIES:
            raise UsageError(
                f"the consistency {self.consistency!r} is not one that reads and writes both take",
                hint=f"use one of {', '.join(CONSISTENCIES)}",
            )
        if self.timeout_s <= 0:
            raise UsageError(f"a timeout is above 0 s, not {self.timeout_s:g} s")

    @property
    def where(self) -> str:
        """The hosts as people say them: ``10.0.0.5:9042, 10.0.0.6:9042``."""
        return ", ".join(_render_host(host, port) for host, port in self.hosts)


def is_cassandra_url(text: str) -> bool:
    """Return whether the text names a store on Cassandra, well-formed or not."""
    return text.partition(":")[0].lower() == SCHEME and "://" in text


def parse_url(text: str) -> CassandraUrl:
    """Return the store that ``cassandra://[user@]host[:port][,host…]/keyspace?…`` names.

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
    user, hosts = _user_and_hosts(parts)
    options = _options_of(parts)
    timeout = options.get("timeout")
    return CassandraUrl(
        hosts=hosts,
        keyspace=_keyspace_of(parts),
        user=user,
        local_dc=options.get("local_dc"),
        consistency=options.get("consistency", CONSISTENCY_DEFAULT).upper(),
        timeout_s=TIMEOUT_DEFAULT_S if timeout is None else parse_duration_s(timeout),
    )


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
    query = f"?{urlencode(options)}" if options else ""
    return f"{SCHEME}://{user}{hosts}/{url.keyspace}{query}"


def _user_and_hosts(parts: SplitResult) -> tuple[str | None, tuple[tuple[str, int], ...]]:
    before, at, after = parts.netloc.rpartition("@")
    if ":" in before:
        raise UsageError(
            "the address of the store holds a password",
            hint="leave it out and set TREERING_USERNAME and TREERING_PASSWORD: addresses end up "
            "in logs and shell histories",
        )
    if not after:
        raise UsageError("the address of the store names no host", hint=f"as in {_EXAMPLE}")
    hosts = tuple(dict.fromkeys(_parse_host(host) for host in after.split(",")))
    return (unquote(before) or None) if at else None, hosts


def _parse_host(text: str) -> tuple[str, int]:
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
    if port is None:
        return host, PORT_DEFAULT
    if not (port.isascii() and port.isdigit() and 1 <= int(port) <= 65_535):
        raise UsageError(
            f"{port!r} is not a port of the host {host!r}",
            hint="use a number from 1 to 65535; an IPv6 address stands in brackets",
        )
    return host, int(port)


def _render_host(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _keyspace_of(parts: SplitResult) -> str:
    keyspace = parts.path.strip("/")
    if not keyspace:
        raise UsageError(
            "the address of the store names no keyspace", hint=f"put it last, as in {_EXAMPLE}"
        )
    return check_identifier(keyspace, "keyspace")


def _options_of(parts: SplitResult) -> dict[str, str]:
    if parts.fragment:
        raise UsageError(f"the address of the store ends in #{parts.fragment}, which means nothing")
    options: dict[str, str] = {}
    for key, value in parse_qsl(parts.query, keep_blank_values=True):
        if key not in _KEYS:
            hint = f"use {', '.join(_KEYS)}"
            if "pass" in key.lower():
                hint = "a password belongs into TREERING_PASSWORD"
            raise UsageError(f"the address of the store has the unknown option {key!r}", hint=hint)
        if key in options or not value:
            problem = "stands twice" if key in options else "is empty"
            raise UsageError(f"the option {key!r} of the store's address {problem}")
        options[key] = value
    return options
